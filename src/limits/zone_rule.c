/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser reads the text once, character by character. Each date of the rule is turned into a day number (civil.h),
 * then into a local second of the clock in force before the change, and then, with that clock's offset, into UTC.
 * Called by zone_tzif.c. */
#include "limits/zone_rule.h"

#include "base/assert.h"
#include "limits/civil.h"
#include "weir/error.h"

/* What is left of the text. */
struct cursor {
    const char *at;
    const char *end;
};

static bool take(struct cursor *cursor, char wanted)
{
    if (cursor->at == cursor->end || *cursor->at != wanted)
        return false;
    cursor->at++;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* "CET" or "<+03>": at least three characters. */
static bool take_name(struct cursor *cursor)
{
    bool quoted = take(cursor, '<');
    const char *start = cursor->at;
    while (cursor->at < cursor->end) {
        char c = *cursor->at;
        if (!is_letter(c) && !(quoted && (is_digit(c) || c == '+' || c == '-')))
            break;
        cursor->at++;
    }
    return cursor->at - start >= 3 && (!quoted || take(cursor, '>'));
}

static bool take_number(struct cursor *cursor, int min, int max, int *ret_value)
{
    const char *start = cursor->at;
    int value = 0;
    while (cursor->at < cursor->end && is_digit(*cursor->at) && cursor->at - start < 3)
        value = value * 10 + (*cursor->at++ - '0');
    if (cursor->at == start || value < min || value > max)
        return false;
    *ret_value = value;
    return true;
}

/* [+-]hh[:mm[:ss]] */
static bool take_time(struct cursor *cursor, int hours_max, int32_t *ret_s)
{
    bool negative = take(cursor, '-');
    if (!negative)
        take(cursor, '+');
    int hours = 0, minutes = 0, seconds = 0;
    if (!take_number(cursor, 0, hours_max, &hours))
        return false;
    if (take(cursor, ':')) {
        if (!take_number(cursor, 0, 59, &minutes))
            return false;
        if (take(cursor, ':') && !take_number(cursor, 0, 59, &seconds))
            return false;
    }
    int32_t total = hours * 3600 + minutes * 60 + seconds;
    *ret_s = negative ? -total : total;
    return true;
}

static bool take_month_week(struct cursor *cursor, struct weir_zone_rule_date *date)
{
    date->kind = WEIR_ZONE_MONTH_WEEK;
    return take_number(cursor, 1, 12, &date->month) && take(cursor, '.') && take_number(cursor, 1, 5, &date->week) &&
           take(cursor, '.') && take_number(cursor, 0, 6, &date->day);
}

/* ,date[/time] */
static bool take_date(struct cursor *cursor, struct weir_zone_rule_date *ret_date)
{
    struct weir_zone_rule_date date = { .time_s = 2 * 3600 };
    if (!take(cursor, ','))
        return false;
    bool good;
    if (take(cursor, 'M')) {
        good = take_month_week(cursor, &date);
    } else if (take(cursor, 'J')) {
        date.kind = WEIR_ZONE_JULIAN;
        good = take_number(cursor, 1, 365, &date.day);
    } else {
        date.kind = WEIR_ZONE_DAY;
        good = take_number(cursor, 0, 365, &date.day);
    }
    if (!good || (take(cursor, '/') && !take_time(cursor, 167, &date.time_s)))
        return false;
    *ret_date = date;
    return true;
}

int weir_zone_rule_parse(struct weir_zone_rule *rule, const char *text, size_t size)
{
    struct cursor cursor = { text, text + size };
    struct weir_zone_rule parsed = { .has_dst = false };
    int32_t west_s = 0;
    if (!take_name(&cursor) || !take_time(&cursor, 24, &west_s))
        return WEIR_EPROTO;
    parsed.standard_s = -west_s; /* POSIX counts west as positive */
    if (cursor.at < cursor.end) {
        parsed.has_dst = true;
        parsed.dst_s = parsed.standard_s + 3600;
        if (!take_name(&cursor))
            return WEIR_EPROTO;
        if (cursor.at < cursor.end && *cursor.at != ',') {
            if (!take_time(&cursor, 24, &west_s))
                return WEIR_EPROTO;
            parsed.dst_s = -west_s;
        }
        if (!take_date(&cursor, &parsed.to_dst) || !take_date(&cursor, &parsed.to_standard))
            return WEIR_EPROTO;
    }
    if (cursor.at != cursor.end)
        return WEIR_EPROTO;
    *rule = parsed;
    return 0;
}

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Day number of weekday `day` in week `week` of a month. */
static int64_t month_week_day(const struct weir_zone_rule_date *date, int64_t year)
{
    int64_t first = weir_civil_days(year, date->month, 1);
    int64_t first_weekday = weir_floor_mod(first + 4, 7); /* 1970-01-01 was a Thursday, 4 */
    int64_t day = first + weir_floor_mod(date->day - first_weekday, 7) + 7 * (date->week - 1);
    int64_t next_month = date->month == 12 ? weir_civil_days(year + 1, 1, 1)
                                           : weir_civil_days(year, date->month + 1, 1);
    return day < next_month ? day : day - 7;
}

/* The local second at which the change happens, on the clock shown before it. */
static int64_t date_local_s(const struct weir_zone_rule_date *date, int64_t year)
{
    int64_t day = 0;
    switch (date->kind) {
    case WEIR_ZONE_JULIAN:
        day = weir_civil_days(year, 1, date->day + (is_leap(year) && date->day >= 60));
        break;
    case WEIR_ZONE_DAY:
        day = weir_civil_days(year, 1, date->day + 1);
        break;
    case WEIR_ZONE_MONTH_WEEK:
        day = month_week_day(date, year);
        break;
    }
    return day * WEIR_SECONDS_PER_DAY + date->time_s;
}

void weir_zone_rule_year(const struct weir_zone_rule *rule, int64_t year, struct weir_zone_change ret_changes[2])
{
    weir_assert(rule->has_dst);
    struct weir_zone_change to_dst = { date_local_s(&rule->to_dst, year) - rule->standard_s, rule->dst_s };
    struct weir_zone_change to_standard = { date_local_s(&rule->to_standard, year) - rule->dst_s, rule->standard_s };
    bool dst_first = to_dst.at_s < to_standard.at_s;
    ret_changes[0] = dst_first ? to_dst : to_standard;
    ret_changes[1] = dst_first ? to_standard : to_dst;
}
