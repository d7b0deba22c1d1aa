/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/hold_lane.h"

void weir_lanes_init(struct weir_lanes *lanes)
{
    pthread_mutex_init(&lanes->lock, NULL);
}

void weir_lanes_deinit(struct weir_lanes *lanes)
{
    pthread_mutex_destroy(&lanes->lock);
}

/* The lane of `id`, or the one of its set that is ready soonest. */
static struct weir_lane *find(struct weir_lanes *lanes, uint64_t id)
{
    struct weir_lane *set = &lanes->lanes[id % (WEIR_LANES / WEIR_LANE_WAYS) * WEIR_LANE_WAYS];
    struct weir_lane *soonest = set;
    for (size_t i = 0; i < WEIR_LANE_WAYS; i++) {
        if (set[i].id == id)
            return &set[i];
        if (set[i].ready_ns < soonest->ready_ns)
            soonest = &set[i];
    }
    return soonest;
}

static uint64_t ready_at(struct weir_lanes *lanes, const struct weir_lane_claim *claims, size_t count)
{
    uint64_t ready_ns = 0;
    for (size_t i = 0; i < count; i++) {
        const struct weir_lane *lane = find(lanes, claims[i].id);
        if (lane->id == claims[i].id && lane->ready_ns > ready_ns)
            ready_ns = lane->ready_ns;
    }
    return ready_ns;
}

uint64_t weir_lanes_claim(struct weir_lanes *lanes, struct weir_lane_claim *claims, size_t count, uint64_t now_ns)
{
    pthread_mutex_lock(&lanes->lock);
    uint64_t ready_ns = ready_at(lanes, claims, count);
    bool goes = ready_ns <= now_ns;
    for (size_t i = 0; goes && i < count; i++) {
        struct weir_lane *lane = find(lanes, claims[i].id);
        claims[i].since_last_ns = lane->id == claims[i].id ? now_ns - lane->last_ns : 0;
        *lane = (struct weir_lane){ .id = claims[i].id, .last_ns = now_ns, .ready_ns = now_ns };
        if (claims[i].gap_ns >= WEIR_HOLD_GAP_MIN_NS)
            lane->ready_ns += claims[i].gap_ns;
    }
    pthread_mutex_unlock(&lanes->lock);
    return goes ? 0 : ready_ns;
}
