/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 2, what its two experiments have in common: the ways to read, and what the seed draws of each round. In
 * virtual time it is sim/lab/phone.c, with PostgreSQL cli/lab_phone.c.
 *
 * In each round a user counts a row of theirs up on the phone, waits for a moment, and reads it on the laptop. */
#pragma once

#include "sim/lab/lab.h"
#include "sim/random.h"

#define LAB_PHONE_USERS 8
#define LAB_PHONE_ROUNDS 64
#define LAB_PHONE_WAYS 4
#define LAB_PHONE_LAG_MS                                                                                               \
    {                                                                                                                  \
        0, 50, 250                                                                                                     \
    }                           /* of the primary and the replicas */
#define LAB_PHONE_MOMENT_MS 400 /* at most, between the write and the read */
#define LAB_PHONE_WAIT_MS 5000  /* for a replica to catch up */

enum lab_phone_way { LAB_PHONE_ANY, LAB_PHONE_STICKY, LAB_PHONE_APART, LAB_PHONE_SHARED };

static const char *const lab_phone_ways[LAB_PHONE_WAYS] = { "any replica", "sticky by user", "a token for each device",
                                                            "the user's token" };

struct lab_phone_round {
    unsigned user;
    uint64_t moment_ms;
    unsigned replica; /* of way ANY: 1 or 2 */
};

static inline struct lab_phone_round lab_phone_draw(struct weir_sim_random *random, unsigned number)
{
    uint64_t moment_ms = weir_sim_random_below(random, LAB_PHONE_MOMENT_MS);
    return (struct lab_phone_round){ number % LAB_PHONE_USERS, moment_ms,
                                     1 + (unsigned)weir_sim_random_below(random, 2) };
}

/* What came of one way. */
struct lab_phone_found {
    uint64_t rounds, missed, back, primary, waited_ns;
    double missed_by[LAB_PHONE_ROUNDS]; /* the end of each round */
    bool failed;
};

/* A read in the next round: what was written, what was read there before, and what is read. */
void lab_phone_count(struct lab_phone_found *found, uint64_t written, uint64_t before, uint64_t value, bool primary,
                     uint64_t waited_ns);
void lab_phone_report(const struct lab_phone_found found[LAB_PHONE_WAYS], struct weir_lab_report *report);
