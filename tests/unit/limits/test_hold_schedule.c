/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule of a leaky bucket whose answers are held: what may wait for how long is judged by the decision itself.
 * Against a model that is a list of turns; and by many threads at once, where what was refused must have charged
 * nothing, whatever came in between. */
#include <inttypes.h>
#include <pthread.h>

#include "core/limit/limit.h"
#include "fixture.h"
#include "random.h"

/* limit 0: leaky, 100/s, burst 10,000: 10 ms apart, up to 100 s of queue. limit 1: a quota beside it. */
static struct fixture shaped(enum weir_count count_mode)
{
    struct weir_limit_spec specs[2] = {
        { .algorithm = WEIR_LEAKY_BUCKET, .count = 100, .period_ns = SECOND, .burst = 10000 },
        { .algorithm = WEIR_TOKEN_BUCKET, .count = 100000, .period_ns = DAY, .count_mode = count_mode },
    };
    return fixture_create(specs, 2);
}

static struct weir_decision ask_patient(const struct fixture *f, uint64_t cost, uint64_t delay_max_ns, uint64_t now_ns,
                                        unsigned flags, struct weir_verdict verdicts[2])
{
    struct weir_charge charges[2] = { charge_of(f, 0, "k", cost), charge_of(f, 1, "k", cost) };
    struct weir_decision decision;
    struct weir_time time = at(now_ns);
    charges[0].delay_max_ns = delay_max_ns;
    assert_int_equal(weir_limiter_decide(f->limiter, charges, 2, &time, flags, &decision, verdicts), 0);
    return decision;
}

static void hold__what_may_not_wait_is_refused_by_the_decision_and_charges_nothing(void **state)
{
    (void)state;
    struct fixture f = shaped(WEIR_COUNT_ADMITTED);
    struct weir_verdict v[2];
    for (uint64_t i = 0; i <= 5; i++) { /* 0, 10, ... 50 ms */
        assert_true(ask_patient(&f, 1, 50 * MS, T0, 0, v).admitted);
        assert_int_equal(v[0].delay_ns, i * 10 * MS);
    }
    for (int i = 0; i < 1000; i++) {
        struct weir_decision decision = ask_patient(&f, 1, 50 * MS, T0, 0, v);
        assert_true(!decision.admitted && !v[0].admitted && v[0].late && v[1].admitted);
        assert_true(decision.deciding == 0 && decision.delay_ns == 0 && v[0].delay_ns == 0);
        assert_int_equal(decision.retry_after_ns, 10 * MS);
    }
    assert_int_equal(v[0].remaining, 10000 - 6);
    assert_int_equal(v[1].remaining, 100000 - 6);
    assert_int_equal(peek(&f, 1, T0).delay_ns, 60 * MS); /* who may wait for any time can */
    fixture_destroy(&f);
}

/* Some callers go by what it returns, others by the verdict. */
static void hold__what_judge_returns_is_the_verdict(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = {
        .algorithm = WEIR_LEAKY_BUCKET, .count = 100, .period_ns = SECOND, .burst = 9
    };
    struct weir_limit limit;
    struct weir_state bucket = { 0 };
    struct weir_verdict verdict;
    assert_int_equal(weir_limit_init(&limit, &spec, 0, NULL), 0);
    for (uint64_t i = 0; i <= 5; i++) {
        const struct weir_event event = { .now_ns = T0, .cost = 1, .delay_max_ns = 30 * MS };
        const bool admitted = weir_limit_judge(&limit, &bucket, &event, &verdict);
        assert_int_equal(admitted, i <= 3);
        assert_int_equal(verdict.admitted, admitted);
        if (admitted)
            weir_limit_charge(&limit, &bucket, &event, &verdict);
    }
}

