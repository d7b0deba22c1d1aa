/* SPDX-License-Identifier: Apache-2.0
 *
 * semantics.md, "Time": each sentence has a test here (docs/semantics-tests.md). */
#include "fixture.h"

static void time__a_decision_takes_the_callers_clock_or_the_monotonic_one(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 1, HOUR, 1);
    struct weir_charge charge = charge_of(&f, 0, "k", 1);
    struct weir_decision decision;
    struct weir_verdict verdict;
    struct weir_time before = weir_time_read();
    assert_int_equal(weir_limiter_decide(f.limiter, &charge, 1, NULL, 0, &decision, &verdict), 0);
    struct weir_time after = weir_time_read();
    assert_true(decision.admitted);
    /* The bucket is full again an hour after some instant between the two readings. */
    struct weir_verdict then = peek(&f, 1, before.now_ns + HOUR - 1);
    assert_false(then.admitted);
    then = peek(&f, 1, after.now_ns + HOUR);
    assert_true(then.admitted);
    fixture_destroy(&f);
}

/* The capacity ahead plus the default of 1 s is still an honest clock; one ns more is a jump. */
static void time__clocks_may_disagree_by_one_second_unless_said_otherwise(void **state)
{
    (void)state;
    for (uint64_t late = 0; late <= 1; late++) {
        struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, SECOND, 10);
        ask(&f, 10, T0);
        struct weir_verdict v = ask(&f, 1, T0 - SECOND - late);
        assert_false(v.admitted);
        struct weir_limiter_stats stats;
        weir_limiter_stats(f.limiter, &stats);
        assert_int_equal(stats.clock_jumps, late);
        fixture_destroy(&f);
    }
}

static void time__a_limiter_with_one_clock_has_no_skew(void **state)
{
    (void)state;
    for (uint64_t back = 0; back <= 1; back++) {
        struct weir_limiter_options options = { .memory_max = (size_t)1 << 20, .skew_none = true };
        struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, SECOND, 10);
        struct fixture f = fixture_create_with(&options, &spec, 1);
        ask(&f, 10, T0);
        ask(&f, 1, T0 - back);
        struct weir_limiter_stats stats;
        weir_limiter_stats(f.limiter, &stats);
        assert_int_equal(stats.clock_jumps, back);
        fixture_destroy(&f);
    }
}

static struct weir_limit_spec any_algorithm(int algorithm)
{
    struct weir_limit_spec spec = limit_of((enum weir_algorithm)algorithm, 10, SECOND, 0);
    if (algorithm == WEIR_FIXED_WINDOW) {
        spec.align = WEIR_ALIGN_FIRST;
    }
    return spec;
}

static void time__a_stale_now_is_never_judged_more_generously(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = any_algorithm(algorithm);
        struct fixture f = fixture_create(&spec, 1);
        ask(&f, 4, T0);
        ask(&f, 3, T0 + 350 * MS);
        struct weir_verdict newest = peek(&f, 1, T0 + 350 * MS);
        for (uint64_t back = 1; back <= 900; back += 31) {
            struct weir_verdict stale = peek(&f, 1, T0 + 350 * MS - back * MS);
            assert_true(stale.remaining <= newest.remaining);
        }
        fixture_destroy(&f);
    }
}

static void time__a_stale_now_is_at_most_its_staleness_stricter(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = any_algorithm(algorithm);
        struct fixture f = fixture_create(&spec, 1);
        ask(&f, 10, T0 + 350 * MS);
        struct weir_verdict newest = peek(&f, 1, T0 + 350 * MS);
        for (uint64_t back = 1; back <= 900; back += 31) {
            struct weir_verdict stale = peek(&f, 1, T0 + 350 * MS - back * MS);
            assert_false(stale.admitted);
            assert_true(stale.retry_after_ns <= newest.retry_after_ns + back * MS);
        }
        fixture_destroy(&f);
    }
}

static void time__one_tick_back_gives_no_unit(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = any_algorithm(algorithm);
        struct fixture f = fixture_create(&spec, 1);
        ask(&f, 10, T0);
        for (uint64_t back = 1; back <= 3; back++) {
            struct weir_verdict v = ask(&f, 1, T0 - back);
            assert_false(v.admitted);
            assert_int_equal(v.remaining, 0);
        }
        fixture_destroy(&f);
    }
}

