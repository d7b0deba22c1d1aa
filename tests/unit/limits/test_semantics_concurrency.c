/* SPDX-License-Identifier: Apache-2.0
 *
 * semantics.md, "The limits": concurrency (docs/semantics-tests.md, docs/concurrency.md). */
#include "permit_fixture.h"

#define LEASE (30 * SECOND)

static struct fixture permits(uint64_t count)
{
    return one_limit(WEIR_CONCURRENCY, count, LEASE, 0);
}

static void limits__concurrency_admits_while_unexpired_permits_and_cost_fit(void **state)
{
    (void)state;
    struct fixture f = permits(5);
    assert_int_equal(admitted_of(&f, 9, T0), 5);
    assert_int_equal(out(&f, T0), 5);
    assert_int_equal(admitted_of(&f, 9, T0 + LEASE - 1), 0);
    assert_int_equal(admitted_of(&f, 9, T0 + LEASE), 5);
    fixture_destroy(&f);
    f = permits(5);
    assert_true(ask(&f, 3, T0).admitted);
    assert_false(ask(&f, 3, T0).admitted);
    assert_true(ask(&f, 2, T0).admitted);
    assert_int_equal(out(&f, T0), 5);
    fixture_destroy(&f);
}

static void limits__concurrency_a_crashed_holders_permit_returns_when_its_lease_ends(void **state)
{
    (void)state;
    struct fixture f = permits(1);
    for (uint64_t crash = 0; crash < 50; crash++) {
        uint64_t now_ns = T0 + crash * LEASE;
        assert_true(ask(&f, 1, now_ns).admitted);
        assert_false(ask(&f, 1, now_ns + LEASE - 1).admitted);
    }
    fixture_destroy(&f);
}

static void limits__concurrency_a_permit_is_given_back_once(void **state)
{
    (void)state;
    struct fixture f = permits(3);
    uint64_t permit = ask(&f, 2, T0).ticket;
    assert_true(permit > 0);
    assert_false(ask(&f, 2, T0).admitted);
    assert_int_equal(give_back(&f, permit, T0 + 1), 2);
    assert_int_equal(give_back(&f, permit, T0 + 1), 0);
    assert_int_equal(out(&f, T0 + 1), 0);
    uint64_t next = ask(&f, 2, T0 + 1).ticket;
    assert_int_not_equal(next, permit);
    assert_int_equal(give_back(&f, permit, T0 + 2), 0);
    assert_int_equal(renew(&f, permit, T0 + 2), 0);
    assert_int_equal(out(&f, T0 + 2), 2);
    assert_int_equal(give_back(&f, next + 1, T0 + 2), 0); /* never granted */
    assert_int_equal(give_back(&f, 0, T0 + 2), 0);
    assert_int_equal(give_back(&f, UINT64_MAX, T0 + 2), 0);
    assert_int_equal(out(&f, T0 + 2), 2);
    fixture_destroy(&f);
}

static void limits__concurrency_a_late_release_is_never_of_somebody_elses_permit(void **state)
{
    (void)state;
    struct fixture f = permits(1);
    uint64_t late = ask(&f, 1, T0).ticket;
    uint64_t next = ask(&f, 1, T0 + LEASE).ticket;
    assert_true(next > 0);
    assert_int_equal(give_back(&f, late, T0 + LEASE), 0);
    assert_int_equal(renew(&f, late, T0 + LEASE), 0);
    assert_false(ask(&f, 1, T0 + LEASE).admitted);
    assert_int_equal(give_back(&f, next, T0 + LEASE), 1);
    /* Nor after the key was forgotten, and came back. */
    late = ask(&f, 1, T0 + 2 * LEASE).ticket;
    struct weir_time time = at(T0 + 4 * LEASE);
    while (weir_limiter_maintain(f.limiter, &time, SIZE_MAX))
        ;
    next = ask(&f, 1, T0 + 4 * LEASE).ticket;
    assert_true(next > late);
    assert_int_equal(give_back(&f, late, T0 + 4 * LEASE), 0);
    assert_int_equal(out(&f, T0 + 4 * LEASE), 1);
    fixture_destroy(&f);
}

