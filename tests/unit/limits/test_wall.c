/* SPDX-License-Identifier: Apache-2.0
 *
 * Which calendar window counts when wall time falls back: by a little, by much, and twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "limits/wall.h"

#define SECOND WEIR_NS_PER_SECOND
#define PERIOD (60 * SECOND)
#define BEGINS (PERIOD * 1000000) /* a window does */
#define ID weir_calendar_at(&minutes, 0, BEGINS).id

static const struct weir_calendar_rule minutes = { .unit = WEIR_CALENDAR_FIXED, .period_ns = PERIOD };
static struct weir_wall wall;

static int setup(void **state)
{
    (void)state;
    weir_wall_init(&wall, SECOND);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    weir_wall_deinit(&wall);
    return 0;
}

static struct weir_window window_at(uint64_t now_s, uint64_t wall_ns)
{
    return weir_wall_window(&wall, &minutes, PERIOD, 0, now_s * SECOND, wall_ns);
}

static void assert_closed(struct weir_window window, uint64_t end_after_s)
{
    assert_true(window.closed);
    assert_int_equal(window.id, ID);
    assert_int_equal(window.end_after_ns, end_after_s * SECOND);
}

/* Whoever reads a clock that is behind by no more than the skew is in the window that others have seen. */
static void within_the_skew_the_highest_counts(void **state)
{
    (void)state;
    assert_int_equal(window_at(100, BEGINS - SECOND).id, ID - 1);
    assert_int_equal(window_at(101, BEGINS).id, ID);
    const struct weir_window window = window_at(101, BEGINS - SECOND);
    assert_int_equal(window.id, ID);
    assert_false(window.closed);
    assert_int_equal(window.end_after_ns, PERIOD);
}

/* Until the clock has caught up, or for a period, whichever is sooner. */
static void a_fall_closes_the_windows(void **state)
{
    (void)state;
    const uint64_t high_ns = BEGINS + 30 * SECOND;
    assert_false(window_at(100, high_ns).closed);
    assert_closed(window_at(101, high_ns - 20 * SECOND), 20);
    assert_closed(window_at(111, high_ns - 10 * SECOND), 10);
    assert_false(window_at(121, high_ns).closed);
    assert_closed(window_at(122, high_ns - 3600 * SECOND), 60);
    assert_closed(window_at(152, high_ns - 3570 * SECOND), 30);
    assert_false(window_at(182, high_ns - 3540 * SECOND).closed);
}

static void a_second_fall_forgets_nothing_of_the_first(void **state)
{
    (void)state;
    const uint64_t high_ns = BEGINS + 30 * SECOND;
    assert_false(window_at(100, high_ns).closed);
    assert_closed(window_at(101, high_ns - 50 * SECOND), 50);
    assert_closed(window_at(102, high_ns - 49 * SECOND), 49);
    assert_closed(window_at(103, high_ns - 55 * SECOND), 55);
    assert_closed(window_at(113, high_ns - 45 * SECOND), 45);
    assert_false(window_at(158, high_ns).closed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(within_the_skew_the_highest_counts), TEST(a_fall_closes_the_windows),
                                        TEST(a_second_fall_forgets_nothing_of_the_first) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
