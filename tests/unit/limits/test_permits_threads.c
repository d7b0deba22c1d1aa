/* SPDX-License-Identifier: Apache-2.0
 *
 * Permits taken, renewed and given back by threads at once (docs/semantics-tests.md). */
#include <pthread.h>
#include <stdatomic.h>

#include "permit_fixture.h"
#include "random.h"

#define LEASE (30 * SECOND)
#define THREADS 4

struct work {
    struct fixture *fixture;
    uint64_t seed;
    _Atomic uint64_t *inside; /* units out, as their holders count them */
    uint64_t most;
    uint64_t admitted;
    bool broken;
};

static void *hold_and_release(void *context)
{
    struct work *work = context;
    struct weir_limiter *limiter = work->fixture->limiter;
    struct test_random random = { work->seed };
    struct weir_time time = at(T0);
    for (uint64_t i = 0; i < 20000; i++) {
        struct weir_charge charges[2] = { numbered(work->fixture, 0, 1), numbered(work->fixture, 1, i % 3) };
        uint64_t units = 0, lease_ns = 0, cost = 1 + test_random_below(&random, 3);
        struct weir_decision decision;
        struct weir_verdict verdicts[2];
        charges[0].cost = charges[1].cost = cost;
        work->broken |= weir_limiter_decide(limiter, charges, 2, &time, 0, &decision, verdicts) != 0;
        if (!decision.admitted)
            continue;
        uint64_t inside = atomic_fetch_add(work->inside, cost) + cost;
        work->most = inside > work->most ? inside : work->most;
        work->admitted++;
        const struct weir_key keys[2] = { charges[0].key, charges[1].key };
        work->broken |= verdicts[0].ticket == 0 || verdicts[0].ticket != verdicts[1].ticket;
        work->broken |= weir_limiter_renew(limiter, keys, 2, verdicts[0].ticket, &time, &lease_ns) || !lease_ns;
        atomic_fetch_sub(work->inside, cost);
        work->broken |= weir_limiter_release(limiter, keys, 2, verdicts[0].ticket, &time, &units) || units != 2 * cost;
    }
    return NULL;
}

static void threads__never_hold_more_than_the_limit_together(void **state)
{
    (void)state;
    const struct weir_limit_spec specs[] = { limit_of(WEIR_CONCURRENCY, 5, LEASE, 0),
                                             limit_of(WEIR_CONCURRENCY, 4, LEASE, 0) };
    struct fixture f = fixture_create(specs, 2);
    struct work works[THREADS];
    pthread_t threads[THREADS];
    _Atomic uint64_t inside = 0;
    uint64_t seed = test_random_seed(), admitted = 0;
    for (uint64_t i = 0; i < THREADS; i++) {
        works[i] = (struct work){ .fixture = &f, .seed = seed + i, .inside = &inside };
        assert_int_equal(pthread_create(&threads[i], NULL, hold_and_release, &works[i]), 0);
    }
    for (int i = 0; i < 20; i++) { /* reloads meanwhile; nobody's id may be two sets old */
        struct weir_time time = at(T0);
        (void)weir_limiter_maintain(f.limiter, &time, 64);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(works[i].broken);
        assert_true(works[i].most <= 5);
        admitted += works[i].admitted;
    }
    assert_true(admitted > 1000);
    struct weir_charge charge = numbered(&f, 0, 1);
    struct weir_verdict verdict;
    struct weir_time time = at(T0);
    assert_int_equal(weir_limiter_decide_many(f.limiter, &charge, 1, &time, WEIR_PEEK, &verdict), 0);
    assert_int_equal(verdict.remaining, 5);
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads__never_hold_more_than_the_limit_together),
    };
    return cmocka_run_group_tests_name("permits between threads", tests, NULL, NULL);
}
