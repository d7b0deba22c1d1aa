/* SPDX-License-Identifier: Apache-2.0
 *
 * `on_failure: local`: what outages may add, and when a share starts empty. */
#include <pthread.h>

#include "engine/fallback.h"
#include "fixture.h"
#include "random.h"

static const struct weir_limit_spec share = { .count = 10, .period_ns = 10 * SECOND }; /* a unit a second */

static struct weir_fallback *make_started(uint64_t start_ns)
{
    struct weir_fallback *fallback = NULL;
    assert_int_equal(weir_fallback_create(4, 1000, start_ns, &fallback), 0);
    return fallback;
}

/* Of a process that has run for as long as the share takes to fill. */
static struct weir_fallback *make(void)
{
    return make_started(T0 - 10 * SECOND);
}

static struct weir_remote_key key_of(uint64_t number)
{
    struct weir_remote_key key;
    const struct weir_slice slice = { &number, sizeof(number) };
    assert_int_equal(weir_remote_key_init(NULL, "api", &slice, 1, &key), 0);
    return key;
}

static bool try(struct weir_fallback *fallback, uint64_t number, uint64_t cost, uint64_t now_ns)
{
    struct weir_remote_key key = key_of(number);
    struct weir_verdict verdict;
    assert_int_equal(weir_fallback_decide(fallback, 1, &share, &key, cost, false, now_ns, &verdict), 0);
    assert_int_equal(verdict.capacity, 10);
    assert_true(verdict.admitted || verdict.retry_after_ns > 0);
    return verdict.admitted;
}

static uint64_t drain(struct weir_fallback *fallback, uint64_t number, uint64_t now_ns)
{
    uint64_t admitted = 0;
    while (try(fallback, number, 1, now_ns))
        admitted++;
    return admitted;
}

static void an_outage_adds_one_share_and_its_refill(void **state)
{
    (void)state;
    struct weir_fallback *fallback = make();
    assert_int_equal(drain(fallback, 1, T0), 10);
    assert_int_equal(drain(fallback, 2, T0), 10);
    assert_int_equal(drain(fallback, 1, T0 + 3 * SECOND), 3);
    assert_false(try(fallback, 3, 11, T0));
    weir_fallback_destroy(fallback);
}

static void a_long_outage_stays_one_though_few_requests_come(void **state)
{
    (void)state;
    struct weir_fallback *fallback = make();
    for (uint64_t i = 0; i < 5; i++)
        assert_true(try(fallback, 1, 1, T0 + i * 5 * SECOND));
    assert_int_equal(drain(fallback, 2, T0 + 21 * SECOND), 10);
    weir_fallback_destroy(fallback);
}

static void the_next_outage_within_the_fill_time_starts_empty(void **state)
{
    (void)state;
    struct weir_fallback *fallback = make();
    assert_int_equal(drain(fallback, 1, T0), 10);
    weir_fallback_answered(fallback, 1);
    uint64_t second = T0 + 6 * SECOND;
    assert_int_equal(drain(fallback, 1, second), 0);
    assert_int_equal(drain(fallback, 2, second), 0); /* keys that had no part in the first, too */
    assert_int_equal(drain(fallback, 2, second + 4 * SECOND), 4);
    weir_fallback_destroy(fallback);
}

static void an_outage_after_the_fill_time_starts_full(void **state)
{
    (void)state;
    struct weir_fallback *fallback = make();
    assert_int_equal(drain(fallback, 1, T0), 10);
    weir_fallback_answered(fallback, 1);
    assert_int_equal(drain(fallback, 1, T0 + 10 * SECOND), 10);
    weir_fallback_destroy(fallback);
}

/* A start is as good as a fallback, whether or not the engine has answered in between. */
static void an_outage_within_the_fill_time_of_the_start_starts_empty(void **state)
{
    (void)state;
    for (int answered = 0; answered < 2; answered++) {
        for (uint64_t after_ns = 0; after_ns < 10 * SECOND; after_ns += SECOND / 2) {
            struct weir_fallback *fallback = make_started(T0);
            if (answered)
                weir_fallback_answered(fallback, 1);
            assert_int_equal(drain(fallback, 1, T0 + after_ns), 0);
            assert_int_equal(drain(fallback, 1, T0 + after_ns + 4 * SECOND), 4);
            weir_fallback_destroy(fallback);
        }
        struct weir_fallback *fallback = make_started(T0);
        assert_int_equal(drain(fallback, 1, T0 + 10 * SECOND), 10);
        weir_fallback_destroy(fallback);
    }
}

/* However often a process starts while the engine is down, all that is admitted is what refilled meanwhile. */
static void a_crash_loop_admits_the_refill_at_most(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    uint64_t now_ns = T0, admitted = 0;
    for (int i = 0; i < 500; i++) {
        struct weir_fallback *fallback = make_started(now_ns);
        for (uint64_t asks = test_random_below(&random, 8); asks > 0; asks--) {
            admitted += drain(fallback, 1, now_ns);
            now_ns += test_random_below(&random, SECOND);
        }
        weir_fallback_destroy(fallback);
        assert_true(admitted <= (now_ns - T0) / SECOND);
    }
}

