/* SPDX-License-Identifier: Apache-2.0
 *
 * The hot path: a bucket that has its slot is judged and charged by one swap of 16 bytes, which fails if the slot was
 * given to another key meanwhile. A refusal writes nothing into the table; it is counted. */
#pragma once

#include "core/limit/bucket.h"
#include "limits/memory.h"

enum weir_step {
    WEIR_STEP_ADMITTED,
    WEIR_STEP_REFUSED,
    WEIR_STEP_AGAIN,    /* somebody else was faster */
    WEIR_STEP_LONG_WAY, /* absent, held, written under another limit, or a clock that jumped */
    WEIR_STEP_STALE,    /* the limit is of a set that is gone: nothing has been decided */
};

/* A bucket's state after a charge, told apart from "none". */
static inline uint64_t weir_ticket_make(uint64_t fresh_at)
{
    return fresh_at | UINT64_C(1) << 63;
}

/* To read a limit's words once more takes less than to keep them: the registers are few. */
static inline void read_anew(void)
{
    __atomic_signal_fence(__ATOMIC_ACQUIRE);
}

/* Tries once to charge cost >= 1 under a bucket with ticks of at most 1 ns. `look` says where the key was seen a
 * moment ago; NULL: nowhere yet. `owner` is the record that `limit` is of, NULL if nobody writes that: the id is
 * looked at when all has been read, and if it is another's by then it is the long way that finds out. `told`: with
 * the numbers; else yes or no is enough, and v is nothing. They are written before it is known whether they hold:
 * kept for afterwards they would take more registers than there are. */
static inline __attribute__((always_inline)) enum weir_step weir_one_step(
    struct weir_limiter *limiter, const struct weir_limit *limit, const struct weir_record *owner,
    const weir_limit_id *id, uint64_t hash, const struct weir_look *look, const uint64_t *cost, const uint64_t *now_ns,
    bool told, struct weir_verdict *v)
{
    struct weir_pair seen;
    struct weir_slot *slot = look ? weir_table_see(*look, &seen)
                                  : weir_table_find_of(&limiter->table, hash, weir_id_number(*id), &seen);
    if (!slot || seen.word >> WEIR_TICKS_BITS != (*id & 15))
        return WEIR_STEP_LONG_WAY;
    const uint64_t now = *now_ns << (weir_word(limit, shift) & 63); /* below 0 it is another's, as its id will show */
    const uint64_t ahead = weir_ticks_until(seen.word, now);
    const uint64_t after = ahead + *cost * weir_word(limit, emission); /* which cannot wrap where cost <= capacity */
    if (__builtin_expect(*cost > weir_word(limit, capacity) || after > weir_word(limit, span), false)) {
        if (ahead > weir_word(limit, ahead_max))
            return WEIR_STEP_LONG_WAY;
        if (told) {
            v->capacity = weir_word(limit, capacity);
            read_anew();
            weir_bucket_refuse(limit, ahead, *now_ns, *cost, true, v);
        }
        if (owner && weir_record_id(owner) != *id)
            return WEIR_STEP_LONG_WAY;
        if (!weir_slot_shows(slot, seen))
            return WEIR_STEP_AGAIN;
        if (owner)
            weir_count_refused(limiter, weir_id_number(*id));
        return WEIR_STEP_REFUSED;
    }
    const struct weir_pair next = weir_pair_at(seen, now + after);
    if (told) {
        v->capacity = weir_word(limit, capacity);
        read_anew();
        weir_bucket_admit(limit, ahead, after, *now_ns, true, v);
        v->ticket = weir_ticket_make(weir_pair_fresh_at(next));
    }
    if (owner && weir_record_id(owner) != *id)
        return WEIR_STEP_LONG_WAY;
    return weir_slot_swap(slot, seen, next) ? WEIR_STEP_ADMITTED : WEIR_STEP_AGAIN;
}
