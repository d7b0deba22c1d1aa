/* SPDX-License-Identifier: Apache-2.0
 *
 * semantics.md, "The limits", below the table: cost, refused requests, retry_after and reset_after
 * (docs/semantics-tests.md). */
#include "fixture.h"
#include "random.h"

static struct weir_limit_spec any_algorithm(int algorithm, uint64_t count, uint64_t period_ns)
{
    struct weir_limit_spec spec = limit_of((enum weir_algorithm)algorithm, count, period_ns, 0);
    if (algorithm == WEIR_FIXED_WINDOW) {
        spec.align = WEIR_ALIGN_FIRST;
    }
    return spec;
}

static void cost__0_is_always_admitted_changes_nothing_and_shows_the_numbers(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = any_algorithm(algorithm, 10, SECOND);
        struct fixture f = fixture_create(&spec, 1);
        for (uint64_t used = 0; used <= 10; used++) {
            struct weir_verdict before = peek(&f, 0, T0);
            struct weir_verdict zero = ask(&f, 0, T0);
            struct weir_verdict after = peek(&f, 0, T0);
            assert_true(zero.admitted && zero.retry_after_ns == 0);
            assert_int_equal(zero.remaining, 10 - used);
            assert_same_verdict(&before, &zero);
            assert_same_verdict(&before, &after);
            ask(&f, 1, T0);
        }
        fixture_destroy(&f);
    }
}

static void cost__a_cost_of_0_leaves_no_key_behind(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, SECOND, 10);
    struct weir_limiter_stats stats;
    ask(&f, 0, T0);
    peek(&f, 3, T0);
    weir_limiter_stats(f.limiter, &stats);
    assert_int_equal(stats.keys, 0);
    fixture_destroy(&f);
}

static void cost__peek_refuses_exactly_when_charge_would(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = any_algorithm(algorithm, 10, SECOND);
        struct fixture f = fixture_create(&spec, 1);
        uint64_t now = T0, refused = 0;
        for (int i = 0; i < 20000; i++) {
            uint64_t cost = test_random_below(&random, 13);
            now += test_random_below(&random, cost * 120 * MS + 1);
            struct weir_verdict first = peek(&f, cost, now);
            struct weir_verdict again = peek(&f, cost, now);
            assert_same_verdict(&first, &again);
            struct weir_verdict charged = ask(&f, cost, now);
            assert_int_equal(first.admitted, charged.admitted);
            assert_int_equal(first.retry_after_ns, charged.retry_after_ns);
            refused += !charged.admitted;
        }
        assert_true(refused > 4000 && refused < 16000);
        fixture_destroy(&f);
    }
}

static void cost__above_the_capacity_is_never_and_leaves_the_state_untouched(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        for (int mode = 0; mode <= WEIR_COUNT_ATTEMPTS; mode++) {
            struct weir_limit_spec spec = any_algorithm(algorithm, 10, SECOND);
            spec.count_mode = (enum weir_count)mode;
            struct fixture f = fixture_create(&spec, 1);
            ask(&f, 4, T0);
            struct weir_verdict before = peek(&f, 0, T0);
            const uint64_t costs[] = { 11, 12, UINT32_MAX, (uint64_t)WEIR_COST_MAX };
            for (size_t i = 0; i < 4; i++) {
                struct weir_verdict v = ask(&f, costs[i], T0);
                assert_false(v.admitted);
                assert_int_equal(v.retry_after_ns, WEIR_NEVER);
                assert_int_equal(v.remaining, 6);
            }
            struct weir_verdict after = peek(&f, 0, T0);
            assert_same_verdict(&before, &after);
            fixture_destroy(&f);
        }
    }
}

static void refused__requests_change_no_state(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = any_algorithm(algorithm, 10, SECOND);
        struct fixture f = fixture_create(&spec, 1);
        ask(&f, 8, T0);
        struct weir_verdict before = peek(&f, 3, T0 + 5);
        for (int i = 0; i < 1000; i++) {
            assert_false(ask(&f, 3, T0 + 5).admitted);
        }
        struct weir_verdict after = peek(&f, 3, T0 + 5);
        assert_same_verdict(&before, &after);
        fixture_destroy(&f);
    }
}

static void refused__attempts_charge_at_most_down_to_empty(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = any_algorithm(algorithm, 10, SECOND);
        spec.count_mode = WEIR_COUNT_ATTEMPTS;
        struct fixture f = fixture_create(&spec, 1);
        ask(&f, 6, T0);
        struct weir_verdict v = ask(&f, 5, T0);
        assert_false(v.admitted);
        assert_int_equal(v.remaining, 0);
        uint64_t reset = v.reset_after_ns;
        for (int i = 0; i < 100; i++) {
            v = ask(&f, 5, T0);
            assert_false(v.admitted);
            assert_int_equal(v.reset_after_ns, reset); /* empty, not in debt */
        }
        fixture_destroy(&f);
    }
}