static void time__a_clock_that_came_back_leaves_the_key_empty_as_of_now(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = any_algorithm(algorithm);
        struct fixture f = fixture_create(&spec, 1);
        ask(&f, 1, T0 + DAY);
        struct weir_verdict v = ask(&f, 1, T0);
        assert_false(v.admitted);
        assert_int_equal(v.remaining, 0);
        assert_true(v.retry_after_ns > 0 && v.retry_after_ns <= 2 * SECOND);
        assert_true(v.reset_after_ns <= 2 * SECOND);
        struct weir_limiter_stats stats;
        weir_limiter_stats(f.limiter, &stats);
        assert_int_equal(stats.clock_jumps, 1);
        assert_true(ask(&f, 1, T0 + v.retry_after_ns).admitted); /* empty as of then, not as of every later now */
        fixture_destroy(&f);
    }
}

static void time__nobody_waits_longer_than_a_fill_and_the_skew(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        for (uint64_t ahead = 0; ahead < 4 * SECOND; ahead += 90 * MS) {
            struct weir_limit_spec spec = any_algorithm(algorithm);
            struct fixture f = fixture_create(&spec, 1);
            ask(&f, 10, T0 + ahead);
            struct weir_verdict v = ask(&f, 10, T0);
            uint64_t fill = algorithm == WEIR_SLIDING_COUNTER ? 2 * SECOND : SECOND;
            assert_true(ahead > 0 || v.retry_after_ns > 0);
            assert_true(v.retry_after_ns <= fill + SECOND);
            fixture_destroy(&f);
        }
    }
}

/* However far it jumps, and however often, what was spent before the jump is not had again after it. */
static void time__a_jump_mints_nothing(void **state)
{
    (void)state;
    static const uint64_t jumps[] = { 2 * SECOND, HOUR, DAY, 7 * DAY, 100 * DAY, 3000 * DAY };
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        for (size_t i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++) {
            struct weir_limit_spec spec = any_algorithm(algorithm);
            struct fixture f = fixture_create(&spec, 1);
            ask(&f, 10, T0);
            ask(&f, 1, T0 + jumps[i]);
            assert_int_equal(admitted_of(&f, 20, T0 + 1), 0);
            fixture_destroy(&f);
        }
    }
}

static void time__wall_time_serves_only_calendar_windows(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = any_algorithm(algorithm);
        struct fixture f = fixture_create(&spec, 1);
        ask_at(&f, "k", 10, (struct weir_time){ T0, T0 }, 0);
        struct weir_verdict same = peek(&f, 1, T0 + 1);
        struct weir_verdict other = ask_at(&f, "k", 1, (struct weir_time){ T0 + 1, 500 * DAY }, WEIR_PEEK);
        assert_same_verdict(&same, &other);
        fixture_destroy(&f);
    }
}

static void time__the_default_zone_is_utc(void **state)
{
    (void)state;
    struct fixture f = calendar_window(5, DAY, WEIR_CALENDAR_DAY, NULL);
    uint64_t midnight = 20000 * DAY;
    struct weir_verdict v = ask_at(&f, "k", 5, (struct weir_time){ T0, midnight - 3 * SECOND }, 0);
    assert_int_equal(v.reset_after_ns, 3 * SECOND);
    fixture_destroy(&f);
}

/* 2026-03-29 in Berlin has 23 hours, 2026-10-25 has 25. */
static void time__daylight_saving_is_honoured_for_windows_of_a_day(void **state)
{
    (void)state;
    struct fixture f = calendar_window(5, DAY, WEIR_CALENDAR_DAY, "Europe/Berlin");
    struct weir_verdict v = ask_at(&f, "spring", 5, (struct weir_time){ T0, UINT64_C(1774738800) * SECOND }, 0);
    assert_int_equal(v.reset_after_ns, 23 * HOUR);
    v = ask_at(&f, "autumn", 5, (struct weir_time){ T0, UINT64_C(1792879200) * SECOND }, 0);
    assert_int_equal(v.reset_after_ns, 25 * HOUR);
    fixture_destroy(&f);
}

