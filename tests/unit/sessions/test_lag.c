/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/session/lag.h"

static void lag__is_the_time_since_the_primary_was_there_last(void **state)
{
    (void)state;
    static struct weir_lag lag;
    assert_int_equal(weir_lag_of(&lag, 5, 100), UINT64_MAX);
    weir_lag_add(&lag, 10, 100);
    weir_lag_add(&lag, 10, 150); /* it stood */
    assert_int_equal(lag.count, 1);
    weir_lag_add(&lag, 20, 200);
    weir_lag_add(&lag, 40, 300);
    assert_int_equal(weir_lag_of(&lag, 9, 310), UINT64_MAX);
    assert_int_equal(weir_lag_of(&lag, 10, 310), 160);
    assert_int_equal(weir_lag_of(&lag, 19, 310), 160);
    assert_int_equal(weir_lag_of(&lag, 20, 310), 110);
    assert_int_equal(weir_lag_of(&lag, 40, 310), 0);
    assert_int_equal(weir_lag_of(&lag, 41, 310), 0);
    assert_int_equal(weir_lag_beyond_since(&lag, 9), 100);
    assert_int_equal(weir_lag_beyond_since(&lag, 20), 300);
    assert_int_equal(weir_lag_beyond_since(&lag, 40), 0);
}

static void lag__forgets_what_a_failover_cut_off(void **state)
{
    (void)state;
    static struct weir_lag lag;
    weir_lag_add(&lag, 10, 100);
    weir_lag_add(&lag, 30, 200);
    weir_lag_add(&lag, 20, 300);
    assert_int_equal(weir_lag_of(&lag, 20, 400), 0);
    assert_int_equal(weir_lag_of(&lag, 15, 400), 300);
    assert_int_equal(weir_lag_beyond_since(&lag, 20), 0);
}

/* A sample each 50 ms for a day: the newest are all there, and of the oldest a few. */
static void lag__reaches_back_for_hours(void **state)
{
    (void)state;
    static struct weir_lag lag;
    const uint64_t count = 24 * 3600 * 20, each_ns = 50000000;
    for (uint64_t i = 1; i <= count; i++)
        weir_lag_add(&lag, i * 8, i * each_ns);
    assert_true(lag.count <= WEIR_LAG_SAMPLES_MAX);
    for (uint64_t back = 1; back <= WEIR_LAG_SAMPLES_MAX / 4; back++)
        assert_int_equal(weir_lag_of(&lag, (count - back) * 8, count * each_ns), back * each_ns);
    for (uint64_t back = 1; back < count; back *= 2) {
        uint64_t told_ns = weir_lag_of(&lag, (count - back) * 8, count * each_ns);
        assert_true(told_ns >= back * each_ns); /* never too short */
        if (back < 1000)
            assert_true(told_ns < 3 * back * each_ns);
    }
}

/* When it is full, half of the older half goes, and nothing of the newer one. */
static void lag__keeps_the_newer_half_as_it_is(void **state)
{
    (void)state;
    static struct weir_lag lag;
    for (uint64_t i = 1; i <= WEIR_LAG_SAMPLES_MAX + 1; i++)
        weir_lag_add(&lag, i * 8, i);
    assert_int_equal(lag.count, WEIR_LAG_SAMPLES_MAX * 3 / 4 + 1);
    for (uint64_t i = WEIR_LAG_SAMPLES_MAX / 2 + 1; i <= WEIR_LAG_SAMPLES_MAX; i++)
        assert_int_equal(weir_lag_of(&lag, i * 8, 1000), 1000 - i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lag__is_the_time_since_the_primary_was_there_last),
        cmocka_unit_test(lag__forgets_what_a_failover_cut_off),
        cmocka_unit_test(lag__reaches_back_for_hours),
        cmocka_unit_test(lag__keeps_the_newer_half_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
