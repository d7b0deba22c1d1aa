/* SPDX-License-Identifier: Apache-2.0
 *
 * What each algorithm answers to the same four questions; limit.c builds judge, charge, drain, refund and settle on
 * them. The state is never one of a jumped clock here. */
#pragma once

#include "core/limit/limit.h"

struct weir_algorithm_ops {
    /* Units used as of the event, rounded up; may pass the capacity for a key in debt. */
    uint64_t (*used)(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event);
    /* The smallest wait after which `used` is at most `most`, if nobody comes. Called with used > most. */
    uint64_t (*wait_ns)(const struct weir_limit *limit, const struct weir_state *state, const struct weir_event *event,
                        uint64_t most);
    /* `units` more are used. */
    void (*add)(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                uint64_t units);
    /* `units` fewer are used; at most `used`. NULL for concurrency: only a permit's own number gives it back. */
    void (*take)(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                 uint64_t units);
};

const struct weir_algorithm_ops *weir_algorithm_of(const struct weir_limit *limit);

extern const struct weir_algorithm_ops weir_algorithm_bucket;
extern const struct weir_algorithm_ops weir_algorithm_fixed;
extern const struct weir_algorithm_ops weir_algorithm_counter;
extern const struct weir_algorithm_ops weir_algorithm_log;
extern const struct weir_algorithm_ops weir_algorithm_concurrency;

/* ---- sliding_counter ---- */

/* The window that an event falls into. Those of a key in use follow each other, and begin where its first one did. */
struct weir_counter_window {
    uint64_t end_after_ns; /* > 0, from the event's now_ns */
    uint64_t count;        /* units in it */
};

struct weir_counter_window weir_counter_window(const struct weir_limit *limit, const struct weir_state *state,
                                               const struct weir_event *event);
/* Puts the key into that window, `used` units being used: what it has less than that came in the window before. A
 * window longer than the limit's counts as a whole one. */
void weir_counter_resume(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                         const struct weir_counter_window *window, uint64_t used);

/* ---- sliding_log ---- */

/* The time of the newest entry, of a log that has one. */
uint64_t weir_log_newest(const struct weir_log *log);
/* Takes up to `units` entries of the time `at` out; how many that were. */
uint64_t weir_log_take_at(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                          uint64_t at, uint64_t units);

/* ---- concurrency ---- */

/* After a clock that came back: no permit is out for longer than a lease from now. */
void weir_concurrency_settle(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event);
/* Words of the log, `units` more included. */
uint64_t weir_concurrency_words(const struct weir_state *state, const struct weir_event *event, uint64_t units);