/* 2027-10-31 in Antarctica/Troll has 26 hours: at its start it ends later than after any other day. */
static void time__the_longest_day_is_no_clock_that_jumped(void **state)
{
    (void)state;
    struct fixture f = calendar_window(20, DAY, WEIR_CALENDAR_DAY, "Antarctica/Troll");
    const uint64_t midnight = UINT64_C(1824933600) * SECOND;
    for (uint64_t i = 0; i < 20; i++) {
        struct weir_time time = { T0 + i * 10 * MINUTE, midnight + i * 10 * MINUTE };
        struct weir_verdict v = ask_at(&f, "k", 1, time, 0);
        assert_true(v.admitted);
        assert_int_equal(v.remaining, 19 - i);
        assert_int_equal(v.reset_after_ns, 26 * HOUR - i * 10 * MINUTE);
    }
    fixture_destroy(&f);
}

/* An hour of Kathmandu, at 45 minutes past UTC's, is still an hour of UTC. */
static void time__shorter_windows_have_fixed_length_from_the_utc_epoch(void **state)
{
    (void)state;
    struct fixture f = calendar_window(5, HOUR, WEIR_CALENDAR_FIXED, "Asia/Kathmandu");
    struct weir_verdict v = ask_at(&f, "k", 5, (struct weir_time){ T0, 20000 * DAY + 40 * MINUTE }, 0);
    assert_int_equal(v.reset_after_ns, 20 * MINUTE);
    fixture_destroy(&f);
}

static void time__an_unknown_zone_is_an_error(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 1, SECOND, 1);
    struct weir_limit_spec spec = limit_of(WEIR_FIXED_WINDOW, 5, DAY, 0);
    struct weir_fault fault;
    spec.tz = "Mars/Olympus";
    assert_int_equal(fixture_try_define(&f, &spec, 1, T0, &fault), WEIR_EINVAL);
    assert_non_null(strstr(fault.field, "tz"));
    fixture_destroy(&f);
}

static void time__windows_go_by_the_highest_wall_time_seen(void **state)
{
    (void)state;
    struct fixture f = calendar_window(5, DAY, WEIR_CALENDAR_DAY, NULL);
    uint64_t midnight = 20000 * DAY;
    ask_at(&f, "k", 2, (struct weir_time){ T0, midnight }, 0);
    /* Half a second before midnight again, within the skew: still the new day. */
    struct weir_verdict v = ask_at(&f, "k", 1, (struct weir_time){ T0 + 1, midnight - 500 * MS }, 0);
    assert_true(v.admitted);
    assert_int_equal(v.remaining, 2);
    fixture_destroy(&f);
}

static void time__open_windows_are_full_while_wall_time_is_behind(void **state)
{
    (void)state;
    struct fixture f = calendar_window(5, HOUR, WEIR_CALENDAR_FIXED, NULL);
    uint64_t wall = 20000 * DAY;
    ask_at(&f, "k", 2, (struct weir_time){ T0, wall + MINUTE }, 0);
    struct weir_verdict v = ask_at(&f, "k", 1, (struct weir_time){ T0 + 1, wall - MINUTE }, 0);
    assert_false(v.admitted);
    assert_int_equal(v.remaining, 0);
    v = ask_at(&f, "newcomer", 1, (struct weir_time){ T0 + 2, wall - MINUTE }, 0);
    assert_false(v.admitted);
    /* Caught up: the window goes on with what it had. */
    v = ask_at(&f, "k", 1, (struct weir_time){ T0 + 2 * MINUTE + 1, wall + MINUTE }, 0);
    assert_true(v.admitted);
    assert_int_equal(v.remaining, 2);
    fixture_destroy(&f);
}

/* A wall clock set back for good: after one period its new time is taken. */
static void time__a_wall_clock_set_back_for_good_closes_windows_for_one_period(void **state)
{
    (void)state;
    struct fixture f = calendar_window(5, HOUR, WEIR_CALENDAR_FIXED, NULL);
    uint64_t wall = 20000 * DAY;
    ask_at(&f, "k", 2, (struct weir_time){ T0, wall }, 0);
    struct weir_verdict v = ask_at(&f, "k", 1, (struct weir_time){ T0 + 1, wall - DAY }, 0);
    assert_false(v.admitted);
    v = ask_at(&f, "k", 1, (struct weir_time){ T0 + HOUR - SECOND, wall - DAY + HOUR - SECOND }, 0);
    assert_false(v.admitted);
    v = ask_at(&f, "k", 1, (struct weir_time){ T0 + HOUR + 2 * SECOND, wall - DAY + HOUR + 2 * SECOND }, 0);
    assert_true(v.admitted);
    fixture_destroy(&f);
}

