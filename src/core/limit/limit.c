/* SPDX-License-Identifier: Apache-2.0
 *
 * What is the same for every algorithm: a cost is admitted when it fits into what remains, and every wait is the wait
 * until at most so much is used. */
#include "core/limit/limit.h"

#include "core/limit/algorithm.h"
#include "core/limit/bucket.h"
#include "core/limit/ticks.h"

const struct weir_algorithm_ops *weir_algorithm_of(const struct weir_limit *limit)
{
    static const struct weir_algorithm_ops *const table[] = {
        [WEIR_TOKEN_BUCKET] = &weir_algorithm_bucket,     [WEIR_LEAKY_BUCKET] = &weir_algorithm_bucket,
        [WEIR_FIXED_WINDOW] = &weir_algorithm_fixed,      [WEIR_SLIDING_LOG] = &weir_algorithm_log,
        [WEIR_SLIDING_COUNTER] = &weir_algorithm_counter, [WEIR_CONCURRENCY] = &weir_algorithm_concurrency,
    };
    weir_assert((unsigned)limit->algorithm < sizeof table / sizeof table[0]);
    return table[limit->algorithm];
}

bool weir_limit_jumped(const struct weir_limit *limit, const struct weir_state *state, uint64_t now_ns)
{
    uint64_t ahead = weir_ticks_until(state->fresh_at, weir_ticks_at(now_ns, limit->shift));
    if (ahead <= limit->ahead_max)
        return false;
    uint64_t debt_ns = weir_add_sat(weir_sub_sat(limit->debt_until_ns, now_ns), limit->skew_max_ns);
    return now_ns >= limit->debt_until_ns || weir_ticks_wait_ns(ahead, now_ns, limit->shift) > debt_ns;
}

/* Empty as of now, the log aside (its entries are as many as its capacity: room that only settle may ask for). */
static struct weir_state emptied(const struct weir_limit *limit, const struct weir_event *event)
{
    struct weir_state empty = weir_state_fresh(limit, event->now_ns);
    if (limit->algorithm != WEIR_SLIDING_LOG)
        weir_algorithm_of(limit)->add(limit, &empty, event, limit->capacity);
    return empty;
}

void weir_limit_settle(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event)
{
    if (!weir_limit_jumped(limit, state, event->now_ns))
        return;
    if (limit->algorithm == WEIR_CONCURRENCY) { /* who holds a permit is known, and stays */
        weir_concurrency_settle(limit, state, event);
        return;
    }
    struct weir_log log = { state->log.times, state->log.room, 0, 0 };
    *state = emptied(limit, event);
    state->log = log;
    if (limit->algorithm == WEIR_SLIDING_LOG)
        weir_algorithm_log.add(limit, state, event, limit->capacity);
    /* On the calendar the event says when the window ends, which may be later than any that `limit` allows for. */
    weir_assert(limit->calendar || !weir_limit_jumped(limit, state, event->now_ns));
}

static uint64_t used_now(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event)
{
    return weir_algorithm_of(limit)->used(limit, state, event);
}

uint64_t weir_limit_used(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event)
{
    bool jumped = limit->algorithm != WEIR_CONCURRENCY && weir_limit_jumped(limit, state, event->now_ns);
    return jumped ? limit->capacity : used_now(limit, state, event);
}

uint64_t weir_limit_wait_ns(const struct weir_limit *limit, const struct weir_state *state,
                            const struct weir_event *event, uint64_t most)
{
    struct weir_state empty;
    if (weir_limit_used(limit, state, event) <= most)
        return 0;
    if (limit->algorithm != WEIR_CONCURRENCY && weir_limit_jumped(limit, state, event->now_ns)) {
        if (limit->algorithm == WEIR_SLIDING_LOG) /* as if `capacity` entries lay at now */
            return limit->period_ns;
        empty = emptied(limit, event);
        state = &empty;
    }
    return weir_algorithm_of(limit)->wait_ns(limit, state, event, most);
}

/* The smallest wait after which at most `most` units are used; `used` are now. */
static uint64_t wait_until(const struct weir_limit *limit, const struct weir_state *state,
                           const struct weir_event *event, uint64_t used, uint64_t most)
{
    weir_assert(most <= limit->capacity);
    return used <= most ? 0 : weir_algorithm_of(limit)->wait_ns(limit, state, event, most);
}

/* Remaining, reset and next, as they stand. */
static void fill_numbers(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event,
                         struct weir_verdict *v)
{
    if (weir_limit_is_bucket(limit)) {
        uint64_t ahead = weir_ticks_until(state->fresh_at, weir_ticks_at(event->now_ns, limit->shift));
        weir_bucket_numbers(limit, ahead, event->now_ns, v);
        return;
    }
    uint64_t used = used_now(limit, state, event);
    v->remaining = weir_sub_sat(limit->capacity, used);
    v->reset_after_ns = wait_until(limit, state, event, used, 0);
    v->next_after_ns = v->remaining == limit->capacity
                           ? 0
                           : wait_until(limit, state, event, used, limit->capacity - v->remaining - 1);
    weir_assert(v->remaining <= limit->capacity);
    weir_assert(v->next_after_ns <= v->reset_after_ns);
}

