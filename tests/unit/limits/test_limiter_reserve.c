/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/reserve.h: all limits of a request or none, what is given back and charged, bounds, changes of the limits. */
#include "random.h"
#include "reserve_fixture.h"

static void reserves__an_amount_is_charged_at_once_and_what_was_not_used_comes_back(void **state)
{
    (void)state;
    for (int algorithm = WEIR_TOKEN_BUCKET; algorithm < WEIR_CONCURRENCY; algorithm++) {
        struct fixture f = one_reserving((enum weir_algorithm)algorithm, 100, HOUR);
        struct weir_reservation r, other;
        assert_true(reserve_of(&f, "k", 80, false, T0, &r));
        assert_int_equal(r.held, 80);
        assert_int_equal(r.end_ns, T0 + TTL);
        assert_int_equal(left(&f, T0), 20);
        assert_false(reserve_of(&f, "k", 21, false, T0, &other));
        const struct weir_settled settled = settle(&f, &r, 30, T0);
        assert_int_equal(settled.given_back, 50);
        assert_int_equal(settled.given[0], 50);
        assert_int_equal(settled.under_estimated, 0);
        assert_false(settled.late);
        assert_int_equal(r.held, 0);
        assert_int_equal(left(&f, T0), 70);
        assert_true(settle(&f, &r, 0, T0).again); /* twice changes nothing */
        assert_int_equal(left(&f, T0), 70);
        fixture_destroy(&f);
    }
}

static void reserves__what_was_used_beyond_is_charged_below_zero(void **state)
{
    (void)state;
    struct fixture f = one_reserving(WEIR_TOKEN_BUCKET, 100, 100 * SECOND);
    struct weir_reservation r;
    assert_true(reserve_of(&f, "k", 60, false, T0, &r));
    struct weir_settled settled = settle(&f, &r, 180, T0);
    assert_int_equal(settled.under_estimated, 120);
    assert_int_equal(settled.uncharged, 0);
    assert_int_equal(ask(&f, 1, T0 + 80 * SECOND).retry_after_ns, SECOND); /* 80 in debt */
    assert_true(ask(&f, 1, T0 + 81 * SECOND).admitted);
    fixture_destroy(&f);
    f = one_reserving(WEIR_SLIDING_LOG, 100, HOUR);
    assert_true(reserve_of(&f, "k", 60, false, T0, &r));
    settled = settle(&f, &r, 180, T0);
    assert_int_equal(settled.under_estimated, 120);
    assert_int_equal(settled.uncharged, 80); /* a log cannot be in debt */
    assert_int_equal(left(&f, T0), 0);
    fixture_destroy(&f);
}

static void reserves__a_bucket_gives_back_what_refill_has_not(void **state)
{
    (void)state;
    struct fixture f = one_reserving(WEIR_TOKEN_BUCKET, 100, 100 * SECOND);
    struct weir_reservation r, other;
    assert_true(reserve_of(&f, "k", 50, false, T0, &r));
    assert_int_equal(settle(&f, &r, 0, T0 + 20 * SECOND).given_back, 30); /* 20 have come by themselves */
    assert_int_equal(left(&f, T0 + 20 * SECOND), 100);
    assert_true(reserve_of(&f, "k", 50, false, T0 + 20 * SECOND, &r));
    assert_true(ask(&f, 50, T0 + 40 * SECOND).admitted); /* it had been at 70 */
    assert_int_equal(settle(&f, &r, 0, T0 + 40 * SECOND).given_back, 30);
    /* and one that was reserved later goes by the oldest's mark */
    assert_true(reserve_of(&f, "k", 40, false, T0 + 40 * SECOND, &r));
    assert_true(reserve_of(&f, "k", 10, false, T0 + 45 * SECOND, &other));
    assert_int_equal(settle(&f, &other, 0, T0 + 45 * SECOND).given_back, 10);
    assert_int_equal(settle(&f, &r, 40, T0 + 45 * SECOND).given_back, 0);
    fixture_destroy(&f);
}

