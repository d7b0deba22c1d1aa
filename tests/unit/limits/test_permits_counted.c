/* SPDX-License-Identifier: Apache-2.0
 *
 * What became of permits can be told: given, given back, ended, and out (docs/concurrency.md). */
#include "permit_fixture.h"

#define LEASE (30 * SECOND)

static void assert_counts(const struct fixture *f, size_t limit, uint64_t given, uint64_t released, uint64_t ended)
{
    struct weir_limit_stats stats;
    assert_int_equal(weir_limiter_limit_stats(f->limiter, f->ids[limit], &stats), 0);
    assert_int_equal(stats.permits_given, given);
    assert_int_equal(stats.permits_released, released);
    assert_int_equal(stats.permits_ended, ended);
    assert_int_equal(stats.permits_out, given - released - ended);
}

static void maintain(const struct fixture *f, uint64_t now_ns)
{
    struct weir_time time = at(now_ns);
    while (weir_limiter_maintain(f->limiter, &time, SIZE_MAX))
        ;
}

static void counts__permits_are_given_and_given_back_once(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 9, LEASE, 0);
    struct fixture f = fixture_create(&spec, 1);
    uint64_t permit = ask(&f, 3, T0).ticket;
    (void)ask(&f, 2, T0);
    assert_false(ask(&f, 5, T0).admitted);
    (void)peek(&f, 1, T0);
    (void)ask(&f, 0, T0);
    assert_counts(&f, 0, 5, 0, 0);
    assert_int_equal(renew(&f, permit, T0 + 1), LEASE);
    assert_int_equal(give_back(&f, permit, T0 + 1), 3);
    assert_int_equal(give_back(&f, permit, T0 + 1), 0);
    assert_counts(&f, 0, 5, 3, 0);
    fixture_destroy(&f);
}

static void counts__a_lease_that_ended_is_noticed_by_the_next_charge(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 9, LEASE, 0);
    struct fixture f = fixture_create(&spec, 1);
    uint64_t permit = ask(&f, 3, T0).ticket;
    (void)ask(&f, 2, T0 + 1);
    assert_int_equal(give_back(&f, permit, T0 + LEASE), 0);
    assert_counts(&f, 0, 5, 0, 0); /* not yet */
    (void)ask(&f, 1, T0 + LEASE);
    assert_counts(&f, 0, 6, 0, 3);
    fixture_destroy(&f);
}

static void counts__a_lease_that_ended_is_noticed_within_a_minute_of_a_key_that_nobody_asks_for(void **state)
{
    (void)state;
    struct weir_limit_spec specs[] = { limit_of(WEIR_CONCURRENCY, 9, LEASE, 0),
                                       limit_of(WEIR_SLIDING_LOG, 9, HOUR, 0) };
    struct fixture f = fixture_create(specs, 2);
    struct weir_verdict verdicts[2];
    maintain(&f, T0);
    (void)ask_all(&f, "a", 2, T0 + SECOND, 0, verdicts);
    (void)ask_all(&f, "b", 1, T0 + 70 * SECOND, 0, verdicts);
    maintain(&f, T0 + 70 * SECOND);
    assert_counts(&f, 0, 3, 0, 2);
    maintain(&f, T0 + 129 * SECOND);
    assert_counts(&f, 0, 3, 0, 2); /* the next walk is not due */
    maintain(&f, T0 + 131 * SECOND);
    assert_counts(&f, 0, 3, 0, 3);
    assert_counts(&f, 1, 0, 0, 0);
    fixture_destroy(&f);
}