/* 10 per second: a unit every 100 ms, none earlier, none at the full second only. */
static void time__refill_is_continuous(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, SECOND, 10);
    ask(&f, 10, T0);
    for (uint64_t i = 1; i <= 10; i++) {
        assert_int_equal(peek(&f, 0, T0 + i * 100 * MS - 1).remaining, i - 1);
        assert_int_equal(peek(&f, 0, T0 + i * 100 * MS).remaining, i);
    }
    fixture_destroy(&f);
}

static uint64_t spread_phase_ns(const uint8_t *secret, const uint8_t *cluster_secret, const char *key)
{
    struct weir_limiter_options options = { .memory_max = (size_t)1 << 20,
                                            .secret = secret,
                                            .cluster_secret = cluster_secret };
    struct weir_limit_spec spec = limit_of(WEIR_FIXED_WINDOW, 5, HOUR, 0);
    spec.spread_ns = 10 * MINUTE;
    struct fixture f = fixture_create_with(&options, &spec, 1);
    /* 30 minutes after the hour: the window began at the hour plus the phase. */
    struct weir_verdict v = ask_at(&f, key, 1, (struct weir_time){ T0, 20000 * DAY + 30 * MINUTE }, 0);
    fixture_destroy(&f);
    return v.reset_after_ns - 30 * MINUTE;
}

static void time__spread_gives_each_key_a_stable_phase(void **state)
{
    (void)state;
    const uint8_t one[16] = { 1 }, two[16] = { 2 };
    uint64_t low = UINT64_MAX, high = 0;
    for (int i = 0; i < 100; i++) {
        char key[16];
        snprintf(key, sizeof(key), "key-%d", i);
        uint64_t phase = spread_phase_ns(one, one, key);
        assert_true(phase < 10 * MINUTE);
        assert_int_equal(phase, spread_phase_ns(two, one, key)); /* another process of the cluster */
        low = phase < low ? phase : low;
        high = phase > high ? phase : high;
    }
    assert_true(low < MINUTE && high > 9 * MINUTE); /* 100 keys fill the stretch */
}

static void time__spread_is_at_most_half_a_period(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 1, SECOND, 1);
    struct weir_limit_spec spec = limit_of(WEIR_FIXED_WINDOW, 5, HOUR, 0);
    struct weir_fault fault;
    spec.spread_ns = HOUR / 2;
    assert_int_equal(fixture_try_define(&f, &spec, 1, T0, &fault), 0);
    spec.spread_ns++;
    assert_int_equal(fixture_try_define(&f, &spec, 1, T0, &fault), WEIR_ERANGE);
    assert_non_null(strstr(fault.field, "spread"));
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time__a_decision_takes_the_callers_clock_or_the_monotonic_one),
        cmocka_unit_test(time__clocks_may_disagree_by_one_second_unless_said_otherwise),
        cmocka_unit_test(time__a_limiter_with_one_clock_has_no_skew),
        cmocka_unit_test(time__a_stale_now_is_never_judged_more_generously),
        cmocka_unit_test(time__a_stale_now_is_at_most_its_staleness_stricter),
        cmocka_unit_test(time__one_tick_back_gives_no_unit),
        cmocka_unit_test(time__a_clock_that_came_back_leaves_the_key_empty_as_of_now),
        cmocka_unit_test(time__nobody_waits_longer_than_a_fill_and_the_skew),
        cmocka_unit_test(time__a_jump_mints_nothing),
        cmocka_unit_test(time__wall_time_serves_only_calendar_windows),
        cmocka_unit_test(time__the_default_zone_is_utc),
        cmocka_unit_test(time__daylight_saving_is_honoured_for_windows_of_a_day),
        cmocka_unit_test(time__the_longest_day_is_no_clock_that_jumped),
        cmocka_unit_test(time__shorter_windows_have_fixed_length_from_the_utc_epoch),
        cmocka_unit_test(time__an_unknown_zone_is_an_error),
        cmocka_unit_test(time__windows_go_by_the_highest_wall_time_seen),
        cmocka_unit_test(time__open_windows_are_full_while_wall_time_is_behind),
        cmocka_unit_test(time__a_wall_clock_set_back_for_good_closes_windows_for_one_period),
        cmocka_unit_test(time__refill_is_continuous),
        cmocka_unit_test(time__spread_gives_each_key_a_stable_phase),
        cmocka_unit_test(time__spread_is_at_most_half_a_period),
    };
    return cmocka_run_group_tests_name("semantics: time", tests, NULL, NULL);
}
