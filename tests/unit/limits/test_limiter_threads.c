/* SPDX-License-Identifier: Apache-2.0
 *
 * 64 threads with `now` frozen admit exactly the limit, whatever they meet on: one key under each algorithm, a thousand
 * keys under several shared limits, a bucket without a definition, batches; while limits are reloaded and the table is
 * walked and grows. Run under TSan too, where fewer tries are enough to meet. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "fixture.h"
#include "random.h"

#define THREADS 64

struct work {
    struct fixture *fixture;
    uint64_t tries;
    uint64_t seed;
    uint64_t admitted;
    bool broken;               /* what must never be seen was */
    struct weir_charge charge; /* one of limit 0, made before other threads change it */
    void (*run)(struct work *work);
    struct work *all;       /* of the run */
    weir_limit_id moved_to; /* atomic: the set that this thread decides by from now on; 0 when it has ended */
};

static void *thread_main(void *argument)
{
    struct work *work = argument;
    work->run(work);
    return NULL;
}

/* cmocka's assertions are for the main thread: the others say `broken`. */
static struct weir_charge quiet_charge(const struct fixture *f, size_t limit, uint64_t number, uint64_t cost)
{
    struct weir_charge charge = { .limit = f->ids[limit], .cost = cost };
    struct weir_slice value = { &number, sizeof(number) };
    if (weir_limiter_key(f->limiter, f->ids[limit], &value, 1, &charge.key) != 0) {
        abort();
    }
    return charge;
}

/* All threads at once; returns what they admitted together. */
static uint64_t run_threads(struct fixture *f, uint64_t tries, void (*run)(struct work *))
{
    pthread_t threads[THREADS];
    static struct work works[THREADS];
    uint64_t admitted = 0;
    struct weir_charge charge = quiet_charge(f, 0, 1, 1);
    for (uint64_t i = 0; i < THREADS; i++) {
        works[i] = (struct work){ f, tries, i * 1000003 + 1, 0, false, charge, run, works, f->ids[0] };
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, thread_main, &works[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(works[i].broken);
        admitted += works[i].admitted;
    }
    return admitted;
}

static void run_one_key(struct work *work)
{
    struct weir_charge charge = quiet_charge(work->fixture, 0, 1, 1);
    struct weir_time time = at(T0);
    for (uint64_t i = 0; i < work->tries; i++) {
        struct weir_decision decision;
        struct weir_verdict verdict;
        int error = weir_limiter_decide(work->fixture->limiter, &charge, 1, &time, 0, &decision, &verdict);
        work->broken |= error != 0 || verdict.remaining > verdict.capacity;
        work->admitted += decision.admitted;
    }
}

static void threads__on_one_key_admit_exactly_the_limit(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct fixture f = one_limit((enum weir_algorithm)algorithm, 3000, HOUR, 0);
        assert_int_equal(run_threads(&f, 100, run_one_key), 3000);
        assert_int_equal(run_threads(&f, 10, run_one_key), 0);
        fixture_destroy(&f);
    }
}

static void run_batches(struct work *work)
{
    struct weir_charge charges[32];
    struct weir_verdict verdicts[32];
    struct weir_time time = at(T0);
    for (uint64_t i = 0; i < 32; i++) {
        charges[i] = quiet_charge(work->fixture, 0, i % 7, 1);
    }
    for (uint64_t i = 0; i < work->tries; i++) {
        work->broken |= weir_limiter_decide_many(work->fixture->limiter, charges, 32, &time, 0, verdicts) != 0;
        for (size_t k = 0; k < 32; k++) {
            work->admitted += verdicts[k].admitted;
        }
    }
}

static void threads__in_batches_admit_exactly_the_limit(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct fixture f = one_limit((enum weir_algorithm)algorithm, 500, HOUR, 0);
        assert_int_equal(run_threads(&f, 10, run_batches), 7 * 500);
        fixture_destroy(&f);
    }
}

static void run_bucket(struct work *work)
{
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 1000, HOUR, 2000);
    struct weir_slice value = { "user123", 7 };
    struct weir_bucket bucket;
    struct weir_key key;
    struct weir_time time = at(T0);
    work->broken |= weir_bucket_init(&bucket, &spec, NULL) != 0 ||
                    weir_limiter_bucket_key(work->fixture->limiter, value, &key) != 0;
    for (uint64_t i = 0; i < work->tries; i++) {
        struct weir_verdict verdict;
        work->broken |= weir_limiter_bucket_decide(work->fixture->limiter, &bucket, &key, 1, &time, 0, &verdict) != 0;
        work->admitted += verdict.admitted;
    }
}

