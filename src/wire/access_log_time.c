/* SPDX-License-Identifier: Apache-2.0
 *
 * Dates, times and durations as logs write them, each told from the others by how it begins. No time zone is known
 * here but what the text itself says: a time without one is UTC. Called by access_log.c. */
#include "wire/access_log.h"

#define NS WEIR_NS_PER_SECOND
#define SECONDS_MIN (INT64_C(365) * 86400)                    /* 1971 */
#define SECONDS_MAX (INT64_C(291) * 365 * 86400 + 70 * 86400) /* 2261 */

struct cursor {
    const char *at, *end;
};

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Exactly `count` digits. */
static bool digits(struct cursor *cursor, int count, int *ret_value)
{
    int value = 0;
    if (cursor->end - cursor->at < count)
        return false;
    for (int i = 0; i < count; i++) {
        if (!is_digit(*cursor->at))
            return false;
        value = 10 * value + (*cursor->at++ - '0');
    }
    *ret_value = value;
    return true;
}

static bool byte(struct cursor *cursor, char expected)
{
    if (cursor->at == cursor->end || *cursor->at != expected)
        return false;
    cursor->at++;
    return true;
}

/* ".123" or ",123": to the nanosecond, the rest is dropped. None is 0. */
static bool fraction(struct cursor *cursor, uint64_t *ret_ns)
{
    uint64_t unit = NS / 10;
    *ret_ns = 0;
    if (cursor->at == cursor->end || (*cursor->at != '.' && *cursor->at != ','))
        return true;
    cursor->at++;
    if (cursor->at == cursor->end || !is_digit(*cursor->at))
        return false;
    for (; cursor->at < cursor->end && is_digit(*cursor->at); cursor->at++, unit /= 10)
        *ret_ns += unit * (uint64_t)(*cursor->at - '0');
    return true;
}

static bool is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Days since 1970; false where there is no such day. */
static bool days_of(int year, int month, int day, int64_t *ret_days)
{
    static const short before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365 };
    if (year < 1970 || month < 1 || month > 12 || day < 1)
        return false;
    int length = before[month] - before[month - 1] + (month == 2 && is_leap(year));
    int64_t passed = year - 1; /* whole years since the year 0 */
    int64_t leaps = passed / 4 - passed / 100 + passed / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
    *ret_days = INT64_C(365) * (year - 1970) + leaps + before[month - 1] + (month > 2 && is_leap(year)) + day - 1;
    return day <= length;
}