static void hold__its_retry_after_is_the_smallest_wait(void **state)
{
    (void)state;
    struct weir_verdict v[2];
    const uint64_t longest[] = { 1, 7, 10 * MS, 33 * MS + 1, WEIR_DELAY_NONE };
    for (size_t i = 0; i < 5; i++) {
        struct fixture f = shaped(WEIR_COUNT_ADMITTED);
        assert_true(ask_patient(&f, 77, 0, T0, 0, v).admitted);
        struct weir_decision refused = ask_patient(&f, 1, longest[i], T0 + 3, 0, v);
        assert_true(!refused.admitted && refused.retry_after_ns > 0);
        uint64_t then_ns = T0 + 3 + refused.retry_after_ns;
        assert_false(ask_patient(&f, 1, longest[i], then_ns - 1, WEIR_PEEK, v).admitted);
        assert_true(ask_patient(&f, 1, longest[i], then_ns, WEIR_PEEK, v).admitted);
        assert_true(ask_patient(&f, 1, longest[i], then_ns, 0, v).admitted);
        assert_int_equal(v[0].delay_ns, longest[i] == WEIR_DELAY_NONE ? 0 : longest[i]);
        fixture_destroy(&f);
    }
}

static void hold__in_ticks_of_more_than_a_nanosecond_too(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_LEAKY_BUCKET, 1, 3600 * HOUR, 20);
    struct weir_charge charge = charge_of(&f, 0, "k", 1);
    struct weir_decision decision;
    struct weir_verdict v;
    struct weir_time time = at(T0 + 1);
    charge.delay_max_ns = 3600 * HOUR + 1000; /* a unit takes whole ticks */
    for (int i = 0; i < 2; i++)
        assert_int_equal(weir_limiter_decide(f.limiter, &charge, 1, &time, 0, &decision, &v), 0);
    assert_true(decision.admitted && decision.delay_ns > 3599 * HOUR);
    assert_int_equal(weir_limiter_decide(f.limiter, &charge, 1, &time, 0, &decision, &v), 0);
    assert_true(!decision.admitted && v.late);
    time = at(T0 + 1 + decision.retry_after_ns - 1);
    assert_int_equal(weir_limiter_decide(f.limiter, &charge, 1, &time, WEIR_PEEK, &decision, &v), 0);
    assert_false(decision.admitted);
    time = at(time.now_ns + 1);
    assert_int_equal(weir_limiter_decide(f.limiter, &charge, 1, &time, WEIR_PEEK, &decision, &v), 0);
    assert_true(decision.admitted);
    fixture_destroy(&f);
}

static void hold__attempts_are_charged_by_what_a_hold_refuses(void **state)
{
    (void)state;
    struct fixture f = shaped(WEIR_COUNT_ATTEMPTS);
    struct weir_verdict v[2];
    assert_true(ask_patient(&f, 1, 50 * MS, T0, 0, v).admitted);
    assert_true(ask_patient(&f, 10, 50 * MS, T0, 0, v).admitted);
    for (uint64_t i = 1; i <= 5; i++) {
        assert_false(ask_patient(&f, 1, 50 * MS, T0, 0, v).admitted);
        assert_int_equal(v[1].remaining, 100000 - 11 - i);
        assert_int_equal(v[0].remaining, 10000 - 11);
    }
    fixture_destroy(&f);
}

/* A refused attempt lengthens the queue that it may not wait in, and is told so. */
static void hold__attempts_on_the_queue_itself_are_told_the_wait_after_their_own_charge(void **state)
{
    (void)state;
    struct weir_limit_spec spec = { .algorithm = WEIR_LEAKY_BUCKET,
                                    .count = 100,
                                    .period_ns = SECOND,
                                    .burst = 10000,
                                    .count_mode = WEIR_COUNT_ATTEMPTS };
    struct fixture f = fixture_create(&spec, 1);
    struct weir_charge charge = charge_of(&f, 0, "k", 10);
    struct weir_decision decision;
    struct weir_verdict v;
    struct weir_time time = at(T0);
    charge.delay_max_ns = 50 * MS;
    assert_int_equal(weir_limiter_decide(f.limiter, &charge, 1, &time, 0, &decision, &v), 0);
    assert_true(decision.admitted);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(weir_limiter_decide(f.limiter, &charge, 1, &time, 0, &decision, &v), 0);
        assert_true(!decision.admitted && v.late);
        assert_int_equal(v.remaining, 10000 - 10 * (i + 1));
        assert_int_equal(decision.retry_after_ns, (i + 1) * 100 * MS - 50 * MS);
    }
    time = at(T0 + decision.retry_after_ns - 1);
    assert_int_equal(weir_limiter_decide(f.limiter, &charge, 1, &time, WEIR_PEEK, &decision, &v), 0);
    assert_false(decision.admitted);
    time = at(time.now_ns + 1);
    assert_int_equal(weir_limiter_decide(f.limiter, &charge, 1, &time, WEIR_PEEK, &decision, &v), 0);
    assert_true(decision.admitted);
    fixture_destroy(&f);
}

