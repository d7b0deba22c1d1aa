/* SPDX-License-Identifier: Apache-2.0
 *
 * A window of calendar units is found by its index: the whole units from the origin to the local date, divided by the
 * count. The time zone (zone.c) says at which instants this window and the next one begin. Where clocks were set back
 * across midnight, the next window may have begun already: then the index moves forward. Called by wall.c for limits in
 * memory and gossiped ones, and by redis/script.c and redis/script_core.c. */
#include "limits/calendar.h"

#include "base/assert.h"
#include "base/checked.h"
#include "limits/civil.h"

/* A phase is at most half a window and an offset at most 26 hours, so an instant after 1970 lies at most two windows
 * before the origin: ids begin at 1. */
#define ID_OF_ORIGIN 3

#define ORIGIN_WEEK_DAY (-3) /* Monday 1969-12-29 */

/* Whole units between the origin and a local date. */
static int64_t units_of_day(enum weir_calendar unit, int64_t day)
{
    switch (unit) {
    case WEIR_CALENDAR_WEEK:
        return weir_floor_div(day - ORIGIN_WEEK_DAY, 7);
    case WEIR_CALENDAR_MONTH: {
        struct weir_civil civil = weir_civil_from_days(day);
        return (civil.year - 1970) * 12 + civil.month - 1;
    }
    case WEIR_CALENDAR_YEAR:
        return weir_civil_from_days(day).year - 1970;
    case WEIR_CALENDAR_DAY:
    case WEIR_CALENDAR_FIXED:
        break;
    }
    return day;
}

/* The first day of the unit that begins so many units after the origin. */
static int64_t day_of_units(enum weir_calendar unit, int64_t units)
{
    switch (unit) {
    case WEIR_CALENDAR_WEEK:
        return ORIGIN_WEEK_DAY + units * 7;
    case WEIR_CALENDAR_MONTH:
        return weir_civil_days(1970 + weir_floor_div(units, 12), (int)weir_floor_mod(units, 12) + 1, 1);
    case WEIR_CALENDAR_YEAR:
        return weir_civil_days(1970 + units, 1, 1);
    case WEIR_CALENDAR_DAY:
    case WEIR_CALENDAR_FIXED:
        break;
    }
    return units;
}

/* The instant at which window `index` starts; never falls while the index rises. */
static int64_t start_s(const struct weir_calendar_rule *rule, int64_t count, int64_t index)
{
    return weir_zone_first_s(rule->zone, day_of_units(rule->unit, index * count) * WEIR_SECONDS_PER_DAY);
}

static uint64_t to_wall_ns(int64_t utc_s, uint64_t phase_ns)
{
    /* Before 1970 by less than the phase is still after it, once shifted. */
    if (utc_s < 0) {
        uint64_t before_ns = weir_mul_sat((uint64_t)-utc_s, WEIR_NS_PER_SECOND);
        return weir_sub_sat(phase_ns, before_ns);
    }
    return weir_add_sat(weir_mul_sat((uint64_t)utc_s, WEIR_NS_PER_SECOND), phase_ns);
}

/* floor((wall - phase) / second): windows begin at whole seconds, so the second is enough to find one. */
static int64_t shifted_s(uint64_t wall_ns, uint64_t phase_ns)
{
    if (wall_ns >= phase_ns)
        return (int64_t)((wall_ns - phase_ns) / WEIR_NS_PER_SECOND);
    return -(int64_t)weir_div_ceil(phase_ns - wall_ns, WEIR_NS_PER_SECOND);
}

static struct weir_calendar_window fixed_at(uint64_t period_ns, uint64_t phase_ns, uint64_t wall_ns)
{
    weir_assert(period_ns > 0 && phase_ns < period_ns);
    if (wall_ns < phase_ns)
        return (struct weir_calendar_window){ ID_OF_ORIGIN - 1, 0, phase_ns };
    uint64_t index = (wall_ns - phase_ns) / period_ns;
    uint64_t start_ns = index * period_ns + phase_ns; /* at most wall_ns */
    return (struct weir_calendar_window){ index + ID_OF_ORIGIN, start_ns, weir_add_sat(start_ns, period_ns) };
}

struct weir_calendar_window weir_calendar_at(const struct weir_calendar_rule *rule, uint64_t phase_ns, uint64_t wall_ns)
{
    if (rule->unit == WEIR_CALENDAR_FIXED)
        return fixed_at(rule->period_ns, phase_ns, wall_ns);
    int64_t count = rule->count > 0 ? rule->count : 1;
    int64_t utc_s = shifted_s(wall_ns, phase_ns);
    int64_t local_s = utc_s + weir_zone_offset_s(rule->zone, utc_s);
    int64_t day = weir_floor_div(local_s, WEIR_SECONDS_PER_DAY);
    int64_t index = weir_floor_div(units_of_day(rule->unit, day), count);
    int64_t start = start_s(rule, count, index);
    int64_t end = start_s(rule, count, index + 1);
    /* The wall may have shown a later date already: clocks set back across midnight. */
    while (end <= utc_s) {
        index++;
        start = end;
        end = start_s(rule, count, index + 1);
    }
    weir_assert(start <= utc_s && index + ID_OF_ORIGIN > 0);
    return (struct weir_calendar_window){
        .id = (uint64_t)(index + ID_OF_ORIGIN),
        .start_wall_ns = to_wall_ns(start, phase_ns),
        .end_wall_ns = to_wall_ns(end, phase_ns),
    };
}
