/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 9, what its two experiments have in common: rules of a store of three replicas, schedules, and one run of a
 * schedule over replicas that are somebody's. In virtual time it is sim/lab/replicas.c, with three Redis
 * cli/lab_replicas.c.
 *
 * Two holders of a lock add one to a counter. The older one, of token 1, has read 0 and sends its write to each of the
 * three replicas; how late each of these messages comes, the schedule says. The newer one, of token 2, installs its
 * token at some replicas, reads at some, keeps the value of the highest token, and writes to all. A write is
 * acknowledged when two replicas took it. */
#pragma once

#include "sim/lab/lab.h"

#define LAB_REPLICAS 3
#define LAB_REPLICAS_RULES 5
#define LAB_REPLICAS_WRITE 2
#define LAB_REPLICAS_DRAWN 200 /* schedules of each rule that are drawn by the seed */

struct lab_replicas_rule {
    const char *name;
    unsigned install; /* at so many replicas; 0: there are no marks */
    unsigned read;
    bool fences; /* a read raises the mark of the replica that it reads */
};

static const struct lab_replicas_rule lab_replicas_rules[LAB_REPLICAS_RULES] = {
    { "no tokens", 0, 2, false },
    { "installed at 1 of 3", 1, 2, false },
    { "installed at 2 of 3", 2, 2, false },
    { "installed at 2, read at 1", 2, 1, true },
    { "installed at 2, reads fence too", 2, 2, true },
};

struct lab_replicas_value {
    uint64_t token, counter;
};

/* The replicas. Each returns 0, WEIR_EFENCED, or another error, which ends the run. */
struct lab_replicas_store {
    void *context;
    int (*reset)(void *context, unsigned replica); /* no mark, and the value {0, 0} */
    int (*install)(void *context, unsigned replica, uint64_t token);
    int (*read)(void *context, unsigned replica, struct lab_replicas_value *ret_value);
    /* `marked`: raises the mark first, and is refused under a higher one. */
    int (*write)(void *context, unsigned replica, const struct lab_replicas_value *value, bool marked);
};

struct lab_replicas_outcome {
    bool older, newer; /* acknowledged */
    bool lost;         /* the counter is less than the acknowledged updates */
    bool after;        /* the older one was acknowledged though all that it sent came after the install was done */
};

uint64_t lab_replicas_schedules(const struct lab_replicas_rule *rule); /* how many there are */

/* 0, or the store's error. */
int lab_replicas_play(const struct lab_replicas_rule *rule, uint64_t schedule, const struct lab_replicas_store *store,
                      struct lab_replicas_outcome *ret_outcome);

/* Those that the seed draws, over `store`; a series, and numbers. 0, or the store's error. */
int lab_replicas_draw(const struct lab_replicas_rule *rule, uint64_t seed, const struct lab_replicas_store *store,
                      struct weir_lab_report *report);
