/* SPDX-License-Identifier: Apache-2.0
 *
 * The last hour of a server, second by second, in constant space: whoever looks at it shows it what has been counted
 * since the start, and each look makes a row that says what came since the one before. Rows have numbers, so that a
 * reader asks for what came after the last one that it has, whatever the wall clock does meanwhile.
 *
 * A look that comes late makes a row of more than a second; nothing is lost and nothing is made up.
 *
 * Memory: WEIR_HOUR_ROWS rows of some 700 bytes, 2.5 MB, touched as they fill.
 *
 * Thread rule: `look` from one thread at a time; `read` from any. */
#pragma once

#include "observe/histogram.h"
#include "observe/metrics.h"

#define WEIR_HOUR_ROWS 3600
/* Limits that are told apart: those with the lowest slots (observe/metrics.h). Later ones count with
 * WEIR_METRICS_OTHER. */
#define WEIR_HOUR_LIMITS 64

/* Of one limit. */
struct weir_hour_limit {
    uint64_t admitted, refused; /* refused: all that is not admitted, in shadow too */
};

/* Since the start, but for what says otherwise. */
struct weir_hour_totals {
    uint64_t verdicts[WEIR_METRICS_VERDICTS];
    uint64_t requests;  /* and commands taken */
    uint64_t unmatched; /* requests that met no limit */
    uint64_t fallbacks; /* verdicts that an engine did not give */
    uint64_t turns[WEIR_HISTOGRAM_BUCKETS];
    uint64_t connections, keys; /* now */
    struct weir_hour_limit limits[WEIR_HOUR_LIMITS];
};

/* What came between two looks. */
struct weir_hour_row {
    uint64_t number;  /* 1, 2, 3 and so on */
    uint64_t wall_ns; /* of the second look */
    uint64_t span_ns; /* between the two; at least 1 */
    uint64_t verdicts[WEIR_METRICS_VERDICTS];
    uint64_t requests, unmatched, fallbacks;
    uint64_t connections, keys; /* at the second look */
    /* Half of the turns took no longer than this, 99 of 100, and 999 of 1,000: the bound of a bucket of the histogram;
     * 0: there was none, UINT64_MAX: beyond the last bound. */
    uint64_t p50_ns, p99_ns, p999_ns;
    struct {
        uint32_t admitted, refused; /* UINT32_MAX: that many or more */
    } limits[WEIR_HOUR_LIMITS];
};

struct weir_hour;

/* Nothing has been counted yet at `now_ns`. WEIR_ENOMEM. */
int weir_hour_create(uint64_t now_ns, struct weir_hour **ret_hour);
void weir_hour_destroy(struct weir_hour *hour); /* NULL is allowed */

/* Another number for another hour: the numbers of its rows begin anew, and may be larger by now than those of the one
 * before ever were. Made from the time at which it was created; below 2^53. */
uint64_t weir_hour_process(const struct weir_hour *hour);

/* A second has gone by since the last look, but for an eighth: who comes by four times a second comes a little early or
 * late. By the thread that looks. */
bool weir_hour_is_due(const struct weir_hour *hour, uint64_t now_ns);

/* `now_ns`: monotonic, and not below that of the look before. */
void weir_hour_look(struct weir_hour *hour, const struct weir_hour_totals *totals, uint64_t now_ns, uint64_t wall_ns);

/* The oldest rows with a number above `after` that are still there, at most `room`; returns how many. */
size_t weir_hour_read(struct weir_hour *hour, uint64_t after, struct weir_hour_row *ret_rows, size_t room);
/* The number of the newest row; 0: there is none. */
uint64_t weir_hour_newest(struct weir_hour *hour);