/* Hammering an attempts limit keeps it empty; waiting as told gets in. */
static void refused__attempts_are_told_the_wait_after_their_own_charge(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, SECOND, 10);
    spec.count_mode = WEIR_COUNT_ATTEMPTS;
    struct fixture f = fixture_create(&spec, 1);
    ask(&f, 7, T0);
    struct weir_verdict v = ask(&f, 5, T0);
    assert_int_equal(v.retry_after_ns, 500 * MS);
    assert_false(peek(&f, 5, T0 + v.retry_after_ns - 1).admitted);
    assert_true(ask(&f, 5, T0 + v.retry_after_ns).admitted);
    fixture_destroy(&f);
}

/* A limit in shadow goes as it would: what it would have refused was an attempt, though the request passes. */
static void refused__attempts_of_a_shadow_limit_are_charged_though_the_request_passes(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 3, HOUR, 3);
    spec.count_mode = WEIR_COUNT_ATTEMPTS;
    spec.mode = WEIR_MODE_SHADOW;
    struct fixture f = fixture_create(&spec, 1);
    assert_true(ask(&f, 2, T0).admitted);
    struct weir_verdict v = ask(&f, 2, T0);
    assert_true(!v.admitted && v.shadow);
    assert_int_equal(peek(&f, 0, T0).remaining, 0);
    fixture_destroy(&f);
}

static void refused__attempts_are_counted_per_limit_either_way(void **state)
{
    (void)state;
    for (int mode = 0; mode <= WEIR_COUNT_ATTEMPTS; mode++) {
        struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, SECOND, 10);
        spec.count_mode = (enum weir_count)mode;
        struct fixture f = fixture_create(&spec, 1);
        ask(&f, 10, T0);
        for (int i = 0; i < 7; i++) {
            ask(&f, 1, T0);
        }
        peek(&f, 1, T0);
        struct weir_limit_stats stats;
        assert_int_equal(weir_limiter_limit_stats(f.limiter, f.ids[0], &stats), 0);
        assert_int_equal(stats.refused, 7);
        fixture_destroy(&f);
    }
}

/* The promise itself, at random: refused one ns before, admitted then, for every algorithm and cost. */
static void retry_after__is_the_smallest_wait_that_admits(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        for (int round = 0; round < 60; round++) {
            uint64_t count = 1 + test_random_below(&random, 40);
            uint64_t period = count + test_random_below(&random, UINT64_C(1) << (5 + test_random_below(&random, 45)));
            struct weir_limit_spec spec = any_algorithm(algorithm, count, period);
            struct fixture f = fixture_create(&spec, 1);
            uint64_t now = T0;
            for (int i = 0; i < 20; i++) {
                now += test_random_below(&random, period / 4 + 1);
                uint64_t cost = 1 + test_random_below(&random, count);
                struct weir_verdict v = ask(&f, cost, now);
                assert_true(v.admitted == (v.retry_after_ns == 0)); /* never 0 while refused */
                if (!v.admitted) {
                    assert_false(peek(&f, cost, now + v.retry_after_ns - 1).admitted);
                    assert_true(peek(&f, cost, now + v.retry_after_ns).admitted);
                }
            }
            fixture_destroy(&f);
        }
    }
}

static void reset_after__is_when_the_state_equals_a_fresh_one(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        for (int round = 0; round < 60; round++) {
            uint64_t count = 1 + test_random_below(&random, 40);
            uint64_t period = count + test_random_below(&random, UINT64_C(1) << (5 + test_random_below(&random, 45)));
            struct weir_limit_spec spec = any_algorithm(algorithm, count, period);
            struct fixture f = fixture_create(&spec, 1);
            uint64_t now = T0 + test_random_below(&random, period);
            struct weir_verdict v = ask(&f, 1 + test_random_below(&random, count), now);
            assert_true(v.reset_after_ns > 0);
            uint64_t then = now + v.reset_after_ns;
            assert_true(peek(&f, 0, then - 1).remaining < count || peek(&f, 0, then - 1).reset_after_ns > 0);
            struct weir_verdict used = peek(&f, count, then);
            struct weir_verdict fresh = ask_at(&f, "never seen", count, at(then), WEIR_PEEK);
            assert_same_verdict(&used, &fresh);
            fixture_destroy(&f);
        }
    }
}

static void next_after__is_when_remaining_grows(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = any_algorithm(algorithm, 10, SECOND);
        struct fixture f = fixture_create(&spec, 1);
        assert_int_equal(peek(&f, 0, T0).next_after_ns, 0);
        struct weir_verdict v = ask(&f, 7, T0 + 3);
        assert_int_equal(peek(&f, 0, T0 + 3 + v.next_after_ns - 1).remaining, 3);
        assert_true(peek(&f, 0, T0 + 3 + v.next_after_ns).remaining > 3);
        fixture_destroy(&f);
    }
}

