/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 7, what its two experiments have in common. In virtual time it is sim/lab/sticky.c, with PostgreSQL
 * cli/lab_sticky.c.
 *
 * One row is counted up every 20 ms, and users read it every 50 ms at two replicas, of which one is nearly as far as
 * the primary and one is further behind. The near one fails, and comes back. */
#pragma once

#include "sim/lab/lab.h"

#define LAB_STICKY_USERS 6
#define LAB_STICKY_WAYS 2
#define LAB_STICKY_LAG_MS                                                                                              \
    {                                                                                                                  \
        0, 20, 300                                                                                                     \
    } /* of the primary and the replicas */
#define LAB_STICKY_NEAR 1
#define LAB_STICKY_WRITE_MS 20
#define LAB_STICKY_READ_MS 50
#define LAB_STICKY_FAILS_MS 2000
#define LAB_STICKY_BACK_MS 4000
#define LAB_STICKY_END_MS 6000
#define LAB_STICKY_WAIT_MS 2000 /* for a replica to catch up */
#define LAB_STICKY_X "s; the near replica is away from 2 to 4"
#define LAB_STICKY_Y "reads that went back"

enum lab_sticky_way { LAB_STICKY_PLAIN, LAB_STICKY_TRACKED };

static const char *const lab_sticky_ways[LAB_STICKY_WAYS] = { "sticky", "tracked" };

/* Of one user under one way. */
struct lab_sticky_user {
    uint64_t reads, back, failed, primary;
    uint64_t seen; /* the highest value */
    uint64_t step; /* the furthest that a read went back, in counts */
    uint64_t time_ns, longest_ns;
};

struct lab_sticky_board {
    struct lab_sticky_user users[LAB_STICKY_WAYS][LAB_STICKY_USERS];
};

/* The replica that a sticky user reads at while it is there: 1 or 2. */
unsigned lab_sticky_prefers(unsigned user);

void lab_sticky_count(struct lab_sticky_user *user, uint64_t value, bool primary, uint64_t time_ns);
/* The series of the ways, as they stand; the first ones of the report. */
void lab_sticky_sample(const struct lab_sticky_board *board, double at_s, struct weir_lab_report *report);
void lab_sticky_report(const struct lab_sticky_board *board, struct weir_lab_report *report);