static void counts__a_lease_that_ended_is_noticed_also_by_a_clock_that_came_back(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 9, LEASE, 0);
    struct fixture f = fixture_create(&spec, 1);
    (void)ask(&f, 1, T0);
    maintain(&f, T0 + 10 * HOUR);
    assert_counts(&f, 0, 1, 0, 1);
    (void)peek(&f, 1, T0 + HOUR); /* the fall is seen; until a lease has passed newcomers are refused */
    assert_true(ask(&f, 1, T0 + HOUR + MINUTE).admitted);
    maintain(&f, T0 + HOUR + MINUTE);
    maintain(&f, T0 + HOUR + 3 * MINUTE);
    assert_counts(&f, 0, 2, 0, 2);
    fixture_destroy(&f);
}

static void counts__go_on_through_changes_of_the_limit(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 9, LEASE, 0);
    struct fixture f = fixture_create(&spec, 1);
    uint64_t permit = ask(&f, 3, T0).ticket;
    (void)ask(&f, 2, T0);
    spec.count = 7;
    fixture_define(&f, &spec, 1, T0 + 1);
    assert_counts(&f, 0, 5, 0, 0); /* no key has been converted yet */
    assert_int_equal(give_back(&f, permit, T0 + 1), 3);
    assert_counts(&f, 0, 5, 3, 0);
    maintain(&f, T0 + 1);
    assert_counts(&f, 0, 5, 3, 0);
    spec.on_change = WEIR_ON_CHANGE_RESET;
    fixture_define(&f, &spec, 1, T0 + 2);
    maintain(&f, T0 + 2);
    assert_counts(&f, 0, 5, 3, 2);
    (void)ask(&f, 4, T0 + 3);
    bool found = false;
    struct weir_charge charge = charge_of(&f, 0, "k", 1);
    assert_int_equal(weir_limiter_forget(f.limiter, &charge, &found), 0);
    assert_counts(&f, 0, 9, 3, 6);
    fixture_destroy(&f);
}

/* To another algorithm and back: what is out becomes nobody's. */
static void counts__permits_end_with_their_algorithm(void **state)
{
    (void)state;
    struct weir_limit_spec permits = limit_of(WEIR_CONCURRENCY, 9, LEASE, 0);
    struct weir_limit_spec rates[] = { limit_of(WEIR_TOKEN_BUCKET, 9, HOUR, 0), limit_of(WEIR_FIXED_WINDOW, 9, HOUR, 0),
                                       limit_of(WEIR_SLIDING_LOG, 9, HOUR, 0) };
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        struct fixture f = fixture_create(&permits, 1);
        (void)ask(&f, 4, T0);
        fixture_define(&f, &rates[i], 1, T0 + 1);
        maintain(&f, T0 + 1);
        assert_counts(&f, 0, 0, 0, 0); /* a rate has no permits */
        fixture_define(&f, &permits, 1, T0 + 2);
        maintain(&f, T0 + 2 + 2 * HOUR);
        assert_int_equal(ask(&f, 1, T0 + 2 + 3 * HOUR).admitted, true);
        struct weir_limit_stats stats;
        assert_int_equal(weir_limiter_limit_stats(f.limiter, f.ids[0], &stats), 0);
        assert_int_equal(stats.permits_given, 5);
        assert_int_equal(stats.permits_out, 1); /* nothing is left over */
        assert_true(stats.permits_ended >= 4);
        fixture_destroy(&f);
    }
}

