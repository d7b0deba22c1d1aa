/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens in share_world.h at random, and to which limits. */
#pragma once

#include "share_world.h"

static inline void world_act(struct world *w)
{
    size_t node = (size_t)test_random_below(&w->random, w->nodes_count);
    uint64_t dice = test_random_below(&w->random, 1000);
    if (dice < 600) {
        world_reserve(w, node, test_random_below(&w->random, dice < 30 ? w->limit.capacity + 2 : 4));
    } else if (dice < 750) {
        while (world_take(w, node, 1)) /* all at once */
            ;
    } else if (dice < 960) {
        while (w->nodes[node].set_aside_count > 0)
            world_resolve(w, node, test_random_below(&w->random, 10) > 0);
    } else if (dice < 965) {
        world_crash(w, node);
    } else if (dice < 970) {
        w->nodes[node].cut_off = !w->nodes[node].cut_off;
    } else if (dice < 975) {
        for (size_t i = 0; i < w->nodes_count; i++)
            w->nodes[i].cut_off = false;
    } else if (dice < 980) {
        struct weir_share_event event = { .kind = WEIR_SHARE_LEAVE };
        world_step(w, node, &event);
    } else if (dice < 985) { /* to the last moment of what is in the pocket */
        uint64_t deadline_ns = w->leased ? w->nodes[node].leased.deadline_ns : w->nodes[node].batched.deadline_ns;
        if (deadline_ns > world_node_ns(w, node) + 2) {
            uint64_t left_ns = deadline_ns - world_node_ns(w, node);
            world_run(w, left_ns - left_ns / 50 - 2);
            while (world_take(w, node, 1))
                ;
        }
    }
}

static inline void world_attack(struct world *w, unsigned actions)
{
    for (unsigned i = 0; i < actions && w->spends_count + 64 < WORLD_SPENDS; i++) {
        uint64_t pause_ns = test_random_below(&w->random, 20) == 0 ? w->ttl_ns / 4 : w->spec.period_ns / 50;
        world_act(w);
        world_run(w, 1 + test_random_below(&w->random, pause_ns));
    }
}

static const struct weir_limit_spec world_specs[] = {
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 20, .period_ns = SECOND, .burst = 40 },
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 100, .period_ns = 10 * SECOND, .burst = 10 },
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 5, .period_ns = 60 * SECOND, .burst = 50 },
    { .algorithm = WEIR_LEAKY_BUCKET, .count = 20, .period_ns = SECOND, .burst = 30 },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 30, .period_ns = 5 * SECOND },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 100, .period_ns = 30 * SECOND },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 30, .period_ns = 5 * SECOND, .align = WEIR_ALIGN_FIRST },
    { .algorithm = WEIR_SLIDING_LOG, .count = 40, .period_ns = 4 * SECOND },
    { .algorithm = WEIR_SLIDING_LOG, .count = 60, .period_ns = 30 * SECOND },
    { .algorithm = WEIR_SLIDING_COUNTER, .count = 40, .period_ns = 4 * SECOND },
    { .algorithm = WEIR_SLIDING_COUNTER, .count = 25, .period_ns = 10 * SECOND },
};
enum { WORLD_SPECS = sizeof world_specs / sizeof world_specs[0] };
