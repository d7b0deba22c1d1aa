/* SPDX-License-Identifier: Apache-2.0
 *
 * semantics.md, "Arithmetic": each sentence has a test here or in tests/model (docs/semantics-tests.md). */
#include "fixture.h"

static int check(const struct weir_limit_spec *spec, const char *field)
{
    struct weir_fault fault = { .field = "?" };
    int error = weir_limit_check(spec, &fault);
    assert_true((error == 0) == (fault.field[0] == '\0'));
    if (error != 0 && field) {
        assert_non_null(strstr(fault.field, field));
        assert_true(!strchr(fault.field, ' ') && strchr(fault.text, ' ')); /* a name, and a sentence */
    }
    return error;
}

static int check_rate(uint64_t count, uint64_t period_ns)
{
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, count, period_ns, 1);
    return check(&spec, "rate");
}

static void arithmetic__rates_run_from_1_per_366_days_to_a_billion_per_second(void **state)
{
    (void)state;
    assert_int_equal(check_rate(1, 366 * DAY), 0);
    assert_int_equal(check_rate(1, 366 * DAY + 1), WEIR_ERANGE);
    assert_int_equal(check_rate(2, 2 * 366 * DAY), 0);
    assert_int_equal(check_rate(1, 1), 0);
    assert_int_equal(check_rate(1000000000, SECOND), 0);
    assert_int_equal(check_rate(1000000001, SECOND), WEIR_ERANGE);
    assert_int_equal(check_rate(2, 1), WEIR_ERANGE);
    assert_int_equal(check_rate(UINT64_MAX, SECOND), WEIR_ERANGE);
    assert_int_equal(check_rate(1, UINT64_MAX), WEIR_ERANGE);
}

/* Drained and asked for everything it holds at every instant for a while: within 0.1 % of the rate, never above. */
static void arithmetic__a_rate_is_never_above_and_at_most_a_thousandth_below(void **state)
{
    (void)state;
    static const struct {
        uint64_t count, period_ns;
    } rates[] = { { 1000000000, SECOND },
                  { 999999999, SECOND },
                  { 7, 9 },
                  { 3, 10 },
                  { 600000007, SECOND },
                  { 1, 7 * MINUTE },
                  { 1000003, MINUTE },
                  { 100, 3 * SECOND },
                  { 1, 366 * DAY } };
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        uint64_t burst = rates[i].count < 9 ? 9 : 1000000;
        burst = rates[i].period_ns > HOUR ? 5 : burst;
        struct fixture f = one_limit(WEIR_TOKEN_BUCKET, rates[i].count, rates[i].period_ns, burst);
        __extension__ typedef unsigned __int128 u128;
        uint64_t now = T0, admitted = 0;
        assert_true(ask(&f, burst, now).admitted);
        /* Not waiting for a whole bucket at once keeps it from ever being full, so nothing is lost. */
        uint64_t step = (uint64_t)((u128)burst * rates[i].period_ns / rates[i].count / 2) + 1;
        int rounds = rates[i].period_ns > DAY ? 100 : 1000; /* 2^64 ns are 584 years */
        for (int round = 0; round < rounds; round++) {
            now += step;
            uint64_t units = peek(&f, 0, now).remaining;
            admitted += units;
            assert_true(ask(&f, units, now).admitted);
        }
        u128 exact = (u128)(now - T0) * rates[i].count / rates[i].period_ns;
        if (admitted > exact) {
            fail_msg("rate %zu: %llu of %llu", i, (unsigned long long)admitted, (unsigned long long)exact);
        }
        assert_true((u128)(admitted + 1) * 1000 >= exact * 999);
        fixture_destroy(&f);
    }
}

/* Words hold times modulo 2^59 ticks of down to 2^-10 ns: 2^49 ns is 6.5 days. Steps of 88 hours over 30 years of
 * 10^9 per second, with a neighbour that is asked once a year, meet it from every side. */
static void arithmetic__decisions_are_right_across_the_wrap_of_a_word(void **state)
{
    (void)state;
    static const struct {
        uint64_t count, period_ns, burst;
    } rates[] = { { 1000000000, SECOND, UINT64_C(1000000000000) }, { 1, SECOND, 10 }, { 10, 3650 * DAY, 10 } };
    for (size_t i = 0; i < 3; i++) {
        struct fixture f = one_limit(WEIR_TOKEN_BUCKET, rates[i].count, rates[i].period_ns, rates[i].burst);
        uint64_t now = T0;
        for (int step = 0; step < 3000; step++, now += 88 * HOUR + 12345) {
            struct weir_time time = at(now);
            while (weir_limiter_maintain(f.limiter, &time, 4096)) {
            }
            struct weir_verdict yearly = peek(&f, 1, now);
            if (i < 2) {
                assert_int_equal(yearly.remaining, rates[i].burst);
            }
            struct weir_verdict all = ask_at(&f, "busy", yearly.capacity, time, 0);
            assert_true(i == 2 || all.admitted);
            struct weir_verdict none = ask_at(&f, "busy", yearly.capacity, at(now + 1), 0);
            assert_false(none.admitted);
            if (step % 100 == 0) {
                ask(&f, 1, now);
                assert_true(peek(&f, 0, now).remaining < rates[i].burst);
            }
        }
        fixture_destroy(&f);
    }
}

