/* SPDX-License-Identifier: Apache-2.0
 *
 * A clock given by the caller that jumps far ahead and comes back (semantics.md, "Time"): what is forgotten at the far
 * time is not had again after the way back; and nobody waits for longer than a key takes to fill. */
#include <pthread.h>

#include "fixture.h"

#define KINDS 7 /* the algorithms, and a bucket that refuses newcomers when the table is full */
#define FAR (45 * HOUR)
#define CAPACITY 10

static struct weir_limit_spec spec_of(int kind)
{
    static const enum weir_algorithm algorithms[KINDS] = { WEIR_TOKEN_BUCKET,    WEIR_LEAKY_BUCKET, WEIR_FIXED_WINDOW,
                                                           WEIR_SLIDING_COUNTER, WEIR_SLIDING_LOG,  WEIR_CONCURRENCY,
                                                           WEIR_TOKEN_BUCKET };
    struct weir_limit_spec spec = limit_of(algorithms[kind], CAPACITY, HOUR, 0);
    if (spec.algorithm == WEIR_FIXED_WINDOW)
        spec.align = WEIR_ALIGN_FIRST;
    if (kind == KINDS - 1)
        spec.on_full = WEIR_ON_FULL_REFUSE;
    return spec;
}

static uint64_t fill_of(int kind)
{
    return spec_of(kind).algorithm == WEIR_SLIDING_COUNTER ? 2 * HOUR : HOUR;
}

static bool is_bucket(int kind)
{
    return kind <= 1 || kind == KINDS - 1;
}

static void maintain(struct fixture *f, uint64_t now_ns)
{
    struct weir_time time = at(now_ns);
    while (weir_limiter_maintain(f->limiter, &time, SIZE_MAX)) {
    }
}

static uint64_t keys_of(const struct fixture *f)
{
    struct weir_limiter_stats stats;
    weir_limiter_stats(f->limiter, &stats);
    return stats.keys;
}

static uint64_t admitted_for(const struct fixture *f, const char *key, uint64_t now_ns)
{
    uint64_t admitted = 0;
    for (int i = 0; i < CAPACITY + 1; i++)
        admitted += ask_at(f, key, 1, at(now_ns), 0).admitted;
    return admitted;
}

/* Far enough that all slots are brought to the new time; and near enough that only the walk forgets. */
static void fall__a_jump_ahead_and_back_mints_nothing(void **state)
{
    (void)state;
    static const uint64_t jumps[] = { 20 * HOUR, FAR, 3000 * DAY };
    for (int kind = 0; kind < KINDS; kind++) {
        for (size_t j = 0; j < sizeof jumps / sizeof jumps[0]; j++) {
            struct weir_limit_spec spec = spec_of(kind);
            struct fixture f = fixture_create(&spec, 1);
            assert_true(ask(&f, CAPACITY, T0).admitted);
            for (int times = 0; times < 3; times++) {
                maintain(&f, T0 + jumps[j] + (uint64_t)times);
                if (times == 0)
                    assert_int_equal(keys_of(&f), 0);
                struct weir_verdict seen = peek(&f, 1, T0 + 1), v = ask(&f, 1, T0 + 1);
                assert_false(v.admitted);
                assert_same_verdict(&seen, &v);
                assert_true(v.retry_after_ns > 0 && v.retry_after_ns <= fill_of(kind) + SECOND);
                assert_true(peek(&f, 0, T0 + 1).admitted);
                assert_int_equal(peek(&f, CAPACITY + 1, T0 + 1).retry_after_ns, WEIR_NEVER);
            }
            struct weir_limiter_stats stats;
            weir_limiter_stats(f.limiter, &stats);
            assert_true(stats.clock_falls >= 1);
            fixture_destroy(&f);
        }
    }
}

/* One who was never there is taken for one who was forgotten, for as long as that one would need to be fresh. */
static void fall__after_one_fill_time_everything_is_as_before(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct weir_limit_spec spec = spec_of(kind);
        struct fixture f = fixture_create(&spec, 1);
        ask(&f, CAPACITY, T0);
        maintain(&f, T0 + FAR);
        maintain(&f, T0);
        struct weir_verdict v = ask_at(&f, "new", 1, at(T0), 0);
        assert_false(v.admitted);
        if (!is_bucket(kind)) /* the previous window counts as long as the current one */
            assert_in_range(v.retry_after_ns, fill_of(kind) - SECOND, fill_of(kind) + SECOND);
        uint64_t half = T0 + HOUR / 2;
        if (is_bucket(kind)) /* a bucket fills meanwhile */
            assert_int_equal(ask_at(&f, "half", CAPACITY, at(half), WEIR_PEEK).remaining, CAPACITY / 2);
        assert_true(ask_at(&f, "new", 1, at(T0 + v.retry_after_ns), WEIR_PEEK).admitted);
        assert_false(ask_at(&f, "new", 1, at(T0 + v.retry_after_ns - 1), WEIR_PEEK).admitted);
        assert_int_equal(admitted_for(&f, "new", T0 + fill_of(kind)), CAPACITY);
        assert_int_equal(admitted_for(&f, "k", T0 + fill_of(kind)), CAPACITY);
        assert_int_equal(admitted_for(&f, "late", T0 + fill_of(kind)), CAPACITY);
        fixture_destroy(&f);
    }
}

