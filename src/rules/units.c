/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers with units: rates, durations and sizes, as people write them. No library call that reads a locale, skips
 * spaces or wraps. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fault_format.h"
#include "rules/config.h"
#include "rules/number.h"
#include "rules/request.h"

#define SECOND WEIR_NS_PER_SECOND
#define DAY (86400 * SECOND)

static const struct {
    const char *name;
    uint64_t ns;
    enum weir_calendar calendar;
} units[] = {
    { "ms", SECOND / 1000, WEIR_CALENDAR_FIXED },   { "s", SECOND, WEIR_CALENDAR_FIXED },
    { "sec", SECOND, WEIR_CALENDAR_FIXED },         { "min", 60 * SECOND, WEIR_CALENDAR_FIXED },
    { "hour", 3600 * SECOND, WEIR_CALENDAR_FIXED }, { "day", DAY, WEIR_CALENDAR_DAY },
    { "week", 7 * DAY, WEIR_CALENDAR_WEEK },        { "month", 30 * DAY, WEIR_CALENDAR_MONTH },
    { "year", 365 * DAY, WEIR_CALENDAR_YEAR },
};

#define UNIT_NAMES "ms s sec min hour day week month year"

/* "90s" or, where a bare unit is enough, "min". */
static int period_parse(const char *text, bool bare_unit, const char *field, uint64_t *ret_ns, uint64_t *ret_units,
                        enum weir_calendar *ret_calendar, struct weir_fault *fault)
{
    uint64_t number = 1;
    const char *at = text;
    int error = weir_number_scan(&at, &number);
    if (error == WEIR_ERANGE)
        return weir_fault_format(fault, error, field, "\"%.40s\" is too long: must be at most 3650day", text);
    if (error && !bare_unit)
        return weir_fault_format(fault, error, field,
                                 "\"%.40s\" must be a number and one of " UNIT_NAMES ", such as 10s", text);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(units[i].name, at) != 0)
            continue;
        uint64_t ns;
        if (__builtin_mul_overflow(number, units[i].ns, &ns) || ns > WEIR_FILL_MAX_NS)
            return weir_fault_format(fault, WEIR_ERANGE, field, "\"%.40s\" is too long: must be at most 3650day", text);
        *ret_ns = ns;
        *ret_units = number;
        *ret_calendar = units[i].calendar;
        return 0;
    }
    return weir_fault_format(fault, WEIR_EINVAL, field,
                             "\"%.40s\" has no unit that is known: must be one of " UNIT_NAMES, text);
}

int weir_duration_parse(const char *text, uint64_t *ret_ns, struct weir_fault *ret_fault)
{
    uint64_t number = 0;
    enum weir_calendar calendar = WEIR_CALENDAR_FIXED;
    return period_parse(text, false, "duration", ret_ns, &number, &calendar, ret_fault);
}

void weir_duration_format(uint64_t ms, char *buffer, size_t size)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } parts[] = { { "d", 86400000 }, { "h", 3600000 }, { "min", 60000 }, { "s", 1000 }, { "ms", 1 } };
    const size_t last = sizeof(parts) / sizeof(parts[0]) - 1;
    size_t i = 0;
    while (i < last && ms < parts[i].ms)
        i++;
    uint64_t small_ms = parts[i < last ? i + 1 : last].ms;
    uint64_t smalls = ms / small_ms + (ms % small_ms != 0 ? 1 : 0);
    if (i > 0 && smalls == parts[i - 1].ms / small_ms) /* rounded up to one of the next unit */
        i--;
    uint64_t per = parts[i].ms / small_ms;
    int used = snprintf(buffer, size, "%" PRIu64 "%s", smalls / per, parts[i].name);
    if (smalls % per != 0 && (size_t)used < size)
        (void)snprintf(buffer + used, size - (size_t)used, " %" PRIu64 "%s", smalls % per, parts[i + 1].name);
}

int weir_rate_parse(const char *text, struct weir_limit_spec *ret_spec, struct weir_fault *ret_fault)
{
    uint64_t count = 0;
    uint64_t period_ns = 0;
    uint64_t number = 0;
    enum weir_calendar calendar = WEIR_CALENDAR_FIXED;
    const char *at = text;
    int error = weir_number_scan(&at, &count);
    if (error == WEIR_ERANGE)
        return weir_fault_format(ret_fault, error, "rate", "the count of \"%.40s\" must be 0 to 18446744073709551615",
                                 text);
    if (!error && *at == ',')
        return weir_fault_format(ret_fault, WEIR_EINVAL, "rate",
                                 "\"%.40s\": a number has no commas, 1,000 is written 1000", text);
    if (error || *at != '/')
        return weir_fault_format(ret_fault, WEIR_EINVAL, "rate",
                                 "\"%.40s\" must be COUNT/PERIOD, such as 100/min, 100/90s or 5/250ms", text);
    error = period_parse(at + 1, true, "rate", &period_ns, &number, &calendar, ret_fault);
    if (error)
        return error;
    if (period_ns == 0)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "rate", "the period of \"%.40s\" must be 1ms to 3650day",
                                 text);
    ret_spec->count = count;
    ret_spec->period_ns = period_ns;
    ret_spec->calendar = calendar;
    /* At most 3650 units of a day: the period is at most 10 years. */
    ret_spec->calendar_count = calendar == WEIR_CALENDAR_FIXED ? 0 : (uint32_t)number;
    return 0;
}

int weir_size_parse(const char *text, uint64_t *ret_bytes, struct weir_fault *ret_fault)
{
    static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    uint64_t number = 0;
    const char *at = text;
    int error = weir_number_scan(&at, &number);
    if (error == WEIR_EINVAL)
        return weir_fault_format(ret_fault, error, "size",
                                 "\"%.40s\" must be a number and B, KiB, MiB, GiB or TiB, such as 256MiB", text);
    unsigned shift = 0;
    bool known = *at == '\0';
    for (unsigned i = 0; !error && i < 5 && !known; i++) {
        known = strcmp(at, names[i]) == 0;
        shift = 10 * i;
    }
    if (!error && !known)
        return weir_fault_format(ret_fault, WEIR_EINVAL, "size",
                                 "\"%.40s\" has no unit that is known: must be B, KiB, MiB, GiB or TiB", text);
    if (error || number > (UINT64_MAX >> shift))
        return weir_fault_format(ret_fault, WEIR_ERANGE, "size", "\"%.40s\" must be below 16777216TiB", text);
    *ret_bytes = number << shift;
    return 0;
}

/* The largest unit that divides the period. */
static size_t unit_of(uint64_t period_ns)
{
    size_t i = sizeof(units) / sizeof(units[0]) - 1;
    while (i > 0 && (period_ns % units[i].ns != 0 || strcmp(units[i].name, "sec") == 0))
        i--;
    return i;
}

void weir_period_format(uint64_t ns, char *buffer, size_t size)
{
    size_t i = unit_of(ns);
    (void)snprintf(buffer, size, "%" PRIu64 "%s", ns / units[i].ns, units[i].name);
}

void weir_rate_format(const struct weir_limit_spec *spec, char *buffer, size_t size)
{
    size_t i = unit_of(spec->period_ns);
    uint64_t number = spec->period_ns / units[i].ns;
    if (spec->algorithm == WEIR_CONCURRENCY) /* the lease is no period */
        (void)snprintf(buffer, size, "%" PRIu64, spec->count);
    else if (number == 1)
        (void)snprintf(buffer, size, "%" PRIu64 "/%s", spec->count, units[i].name);
    else
        (void)snprintf(buffer, size, "%" PRIu64 "/%" PRIu64 "%s", spec->count, number, units[i].name);
}
