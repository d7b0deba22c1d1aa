/* SPDX-License-Identifier: Apache-2.0
 *
 * Giving back, by algorithm. Of a token bucket: had the units never been taken, its level would have been that much
 * higher all the time, but never above b. So what is given back is at most b less its highest level since: that much
 * refill was not lost. Of a leaky bucket the end of the queue alone can go, of windows and logs what stands in them. */
#include "core/limit/reserve.h"

#include "core/limit/algorithm.h"
#include "core/limit/ticks.h"

static uint64_t ahead_of(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event)
{
    return weir_ticks_until(state->fresh_at, weir_ticks_at(event->now_ns, limit->shift));
}

/* ---- the mark ---- */

void weir_reserve_mark_init(struct weir_reserve_mark *mark, const struct weir_limit *limit,
                            const struct weir_state *state, const struct weir_event *event, uint64_t epoch)
{
    weir_assert(epoch > 0);
    weir_assert(limit->algorithm != WEIR_CONCURRENCY);
    *mark =
        (struct weir_reserve_mark){ .low = ahead_of(limit, state, event), .scale = WEIR_RESERVE_SCALE, .epoch = epoch };
}

void weir_reserve_see(struct weir_reserve_mark *mark, const struct weir_limit *limit, const struct weir_state *state,
                      const struct weir_event *event)
{
    mark->low = weir_min_u64(mark->low, ahead_of(limit, state, event));
    weir_assert(mark->low <= WEIR_TICKS_MASK && mark->epoch > 0);
}

/* `low` is how far from full a bucket was: it is carried over as a bucket in that state would be now. */
static uint64_t convert_low(const struct weir_reserve_mark *mark, const struct weir_limit *from,
                            const struct weir_limit *to, enum weir_on_change on_change, const struct weir_event *event)
{
    const uint64_t now = weir_ticks_at(event->now_ns, from->shift);
    struct weir_state state = { .fresh_at = weir_ticks_add(now, mark->low) };
    weir_assert(weir_limit_is_bucket(from) && weir_limit_is_bucket(to));
    weir_limit_convert(from, to, on_change, &state, event);
    return ahead_of(to, &state, event);
}

bool weir_reserve_convert(struct weir_reserve_mark *mark, const struct weir_limit *from, const struct weir_limit *to,
                          enum weir_on_change on_change, const struct weir_event *event)
{
    uint64_t scale = mark->scale;
    weir_assert(from != to);
    if (on_change == WEIR_ON_CHANGE_RESET || from->algorithm != to->algorithm)
        return false;
    if (on_change == WEIR_ON_CHANGE_PROPORTIONAL) {
        scale = from->capacity > 0 ? weir_mul_div(scale, to->capacity, from->capacity) : 0;
        if (scale == 0 || scale > INT64_MAX)
            return false;
    }
    if (weir_limit_is_bucket(to))
        mark->low = convert_low(mark, from, to, on_change, event);
    mark->scale = scale;
    return true;
}

uint64_t weir_reserve_rescale(uint64_t units, uint64_t then, uint64_t now)
{
    weir_assert(then > 0 && now > 0);
    return then == now ? units : weir_mul_div(units, now, then);
}

/* ---- parts ---- */

struct weir_reserve_part weir_reserve_part_of(const struct weir_limit *limit, const struct weir_state *state,
                                              uint64_t units)
{
    struct weir_reserve_part part = { .units = units, .at = state->fresh_at };
    weir_assert(limit->algorithm != WEIR_CONCURRENCY);
    if (limit->algorithm == WEIR_TOKEN_BUCKET)
        part.at = 0;
    else if (limit->calendar)
        part.at = state->window;
    else if (limit->algorithm == WEIR_SLIDING_LOG)
        part.at = weir_log_newest(&state->log);
    return part;
}

/* ---- giving back ---- */

static uint64_t back_token(struct weir_reserve_mark *mark, const struct weir_limit *limit, struct weir_state *state,
                           const struct weir_event *event, uint64_t units)
{
    weir_reserve_see(mark, limit, state, event);
    const uint64_t back = weir_min_u64(units, mark->low / limit->emission);
    weir_assert(mark->low <= ahead_of(limit, state, event));
    weir_algorithm_bucket.take(limit, state, event, back);
    weir_reserve_see(mark, limit, state, event); /* for the others it is a level since their reserve */
    return back;
}

