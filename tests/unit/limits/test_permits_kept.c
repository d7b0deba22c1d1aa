/* SPDX-License-Identifier: Apache-2.0
 *
 * Permits that are out stay out: when memory is full, and when limits change (docs/semantics-tests.md,
 * docs/concurrency.md). */
#include "permit_fixture.h"

#define LEASE (30 * SECOND)
#define MEMORY ((size_t)128 << 10)
#define KEYS (MEMORY / 16)

static struct weir_verdict ask_number(const struct fixture *f, size_t limit, uint64_t number, uint64_t now_ns)
{
    struct weir_charge charge = numbered(f, limit, number);
    struct weir_verdict verdict;
    struct weir_time time = at(now_ns);
    charge.cost = limit == 0 ? 3 : 1;
    assert_int_equal(weir_limiter_decide_many(f->limiter, &charge, 1, &time, 0, &verdict), 0);
    return verdict;
}

static void memory__holders_of_permits_are_never_evicted(void **state)
{
    (void)state;
    static uint64_t tickets[KEYS];
    const struct weir_limit_spec specs[] = { limit_of(WEIR_CONCURRENCY, 3, LEASE, 0), /* a block of a log */
                                             limit_of(WEIR_TOKEN_BUCKET, 5, HOUR, 0),
                                             limit_of(WEIR_SLIDING_LOG, 5, HOUR, 0) };
    struct weir_limiter_options options = { .memory_max = MEMORY, .log_memory_max = MEMORY / 2 };
    struct fixture f = fixture_create_with(&options, specs, 3);
    uint64_t granted = 0, refused = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
        struct weir_verdict verdict = ask_number(&f, 0, i, T0);
        tickets[i] = verdict.ticket;
        granted += verdict.admitted;
        refused += verdict.full;
        assert_true(verdict.admitted != verdict.full);
        if (verdict.full)
            assert_in_range(verdict.retry_after_ns, 1, LEASE + SECOND + 1);
    }
    assert_true(granted > 100 && refused > 100);
    for (uint64_t i = 0; i < KEYS / 4; i++) { /* floods that would like their places, and their logs' room */
        (void)ask_number(&f, 1, i, T0 + 1);
        (void)ask_number(&f, 2, i, T0 + 1);
    }
    struct weir_limit_stats stats;
    assert_int_equal(weir_limiter_limit_stats(f.limiter, f.ids[0], &stats), 0);
    assert_int_equal(stats.evicted, 0);
    assert_int_equal(stats.refused_full, refused);
    struct weir_limit_spec changed[] = { specs[0], specs[1], specs[2] };
    for (uint64_t i = 0; i < 3; i++) { /* nor do reloads lose any where there is no room at all */
        changed[0].count = 4 + i;
        fixture_define(&f, changed, 3, T0 + 1);
    }
    assert_int_equal(weir_limiter_limit_stats(f.limiter, f.ids[0], &stats), 0);
    assert_int_equal(stats.refused_full, refused); /* its counters go on */
    struct weir_time time = at(T0 + 2);
    uint64_t units, back = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
        struct weir_charge charge = numbered(&f, 0, i);
        assert_int_equal(weir_limiter_release(f.limiter, &charge.key, 1, tickets[i], &time, &units), 0);
        back += units;
    }
    assert_int_equal(back, 3 * granted);
    uint64_t again = 0; /* and all places come back */
    for (uint64_t i = 0; i < KEYS; i++)
        again += ask_number(&f, 0, KEYS + i, T0 + 2 * LEASE).admitted;
    assert_true(again >= granted * 9 / 10);
    fixture_destroy(&f);
}

static void reconfiguration__permits_out_stay_out_under_a_lower_limit(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 5, LEASE, 0);
    struct fixture f = fixture_create(&spec, 1);
    uint64_t permit[5];
    for (uint64_t i = 0; i < 5; i++)
        permit[i] = ask(&f, 1, T0 + i).ticket;
    spec.count = 2;
    fixture_define(&f, &spec, 1, T0 + 10);
    struct weir_verdict verdict = peek(&f, 1, T0 + 10);
    assert_int_equal(verdict.remaining, 0);
    assert_int_equal(verdict.retry_after_ns, LEASE - 10 + 3); /* until four have ended */
    for (uint64_t i = 0; i < 3; i++) {
        assert_false(ask(&f, 1, T0 + 10).admitted);
        assert_int_equal(give_back(&f, permit[i], T0 + 10), 1);
    }
    assert_false(ask(&f, 1, T0 + 10).admitted);
    assert_int_equal(give_back(&f, permit[3], T0 + 10), 1);
    assert_true(ask(&f, 1, T0 + 10).admitted);
    assert_int_equal(renew(&f, permit[4], T0 + 11), LEASE);
    spec.count = 4; /* a raise is felt at once: there is no refill to wait for */
    fixture_define(&f, &spec, 1, T0 + 12);
    assert_int_equal(admitted_of(&f, 9, T0 + 12), 2);
    fixture_destroy(&f);
}