static void fall__a_jump_that_stays_changes_nothing(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct weir_limit_spec spec = spec_of(kind);
        struct fixture f = fixture_create(&spec, 1);
        ask(&f, CAPACITY, T0);
        for (uint64_t now = T0 + FAR; now < T0 + 4 * FAR; now += FAR) {
            maintain(&f, now);
            assert_int_equal(admitted_for(&f, "k", now), CAPACITY);
            assert_int_equal(admitted_for(&f, "new", now + 1), CAPACITY);
        }
        fixture_destroy(&f);
    }
}

/* A clock stale by skew_max finds a newcomer fresh; by more, it is judged more strictly by that much at most. */
static void fall__a_newcomer_is_judged_at_most_by_its_staleness_more_strictly(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        struct weir_limit_spec spec = spec_of(kind);
        struct fixture f = fixture_create(&spec, 1);
        uint64_t now = T0 + 20 * HOUR;
        ask(&f, CAPACITY, T0);
        maintain(&f, now);
        assert_int_equal(keys_of(&f), 0);
        assert_int_equal(admitted_for(&f, "a", now - SECOND), CAPACITY);
        struct weir_verdict v = ask_at(&f, "b", CAPACITY, at(now - SECOND - 10 * MS), 0);
        assert_false(v.admitted);
        assert_in_range(v.retry_after_ns, 9 * MS, 10 * MS);
        assert_int_equal(ask_at(&f, "b", 1, at(now - SECOND - 10 * MS), 0).admitted, is_bucket(kind));
        assert_int_equal(admitted_for(&f, "c", now - SECOND), CAPACITY);
        fixture_destroy(&f);
    }
}

/* No walk, but newcomers at the far time who take the places of the dead. */
static void fall__places_taken_at_the_far_time_mint_nothing(void **state)
{
    (void)state;
    struct weir_limiter_options options = { .memory_max = WEIR_MEMORY_MIN };
    struct weir_limit_spec spec = spec_of(0);
    struct fixture f = fixture_create_with(&options, &spec, 1);
    char key[16];
    assert_true(ask(&f, CAPACITY, T0).admitted);
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "%d", i);
        ask_at(&f, key, 1, at(T0 + 5 * HOUR), 0);
    }
    assert_false(ask(&f, 1, T0 + 1).admitted);
    fixture_destroy(&f);
}

static void fall__buckets_without_a_definition_too(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, CAPACITY, HOUR, 0);
    struct fixture f = fixture_create(&spec, 1);
    struct weir_bucket bucket;
    struct weir_key key;
    struct weir_verdict v;
    assert_int_equal(weir_bucket_init(&bucket, &spec, NULL), 0);
    assert_int_equal(weir_limiter_bucket_key(f.limiter, (struct weir_slice){ "k", 1 }, &key), 0);
    struct weir_time then = at(T0), back = at(T0 + 1), filled = at(T0 + HOUR + 1);
    assert_int_equal(weir_limiter_bucket_decide(f.limiter, &bucket, &key, CAPACITY, &then, 0, &v), 0);
    assert_true(v.admitted);
    maintain(&f, T0 + FAR);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weir_limiter_bucket_decide(f.limiter, &bucket, &key, 1, &back, i == 1, &v), 0);
        assert_false(v.admitted);
    }
    assert_int_equal(weir_limiter_bucket_decide(f.limiter, &bucket, &key, CAPACITY, &filled, 0, &v), 0);
    assert_true(v.admitted);
    fixture_destroy(&f);
}

/* Engine time jumps, wall time does not. */
static void fall__a_window_on_the_calendar_is_not_opened_twice(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_FIXED_WINDOW, CAPACITY, HOUR, 0);
    struct fixture f = fixture_create(&spec, 1);
    struct weir_time then = { T0, 1000 * HOUR }, far = { T0 + FAR, 1000 * HOUR + 1 },
                     back = { T0 + 1, 1000 * HOUR + 2 };
    struct weir_time next = { T0 + HOUR + 1, 1001 * HOUR };
    assert_true(ask_at(&f, "k", CAPACITY, then, 0).admitted);
    while (weir_limiter_maintain(f.limiter, &far, SIZE_MAX)) {
    }
    struct weir_verdict v = ask_at(&f, "k", 1, back, 0);
    assert_false(v.admitted);
    assert_true(v.retry_after_ns <= HOUR);
    assert_true(ask_at(&f, "k", CAPACITY, next, 0).admitted);
    fixture_destroy(&f);
}

