/* SPDX-License-Identifier: Apache-2.0
 *
 * semantics.md, "The limits", the table: what each algorithm admits and promises (docs/semantics-tests.md). */
#include "fixture.h"

static void limits__a_token_bucket_starts_full_and_holds_at_most_its_burst(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, SECOND, 4);
    assert_int_equal(peek(&f, 1, T0).remaining, 4);
    assert_int_equal(admitted_of(&f, 10, T0), 4);
    assert_int_equal(peek(&f, 1, T0 + HOUR).remaining, 4);
    assert_int_equal(admitted_of(&f, 10, T0 + HOUR), 4);
    fixture_destroy(&f);
}

static void limits__a_token_bucket_refills_n_per_p(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, SECOND, 4);
    ask(&f, 4, T0);
    assert_false(ask(&f, 3, T0 + 300 * MS - 1).admitted);
    assert_true(ask(&f, 3, T0 + 300 * MS).admitted);
    assert_false(ask(&f, 1, T0 + 300 * MS).admitted);
    fixture_destroy(&f);
}

/* Greedy over every s and t of 200 instants: never more than b + n (t - s) / p. */
static void limits__a_token_bucket_admits_at_most_burst_plus_rate_in_any_stretch(void **state)
{
    (void)state;
    enum { STEPS = 200 };
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 7, SECOND, 5);
    uint64_t admitted[STEPS];
    for (uint64_t i = 0; i < STEPS; i++) {
        admitted[i] = admitted_of(&f, 6, T0 + i * 37 * MS);
    }
    for (uint64_t s = 0; s < STEPS; s++) {
        uint64_t sum = 0;
        for (uint64_t t = s; t < STEPS; t++) {
            sum += admitted[t];
            assert_true(sum * 1000 <= 5 * 1000 + 7 * (t - s) * 37);
        }
    }
    fixture_destroy(&f);
}

static void limits__a_leaky_bucket_delays_by_its_level(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_LEAKY_BUCKET, 10, SECOND, 5);
    for (uint64_t i = 0; i < 5; i++) {
        struct weir_verdict v = ask(&f, 1, T0);
        assert_true(v.admitted);
        assert_int_equal(v.delay_ns, i * 100 * MS); /* 0 for the first of a burst */
    }
    struct weir_verdict later = ask(&f, 1, T0 + 150 * MS);
    assert_int_equal(later.delay_ns, 350 * MS);
    fixture_destroy(&f);
}

static void limits__a_leaky_bucket_refuses_at_once_what_does_not_fit(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_LEAKY_BUCKET, 10, SECOND, 5);
    ask(&f, 3, T0);
    struct weir_verdict v = ask(&f, 3, T0);
    assert_false(v.admitted);
    assert_int_equal(v.delay_ns, 0);
    assert_int_equal(v.retry_after_ns, 100 * MS);
    assert_int_equal(v.remaining, 2);
    fixture_destroy(&f);
}

/* Whatever comes in, and when, c units keep the outlet busy for c * p / n. */
static void limits__a_leaky_buckets_outputs_are_spaced_by_their_cost(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_LEAKY_BUCKET, 10, SECOND, 20);
    uint64_t last = 0, last_cost = 0;
    for (uint64_t i = 0; i < 500; i++) {
        uint64_t now = T0 + i * 130 * MS + (i % 7) * 11 * MS;
        uint64_t cost = 1 + i * 5 % 4;
        struct weir_verdict v = ask(&f, cost, now);
        if (v.admitted) {
            assert_true(last == 0 || now + v.delay_ns >= last + last_cost * 100 * MS);
            last = now + v.delay_ns;
            last_cost = cost;
        }
    }
    fixture_destroy(&f);
}

/* The same burst: a token bucket of size 1 refuses what a leaky bucket shapes; a larger one lets it through. */
static void limits__a_leaky_bucket_is_not_a_token_bucket_of_size_1(void **state)
{
    (void)state;
    struct fixture leaky = one_limit(WEIR_LEAKY_BUCKET, 10, SECOND, 5);
    struct fixture one = one_limit(WEIR_TOKEN_BUCKET, 10, SECOND, 1);
    struct fixture five = one_limit(WEIR_TOKEN_BUCKET, 10, SECOND, 5);
    assert_int_equal(admitted_of(&one, 5, T0), 1);
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(ask(&leaky, 1, T0).delay_ns, i * 100 * MS);
        struct weir_verdict through = ask(&five, 1, T0);
        assert_true(through.admitted && through.delay_ns == 0);
    }
    fixture_destroy(&leaky);
    fixture_destroy(&one);
    fixture_destroy(&five);
}