static void refund__gives_back_exactly_what_was_taken(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = any_algorithm(algorithm, 10, SECOND);
        struct fixture f = fixture_create(&spec, 1);
        struct weir_time time = at(T0);
        ask(&f, 4, T0);
        struct weir_verdict before = peek(&f, 0, T0);
        ask(&f, 3, T0);
        struct weir_charge charge = charge_of(&f, 0, "k", 3);
        uint64_t units = 0;
        assert_int_equal(weir_limiter_refund(f.limiter, &charge, 3, &time, &units), 0);
        assert_int_equal(units, 3);
        struct weir_verdict after = peek(&f, 0, T0);
        assert_same_verdict(&before, &after);
        assert_int_equal(weir_limiter_refund(f.limiter, &charge, 100, &time, &units), 0);
        assert_int_equal(units, 4); /* never more than is used */
        assert_int_equal(peek(&f, 0, T0).remaining, 10);
        assert_int_equal(weir_limiter_refund(f.limiter, &charge, 100, &time, &units), 0);
        assert_int_equal(units, 0);
        fixture_destroy(&f);
    }
}

/* One answer, which is yes only if the charge was admitted and is charged: a wrong argument is a no, too. */
static void admit__says_yes_only_if_it_was_charged(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 3, SECOND, 3);
    const struct weir_time time = at(T0);
    struct weir_charge charge = charge_of(&f, 0, "k", 1);
    for (uint64_t left = 3; left > 0; left--) {
        assert_int_equal(peek(&f, 0, T0).remaining, left);
        assert_true(weir_limiter_admit(f.limiter, &charge, &time));
    }
    assert_false(weir_limiter_admit(f.limiter, &charge, &time));
    charge.cost = UINT64_MAX;
    assert_false(weir_limiter_admit(f.limiter, &charge, &time));
    charge.cost = 1;
    charge.limit += 1000;
    assert_false(weir_limiter_admit(f.limiter, &charge, &time));
    assert_int_equal(peek(&f, 0, T0).remaining, 0);
    fixture_destroy(&f);
}

/* Several at once as one by one: in shadow it is yes, refused or not; what is wrong is found before anything is
 * charged. */
static void admit_many__says_of_each_what_admit_says(void **state)
{
    (void)state;
    struct weir_limit_spec specs[3];
    for (size_t i = 0; i < 3; i++)
        specs[i] = limit_of(WEIR_TOKEN_BUCKET, 3, DAY, 3);
    specs[1].mode = WEIR_MODE_SHADOW;
    specs[2] = limit_of(WEIR_SLIDING_LOG, 3, DAY, 0);
    struct fixture f = fixture_create(specs, 3);
    const struct weir_time time = at(T0);
    struct weir_charge charges[15];
    bool admitted[15];
    for (size_t i = 0; i < 15; i++)
        charges[i] = charge_of(&f, i % 3, "k", 1);
    charges[14].cost = UINT64_MAX;
    assert_int_equal(weir_limiter_admit_many(f.limiter, charges, 15, &time, admitted), WEIR_ERANGE);
    charges[14].cost = 1;
    charges[13].limit = 1;
    assert_int_equal(weir_limiter_admit_many(f.limiter, charges, 15, &time, admitted), WEIR_ENOENT);
    charges[13].limit = f.ids[1];
    assert_int_equal(weir_limiter_admit_many(f.limiter, charges, WEIR_BATCH_MAX + 1, &time, admitted), WEIR_ERANGE);
    assert_int_equal(weir_limiter_admit_many(f.limiter, charges, 15, &time, admitted), 0);
    for (size_t i = 0; i < 15; i++)
        assert_int_equal(admitted[i], i % 3 == 1 || i < 9);
    assert_int_equal(weir_limiter_admit_many(f.limiter, charges, 0, &time, admitted), 0);
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admit_many__says_of_each_what_admit_says),
        cmocka_unit_test(cost__0_is_always_admitted_changes_nothing_and_shows_the_numbers),
        cmocka_unit_test(cost__a_cost_of_0_leaves_no_key_behind),
        cmocka_unit_test(cost__peek_refuses_exactly_when_charge_would),
        cmocka_unit_test(cost__above_the_capacity_is_never_and_leaves_the_state_untouched),
        cmocka_unit_test(refused__requests_change_no_state),
        cmocka_unit_test(refused__attempts_charge_at_most_down_to_empty),
        cmocka_unit_test(refused__attempts_are_told_the_wait_after_their_own_charge),
        cmocka_unit_test(refused__attempts_of_a_shadow_limit_are_charged_though_the_request_passes),
        cmocka_unit_test(refused__attempts_are_counted_per_limit_either_way),
        cmocka_unit_test(retry_after__is_the_smallest_wait_that_admits),
        cmocka_unit_test(reset_after__is_when_the_state_equals_a_fresh_one),
        cmocka_unit_test(next_after__is_when_remaining_grows),
        cmocka_unit_test(refund__gives_back_exactly_what_was_taken),
        cmocka_unit_test(admit__says_yes_only_if_it_was_charged),
    };
    return cmocka_run_group_tests_name("semantics: requests", tests, NULL, NULL);
}
