/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots written while threads decide, newcomers arrive, entries move and the table grows: no key is missing that
 * was there when it began, and each has used at least what it had used then and no more than it has at the end. Run
 * under TSan too. */
#include <pthread.h>
#include <sched.h>

#include "limits/memory.h"
#include "snapshot_fixture.h"

#include "random.h"

#define THREADS 4
#define KEYS 6000 /* of each limit, to begin with */
#define LIMITS 4
#define CAPACITY 1000000

struct crowd {
    struct fixture f;
    bool stop;                   /* atomic */
    uint64_t newcomers;          /* atomic: numbers above KEYS that have been asked for */
    uint64_t used[LIMITS][KEYS]; /* atomic: admitted, added before it is asked for */
    uint64_t done[LIMITS][KEYS]; /* atomic: admitted, added after */
    bool broken;
};

static struct crowd crowd;

static void ask_one(size_t limit, uint64_t key, uint64_t cost)
{
    struct weir_charge charge = numbered(&crowd.f, limit, key);
    struct weir_time time = at(T0 + 1);
    charge.cost = cost;
    if (key < KEYS)
        __atomic_fetch_add(&crowd.used[limit][key], cost, __ATOMIC_SEQ_CST);
    if (!weir_limiter_admit(crowd.f.limiter, &charge, &time))
        __atomic_store_n(&crowd.broken, true, __ATOMIC_RELAXED);
    if (key < KEYS)
        __atomic_fetch_add(&crowd.done[limit][key], cost, __ATOMIC_SEQ_CST);
}

static void *crowd_main(void *argument)
{
    struct test_random random = { (uint64_t)(uintptr_t)argument };
    while (!__atomic_load_n(&crowd.stop, __ATOMIC_RELAXED)) {
        for (int i = 0; i < 50; i++) {
            size_t limit = test_random_below(&random, LIMITS);
            if (test_random_below(&random, 4) == 0 && __atomic_load_n(&crowd.newcomers, __ATOMIC_RELAXED) < 3 * KEYS)
                ask_one(0, KEYS + __atomic_fetch_add(&crowd.newcomers, 1, __ATOMIC_RELAXED), 1);
            else
                ask_one(limit, test_random_below(&random, limit == 3 ? 20 : KEYS), 1);
        }
        sched_yield();
    }
    return NULL;
}

static void begin_crowd(pthread_t threads[THREADS], uint64_t seed)
{
    struct weir_limit_spec specs[LIMITS] = {
        limit_of(WEIR_TOKEN_BUCKET, CAPACITY, DAY, 0),
        limit_of(WEIR_FIXED_WINDOW, CAPACITY, DAY, 0),
        limit_of(WEIR_SLIDING_COUNTER, CAPACITY, DAY, 0),
        limit_of(WEIR_SLIDING_LOG, 5000, DAY, 0),
    };
    memset(&crowd, 0, sizeof crowd);
    struct weir_limiter_options options = { .memory_max = (size_t)16 << 20 };
    crowd.f = fixture_create_with(&options, specs, LIMITS);
    for (size_t limit = 0; limit < LIMITS; limit++)
        for (uint64_t key = 0; key < (limit == 3 ? 20 : KEYS); key++)
            ask_one(limit, key, 1);
    for (uint64_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_main, (void *)(uintptr_t)(seed + i)), 0);
}

static uint64_t used_of(const struct fixture *f, size_t limit, uint64_t key)
{
    struct weir_charge charge = numbered(f, limit, key);
    struct weir_verdict verdict;
    struct weir_time time = at(T0 + 1);
    charge.cost = 0;
    assert_int_equal(weir_limiter_decide_many(f->limiter, &charge, 1, &time, WEIR_PEEK, &verdict), 0);
    return verdict.capacity - verdict.remaining;
}

static void each_key_has_used_what_it_had_when_the_writing_began(void **state)
{
    (void)state;
    static uint64_t least[LIMITS][KEYS];
    pthread_t threads[THREADS];
    begin_crowd(threads, test_random_seed());
    for (uint64_t round = 0; round < test_effort(3, 12, 300); round++) {
        struct weir_moment moment = moment_at(T0 + 1);
        struct weir_snapshot_stats stats;
        for (size_t limit = 0; limit < LIMITS; limit++)
            for (uint64_t key = 0; key < KEYS; key++)
                least[limit][key] = __atomic_load_n(&crowd.done[limit][key], __ATOMIC_SEQ_CST);
        (void)save(&crowd.f, &moment);
        struct fixture b = { .limiter = restored((size_t)16 << 20, &moment, &stats) };
        assert_int_equal(stats.lost, 0);
        struct weir_limit_spec specs[LIMITS] = {
            limit_of(WEIR_TOKEN_BUCKET, CAPACITY, DAY, 0),
            limit_of(WEIR_FIXED_WINDOW, CAPACITY, DAY, 0),
            limit_of(WEIR_SLIDING_COUNTER, CAPACITY, DAY, 0),
            limit_of(WEIR_SLIDING_LOG, 5000, DAY, 0),
        };
        fixture_define(&b, specs, LIMITS, T0 + 1);
        for (size_t limit = 0; limit < LIMITS; limit++)
            for (uint64_t key = 0; key < (limit == 3 ? 20 : KEYS); key++) {
                uint64_t used = used_of(&b, limit, key);
                if (limit == 3 && used == 5000)
                    continue;
                assert_in_range(used, least[limit][key], __atomic_load_n(&crowd.used[limit][key], __ATOMIC_SEQ_CST));
            }
        fixture_destroy(&b);
    }
    __atomic_store_n(&crowd.stop, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    struct weir_limiter_stats stats; /* nor does it cost anybody a place */
    weir_limiter_stats(crowd.f.limiter, &stats);
    assert_int_equal(stats.evicted, 0);
    fixture_destroy(&crowd.f);
}

/* Linked with --wrap=write: a disk that takes its time, and what is decided meanwhile. */
ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
static bool
    slow; /* who writes asks for a key of each limit, and replaces the limits: which would not end, were it held */
static unsigned slow_writes;

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    if (slow && size > 4096) {
        for (size_t limit = 0; limit < LIMITS; limit++)
            for (uint64_t key = 0; key < (limit == 3 ? 20 : KEYS); key++)
                ask_one(limit, key, 1);
        struct weir_time time = at(T0 + 1);
        (void)weir_limiter_maintain(crowd.f.limiter, &time, 1);
        assert_int_equal(pthread_mutex_trylock(&crowd.f.limiter->background), 0);
        pthread_mutex_unlock(&crowd.f.limiter->background);
        slow_writes++;
    }
    return __real_write(fd, bytes, size);
}

static void a_slow_disk_holds_nobody_up(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    struct weir_moment moment = moment_at(T0 + 1);
    begin_crowd(threads, test_random_seed());
    __atomic_store_n(&crowd.stop, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    slow = true;
    (void)save(&crowd.f, &moment);
    slow = false;
    assert_true(slow_writes > 5);
    fixture_destroy(&crowd.f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_key_has_used_what_it_had_when_the_writing_began),
        TEST(a_slow_disk_holds_nobody_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
