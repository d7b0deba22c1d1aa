/* SPDX-License-Identifier: Apache-2.0
 *
 * semantics.md, "One request, several limits" and "Keys" (docs/semantics-tests.md). */
#include "fixture.h"

static uint64_t remaining_of(const struct fixture *f, size_t limit, uint64_t now_ns)
{
    struct weir_charge charge = charge_of(f, limit, "k", 0);
    struct weir_decision decision;
    struct weir_verdict verdict;
    struct weir_time time = at(now_ns);
    assert_int_equal(weir_limiter_decide(f->limiter, &charge, 1, &time, 0, &decision, &verdict), 0);
    return verdict.remaining;
}

/* Five algorithms in one request; the smallest refuses, and none of the others is charged. */
static void several__every_limit_admits_and_all_are_charged_or_none_is(void **state)
{
    (void)state;
    struct weir_limit_spec specs[5];
    for (int i = 0; i < 5; i++) {
        specs[i] = limit_of((enum weir_algorithm)i, 10, HOUR, 0);
    }
    for (size_t smallest = 0; smallest < 5; smallest++) {
        specs[smallest].count = 3;
        struct fixture f = fixture_create(specs, 5);
        struct weir_verdict verdicts[5];
        assert_true(ask_all(&f, "k", 2, T0, 0, verdicts).admitted);
        for (size_t i = 0; i < 5; i++) {
            assert_true(verdicts[i].admitted);
            assert_int_equal(verdicts[i].remaining, specs[i].count - 2);
        }
        struct weir_decision refused = ask_all(&f, "k", 2, T0, 0, verdicts);
        assert_false(refused.admitted);
        assert_int_equal(refused.deciding, smallest);
        for (size_t i = 0; i < 5; i++) {
            assert_int_equal(verdicts[i].admitted, i != smallest);
            assert_int_equal(remaining_of(&f, i, T0), specs[i].count - 2);
        }
        fixture_destroy(&f);
        specs[smallest].count = 10;
    }
}

static void several__a_refusal_charges_the_attempts_limits_only(void **state)
{
    (void)state;
    struct weir_limit_spec specs[3] = {
        limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0),
        limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0),
        limit_of(WEIR_TOKEN_BUCKET, 1, HOUR, 0),
    };
    specs[1].count_mode = WEIR_COUNT_ATTEMPTS;
    struct fixture f = fixture_create(specs, 3);
    struct weir_verdict verdicts[3];
    assert_true(ask_all(&f, "k", 1, T0, 0, verdicts).admitted);
    for (uint64_t i = 1; i <= 12; i++) {
        assert_false(ask_all(&f, "k", 1, T0, 0, verdicts).admitted);
        assert_int_equal(remaining_of(&f, 0, T0), 9);
        assert_int_equal(remaining_of(&f, 1, T0), i < 9 ? 9 - i : 0);
    }
    fixture_destroy(&f);
}

static void several__never_charges_nothing(void **state)
{
    (void)state;
    struct weir_limit_spec specs[2] = { limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0),
                                        limit_of(WEIR_TOKEN_BUCKET, 3, HOUR, 0) };
    specs[0].count_mode = WEIR_COUNT_ATTEMPTS;
    struct fixture f = fixture_create(specs, 2);
    struct weir_verdict verdicts[2];
    struct weir_decision decision = ask_all(&f, "k", 4, T0, 0, verdicts);
    assert_false(decision.admitted);
    assert_int_equal(decision.retry_after_ns, WEIR_NEVER);
    assert_int_equal(remaining_of(&f, 0, T0), 10);
    assert_int_equal(remaining_of(&f, 1, T0), 3);
    fixture_destroy(&f);
}

/* Never first, then the longest wait; admitted, the least that remains. */
static void several__the_verdict_names_the_limit_that_refused(void **state)
{
    (void)state;
    struct weir_limit_spec specs[4] = {
        limit_of(WEIR_TOKEN_BUCKET, 5, MINUTE, 0),
        limit_of(WEIR_TOKEN_BUCKET, 5, HOUR, 0),
        limit_of(WEIR_TOKEN_BUCKET, 4, SECOND, 0),
        limit_of(WEIR_TOKEN_BUCKET, 9, SECOND, 0),
    };
    struct fixture f = fixture_create(specs, 4);
    struct weir_verdict verdicts[4];
    struct weir_decision decision = ask_all(&f, "k", 3, T0, 0, verdicts);
    assert_true(decision.admitted);
    assert_int_equal(decision.deciding, 2);
    decision = ask_all(&f, "k", 3, T0, 0, verdicts);
    assert_int_equal(decision.deciding, 1);
    assert_int_equal(decision.retry_after_ns, 12 * MINUTE);
    decision = ask_all(&f, "k", 5, T0, 0, verdicts);
    assert_int_equal(decision.deciding, 2);
    assert_int_equal(decision.retry_after_ns, WEIR_NEVER);
    fixture_destroy(&f);
}