static void reserves__a_queue_gives_back_its_end_alone(void **state)
{
    (void)state;
    struct fixture f = one_reserving(WEIR_LEAKY_BUCKET, 100, 100 * SECOND);
    struct weir_reservation r;
    assert_true(reserve_of(&f, "k", 50, false, T0, &r));
    assert_true(ask(&f, 1, T0).admitted);
    assert_int_equal(settle(&f, &r, 0, T0).given_back, 0);
    fixture_destroy(&f);
}

static void reserves__a_key_that_was_forgotten_or_is_of_another_window_gives_nothing_back(void **state)
{
    (void)state;
    struct fixture f = one_reserving(WEIR_FIXED_WINDOW, 100, MINUTE);
    struct weir_charge charge = charge_of(&f, 0, "k", 1);
    struct weir_reservation r;
    bool found;
    assert_true(reserve_of(&f, "k", 50, false, T0, &r));
    assert_int_equal(weir_limiter_forget(f.limiter, &charge, &found), 0);
    assert_true(ask(&f, 60, T0).admitted);
    assert_int_equal(settle(&f, &r, 0, T0).given_back, 0);
    assert_int_equal(left(&f, T0), 40);
    assert_true(reserve_of(&f, "k", 40, false, T0, &r)); /* T0 is 40 s into its minute */
    assert_true(ask(&f, 30, T0 + 20 * SECOND).admitted);
    assert_int_equal(settle(&f, &r, 0, T0 + 20 * SECOND).given_back, 0);
    assert_int_equal(left(&f, T0 + 20 * SECOND), 70);
    fixture_destroy(&f);
}

static void reserves__all_limits_or_none(void **state)
{
    (void)state;
    const struct weir_limit_spec specs[] = { reserving(WEIR_TOKEN_BUCKET, 1000, HOUR),
                                             reserving(WEIR_FIXED_WINDOW, 500, HOUR),
                                             limit_of(WEIR_FIXED_WINDOW, 2, HOUR, 0),
                                             limit_of(WEIR_CONCURRENCY, 2, MINUTE, 0) };
    struct fixture f = fixture_create(specs, 4);
    struct weir_charge charges[4];
    struct weir_verdict verdicts[4];
    struct weir_decision decision;
    struct weir_reservation r, none;
    struct weir_fault fault;
    struct weir_time time = at(T0);
    struct weir_reserve_options options = { .amount = 400, .ttl_ns = TTL };
    for (size_t i = 0; i < 4; i++)
        charges[i] = charge_of(&f, i, "k", i < 2 ? 400 : 1);
    assert_int_equal(weir_limiter_reserve(f.limiter, charges, 4, 3, &options, &time, &r, &decision, verdicts, &fault),
                     0);
    assert_true(decision.admitted);
    assert_int_equal(r.count, 2);
    assert_int_equal(
        weir_limiter_reserve(f.limiter, charges, 4, 3, &options, &time, &none, &decision, verdicts, &fault), 0);
    assert_false(decision.admitted); /* 100 are left of the second, and nothing was charged to the others */
    assert_int_equal(decision.deciding, 1);
    (void)ask_all(&f, "k", 0, T0, WEIR_PEEK, verdicts);
    assert_int_equal(verdicts[0].remaining, 600);
    assert_int_equal(verdicts[1].remaining, 100);
    assert_int_equal(verdicts[2].remaining, 1);
    assert_int_equal(verdicts[3].remaining, 1);
    assert_int_equal(settle(&f, &r, 100, T0).given_back, 300);
    (void)ask_all(&f, "k", 0, T0, WEIR_PEEK, verdicts);
    assert_int_equal(verdicts[0].remaining, 900);
    assert_int_equal(verdicts[1].remaining, 400);
    assert_int_equal(verdicts[2].remaining, 1); /* a request was made */
    assert_int_equal(verdicts[3].remaining, 2); /* the permit went back */
    options.ttl_ns = MINUTE + 1;
    assert_int_equal(
        weir_limiter_reserve(f.limiter, charges, 4, 3, &options, &time, &none, &decision, verdicts, &fault),
        WEIR_ERANGE);
    assert_string_equal(fault.field, "ttl");
    fixture_destroy(&f);
}

