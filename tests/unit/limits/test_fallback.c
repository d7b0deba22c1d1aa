/* SPDX-License-Identifier: Apache-2.0
 *
 * `on_failure: local`: what outages may add, and when a share starts empty. */
#include <pthread.h>

#include "base/checked.h"
#include "fixture.h"
#include "limits/fallback.h"
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

static struct weir_verdict ask_as(struct weir_fallback *fallback, const struct weir_limit_spec *spec, uint64_t reloads,
                                  uint64_t number, uint64_t cost, uint64_t now_ns)
{
    struct weir_remote_key key = key_of(number);
    struct weir_verdict verdict;
    assert_int_equal(weir_fallback_decide(fallback, 1, spec, reloads, &key, cost, false, now_ns, &verdict), 0);
    return verdict;
}

static bool try_by(struct weir_fallback *fallback, const struct weir_limit_spec *spec, uint64_t number, uint64_t cost,
                   uint64_t now_ns)
{
    const struct weir_verdict verdict = ask_as(fallback, spec, 0, number, cost, now_ns);
    assert_int_equal(verdict.capacity, weir_limit_capacity(spec));
    assert_true(verdict.admitted || verdict.retry_after_ns > 0);
    return verdict.admitted;
}

static uint64_t drain_by(struct weir_fallback *fallback, const struct weir_limit_spec *spec, uint64_t number,
                         uint64_t now_ns)
{
    uint64_t admitted = 0;
    while (try_by(fallback, spec, number, 1, now_ns))
        admitted++;
    return admitted;
}

static bool try(struct weir_fallback *fallback, uint64_t number, uint64_t cost, uint64_t now_ns)
{
    return try_by(fallback, &share, number, cost, now_ns);
}

static uint64_t drain(struct weir_fallback *fallback, uint64_t number, uint64_t now_ns)
{
    return drain_by(fallback, &share, number, now_ns);
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
    assert_int_equal(drain(fallback, 1, T0 + 20 * SECOND), 10);
    assert_false(ask_as(fallback, &slow, 0, 2, 1, T0 + 20 * SECOND).admitted);
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
        assert_int_equal(weir_fallback_decide(fallback, 1, &share, 0, &key, 10, true, T0, &verdict), 0);
    assert_true(verdict.admitted);
    assert_true(try(fallback, 1, 10, T0));
    weir_fallback_refund(fallback, &share, 0, &key, 10, T0);
    assert_int_equal(drain(fallback, 1, T0), 10);
    weir_fallback_destroy(fallback);
}

/* A share of so many that its bucket counts in other ticks: what a key has used stays used, and what is given back is
 * as many units as were taken. */
static void a_reload_to_other_ticks_restores_nothing(void **state)
{
    (void)state;
    const struct weir_limit_spec many = { .count = 1000000000, .period_ns = 10 * SECOND };
    struct weir_fallback *fallback = make();
    struct weir_remote_key key = key_of(1);
    assert_int_equal(drain(fallback, 1, T0), 10);
    weir_fallback_refund(fallback, &many, 0, &key, 5, T0);
    assert_int_equal(drain_by(fallback, &many, 1, T0), 5);
    assert_int_equal(drain(fallback, 1, T0), 0);
    assert_int_equal(drain(fallback, 1, T0 + SECOND), 1);
    assert_int_equal(drain(fallback, 1, T0 + 5 * SECOND), 4);
    assert_true(try_by(fallback, &many, 2, 100, T0 + 5 * SECOND));
    assert_true(try(fallback, 2, 10, T0 + 30 * DAY)); /* in those ticks more than half way round */
    weir_fallback_destroy(fallback);
}

static const struct weir_limit_spec half_rate = { .count = 5, .period_ns = 10 * SECOND, .burst = 10 };
static const struct weir_limit_spec double_rate = { .count = 10, .period_ns = 5 * SECOND };
static const struct weir_limit_spec half_burst = { .count = 10, .period_ns = 10 * SECOND, .burst = 5 };
static const struct weir_limit_spec double_burst = { .count = 10, .period_ns = 10 * SECOND, .burst = 20 };
static const struct weir_limit_spec far_slower = { .count = 10, .period_ns = 1000 * SECOND };
static const struct weir_limit_spec none = { .count = 0, .period_ns = 10 * SECOND };

#define LATE (T0 + 10000 * SECOND) /* a process started at T0 has earned a share that fills far more slowly, too */

