/* SPDX-License-Identifier: Apache-2.0
 *
 * The hot path: a bucket that has its slot is judged and charged by one swap of 16 bytes, which fails if the slot was
 * given to another key meanwhile. A refusal writes nothing. */
#pragma once

#include "core/limit/bucket.h"
#include "limits/memory.h"

enum weir_step {
    WEIR_STEP_ADMITTED,
    WEIR_STEP_REFUSED,
    WEIR_STEP_LONG_WAY, /* absent, held, written under another limit, a clock that jumped, or ticks of over 1 ns */
    WEIR_STEP_STALE,    /* the limit is of a set that is gone: nothing has been decided */
};

/* What a decision on a bucket goes by of its limit, which others may be writing anew. */
static inline __attribute__((always_inline)) struct weir_limit weir_bucket_copy(const struct weir_limit *limit,
                                                                                int32_t shift)
{
    return (struct weir_limit){ .algorithm = weir_word(limit, algorithm),
                                .shift = shift,
                                .capacity = weir_word(limit, capacity),
                                .emission = weir_word(limit, emission),
                                .inverse = weir_word(limit, inverse),
                                .span = weir_word(limit, span) };
}

/* A bucket's state after a charge, told apart from "none". */
static inline uint64_t weir_ticket_make(uint64_t fresh_at)
{
    return fresh_at | UINT64_C(1) << 63;
}

/* Charges cost >= 1. `look` says where the key was seen a moment ago; NULL: nowhere yet. `owner` is the record that
 * `limit` is of, NULL if nobody writes that: the id is looked at when all has been read, and if it is another's by then
 * it is the long way that finds out. A refusal is counted under its id before its verdict is written: an atomic step
 * waits for all stores that come before it. */
static inline __attribute__((always_inline)) enum weir_step weir_one_step(
    struct weir_limiter *limiter, const struct weir_limit *limit, const struct weir_record *owner, weir_limit_id id,
    uint64_t hash, const struct weir_look *look, uint64_t cost, uint64_t now_ns, struct weir_verdict *v)
{
    struct weir_table *table = &limiter->table;
    uint32_t number = weir_id_number(id);
    int32_t shift = weir_word(limit, shift);
    if (shift < 0)
        return WEIR_STEP_LONG_WAY;
    uint64_t now = weir_ticks_at(now_ns, shift);
    for (;;) {
        struct weir_pair seen;
        struct weir_slot *slot = look ? weir_table_see(table, hash, *look, &seen)
                                      : weir_table_find_free(table, hash, number, &seen);
        if (!slot || (look && !weir_pair_is_free_and_of(seen, number)))
            return WEIR_STEP_LONG_WAY;
        uint64_t ahead = weir_ticks_until(weir_pair_fresh_at(seen), now);
        if (ahead > weir_word(limit, ahead_max))
            return WEIR_STEP_LONG_WAY;
        const struct weir_limit mine = weir_bucket_copy(limit, shift);
        uint64_t remaining = weir_bucket_remaining(&mine, ahead);
        if (cost > remaining) {
            if (owner) {
                if (weir_record_id(owner) != id)
                    return WEIR_STEP_LONG_WAY;
                weir_count_refused(limiter, number);
            }
            weir_bucket_refuse(&mine, ahead, remaining, now_ns, cost, v);
            return WEIR_STEP_REFUSED;
        }
        if (owner && weir_record_id(owner) != id)
            return WEIR_STEP_LONG_WAY;
        uint64_t after = ahead + cost * mine.emission, fresh_at = weir_ticks_add(now, after);
        if (weir_slot_swap(slot, seen, weir_pair_at(seen, fresh_at))) {
            weir_bucket_admit(&mine, ahead, after, remaining - cost, now_ns, v);
            v->ticket = weir_ticket_make(fresh_at);
            return WEIR_STEP_ADMITTED;
        }
    }
}