static void limits__a_waiter_is_refunded_only_if_nothing_queued_after_it(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_LEAKY_BUCKET, 10, SECOND, 5);
    struct weir_charge charge = charge_of(&f, 0, "k", 1);
    struct weir_time time = at(T0);
    struct weir_verdict first = ask(&f, 1, T0);
    struct weir_verdict second = ask(&f, 1, T0);
    uint64_t newest = 1;
    assert_int_equal(weir_limiter_refund_last(f.limiter, &charge, first.ticket, &time, &newest), 0);
    assert_int_equal(newest, 0);
    assert_int_equal(peek(&f, 0, T0).remaining, 3);
    assert_int_equal(weir_limiter_refund_last(f.limiter, &charge, second.ticket, &time, &newest), 0);
    assert_int_equal(newest, first.ticket); /* the newest now is who came before */
    assert_int_equal(peek(&f, 0, T0).remaining, 4);
    assert_int_equal(weir_limiter_refund_last(f.limiter, &charge, second.ticket, &time, &newest), 0);
    assert_int_equal(newest, 0); /* not twice */
    fixture_destroy(&f);
}

static void limits__a_fixed_window_admits_n_aligned_to_the_calendar(void **state)
{
    (void)state;
    struct fixture f = calendar_window(5, MINUTE, WEIR_CALENDAR_FIXED, NULL);
    uint64_t minute = 16 * MINUTE + MINUTE * 1000;
    assert_int_equal(admitted_of(&f, 9, minute - 1), 5);
    struct weir_verdict v = ask(&f, 1, minute - 1);
    assert_int_equal(v.retry_after_ns, 1);
    assert_int_equal(admitted_of(&f, 9, minute), 5);
    v = ask(&f, 1, minute);
    assert_int_equal(v.retry_after_ns, MINUTE);
    assert_int_equal(v.reset_after_ns, MINUTE);
    fixture_destroy(&f);
}

static void limits__a_fixed_window_can_start_with_the_first_hit(void **state)
{
    (void)state;
    struct fixture f = first_window(5, MINUTE);
    uint64_t first = T0 + 1234567;
    assert_true(ask(&f, 1, first).admitted);
    assert_int_equal(admitted_of(&f, 9, first + MINUTE - 1), 4);
    assert_int_equal(ask(&f, 1, first + MINUTE - 1).retry_after_ns, 1);
    assert_int_equal(admitted_of(&f, 9, first + MINUTE), 5);
    assert_int_equal(ask(&f, 1, first + MINUTE).retry_after_ns, MINUTE);
    fixture_destroy(&f);
}

/* Inherent, and documented: n in the last instant of one window and n in the first of the next. */
static void limits__a_fixed_window_admits_2n_across_a_boundary(void **state)
{
    (void)state;
    struct fixture f = calendar_window(5, MINUTE, WEIR_CALENDAR_FIXED, NULL);
    uint64_t minute = 2000 * MINUTE;
    assert_int_equal(admitted_of(&f, 9, minute - 1) + admitted_of(&f, 9, minute), 10);
    fixture_destroy(&f);
}

/* (t - p, t]: a hit leaves exactly p after it came. */
static void limits__a_sliding_log_counts_the_rolling_window_exactly(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_SLIDING_LOG, 3, SECOND, 0);
    ask(&f, 1, T0);
    ask(&f, 2, T0 + 400 * MS);
    assert_false(ask(&f, 1, T0 + SECOND - 1).admitted);
    assert_true(ask(&f, 1, T0 + SECOND).admitted);
    assert_false(ask(&f, 1, T0 + 1400 * MS - 1).admitted);
    assert_int_equal(admitted_of(&f, 9, T0 + 1400 * MS), 2);
    fixture_destroy(&f);
}

static void limits__a_sliding_log_is_exact_for_every_rolling_window(void **state)
{
    (void)state;
    enum { STEPS = 300, WIDTH = 27 }; /* 27 steps of 37 ms are within a second, 28 are not */
    struct fixture f = one_limit(WEIR_SLIDING_LOG, 9, SECOND, 0);
    uint64_t admitted[STEPS];
    for (uint64_t i = 0; i < STEPS; i++) {
        admitted[i] = admitted_of(&f, 1 + i * 7 % 5, T0 + i * 37 * MS);
        uint64_t sum = 0;
        for (uint64_t back = 0; back <= WIDTH && back <= i; back++) {
            sum += admitted[i - back];
        }
        assert_true(sum <= 9);
        assert_true(admitted[i] == 1 + i * 7 % 5 || sum == 9); /* and refuses only when it is full */
    }
    fixture_destroy(&f);
}

/* floor(previous * overlap) + current + c <= n. */
static void limits__a_sliding_counter_weighs_the_previous_window(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_SLIDING_COUNTER, 10, SECOND, 0);
    ask(&f, 10, T0 + 500 * MS);
    for (uint64_t ms = 0; ms < 1000; ms += 13) {
        uint64_t weighed = 10 * (1000 - ms) / 1000;
        assert_int_equal(peek(&f, 0, T0 + SECOND + ms * MS).remaining, 10 - weighed);
    }
    fixture_destroy(&f);
}

