/* SPDX-License-Identifier: Apache-2.0
 *
 * Carrying a key's state over to a changed limit. "Used" is what survives: under `keep`, used' = max(used,
 * capacity' - remaining), so that remaining' = min(remaining, max(0, capacity' - used)). What is used beyond a lowered
 * capacity stays as debt, so that lowering a limit and raising it again forgives nothing. From level to level used' is
 * used: a raise is felt at once, and no bucket that is larger in both would have had more used; nor is anything lost on
 * the way to and fro. `reset` is the callers': they make the key anew (limits/entry.c, limits/redis/script_core.c). */
#include "core/limit/algorithm.h"
#include "core/limit/bucket.h"
#include "core/limit/limit.h"
#include "core/limit/ticks.h"

/* What is used under `from`. The event's window is one of `to`: a calendar window of `from` goes by its end. */
static uint64_t used_before(const struct weir_limit *from, const struct weir_state *state,
                            const struct weir_event *event)
{
    if (!from->calendar || weir_limit_jumped(from, state, event->now_ns))
        return weir_limit_used(from, state, event);
    return weir_ticks_until(state->fresh_at, weir_ticks_at(event->now_ns, from->shift)) > 0 ? state->count : 0;
}

uint64_t weir_limit_carried(const struct weir_limit *from, const struct weir_limit *to, enum weir_on_change on_change,
                            const struct weir_state *state, const struct weir_event *event)
{
    uint64_t used = used_before(from, state, event);
    if (from->algorithm == WEIR_CONCURRENCY && to->algorithm == WEIR_CONCURRENCY)
        return used; /* permits stay where they are; there is no refill by which a raise could be felt */
    if (on_change == WEIR_ON_CHANGE_LEVEL)
        return used;
    if (on_change == WEIR_ON_CHANGE_PROPORTIONAL)
        return from->capacity > 0 ? weir_mul_div_ceil(used, to->capacity, from->capacity) : to->capacity;
    uint64_t remaining = weir_sub_sat(from->capacity, used);
    weir_assert(remaining <= from->capacity);
    return weir_max_u64(used, weir_sub_sat(to->capacity, remaining));
}

/* From bucket to bucket the fraction of a unit is carried too. */
static void convert_bucket(const struct weir_limit *from, const struct weir_limit *to, enum weir_on_change on_change,
                           struct weir_state *state, const struct weir_event *event)
{
    uint64_t ahead = weir_ticks_until(state->fresh_at, weir_ticks_at(event->now_ns, from->shift)), carried;
    weir_assert(from->emission > 0 && to->emission > 0);
    weir_assert(weir_limit_is_bucket(from) && weir_limit_is_bucket(to));
    if (on_change == WEIR_ON_CHANGE_PROPORTIONAL) {
        carried = from->span > 0 ? weir_mul_div_ceil(ahead, to->span, from->span) : to->span;
    } else {
        uint64_t used = weir_mul_div_ceil(ahead, to->emission, from->emission);
        uint64_t remaining = weir_mul_div(weir_sub_sat(from->span, ahead), to->emission, from->emission);
        carried = on_change == WEIR_ON_CHANGE_LEVEL ? used : weir_max_u64(used, weir_sub_sat(to->span, remaining));
    }
    state->fresh_at = weir_ticks_add(weir_ticks_at(event->now_ns, to->shift),
                                     weir_min_u64(carried, WEIR_TICKS_DEBT_MAX));
}

/* The same windows, another number in them: the state stays, and what is used is brought to `carried`. Not on the
 * calendar: two limits of one length may differ in zone or unit. Their state is one number, which moves over anyway. */
static bool same_windows(const struct weir_limit *from, const struct weir_limit *to)
{
    return from->algorithm == to->algorithm && !weir_limit_is_bucket(from) && from->period_ns == to->period_ns &&
           !from->calendar && !to->calendar;
}

static void bring_to(const struct weir_limit *to, struct weir_state *state, const struct weir_event *event,
                     uint64_t used, uint64_t carried)
{
    const struct weir_algorithm_ops *algorithm = weir_algorithm_of(to);
    weir_assert(carried >= used || algorithm->take != NULL); /* of permits nothing is taken */
    if (carried > used)
        algorithm->add(to, state, event, carried - used);
    else if (carried < used)
        algorithm->take(to, state, event, used - carried);
}

void weir_limit_convert(const struct weir_limit *from, const struct weir_limit *to, enum weir_on_change on_change,
                        struct weir_state *state, const struct weir_event *event)
{
    weir_assert(on_change != WEIR_ON_CHANGE_RESET);
    weir_assert(from != to);
    uint64_t carried = weir_limit_carried(from, to, on_change, state, event);
    if (to->algorithm == WEIR_SLIDING_LOG)
        carried = weir_min_u64(carried, WEIR_LOG_MAX);
    if (from->algorithm == WEIR_CONCURRENCY && to->algorithm == WEIR_CONCURRENCY) {
        weir_limit_settle(from, state, event);
        return;
    }
    bool jumped = weir_limit_jumped(from, state, event->now_ns);
    if (!jumped && weir_limit_is_bucket(from) && weir_limit_is_bucket(to)) {
        convert_bucket(from, to, on_change, state, event);
    } else if (!jumped && same_windows(from, to)) {
        bring_to(to, state, event, weir_limit_used(from, state, event), carried);
    } else {
        struct weir_log log = { state->log.times, state->log.room, 0, 0 };
        *state = weir_state_fresh(to, event->now_ns);
        state->log = log;
        bring_to(to, state, event, 0, carried);
    }
}

void weir_limit_owes(struct weir_limit *limit, uint64_t units)
{
    uint64_t ticks = weir_min_u64(weir_mul_sat(units, limit->emission), WEIR_TICKS_SPAN_MAX);
    if (weir_limit_is_bucket(limit) && ticks > limit->span)
        limit->ahead_max += ticks - limit->span;
}

void weir_limit_follow(struct weir_limit *limit, const struct weir_limit *from, uint64_t now_ns)
{
    uint64_t units = from->capacity;
    if (now_ns < from->debt_until_ns)
        units = weir_max_u64(units, from->debt_units);
    uint64_t longest_ns = weir_mul_sat(limit->period_ns, 2);
    if (from->algorithm == WEIR_CONCURRENCY) { /* a permit ends when its holder was told, whatever the lease is now */
        longest_ns = weir_max_u64(longest_ns, from->period_ns);
        longest_ns = weir_max_u64(longest_ns, weir_sub_sat(from->debt_until_ns, now_ns));
    }
    if (weir_limit_is_bucket(limit)) {
        uint64_t ticks = weir_min_u64(weir_mul_sat(units, limit->emission), WEIR_TICKS_DEBT_MAX);
        longest_ns = weir_add_sat(weir_ticks_wait_ns(ticks, now_ns, limit->shift), from->skew_max_ns);
    }
    limit->debt_units = weir_max_u64(weir_max_u64(units, limit->capacity), limit->debt_units);
    limit->debt_until_ns = weir_max_u64(weir_add_sat(now_ns, longest_ns), limit->debt_until_ns);
    weir_assert(limit->debt_units >= limit->capacity && limit->debt_units >= units);
    weir_assert(limit->debt_until_ns >= now_ns);
}