static void reserves__one_that_nobody_settles_ends_by_its_ttl(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        struct fixture f = one_reserving(WEIR_FIXED_WINDOW, 100, HOUR);
        struct weir_reservation r;
        struct weir_settled settled;
        struct weir_time end = at(T0 + TTL), before = at(T0 + TTL - 1);
        assert_true(reserve_of(&f, "k", 80, keep, T0, &r));
        assert_false(weir_limiter_expire(f.limiter, &r, &before, &settled));
        assert_true(weir_limiter_expire(f.limiter, &r, &end, &settled));
        assert_int_equal(settled.given_back, keep ? 0 : 80);
        assert_int_equal(left(&f, T0 + TTL), keep ? 20 : 100);
        assert_false(weir_limiter_expire(f.limiter, &r, &end, &settled));
        settled = settle(&f, &r, 90, T0 + TTL);
        assert_true(settled.late);
        assert_int_equal(settled.under_estimated, keep ? 10 : 90);
        assert_int_equal(left(&f, T0 + TTL), 10);
        /* Nobody ended it: to settle it does. */
        assert_true(reserve_of(&f, "other", 80, keep, T0 + TTL, &r));
        assert_true(settle(&f, &r, 10, T0 + 2 * TTL).late);
        assert_int_equal(ask_at(&f, "other", 0, at(T0 + 2 * TTL), WEIR_PEEK).remaining, keep ? 20 : 90);
        fixture_destroy(&f);
    }
}

static void reserves__extended_it_is_stopped_in_time(void **state)
{
    (void)state;
    struct fixture f = one_reserving(WEIR_FIXED_WINDOW, 100, HOUR);
    struct weir_reservation r, same;
    assert_true(reserve_of(&f, "k", 10, false, T0, &r));
    for (unsigned i = 1; i < WEIR_RESERVE_PARTS_MAX; i++)
        assert_true(extend(&f, &r, 10, T0 + i));
    assert_int_equal(r.held, 80);
    assert_int_equal(r.end_ns, T0 + 7 + TTL);
    struct weir_decision decision;
    struct weir_verdict verdict;
    struct weir_time time = at(T0 + 8);
    assert_int_equal(weir_limiter_extend(f.limiter, &r, 10, TTL, &time, &decision, &verdict), WEIR_ELIMIT);
    assert_int_equal(settle(&f, &r, 25, T0 + 8).given_back, 55);
    assert_int_equal(weir_limiter_extend(f.limiter, &r, 10, TTL, &time, &decision, &verdict), WEIR_ELOST);
    assert_true(reserve_of(&f, "k", 70, false, T0, &r));
    same = r;
    assert_false(extend(&f, &r, 6, T0 + 9));
    assert_memory_equal(&same, &r, sizeof r); /* refused, nothing changes */
    assert_int_equal(left(&f, T0), 5);
    fixture_destroy(&f);
}

