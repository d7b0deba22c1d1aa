/* SPDX-License-Identifier: Apache-2.0
 *
 * The four functions of algorithm.h for both buckets, each by how far `fresh_at` lies ahead of now. Called by limit.c
 * and convert.c through weir_algorithm_of, and by core/share/ledger.c. Judging a request is inline in bucket.h;
 * limits/one_step.h judges and charges in one swap. */
#include "core/limit/bucket.h"

#include "core/limit/algorithm.h"

static uint64_t ahead_of(const struct weir_limit *limit, const struct weir_state *state, uint64_t now_ns)
{
    return weir_ticks_until(state->fresh_at, weir_ticks_at(now_ns, limit->shift));
}

static uint64_t bucket_used(const struct weir_limit *limit, const struct weir_state *state,
                            const struct weir_event *event)
{
    return weir_div_ceil(ahead_of(limit, state, event->now_ns), limit->emission);
}

static uint64_t bucket_wait(const struct weir_limit *limit, const struct weir_state *state,
                            const struct weir_event *event, uint64_t most)
{
    uint64_t ahead = ahead_of(limit, state, event->now_ns);
    weir_assert(most <= limit->capacity && ahead > most * limit->emission);
    return weir_ticks_wait_ns(ahead - most * limit->emission, event->now_ns, limit->shift);
}

/* New TAT = max(TAT, now) + units * emission. Only a debt carried over from another limit can meet the bound; seen from
 * a clock that stepped back it lies beyond, and stays. */
static void bucket_add(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                       uint64_t units)
{
    uint64_t now = weir_ticks_at(event->now_ns, limit->shift);
    uint64_t ahead = weir_ticks_until(state->fresh_at, now);
    weir_assert(limit->emission > 0);
    uint64_t more = weir_min_u64(weir_mul_sat(units, limit->emission), WEIR_TICKS_DEBT_MAX);
    state->fresh_at = weir_ticks_add(now, weir_max_u64(ahead, weir_min_u64(ahead + more, WEIR_TICKS_DEBT_MAX)));
    weir_assert(weir_ticks_until(state->fresh_at, now) >= ahead); /* nothing is forgiven by a charge */
}

static void bucket_take(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                        uint64_t units)
{
    uint64_t now = weir_ticks_at(event->now_ns, limit->shift);
    uint64_t ahead = weir_ticks_until(state->fresh_at, now);
    state->fresh_at = weir_ticks_add(now, weir_sub_sat(ahead, weir_mul_sat(units, limit->emission)));
    weir_assert(weir_ticks_until(state->fresh_at, now) <= ahead);
}

const struct weir_algorithm_ops weir_algorithm_bucket = { bucket_used, bucket_wait, bucket_add, bucket_take };