static void hold__cost_0_and_what_goes_at_once_know_no_delay(void **state)
{
    (void)state;
    struct fixture f = shaped(WEIR_COUNT_ADMITTED);
    struct weir_verdict v[2];
    assert_true(ask_patient(&f, 100, WEIR_DELAY_NONE, T0, 0, v).admitted);
    assert_true(ask_patient(&f, 0, WEIR_DELAY_NONE, T0, 0, v).admitted);
    assert_false(ask_patient(&f, 1, WEIR_DELAY_NONE, T0 + SECOND - 1, 0, v).admitted);
    assert_true(ask_patient(&f, 1, WEIR_DELAY_NONE, T0 + SECOND, 0, v).admitted);
    assert_int_equal(ask_patient(&f, 10001, 1, T0 + SECOND, 0, v).retry_after_ns, WEIR_NEVER);
    assert_false(v[0].late);
    fixture_destroy(&f);
}

/* ---- a model ---- */

struct turn {
    uint64_t due_ns, cost, ticket;
};

/* The queue as a list: each turn begins when the one before has had its time. */
static void hold__turns_are_those_of_a_list(void **state)
{
    (void)state;
    static struct turn turns[200000];
    struct test_random random = { test_random_seed() };
    struct fixture f = shaped(WEIR_COUNT_ADMITTED);
    uint64_t now_ns = T0, count = 0, free_ns = T0, left = 0, late = 0;
    for (int i = 0; i < 100000; i++) {
        uint64_t cost = 1 + test_random_below(&random, 3), most_ns = 1 + test_random_below(&random, 200) * MS;
        struct weir_verdict v[2];
        now_ns += test_random_below(&random, 30 * MS);
        if (count > 0 && test_random_below(&random, 4) == 0) { /* the last one leaves, if its turn is still to come */
            struct weir_charge charge = charge_of(&f, 0, "k", turns[count - 1].cost);
            struct weir_time time = at(now_ns);
            uint64_t newest = 0;
            assert_int_equal(weir_limiter_refund_last(f.limiter, &charge, turns[count - 1].ticket, &time, &newest), 0);
            assert_true(newest != 0);
            if (turns[count - 1].due_ns >= now_ns)
                free_ns = turns[count - 1].due_ns;
            else
                free_ns = free_ns > now_ns ? now_ns : free_ns;
            count--;
            left++;
            /* what came before it is the newest only while its own time has not passed */
            if (count > 0 && turns[count - 1].ticket != newest)
                count = 0;
            continue;
        }
        uint64_t due_ns = free_ns > now_ns ? free_ns : now_ns;
        struct weir_charge charge = charge_of(&f, 0, "k", cost);
        struct weir_decision decision;
        struct weir_time time = at(now_ns);
        charge.delay_max_ns = most_ns;
        assert_int_equal(weir_limiter_decide(f.limiter, &charge, 1, &time, 0, &decision, v), 0);
        assert_int_equal(decision.admitted, due_ns - now_ns <= most_ns);
        late += !decision.admitted;
        if (!decision.admitted)
            continue;
        assert_int_equal(now_ns + decision.delay_ns, due_ns);
        free_ns = due_ns + cost * 10 * MS;
        turns[count++] = (struct turn){ due_ns, cost, v[0].ticket };
    }
    assert_true(late > 1000 && left > 1000);
    fixture_destroy(&f);
}

