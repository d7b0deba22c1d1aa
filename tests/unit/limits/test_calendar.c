/* SPDX-License-Identifier: Apache-2.0
 *
 * Calendar windows against libc: the reference walks minute by minute over localtime_r of the same zone and looks at
 * dates only, so it shares neither the reading of zone files nor any calendar arithmetic with the engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "limits/calendar.h"
#include "random.h"

#define SECOND WEIR_NS_PER_SECOND
#define DAY_S INT64_C(86400)
#define YEAR_2100_S INT64_C(4102444800)

static const char *const zones[] = {
    "UTC",          "Europe/Berlin",        "America/New_York",
    "Asia/Kolkata", "Australia/Lord_Howe",  "Africa/Casablanca",
    "Pacific/Apia", "America/Sao_Paulo",    "America/St_Johns",
    "Asia/Gaza",    "America/Scoresbysund", "Africa/Monrovia",
};
#define ZONES (sizeof(zones) / sizeof(zones[0]))

static void use_zone(const char *name)
{
    assert_int_equal(setenv("TZ", name, 1), 0);
    tzset();
}

/* What the wall shows, as a number that orders like the date and time: yyyymmddhhmmss. */
static int64_t wall_stamp(int64_t utc_s)
{
    time_t t = (time_t)utc_s;
    struct tm tm;
    assert_non_null(localtime_r(&t, &tm));
    return ((((tm.tm_year + 1900) * INT64_C(100) + tm.tm_mon + 1) * 100 + tm.tm_mday) * 100 + tm.tm_hour) * 10000 +
           tm.tm_min * 100 + tm.tm_sec;
}

static int64_t midnight_stamp(const struct tm *date)
{
    return ((date->tm_year + 1900) * INT64_C(100) + date->tm_mon + 1) * 100000000 + date->tm_mday * INT64_C(1000000);
}

/* The first second at which the wall shows the date's midnight or later: nothing shows it 27 hours before UTC does. */
static int64_t first_second_of(struct tm date)
{
    int64_t wanted = midnight_stamp(&date);
    date.tm_isdst = 0;
    int64_t at = timegm(&date) - 27 * 3600;
    while (wall_stamp(at) < wanted) {
        at += 60;
    }
    at -= 60;
    while (wall_stamp(at) < wanted) {
        at++;
    }
    return at;
}

/* The first day of the window that holds `date`, and of the next: by libc's own normalisation of dates. */
static void window_dates(enum weir_calendar unit, int count, const struct tm *date, struct tm *ret_from,
                         struct tm *ret_to)
{
    struct tm day = { .tm_year = date->tm_year, .tm_mon = date->tm_mon, .tm_mday = date->tm_mday };
    struct tm from = { .tm_year = 70, .tm_mday = 1 };
    time_t days = timegm(&day) / DAY_S; /* from 1970-01-01 */
    int months = (day.tm_year - 70) * 12 + day.tm_mon;
    if (unit == WEIR_CALENDAR_WEEK) {
        from.tm_mday = (int)((days + 3) / 7 / count * count * 7) - 2; /* 1969-12-29 is "1 January" minus 3 */
    } else if (unit == WEIR_CALENDAR_DAY) {
        from.tm_mday += (int)(days / count * count);
    } else {
        int step = unit == WEIR_CALENDAR_YEAR ? count * 12 : count;
        from.tm_mon = months / step * step;
    }
    struct tm to = from;
    if (unit == WEIR_CALENDAR_MONTH || unit == WEIR_CALENDAR_YEAR) {
        to.tm_mon += unit == WEIR_CALENDAR_YEAR ? count * 12 : count;
    } else {
        to.tm_mday += unit == WEIR_CALENDAR_WEEK ? count * 7 : count;
    }
    timegm(&from);
    timegm(&to);
    *ret_from = from;
    *ret_to = to;
}

/* The window as libc sees it. When clocks were set back over midnight the wall may have shown the next window's date
 * before: then the next window has begun. */
