/* SPDX-License-Identifier: Apache-2.0
 *
 * The two buckets, as GCRA: the state is one time, TAT = fresh_at, at which the bucket is full (or the queue empty)
 * again. Inline: this is the hot path. Source: ITU-T I.371 annex A, the virtual scheduling algorithm, with
 * T = emission, tau + T = span. */
#ifndef WEIR_CORE_LIMIT_BUCKET_H
#define WEIR_CORE_LIMIT_BUCKET_H

#include "core/limit/limit.h"
#include "core/limit/ticks.h"

/* The numbers of a bucket that is `ahead` ticks from fresh, except admission, cost and delay. */
static inline void weir_bucket_numbers(const struct weir_limit *limit, uint64_t ahead, uint64_t now_ns,
                                       struct weir_verdict *v)
{
    uint64_t remaining = ahead < limit->span ? (limit->span - ahead) / limit->emission : 0;
    v->remaining = remaining;
    v->reset_after_ns = weir_ticks_wait_ns(ahead, now_ns, limit->shift);
    v->next_after_ns = 0;
    if (remaining < limit->capacity)
        v->next_after_ns = weir_ticks_wait_ns(ahead - (limit->span - (remaining + 1) * limit->emission), now_ns,
                                              limit->shift);
}

/* Judges `cost` with the bucket `ahead` ticks from fresh. cost * emission cannot wrap: it is at most span, or never. */
static inline bool weir_bucket_judge(const struct weir_limit *limit, uint64_t ahead, uint64_t now_ns, uint64_t cost,
                                     struct weir_verdict *v)
{
    v->capacity = limit->capacity;
    v->shadow = v->full = false;
    v->ticket = 0;
    v->delay_ns = 0;
    weir_bucket_numbers(limit, ahead, now_ns, v);
    v->admitted = cost <= v->remaining; /* floor((span - ahead) / emission) >= cost: the same as in ticks */
    if (v->admitted) {
        v->retry_after_ns = 0;
        if (limit->algorithm == WEIR_LEAKY_BUCKET)
            v->delay_ns = v->reset_after_ns;
    } else if (cost > limit->capacity) {
        v->retry_after_ns = WEIR_NEVER;
    } else {
        v->retry_after_ns = weir_ticks_wait_ns(ahead - (limit->span - cost * limit->emission), now_ns, limit->shift);
    }
    return v->admitted;
}

#endif
