/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits are changed, removed and brought back, concurrency limits or rates, under threads that take, renew and give
 * back permits and forget keys: no permit is lost from the numbers, and no key from the table. Run under TSan too. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "permit_fixture.h"
#include "random.h"

#define THREADS 4
#define LIMITS 3
#define KEYS 12
#define PERMITS 64 /* that one thread holds */
#define LEASE (2 * SECOND)

struct world {
    struct weir_limiter *limiter;
    weir_limit_id ids[LIMITS]; /* atomic; 0: not in the set */
    enum weir_algorithm was[LIMITS];
    uint64_t clock_ns; /* atomic */
    bool over;         /* atomic */
};

struct permit {
    struct weir_key keys[LIMITS];
    size_t count;
    uint64_t number;
};

struct worker {
    struct world *world;
    pthread_t thread;
    struct test_random random;
    struct permit permits[PERMITS];
};

static struct weir_time tick(struct world *world)
{
    return at(__atomic_fetch_add(&world->clock_ns, 20000, __ATOMIC_RELAXED));
}

/* A charge of a limit that is there; an id may be stale by now, which is not what this is about. */
static bool charge_make(struct worker *w, size_t limit, uint64_t number, struct weir_charge *ret)
{
    struct weir_slice value = { &number, sizeof number };
    *ret = (struct weir_charge){ .limit = __atomic_load_n(&w->world->ids[limit], __ATOMIC_ACQUIRE),
                                 .cost = 1 + test_random_below(&w->random, 3) };
    return ret->limit && weir_limiter_key(w->world->limiter, ret->limit, &value, 1, &ret->key) == 0;
}

static void take(struct worker *w, struct permit *permit, const struct weir_time *time)
{
    struct weir_charge charges[LIMITS];
    struct weir_verdict verdicts[LIMITS];
    struct weir_decision decision;
    size_t count = 0;
    uint64_t key = test_random_below(&w->random, KEYS);
    for (size_t i = 0; i < LIMITS; i++)
        count += test_random_below(&w->random, 2) && charge_make(w, i, key, &charges[count]);
    if (count == 0 || weir_limiter_decide(w->world->limiter, charges, count, time, 0, &decision, verdicts) != 0 ||
        !decision.admitted)
        return;
    permit->count = 0;
    for (size_t i = 0; i < count; i++)
        if (verdicts[i].ticket) { /* or that of a bucket: which is no permit, and is given back in vain */
            permit->keys[permit->count++] = charges[i].key;
            permit->number = verdicts[i].ticket;
        }
}

static void *work(void *argument)
{
    struct worker *w = argument;
    struct weir_limiter *limiter = w->world->limiter;
    while (!__atomic_load_n(&w->world->over, __ATOMIC_ACQUIRE)) {
        struct permit *permit = &w->permits[test_random_below(&w->random, PERMITS)];
        struct weir_time time = tick(w->world);
        struct weir_charge charge;
        uint64_t told, what = test_random_below(&w->random, 40);
        bool found;
        if (what < 20) {
            take(w, permit, &time);
        } else if (what < 32) {
            (void)weir_limiter_release(limiter, permit->keys, permit->count, permit->number, &time, &told);
            permit->count = 0;
        } else if (what < 36) {
            assert_int_equal(weir_limiter_renew(limiter, permit->keys, permit->count, permit->number, &time, &told),
                             permit->count ? 0 : WEIR_ERANGE);
        } else if (what < 37 && charge_make(w, test_random_below(&w->random, LIMITS),
                                            test_random_below(&w->random, KEYS), &charge)) {
            (void)weir_limiter_forget(limiter, &charge, &found);
        } else {
            (void)weir_limiter_maintain(limiter, &time, 16);
        }
    }
    return NULL;
}

/* Some of the limits, each a concurrency limit or a rate. What a rate has used is never carried over to permits, for
 * such units were never given: so that what was given can be told from the other numbers. */
static void replace(struct world *world, struct test_random *random, bool permits)
{
    static const char *const names[LIMITS] = { "a", "b", "c" };
    static const enum weir_algorithm algorithms[] = { WEIR_CONCURRENCY, WEIR_CONCURRENCY, WEIR_CONCURRENCY,
                                                      WEIR_TOKEN_BUCKET, WEIR_SLIDING_LOG };
    struct weir_limit_def defs[LIMITS];
    weir_limit_id ids[LIMITS];
    size_t count = 0, places[LIMITS];
    for (size_t i = 0; i < LIMITS; i++) {
        enum weir_algorithm algorithm = permits ? WEIR_CONCURRENCY : algorithms[test_random_below(random, 5)];
        places[i] = LIMITS;
        if (!permits && test_random_below(random, 6) == 0)
            continue;
        struct weir_limit_spec spec = limit_of(algorithm, 5 + test_random_below(random, 30), LEASE, 0);
        if (algorithm != WEIR_CONCURRENCY || world->was[i] != algorithm || test_random_below(random, 3) == 0)
            spec.on_change = WEIR_ON_CHANGE_RESET;
        world->was[i] = algorithm;
        places[i] = count;
        defs[count++] = (struct weir_limit_def){ .name = names[i], .spec = spec };
    }
    struct weir_time time = tick(world);
    assert_int_equal(weir_limiter_define(world->limiter, defs, count, &time, ids, NULL), 0);
    for (size_t i = 0; i < LIMITS; i++)
        __atomic_store_n(&world->ids[i], places[i] < LIMITS ? ids[places[i]] : 0, __ATOMIC_RELEASE);
}

static void assert_numbers(const struct world *world, bool none_out)
{
    for (size_t i = 0; i < LIMITS; i++) {
        struct weir_limit_stats stats;
        assert_int_equal(weir_limiter_limit_stats(world->limiter, world->ids[i], &stats), 0);
        assert_true(stats.permits_given > 0);
        assert_int_equal(stats.permits_given, stats.permits_released + stats.permits_ended + stats.permits_out);
        if (none_out)
            assert_int_equal(stats.permits_out, 0);
    }
}

static void maintain(const struct world *world, struct weir_time time)
{
    while (weir_limiter_maintain(world->limiter, &time, SIZE_MAX))
        ;
}

static uint64_t replacements(void)
{
    return test_effort(150, 500, 20000);
}

static void replaced__under_threads_no_permit_is_lost_from_the_numbers(void **state)
{
    (void)state;
    static struct worker workers[THREADS];
    static const struct timespec pause = { 0, 500000 };
    struct weir_limiter_options options = { .memory_max = (size_t)256 << 10 };
    struct world world = { .clock_ns = T0 };
    struct test_random random = { test_random_seed() };
    assert_int_equal(weir_limiter_create(&options, &world.limiter, NULL), 0);
    replace(&world, &random, true);
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .world = &world, .random = { test_random_u64(&random) } };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned turn = 1; turn <= replacements(); turn++) {
        (void)nanosleep(&pause, NULL);
        replace(&world, &random, turn == replacements());
    }
    __atomic_store_n(&world.over, true, __ATOMIC_RELEASE);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    maintain(&world, tick(&world));
    assert_numbers(&world, false);
    world.clock_ns += LEASE + SECOND + 2 * MINUTE;
    maintain(&world, tick(&world));
    assert_numbers(&world, true);
    weir_limiter_destroy(world.limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaced__under_threads_no_permit_is_lost_from_the_numbers),
    };
    return cmocka_run_group_tests_name("permits replaced", tests, NULL, NULL);
}
