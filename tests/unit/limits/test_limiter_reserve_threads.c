/* SPDX-License-Identifier: Apache-2.0
 *
 * Reservations by many threads on few keys: at no moment more is charged than the limit allows, and in the end what was
 * settled, to the unit. */
#include <pthread.h>

#include "weir/reserve.h"

#include "fixture.h"
#include "random.h"

#define THREADS 8
#define KEYS 3
#define OPEN_MAX 4
#define CAPACITY 1000000000
#define TTL (3600 * SECOND)

struct worker {
    const struct fixture *f;
    pthread_t thread;
    uint64_t seed, rounds;
    uint64_t settled[KEYS], open[KEYS];
};

static const char *const keys[KEYS] = { "a", "b", "c" };

static struct weir_charge charge_for(const struct fixture *f, size_t limit, size_t key, uint64_t cost)
{
    struct weir_charge charge = { .limit = f->ids[limit], .cost = cost };
    const struct weir_slice value = { keys[key], 1 };
    if (weir_limiter_key(f->limiter, f->ids[limit], &value, 1, &charge.key))
        charge.limit = 0;
    return charge;
}

static void *work(void *context)
{
    struct worker *w = context;
    struct test_random random = { w->seed };
    struct weir_reservation r[OPEN_MAX] = { 0 };
    size_t key_of[OPEN_MAX] = { 0 };
    struct weir_decision decision = { 0 };
    struct weir_verdict verdicts[WEIR_RESERVE_LIMITS_MAX];
    struct weir_settled settled;
    for (uint64_t i = 0; i < w->rounds; i++) {
        const struct weir_time time = at(T0 + i * 1000);
        const size_t n = test_random_below(&random, OPEN_MAX), key = test_random_below(&random, KEYS);
        const uint64_t amount = 1 + test_random_below(&random, 20);
        const struct weir_charge charges[] = { charge_for(w->f, 0, key, amount), charge_for(w->f, 1, key, amount) };
        const struct weir_reserve_options options = { .amount = amount, .ttl_ns = TTL };
        if (r[n].held == 0) {
            if (weir_limiter_reserve(w->f->limiter, charges, 2, 3, &options, &time, &r[n], &decision, verdicts, NULL))
                w->settled[0] += CAPACITY; /* as the sum will show */
            key_of[n] = key;
        } else if (test_random_below(&random, 2)) {
            (void)!weir_limiter_extend(w->f->limiter, &r[n], amount, TTL, &time, &decision, verdicts);
        } else if (weir_limiter_settle(w->f->limiter, &r[n], amount, &time, &settled) == 0) {
            w->settled[key_of[n]] += amount;
        }
    }
    for (size_t n = 0; n < OPEN_MAX; n++)
        w->open[key_of[n]] += r[n].held;
    return NULL;
}

static void threads__what_is_charged_is_what_was_settled_and_is_open(void **state)
{
    (void)state;
    static struct worker workers[THREADS];
    struct weir_limit_spec specs[] = { limit_of(WEIR_FIXED_WINDOW, CAPACITY, 30 * DAY, 0),
                                       limit_of(WEIR_TOKEN_BUCKET, CAPACITY, 3000 * DAY, 0) };
    specs[0].reserves = specs[1].reserves = 1;
    struct fixture f = fixture_create(specs, 2);
    const uint64_t seed = test_random_seed();
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .f = &f, .seed = seed + i, .rounds = test_effort(500, 20000, 1000000) };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (size_t key = 0; key < KEYS; key++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < THREADS; i++)
            sum += workers[i].settled[key] + workers[i].open[key];
        const uint64_t left = ask_at(&f, keys[key], 0, at(T0 + HOUR), WEIR_PEEK).remaining;
        assert_int_equal(CAPACITY - left, sum);
    }
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads__what_is_charged_is_what_was_settled_and_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
