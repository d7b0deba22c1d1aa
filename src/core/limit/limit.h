/* SPDX-License-Identifier: Apache-2.0
 *
 * core/limit: the arithmetic of one limit over one key. Pure: takes the state, what happened and the time; moves the
 * state forward or leaves it; says what to tell the caller. No clock, no memory, no thread.
 *
 *     struct weir_limit limit;
 *     weir_limit_init(&limit, &spec, skew_max_ns, &fault);
 *     struct weir_state state = weir_state_fresh(&limit, now_ns);
 *     if (weir_limit_judge(&limit, &state, &event, &verdict))       changes nothing
 *         weir_limit_charge(&limit, &state, &event, &verdict);
 *     else if (weir_limit_jumped(&limit, &state, now_ns))
 *         weir_limit_settle(&limit, &state, &event);
 *
 * A decision over several limits judges each first, then charges all or none.
 *
 * Every state has one `fresh_at`: the time from which it equals a fresh one (the TAT of a bucket, the end of a
 * window). It alone says what may be forgotten, and what is forgotten most cheaply. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/limit.h"

/* A limit, compiled. Build it with weir_limit_init; the fields are for reading. */
struct weir_limit {
    enum weir_algorithm algorithm;
    int32_t shift;      /* a tick is 2^-shift ns */
    uint64_t capacity;  /* b, or n for windows; 0 if n is 0 */
    uint64_t emission;  /* buckets: ticks of one unit, rounded up, > 0 */
    uint64_t inverse;   /* buckets: floor((2^64 - 1) / emission) */
    uint64_t span;      /* buckets: capacity * emission; windows: the period; ticks */
    uint64_t ahead_max; /* fresh_at further ahead than this many ticks tells of a clock that came back */
    uint64_t skew_max_ns;
    uint64_t period_ns;
    bool calendar; /* fixed_window whose windows the caller hands in */
    bool reserves; /* there may be reservations: a key may be in debt by them (core/limit/reserve.h) */
    /* Until debt_until_ns a key may have up to debt_units used, though the capacity is less: weir_limit_follow. */
    uint64_t debt_units;
    uint64_t debt_until_ns;
};

/* Where there may be reservations a key may have used so many capacities, or 2^56 ticks of a bucket: what was reserved
 * too low is charged up to there. A log cannot be in debt: it may have one. */
#define WEIR_LIMIT_DEBT 16

static inline bool weir_limit_is_bucket(const struct weir_limit *limit)
{
    return limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET;
}

/* Whether a key's state needs a log. */
static inline bool weir_limit_keeps_log(const struct weir_limit *limit)
{
    return limit->algorithm == WEIR_SLIDING_LOG || limit->algorithm == WEIR_CONCURRENCY;
}

/* In memory that the caller owns. sliding_log: a ring of the times (ns) of admitted units, oldest first. concurrency:
 * two words for each unit that is out, the end (ns) of its permit and the permit's number, in order of their ends;
 * never wrapped, head is 0. */
struct weir_log {
    uint64_t *times;
    uint32_t room; /* entries that fit: 0 or a power of two */
    uint32_t head; /* where the oldest is */
    uint32_t used; /* how many */
};

/* One key's state under one limit. Which fields live depends on the algorithm. */
struct weir_state {
    uint64_t fresh_at; /* ticks, modulo (core/limit/ticks.h) */
    uint64_t window;   /* fixed_window on the calendar: the window's id, < 2^63 */
    uint64_t count;    /* windows: units in the current window */
    uint64_t previous; /* sliding_counter: units in the window before, < 2^63 */
    struct weir_log log;
};

/* The calendar window that holds the time of an event; the core knows no time zone. */
struct weir_window {
    uint64_t id;           /* grows from window to window, < 2^63 */
    uint64_t end_after_ns; /* > 0, from the event's now_ns */
    bool closed;           /* wall time fell back: the window counts as full */
};

struct weir_event {
    uint64_t now_ns;
    uint64_t cost;
    struct weir_window window; /* fixed_window on the calendar only */
    uint64_t delay_max_ns;     /* leaky_bucket: as in struct weir_charge */
    uint64_t permit; /* concurrency, to be charged: the number of the new permit, unique for the key; else 0 */
};

/* Errors: as weir_limit_check. */
int weir_limit_init(struct weir_limit *limit, const struct weir_limit_spec *spec, uint64_t skew_max_ns,
                    struct weir_fault *ret_fault);

/* Of a calendar limit, after weir_limit_init: the zone's wall clocks are put back by at most so much at one time, and
 * that day is so much longer. weir_limit_init allows for a sixteenth of the period; Antarctica/Troll has a day of 26
 * hours, which needs more. */
void weir_limit_zone_falls_back(struct weir_limit *limit, uint64_t back_ns);

/* One key is admitted at most so many units within any `duration_ns` by what the limit says; WEIR_NEVER for
 * concurrency, which bounds no rate. Not counted: what was given back, and what a reset or a change of the limit
 * forgives. A bucket can reach it; windows whose borders lie badly can come within n of it. */
