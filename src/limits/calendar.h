/* SPDX-License-Identifier: Apache-2.0
 *
 * Calendar windows: which window of a fixed_window limit an instant falls into.
 *
 * What it decides: FIXED cuts the UTC time line from 1970-01-01T00:00Z into pieces of period_ns. DAY, WEEK, MONTH and
 * YEAR are `count` real units in a time zone: a window starts when the wall first shows (or, where daylight saving
 * jumps over it, has passed) midnight of its first day. A day has 23, 24 or 25 hours, and a date that a zone skipped
 * (Samoa's 2011-12-30) has no window. Multiples are counted from fixed origins in local time: days from 1970-01-01,
 * weeks from Monday 1969-12-29, months and years from January 1970.
 *
 * What it does not: remember anything. Weeks from Sunday. Days that start at another hour: that is what phase_ns
 * shifts, by elapsed time.
 *
 * The windows of one rule and one phase cover the time line without gap or overlap: end of one is start of the next.
 * Ids strictly increase with time. They are comparable only under equal unit, count, period and zone; the phase does
 * not change which window is which.
 *
 * Thread rule: pure. Cost: FIXED one division; else a few binary searches over the zone's changes. Range: any uint64
 * of nanoseconds (to the year 2554); a start before 1970 is given as 0, an end after 2554 as UINT64_MAX. */
#pragma once

#include <stdint.h>

#include "limits/zone.h"
#include "weir/limit.h"

struct weir_calendar_rule {
    enum weir_calendar unit;
    uint32_t count;               /* units in a window; 0 = 1; not for FIXED */
    uint64_t period_ns;           /* FIXED: the length of a window, > 0; else not looked at */
    const struct weir_zone *zone; /* NULL = UTC; not for FIXED; must outlive the rule */
};

struct weir_calendar_window {
    uint64_t id; /* > 0 */
    uint64_t start_wall_ns;
    uint64_t end_wall_ns; /* the first ns that no longer belongs to it */
};

/* The window that holds wall_ns, each window shifted later by phase_ns (`spread`; less than half a window's length). */
struct weir_calendar_window weir_calendar_at(const struct weir_calendar_rule *rule, uint64_t phase_ns,
                                             uint64_t wall_ns);
