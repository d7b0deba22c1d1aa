/* SPDX-License-Identifier: Apache-2.0
 *
 * Token buckets without a definition (CL.THROTTLE): the parameters come with the request, the time at which the bucket
 * is full stays. Their slots carry one of a few limit numbers, which only say how fine their ticks are; so nothing can
 * be told about a clock that came back. */
#include "base/fault.h"
#include "base/reserved.h"
#include "limits/one_step.h"

#define PREFETCH_AHEAD 32

static struct weir_limit limit_of(const struct weir_bucket *bucket)
{
    return (struct weir_limit){ .algorithm = WEIR_TOKEN_BUCKET,
                                .shift = bucket->shift,
                                .capacity = bucket->burst,
                                .emission = bucket->emission,
                                .inverse = bucket->inverse,
                                .span = bucket->capacity,
                                .ahead_max = UINT64_MAX };
}

static uint32_t number_of(int32_t shift)
{
    return WEIR_RAW_FIRST + (uint32_t)(shift - WEIR_TICKS_SHIFT_MIN);
}

int weir_bucket_init(struct weir_bucket *bucket, const struct weir_limit_spec *spec, struct weir_fault *ret_fault)
{
    struct weir_limit limit;
    if (weir_reserved_used(spec->reserved, sizeof spec->reserved))
        return weir_fault_set(ret_fault, WEIR_EINVAL, "reserved", WEIR_RESERVED_TEXT);
    struct weir_limit_spec plain = { .count = spec->count, .period_ns = spec->period_ns, .burst = spec->burst };
    int error = weir_limit_init(&limit, &plain, 0, ret_fault);
    if (error)
        return error;
    *bucket = (struct weir_bucket){ .emission = limit.emission,
                                    .inverse = limit.inverse,
                                    .capacity = limit.span,
                                    .burst = limit.capacity,
                                    .shift = limit.shift };
    return 0;
}

int weir_limiter_bucket_key(const struct weir_limiter *limiter, struct weir_slice value, struct weir_key *ret_key)
{
    static const uint8_t no_name[8] = { 0 }; /* where the keys of limits have their limit's */
    if (value.size > WEIR_KEY_BYTES_MAX)
        return WEIR_ERANGE;
    *ret_key = (struct weir_key){ .hash = weir_siphash_joined(&limiter->key, no_name, sizeof no_name, value.data,
                                                              value.size) };
    return 0;
}

/* The same time, in other ticks, rounded up. */
static uint64_t change_ticks(uint64_t fresh_at, int32_t from, int32_t to, uint64_t now_ns)
{
    uint64_t ahead = weir_ticks_until(fresh_at, weir_ticks_at(now_ns, from));
    uint64_t wait_ns = weir_ticks_wait_ns(ahead, now_ns, from);
    return weir_ticks_add(weir_ticks_at(now_ns, to), weir_ticks_of(wait_ns, to, WEIR_TICKS_DEBT_MAX));
}

/* Absent, held, in other ticks or in those of more than 1 ns; a peek, and what costs nothing. */
static void decide_the_long_way(struct weir_limiter *limiter, const struct weir_limit *limit, uint64_t hash,
                                const struct weir_event *event, bool charges, struct weir_verdict *v)
{
    struct weir_held held;
    uint64_t wait_ns;
    uint32_t number = number_of(limit->shift);
    struct weir_state state;
    bool inserts = charges && event->cost <= limit->capacity;
    enum weir_hold result = weir_table_hold(&limiter->table, hash, number,
                                            inserts ? WEIR_ABSENT_INSERT : WEIR_ABSENT_LEAVE, event->now_ns, &held,
                                            &wait_ns);
    (void)weir_entry_newcomer(limiter, limit, event->now_ns, &state);
    if (result != WEIR_HOLD_OK) {
        weir_limit_judge(limit, &state, event, v);
        if (result == WEIR_HOLD_FULL) {
            weir_verdict_refuse_full(v, wait_ns);
            weir_count_full(limiter, number);
        }
        return;
    }
    int32_t shift = weir_table_kind_of(&limiter->table, weir_pair_limit(held.pair)).shift;
    if (!held.newcomer)
        state.fresh_at = weir_pair_fresh_at(held.pair);
    if (shift != limit->shift)
        state.fresh_at = change_ticks(state.fresh_at, shift, limit->shift, event->now_ns);
    if (weir_limit_judge(limit, &state, event, v) && charges) {
        weir_limit_charge(limit, &state, event, v);
        v->ticket = weir_ticket_make(state.fresh_at);
        weir_table_release(&held, number, state.fresh_at);
    } else if (held.newcomer) {
        weir_table_drop(&limiter->table, &held);
    } else {
        weir_table_release(&held, weir_pair_limit(held.pair), weir_pair_fresh_at(held.pair));
    }
}

