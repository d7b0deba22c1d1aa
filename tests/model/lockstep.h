/* SPDX-License-Identifier: Apache-2.0
 *
 * One key under core/limit and under the two references, step by step with the same operations. */
#pragma once

#include "core/limit/limit.h"
#include "exact.h"
#include "reference.h"
#include "stream.h"

#define LOCKSTEP_HITS (1 << 14)

/* How hard the stream was. */
struct shares {
    uint64_t ops, judged, refused, never, boundary, stale, jumps, reloads, refunds, forgotten, drained, in_debt,
        promised;
};

struct lockstep {
    struct stream stream;
    struct weir_limit limit;
    struct weir_state state;
    bool stored;         /* the key has state; else a host would have nothing of it */
    uint64_t *log_times; /* what state.log points at */
    struct reference reference;
    struct exact exact;
    bool tainted; /* a clock went back since the key was last fresh: the exact promise is about honest ones */
    struct exact_hit *exact_hits;
    wide *hits, *hits_scratch;
    uint64_t window_ns; /* calendar windows: their length now */
    uint64_t last_ns;   /* of the last operation */
    uint64_t output_ns; /* leaky_bucket: when the last unit came out, and how many they were */
    uint64_t output_cost;
    struct shares *shares;
};

/* Allocates; a fresh key under a drawn limit. */
void lockstep_create(struct lockstep *l, struct shares *shares);
void lockstep_destroy(struct lockstep *l);
void lockstep_start(struct lockstep *l, uint64_t seed, enum weir_algorithm algorithm);

/* One more operation. Prints what differs and returns false when something does. */
bool lockstep_step(struct lockstep *l);