static void several__each_limit_carries_its_own_numbers(void **state)
{
    (void)state;
    struct weir_limit_spec specs[3] = { limit_of(WEIR_TOKEN_BUCKET, 5, MINUTE, 0),
                                        limit_of(WEIR_SLIDING_LOG, 7, HOUR, 0),
                                        limit_of(WEIR_LEAKY_BUCKET, 9, SECOND, 0) };
    struct fixture f = fixture_create(specs, 3);
    struct weir_verdict verdicts[3];
    ask_all(&f, "k", 2, T0, 0, verdicts);
    assert_true(verdicts[0].capacity == 5 && verdicts[0].remaining == 3 && verdicts[0].reset_after_ns == 24 * SECOND);
    assert_true(verdicts[1].capacity == 7 && verdicts[1].remaining == 5 && verdicts[1].reset_after_ns == HOUR);
    assert_true(verdicts[2].capacity == 9 && verdicts[2].remaining == 7);
    fixture_destroy(&f);
}

static void several__a_shadow_limit_never_refuses_and_says_what_it_would_have_done(void **state)
{
    (void)state;
    struct weir_limit_spec specs[2] = { limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0),
                                        limit_of(WEIR_TOKEN_BUCKET, 2, HOUR, 0) };
    specs[1].mode = WEIR_MODE_SHADOW;
    struct fixture f = fixture_create(specs, 2);
    struct weir_verdict verdicts[2];
    for (int i = 0; i < 10; i++) {
        struct weir_decision decision = ask_all(&f, "k", 1, T0, 0, verdicts);
        assert_true(decision.admitted);
        assert_int_equal(decision.deciding, 0);
        assert_true(verdicts[1].shadow && !verdicts[0].shadow);
        assert_int_equal(verdicts[1].admitted, i < 2);
        assert_int_equal(verdicts[0].remaining, 9 - i);
    }
    assert_false(ask_all(&f, "k", 1, T0, 0, verdicts).admitted);
    struct weir_limit_stats stats;
    assert_int_equal(weir_limiter_limit_stats(f.limiter, f.ids[1], &stats), 0);
    assert_true(stats.refused >= 8);
    fixture_destroy(&f);
}

static void several__a_limit_that_is_off_is_not_there(void **state)
{
    (void)state;
    struct weir_limit_spec specs[2] = { limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0),
                                        limit_of(WEIR_TOKEN_BUCKET, 1, HOUR, 0) };
    specs[1].mode = WEIR_MODE_OFF;
    struct fixture f = fixture_create(specs, 2);
    struct weir_verdict verdicts[2];
    for (int i = 0; i < 10; i++) {
        assert_true(ask_all(&f, "k", 1, T0, 0, verdicts).admitted);
    }
    assert_false(ask_all(&f, "k", 1, T0, 0, verdicts).admitted);
    fixture_destroy(&f);
}

static void several__the_same_counter_twice_is_an_error(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, HOUR, 10);
    struct weir_charge charges[2] = { charge_of(&f, 0, "k", 1), charge_of(&f, 0, "k", 1) };
    struct weir_decision decision;
    struct weir_verdict verdicts[2];
    struct weir_time time = at(T0);
    assert_int_equal(weir_limiter_decide(f.limiter, charges, 2, &time, 0, &decision, verdicts), WEIR_EDUP);
    assert_int_equal(peek(&f, 0, T0).remaining, 10);
    fixture_destroy(&f);
}

/* An override: another setting of the same limit, on the same counter. */
static void several__an_override_shares_the_limits_counter(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, HOUR, 10);
    struct weir_limit_def defs[2] = {
        { .name = "api", .spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0) },
        { .name = "api", .variant = "ada", .spec = limit_of(WEIR_TOKEN_BUCKET, 20, HOUR, 0) },
    };
    struct weir_time time = at(T0);
    assert_int_equal(weir_limiter_define(f.limiter, defs, 2, &time, f.ids, NULL), 0);
    struct weir_charge base = charge_of(&f, 0, "ada", 1), override = charge_of(&f, 1, "ada", 12);
    assert_int_equal(base.key.hash, override.key.hash);
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_decide_many(f.limiter, &override, 1, &time, 0, &verdict), 0);
    assert_true(verdict.admitted && verdict.capacity == 20);
    assert_int_equal(weir_limiter_decide_many(f.limiter, &base, 1, &time, 0, &verdict), 0);
    assert_false(verdict.admitted);
    fixture_destroy(&f);
}

/* ---- keys ---- */

static uint64_t hash_of(const struct fixture *f, size_t limit, const struct weir_slice *values, size_t count)
{
    struct weir_key key;
    assert_int_equal(weir_limiter_key(f->limiter, f->ids[limit], values, count, &key), 0);
    return key.hash;
}