static void reference_window(enum weir_calendar unit, int count, int64_t utc_s, int64_t *ret_start, int64_t *ret_end)
{
    time_t t = (time_t)utc_s;
    struct tm date, from, to;
    assert_non_null(localtime_r(&t, &date));
    window_dates(unit, count, &date, &from, &to);
    *ret_start = first_second_of(from);
    *ret_end = first_second_of(to);
    while (*ret_end <= utc_s) {
        struct tm later = to;
        window_dates(unit, count, &later, &from, &to);
        *ret_start = *ret_end;
        *ret_end = first_second_of(to);
    }
}

static void assert_window(const struct weir_calendar_window *window, uint64_t start, uint64_t end)
{
    assert_true(window->start_wall_ns == start && window->end_wall_ns == end);
}

/* One ns to both sides of both ends, and that neighbours touch and their ids rise. */
static void check_boundaries(const struct weir_calendar_rule *rule, uint64_t phase,
                             const struct weir_calendar_window *window)
{
    struct weir_calendar_window at_start = weir_calendar_at(rule, phase, window->start_wall_ns);
    struct weir_calendar_window before = weir_calendar_at(rule, phase, window->start_wall_ns - 1);
    struct weir_calendar_window last = weir_calendar_at(rule, phase, window->end_wall_ns - 1);
    struct weir_calendar_window next = weir_calendar_at(rule, phase, window->end_wall_ns);
    assert_memory_equal(&at_start, window, sizeof(*window));
    assert_memory_equal(&last, window, sizeof(*window));
    assert_true(before.end_wall_ns == window->start_wall_ns && before.id < window->id);
    assert_true(next.start_wall_ns == window->end_wall_ns && next.id > window->id);
}

static void check_against_libc(const struct weir_calendar_rule *rule, int64_t utc_s, struct test_random *random)
{
    int64_t start = 0, end = 0;
    reference_window(rule->unit, (int)rule->count, utc_s, &start, &end);
    if (start <= 0) {
        return; /* nothing lies before it: see calendar__extreme_times_do_not_wrap */
    }
    uint64_t start_ns = (uint64_t)start * SECOND, end_ns = (uint64_t)end * SECOND;
    uint64_t wall = (uint64_t)utc_s * SECOND + test_random_below(random, SECOND);
    struct weir_calendar_window window = weir_calendar_at(rule, 0, wall);
    if (window.start_wall_ns != start_ns || window.end_wall_ns != end_ns) {
        fail_msg("TZ=%s unit %d count %u at %lld: [%llu, %llu) should be [%llu, %llu)", getenv("TZ"), (int)rule->unit,
                 rule->count, (long long)utc_s, (unsigned long long)window.start_wall_ns,
                 (unsigned long long)window.end_wall_ns, (unsigned long long)start_ns, (unsigned long long)end_ns);
    }
    check_boundaries(rule, 0, &window);
    uint64_t phase = test_random_below(random, (end_ns - start_ns) / 2);
    struct weir_calendar_window shifted = weir_calendar_at(rule, phase, wall + phase);
    assert_window(&shifted, start_ns + phase, end_ns + phase);
    assert_int_equal(shifted.id, window.id);
    check_boundaries(rule, phase, &shifted);
}

/* Half of the instants are drawn from around the zone's own changes, where everything interesting happens. */
static int64_t draw_instant(struct test_random *random, const struct weir_zone *zone)
{
    int64_t at = (int64_t)test_random_below(random, YEAR_2100_S - 800 * DAY_S) + 400 * DAY_S;
    if (test_random_below(random, 2)) {
        return at;
    }
    for (int64_t step = 0; step < 400; step++) {
        if (weir_zone_offset_s(zone, at + step * DAY_S) != weir_zone_offset_s(zone, at + (step + 1) * DAY_S)) {
            return at + step * DAY_S + (int64_t)test_random_below(random, 2 * DAY_S);
        }
    }
    return at;
}