static void arithmetic__a_bucket_fills_within_ten_years(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 1, DAY, 3650);
    assert_int_equal(check(&spec, "burst"), 0);
    spec.burst++;
    assert_int_equal(check(&spec, "burst"), WEIR_ERANGE);
    spec = limit_of(WEIR_LEAKY_BUCKET, 1000000000, SECOND, WEIR_BURST_MAX);
    assert_int_equal(check(&spec, "burst"), 0);
    spec.burst++;
    assert_int_equal(check(&spec, "burst"), WEIR_ERANGE);
    spec.burst = UINT64_MAX;
    assert_int_equal(check(&spec, "burst"), WEIR_ERANGE);
    spec = limit_of(WEIR_FIXED_WINDOW, 100, 3650 * DAY, 0);
    assert_int_equal(check(&spec, "period"), 0);
    spec.period_ns++;
    assert_int_equal(check(&spec, "period"), WEIR_ERANGE);
}

static void arithmetic__a_log_holds_at_most_65536(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_SLIDING_LOG, 65536, SECOND, 0);
    assert_int_equal(check(&spec, "count"), 0);
    spec.count++;
    assert_int_equal(check(&spec, "count"), WEIR_ERANGE);
}

/* The text says what the range is: it holds a number. */
static void arithmetic__errors_name_the_field_and_its_range(void **state)
{
    (void)state;
    const struct weir_limit_spec wrong[] = {
        limit_of(WEIR_TOKEN_BUCKET, 1, 0, 1),
        limit_of(WEIR_TOKEN_BUCKET, 2, 1, 1),
        limit_of(WEIR_TOKEN_BUCKET, 1, 367 * DAY, 1),
        limit_of(WEIR_TOKEN_BUCKET, 1, SECOND, UINT64_MAX),
        limit_of(WEIR_TOKEN_BUCKET, 1, DAY, 3651),
        limit_of(WEIR_SLIDING_LOG, 65537, SECOND, 0),
        limit_of(WEIR_FIXED_WINDOW, 100, 3651 * DAY, 0),
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct weir_fault fault;
        assert_int_equal(weir_limit_check(&wrong[i], &fault), WEIR_ERANGE);
        assert_true(strlen(fault.field) > 0);
        assert_non_null(strpbrk(fault.text, "0123456789"));
        struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 1, SECOND, 1);
        assert_int_equal(fixture_try_define(&f, &wrong[i], 1, T0, &fault), WEIR_ERANGE);
        assert_memory_equal(fault.field, "0.", 2); /* NAME.FIELD */
        fixture_destroy(&f);
    }
}

/* And what a field must be, not the other way round. */
static void arithmetic__a_fault_names_its_field(void **state)
{
    (void)state;
    struct weir_limit_spec specs[5];
    static const char *const fields[] = { "count_mode", "mode", "on_full", "on_change", "calendar_count" };
    struct weir_limit_spec none = limit_of(WEIR_FIXED_WINDOW, 1, DAY, 0);
    none.burst = 2;
    assert_int_equal(check(&none, "burst"), WEIR_EINVAL);
    none = limit_of(WEIR_CONCURRENCY, 1, DAY, 0);
    assert_int_equal(check(&none, ""), 0);
    none.burst = 2;
    assert_int_equal(check(&none, "burst"), WEIR_EINVAL);
    none = limit_of(WEIR_TOKEN_BUCKET, 1, DAY, 1);
    none.algorithm = (enum weir_algorithm)99;
    assert_int_equal(check(&none, "algorithm"), WEIR_EINVAL);
    none = limit_of(WEIR_TOKEN_BUCKET, 1, DAY, 1);
    none.align = WEIR_ALIGN_FIRST;
    assert_int_equal(check(&none, "align"), WEIR_EINVAL);
    none.reserved[0] = 1;
    none.align = WEIR_ALIGN_CALENDAR;
    assert_int_equal(check(&none, "reserved"), WEIR_EINVAL);
    for (size_t i = 0; i < 5; i++)
        specs[i] = limit_of(WEIR_FIXED_WINDOW, 1, DAY, 0);
    specs[0].count_mode = (enum weir_count)99;
    specs[1].mode = (enum weir_mode)99;
    specs[2].on_full = (enum weir_on_full)99;
    specs[3].on_change = (enum weir_on_change)99;
    specs[4].calendar_count = 3651;
    for (size_t i = 0; i < 5; i++) {
        struct weir_fault fault;
        assert_int_not_equal(weir_limit_check(&specs[i], &fault), 0);
        assert_string_equal(fault.field, fields[i]);
        assert_memory_equal(fault.text, "must be ", 8);
    }
    specs[4].calendar_count = 3650;
    assert_int_equal(weir_limit_check(&specs[4], NULL), 0);
}

