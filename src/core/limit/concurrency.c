/* SPDX-License-Identifier: Apache-2.0
 *
 * concurrency: how many units are out now, each under a permit that ends when it is given back or when its lease does.
 * core/lease/holders.h decides the same of locks, with one holder each, and a test runs both side by side. Here a
 * permit may be of several units, and lies in the two words a unit that the table's side storage has room for. */
#include <string.h>

#include "core/limit/algorithm.h"
#include "core/limit/ticks.h"

#define WORDS 2 /* of a unit: the end of its permit, and the permit's number */

static uint64_t end_of(const struct weir_log *log, uint64_t unit)
{
    return log->times[WORDS * unit];
}

static uint64_t number_of(const struct weir_log *log, uint64_t unit)
{
    return log->times[WORDS * unit + 1];
}

static uint64_t units_of(const struct weir_log *log)
{
    return log->used / WORDS;
}

/* How many units' permits have ended. Binary search: the ends ascend. */
static uint64_t ended(const struct weir_log *log, uint64_t now_ns)
{
    uint64_t low = 0, high = units_of(log);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (end_of(log, middle) <= now_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- changing ---- */

static void take_out(struct weir_log *log, uint64_t at, uint64_t units)
{
    weir_assert(at <= units_of(log) && units <= units_of(log) - at);
    uint64_t behind = units_of(log) - at - units;
    if (behind > 0)
        memmove(log->times + WORDS * at, log->times + WORDS * (at + units), WORDS * behind * sizeof log->times[0]);
    log->used -= (uint32_t)(WORDS * units);
}

/* Behind those that end sooner or at the same time: the units of a permit stay side by side. */
static void put_in(struct weir_log *log, uint64_t units, uint64_t end_ns, uint64_t number)
{
    uint64_t at = units_of(log);
    weir_assert(WORDS * units <= log->room - log->used);
    weir_assert(log->head == 0 && log->used % WORDS == 0);
    while (at > 0 && end_of(log, at - 1) > end_ns)
        at--;
    uint64_t behind = units_of(log) - at;
    if (behind > 0)
        memmove(log->times + WORDS * (at + units), log->times + WORDS * at, WORDS * behind * sizeof log->times[0]);
    for (uint64_t i = at; i < at + units; i++) {
        log->times[WORDS * i] = end_ns;
        log->times[WORDS * i + 1] = number;
    }
    log->used += (uint32_t)(WORDS * units);
    weir_assert(log->used <= log->room && units_of(log) == at + units + behind);
    weir_assert(at == 0 || end_of(log, at - 1) <= end_ns);
    weir_assert(behind == 0 || end_of(log, at + units) > end_ns);
}

static void forget_ended(struct weir_log *log, uint64_t now_ns)
{
    uint64_t gone = ended(log, now_ns);
    weir_assert(gone <= units_of(log));
    if (gone > 0)
        take_out(log, 0, gone);
}

/* The key is fresh when the last permit has ended. */
static void set_fresh_at(const struct weir_limit *limit, struct weir_state *state, uint64_t now_ns)
{
    uint64_t units = units_of(&state->log);
    state->fresh_at = weir_ticks_at(units > 0 ? end_of(&state->log, units - 1) : now_ns, limit->shift);
}

/* ---- as every limit ---- */

static uint64_t permits_used(const struct weir_limit *limit, const struct weir_state *state,
                             const struct weir_event *event)
{
    (void)limit;
    return units_of(&state->log) - ended(&state->log, event->now_ns);
}

/* A key of a clock that came back is judged as if it had been settled. */
static uint64_t permits_wait(const struct weir_limit *limit, const struct weir_state *state,
                             const struct weir_event *event, uint64_t most)
{
    weir_assert(most < units_of(&state->log));
    weir_assert(end_of(&state->log, units_of(&state->log) - most - 1) > event->now_ns);
    uint64_t wait_ns = end_of(&state->log, units_of(&state->log) - most - 1) - event->now_ns;
    return weir_limit_jumped(limit, state, event->now_ns) ? weir_min_u64(wait_ns, limit->period_ns) : wait_ns;
}

static void permits_add(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                        uint64_t units)
{
    struct weir_log *log = &state->log;
    forget_ended(log, event->now_ns);
    /* Only what another algorithm left used could pass it: nobody's units, which go with a lease. */
    weir_assert(units_of(log) <= WEIR_PERMITS_MAX);
    units = weir_min_u64(units, WEIR_PERMITS_MAX - units_of(log));
    put_in(log, units, weir_add_sat(event->now_ns, limit->period_ns), event->permit);
    set_fresh_at(limit, state, event->now_ns);
}

const struct weir_algorithm_ops weir_algorithm_concurrency = { permits_used, permits_wait, permits_add, NULL };

void weir_concurrency_settle(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event)
{
    struct weir_log *log = &state->log;
    uint64_t latest_ns = weir_add_sat(event->now_ns, limit->period_ns);
    for (uint64_t i = 0; i < units_of(log); i++)
        log->times[WORDS * i] = weir_min_u64(log->times[WORDS * i], latest_ns);
    set_fresh_at(limit, state, event->now_ns);
}

uint64_t weir_concurrency_words(const struct weir_state *state, const struct weir_event *event, uint64_t units)
{
    uint64_t kept = units_of(&state->log) - ended(&state->log, event->now_ns);
    weir_assert(kept <= units_of(&state->log));
    return weir_mul_sat(weir_add_sat(kept, units), WORDS);
}

/* ---- permits ---- */

/* The first unit of a permit that is out; ret_units is 0 if there is none. */
static uint64_t find(const struct weir_log *log, uint64_t now_ns, uint64_t permit, uint64_t *ret_units)
{
    uint64_t count = units_of(log), at = ended(log, now_ns), end;
    while (at < count && number_of(log, at) != permit)
        at++;
    for (end = at; end < count && number_of(log, end) == permit; end++)
        ;
    *ret_units = permit == 0 ? 0 : end - at; /* 0: nobody's */
    weir_assert(at + *ret_units <= count);
    return at;
}

uint64_t weir_limit_lease_ns(const struct weir_limit *limit, const struct weir_state *state,
                             const struct weir_event *event, uint64_t permit)
{
    uint64_t units, at = find(&state->log, event->now_ns, permit, &units);
    (void)limit;
    return units > 0 ? end_of(&state->log, at) - event->now_ns : 0;
}

uint64_t weir_limit_renew(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                          uint64_t permit)
{
    uint64_t units, at = find(&state->log, event->now_ns, permit, &units);
    if (units == 0)
        return 0;
    uint64_t end_ns = weir_max_u64(end_of(&state->log, at), weir_add_sat(event->now_ns, limit->period_ns));
    weir_assert(end_ns >= end_of(&state->log, at)); /* a lease never becomes shorter */
    take_out(&state->log, at, units);
    put_in(&state->log, units, end_ns, permit);
    set_fresh_at(limit, state, event->now_ns);
    return end_ns - event->now_ns;
}

uint64_t weir_limit_release(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                            uint64_t permit)
{
    uint64_t units, at = find(&state->log, event->now_ns, permit, &units);
    if (units == 0)
        return 0;
    take_out(&state->log, at, units);
    set_fresh_at(limit, state, event->now_ns);
    return units;
}