/* Overrides of one limit are one outage, and each has the time that its own share takes to fill. */
static void an_override_that_fills_more_slowly_starts_empty_for_longer(void **state)
{
    (void)state;
    const struct weir_limit_spec slow = { .count = 10, .period_ns = 1000 * SECOND };
    struct weir_fallback *fallback = make_started(T0);
    struct weir_remote_key key = key_of(2);
    struct weir_verdict verdict;
    assert_int_equal(drain(fallback, 1, T0 + 20 * SECOND), 10);
    assert_int_equal(weir_fallback_decide(fallback, 1, &slow, &key, 1, false, T0 + 20 * SECOND, &verdict), 0);
    assert_false(verdict.admitted);
    weir_fallback_destroy(fallback);
}

/* One answer among failures, while a breaker feels its way back, is not the end of an outage. */
static void an_outage_ends_when_it_has_been_calm(void **state)
{
    (void)state;
    struct weir_fallback *fallback = make();
    assert_true(try(fallback, 1, 1, T0));
    weir_fallback_answered(fallback, 1);
    assert_true(try(fallback, 1, 1, T0 + WEIR_FALLBACK_CALM_NS));
    weir_fallback_answered(fallback, 1);
    assert_false(try(fallback, 1, 1, T0 + 2 * WEIR_FALLBACK_CALM_NS + 1));
    weir_fallback_destroy(fallback);
}

static void a_peek_and_a_refund_leave_the_share_as_it_was(void **state)
{
    (void)state;
    struct weir_fallback *fallback = make();
    struct weir_remote_key key = key_of(1);
    struct weir_verdict verdict;
    for (int i = 0; i < 20; i++)
        assert_int_equal(weir_fallback_decide(fallback, 1, &share, &key, 10, true, T0, &verdict), 0);
    assert_true(verdict.admitted);
    assert_true(try(fallback, 1, 10, T0));
    weir_fallback_refund(fallback, &share, &key, 10, T0);
    assert_int_equal(drain(fallback, 1, T0), 10);
    weir_fallback_destroy(fallback);
}

/* A share of so many that its bucket counts in other ticks: what a key used under the other cannot be told, so all of
 * it was; and nothing is given back under one that was taken under the other. */
static void a_reload_to_other_ticks_restores_nothing(void **state)
{
    (void)state;
    const struct weir_limit_spec many = { .count = 1000000000, .period_ns = 10 * SECOND };
    struct weir_fallback *fallback = make();
    struct weir_remote_key key = key_of(1);
    struct weir_verdict verdict;
    assert_int_equal(drain(fallback, 1, T0), 10);
    assert_int_equal(weir_fallback_decide(fallback, 1, &many, &key, 1, false, T0 + SECOND, &verdict), 0);
    assert_false(verdict.admitted);
    weir_fallback_refund(fallback, &many, &key, 5, T0 + SECOND);
    assert_int_equal(drain(fallback, 1, T0 + SECOND), 1);
    assert_int_equal(drain(fallback, 1, T0 + 5 * SECOND), 4);
    weir_fallback_destroy(fallback);
}

static void a_share_of_nothing_admits_nothing(void **state)
{
    (void)state;
    struct weir_fallback *fallback = make();
    const struct weir_limit_spec nothing = { .count = 0, .period_ns = SECOND };
    struct weir_remote_key key = key_of(1);
    struct weir_verdict verdict;
    assert_int_equal(weir_fallback_decide(fallback, 1, &nothing, &key, 1, false, T0, &verdict), 0);
    assert_false(verdict.admitted);
    weir_fallback_destroy(fallback);
}

/* Outages of every length, one after the other: together they add one capacity each time the share could have filled,
 * and what refills. */
static void outages_that_come_and_go_never_add_up(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct weir_fallback *fallback = make();
    uint64_t now_ns = T0, first_ns = T0, admitted = 0;
    for (int i = 0; i < 2000; i++) {
        now_ns += test_random_below(&random, 3 * SECOND); /* never calm for as long as it takes to fill */
        if (test_random_below(&random, 3) == 0)
            weir_fallback_answered(fallback, 1);
        admitted += drain(fallback, 1, now_ns);
        uint64_t bound = 10 + (now_ns - first_ns) / SECOND;
        assert_true(admitted <= bound);
    }
    weir_fallback_destroy(fallback);
}

