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

/* Below, `hot` is said by limits/one_step.h: ticks are of at most 1 ns, and others may be writing the limit anew, so
 * that what comes out may mean nothing; the caller finds out. */

/* What is left of a bucket that is `ahead` ticks from fresh. */
struct weir_bucket_left {
    uint64_t units;
    uint64_t next; /* ticks until there is one more, if nobody comes; where `units` is the capacity, nothing */
};

/* floor((span - ahead) / emission), by multiplication: a division would take a quarter of a whole decision. With i =
 * floor((2^64 - 1) / e) and n < 2^57, floor(n * i / 2^64) is the quotient or one less. What is ahead of the span is
 * debt, which comes before the next unit; with no_debt there is none. */
static inline __attribute__((always_inline)) struct weir_bucket_left weir_bucket_left(const struct weir_limit *limit,
                                                                                      uint64_t ahead, bool no_debt)
{
    const uint64_t emission = weir_word(limit, emission), ticks = weir_word(limit, span) - ahead;
    if (!no_debt && (int64_t)ticks < 0)
        return (struct weir_bucket_left){ 0, emission - ticks };
    const uint64_t quotient = (uint64_t)((weir_u128)ticks * weir_word(limit, inverse) >> 64);
    const uint64_t next = emission - (ticks - quotient * emission); /* not above 0 where the quotient is one less */
    const bool one_less = (int64_t)next <= 0;
    return (struct weir_bucket_left){ quotient + one_less, one_less ? next + emission : next };
}

/* Until a bucket is `ticks` further. */
static inline __attribute__((always_inline)) uint64_t weir_bucket_wait_ns(const struct weir_limit *limit,
                                                                          uint64_t ticks, uint64_t now_ns, bool hot)
{
    const int32_t shift = weir_word(limit, shift);
    return hot ? weir_ticks_fine_ns(ticks, shift & 63) : weir_ticks_wait_ns(ticks, now_ns, shift);
}

/* Says yes to a bucket that is `ahead` ticks from fresh before and `ahead_after` after the charge, which is one if it
 * is hot. Every field of the verdict is written just once, here and in the two below: zeroing it first costs a third
 * of the whole decision, in stores that cannot be forwarded. Its capacity is written already. */
static inline __attribute__((always_inline)) void weir_bucket_admit(const struct weir_limit *limit, uint64_t ahead,
                                                                    uint64_t ahead_after, uint64_t now_ns, bool hot,
                                                                    struct weir_verdict *v)
{
    weir_debug_assert(hot || ahead_after >= ahead);
    v->delay_ns = 0;
    if (__builtin_expect(weir_word(limit, algorithm) == WEIR_LEAKY_BUCKET, false))
        v->delay_ns = weir_bucket_wait_ns(limit, ahead, now_ns, hot);
    const struct weir_bucket_left left = weir_bucket_left(limit, ahead_after, hot);
    v->remaining = left.units;
    v->next_after_ns = 0;
    if (hot || left.units < weir_word(limit, capacity))
        v->next_after_ns = weir_bucket_wait_ns(limit, left.next, now_ns, hot);
    v->reset_after_ns = weir_bucket_wait_ns(limit, ahead_after, now_ns, hot);
    v->admitted = true;
    v->shadow = v->full = v->late = false;
    v->ticket = 0;
    v->retry_after_ns = 0;
}

/* Says no. cost * emission cannot wrap: it is at most span, or never. */
static inline __attribute__((always_inline)) void weir_bucket_refuse(const struct weir_limit *limit, uint64_t ahead,
                                                                     uint64_t now_ns, uint64_t cost, bool hot,
                                                                     struct weir_verdict *v)
{
    v->retry_after_ns = WEIR_NEVER;
    if (cost <= weir_word(limit, capacity))
        v->retry_after_ns = weir_bucket_wait_ns(
            limit, ahead - (weir_word(limit, span) - cost * weir_word(limit, emission)), now_ns, hot);
    const struct weir_bucket_left left = weir_bucket_left(limit, ahead, false);
    weir_debug_assert(hot || cost > left.units);
    v->remaining = left.units;
    v->next_after_ns = 0;
    if (left.units < weir_word(limit, capacity))
        v->next_after_ns = weir_bucket_wait_ns(limit, left.next, now_ns, hot);
    v->reset_after_ns = weir_bucket_wait_ns(limit, ahead, now_ns, hot);
    v->admitted = v->shadow = v->full = v->late = false;
    v->ticket = 0;
    v->delay_ns = 0;
}

/* The numbers as they stand. */
static inline void weir_bucket_numbers(const struct weir_limit *limit, uint64_t ahead, uint64_t now_ns,
                                       struct weir_verdict *v)
{
    const struct weir_bucket_left left = weir_bucket_left(limit, ahead, false);
    v->remaining = left.units;
    v->next_after_ns = left.units < limit->capacity ? weir_bucket_wait_ns(limit, left.next, now_ns, false) : 0;
    v->reset_after_ns = weir_bucket_wait_ns(limit, ahead, now_ns, false);
    weir_debug_assert(v->remaining <= limit->capacity);
}

/* Judges `cost`: floor((span - ahead) / emission) >= cost is ahead + cost * emission <= span. */
static inline bool weir_bucket_judge(const struct weir_limit *limit, uint64_t ahead, uint64_t now_ns, uint64_t cost,
                                     struct weir_verdict *v)
{
    const bool admitted = cost == 0 || (cost <= weir_word(limit, capacity) &&
                                        ahead + cost * weir_word(limit, emission) <= weir_word(limit, span));
    v->capacity = weir_word(limit, capacity);
    if (admitted)
        weir_bucket_admit(limit, ahead, ahead, now_ns, false, v);
    else
        weir_bucket_refuse(limit, ahead, now_ns, cost, false, v);
    return admitted;
}