static void threads__on_a_bucket_without_a_definition_admit_exactly_its_burst(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 1, HOUR, 1);
    assert_int_equal(run_threads(&f, 100, run_bucket), 2000);
    fixture_destroy(&f);
}

/* A key of its own and three shared counters of different algorithms, all or nothing. */
static void run_shared(struct work *work)
{
    struct test_random random = { work->seed };
    struct weir_time time = at(T0);
    for (uint64_t i = 0; i < work->tries; i++) {
        struct weir_charge charges[4] = {
            quiet_charge(work->fixture, 0, test_random_below(&random, 1000), 1),
            quiet_charge(work->fixture, 1, 0, 1),
            quiet_charge(work->fixture, 2, 0, 1),
            quiet_charge(work->fixture, 3, test_random_below(&random, 4), 1),
        };
        struct weir_decision decision;
        struct weir_verdict verdicts[4];
        work->broken |= weir_limiter_decide(work->fixture->limiter, charges, 4, &time, 0, &decision, verdicts) != 0;
        /* Both shared counters are charged together only: nobody sees one charged and the other not. */
        work->broken |= verdicts[2].remaining - verdicts[1].remaining != 700;
        work->admitted += decision.admitted;
    }
}

static uint64_t used_of(const struct fixture *f, size_t limit, uint64_t keys)
{
    uint64_t used = 0;
    struct weir_time time = at(T0);
    for (uint64_t i = 0; i < keys; i++) {
        struct weir_charge charge = quiet_charge(f, limit, i, 0);
        struct weir_verdict verdict;
        assert_int_equal(weir_limiter_decide_many(f->limiter, &charge, 1, &time, 0, &verdict), 0);
        used += verdict.capacity - verdict.remaining;
    }
    return used;
}

static void threads__on_a_thousand_keys_under_shared_limits_admit_exactly_the_limit(void **state)
{
    (void)state;
    const struct weir_limit_spec specs[4] = {
        limit_of(WEIR_TOKEN_BUCKET, 6, HOUR, 0),
        limit_of(WEIR_SLIDING_LOG, 3000, HOUR, 0),
        limit_of(WEIR_FIXED_WINDOW, 3700, HOUR, 0),
        limit_of(WEIR_SLIDING_COUNTER, 2000, HOUR, 0),
    };
    struct fixture f = fixture_create(specs, 4);
    assert_int_equal(run_threads(&f, 200, run_shared), 3000);
    assert_int_equal(used_of(&f, 0, 1000), 3000); /* and every part of each was charged exactly as often */
    assert_int_equal(used_of(&f, 1, 1), 3000);
    assert_int_equal(used_of(&f, 2, 1), 3000);
    assert_int_equal(used_of(&f, 3, 4), 3000);
    fixture_destroy(&f);
}

/* Each thread charges and refunds what it charged: in the end nothing is used. */
static void run_refunds(struct work *work)
{
    struct weir_charge charge = quiet_charge(work->fixture, 0, 1, 3);
    struct weir_time time = at(T0);
    for (uint64_t i = 0; i < work->tries; i++) {
        struct weir_verdict verdict;
        uint64_t units = 3;
        work->broken |= weir_limiter_decide_many(work->fixture->limiter, &charge, 1, &time, 0, &verdict) != 0;
        if (verdict.admitted) {
            work->broken |= weir_limiter_refund(work->fixture->limiter, &charge, 3, &time, &units) != 0;
        }
        work->broken |= units != 3;
        work->admitted += verdict.admitted;
    }
}

static void threads__that_refund_what_they_took_leave_nothing_used(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct fixture f = one_limit((enum weir_algorithm)algorithm, 30, HOUR, 0);
        assert_true(run_threads(&f, 50, run_refunds) > 0);
        assert_int_equal(used_of(&f, 0, 2), 0);
        fixture_destroy(&f);
    }
}