static void reconfiguration__a_lease_never_ends_before_its_holder_was_told(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 2, HOUR, 0);
    struct fixture f = fixture_create(&spec, 1);
    uint64_t permit = ask(&f, 1, T0).ticket;
    for (uint64_t i = 0; i < 9; i++) { /* any number of changes */
        spec.period_ns = (2 + i) * SECOND;
        fixture_define(&f, &spec, 1, T0 + MINUTE + i);
    }
    assert_int_equal(renew(&f, permit, T0 + 2 * MINUTE), HOUR - 2 * MINUTE);
    uint64_t other = ask(&f, 1, T0 + 2 * MINUTE).ticket;
    assert_int_equal(out(&f, T0 + 2 * MINUTE + 10 * SECOND - 1), 2);
    assert_int_equal(out(&f, T0 + 2 * MINUTE + 10 * SECOND), 1);
    assert_int_equal(renew(&f, other, T0 + 2 * MINUTE + 10 * SECOND), 0);
    assert_int_equal(out(&f, T0 + HOUR - 1), 1);
    assert_int_equal(renew(&f, permit, T0 + HOUR - 1), 10 * SECOND);
    assert_int_equal(out(&f, T0 + HOUR + 10 * SECOND - 1), 0);
    fixture_destroy(&f);
}

static void reconfiguration__permits_go_with_their_limit_or_a_reset(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 2, LEASE, 0);
    struct fixture f = fixture_create(&spec, 1);
    uint64_t permit = ask(&f, 2, T0).ticket;
    spec.on_change = WEIR_ON_CHANGE_RESET;
    fixture_define(&f, &spec, 1, T0 + 1);
    assert_int_equal(renew(&f, permit, T0 + 1), 0);
    permit = ask(&f, 2, T0 + 1).ticket;
    assert_int_equal(renew(&f, permit, T0 + 1), LEASE);
    struct weir_charge charge = charge_of(&f, 0, "k", 1);
    struct weir_limit_spec none[1] = { 0 };
    fixture_define(&f, none, 0, T0 + 2);
    struct weir_time time = at(T0 + 2);
    while (weir_limiter_maintain(f.limiter, &time, SIZE_MAX))
        ;
    uint64_t units = 99;
    assert_int_equal(weir_limiter_release(f.limiter, &charge.key, 1, permit, &time, &units), 0);
    assert_int_equal(units, 0);
    fixture_destroy(&f);
}

/* To other algorithms and back, with requests in between: units are units, and no permit of before is still known. */
static void reconfiguration__between_concurrency_and_a_rate_nothing_is_minted(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec concurrency = limit_of(WEIR_CONCURRENCY, 4, LEASE, 0);
        struct weir_limit_spec rate = limit_of((enum weir_algorithm)algorithm, 4, HOUR, 0);
        struct fixture f = fixture_create(&concurrency, 1);
        uint64_t permit = ask(&f, 3, T0).ticket;
        fixture_define(&f, &rate, 1, T0 + 1);
        assert_int_equal(peek(&f, 0, T0 + 1).remaining, 1);
        assert_int_equal(give_back(&f, permit, T0 + 1), 0);
        assert_int_equal(admitted_of(&f, 9, T0 + 1), 1);
        fixture_define(&f, &concurrency, 1, T0 + 2);
        assert_int_equal(give_back(&f, permit, T0 + 2), 0);
        assert_int_equal(admitted_of(&f, 9, T0 + 2), 0);
        assert_int_equal(give_back(&f, 0, T0 + 2), 0); /* what was carried over is nobody's */
        assert_int_equal(renew(&f, 0, T0 + 2), 0);
        assert_int_equal(peek(&f, 1, T0 + 2).retry_after_ns, LEASE);
        assert_int_equal(admitted_of(&f, 9, T0 + 2 + LEASE), 4);
        fixture_destroy(&f);
    }
}