/* ---- many threads ---- */

#define THREADS 8
#define TRIES 20000

struct crowd {
    struct fixture *f;
    uint64_t now_ns; /* atomic: their clock */
    uint64_t admitted;
    uint64_t dues[THREADS * TRIES]; /* by turn, from T0: who has it; atomic */
    bool broken;
};

static void *run_crowd(void *argument)
{
    struct crowd *crowd = argument;
    struct weir_charge charges[2] = { 0 };
    for (size_t i = 0; i < 2; i++) {
        struct weir_slice value = { "k", 1 };
        charges[i] = (struct weir_charge){ .limit = crowd->f->ids[i], .cost = 1 };
        if (weir_limiter_key(crowd->f->limiter, crowd->f->ids[i], &value, 1, &charges[i].key))
            __atomic_store_n(&crowd->broken, true, __ATOMIC_RELAXED);
    }
    charges[0].delay_max_ns = 50 * MS;
    for (int i = 0; i < TRIES; i++) {
        struct weir_decision decision;
        struct weir_verdict v[2];
        struct weir_time time = at(__atomic_add_fetch(&crowd->now_ns, 10000, __ATOMIC_RELAXED));
        bool broken = weir_limiter_decide(crowd->f->limiter, charges, 2, &time, 0, &decision, v) != 0 ||
                      decision.delay_ns > 50 * MS;
        uint64_t turn = (time.now_ns + decision.delay_ns - T0) / (10 * MS);
        if (decision.admitted &&
            (turn >= THREADS * TRIES || __atomic_exchange_n(&crowd->dues[turn], 1, __ATOMIC_RELAXED)))
            broken = true; /* two of them have one turn */
        __atomic_add_fetch(&crowd->admitted, decision.admitted, __ATOMIC_RELAXED);
        if (broken)
            __atomic_store_n(&crowd->broken, true, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void hold__threads_that_are_refused_lose_nothing_to_each_other(void **state)
{
    (void)state;
    static struct crowd crowd;
    struct fixture f = shaped(WEIR_COUNT_ADMITTED);
    struct weir_verdict v[2];
    pthread_t threads[THREADS];
    crowd = (struct crowd){ .f = &f, .now_ns = T0 };
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_crowd, &crowd), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_false(crowd.broken);
    /* 1.6 s of time went by: one every 10 ms and five more that wait; a thread put aside with an old time asks for
     * longer than it may wait, and is refused. */
    uint64_t passed_ns = (uint64_t)THREADS * TRIES * 10000;
    assert_true(crowd.admitted <= passed_ns / (10 * MS) + 6);
    assert_true(crowd.admitted >= passed_ns / (10 * MS) - 6);
    /* The quota has lost what was admitted and nothing else, but for what it was given back since. */
    (void)ask_patient(&f, 0, 0, crowd.now_ns, WEIR_PEEK, v);
    assert_in_range(100000 - v[1].remaining, crowd.admitted - 3, crowd.admitted);
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hold__what_may_not_wait_is_refused_by_the_decision_and_charges_nothing),
        cmocka_unit_test(hold__what_judge_returns_is_the_verdict),
        cmocka_unit_test(hold__its_retry_after_is_the_smallest_wait),
        cmocka_unit_test(hold__in_ticks_of_more_than_a_nanosecond_too),
        cmocka_unit_test(hold__attempts_are_charged_by_what_a_hold_refuses),
        cmocka_unit_test(hold__attempts_on_the_queue_itself_are_told_the_wait_after_their_own_charge),
        cmocka_unit_test(hold__cost_0_and_what_goes_at_once_know_no_delay),
        cmocka_unit_test(hold__turns_are_those_of_a_list),
        cmocka_unit_test(hold__threads_that_are_refused_lose_nothing_to_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