/* Thousands of keys come in while the table grows; one thread's worth of each key's tries is admitted. */
static void run_growing(struct work *work)
{
    struct test_random random = { work->seed };
    struct weir_time time = at(T0);
    for (uint64_t i = 0; i < work->tries; i++) {
        struct weir_charge charge = quiet_charge(work->fixture, 0, (i + work->seed) % 3000, 1);
        struct weir_verdict verdict;
        work->broken |= weir_limiter_decide_many(work->fixture->limiter, &charge, 1, &time, 0, &verdict) != 0;
        work->admitted += verdict.admitted;
        if (test_random_below(&random, 50) == 0) {
            weir_limiter_maintain(work->fixture->limiter, &time, 16);
        }
    }
}

/* Of each thread; of 1,000 by all, each key gets twenty at least. */
static uint64_t growing_tries(void)
{
    return test_effort(1000, 3000, 3000);
}

static void threads__while_the_table_grows_admit_exactly_the_limit(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct fixture f = one_limit((enum weir_algorithm)algorithm, 5, HOUR, 0);
        assert_int_equal(run_threads(&f, growing_tries(), run_growing), 3000 * 5);
        assert_int_equal(used_of(&f, 0, 3000), 3000 * 5);
        fixture_destroy(&f);
    }
}

/* As weir_limiter_define asks: nobody decides by the set before this one any more. */
static void wait_for_all(const struct work *all, weir_limit_id id)
{
    for (size_t i = 1; i < THREADS; i++) {
        for (;;) {
            weir_limit_id at_id = __atomic_load_n(&all[i].moved_to, __ATOMIC_ACQUIRE);
            if (at_id == id || at_id == 0) {
                break;
            }
            sched_yield();
        }
    }
}

/* Reloads go on under the deciding threads: the smaller of the two settings is the most that may get through. */
static void reload(const struct work *work)
{
    struct fixture *f = work->fixture;
    for (uint64_t i = 0; i < 200; i++) {
        struct weir_limit_def def = { .name = "0", .spec = limit_of(WEIR_TOKEN_BUCKET, 3000 - i % 2, HOUR, 0) };
        weir_limit_id id;
        struct weir_time time = at(T0);
        wait_for_all(work->all, f->ids[0]);
        if (weir_limiter_define(f->limiter, &def, 1, &time, &id, NULL) != 0) {
            abort();
        }
        __atomic_store_n(&f->ids[0], id, __ATOMIC_RELEASE);
        while (weir_limiter_maintain(f->limiter, &time, 8)) {
        }
    }
}

static void run_reloaded(struct work *work)
{
    struct weir_charge charge = work->charge;
    struct weir_time time = at(T0);
    if (work->seed == 1) { /* the first thread */
        reload(work);
        return;
    }
    for (uint64_t i = 0; i < work->tries; i++) {
        struct weir_verdict verdict;
        charge.limit = __atomic_load_n(&work->fixture->ids[0], __ATOMIC_ACQUIRE);
        __atomic_store_n(&work->moved_to, charge.limit, __ATOMIC_RELEASE);
        work->broken |= weir_limiter_decide_many(work->fixture->limiter, &charge, 1, &time, 0, &verdict) != 0;
        work->admitted += verdict.admitted;
    }
    __atomic_store_n(&work->moved_to, 0, __ATOMIC_RELEASE);
}

static void threads__while_limits_are_reloaded_never_admit_more_than_the_larger(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 3000, HOUR, 0);
    uint64_t admitted = run_threads(&f, 200, run_reloaded);
    assert_true(admitted <= 3000 && admitted >= 2999);
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads__on_one_key_admit_exactly_the_limit),
        cmocka_unit_test(threads__in_batches_admit_exactly_the_limit),
        cmocka_unit_test(threads__on_a_bucket_without_a_definition_admit_exactly_its_burst),
        cmocka_unit_test(threads__on_a_thousand_keys_under_shared_limits_admit_exactly_the_limit),
        cmocka_unit_test(threads__that_refund_what_they_took_leave_nothing_used),
        cmocka_unit_test(threads__while_the_table_grows_admit_exactly_the_limit),
        cmocka_unit_test(threads__while_limits_are_reloaded_never_admit_more_than_the_larger),
    };
    return cmocka_run_group_tests_name("limiter threads", tests, NULL, NULL);
}