uint64_t weir_limit_most(const struct weir_limit_spec *spec, uint64_t duration_ns);

struct weir_state weir_state_fresh(const struct weir_limit *limit, uint64_t now_ns);

/* Units used now, rounded up: capacity - remaining, or more for a key in debt. */
uint64_t weir_limit_used(const struct weir_limit *limit, const struct weir_state *state,
                         const struct weir_event *event);

/* The smallest wait after which weir_limit_used says at most `most`, if nobody comes; 0 if it does now. */
uint64_t weir_limit_wait_ns(const struct weir_limit *limit, const struct weir_state *state,
                            const struct weir_event *event, uint64_t most);

/* Would `event` be admitted? Fills the verdict with the numbers as they stand, nothing charged. (shadow, full and
 * ticket are the caller's.) */
bool weir_limit_judge(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event,
                      struct weir_verdict *ret_verdict);

/* A newcomer that finds no place: whatever the limit has left, there is none of it before `wait_ns`. */
static inline void weir_verdict_refuse_full(struct weir_verdict *verdict, uint64_t wait_ns)
{
    verdict->admitted = false;
    verdict->full = true;
    verdict->remaining = 0;
    verdict->delay_ns = 0;
    verdict->retry_after_ns = verdict->reset_after_ns = verdict->next_after_ns = wait_ns;
}

/* Whether the state tells of a clock that jumped forward and came back. Judge takes such a key as empty as of now;
 * settle makes it so, and must, refused or not: else it would be empty as of every later now too. */
bool weir_limit_jumped(const struct weir_limit *limit, const struct weir_state *state, uint64_t now_ns);
void weir_limit_settle(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event);

/* Words that the log needs in all before `units` are charged, drained or settled; 0 for a limit without a log. The
 * caller then makes state->log.room at least that (a power of two): weir_log_move. To settle takes the capacity; to
 * drain a jumped key settles it first. */
uint32_t weir_limit_room(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event,
                         uint64_t units);
/* Moves the entries to `times`, which has room for `room` >= log->used of them. */
void weir_log_move(struct weir_log *log, uint64_t *times, uint32_t room);

/* Charges event->cost. Only after judge said yes to the same state and event. Updates the verdict's numbers. */
void weir_limit_charge(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                       struct weir_verdict *verdict);

/* Charges a refused attempt: event->cost, at most down to empty. Updates the verdict's numbers. */
void weir_limit_drain(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                      struct weir_verdict *verdict);

/* Gives up to `units` back, never more than is used; returns how many. concurrency: none, they are somebody's. */
uint64_t weir_limit_refund(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                           uint64_t units);

/* ---- concurrency: permits, by their number. The state has been settled. ---- */

/* How long the permit is still out; 0: it has ended, was given back, or never was. */
uint64_t weir_limit_lease_ns(const struct weir_limit *limit, const struct weir_state *state,
                             const struct weir_event *event, uint64_t permit);
/* A whole lease from now on, unless that would end sooner than it does; the same answer. Never after its end. */
uint64_t weir_limit_renew(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                          uint64_t permit);
/* Gives the permit back: how many units that were; 0 as above. */
uint64_t weir_limit_release(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                            uint64_t permit);

/* ---- changed limits ---- */

/* Units that a key of `from` will have used under `to`, by on_change (never RESET). The event's window is one of
 * `to`'s calendar, here and below. */
uint64_t weir_limit_carried(const struct weir_limit *from, const struct weir_limit *to, enum weir_on_change on_change,
                            const struct weir_state *state, const struct weir_event *event);

/* Words that the log needs in all before a state is carried over, of which `units` will be used under `to`. What lies
 * in the log already is among them. */
uint32_t weir_limit_room_carried(const struct weir_limit *to, const struct weir_state *state,
                                 const struct weir_event *event, uint64_t units);

/* Carries a state from `from` over to `to`. If `to` keeps a log, state->log must have room for
 * weir_limit_room_carried(to, state, event, weir_limit_carried(…)) words. */
void weir_limit_convert(const struct weir_limit *from, const struct weir_limit *to, enum weir_on_change on_change,
                        struct weir_state *state, const struct weir_event *event);

/* Beside enum weir_on_change: the key goes to another level of its limit (docs/exceptions.md), and perhaps back at
 * once, at a node that has not heard of it yet. What is used stays used, no more and no less. */
#define WEIR_ON_CHANGE_LEVEL ((enum weir_on_change)(WEIR_ON_CHANGE_RESET + 1))

/* Before any key has a state: one may come with so many units used, from another level. */
void weir_limit_owes(struct weir_limit *limit, uint64_t units);

/* `limit` replaces `from` at now_ns: until its keys have paid, they may have more used than its capacity. May be
 * called for several. */
void weir_limit_follow(struct weir_limit *limit, const struct weir_limit *from, uint64_t now_ns);