/* All limits of a request at once: the one that was not forgotten is not charged for the one that was. */
static void fall__a_request_under_several_limits_is_refused_whole(void **state)
{
    (void)state;
    struct weir_limit_spec specs[KINDS];
    struct weir_verdict verdicts[FIXTURE_LIMITS_MAX];
    for (int kind = 0; kind < KINDS; kind++)
        specs[kind] = spec_of(kind);
    specs[0].period_ns = 200 * DAY;
    struct fixture f = fixture_create(specs, KINDS);
    assert_true(ask_all(&f, "k", 2, T0, 0, verdicts).admitted);
    maintain(&f, T0 + FAR);
    for (int i = 0; i < 3; i++) {
        struct weir_decision d = ask_all(&f, "k", 1, T0 + 1, 0, verdicts);
        assert_false(d.admitted);
        assert_int_equal(verdicts[0].remaining, CAPACITY - 2);
        assert_true(d.retry_after_ns <= 2 * HOUR + SECOND);
    }
    fixture_destroy(&f);
}

/* One clock that does not go back: no newcomer is taken for another. */
static void fall__one_clock_is_not_watched(void **state)
{
    (void)state;
    struct weir_limiter_options options = { .memory_max = (size_t)1 << 20, .skew_none = true };
    struct weir_limit_spec spec = spec_of(2);
    struct fixture f = fixture_create_with(&options, &spec, 1);
    ask(&f, CAPACITY, T0);
    maintain(&f, T0 + FAR);
    assert_true(ask_at(&f, "new", 1, at(T0 + FAR - 1), 0).admitted);
    fixture_destroy(&f);
}

/* ---- threads that meet the jump each at their own time ---- */

#define THREADS 4
#define KEYS 200
#define ROUNDS 20000

struct crowd {
    struct fixture f;
    uint64_t now_ns;          /* atomic */
    uint64_t admitted, after; /* atomic: at T0, and after the way back */
};

static void *decide_at_random(void *context)
{
    struct crowd *crowd = context;
    uint64_t random = (uint64_t)(uintptr_t)&random;
    char key[16];
    for (int i = 0; i < ROUNDS; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        unsigned k = (unsigned)(random >> 40) % KEYS;
        snprintf(key, sizeof key, "%u", k);
        struct weir_time time = at(__atomic_load_n(&crowd->now_ns, __ATOMIC_RELAXED));
        if (i % 64 == 0)
            weir_limiter_maintain(crowd->f.limiter, &time, SIZE_MAX);
        if (ask_at(&crowd->f, key, 1, time, 0).admitted && time.now_ns <= T0 + 1)
            __atomic_fetch_add(time.now_ns == T0 ? &crowd->admitted : &crowd->after, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* All is used up before the jump; nothing is admitted after the way back, while others are still at the far time. */
static void fall__threads_that_see_it_at_different_times_mint_nothing(void **state)
{
    (void)state;
    static const uint64_t times[] = { T0, T0 + 20 * HOUR, T0 + 1 };
    for (int kind = 0; kind < KINDS; kind++) {
        struct weir_limit_spec spec = spec_of(kind);
        if (spec.algorithm == WEIR_CONCURRENCY) /* a permit that ended at the far time has ended */
            continue;
        struct crowd crowd = { .f = fixture_create(&spec, 1) };
        for (size_t t = 0; t < sizeof times / sizeof times[0]; t++) {
            pthread_t threads[THREADS];
            __atomic_store_n(&crowd.now_ns, times[t], __ATOMIC_RELAXED);
            for (int i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, decide_at_random, &crowd), 0);
            if (t == 1) /* somewhere on the way */
                __atomic_store_n(&crowd.now_ns, times[2], __ATOMIC_RELAXED);
            for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        }
        assert_int_equal(crowd.admitted, KEYS * CAPACITY);
        assert_int_equal(crowd.after, 0);
        fixture_destroy(&crowd.f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fall__a_jump_ahead_and_back_mints_nothing),
        cmocka_unit_test(fall__after_one_fill_time_everything_is_as_before),
        cmocka_unit_test(fall__a_jump_that_stays_changes_nothing),
        cmocka_unit_test(fall__a_newcomer_is_judged_at_most_by_its_staleness_more_strictly),
        cmocka_unit_test(fall__places_taken_at_the_far_time_mint_nothing),
        cmocka_unit_test(fall__buckets_without_a_definition_too),
        cmocka_unit_test(fall__a_window_on_the_calendar_is_not_opened_twice),
        cmocka_unit_test(fall__a_request_under_several_limits_is_refused_whole),
        cmocka_unit_test(fall__one_clock_is_not_watched),
        cmocka_unit_test(fall__threads_that_see_it_at_different_times_mint_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