static void limits__a_sliding_counter_admits_at_most_n_per_aligned_window(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_SLIDING_COUNTER, 10, SECOND, 0);
    for (uint64_t window = 0; window < 50; window++) {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < 20; i++) {
            sum += admitted_of(&f, 1 + (i + window) % 4, T0 + window * SECOND + i * 50 * MS);
        }
        assert_true(sum <= 10);
    }
    fixture_destroy(&f);
}

/* n in the last tick of a window: by the end of the next the overlap is gone, and n more went through within p. */
static void limits__a_sliding_counter_can_reach_2n_in_a_rolling_window(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_SLIDING_COUNTER, 10, SECOND, 0);
    assert_int_equal(admitted_of(&f, 20, T0 + SECOND - 1), 10);
    uint64_t sum = 10;
    for (uint64_t now = T0 + SECOND; now < T0 + 2 * SECOND - 1; now += MS / 4) {
        sum += ask(&f, 1, now).admitted;
    }
    assert_int_equal(sum, 20);
    fixture_destroy(&f);
}

/* n at the start of a window: a log has forgotten them when the next begins, the counter refuses all. */
static void limits__a_sliding_counter_can_refuse_n_that_a_log_would_admit(void **state)
{
    (void)state;
    struct fixture counter = one_limit(WEIR_SLIDING_COUNTER, 10, SECOND, 0);
    struct fixture log = one_limit(WEIR_SLIDING_LOG, 10, SECOND, 0);
    assert_int_equal(admitted_of(&counter, 10, T0), 10);
    assert_int_equal(admitted_of(&log, 10, T0), 10);
    assert_int_equal(admitted_of(&counter, 10, T0 + SECOND), 0);
    assert_int_equal(admitted_of(&log, 10, T0 + SECOND), 10);
    fixture_destroy(&counter);
    fixture_destroy(&log);
}

static void limits__a_name_has_1_to_128_bytes(void **state)
{
    (void)state;
    char name[WEIR_LIMIT_NAME_MAX + 2];
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    const struct weir_time time = at(T0);
    memset(name, 'n', sizeof name);
    for (size_t size = 0; size <= WEIR_LIMIT_NAME_MAX + 1; size++) {
        const struct weir_limit_def def = { .name = name, .spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0) };
        const bool good = size > 0 && size <= WEIR_LIMIT_NAME_MAX;
        struct weir_fault fault;
        name[size] = '\0';
        assert_int_equal(weir_limiter_define(f.limiter, &def, 1, &time, f.ids, &fault), good ? 0 : WEIR_ERANGE);
        assert_string_equal(fault.text, good ? "" : "must be 1 to 128 bytes");
        name[size] = 'n';
    }
    fixture_destroy(&f);
}

static void limits__a_bucket_of_a_later_release_is_refused(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct weir_bucket bucket;
    struct weir_fault fault = { 0 };
    assert_int_equal(weir_bucket_init(&bucket, &spec, &fault), 0);
    spec.reserved[0] = 1;
    assert_int_equal(weir_bucket_init(&bucket, &spec, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "reserved");
    assert_string_equal(fault.text, "must be 0: only a later release knows what it means");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits__a_token_bucket_starts_full_and_holds_at_most_its_burst),
        cmocka_unit_test(limits__a_token_bucket_refills_n_per_p),
        cmocka_unit_test(limits__a_token_bucket_admits_at_most_burst_plus_rate_in_any_stretch),
        cmocka_unit_test(limits__a_leaky_bucket_delays_by_its_level),
        cmocka_unit_test(limits__a_leaky_bucket_refuses_at_once_what_does_not_fit),
        cmocka_unit_test(limits__a_leaky_buckets_outputs_are_spaced_by_their_cost),
        cmocka_unit_test(limits__a_leaky_bucket_is_not_a_token_bucket_of_size_1),
        cmocka_unit_test(limits__a_waiter_is_refunded_only_if_nothing_queued_after_it),
        cmocka_unit_test(limits__a_fixed_window_admits_n_aligned_to_the_calendar),
        cmocka_unit_test(limits__a_fixed_window_can_start_with_the_first_hit),
        cmocka_unit_test(limits__a_fixed_window_admits_2n_across_a_boundary),
        cmocka_unit_test(limits__a_sliding_log_counts_the_rolling_window_exactly),
        cmocka_unit_test(limits__a_sliding_log_is_exact_for_every_rolling_window),
        cmocka_unit_test(limits__a_sliding_counter_weighs_the_previous_window),
        cmocka_unit_test(limits__a_sliding_counter_admits_at_most_n_per_aligned_window),
        cmocka_unit_test(limits__a_sliding_counter_can_reach_2n_in_a_rolling_window),
        cmocka_unit_test(limits__a_sliding_counter_can_refuse_n_that_a_log_would_admit),
        cmocka_unit_test(limits__a_name_has_1_to_128_bytes),
        cmocka_unit_test(limits__a_bucket_of_a_later_release_is_refused),
    };
    return cmocka_run_group_tests_name("semantics: limits", tests, NULL, NULL);
}