/* The same ticks, another time for each unit. */
static void a_reload_to_another_rate_gives_nothing_back(void **state)
{
    (void)state;
    const struct {
        const struct weir_limit_spec *spec;
        uint64_t after_4_s;
    } cases[] = { { &share, 4 },      { &half_rate, 2 },    { &double_rate, 8 },
                  { &half_burst, 4 }, { &double_burst, 4 }, { &far_slower, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_fallback *fallback = make_started(T0);
        assert_int_equal(drain(fallback, 1, LATE), 10);
        assert_true(try(fallback, 2, 4, LATE));
        assert_int_equal(drain_by(fallback, cases[i].spec, 1, LATE), 0);
        assert_int_equal(drain_by(fallback, cases[i].spec, 2, LATE), cases[i].spec == &half_burst ? 1 : 6);
        assert_int_equal(drain_by(fallback, cases[i].spec, 1, LATE + 4 * SECOND), cases[i].after_4_s);
        weir_fallback_destroy(fallback);
    }
}

/* Nobody says when the reload was: what came back may have come by the slower rate all the time. */
static void what_came_back_unseen_around_a_reload_came_by_the_slower_rate(void **state)
{
    (void)state;
    struct weir_fallback *fallback = make_started(T0);
    assert_int_equal(drain(fallback, 1, LATE), 10);
    assert_int_equal(drain(fallback, 2, LATE), 10);
    assert_int_equal(drain_by(fallback, &far_slower, 1, LATE + 20 * SECOND), 0);
    assert_int_equal(drain_by(fallback, &share, 1, LATE + 20 * SECOND), 0);
    assert_int_equal(drain_by(fallback, &half_rate, 2, LATE + 6 * SECOND), 3);
    assert_int_equal(drain_by(fallback, &share, 2, LATE + 12 * SECOND), 3);
    weir_fallback_destroy(fallback);
}

/* By the faster share the outage began full, or has brought back more since; the key has been told otherwise. */
static void a_reload_fills_no_share_that_began_empty(void **state)
{
    (void)state;
    for (uint64_t began = 1; began < 10; began++) {
        struct weir_fallback *fallback = make_started(T0);
        uint64_t now_ns = T0 + began * SECOND;
        assert_false(try(fallback, 1, 1, now_ns));
        assert_int_equal(drain_by(fallback, &double_rate, 1, now_ns), 0);
        assert_false(try(fallback, 2, 5, now_ns + 4 * SECOND));
        assert_int_equal(drain_by(fallback, &double_rate, 2, now_ns + 4 * SECOND), 4);
        assert_int_equal(drain_by(fallback, &double_rate, 1, now_ns + 4 * SECOND), 8);
        weir_fallback_destroy(fallback);
    }
}

/* Two loops: one has heard of the reload, the other not yet. */
static void who_has_not_heard_of_a_reload_does_not_carry_a_key_back(void **state)
{
    (void)state;
    struct weir_fallback *fallback = make_started(T0);
    struct weir_remote_key key = key_of(1);
    for (uint64_t i = 0; i < 4; i++) {
        struct weir_verdict verdict = ask_as(fallback, i % 2 ? &share : &half_burst, i % 2 ? 6 : 7, 1, 1, LATE);
        assert_int_equal(verdict.remaining, 4 - i);
        assert_int_equal(verdict.capacity, 5);
    }
    weir_fallback_refund(fallback, &share, 6, &key, 1, LATE);
    assert_int_equal(ask_as(fallback, &share, 6, 1, 0, LATE).capacity, 5);
    assert_int_equal(ask_as(fallback, &half_burst, 8, 1, 0, LATE).remaining, 2);
    assert_int_equal(ask_as(fallback, &share, 7, 1, 0, LATE).capacity, 5);
    assert_int_equal(ask_as(fallback, &share, 9, 1, 0, LATE).capacity, 10);
    weir_fallback_destroy(fallback);
}

#define UNIT UINT64_C(1000000) /* a unit: what comes back is counted in less */

/* A share that knows when each reload came. */
struct known {
    const struct weir_limit_spec *spec;
    uint64_t left, reloads, met;
};

static void let_pass(struct known *known, struct test_random *random, uint64_t *now_ns)
{
    uint64_t pass_ns = test_random_below(random, 4) ? test_random_below(random, 5 * SECOND) : 0;
    known->left += weir_mul_div_ceil(pass_ns, known->spec->count * UNIT, known->spec->period_ns);
    known->left = weir_min_u64(known->left, weir_limit_capacity(known->spec) * UNIT);
    *now_ns += pass_ns;
}

static void reload(struct known *known, const struct weir_limit_spec *spec)
{
    uint64_t before = weir_limit_capacity(known->spec) * UNIT, after = weir_limit_capacity(spec) * UNIT;
    bool fresh = before > 0 && known->left == before;
    known->left = fresh ? after : weir_min_u64(known->left, after);
    known->spec = spec;
    known->reloads++;
}

/* Reloads at any time between two decisions, to and fro; now and then somebody asks who has not heard of the last. */
static void reloads_in_an_outage_never_admit_more_than_came_back(void **state)
{
    (void)state;
    static const struct weir_limit_spec *const specs[] = { &share,        &half_rate,  &double_rate, &half_burst,
                                                           &double_burst, &far_slower, &none };
    struct test_random random = { test_random_seed() };
    uint64_t now_ns = LATE, admitted = 0;
    for (int trial = 0; trial < 100; trial++) {
        struct weir_fallback *fallback = make_started(T0);
        struct known known = { &share, 9 * UNIT, 1, 0 };
        assert_true(try(fallback, 1, 1, now_ns));
        for (int i = 0; i < 100; i++) {
            let_pass(&known, &random, &now_ns);
            if (test_random_below(&random, 2))
                reload(&known, specs[test_random_below(&random, sizeof specs / sizeof specs[0])]);
            let_pass(&known, &random, &now_ns);
            uint64_t cost = 1 + test_random_below(&random, 4);
            bool late = known.met == known.reloads && test_random_below(&random, 3) == 0;
            const struct weir_limit_spec *by = late ? specs[test_random_below(&random, 7)] : known.spec;
            known.met = known.reloads;
            struct weir_verdict verdict = ask_as(fallback, by, known.met - late, 1, cost, now_ns);
            assert_int_equal(verdict.capacity, weir_limit_capacity(known.spec));
            if (!verdict.admitted)
                continue;
            admitted += cost;
            assert_true(cost * UNIT <= known.left);
            known.left -= cost * UNIT;
        }
        weir_fallback_destroy(fallback);
    }
    assert_true(admitted > 100);
}

static void a_share_of_nothing_admits_nothing(void **state)
{
    (void)state;
    struct weir_fallback *fallback = make();
    assert_false(ask_as(fallback, &(struct weir_limit_spec){ .period_ns = SECOND }, 0, 1, 1, T0).admitted);
    struct weir_remote_key key = key_of(1);
    const struct weir_limit_spec bad = { .count = 1 };
    struct weir_verdict v;
    assert_int_equal(weir_fallback_decide(fallback, 1, &bad, 0, &key, 1, false, T0, &v), WEIR_ERANGE);
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
        assert_true(admitted <= 10 + (now_ns - first_ns) / SECOND);
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
    for (uint64_t i = 0; i < 20000; i++) /* who takes another's place has a share of its own */
        assert_true(try(fallback, i, 10, T0));
    weir_fallback_destroy(fallback);
}

static void keys_that_were_refused_take_nobodys_place(void **state)
{
    (void)state;
    const struct weir_limit_spec quick = { .count = 10, .period_ns = SECOND };
    struct weir_fallback *fallback = make_started(T0);
    assert_int_equal(drain_by(fallback, &quick, 0, T0 + 5 * SECOND), 10);
    for (uint64_t i = 1; i < 20000; i++)
        assert_false(try(fallback, i, 6, T0 + 5 * SECOND));
    assert_int_equal(drain_by(fallback, &quick, 0, T0 + 5 * SECOND), 0);
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
        assert_int_equal(weir_fallback_decide(taker->fallback, 1, &wide, 0, &key, 1, false, T0, &verdict), 0);
        assert_true(verdict.admitted);
        taker->admitted++;
        taker->given_back += i % 3 == 0;
        if (i % 3 == 0)
            weir_fallback_refund(taker->fallback, &wide, 0, &key, 1, T0);
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
    pthread_barrier_init(&begin, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        takers[i] = (struct taker){ .fallback = fallback, .begin = &begin };
        assert_int_equal(pthread_create(&threads[i], NULL, take, &takers[i]), 0);
    }
    uint64_t used = 0;
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        used += takers[i].admitted - takers[i].given_back;
    }
    assert_int_equal(ask_as(fallback, &wide, 0, 1, 0, T0).remaining, 1000000 - used);
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
        cmocka_unit_test(a_reload_to_another_rate_gives_nothing_back),
        cmocka_unit_test(what_came_back_unseen_around_a_reload_came_by_the_slower_rate),
        cmocka_unit_test(a_reload_fills_no_share_that_began_empty),
        cmocka_unit_test(who_has_not_heard_of_a_reload_does_not_carry_a_key_back),
        cmocka_unit_test(reloads_in_an_outage_never_admit_more_than_came_back),
        cmocka_unit_test(a_share_of_nothing_admits_nothing),
        cmocka_unit_test(outages_that_come_and_go_never_add_up),
        cmocka_unit_test(the_bound_told_covers_what_fallbacks_added),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(keys_that_were_refused_take_nobodys_place),
        cmocka_unit_test(threads_that_take_and_give_back_lose_no_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
