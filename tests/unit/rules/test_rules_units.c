/* SPDX-License-Identifier: Apache-2.0
 *
 * Rates, durations, sizes and addresses as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rules/config.h"

#define SECOND UINT64_C(1000000000)
#define DAY (86400 * SECOND)

static void test_rates(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t count, period_ns;
        enum weir_calendar calendar;
        uint32_t calendar_count;
    } good[] = {
        { "100/min", 100, 60 * SECOND, WEIR_CALENDAR_FIXED, 0 },
        { "1/ms", 1, SECOND / 1000, WEIR_CALENDAR_FIXED, 0 },
        { "7/s", 7, SECOND, WEIR_CALENDAR_FIXED, 0 },
        { "7/sec", 7, SECOND, WEIR_CALENDAR_FIXED, 0 },
        { "0/hour", 0, 3600 * SECOND, WEIR_CALENDAR_FIXED, 0 },
        { "100/90s", 100, 90 * SECOND, WEIR_CALENDAR_FIXED, 0 },
        { "5/250ms", 5, SECOND / 4, WEIR_CALENDAR_FIXED, 0 },
        { "1/24hour", 1, DAY, WEIR_CALENDAR_FIXED, 0 },
        { "1/day", 1, DAY, WEIR_CALENDAR_DAY, 1 },
        { "1/2day", 1, 2 * DAY, WEIR_CALENDAR_DAY, 2 },
        { "1/week", 1, 7 * DAY, WEIR_CALENDAR_WEEK, 1 },
        { "1/month", 1, 30 * DAY, WEIR_CALENDAR_MONTH, 1 },
        { "1/3month", 1, 90 * DAY, WEIR_CALENDAR_MONTH, 3 },
        { "1/year", 1, 365 * DAY, WEIR_CALENDAR_YEAR, 1 },
        { "18446744073709551615/10year", UINT64_MAX, 3650 * DAY, WEIR_CALENDAR_YEAR, 10 },
        { "007/010s", 7, 10 * SECOND, WEIR_CALENDAR_FIXED, 0 },
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct weir_limit_spec spec = { .burst = 42, .calendar_count = 99 };
        struct weir_fault fault;
        if (weir_rate_parse(good[i].text, &spec, &fault) != 0)
            fail_msg("%s: %s", good[i].text, fault.text);
        assert_int_equal(spec.count, good[i].count);
        assert_int_equal(spec.period_ns, good[i].period_ns);
        assert_int_equal(spec.calendar, good[i].calendar);
        assert_int_equal(spec.calendar_count, good[i].calendar_count);
        assert_int_equal(spec.burst, 42);
    }
}

static void test_durations_for_people(void **state)
{
    (void)state;
    static const uint64_t second = 1000, minute = 60000, hour = 3600000, day = 86400000;
    const struct {
        uint64_t ms;
        const char *text;
    } good[] = {
        { 0, "0ms" },
        { 1, "1ms" },
        { second - 1, "999ms" },
        { second, "1s" },
        { second + 1, "1s 1ms" },
        { 2300, "2s 300ms" },
        { minute - 1, "59s 999ms" },
        { minute, "1min" },
        { minute + 1, "1min 1s" }, /* rounded up, never down */
        { 90 * second, "1min 30s" },
        { hour - second, "59min 59s" },
        { hour - second + 1, "1h" }, /* into the next unit */
        { hour, "1h" },
        { hour + 1, "1h 1min" },
        { day - minute, "23h 59min" },
        { day - minute + 1, "1d" },
        { day, "1d" },
        { day + 1, "1d 1h" },
        { 193 * hour, "8d 1h" },
        { 192 * hour + 1, "8d 1h" },
        { 30 * day - 1, "30d" },
        { 3650 * day, "3650d" },
        { UINT64_MAX, "213503982334d 15h" },
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char text[WEIR_DURATION_SIZE];
        weir_duration_format(good[i].ms, text, sizeof(text));
        assert_string_equal(text, good[i].text);
    }
    for (size_t size = 1; size < 6; size++) {
        char text[6] = "xxxxx";
        weir_duration_format(193 * hour, text, size);
        assert_int_equal(strlen(text), size - 1);
        assert_memory_equal(text, "8d 1h", size - 1);
    }
}