static void limits__concurrency_a_renewal_begins_the_lease_anew_and_never_after_its_end(void **state)
{
    (void)state;
    struct fixture f = permits(2);
    uint64_t permit = ask(&f, 2, T0).ticket;
    uint64_t now_ns = T0;
    for (int i = 0; i < 20; i++) {
        now_ns += LEASE - 1;
        assert_int_equal(renew(&f, permit, now_ns), LEASE);
        assert_false(ask(&f, 1, now_ns).admitted);
    }
    assert_int_equal(renew(&f, permit, now_ns - SECOND), LEASE + SECOND); /* a stale clock takes nothing away */
    assert_int_equal(renew(&f, permit, now_ns + LEASE), 0);
    assert_int_equal(renew(&f, permit, now_ns + LEASE), 0);
    assert_true(ask(&f, 2, now_ns + LEASE).admitted);
    fixture_destroy(&f);
}

static void limits__concurrency_retry_after_is_the_wait_if_nobody_renews_or_releases(void **state)
{
    (void)state;
    struct fixture f = permits(4);
    for (uint64_t i = 0; i < 4; i++)
        assert_true(ask(&f, 1, T0 + i * SECOND).admitted);
    uint64_t now_ns = T0 + 5 * SECOND;
    for (uint64_t cost = 1; cost <= 4; cost++) {
        struct weir_verdict verdict = peek(&f, cost, now_ns);
        assert_false(verdict.admitted);
        assert_int_equal(verdict.retry_after_ns, LEASE - (5 - (cost - 1)) * SECOND);
        assert_int_equal(verdict.next_after_ns, LEASE - 5 * SECOND);
        assert_int_equal(verdict.reset_after_ns, LEASE - 2 * SECOND);
        assert_false(peek(&f, cost, now_ns + verdict.retry_after_ns - 1).admitted);
        assert_true(peek(&f, cost, now_ns + verdict.retry_after_ns).admitted);
    }
    assert_int_equal(peek(&f, 5, now_ns).retry_after_ns, WEIR_NEVER);
    assert_int_equal(peek(&f, 0, now_ns + LEASE).reset_after_ns, 0);
    fixture_destroy(&f);
}

static void limits__concurrency_cost_0_and_peek_change_nothing_and_take_no_permit(void **state)
{
    (void)state;
    struct fixture f = permits(2);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(ask(&f, 0, T0).ticket, 0);
        assert_int_equal(peek(&f, 1, T0).ticket, 0);
        assert_true(peek(&f, 2, T0).admitted);
    }
    struct weir_verdict never = ask(&f, 3, T0);
    assert_false(never.admitted);
    assert_int_equal(never.retry_after_ns, WEIR_NEVER);
    assert_int_equal(never.ticket, 0);
    assert_int_equal(out(&f, T0), 0);
    assert_true(ask(&f, 2, T0).admitted);
    assert_true(ask(&f, 0, T0).admitted);
    assert_int_equal(ask(&f, 1, T0).ticket, 0);
    fixture_destroy(&f);
    f = permits(0);
    assert_int_equal(ask(&f, 1, T0).retry_after_ns, WEIR_NEVER);
    fixture_destroy(&f);
}

static void limits__concurrency_a_refund_gives_nobodys_permit_back(void **state)
{
    (void)state;
    struct fixture f = permits(2);
    assert_true(ask(&f, 2, T0).admitted);
    struct weir_charge charge = charge_of(&f, 0, "k", 2);
    struct weir_time time = at(T0);
    uint64_t units = 99;
    assert_int_equal(weir_limiter_refund(f.limiter, &charge, 2, &time, &units), 0);
    assert_int_equal(units, 0);
    assert_int_equal(out(&f, T0), 2);
    fixture_destroy(&f);
}

