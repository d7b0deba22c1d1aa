/* SPDX-License-Identifier: Apache-2.0
 *
 * When keys under `throttle: hold` had their last output. A table of fixed size that forgets the key whose next output
 * may come soonest when it has no room: what is forgotten is a matter of the timer's lateness only, for the bucket
 * alone keeps the turns. All loops share it under one lock, taken once per output of such a limit. */
#ifndef WEIR_SERVE_HOLD_LANE_H
#define WEIR_SERVE_HOLD_LANE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/limiter.h"

#define WEIR_LANES ((size_t)16384)
#define WEIR_LANE_WAYS 4
#define WEIR_HOLD_GAP_MIN_NS UINT64_C(1000000)

struct weir_lane {
    uint64_t id;       /* of limit and key; 0 = empty */
    uint64_t last_ns;  /* last output */
    uint64_t ready_ns; /* earliest next output */
};

struct weir_lanes {
    pthread_mutex_t lock;
    struct weir_lane lanes[WEIR_LANES];
};

/* An output that wants to go: of which key, and the time its cost takes in the bucket. */
struct weir_lane_claim {
    uint64_t id;
    uint64_t gap_ns;
    uint64_t since_last_ns; /* returned: since the lane's last output; 0 = not known */
};

static inline uint64_t weir_lane_id(uint32_t slot, const struct weir_key *key)
{
    uint64_t id = key->hash ^ ((uint64_t)slot + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return id ? id : 1;
}

void weir_lanes_init(struct weir_lanes *lanes); /* zeroed memory */
void weir_lanes_deinit(struct weir_lanes *lanes);

/* 0: the output goes now, in all its lanes; else the time before which it must not. */
uint64_t weir_lanes_claim(struct weir_lanes *lanes, struct weir_lane_claim *claims, size_t count, uint64_t now_ns);

#endif