static void calendar__windows_agree_with_libc_in_odd_zones_from_1971_to_2099(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (size_t i = 0; i < ZONES; i++) {
        struct weir_zone *zone = NULL;
        use_zone(zones[i]);
        assert_int_equal(weir_zone_create(zones[i], &zone), 0);
        for (int round = 0; round < 300; round++) {
            struct weir_calendar_rule rule = {
                .unit = (enum weir_calendar)(WEIR_CALENDAR_DAY + round % 4),
                .count = test_random_below(&random, 2) ? 1 : 1 + (uint32_t)test_random_below(&random, 10),
                .zone = zone,
            };
            check_against_libc(&rule, draw_instant(&random, zone), &random);
        }
        weir_zone_destroy(zone);
    }
}

static void calendar__weeks_start_on_monday(void **state)
{
    (void)state;
    struct weir_calendar_rule rule = { .unit = WEIR_CALENDAR_WEEK, .count = 1 };
    struct weir_calendar_window week = weir_calendar_at(&rule, 0, UINT64_C(1792022400) * SECOND); /* Thu 2026-10-15 */
    assert_window(&week, UINT64_C(1791763200) * SECOND, UINT64_C(1792368000) * SECOND); /* Mon 12th to Mon 19th */
}

static void calendar__months_and_years_are_real(void **state)
{
    (void)state;
    struct weir_calendar_rule rule = { .unit = WEIR_CALENDAR_MONTH, .count = 1 };
    struct weir_calendar_window february = weir_calendar_at(&rule, 0, UINT64_C(1709164800) * SECOND); /* 2024-02-29 */
    assert_int_equal(february.end_wall_ns - february.start_wall_ns, 29 * DAY_S * (int64_t)SECOND);
    rule.unit = WEIR_CALENDAR_YEAR;
    struct weir_calendar_window leap_year = weir_calendar_at(&rule, 0, UINT64_C(1709164800) * SECOND);
    assert_int_equal(leap_year.end_wall_ns - leap_year.start_wall_ns, 366 * DAY_S * (int64_t)SECOND);
}

static void calendar__daylight_saving_makes_days_of_23_and_25_hours(void **state)
{
    (void)state;
    struct weir_zone *zone = NULL;
    assert_int_equal(weir_zone_create("Europe/Berlin", &zone), 0);
    struct weir_calendar_rule rule = { .unit = WEIR_CALENDAR_DAY, .count = 1, .zone = zone };
    struct weir_calendar_window spring = weir_calendar_at(&rule, 0, UINT64_C(1774747800) * SECOND); /* 2026-03-29 */
    struct weir_calendar_window autumn = weir_calendar_at(&rule, 0, UINT64_C(1792891800) * SECOND); /* 2026-10-25 */
    assert_int_equal(spring.end_wall_ns - spring.start_wall_ns, 23 * 3600 * (int64_t)SECOND);
    assert_int_equal(autumn.end_wall_ns - autumn.start_wall_ns, 25 * 3600 * (int64_t)SECOND);
    weir_zone_destroy(zone);
}

static void calendar__a_skipped_day_has_no_window(void **state)
{
    (void)state;
    struct weir_zone *zone = NULL;
    assert_int_equal(weir_zone_create("Pacific/Apia", &zone), 0);
    struct weir_calendar_rule rule = { .unit = WEIR_CALENDAR_DAY, .count = 1, .zone = zone };
    uint64_t jump = UINT64_C(1325239200) * SECOND; /* the end of 2011-12-29, the start of 2011-12-31 */
    struct weir_calendar_window before = weir_calendar_at(&rule, 0, jump - 1);
    struct weir_calendar_window after = weir_calendar_at(&rule, 0, jump);
    assert_int_equal(before.end_wall_ns, jump);
    assert_int_equal(after.start_wall_ns, jump);
    assert_int_equal(after.end_wall_ns - jump, DAY_S * (int64_t)SECOND);
    assert_int_equal(after.id, before.id + 2);
    weir_zone_destroy(zone);
}