static void several__permits_and_units_are_taken_together_or_not_at_all(void **state)
{
    (void)state;
    const struct weir_limit_spec specs[] = { limit_of(WEIR_CONCURRENCY, 3, LEASE, 0),
                                             limit_of(WEIR_TOKEN_BUCKET, 5, HOUR, 0),
                                             limit_of(WEIR_CONCURRENCY, 100, LEASE / 2, 0) };
    struct fixture f = fixture_create(specs, 3);
    struct weir_verdict v[3];
    uint64_t permit = 0;
    for (int i = 0; i < 3; i++) {
        assert_true(ask_all(&f, "k", 1, T0, 0, v).admitted);
        assert_int_equal(v[0].ticket, v[2].ticket);
        assert_true(v[0].ticket > permit);
        permit = v[0].ticket;
    }
    struct weir_decision refused = ask_all(&f, "k", 1, T0, 0, v); /* by the permits: no unit is charged */
    assert_false(refused.admitted);
    assert_int_equal(refused.deciding, 0);
    assert_int_equal(v[1].remaining, 2);
    assert_int_equal(v[2].remaining, 97);
    struct weir_key keys[2] = { charge_of(&f, 0, "k", 1).key, charge_of(&f, 2, "k", 1).key };
    struct weir_time time = at(T0);
    uint64_t units = 0, lease_ns = 0;
    assert_int_equal(weir_limiter_renew(f.limiter, keys, 2, permit, &time, &lease_ns), 0);
    assert_int_equal(lease_ns, LEASE / 2);
    assert_int_equal(weir_limiter_release(f.limiter, keys, 2, permit, &time, &units), 0);
    assert_int_equal(units, 2);
    assert_true(ask_all(&f, "k", 1, T0, 0, v).admitted);
    permit = v[0].ticket;
    assert_int_equal(weir_limiter_release(f.limiter, keys, 2, permit, &time, &units), 0);
    assert_true(ask_all(&f, "k", 1, T0, 0, v).admitted);
    permit = v[0].ticket;
    assert_int_equal(weir_limiter_release(f.limiter, keys, 2, permit, &time, &units), 0);
    refused = ask_all(&f, "k", 1, T0, 0, v); /* by the rate: no permit is taken */
    assert_false(refused.admitted);
    assert_int_equal(refused.deciding, 1);
    assert_int_equal(v[0].ticket, 0);
    assert_int_equal(v[0].remaining, 1);
    assert_int_equal(v[2].remaining, 98);
    fixture_destroy(&f);
}

static void several__a_permit_lost_under_one_limit_is_not_renewed_under_another(void **state)
{
    (void)state;
    const struct weir_limit_spec specs[] = { limit_of(WEIR_CONCURRENCY, 3, LEASE, 0),
                                             limit_of(WEIR_CONCURRENCY, 3, LEASE / 2, 0) };
    struct fixture f = fixture_create(specs, 2);
    struct weir_verdict v[2];
    assert_true(ask_all(&f, "k", 1, T0, 0, v).admitted);
    struct weir_key keys[2] = { charge_of(&f, 0, "k", 1).key, charge_of(&f, 1, "k", 1).key };
    struct weir_time time = at(T0 + LEASE / 2);
    uint64_t units = 0, lease_ns = 99;
    assert_int_equal(weir_limiter_renew(f.limiter, keys, 2, v[0].ticket, &time, &lease_ns), 0);
    assert_int_equal(lease_ns, 0);
    assert_int_equal(peek(&f, 0, T0 + LEASE / 2).reset_after_ns, LEASE / 2);
    assert_int_equal(weir_limiter_release(f.limiter, keys, 2, v[0].ticket, &time, &units), 0);
    assert_int_equal(units, 1); /* what was left */
    assert_int_equal(weir_limiter_release(f.limiter, keys, 0, v[0].ticket, &time, &units), WEIR_ERANGE);
    assert_int_equal(weir_limiter_release(f.limiter, keys, WEIR_CHARGES_MAX + 1, 1, &time, &units), WEIR_ERANGE);
    keys[1] = keys[0];
    assert_int_equal(weir_limiter_release(f.limiter, keys, 2, v[0].ticket, &time, &units), WEIR_EDUP);
    assert_int_equal(weir_limiter_renew(f.limiter, keys, 2, v[0].ticket, &time, &lease_ns), WEIR_EDUP);
    fixture_destroy(&f);
}

