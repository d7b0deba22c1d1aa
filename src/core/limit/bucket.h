/* SPDX-License-Identifier: Apache-2.0
 *
 * The two buckets, as GCRA: the state is one time, TAT = fresh_at, at which the bucket is full (or the queue empty)
 * again. Inline: this is the hot path. Source: ITU-T I.371 annex A, the virtual scheduling algorithm, with
 * T = emission, tau + T = span. */
#pragma once

#include "base/tsan.h"
#include "core/limit/limit.h"
#include "core/limit/ticks.h"

/* A word of a limit that others may be writing anew: as it was at some time, and before what the program reads later
 * with an atomic load (limits/one_step.h asks then whether it was still the limit). On x86-64 any load of a word does
 * that, and the compiler may keep what it has read; an atomic one for every use makes a decision a tenth slower. */
#if defined(__x86_64__) && !defined(WEIR_TSAN)
#define weir_word(limit, field) ((limit)->field)
#else
#define weir_word(limit, field) __atomic_load_n(&(limit)->field, __ATOMIC_ACQUIRE)
#endif

/* floor((span - ahead) / emission), by multiplication: a division would take a quarter of a whole decision. With i =
 * floor((2^64 - 1) / e) and n < 2^57, floor(n * i / 2^64) is the quotient or one less. */
static inline __attribute__((always_inline)) uint64_t weir_bucket_remaining(const struct weir_limit *limit,
                                                                            uint64_t ahead)
{
    if (ahead >= weir_word(limit, span))
        return 0;
    uint64_t left = weir_word(limit, span) - ahead,
             quotient = (uint64_t)((weir_u128)left * weir_word(limit, inverse) >> 64);
    return quotient + (left - quotient * weir_word(limit, emission) >= weir_word(limit, emission));
}

/* The numbers of a bucket that is `ahead` ticks from fresh, with `remaining` units. Every field of the verdict is
 * written just once: zeroing it first costs a third of the whole decision, in stores that cannot be forwarded. */
static inline __attribute__((always_inline)) void weir_bucket_numbers(const struct weir_limit *limit, uint64_t ahead,
                                                                      uint64_t remaining, uint64_t now_ns,
                                                                      struct weir_verdict *v)
{
    weir_debug_assert(remaining <= weir_word(limit, capacity));
    weir_debug_assert(remaining == 0 || ahead + remaining * weir_word(limit, emission) <= weir_word(limit, span));
    v->remaining = remaining;
    v->reset_after_ns = weir_ticks_wait_ns(ahead, now_ns, weir_word(limit, shift));
    v->next_after_ns = 0;
    if (remaining < weir_word(limit, capacity))
        v->next_after_ns = weir_ticks_wait_ns(
            ahead - (weir_word(limit, span) - (remaining + 1) * weir_word(limit, emission)), now_ns,
            weir_word(limit, shift));
}

/* Says yes to a bucket that is `ahead` ticks from fresh before and `ahead_after` after the charge. */
static inline __attribute__((always_inline)) void weir_bucket_admit(const struct weir_limit *limit, uint64_t ahead,
                                                                    uint64_t ahead_after, uint64_t remaining_after,
                                                                    uint64_t now_ns, struct weir_verdict *v)
{
    weir_debug_assert(ahead_after >= ahead);
    weir_bucket_numbers(limit, ahead_after, remaining_after, now_ns, v);
    v->admitted = true;
    v->shadow = v->full = v->late = false;
    v->capacity = weir_word(limit, capacity);
    v->ticket = 0;
    v->retry_after_ns = 0;
    v->delay_ns = weir_word(limit, algorithm) == WEIR_LEAKY_BUCKET
                      ? weir_ticks_wait_ns(ahead, now_ns, weir_word(limit, shift))
                      : 0;
}

/* Says no. cost * emission cannot wrap: it is at most span, or never. */
static inline __attribute__((always_inline)) void weir_bucket_refuse(const struct weir_limit *limit, uint64_t ahead,
                                                                     uint64_t remaining, uint64_t now_ns, uint64_t cost,
                                                                     struct weir_verdict *v)
{
    weir_debug_assert(cost > remaining);
    weir_bucket_numbers(limit, ahead, remaining, now_ns, v);
    v->admitted = v->shadow = v->full = v->late = false;
    v->capacity = weir_word(limit, capacity);
    v->ticket = 0;
    v->retry_after_ns = WEIR_NEVER;
    v->delay_ns = 0;
    if (cost <= weir_word(limit, capacity))
        v->retry_after_ns = weir_ticks_wait_ns(ahead - (weir_word(limit, span) - cost * weir_word(limit, emission)),
                                               now_ns, weir_word(limit, shift));
}

/* Judges `cost`: floor((span - ahead) / emission) >= cost is ahead + cost * emission <= span. */
static inline bool weir_bucket_judge(const struct weir_limit *limit, uint64_t ahead, uint64_t now_ns, uint64_t cost,
                                     struct weir_verdict *v)
{
    uint64_t remaining = weir_bucket_remaining(limit, ahead);
    if (cost <= remaining)
        weir_bucket_admit(limit, ahead, ahead, remaining, now_ns, v);
    else
        weir_bucket_refuse(limit, ahead, remaining, now_ns, cost, v);
    return cost <= remaining;
}