/* St John's, 2010-11-07: 00:01 became 23:01 of the day before. The 7th began with its first midnight and goes on. */
static void calendar__a_day_begun_twice_is_one_window(void **state)
{
    (void)state;
    struct weir_zone *zone = NULL;
    assert_int_equal(weir_zone_create("America/St_Johns", &zone), 0);
    struct weir_calendar_rule rule = { .unit = WEIR_CALENDAR_DAY, .count = 1, .zone = zone };
    uint64_t change = UINT64_C(1289097060) * SECOND;
    struct weir_calendar_window day = weir_calendar_at(&rule, 0, change - 60 * SECOND);
    struct weir_calendar_window later = weir_calendar_at(&rule, 0, change + 1800 * SECOND);
    assert_int_equal(day.start_wall_ns, change - 60 * SECOND);
    assert_int_equal(day.end_wall_ns - day.start_wall_ns, 25 * 3600 * (int64_t)SECOND);
    assert_memory_equal(&day, &later, sizeof(day));
    weir_zone_destroy(zone);
}

static void calendar__fixed_windows_count_from_the_utc_epoch(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (int round = 0; round < 100000; round++) {
        uint64_t period = 1 + (test_random_u64(&random) >> (6 + test_random_below(&random, 58)));
        uint64_t phase = test_random_below(&random, period / 2);
        uint64_t wall = test_random_u64(&random) >> test_random_below(&random, 64);
        struct weir_calendar_rule rule = { .unit = WEIR_CALENDAR_FIXED, .period_ns = period };
        struct weir_calendar_window window = weir_calendar_at(&rule, phase, wall);
        assert_true(window.start_wall_ns <= wall && (wall < window.end_wall_ns || wall == UINT64_MAX));
        if (wall >= phase) {
            assert_int_equal((window.start_wall_ns - phase) % period, 0);
        }
        if (wall >= phase && window.end_wall_ns != UINT64_MAX) {
            assert_int_equal(window.end_wall_ns - window.start_wall_ns, period);
        }
        if (window.start_wall_ns > 0 && window.end_wall_ns != UINT64_MAX) {
            check_boundaries(&rule, phase, &window);
            assert_int_equal(weir_calendar_at(&rule, phase, window.start_wall_ns - 1).id + 1, window.id);
        }
        assert_int_equal(weir_calendar_at(&rule, phase, phase).id, 3); /* as in the values of every version */
    }
}

static void calendar__extreme_times_do_not_wrap(void **state)
{
    (void)state;
    struct weir_zone *zone = NULL;
    assert_int_equal(weir_zone_create("America/New_York", &zone), 0);
    const uint32_t counts[] = { 0, 1, 3650, UINT32_MAX };
    for (int unit = WEIR_CALENDAR_DAY; unit <= WEIR_CALENDAR_YEAR; unit++) {
        for (size_t i = 0; i < 4; i++) {
            struct weir_calendar_rule rule = { (enum weir_calendar)unit, counts[i], 0, zone };
            struct weir_calendar_window first = weir_calendar_at(&rule, 0, 0);
            struct weir_calendar_window phased = weir_calendar_at(&rule, DAY_S * SECOND / 2, 0);
            struct weir_calendar_window last = weir_calendar_at(&rule, 0, UINT64_MAX);
            assert_true(first.start_wall_ns == 0 && first.end_wall_ns > 0 && first.id > 0);
            assert_true(phased.start_wall_ns == 0 && phased.end_wall_ns > 0 && phased.id > 0);
            assert_true(last.end_wall_ns == UINT64_MAX && last.start_wall_ns < last.end_wall_ns);
            assert_true(last.id >= first.id);
        }
    }
    weir_zone_destroy(zone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calendar__windows_agree_with_libc_in_odd_zones_from_1971_to_2099),
        cmocka_unit_test(calendar__weeks_start_on_monday),
        cmocka_unit_test(calendar__months_and_years_are_real),
        cmocka_unit_test(calendar__daylight_saving_makes_days_of_23_and_25_hours),
        cmocka_unit_test(calendar__a_skipped_day_has_no_window),
        cmocka_unit_test(calendar__a_day_begun_twice_is_one_window),
        cmocka_unit_test(calendar__fixed_windows_count_from_the_utc_epoch),
        cmocka_unit_test(calendar__extreme_times_do_not_wrap),
    };
    return cmocka_run_group_tests_name("calendar", tests, NULL, NULL);
}