static void reserves__a_change_of_the_limit_converts_what_is_reserved(void **state)
{
    (void)state;
    struct weir_limit_spec spec = reserving(WEIR_TOKEN_BUCKET, 100, HOUR);
    struct weir_reservation r;
    struct fixture f = fixture_create(&spec, 1);
    spec.on_change = WEIR_ON_CHANGE_PROPORTIONAL;
    assert_true(reserve_of(&f, "k", 80, false, T0, &r));
    spec.count = 50;
    fixture_define(&f, &spec, 1, T0);
    assert_int_equal(settle(&f, &r, 0, T0).given_back, 40);
    assert_int_equal(left(&f, T0), 50);
    spec.on_change = WEIR_ON_CHANGE_KEEP;
    assert_true(reserve_of(&f, "k", 40, false, T0, &r));
    spec.count = 60;
    fixture_define(&f, &spec, 1, T0);
    spec.count = 70;
    fixture_define(&f, &spec, 1, T0); /* its id is stale by now */
    assert_int_equal(settle(&f, &r, 15, T0).given_back, 25);
    assert_true(reserve_of(&f, "k", 10, false, T0, &r));
    spec.on_change = WEIR_ON_CHANGE_RESET;
    spec.count = 80;
    fixture_define(&f, &spec, 1, T0);
    assert_true(ask(&f, 70, T0).admitted);
    assert_int_equal(settle(&f, &r, 0, T0).given_back, 0);
    assert_int_equal(left(&f, T0), 10);
    fixture_destroy(&f);
}

/* ---- wrong arguments ---- */

static void reserves__what_is_out_of_range_is_refused(void **state)
{
    (void)state;
    const struct {
        struct weir_reserve_options options;
        int error;
        const char *field;
    } wrong[] = {
        { { .amount = 0, .ttl_ns = TTL }, WEIR_ERANGE, "amount" },
        { { .amount = UINT64_C(1) << 63, .ttl_ns = TTL }, WEIR_ERANGE, "amount" },
        { { .amount = 1, .ttl_ns = 0 }, WEIR_ERANGE, "ttl" },
        { { .amount = 1, .ttl_ns = 365 * DAY }, WEIR_ERANGE, "ttl" },
        { { .amount = 1, .ttl_ns = (uint64_t)-1 }, WEIR_ERANGE, "ttl" },
        { { .amount = 1, .ttl_ns = TTL, .keep = 2 }, WEIR_EINVAL, "keep" },
        { { .amount = 1, .ttl_ns = TTL, .reserved = { 1 } }, WEIR_EINVAL, "reserved" },
    };
    struct fixture f = one_reserving(WEIR_TOKEN_BUCKET, 100, HOUR), plain = one_limit(WEIR_TOKEN_BUCKET, 100, HOUR, 0);
    struct weir_reservation r = { 0 };
    struct weir_settled settled;
    struct weir_fault fault;
    const struct weir_time time = at(T0);
    bool admitted;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(try_reserve(&f, "k", &wrong[i].options, T0, &r, &admitted, &fault), wrong[i].error);
        assert_string_equal(fault.field, wrong[i].field);
    }
    const struct weir_reserve_options options = { .amount = 1, .ttl_ns = TTL };
    assert_int_equal(try_reserve(&plain, "k", &options, T0, &r, &admitted, &fault), WEIR_EINVAL);
    assert_int_equal(weir_limiter_settle(f.limiter, &r, 1, &time, &settled), WEIR_EINVAL); /* before it was reserved */
    assert_true(reserve_of(&f, "k", 10, false, T0, &r));
    assert_int_equal(weir_limiter_settle(f.limiter, &r, UINT64_C(1) << 63, &time, &settled), WEIR_ERANGE);
    assert_int_equal(settle(&f, &r, INT64_MAX, T0).uncharged, INT64_MAX - 10 - 1590);
    fixture_destroy(&f);
    fixture_destroy(&plain);
}

static void reserves__what_was_charged_before_a_key_was_forgotten_stays_gone(void **state)
{
    (void)state;
    struct fixture f = one_reserving(WEIR_FIXED_WINDOW, 100, DAY);
    struct weir_charge charge = charge_of(&f, 0, "k", 1);
    struct weir_reservation r;
    bool found;
    assert_true(reserve_of(&f, "k", 50, false, T0, &r));
    assert_int_equal(weir_limiter_forget(f.limiter, &charge, &found), 0);
    assert_true(ask(&f, 60, T0).admitted);
    assert_true(extend(&f, &r, 20, T0));
    assert_int_equal(settle(&f, &r, 0, T0).given_back, 20);
    assert_int_equal(left(&f, T0), 40);
    fixture_destroy(&f);
}

