/* SPDX-License-Identifier: Apache-2.0
 *
 * Civil dates of the proleptic Gregorian calendar as day numbers: 1970-01-01 is day 0. No time zone here.
 *
 * Years are counted from 1 March, so that the leap day comes last and the months' lengths repeat (31 30 31 30 31 = 153
 * days in five months); 400 years have 146,097 days. Thread rule: pure. Valid for years within +-10^11. */
#pragma once

#include <stdint.h>

#include "base/assert.h"

#define WEIR_SECONDS_PER_DAY 86400

struct weir_civil {
    int64_t year;
    int month; /* 1 to 12 */
    int day;   /* 1 to 31 */
};

/* a / b and a % b rounded towards minus infinity, b > 0. */
static inline int64_t weir_floor_div(int64_t a, int64_t b)
{
    weir_assert(b > 0);
    return a / b - (a % b < 0);
}

static inline int64_t weir_floor_mod(int64_t a, int64_t b)
{
    return a - weir_floor_div(a, b) * b;
}

/* The day number of a date. `month` must be 1 to 12; `day` may lie outside its month and counts on. */
static inline int64_t weir_civil_days(int64_t year, int month, int64_t day)
{
    weir_assert(month >= 1 && month <= 12);
    int64_t march_year = month >= 3 ? year : year - 1;
    int64_t march_month = month >= 3 ? month - 3 : month + 9;
    int64_t era = weir_floor_div(march_year, 400);
    int64_t year_of_era = march_year - era * 400;
    int64_t day_of_year = (153 * march_month + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468; /* 0000-03-01 is 719,468 days before 1970-01-01 */
}

static inline struct weir_civil weir_civil_from_days(int64_t days)
{
    int64_t shifted = days + 719468;
    int64_t era = weir_floor_div(shifted, 146097);
    int64_t day_of_era = shifted - era * 146097;
    /* Take the leap days before day_of_era out (one in 1,460 days, but not in 36,524, but in 146,096). */
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int march_month = (int)((5 * day_of_year + 2) / 153);
    int month = march_month < 10 ? march_month + 3 : march_month - 9;
    return (struct weir_civil){
        .year = era * 400 + year_of_era + (month <= 2),
        .month = month,
        .day = (int)(day_of_year - (153 * march_month + 2) / 5 + 1),
    };
}