/* Whether a unit was a permit before there was a rate, nobody knows (docs/reload.md). */
static void reconfiguration__what_a_rate_has_used_is_out_for_a_lease_or_reset(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++)
        for (int resets = 0; resets < 2; resets++) {
            struct weir_limit_spec rate = limit_of((enum weir_algorithm)algorithm, 9, HOUR, 0);
            struct weir_limit_spec concurrency = limit_of(WEIR_CONCURRENCY, 4, LEASE, 0);
            concurrency.on_change = resets ? WEIR_ON_CHANGE_RESET : WEIR_ON_CHANGE_KEEP;
            struct fixture f = fixture_create(&rate, 1);
            assert_int_equal(admitted_of(&f, 99, T0), 9);
            fixture_define(&f, &concurrency, 1, T0 + 1);
            assert_int_equal(out(&f, T0 + 1), resets ? 0 : 4);
            assert_int_equal(peek(&f, 1, T0 + 1).retry_after_ns, resets ? 0 : LEASE);
            assert_int_equal(admitted_of(&f, 99, T0 + 1), resets ? 4 : 0);
            assert_int_equal(admitted_of(&f, 99, T0 + LEASE), 0);
            assert_int_equal(admitted_of(&f, 99, T0 + 1 + LEASE), 4);
            fixture_destroy(&f);
        }
}

/* By a clock that is far from every one before, too. */
static void what_has_ended_long_ago_is_not_given_back(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 3, LEASE, 0);
    for (uint64_t hours = 20; hours < 400; hours += 13)
        for (int renews = 0; renews < 2; renews++) {
            struct fixture f = fixture_create(&spec, 1);
            const uint64_t permit = ask(&f, 2, T0).ticket;
            assert_int_equal(renews ? renew(&f, permit, T0 + hours * HOUR) : give_back(&f, permit, T0 + hours * HOUR),
                             0);
            assert_int_equal(out(&f, T0 + hours * HOUR), 0);
            fixture_destroy(&f);
        }
}

/* One for all limits of a request that has any, and none where nothing of them is asked. */
static void permits_are_numbered_one_after_the_other(void **state)
{
    (void)state;
    const struct weir_limit_spec specs[] = { limit_of(WEIR_CONCURRENCY, 9, LEASE, 0),
                                             limit_of(WEIR_TOKEN_BUCKET, 9, HOUR, 0),
                                             limit_of(WEIR_CONCURRENCY, 9, LEASE, 0) };
    struct fixture f = fixture_create(specs, 3);
    struct weir_verdict verdicts[3];
    uint64_t last = ask(&f, 1, T0).ticket;
    (void)ask_all(&f, "k", 1, T0, 0, verdicts);
    assert_int_equal(verdicts[0].ticket, last + 1);
    assert_int_equal(verdicts[2].ticket, last + 1);
    struct weir_charge charges[2] = { charge_of(&f, 0, "k", 0), charge_of(&f, 1, "k", 1) };
    struct weir_decision decision;
    const struct weir_time time = at(T0);
    assert_int_equal(weir_limiter_decide(f.limiter, charges, 2, &time, 0, &decision, verdicts), 0);
    assert_true(decision.admitted);
    assert_int_equal(verdicts[0].ticket, 0);
    assert_int_equal(ask(&f, 1, T0).ticket, last + 2);
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory__holders_of_permits_are_never_evicted),
        cmocka_unit_test(reconfiguration__permits_out_stay_out_under_a_lower_limit),
        cmocka_unit_test(reconfiguration__a_lease_never_ends_before_its_holder_was_told),
        cmocka_unit_test(reconfiguration__permits_go_with_their_limit_or_a_reset),
        cmocka_unit_test(reconfiguration__between_concurrency_and_a_rate_nothing_is_minted),
        cmocka_unit_test(reconfiguration__what_a_rate_has_used_is_out_for_a_lease_or_reset),
        cmocka_unit_test(what_has_ended_long_ago_is_not_given_back),
        cmocka_unit_test(permits_are_numbered_one_after_the_other),
    };
    return cmocka_run_group_tests_name("permits kept", tests, NULL, NULL);
}
