/* SPDX-License-Identifier: Apache-2.0
 *
 * Reservations that nobody settles take a bounded room, and nothing from others. */
#include "reserve_fixture.h"

static void reserves__keys_beyond_the_bound_are_refused_as_full_until_others_have_ended(void **state)
{
    (void)state;
    const struct weir_limiter_options options = { .memory_max = (size_t)4 << 20, .reserved_keys_max = 16 };
    const struct weir_limit_spec spec = reserving(WEIR_FIXED_WINDOW, 10, HOUR);
    struct fixture f = fixture_create_with(&options, &spec, 1);
    static struct weir_reservation r[1000];
    size_t admitted = 0;
    char key[16];
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(key, sizeof key, "%u", i);
        admitted += reserve_of(&f, key, 5, false, T0, &r[admitted]);
    }
    assert_in_range(admitted, 8, 16);
    assert_false(reserve_of(&f, "0", 6, false, T0, &r[999]));
    struct weir_limiter_stats stats;
    weir_limiter_stats(f.limiter, &stats);
    assert_true(stats.refused_full >= 900);
    /* Those that nobody settled give way once they are past their end, and then nothing comes back. */
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(key, sizeof key, "later %u", i);
        admitted += reserve_of(&f, key, 5, false, T0 + 2 * TTL, &r[admitted]);
    }
    assert_in_range(admitted, 16, 32);
    for (unsigned i = 0; i < admitted; i++)
        (void)settle(&f, &r[i], 0, T0 + 2 * TTL);
    admitted = 0;
    for (unsigned i = 0; i < 16; i++) {
        (void)snprintf(key, sizeof key, "again %u", i);
        admitted += reserve_of(&f, key, 5, false, T0 + 2 * TTL, &r[admitted]);
    }
    assert_true(admitted >= 8); /* all places are free again */
    fixture_destroy(&f);
}

/* One place for a mark in each of 16 parts: keys that fill all of them, all with reservations that end at once. */
static void fill_places(const struct fixture *f, uint64_t now_ns)
{
    const struct weir_reserve_options options = { .amount = 1, .ttl_ns = 1 };
    struct weir_reservation lost;
    char key[16];
    bool admitted;
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(key, sizeof key, "filler %u", i);
        assert_int_equal(try_reserve(f, key, &options, now_ns, &lost, &admitted, NULL), 0);
    }
}

static struct fixture narrow(void)
{
    const struct weir_limiter_options options = { .memory_max = (size_t)4 << 20, .reserved_keys_max = 16 };
    const struct weir_limit_spec spec = reserving(WEIR_FIXED_WINDOW, 100, DAY);
    return fixture_create_with(&options, &spec, 1);
}

static void reserves__a_mark_is_kept_as_long_as_one_of_its_reservations_is(void **state)
{
    (void)state;
    struct fixture f = narrow();
    const struct weir_reserve_options brief = { .amount = 1, .ttl_ns = 1 };
    struct weir_reservation r, other;
    bool admitted;
    assert_true(reserve_of(&f, "k", 50, false, T0, &r));
    assert_int_equal(try_reserve(&f, "k", &brief, T0, &other, &admitted, NULL), 0);
    assert_true(admitted);
    fill_places(&f, T0 + SECOND);
    assert_int_equal(settle(&f, &r, 0, T0 + SECOND).given_back, 50);
    fixture_destroy(&f);
}

static void reserves__one_whose_mark_gave_way_takes_none_from_others(void **state)
{
    (void)state;
    struct fixture f = narrow();
    struct weir_reservation lost, r;
    assert_true(reserve_of(&f, "k", 10, true, T0, &lost));
    fill_places(&f, T0 + 2 * TTL);
    while (!reserve_of(&f, "k", 50, false, T0 + 3 * TTL, &r))
        ;
    assert_int_equal(settle(&f, &lost, 0, T0 + 3 * TTL).given_back, 0);
    assert_int_equal(settle(&f, &r, 0, T0 + 3 * TTL).given_back, 50);
    fixture_destroy(&f);
}

static void reserves__one_that_is_refused_takes_no_place(void **state)
{
    (void)state;
    const struct weir_limiter_options options = { .memory_max = (size_t)4 << 20, .reserved_keys_max = 16 };
    struct weir_limit_spec specs[] = { reserving(WEIR_FIXED_WINDOW, 100, DAY), limit_of(WEIR_FIXED_WINDOW, 1, DAY, 0) };
    specs[1].count_mode = WEIR_COUNT_ATTEMPTS; /* all keys are held before it is refused */
    struct fixture f = fixture_create_with(&options, specs, 2);
    const struct weir_reserve_options ten = { .amount = 10, .ttl_ns = TTL };
    struct weir_reservation r;
    struct weir_decision decision;
    struct weir_verdict verdicts[2];
    const struct weir_time time = at(T0);
    char key[16];
    for (unsigned i = 0; i < 200; i++) {
        (void)snprintf(key, sizeof key, "%u", i);
        const struct weir_charge charges[] = { charge_of(&f, 0, key, 10), charge_of(&f, 1, "all", 1) };
        assert_int_equal(weir_limiter_reserve(f.limiter, charges, 2, 1, &ten, &time, &r, &decision, verdicts, NULL), 0);
        assert_int_equal(decision.admitted, i == 0);
        assert_false(verdicts[0].full);
        if (i == 0)
            (void)settle(&f, &r, 10, T0);
    }
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserves__keys_beyond_the_bound_are_refused_as_full_until_others_have_ended),
        cmocka_unit_test(reserves__a_mark_is_kept_as_long_as_one_of_its_reservations_is),
        cmocka_unit_test(reserves__one_whose_mark_gave_way_takes_none_from_others),
        cmocka_unit_test(reserves__one_that_is_refused_takes_no_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