/* However many there are: by hashes of 16 bits two of a thousand would share one but once in 2,000 runs. */
static void counts__every_limit_has_its_own(void **state)
{
    (void)state;
    enum { LIMITS = 1000 };
    static struct weir_limit_def defs[LIMITS];
    static weir_limit_id ids[LIMITS];
    static char names[LIMITS][8];
    struct weir_limiter *limiter;
    struct weir_time time = at(T0);
    for (size_t i = 0; i < LIMITS; i++) {
        (void)snprintf(names[i], sizeof names[i], "n%zu", i);
        defs[i] = (struct weir_limit_def){ .name = names[i], .spec = limit_of(WEIR_CONCURRENCY, 9, LEASE, 0) };
    }
    assert_int_equal(weir_limiter_create(NULL, &limiter, NULL), 0);
    for (size_t round = 1; round <= 2; round++) { /* and keeps it when the set is replaced */
        assert_int_equal(weir_limiter_define(limiter, defs + LIMITS / 2 * (round - 1), LIMITS / round, &time,
                                             ids + LIMITS / 2 * (round - 1), NULL),
                         0);
        for (size_t i = LIMITS / 2 * (round - 1); i < LIMITS; i++) {
            struct weir_charge charge = { .limit = ids[i], .cost = 1 };
            struct weir_verdict verdict;
            struct weir_limit_stats stats;
            assert_int_equal(weir_limiter_key(limiter, ids[i], NULL, 0, &charge.key), 0);
            assert_int_equal(weir_limiter_decide_many(limiter, &charge, 1, &time, 0, &verdict), 0);
            assert_int_equal(weir_limiter_limit_stats(limiter, ids[i], &stats), 0);
            assert_int_equal(stats.permits_given, round);
        }
    }
    weir_limiter_destroy(limiter);
}

/* However many names come and go, each begins at 0. One that stays counts on, and so does one that soon comes back. */
static void counts__of_names_that_are_gone_are_nobodys(void **state)
{
    (void)state;
    enum { LIMITS = 1000, ROUNDS = 140, STAYS = 0, COMES_BACK = 1 };
    static struct weir_limit_def defs[LIMITS];
    static weir_limit_id ids[LIMITS];
    static char names[LIMITS][16];
    struct weir_limiter *limiter;
    struct weir_time time = at(T0);
    assert_int_equal(weir_limiter_create(NULL, &limiter, NULL), 0);
    for (size_t round = 1; round <= ROUNDS; round++) {
        for (size_t i = 0; i < LIMITS; i++) {
            (void)snprintf(names[i], sizeof names[i], "%zu.%zu",
                           i == STAYS        ? 0
                           : i == COMES_BACK ? round % 2
                                             : round,
                           i);
            defs[i] = (struct weir_limit_def){ .name = names[i], .spec = limit_of(WEIR_CONCURRENCY, 999, LEASE, 0) };
        }
        time = at(time.now_ns + SECOND);
        assert_int_equal(weir_limiter_define(limiter, defs, LIMITS, &time, ids, NULL), 0);
        for (size_t i = 0; i < LIMITS; i++) {
            struct weir_charge charge = { .limit = ids[i], .cost = 1 };
            struct weir_verdict verdict;
            struct weir_limit_stats stats;
            assert_int_equal(weir_limiter_key(limiter, ids[i], NULL, 0, &charge.key), 0);
            assert_int_equal(weir_limiter_decide_many(limiter, &charge, 1, &time, 0, &verdict), 0);
            assert_int_equal(weir_limiter_limit_stats(limiter, ids[i], &stats), 0);
            assert_int_equal(stats.permits_given, i == STAYS ? round : i == COMES_BACK ? (round + 1) / 2 : 1);
            assert_int_equal(stats.permits_given, stats.permits_ended + stats.permits_out);
        }
    }
    weir_limiter_destroy(limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts__permits_are_given_and_given_back_once),
        cmocka_unit_test(counts__a_lease_that_ended_is_noticed_by_the_next_charge),
        cmocka_unit_test(counts__a_lease_that_ended_is_noticed_within_a_minute_of_a_key_that_nobody_asks_for),
        cmocka_unit_test(counts__a_lease_that_ended_is_noticed_also_by_a_clock_that_came_back),
        cmocka_unit_test(counts__go_on_through_changes_of_the_limit),
        cmocka_unit_test(counts__permits_end_with_their_algorithm),
        cmocka_unit_test(counts__every_limit_has_its_own),
        cmocka_unit_test(counts__of_names_that_are_gone_are_nobodys),
    };
    return cmocka_run_group_tests_name("permits counted", tests, NULL, NULL);
}