/* A window's verdict, the state not being one of a jumped clock. */
static void judge_window(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event,
                         struct weir_verdict *v)
{
    fill_numbers(limit, state, event, v);
    v->admitted = event->cost <= v->remaining;
    if (event->cost > limit->capacity)
        v->retry_after_ns = WEIR_NEVER;
    else if (!v->admitted)
        v->retry_after_ns = wait_until(limit, state, event, used_now(limit, state, event),
                                       limit->capacity - event->cost);
}

/* By how much a delay is longer than the event can bear. It shrinks as time passes, nanosecond by nanosecond. */
static uint64_t late_by(const struct weir_event *event, uint64_t delay_ns)
{
    if (event->delay_max_ns == 0 || event->cost == 0)
        return 0;
    return weir_sub_sat(delay_ns, event->delay_max_ns == WEIR_DELAY_NONE ? 0 : event->delay_max_ns);
}

/* Whether what fits into the bucket may wait for its turn. */
static bool judge_delay(const struct weir_event *event, struct weir_verdict *v)
{
    uint64_t late_ns = late_by(event, v->delay_ns);
    weir_assert(late_ns <= v->delay_ns);
    if (late_ns == 0)
        return true;
    v->admitted = false;
    v->late = true;
    v->retry_after_ns = late_ns;
    v->delay_ns = 0;
    return false;
}

bool weir_limit_judge(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event,
                      struct weir_verdict *ret_verdict)
{
    struct weir_state empty;
    bool jumped = limit->algorithm != WEIR_CONCURRENCY && weir_limit_jumped(limit, state, event->now_ns);
    if (jumped) {
        empty = emptied(limit, event);
        state = &empty;
    }
    if (weir_limit_is_bucket(limit)) {
        uint64_t ahead = weir_ticks_until(state->fresh_at, weir_ticks_at(event->now_ns, limit->shift));
        return weir_bucket_judge(limit, ahead, event->now_ns, event->cost, ret_verdict) &&
               judge_delay(event, ret_verdict);
    }
    *ret_verdict = (struct weir_verdict){ .capacity = limit->capacity };
    if (jumped && limit->algorithm == WEIR_SLIDING_LOG) { /* as if `capacity` entries lay at now */
        ret_verdict->admitted = event->cost == 0;
        ret_verdict->reset_after_ns = ret_verdict->next_after_ns = limit->capacity > 0 ? limit->period_ns : 0;
        if (event->cost > 0)
            ret_verdict->retry_after_ns = event->cost > limit->capacity ? WEIR_NEVER : limit->period_ns;
        return ret_verdict->admitted;
    }
    judge_window(limit, state, event, ret_verdict);
    return ret_verdict->admitted;
}

void weir_limit_charge(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                       struct weir_verdict *verdict)
{
    if (event->cost == 0)
        return;
    weir_assert(event->cost <= verdict->remaining);
    uint64_t before = verdict->remaining;
    weir_algorithm_of(limit)->add(limit, state, event, event->cost);
    fill_numbers(limit, state, event, verdict);
    weir_assert(verdict->remaining >= before - event->cost); /* no more is gone than was charged */
}

void weir_limit_drain(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                      struct weir_verdict *verdict)
{
    if (weir_limit_jumped(limit, state, event->now_ns)) {
        weir_limit_settle(limit, state, event);
    } else if (weir_limit_is_bucket(limit)) { /* down to empty takes a started unit too */
        uint64_t now = weir_ticks_at(event->now_ns, limit->shift);
        uint64_t ahead = weir_ticks_until(state->fresh_at, now);
        uint64_t more = weir_min_u64(weir_mul_sat(event->cost, limit->emission), limit->span);
        weir_assert(more <= limit->span);
        if (ahead < limit->span)
            state->fresh_at = weir_ticks_add(now, weir_min_u64(ahead + more, limit->span));
    } else {
        uint64_t left = weir_sub_sat(limit->capacity, used_now(limit, state, event));
        if (left > 0 && event->cost > 0)
            weir_algorithm_of(limit)->add(limit, state, event, weir_min_u64(left, event->cost));
    }
    fill_numbers(limit, state, event, verdict);
    if (event->cost <= limit->capacity)
        verdict->retry_after_ns = wait_until(limit, state, event, used_now(limit, state, event),
                                             limit->capacity - event->cost);
    if (limit->algorithm == WEIR_LEAKY_BUCKET) /* as soon as the bucket is fresh, nobody is delayed */
        verdict->retry_after_ns = weir_max_u64(verdict->retry_after_ns, late_by(event, verdict->reset_after_ns));
}

uint64_t weir_limit_refund(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                           uint64_t units)
{
    if (limit->algorithm == WEIR_CONCURRENCY || weir_limit_jumped(limit, state, event->now_ns))
        return 0;
    uint64_t back = weir_min_u64(units, used_now(limit, state, event));
    if (limit->calendar && event->window.closed)
        back = weir_min_u64(back, state->count);
    weir_assert(back <= units);
    if (back > 0)
        weir_algorithm_of(limit)->take(limit, state, event, back);
    return back;
}
