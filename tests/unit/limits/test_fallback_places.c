/* SPDX-License-Identifier: Apache-2.0
 *
 * `on_failure: local`: which keys there is a place for, and what is kept there. */
#include "fixture.h"
#include "limits/fallback.h"

#define SETS 64 /* the least */
#define WAYS 8  /* places of a set */
#define NEWCOMER 99

static const struct weir_limit_spec share = { .count = 10, .period_ns = 10 * SECOND }; /* a unit a second */
static const struct weir_limit_spec twofold = { .count = 20, .period_ns = 10 * SECOND };

static struct weir_fallback *make(size_t keys_max)
{
    struct weir_fallback *fallback = NULL;
    assert_int_equal(weir_fallback_create(1, keys_max, T0 - 10 * SECOND, &fallback), 0);
    return fallback;
}

static uint64_t take(struct weir_fallback *fallback, uint64_t number, uint64_t set, uint64_t most, uint64_t now_ns)
{
    const struct weir_remote_key key = { .id = { number, set } };
    const struct weir_limit_spec *spec = number == NEWCOMER ? &twofold : &share;
    struct weir_verdict verdict = { .admitted = true };
    uint64_t taken = 0;
    while (taken < most) {
        assert_int_equal(weir_fallback_decide(fallback, 0, spec, 0, &key, 1, false, now_ns, &verdict), 0);
        if (!verdict.admitted)
            break;
        taken++;
    }
    return taken;
}

/* The newcomer to a full set takes the place of whom that gives back the least, and nothing else of it. */
static void the_one_that_is_fresh_soonest_gives_way(void **state)
{
    (void)state;
    for (uint64_t soonest = 1; soonest <= WAYS; soonest++) {
        struct weir_fallback *fallback = make(0);
        for (uint64_t number = 1; number <= WAYS; number++)
            assert_int_equal(take(fallback, number, 5, number == soonest ? 2 : 7, T0), number == soonest ? 2 : 7);
        assert_int_equal(take(fallback, NEWCOMER, 5, 19, T0), 19);
        for (uint64_t number = 1; number <= WAYS; number++)
            if (number != soonest)
                assert_int_equal(take(fallback, number, 5, 10, T0), 3);
        assert_int_equal(take(fallback, NEWCOMER, 5, 20, T0), 1);
        weir_fallback_destroy(fallback);
    }
}

/* All the sets that there is room for are used. */
static void as_many_keys_as_are_said_have_their_places(void **state)
{
    (void)state;
    for (uint64_t sets = SETS; sets <= 8 * SETS; sets *= 2) {
        struct weir_fallback *fallback = make(sets * WAYS);
        for (uint64_t set = 0; set < sets; set++)
            for (uint64_t number = 1; number <= WAYS; number++)
                assert_int_equal(take(fallback, number, set, 10, T0), 10);
        for (uint64_t set = 0; set < sets; set++)
            for (uint64_t number = 1; number <= WAYS; number++)
                assert_int_equal(take(fallback, number, set, 10, T0), 0);
        weir_fallback_destroy(fallback);
    }
}

static uint64_t reset_after(struct weir_fallback *fallback, const struct weir_limit_spec *spec, uint64_t now_ns)
{
    const struct weir_remote_key key = { .id = { 1, 1 } };
    struct weir_verdict verdict;
    assert_int_equal(weir_fallback_decide(fallback, 0, spec, 0, &key, 1, true, now_ns, &verdict), 0);
    return verdict.reset_after_ns;
}

/* An outage that began empty is full by now: whoever is only looked at was still charged when it was. Of what came back
 * since then a reload counts the less: two units at two seconds each. */
static void a_look_does_not_change_when_a_key_was_charged(void **state)
{
    (void)state;
    static const struct weir_limit_spec half = { .count = 5, .period_ns = 10 * SECOND };
    struct weir_fallback *fallback = make(0);
    assert_int_equal(take(fallback, 2, 2, 1, T0 - 5 * SECOND), 0);
    assert_int_equal(take(fallback, 1, 1, 2, T0 + 10 * SECOND), 2);
    assert_int_equal(reset_after(fallback, &share, T0 + 11 * SECOND), SECOND);
    assert_int_equal(reset_after(fallback, &half, T0 + 11 * SECOND), 3 * SECOND);
    weir_fallback_destroy(fallback);
}

/* Who gives back by the newest definition has brought the key to it: a loop that has not heard of that does not carry
 * it back. */
static void a_refund_brings_a_key_to_the_newest_definition(void **state)
{
    (void)state;
    for (int refunds = 0; refunds < 2; refunds++) {
        struct weir_fallback *fallback = make(0);
        const struct weir_remote_key key = { .id = { 1, 1 } };
        struct weir_verdict verdict;
        assert_int_equal(weir_fallback_decide(fallback, 0, &share, 1, &key, 6, false, T0, &verdict), 0);
        assert_true(verdict.admitted);
        if (refunds)
            weir_fallback_refund(fallback, &twofold, 2, &key, 2, T0);
        assert_int_equal(weir_fallback_decide(fallback, 0, &share, 1, &key, 0, true, T0, &verdict), 0);
        assert_int_equal(verdict.capacity, refunds ? 20 : 10);
        assert_int_equal(verdict.remaining, refunds ? 4 + 2 : 4);
        weir_fallback_refund(fallback, &share, 1, &key, 100, T0); /* never more than was used */
        assert_int_equal(weir_fallback_decide(fallback, 0, &share, 1, &key, 0, true, T0, &verdict), 0);
        assert_int_equal(verdict.remaining, verdict.capacity);
        weir_fallback_destroy(fallback);
    }
}

/* Ticks are counted modulo 2^59: what is given back is, however late it is. */
static void a_refund_is_of_any_time(void **state)
{
    (void)state;
    for (uint64_t now_ns = T0; now_ns < UINT64_C(1) << 60; now_ns += UINT64_C(1) << 56) {
        const struct weir_remote_key key = { .id = { 1, 5 } };
        struct weir_fallback *fallback = NULL;
        assert_int_equal(weir_fallback_create(1, 0, now_ns - 10 * SECOND, &fallback), 0);
        assert_int_equal(take(fallback, 1, 5, 11, now_ns), 10);
        weir_fallback_refund(fallback, &share, 0, &key, 3, now_ns);
        assert_int_equal(take(fallback, 1, 5, 11, now_ns), 3);
        weir_fallback_destroy(fallback);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_one_that_is_fresh_soonest_gives_way),
        cmocka_unit_test(as_many_keys_as_are_said_have_their_places),
        cmocka_unit_test(a_look_does_not_change_when_a_key_was_charged),
        cmocka_unit_test(a_refund_brings_a_key_to_the_newest_definition),
        cmocka_unit_test(a_refund_is_of_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