/* "+0200", "+02:00", "Z" or nothing. */
static bool offset(struct cursor *cursor, int64_t *ret_seconds)
{
    int hours = 0, minutes = 0;
    *ret_seconds = 0;
    if (cursor->at == cursor->end || byte(cursor, 'Z'))
        return true;
    char sign = *cursor->at++;
    if ((sign != '+' && sign != '-') || !digits(cursor, 2, &hours))
        return false;
    (void)byte(cursor, ':');
    if (!digits(cursor, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *ret_seconds = (sign == '-' ? -1 : 1) * (INT64_C(3600) * hours + 60 * minutes);
    return true;
}

struct moment {
    int year, month, day, hour, minute, second;
    uint64_t fraction_ns;
    int64_t offset;
};

static bool moment_ns(const struct moment *m, uint64_t *ret_ns, bool *ret_fraction)
{
    int64_t days = 0;
    if (!days_of(m->year, m->month, m->day, &days) || m->hour > 23 || m->minute > 59 || m->second > 60)
        return false;
    int64_t seconds = 86400 * days + INT64_C(3600) * m->hour + 60 * m->minute + m->second - m->offset;
    if (seconds < SECONDS_MIN || seconds > SECONDS_MAX)
        return false;
    *ret_ns = (uint64_t)seconds * NS + m->fraction_ns;
    *ret_fraction = m->fraction_ns > 0;
    return true;
}

/* 10/Oct/2000:13:55:36 -0700, with a fraction behind the seconds where somebody added one. */
static bool common(struct cursor cursor, uint64_t *ret_ns, bool *ret_fraction)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct moment m = { 0 };
    if (!digits(&cursor, 2, &m.day) || !byte(&cursor, '/') || cursor.end - cursor.at < 3)
        return false;
    for (int i = 0; i < 12; i++)
        m.month = memcmp(names + (ptrdiff_t)3 * i, cursor.at, 3) == 0 ? i + 1 : m.month;
    cursor.at += 3;
    if (!byte(&cursor, '/') || !digits(&cursor, 4, &m.year) || !byte(&cursor, ':') || !digits(&cursor, 2, &m.hour) ||
        !byte(&cursor, ':') || !digits(&cursor, 2, &m.minute) || !byte(&cursor, ':') ||
        !digits(&cursor, 2, &m.second) || !fraction(&cursor, &m.fraction_ns))
        return false;
    (void)byte(&cursor, ' ');
    return offset(&cursor, &m.offset) && cursor.at == cursor.end && moment_ns(&m, ret_ns, ret_fraction);
}

/* 2000-10-10T13:55:36.123-07:00 */
static bool iso(struct cursor cursor, uint64_t *ret_ns, bool *ret_fraction)
{
    struct moment m = { 0 };
    if (!digits(&cursor, 4, &m.year) || !byte(&cursor, '-') || !digits(&cursor, 2, &m.month) || !byte(&cursor, '-') ||
        !digits(&cursor, 2, &m.day) || (!byte(&cursor, 'T') && !byte(&cursor, ' ')) || !digits(&cursor, 2, &m.hour) ||
        !byte(&cursor, ':') || !digits(&cursor, 2, &m.minute) || !byte(&cursor, ':') ||
        !digits(&cursor, 2, &m.second) || !fraction(&cursor, &m.fraction_ns))
        return false;
    return offset(&cursor, &m.offset) && cursor.at == cursor.end && moment_ns(&m, ret_ns, ret_fraction);
}

/* A whole number and a fraction of it in units of `unit_ns`. False too where it does not fit. */
static bool decimal(struct cursor cursor, uint64_t unit_ns, uint64_t *ret_whole, uint64_t *ret_ns)
{
    uint64_t whole = 0, part = 0;
    if (cursor.at == cursor.end || !is_digit(*cursor.at))
        return false;
    for (; cursor.at < cursor.end && is_digit(*cursor.at); cursor.at++) {
        if (whole > UINT64_MAX / 100)
            return false;
        whole = 10 * whole + (uint64_t)(*cursor.at - '0');
    }
    if (!fraction(&cursor, &part) || cursor.at != cursor.end || whole > UINT64_MAX / 2 / unit_ns)
        return false;
    *ret_whole = whole;
    *ret_ns = whole * unit_ns + part / (NS / unit_ns);
    return true;
}

/* Since 1970, in the unit in which it is a time of ours. */
static bool number(struct cursor cursor, uint64_t *ret_ns, bool *ret_fraction)
{
    static const uint64_t units[] = { NS, NS / 1000, NS / 1000000, 1 };
    uint64_t whole = 0;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (!decimal(cursor, units[i], &whole, ret_ns) || *ret_ns > (uint64_t)SECONDS_MAX * NS)
            continue;
        *ret_fraction = *ret_ns % NS != 0;
        return *ret_ns >= (uint64_t)SECONDS_MIN * NS;
    }
    return false;
}

bool weir_access_time(const char *text, size_t size, uint64_t *ret_ns, bool *ret_fraction)
{
    struct cursor cursor = { text, text + size };
    uint64_t ns = 0;
    bool has_fraction = false;
    if (size > 2 && text[0] == '[' && text[size - 1] == ']')
        cursor = (struct cursor){ text + 1, text + size - 1 };
    size = (size_t)(cursor.end - cursor.at);
    bool good = size > 2 && cursor.at[2] == '/'   ? common(cursor, &ns, &has_fraction)
                : size > 4 && cursor.at[4] == '-' ? iso(cursor, &ns, &has_fraction)
                                                  : number(cursor, &ns, &has_fraction);
    if (!good)
        return false;
    *ret_ns = ns;
    *ret_fraction = has_fraction;
    return true;
}

bool weir_access_duration(const char *text, size_t size, uint64_t unit_ns, uint64_t *ret_ns)
{
    uint64_t whole = 0;
    return decimal((struct cursor){ text, text + size }, unit_ns, &whole, ret_ns);
}