int weir_limiter_bucket_decide_many(struct weir_limiter *limiter, const struct weir_bucket *buckets,
                                    const struct weir_key *keys, const uint64_t *costs, size_t count,
                                    const struct weir_time *time, unsigned flags, struct weir_verdict *ret_verdicts)
{
    if (count > WEIR_BATCH_MAX)
        return WEIR_ERANGE;
    for (size_t i = 0; i < count; i++)
        if (costs[i] > WEIR_COST_MAX)
            return WEIR_ERANGE;
    uint64_t now_ns = time ? time->now_ns : weir_limiter_time_monotonic(limiter).now_ns;
    if (!weir_table_in_reach(&limiter->table, now_ns))
        weir_limiter_reach(limiter, now_ns);
    struct weir_look looks[PREFETCH_AHEAD];
    for (size_t from = 0; from < count; from += PREFETCH_AHEAD) {
        size_t to = weir_min_u64(count, from + PREFETCH_AHEAD);
        for (size_t i = from; i < to && count > 1; i++)
            looks[i - from] = weir_table_send(&limiter->table, keys[i].hash, number_of(buckets[i].shift));
        for (size_t i = from; i < to && count > 1; i++)
            weir_table_look(&limiter->table, keys[i].hash, &looks[i - from]);
        for (size_t i = from; i < to; i++) {
            const bool charges = costs[i] > 0 && !(flags & WEIR_PEEK);
            struct weir_limit limit = limit_of(&buckets[i]);
            const weir_limit_id number = number_of(limit.shift);
            enum weir_step step = charges && limit.shift >= 0 ? WEIR_STEP_AGAIN : WEIR_STEP_LONG_WAY;
            while (step == WEIR_STEP_AGAIN)
                step = weir_one_step(limiter, &limit, NULL, &number, keys[i].hash, count > 1 ? &looks[i - from] : NULL,
                                     &costs[i], &now_ns, true, &ret_verdicts[i]);
            if (step == WEIR_STEP_LONG_WAY) {
                struct weir_event event = { .now_ns = now_ns, .cost = costs[i] };
                decide_the_long_way(limiter, &limit, keys[i].hash, &event, charges, &ret_verdicts[i]);
            }
        }
    }
    return 0;
}

int weir_limiter_bucket_decide(struct weir_limiter *limiter, const struct weir_bucket *bucket,
                               const struct weir_key *key, uint64_t cost, const struct weir_time *time, unsigned flags,
                               struct weir_verdict *ret_verdict)
{
    return weir_limiter_bucket_decide_many(limiter, bucket, key, &cost, 1, time, flags, ret_verdict);
}

int weir_limiter_bucket_forget(struct weir_limiter *limiter, const struct weir_key *key, bool *ret_found)
{
    struct weir_held held;
    uint64_t wait_ns;
    *ret_found = weir_table_hold(&limiter->table, key->hash, 0, WEIR_ABSENT_LEAVE, 0, &held, &wait_ns) == WEIR_HOLD_OK;
    if (*ret_found)
        weir_table_drop(&limiter->table, &held);
    return 0;
}