/* Every number at its extremes: an error or a limit that still refuses. */
static void arithmetic__no_argument_turns_a_limit_off(void **state)
{
    (void)state;
    static const uint64_t extremes[] = { 0,         1,          SECOND, 366 * DAY,     3650 * DAY,
                                         INT64_MAX, UINT64_MAX, 65536,  WEIR_BURST_MAX };
    const size_t n = sizeof(extremes) / sizeof(extremes[0]);
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 1, SECOND, 1);
    for (size_t i = 0; i < n * n * n * 5; i++) {
        struct weir_limit_spec spec = limit_of((enum weir_algorithm)(i % 5), extremes[i / 5 % n],
                                               extremes[i / 5 / n % n], extremes[i / 5 / n / n]);
        spec.align = i % 2 && spec.algorithm == WEIR_FIXED_WINDOW ? WEIR_ALIGN_FIRST : WEIR_ALIGN_CALENDAR;
        if (weir_limit_check(&spec, NULL) != 0) {
            continue;
        }
        fixture_define(&f, &spec, 1, T0);
        char key[32];
        snprintf(key, sizeof(key), "%zu", i);
        uint64_t capacity = weir_limit_capacity(&spec);
        struct weir_time now = at(UINT64_MAX / 4);
        if (spec.algorithm != WEIR_SLIDING_LOG || capacity < 2000) {
            assert_true(ask_at(&f, key, capacity, now, 0).admitted);
            assert_true(capacity == 0 || !ask_at(&f, key, capacity, now, 0).admitted);
        }
        struct weir_verdict v = ask_at(&f, key, WEIR_COST_MAX, now, 0);
        assert_false(v.admitted);
        assert_int_equal(v.retry_after_ns, WEIR_NEVER);
    }
    fixture_destroy(&f);
}

static void arithmetic__a_cost_above_the_maximum_is_an_error(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 1, SECOND, 1);
    struct weir_charge charge = charge_of(&f, 0, "k", (uint64_t)WEIR_COST_MAX + 1);
    struct weir_time time = at(T0);
    struct weir_decision decision;
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_decide(f.limiter, &charge, 1, &time, 0, &decision, &verdict), WEIR_ERANGE);
    charge.cost = UINT64_MAX;
    assert_int_equal(weir_limiter_decide_many(f.limiter, &charge, 1, &time, 0, &verdict), WEIR_ERANGE);
    assert_int_equal(peek(&f, 0, T0).remaining, 1);
    fixture_destroy(&f);
}

static void arithmetic__a_count_of_zero_blocks_whatever_the_burst(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        bool bucket = algorithm <= WEIR_LEAKY_BUCKET;
        struct fixture f = one_limit((enum weir_algorithm)algorithm, 0, SECOND, bucket ? 100 : 0);
        struct weir_verdict v = ask(&f, 1, T0);
        assert_false(v.admitted);
        assert_int_equal(v.capacity, 0);
        assert_int_equal(v.remaining, 0);
        assert_int_equal(v.retry_after_ns, WEIR_NEVER);
        assert_true(ask(&f, 0, T0).admitted);
        fixture_destroy(&f);
    }
}

static void arithmetic__a_period_of_zero_is_an_error(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        for (uint64_t count = 0; count < 2; count++) {
            struct weir_limit_spec spec = limit_of((enum weir_algorithm)algorithm, count, 0, 0);
            assert_int_equal(check(&spec, "period"), WEIR_ERANGE);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic__rates_run_from_1_per_366_days_to_a_billion_per_second),
        cmocka_unit_test(arithmetic__a_rate_is_never_above_and_at_most_a_thousandth_below),
        cmocka_unit_test(arithmetic__decisions_are_right_across_the_wrap_of_a_word),
        cmocka_unit_test(arithmetic__a_bucket_fills_within_ten_years),
        cmocka_unit_test(arithmetic__a_log_holds_at_most_65536),
        cmocka_unit_test(arithmetic__errors_name_the_field_and_its_range),
        cmocka_unit_test(arithmetic__a_fault_names_its_field),
        cmocka_unit_test(arithmetic__no_argument_turns_a_limit_off),
        cmocka_unit_test(arithmetic__a_cost_above_the_maximum_is_an_error),
        cmocka_unit_test(arithmetic__a_count_of_zero_blocks_whatever_the_burst),
        cmocka_unit_test(arithmetic__a_period_of_zero_is_an_error),
    };
    return cmocka_run_group_tests_name("semantics: arithmetic", tests, NULL, NULL);
}