static void keys__distinct_tuples_never_share_a_counter_by_concatenation(void **state)
{
    (void)state;
    struct weir_limit_spec specs[2] = { limit_of(WEIR_TOKEN_BUCKET, 1, HOUR, 0),
                                        limit_of(WEIR_TOKEN_BUCKET, 1, HOUR, 0) };
    struct fixture f = fixture_create(specs, 2);
    const struct weir_slice tuples[][3] = {
        { { "ab", 2 }, { "c", 1 } },
        { { "a", 1 }, { "bc", 2 } },
        { { "abc", 3 }, { "", 0 } },
        { { "", 0 }, { "abc", 3 } },
        { { "abc", 3 } },
        { { "a", 1 }, { "b", 1 }, { "c", 1 } },
        { { "ab\0c", 4 } },
        { { "ab", 2 }, { "\0c", 2 } },
        { { "", 0 } },
        { { "", 0 }, { "", 0 } },
        { { "\0", 1 } },
    };
    const size_t sizes[] = { 2, 2, 2, 2, 1, 3, 1, 2, 1, 2, 1 };
    uint64_t hashes[24];
    for (size_t i = 0; i < 22; i++) {
        hashes[i] = hash_of(&f, i / 11, tuples[i % 11], sizes[i % 11]);
        for (size_t j = 0; j < i; j++) {
            assert_true(hashes[i] != hashes[j]);
        }
    }
    fixture_destroy(&f);
}

static void keys__empty_binary_and_utf8_values_are_legal_up_to_a_length(void **state)
{
    (void)state;
    static char big[WEIR_KEY_BYTES_MAX + 1];
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 1, HOUR, 1);
    const struct weir_slice legal[] = {
        { "", 0 },         { "\0\xff\xfe\r\n", 5 },     { "\xc3\xa4\xe6\xbc\xa2", 5 },
        { "\xc3\x28", 2 }, { big, WEIR_KEY_BYTES_MAX },
    };
    struct weir_key key;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(weir_limiter_key(f.limiter, f.ids[0], &legal[i], 1, &key), 0);
    }
    const struct weir_slice longer[2] = { { big, WEIR_KEY_BYTES_MAX }, { "x", 1 } };
    assert_int_equal(weir_limiter_key(f.limiter, f.ids[0], longer, 2, &key), WEIR_ERANGE);
    struct weir_slice many[WEIR_KEY_VALUES_MAX + 1] = { { "", 0 } };
    assert_int_equal(weir_limiter_key(f.limiter, f.ids[0], many, WEIR_KEY_VALUES_MAX, &key), 0);
    assert_int_equal(weir_limiter_key(f.limiter, f.ids[0], many, WEIR_KEY_VALUES_MAX + 1, &key), WEIR_ERANGE);
    fixture_destroy(&f);
}

static void keys__placement_depends_on_a_secret_of_the_process(void **state)
{
    (void)state;
    const uint8_t secret[16] = { 1, 2, 3 };
    struct weir_limiter_options own = { .memory_max = (size_t)1 << 20 };
    struct weir_limiter_options given = { .memory_max = (size_t)1 << 20, .secret = secret };
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 1, HOUR, 1);
    const struct weir_slice value = { "k", 1 };
    uint64_t hashes[4];
    for (size_t i = 0; i < 4; i++) {
        struct fixture f = fixture_create_with(i < 2 ? &own : &given, &spec, 1);
        hashes[i] = hash_of(&f, 0, &value, 1);
        fixture_destroy(&f);
    }
    assert_true(hashes[0] != hashes[1]); /* random each time */
    assert_int_equal(hashes[2], hashes[3]);
}

/* It says how long it would have held the request, and nobody waits for it. */
static void several__a_shadow_delays_nobody(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_LEAKY_BUCKET, 10, SECOND, 10);
    struct weir_verdict verdict;
    spec.mode = WEIR_MODE_SHADOW;
    struct fixture f = fixture_create(&spec, 1);
    for (uint64_t before = 0; before < 3; before++) {
        const struct weir_decision decision = ask_all(&f, "k", 1, T0, 0, &verdict);
        assert_true(decision.admitted && verdict.shadow);
        assert_int_equal(verdict.delay_ns, before * SECOND / 10);
        assert_int_equal(decision.delay_ns, 0);
    }
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several__every_limit_admits_and_all_are_charged_or_none_is),
        cmocka_unit_test(several__a_refusal_charges_the_attempts_limits_only),
        cmocka_unit_test(several__never_charges_nothing),
        cmocka_unit_test(several__the_verdict_names_the_limit_that_refused),
        cmocka_unit_test(several__each_limit_carries_its_own_numbers),
        cmocka_unit_test(several__a_shadow_limit_never_refuses_and_says_what_it_would_have_done),
        cmocka_unit_test(several__a_shadow_delays_nobody),
        cmocka_unit_test(several__a_limit_that_is_off_is_not_there),
        cmocka_unit_test(several__the_same_counter_twice_is_an_error),
        cmocka_unit_test(several__an_override_shares_the_limits_counter),
        cmocka_unit_test(keys__distinct_tuples_never_share_a_counter_by_concatenation),
        cmocka_unit_test(keys__empty_binary_and_utf8_values_are_legal_up_to_a_length),
        cmocka_unit_test(keys__placement_depends_on_a_secret_of_the_process),
    };
    return cmocka_run_group_tests_name("semantics: several limits and keys", tests, NULL, NULL);
}
