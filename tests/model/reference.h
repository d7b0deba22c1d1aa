/* SPDX-License-Identifier: Apache-2.0
 *
 * A limit, as slow and as plainly right as it can be: the first reference of the model test. Every number of a verdict
 * but `admitted` is found by search ("the smallest wait after which ... holds"), never by formula; a bucket is a level
 * that rises, a log is a list of all its hits; time is 128 bits wide and never wraps.
 *
 * Shared with the core is only the grid: how many ticks a unit takes and how long a tick is, worked out anew here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/limit.h"

__extension__ typedef __int128 wide;

#define REFERENCE_HITS_MAX (2 * 65536)

/* The calendar window that holds an instant; not looked at by other limits. */
struct reference_window {
    uint64_t id;
    uint64_t start_ns;
    uint64_t end_ns;
};

/* One key under one limit. Instants are in ticks unless they say ns. */
struct reference {
    struct weir_limit_spec spec;
    uint64_t capacity;
    int shift;     /* a tick is 2^-shift ns */
    wide emission; /* buckets: ticks of one unit */
    wide span;     /* ticks from empty to full, or of one window */
    wide skew;     /* ticks */
    uint64_t skew_max_ns;
    uint64_t debt_until_ns;        /* until then more than the capacity may honestly be used: the limit was lowered */
    wide level, level_at;          /* buckets: ticks of refill it held then */
    wide end;                      /* windows: the end of the current one; logs: the newest hit's */
    wide count, previous;          /* units in it, and (sliding_counter) in the one before */
    uint64_t window_id;            /* calendar: of the current one */
    struct reference_window asked; /* calendar: of the time asked about */
    wide *hits;                    /* sliding_log: one entry for each unit, oldest first, ns */
    size_t used;
};

/* A fresh key. `hits` stays the caller's: REFERENCE_HITS_MAX entries. */
void reference_init(struct reference *r, const struct weir_limit_spec *spec, uint64_t skew_max_ns, wide *hits);

/* Takes note of the time: a clock that came back leaves the key empty. Before everything else at that time. */
void reference_settle(struct reference *r, uint64_t now_ns, const struct reference_window *window);

/* All after reference_settle with the same time. */
struct weir_verdict reference_judge(const struct reference *r, uint64_t now_ns, uint64_t cost);
void reference_charge(struct reference *r, uint64_t now_ns, uint64_t units);
void reference_drain(struct reference *r, uint64_t now_ns, uint64_t cost);
uint64_t reference_used(const struct reference *r, wide now_ns);
uint64_t reference_remaining(const struct reference *r, wide now_ns);
uint64_t reference_refund(struct reference *r, uint64_t now_ns, uint64_t units);
bool reference_is_fresh(const struct reference *r, wide now_ns);

/* Its windows, too, have been over for that long. */
bool reference_fresh_for(const struct reference *r, uint64_t now_ns, uint64_t ns);
void reference_clear(struct reference *r);

/* The same key under another limit (on_change: keep or proportional), `window` being of its calendar; returns the units
 * then used. */
uint64_t reference_convert(struct reference *r, uint64_t now_ns, const struct weir_limit_spec *spec,
                           const struct reference_window *window, uint64_t skew_max_ns, uint64_t debt_until_ns);
