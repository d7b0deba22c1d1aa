/* SPDX-License-Identifier: Apache-2.0
 *
 * sliding_log: the time of every admitted unit in (t - p, t]. Times never go back within a log: an event older than the
 * newest entry is judged at that entry's time. */
#include "core/limit/algorithm.h"
#include "core/limit/ticks.h"

static uint64_t entry(const struct weir_log *log, uint32_t i)
{
    return log->times[(log->head + i) & (log->room - 1)];
}

static uint64_t judged_at(const struct weir_log *log, uint64_t now_ns)
{
    return log->used > 0 ? weir_max_u64(now_ns, entry(log, log->used - 1)) : now_ns;
}

/* How many of the oldest entries lie at or before t - p. Binary search: the times ascend. */
static uint32_t expired(const struct weir_limit *limit, const struct weir_log *log, uint64_t now_ns)
{
    uint64_t t = judged_at(log, now_ns);
    if (t < limit->period_ns)
        return 0;
    uint32_t low = 0, high = log->used;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (entry(log, middle) <= t - limit->period_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void forget_expired(const struct weir_limit *limit, struct weir_log *log, uint64_t now_ns)
{
    uint32_t gone = expired(limit, log, now_ns);
    if (gone == 0)
        return;
    weir_assert(gone <= log->used && log->used <= log->room);
    log->head = (log->head + gone) & (log->room - 1);
    log->used -= gone;
}

static uint64_t log_used(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event)
{
    return state->log.used - expired(limit, &state->log, event->now_ns);
}

static uint64_t log_wait(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event,
                         uint64_t most)
{
    const struct weir_log *log = &state->log;
    weir_assert(most < log->used);
    uint64_t last_to_go = entry(log, log->used - (uint32_t)most - 1);
    weir_assert(weir_add_sat(last_to_go, limit->period_ns) >= event->now_ns);
    return weir_add_sat(last_to_go, limit->period_ns) - event->now_ns;
}

static void set_fresh_at(const struct weir_limit *limit, struct weir_state *state, uint64_t now_ns)
{
    uint64_t newest = judged_at(&state->log, now_ns);
    weir_assert(newest >= now_ns && state->log.used <= WEIR_LOG_MAX);
    state->fresh_at = weir_ticks_at(now_ns, limit->shift);
    if (state->log.used > 0)
        state->fresh_at = weir_ticks_add(weir_ticks_at(newest, limit->shift), limit->span);
}

static void log_add(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                    uint64_t units)
{
    struct weir_log *log = &state->log;
    uint64_t t = judged_at(log, event->now_ns);
    forget_expired(limit, log, event->now_ns);
    /* What is charged beyond the capacity (a debt) may pass the longest log. The newest entries decide all by then. */
    units = weir_min_u64(units, WEIR_LOG_MAX);
    if (log->used + units > WEIR_LOG_MAX) {
        uint32_t oldest = (uint32_t)(log->used + units - WEIR_LOG_MAX);
        log->head = (log->head + oldest) & (log->room - 1);
        log->used -= oldest;
    }
    weir_assert(units <= log->room - log->used);
    weir_assert((log->room & (log->room - 1)) == 0);
    weir_assert(log->used == 0 || entry(log, log->used - 1) <= t); /* times never go back within a log */
    for (uint64_t i = 0; i < units; i++)
        log->times[(log->head + log->used++) & (log->room - 1)] = t;
    set_fresh_at(limit, state, event->now_ns);
}

static void log_take(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                     uint64_t units)
{
    forget_expired(limit, &state->log, event->now_ns);
    state->log.used -= (uint32_t)weir_min_u64(units, state->log.used);
    set_fresh_at(limit, state, event->now_ns);
}

uint64_t weir_log_newest(const struct weir_log *log)
{
    weir_assert(log->used > 0 && log->used <= log->room);
    return entry(log, log->used - 1);
}

/* The first entry later than `at`; used: there is none. */
static uint32_t later_than(const struct weir_log *log, uint64_t at)
{
    uint32_t low = 0, high = log->used;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (entry(log, middle) <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t weir_log_take_at(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                          uint64_t at, uint64_t units)
{
    struct weir_log *log = &state->log;
    forget_expired(limit, log, event->now_ns);
    const uint32_t end = later_than(log, at);
    uint32_t first = end;
    while (first > 0 && end - first < units && entry(log, first - 1) == at)
        first--;
    const uint32_t taken = end - first;
    weir_assert(taken <= units && end <= log->used);
    for (uint32_t i = end; i < log->used && taken > 0; i++)
        log->times[(log->head + i - taken) & (log->room - 1)] = entry(log, i);
    log->used -= taken;
    set_fresh_at(limit, state, event->now_ns);
    return taken;
}

const struct weir_algorithm_ops weir_algorithm_log = { log_used, log_wait, log_add, log_take };

static uint32_t room_of(uint64_t words)
{
    uint64_t need = weir_max_u64(weir_min_u64(words, WEIR_LOG_MAX), 8);
    uint32_t room = 8;
    while (room < need)
        room *= 2;
    weir_assert(room >= 8 && (room & (room - 1)) == 0);
    weir_assert(room <= WEIR_LOG_MAX);
    return room;
}

uint32_t weir_limit_room(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event,
                         uint64_t units)
{
    if (!weir_limit_keeps_log(limit))
        return 0;
    uint64_t need;
    if (limit->algorithm == WEIR_CONCURRENCY)
        need = weir_concurrency_words(state, event, units);
    else if (weir_limit_jumped(limit, state, event->now_ns))
        need = units;
    else
        need = weir_add_sat(state->log.used - expired(limit, &state->log, event->now_ns), units);
    return room_of(need);
}

uint32_t weir_limit_room_carried(const struct weir_limit *to, const struct weir_state *state,
                                 const struct weir_event *event, uint64_t units)
{
    if (to->algorithm != WEIR_SLIDING_LOG)
        return weir_limit_room(to, state, event, units);
    return room_of(weir_max_u64(state->log.used, units));
}

void weir_log_move(struct weir_log *log, uint64_t *times, uint32_t room)
{
    weir_assert(room >= log->used && (room & (room - 1)) == 0);
    for (uint32_t i = 0; i < log->used; i++)
        times[i] = entry(log, i);
    weir_assert(times != log->times || log->used == 0 || log->head == 0);
    log->times = times;
    log->room = room;
    log->head = 0;
}
