/* SPDX-License-Identifier: Apache-2.0
 *
 * fixed_window and sliding_counter. */
#include "core/limit/algorithm.h"
#include "core/limit/ticks.h"

static uint64_t ahead_of(const struct weir_limit *limit, const struct weir_state *state, uint64_t now_ns)
{
    return weir_ticks_until(state->fresh_at, weir_ticks_at(now_ns, limit->shift));
}

/* ---- fixed_window ---- */

/* Whether the state's window still counts. On the calendar a newer window of the event's ends it. A window later than
 * the event's (a stale event, or wall time that fell back) goes on until its end on the caller's clock. */
static bool fixed_open(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event)
{
    if (limit->calendar && state->window == event->window.id)
        return true;
    if (limit->calendar && state->window < event->window.id)
        return false;
    /* From the first hit, and all given back: the key is fresh, and the next hit is the first again. */
    return (limit->calendar || state->count > 0) && ahead_of(limit, state, event->now_ns) > 0;
}

static uint64_t fixed_used(const struct weir_limit *limit, const struct weir_state *state,
                           const struct weir_event *event)
{
    uint64_t count = fixed_open(limit, state, event) ? state->count : 0;
    return limit->calendar && event->window.closed ? weir_max_u64(count, limit->capacity) : count;
}

static uint64_t fixed_wait(const struct weir_limit *limit, const struct weir_state *state,
                           const struct weir_event *event, uint64_t most)
{
    (void)most;
    if (limit->calendar && (event->window.closed || state->window <= event->window.id))
        return event->window.end_after_ns;
    return weir_ticks_wait_ns(ahead_of(limit, state, event->now_ns), event->now_ns, limit->shift);
}

static void fixed_add(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                      uint64_t units)
{
    uint64_t now = weir_ticks_at(event->now_ns, limit->shift);
    bool open = fixed_open(limit, state, event);
    weir_assert(!limit->calendar || event->window.end_after_ns > 0);
    if (!open)
        state->count = 0;
    state->count = weir_add_sat(state->count, units);
    weir_assert(state->count >= units);
    if (limit->calendar && (!open || state->window == event->window.id)) {
        state->window = event->window.id;
        state->fresh_at = weir_ticks_add(now,
                                         weir_ticks_of(event->window.end_after_ns, limit->shift, WEIR_TICKS_DEBT_MAX));
    } else if (!open) {
        state->fresh_at = weir_ticks_add(now, limit->span);
    }
    weir_assert(!limit->calendar || state->window >= event->window.id); /* no window comes back */
}

static void fixed_take(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                       uint64_t units)
{
    if (fixed_open(limit, state, event))
        state->count = weir_sub_sat(state->count, units);
}

const struct weir_algorithm_ops weir_algorithm_fixed = { fixed_used, fixed_wait, fixed_add, fixed_take };

/* ---- sliding_counter ----
 *
 * Windows are aligned to multiples of the period on the caller's clock. fresh_at is the end of the window after the
 * state's current one; so the distance to it tells which window the event falls into. */

struct counter_view {
    uint64_t previous, current; /* units in the window before the event's and in the event's */
    uint64_t overlap;           /* ticks of the previous window that a period ending now still covers, 1 to period */
    uint64_t fresh_at;          /* the end of the window after the event's */
};

static struct counter_view counter_view_at(const struct weir_limit *limit, const struct weir_state *state,
                                           uint64_t now_ns)
{
    uint64_t period = limit->span;
    /* Without units there is no window to be in: a fresh state's fresh_at is any time, not one of the grid. */
    uint64_t ahead = state->count + state->previous > 0 ? ahead_of(limit, state, now_ns) : 0;
    if (ahead > period) /* in the current window; a stale event counts as at its start */
        return (struct counter_view){ state->previous, state->count, weir_min_u64(ahead - period, period),
                                      state->fresh_at };
    if (ahead > 0)
        return (struct counter_view){ state->count, 0, ahead, weir_ticks_add(state->fresh_at, period) };
    uint64_t now = limit->shift < 0 ? now_ns >> -limit->shift : now_ns;
    weir_assert(period > 0 && period <= WEIR_TICKS_SPAN_MAX + 1);
    uint64_t into = now % period;
    return (struct counter_view){ 0, 0, period - into, weir_ticks_add(now & WEIR_TICKS_MASK, 2 * period - into) };
}