static void reserves__each_limit_gives_back_what_it_can_and_the_least_is_told(void **state)
{
    (void)state;
    const struct weir_limit_spec specs[] = { reserving(WEIR_FIXED_WINDOW, 1000, DAY),
                                             reserving(WEIR_TOKEN_BUCKET, 100, 100 * SECOND) };
    struct fixture f = fixture_create(specs, 2);
    const struct weir_charge charges[] = { charge_of(&f, 0, "k", 50), charge_of(&f, 1, "k", 50) };
    const struct weir_reserve_options options = { .amount = 50, .ttl_ns = TTL };
    struct weir_reservation r;
    struct weir_decision decision;
    struct weir_verdict verdicts[2];
    const struct weir_time time = at(T0);
    assert_int_equal(weir_limiter_reserve(f.limiter, charges, 2, 3, &options, &time, &r, &decision, verdicts, NULL), 0);
    const struct weir_settled settled = settle(&f, &r, 0, T0 + 20 * SECOND);
    assert_int_equal(settled.given_back, 30);
    assert_int_equal(settled.given[0], 50);
    assert_int_equal(settled.given[1], 30);
    fixture_destroy(&f);
}

/* ---- conservation ---- */

#define OPEN_MAX 40

/* A window that never ends, so that all that is not used comes back: charged is what was settled, to the unit. */
static void reserves__what_is_charged_is_what_was_settled_and_is_open(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct fixture f = one_reserving(WEIR_FIXED_WINDOW, 1000000000, 30 * DAY);
    static struct weir_reservation r[OPEN_MAX];
    uint64_t settled = 0, now = T0;
    for (uint64_t i = test_effort(2000, 100000, 10000000); i > 0; i--) {
        struct weir_reservation *one = &r[test_random_below(&random, OPEN_MAX)];
        const uint64_t amount = 1 + test_random_below(&random, 30), actual = test_random_below(&random, 40);
        now += test_random_below(&random, 100 * 1000);
        if (one->held == 0) {
            assert_true(reserve_of(&f, "k", amount, false, now, one));
        } else if (test_random_below(&random, 3) == 0 && one->end_ns > now) {
            struct weir_decision decision;
            struct weir_verdict verdict;
            struct weir_time time = at(now);
            (void)!weir_limiter_extend(f.limiter, one, amount, TTL, &time, &decision, &verdict);
        } else {
            settled += actual;
            (void)settle(&f, one, actual, now);
        }
    }
    uint64_t open = 0;
    for (size_t i = 0; i < OPEN_MAX; i++)
        open += r[i].held;
    assert_int_equal(1000000000 - left(&f, now), settled + open);
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserves__an_amount_is_charged_at_once_and_what_was_not_used_comes_back),
        cmocka_unit_test(reserves__what_was_used_beyond_is_charged_below_zero),
        cmocka_unit_test(reserves__a_bucket_gives_back_what_refill_has_not),
        cmocka_unit_test(reserves__a_queue_gives_back_its_end_alone),
        cmocka_unit_test(reserves__a_key_that_was_forgotten_or_is_of_another_window_gives_nothing_back),
        cmocka_unit_test(reserves__all_limits_or_none),
        cmocka_unit_test(reserves__one_that_nobody_settles_ends_by_its_ttl),
        cmocka_unit_test(reserves__extended_it_is_stopped_in_time),
        cmocka_unit_test(reserves__a_change_of_the_limit_converts_what_is_reserved),
        cmocka_unit_test(reserves__what_is_out_of_range_is_refused),
        cmocka_unit_test(reserves__what_was_charged_before_a_key_was_forgotten_stays_gone),
        cmocka_unit_test(reserves__each_limit_gives_back_what_it_can_and_the_least_is_told),
        cmocka_unit_test(reserves__what_is_charged_is_what_was_settled_and_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