static void test_bad_rates(void **state)
{
    (void)state;
    static const char *const bad[] = { "",      "/",         "1",       "1/",     "/s",    "1/ s",     "1 /s",
                                       " 1/s",  "1/s ",      "+1/s",    "-1/s",   "0x1/s", "1e3/s",    "1.0/s",
                                       "1/S",   "1/seconds", "1/ns",    "1/us",   "1/0s",  "1/-1s",    "1//s",
                                       "1/s/s", "1/1.5s",    "1,000/s", "1/00ms", "1/1",   "1/3651day" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct weir_limit_spec spec = { .count = 42 };
        struct weir_fault fault = { "", "" };
        if (weir_rate_parse(bad[i], &spec, &fault) == 0)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_int_equal(spec.count, 42);
        assert_string_equal(fault.field, "rate");
        assert_true(strlen(fault.text) > 20);
        assert_true(weir_rate_parse(bad[i], &spec, NULL) < 0);
    }
}

static void test_durations_and_sizes(void **state)
{
    (void)state;
    uint64_t value = 0;
    assert_int_equal(weir_duration_parse("10s", &value, NULL), 0);
    assert_int_equal(value, 10 * SECOND);
    assert_int_equal(weir_duration_parse("0ms", &value, NULL), 0);
    assert_int_equal(value, 0);
    assert_int_equal(weir_duration_parse("3650day", &value, NULL), 0);
    assert_int_equal(weir_duration_parse("3651day", &value, NULL), WEIR_ERANGE);
    assert_int_equal(weir_duration_parse("99999999999999999999s", &value, NULL), WEIR_ERANGE);
    assert_int_equal(weir_duration_parse("s", &value, NULL), WEIR_EINVAL);
    assert_int_equal(weir_duration_parse("10", &value, NULL), WEIR_EINVAL);
    assert_int_equal(weir_size_parse("64", &value, NULL), 0);
    assert_int_equal(value, 64);
    assert_int_equal(weir_size_parse("64B", &value, NULL), 0);
    assert_int_equal(value, 64);
    assert_int_equal(weir_size_parse("3KiB", &value, NULL), 0);
    assert_int_equal(value, 3072);
    assert_int_equal(weir_size_parse("1TiB", &value, NULL), 0);
    assert_int_equal(value, UINT64_C(1) << 40);
    assert_int_equal(weir_size_parse("16777215TiB", &value, NULL), 0);
    assert_int_equal(weir_size_parse("16777216TiB", &value, NULL), WEIR_ERANGE);
    assert_int_equal(weir_size_parse("18446744073709551616", &value, NULL), WEIR_ERANGE);
    assert_int_equal(weir_size_parse("1kB", &value, NULL), WEIR_EINVAL);
    assert_int_equal(weir_size_parse("", &value, NULL), WEIR_EINVAL);
    assert_int_equal(weir_size_parse("-1", &value, NULL), WEIR_EINVAL);
}

static struct weir_address address_of(const char *text)
{
    struct weir_address address;
    struct weir_fault fault;
    if (weir_address_parse(text, &address, &fault) != 0)
        fail_msg("%s: %s", text, fault.text);
    return address;
}

static void test_addresses(void **state)
{
    (void)state;
    struct weir_address address = address_of("off");
    assert_int_equal(address.kind, WEIR_ADDRESS_OFF);
    address = address_of("0.0.0.0:80");
    assert_int_equal(address.kind, WEIR_ADDRESS_TCP);
    assert_int_equal(address.port, 80);
    assert_false(address.loopback);
    assert_true(address_of("127.9.9.9:0").loopback);
    assert_true(address_of("localhost:1").loopback);
    address = address_of("[::1]:65535");
    assert_string_equal(address.host, "::1");
    assert_int_equal(address.port, 65535);
    assert_true(address.loopback);
    assert_false(address_of("[::]:1").loopback);
    char path[200] = "unix:/";
    memset(path + 6, 'a', 106);
    address = address_of(path);
    assert_int_equal(address.kind, WEIR_ADDRESS_UNIX);
    assert_int_equal(strlen(address.path), 107);
    path[112] = 'a'; /* one more: the kernel would cut it without a word */
    assert_int_equal(weir_address_parse(path, &address, NULL), WEIR_ERANGE);
    static const char *const bad[] = { "",           ":80",      "1.2.3.4", "1.2.3.4:",     "1.2.3.4:x",
                                       "::1:80",     "[::1]80",  "[]:80",   "[1.2.3.4]:80", "a:80",
                                       "1.2.3.4:-1", "1.2.3:80", "unix:",   "[::1:80" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (weir_address_parse(bad[i], &address, NULL) == 0)
            fail_msg("\"%s\" was taken", bad[i]);
    assert_int_equal(weir_address_parse("1.2.3.4:65536", &address, NULL), WEIR_ERANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),     cmocka_unit_test(test_durations_for_people),
        cmocka_unit_test(test_bad_rates), cmocka_unit_test(test_durations_and_sizes),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