static void several__a_concurrency_limit_in_shadow_never_refuses(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 1, LEASE, 0);
    spec.mode = WEIR_MODE_SHADOW;
    struct fixture f = fixture_create(&spec, 1);
    struct weir_verdict v;
    assert_true(ask_all(&f, "k", 1, T0, 0, &v).admitted);
    assert_true(v.admitted && v.shadow && v.ticket > 0);
    assert_true(ask_all(&f, "k", 1, T0, 0, &v).admitted);
    assert_true(!v.admitted && v.shadow && v.ticket == 0);
    assert_int_equal(v.retry_after_ns, LEASE);
    fixture_destroy(&f);
}

static void time__a_clock_that_came_back_keeps_permits_for_no_longer_than_a_lease(void **state)
{
    (void)state;
    struct fixture f = permits(2);
    uint64_t permit = ask(&f, 1, T0 + HOUR).ticket; /* the clock was an hour ahead */
    struct weir_verdict verdict = peek(&f, 2, T0);
    assert_false(verdict.admitted);
    assert_int_equal(verdict.retry_after_ns, LEASE);
    assert_int_equal(verdict.remaining, 1);
    assert_true(ask(&f, 1, T0).admitted);
    assert_int_equal(out(&f, T0), 2);
    assert_int_equal(give_back(&f, permit, T0 + 1), 1);
    assert_true(ask(&f, 1, T0 + 1).admitted);
    assert_int_equal(out(&f, T0 + LEASE), 1);
    assert_int_equal(out(&f, T0 + LEASE + 1), 0);
    fixture_destroy(&f);
}

static void arithmetic__permits_have_bounds_that_name_the_field(void **state)
{
    (void)state;
    static const struct {
        struct weir_limit_spec spec;
        const char *field;
    } rows[] = {
        { { .algorithm = WEIR_CONCURRENCY, .count = 32769, .period_ns = SECOND }, "count" },
        { { .algorithm = WEIR_CONCURRENCY, .count = 1, .period_ns = SECOND - 1 }, "lease" },
        { { .algorithm = WEIR_CONCURRENCY, .count = 1, .period_ns = 366 * DAY + 1 }, "lease" },
        { { .algorithm = WEIR_CONCURRENCY, .count = 1, .period_ns = SECOND, .burst = 1 }, "burst" },
        { { .algorithm = WEIR_CONCURRENCY, .count = 1, .period_ns = SECOND, .spread_ns = 1 }, "spread" },
        { { .algorithm = WEIR_CONCURRENCY, .count = 1, .period_ns = SECOND, .align = WEIR_ALIGN_FIRST }, "align" },
        { { .algorithm = WEIR_CONCURRENCY, .count = 1, .period_ns = SECOND, .count_mode = WEIR_COUNT_ATTEMPTS },
          "count_mode" },
        { { .algorithm = WEIR_CONCURRENCY, .count = 1, .period_ns = SECOND, .on_change = WEIR_ON_CHANGE_PROPORTIONAL },
          "on_change" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct weir_fault fault;
        assert_true(weir_limit_check(&rows[i].spec, &fault) < 0);
        assert_string_equal(fault.field, rows[i].field);
    }
    struct weir_limiter_options options = { .memory_max = (size_t)16 << 20 };
    struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 32768, 366 * DAY, 0);
    struct fixture f = fixture_create_with(&options, &spec, 1);
    uint64_t permit = ask(&f, 20000, T0).ticket;
    assert_true(ask(&f, 12768, T0 + 1).admitted);
    assert_int_equal(ask(&f, 1, T0 + 2).retry_after_ns, 366 * DAY - 2);
    assert_int_equal(give_back(&f, permit, T0 + 2), 20000);
    assert_int_equal(out(&f, T0 + 366 * DAY), 12768);
    assert_int_equal(out(&f, T0 + 366 * DAY + 1), 0);
    fixture_destroy(&f);
}