static uint64_t counter_used(const struct weir_limit *limit, const struct weir_state *state,
                             const struct weir_event *event)
{
    struct counter_view view = counter_view_at(limit, state, event->now_ns);
    weir_assert(view.overlap >= 1 && view.overlap <= limit->span);
    return weir_add_sat(weir_mul_div(view.previous, view.overlap, limit->span), view.current);
}

/* The largest overlap at which floor(units * overlap / period) <= most; units > most. */
static uint64_t overlap_for(uint64_t units, uint64_t most, uint64_t period)
{
    weir_assert(units > most && period > 0);
    return weir_mul_div_ceil(most + 1, period, units) - 1;
}

static uint64_t counter_wait(const struct weir_limit *limit, const struct weir_state *state,
                             const struct weir_event *event, uint64_t most)
{
    uint64_t now = weir_ticks_at(event->now_ns, limit->shift);
    struct counter_view view = counter_view_at(limit, state, event->now_ns);
    /* A stale event first waits for the start of the window that it is judged in. */
    uint64_t window_start = weir_ticks_add(view.fresh_at, WEIR_TICKS_MASK + 1 - 2 * limit->span);
    uint64_t ticks = weir_ticks_until(window_start, now);
    if (view.current <= most) /* the previous window's share must shrink */
        ticks += view.overlap - overlap_for(view.previous, most - view.current, limit->span);
    else /* the current window's units must, from the next window on */
        ticks += view.overlap + limit->span - overlap_for(view.current, most, limit->span);
    return weir_ticks_wait_ns(ticks, event->now_ns, limit->shift);
}

static void counter_enter(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event)
{
    struct counter_view view = counter_view_at(limit, state, event->now_ns);
    state->previous = view.previous;
    state->count = view.current;
    state->fresh_at = view.fresh_at;
    weir_assert(view.fresh_at <= WEIR_TICKS_MASK);
}

static void counter_add(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                        uint64_t units)
{
    counter_enter(limit, state, event);
    /* Only a debt carried over could pass 2^62; the slot keeps 63 bits. */
    state->count = weir_min_u64(weir_add_sat(state->count, units), UINT64_C(1) << 62);
    weir_assert(state->previous >> 63 == 0 && state->count >> 63 == 0);
}

/* The largest number of units of which `share` count while `overlap` ticks of their window do. */
static uint64_t units_of_share(uint64_t share, uint64_t overlap, uint64_t period)
{
    weir_assert(overlap > 0 && overlap <= period);
    return weir_min_u64(weir_mul_div_ceil(weir_add_sat(share, 1), period, overlap) - 1, UINT64_C(1) << 62);
}

struct weir_counter_window weir_counter_window(const struct weir_limit *limit, const struct weir_state *state,
                                               const struct weir_event *event)
{
    const struct counter_view view = counter_view_at(limit, state, event->now_ns);
    return (struct weir_counter_window){
        .end_after_ns = weir_ticks_wait_ns(view.overlap, event->now_ns, limit->shift),
        .count = view.current,
    };
}

void weir_counter_resume(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                         const struct weir_counter_window *window, uint64_t used)
{
    const uint64_t left = weir_ticks_of(window->end_after_ns, limit->shift, limit->span);
    weir_assert(window->end_after_ns > 0);
    state->count = weir_min_u64(window->count, UINT64_C(1) << 62);
    state->previous = used > window->count ? units_of_share(used - window->count, left, limit->span) : 0;
    state->fresh_at = weir_ticks_add(weir_ticks_at(event->now_ns, limit->shift), left + limit->span);
}

/* Newest first: the current window's, then as many of the previous one's as make up the rest of its share. */
static void counter_take(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                         uint64_t units)
{
    counter_enter(limit, state, event);
    uint64_t from_current = weir_min_u64(units, state->count);
    state->count -= from_current;
    units -= from_current;
    if (units == 0)
        return;
    struct counter_view view = counter_view_at(limit, state, event->now_ns);
    uint64_t share = weir_mul_div(state->previous, view.overlap, limit->span);
    weir_assert(share <= state->previous && state->count == 0);
    uint64_t left = weir_sub_sat(share, units);
    state->previous = weir_min_u64(state->previous, units_of_share(left, view.overlap, limit->span));
}

const struct weir_algorithm_ops weir_algorithm_counter = { counter_used, counter_wait, counter_add, counter_take };