/* What outages may have added, for as long as the limit takes to fill. */
static void the_bound_told_covers_what_fallbacks_added(void **state)
{
    (void)state;
    const struct weir_limit_spec whole = { .count = 30, .period_ns = 30 * SECOND }; /* of three nodes */
    struct weir_fallback *fallback = make_started(T0 - 100 * SECOND);
    assert_int_equal(weir_fallback_overshoot(fallback, 1, &whole, T0), 0);
    assert_int_equal(drain(fallback, 1, T0), 10);
    assert_int_equal(weir_fallback_overshoot(fallback, 1, &whole, T0), 30);
    assert_int_equal(weir_fallback_overshoot(fallback, 2, &whole, T0), 0); /* another limit */
    assert_int_equal(drain(fallback, 1, T0 + 7 * SECOND), 7);
    assert_int_equal(weir_fallback_overshoot(fallback, 1, &whole, T0 + 7 * SECOND), 37);
    weir_fallback_answered(fallback, 1);
    assert_int_equal(drain(fallback, 1, T0 + 12 * SECOND), 0); /* the next outage adds to the same */
    assert_int_equal(weir_fallback_overshoot(fallback, 1, &whole, T0 + 12 * SECOND), 42);
    weir_fallback_answered(fallback, 1);
    assert_int_equal(weir_fallback_overshoot(fallback, 1, &whole, T0 + 41 * SECOND), 42);
    assert_int_equal(weir_fallback_overshoot(fallback, 1, &whole, T0 + 42 * SECOND), 0);
    assert_int_equal(drain(fallback, 1, T0 + 60 * SECOND), 10); /* and one after it is the first again */
    assert_int_equal(weir_fallback_overshoot(fallback, 1, &whole, T0 + 60 * SECOND), 30);
    weir_fallback_opened(fallback, 2, T0);
    assert_true(weir_fallback_overshoot(fallback, 2, &whole, T0 + 29 * SECOND) == WEIR_NEVER);
    assert_int_equal(weir_fallback_overshoot(fallback, 2, &whole, T0 + 30 * SECOND), 0);
    weir_fallback_destroy(fallback);
}

static void memory_is_bounded(void **state)
{
    (void)state;
    struct weir_fallback *fallback = make();
    for (uint64_t i = 0; i < 20000; i++)
        try(fallback, i, 1, T0);
    weir_fallback_destroy(fallback);
}

/* ---- threads ---- */

struct taker {
    struct weir_fallback *fallback;
    pthread_barrier_t *begin;
    uint64_t admitted, given_back;
};

static const struct weir_limit_spec wide = { .count = 1000000, .period_ns = 1000 * SECOND };

/* Every third unit is given back, of one key that all ask for. */
static void *take(void *argument)
{
    struct taker *taker = argument;
    struct weir_remote_key key = key_of(1);
    struct weir_verdict verdict;
    pthread_barrier_wait(taker->begin);
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(weir_fallback_decide(taker->fallback, 1, &wide, &key, 1, false, T0, &verdict), 0);
        assert_true(verdict.admitted);
        taker->admitted++;
        if (i % 3 > 0)
            continue;
        weir_fallback_refund(taker->fallback, &wide, &key, 1, T0);
        taker->given_back++;
    }
    return NULL;
}

static void threads_that_take_and_give_back_lose_no_unit(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    struct weir_fallback *fallback = make_started(T0 - 1000 * SECOND);
    struct taker takers[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t begin;
    uint64_t used = 0;
    pthread_barrier_init(&begin, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        takers[i] = (struct taker){ .fallback = fallback, .begin = &begin };
        assert_int_equal(pthread_create(&threads[i], NULL, take, &takers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        used += takers[i].admitted - takers[i].given_back;
    }
    struct weir_remote_key key = key_of(1);
    struct weir_verdict verdict;
    assert_int_equal(weir_fallback_decide(fallback, 1, &wide, &key, 0, true, T0, &verdict), 0);
    assert_int_equal(verdict.remaining, 1000000 - used);
    pthread_barrier_destroy(&begin);
    weir_fallback_destroy(fallback);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_outage_adds_one_share_and_its_refill),
        cmocka_unit_test(a_long_outage_stays_one_though_few_requests_come),
        cmocka_unit_test(the_next_outage_within_the_fill_time_starts_empty),
        cmocka_unit_test(an_outage_after_the_fill_time_starts_full),
        cmocka_unit_test(an_outage_within_the_fill_time_of_the_start_starts_empty),
        cmocka_unit_test(a_crash_loop_admits_the_refill_at_most),
        cmocka_unit_test(an_override_that_fills_more_slowly_starts_empty_for_longer),
        cmocka_unit_test(an_outage_ends_when_it_has_been_calm),
        cmocka_unit_test(a_peek_and_a_refund_leave_the_share_as_it_was),
        cmocka_unit_test(a_reload_to_other_ticks_restores_nothing),
        cmocka_unit_test(a_share_of_nothing_admits_nothing),
        cmocka_unit_test(outages_that_come_and_go_never_add_up),
        cmocka_unit_test(the_bound_told_covers_what_fallbacks_added),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(threads_that_take_and_give_back_lose_no_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
