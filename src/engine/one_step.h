/* SPDX-License-Identifier: Apache-2.0
 *
 * The hot path: a bucket that has its slot is judged and charged by one swap of 16 bytes, which fails if the slot was
 * given to another key meanwhile. A refusal writes nothing. */
#ifndef WEIR_ENGINE_ONE_STEP_H
#define WEIR_ENGINE_ONE_STEP_H

#include "core/limit/bucket.h"
#include "engine/memory.h"

enum weir_step {
    WEIR_STEP_DONE,
    /* absent, held, written under another limit, a clock that jumped, or an attempt to be charged */
    WEIR_STEP_LONG_WAY,
};

/* A bucket's state after a charge, told apart from "none". */
static inline uint64_t weir_ticket_make(uint64_t fresh_at)
{
    return fresh_at | UINT64_C(1) << 63;
}

static inline enum weir_step weir_one_step(struct weir_table *table, const struct weir_limit *limit, uint32_t number,
                                           uint64_t hash, uint64_t cost, uint64_t now_ns, bool charges, bool drains,
                                           struct weir_verdict *v)
{
    uint64_t now = weir_ticks_at(now_ns, limit->shift);
    for (;;) {
        struct weir_pair seen;
        struct weir_slot *slot = weir_table_find(table, hash, &seen);
        if (!slot || weir_pair_locked(seen) || weir_pair_limit(seen) != number)
            return WEIR_STEP_LONG_WAY;
        uint64_t ahead = weir_ticks_until(weir_pair_fresh_at(seen), now);
        if (ahead > limit->ahead_max)
            return WEIR_STEP_LONG_WAY;
        if (!weir_bucket_judge(limit, ahead, now_ns, cost, v))
            return charges && drains && cost <= limit->capacity ? WEIR_STEP_LONG_WAY : WEIR_STEP_DONE;
        if (!charges || cost == 0)
            return WEIR_STEP_DONE;
        ahead += cost * limit->emission;
        struct weir_pair next = weir_pair_with(seen, number, now + ahead);
        if (weir_slot_swap(slot, seen, next)) {
            weir_bucket_numbers(limit, ahead, now_ns, v);
            v->ticket = weir_ticket_make(weir_pair_fresh_at(next));
            return WEIR_STEP_DONE;
        }
    }
}

#endif