/* Whichever of the keys comes first: the holder goes by the first lease that ends. */
static void several__the_shortest_lease_is_told(void **state)
{
    (void)state;
    const struct weir_limit_spec specs[] = { limit_of(WEIR_CONCURRENCY, 2, LEASE, 0),
                                             limit_of(WEIR_CONCURRENCY, 2, LEASE / 2, 0) };
    struct fixture f = fixture_create(specs, 2);
    for (char key[] = "a"; key[0] <= 'p'; key[0]++) {
        struct weir_verdict v[2];
        struct weir_time time = at(T0);
        uint64_t lease_ns = 0;
        assert_true(ask_all(&f, key, 1, T0, 0, v).admitted);
        const struct weir_key keys[] = { charge_of(&f, 0, key, 1).key, charge_of(&f, 1, key, 1).key };
        assert_int_equal(weir_limiter_renew(f.limiter, keys, 2, v[0].ticket, &time, &lease_ns), 0);
        assert_int_equal(lease_ns, LEASE / 2);
    }
    fixture_destroy(&f);
}

/* A clock that was far ahead gave it: renewed by the one that came back it is out for a lease, and no longer. */
static void limits__concurrency_a_renewal_after_a_clock_came_back_is_for_a_lease(void **state)
{
    (void)state;
    struct fixture f = permits(1);
    const uint64_t permit = ask(&f, 1, T0 + 1000 * LEASE).ticket;
    assert_int_equal(renew(&f, permit, T0), LEASE);
    assert_false(ask(&f, 1, T0 + LEASE - 1).admitted);
    assert_true(ask(&f, 1, T0 + LEASE).admitted);
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits__concurrency_admits_while_unexpired_permits_and_cost_fit),
        cmocka_unit_test(limits__concurrency_a_crashed_holders_permit_returns_when_its_lease_ends),
        cmocka_unit_test(limits__concurrency_a_permit_is_given_back_once),
        cmocka_unit_test(limits__concurrency_a_late_release_is_never_of_somebody_elses_permit),
        cmocka_unit_test(limits__concurrency_a_renewal_begins_the_lease_anew_and_never_after_its_end),
        cmocka_unit_test(limits__concurrency_retry_after_is_the_wait_if_nobody_renews_or_releases),
        cmocka_unit_test(limits__concurrency_cost_0_and_peek_change_nothing_and_take_no_permit),
        cmocka_unit_test(limits__concurrency_a_refund_gives_nobodys_permit_back),
        cmocka_unit_test(several__permits_and_units_are_taken_together_or_not_at_all),
        cmocka_unit_test(several__a_permit_lost_under_one_limit_is_not_renewed_under_another),
        cmocka_unit_test(several__a_concurrency_limit_in_shadow_never_refuses),
        cmocka_unit_test(several__the_shortest_lease_is_told),
        cmocka_unit_test(limits__concurrency_a_renewal_after_a_clock_came_back_is_for_a_lease),
        cmocka_unit_test(time__a_clock_that_came_back_keeps_permits_for_no_longer_than_a_lease),
        cmocka_unit_test(arithmetic__permits_have_bounds_that_name_the_field),
    };
    return cmocka_run_group_tests_name("semantics: concurrency", tests, NULL, NULL);
}