static uint64_t back_leaky(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                           uint64_t at, uint64_t units)
{
    const uint64_t ahead = ahead_of(limit, state, event);
    if (state->fresh_at != at)
        return 0;
    const uint64_t back = weir_min_u64(units, ahead / limit->emission);
    weir_assert(back <= units && weir_mul_sat(back, limit->emission) <= ahead);
    weir_algorithm_bucket.take(limit, state, event, back);
    return back;
}

/* Whether the window `at` is the state's, and is not over. */
static bool window_stands(const struct weir_limit *limit, const struct weir_state *state,
                          const struct weir_event *event, uint64_t at)
{
    const bool ahead = ahead_of(limit, state, event) > 0;
    if (!limit->calendar)
        return state->fresh_at == at && ahead;
    return state->window == at && (event->window.id == at || (event->window.id < at && ahead));
}

static uint64_t back_fixed(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                           uint64_t at, uint64_t units)
{
    if (!window_stands(limit, state, event, at))
        return 0;
    const uint64_t before = state->count, back = weir_min_u64(units, before);
    state->count -= back;
    weir_assert(state->count + back == before);
    return back;
}

/* The window of a part ends a period before its `at`: it is the state's newest, or the one before. */
static uint64_t back_counter(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                             uint64_t at, uint64_t units)
{
    const uint64_t ahead = ahead_of(limit, state, event);
    uint64_t *window = NULL;
    if (ahead > 0 && state->fresh_at == at)
        window = &state->count;
    else if (ahead > limit->span && state->fresh_at == weir_ticks_add(at, limit->span))
        window = &state->previous;
    if (!window)
        return 0;
    const uint64_t back = weir_min_u64(units, *window);
    *window -= back;
    weir_assert(back <= units && *window >> 63 == 0);
    return back;
}

uint64_t weir_reserve_back(struct weir_reserve_mark *mark, const struct weir_limit *limit, struct weir_state *state,
                           const struct weir_event *event, uint64_t at, uint64_t units)
{
    uint64_t back = 0;
    weir_assert(limit->algorithm != WEIR_CONCURRENCY);
    if (weir_limit_jumped(limit, state, event->now_ns))
        return 0;
    switch (limit->algorithm) {
    case WEIR_TOKEN_BUCKET:
        back = back_token(mark, limit, state, event, units);
        break;
    case WEIR_LEAKY_BUCKET:
        back = back_leaky(limit, state, event, at, units);
        break;
    case WEIR_FIXED_WINDOW:
        back = back_fixed(limit, state, event, at, units);
        break;
    case WEIR_SLIDING_LOG:
        back = weir_log_take_at(limit, state, event, at, units);
        break;
    case WEIR_SLIDING_COUNTER:
        back = back_counter(limit, state, event, at, units);
        break;
    case WEIR_CONCURRENCY:
    default:
        break;
    }
    weir_assert(back <= units);
    return back;
}

/* ---- charging what was not reserved ---- */

/* Units until the key has used as much as it may. */
static uint64_t room_for(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event)
{
    if (weir_limit_is_bucket(limit)) {
        const uint64_t most = weir_min_u64(weir_mul_sat(limit->span, WEIR_LIMIT_DEBT), WEIR_TICKS_SPAN_MAX);
        return weir_sub_sat(most, ahead_of(limit, state, event)) / limit->emission;
    }
    const uint64_t capacities = limit->algorithm == WEIR_SLIDING_LOG ? 1 : WEIR_LIMIT_DEBT;
    return weir_sub_sat(weir_mul_sat(limit->capacity, capacities), weir_limit_used(limit, state, event));
}

uint64_t weir_reserve_more(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                           uint64_t units)
{
    weir_assert(limit->algorithm != WEIR_CONCURRENCY);
    const uint64_t more = weir_min_u64(units, room_for(limit, state, event));
    if (more > 0)
        weir_algorithm_of(limit)->add(limit, state, event, more);
    weir_assert(more <= units);
    return more;
}
