/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots of a limiter that was itself made of one, and what of a definition is in them. */
#include "snapshot_fixture.h"

/* No permit's number is granted twice, however often weir is restarted. */
static void a_permit_of_before_a_restart_is_none_of_after_it(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 100, HOUR, 0);
    struct fixture f = fixture_create(&spec, 1);
    uint64_t last = 0;
    for (uint64_t i = 0; i < 4; i++) {
        const struct weir_moment moment = moment_at(T0 + i * SECOND);
        struct weir_snapshot_stats stats;
        for (unsigned k = 0; k < 3; k++) {
            const uint64_t ticket = ask(&f, 1, T0 + i * SECOND).ticket;
            assert_true(ticket > last);
            last = ticket;
        }
        (void)save(&f, &moment);
        fixture_destroy(&f);
        f = restart(&spec, 1, &moment, &stats);
    }
    assert_int_equal(out(&f, T0 + 4 * SECOND), 4 * 3);
    fixture_destroy(&f);
}

/* A window goes on as it was: its limit is the same one, in its own time zone. */
static void a_window_keeps_its_time_zone(void **state)
{
    (void)state;
    const uint64_t now_ns = 20 * DAY + 10 * HOUR;
    struct weir_limit_spec spec = limit_of(WEIR_FIXED_WINDOW, 10, DAY, 0);
    struct weir_snapshot_stats stats;
    struct weir_limiter_stats counts;
    spec.calendar = WEIR_CALENDAR_DAY;
    spec.tz = "Asia/Tokyo";
    const struct weir_moment moment = moment_at(now_ns);
    struct fixture a = fixture_create(&spec, 1);
    const uint64_t reset_ns = ask(&a, 4, now_ns).reset_after_ns;
    assert_int_equal(reset_ns, 5 * HOUR);
    (void)save(&a, &moment);
    fixture_destroy(&a);
    struct fixture b = restart(&spec, 1, &moment, &stats);
    const struct weir_verdict verdict = ask(&b, 1, now_ns);
    assert_int_equal(verdict.remaining, 5);
    assert_int_equal(verdict.reset_after_ns, reset_ns);
    weir_limiter_stats(b.limiter, &counts);
    assert_int_equal(counts.converted, 0);
    fixture_destroy(&b);
}

/* A clock that came back by hours: what was read before would be of another time than what comes. */
static void a_clock_that_comes_back_begins_the_reading_anew(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture a = fixture_create(&spec, 1);
    const struct weir_moment ahead = moment_at(T0 + 3 * HOUR), moment = moment_at(T0);
    struct weir_snapshot_stats stats;
    struct weir_fault fault;
    struct weir_snapshot_writer *writer = begin_snapshot(&a);
    assert_int_equal(weir_snapshot_step(writer, 64, &ahead, &stats, &fault), WEIR_EAGAIN);
    (void)ask(&a, 4, T0);
    (void)finish_snapshot(writer, &moment);
    fixture_destroy(&a);
    struct fixture b = restart(&spec, 1, &moment, &stats);
    assert_int_equal(peek(&b, 0, T0).remaining, 6);
    fixture_destroy(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_permit_of_before_a_restart_is_none_of_after_it),
        TEST(a_window_keeps_its_time_zone),
        TEST(a_clock_that_comes_back_begins_the_reading_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
