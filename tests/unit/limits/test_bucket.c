/* SPDX-License-Identifier: Apache-2.0
 *
 * Token buckets without a definition, against limits that have one: the same numbers, so the same verdicts. */
#include <stdlib.h>

#include "permit_fixture.h"
#include "random.h"

#define BATCH 70 /* more than are prefetched at once */

/* Ticks of much less than a ns, of one, and of many. */
static const struct weir_limit_spec *shapes(size_t *ret_count)
{
    static struct weir_limit_spec specs[4];
    specs[0] = limit_of(WEIR_TOKEN_BUCKET, 1000000, SECOND, 30);
    specs[1] = limit_of(WEIR_TOKEN_BUCKET, 7, 3 * SECOND, 20);
    specs[2] = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 5);
    specs[3] = limit_of(WEIR_TOKEN_BUCKET, 3, 365 * DAY, 9);
    *ret_count = 4;
    return specs;
}

static struct weir_key raw_key(const struct fixture *f, uint64_t number)
{
    struct weir_key key;
    assert_int_equal(weir_limiter_bucket_key(f->limiter, (struct weir_slice){ &number, sizeof number }, &key), 0);
    return key;
}

static struct weir_bucket raw_bucket(const struct weir_limit_spec *spec)
{
    struct weir_bucket bucket;
    assert_int_equal(weir_bucket_init(&bucket, spec, NULL), 0);
    return bucket;
}

static struct weir_verdict ask_raw(const struct fixture *f, const struct weir_limit_spec *spec, uint64_t number,
                                   uint64_t cost, uint64_t now_ns, unsigned flags)
{
    const struct weir_bucket bucket = raw_bucket(spec);
    const struct weir_key key = raw_key(f, number);
    const struct weir_time time = at(now_ns);
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_bucket_decide(f->limiter, &bucket, &key, cost, &time, flags, &verdict), 0);
    return verdict;
}

static void it_says_what_a_limit_of_its_numbers_says(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    size_t count;
    const struct weir_limit_spec *specs = shapes(&count);
    struct fixture f = fixture_create(specs, count);
    uint64_t now_ns = T0;
    for (uint64_t round = 0; round < test_effort(300, 3000, 30000); round++) {
        const size_t n = round % 3 ? 1 + test_random_below(&random, 3) : test_random_below(&random, BATCH + 1);
        const unsigned flags = test_random_below(&random, 4) ? 0 : WEIR_PEEK;
        struct weir_bucket buckets[BATCH];
        struct weir_key keys[BATCH];
        struct weir_charge charges[BATCH];
        struct weir_verdict raw[BATCH], defined[BATCH];
        uint64_t costs[BATCH];
        now_ns += test_random_below(&random, UINT64_C(1) << test_random_below(&random, 34));
        for (size_t i = 0; i < n; i++) {
            const size_t limit = test_random_below(&random, count), number = 4 * test_random_below(&random, 5) + limit;
            buckets[i] = raw_bucket(&specs[limit]);
            keys[i] = raw_key(&f, number);
            charges[i] = numbered(&f, limit, number);
            charges[i].cost = costs[i] = test_random_below(&random, 4) ? test_random_below(&random, 3)
                                                                       : test_random_below(&random, 33);
        }
        const struct weir_time time = at(now_ns);
        assert_int_equal(weir_limiter_bucket_decide_many(f.limiter, buckets, keys, costs, n, &time, flags, raw), 0);
        assert_int_equal(weir_limiter_decide_many(f.limiter, charges, n, &time, flags, defined), 0);
        for (size_t i = 0; i < n; i++) {
            assert_same_verdict(&raw[i], &defined[i]);
            assert_int_equal(raw[i].ticket, defined[i].ticket);
        }
    }
    fixture_destroy(&f);
}

/* Other numbers: what is kept is when it is full. */
static void it_is_full_when_it_was_to_be_by_whatever_ticks(void **state)
{
    (void)state;
    size_t count;
    const struct weir_limit_spec *specs = shapes(&count);
    for (size_t i = 0; i < count * count; i++) {
        const struct weir_limit_spec *from = &specs[i / count], *to = &specs[i % count];
        struct fixture f = fixture_create(specs, count);
        const uint64_t used = from->burst - 1;
        const uint64_t full_ns = ask_raw(&f, from, 1, used, T0, 0).reset_after_ns;
        const struct weir_verdict seen = ask_raw(&f, to, 1, 0, T0 + full_ns / 3, WEIR_PEEK);
        assert_in_range(seen.reset_after_ns, full_ns - full_ns / 3 - 1, full_ns - full_ns / 3 + 64);
        assert_int_equal(seen.capacity, to->burst);
        assert_int_equal(ask_raw(&f, to, 1, 1, T0 + full_ns / 3, 0).remaining, seen.remaining ? seen.remaining - 1 : 0);
        fixture_destroy(&f);
    }
}

static void what_is_out_of_range_decides_nothing(void **state)
{
    (void)state;
    static const char bytes[WEIR_KEY_BYTES_MAX + 1];
    size_t count;
    const struct weir_limit_spec *specs = shapes(&count);
    struct fixture f = fixture_create(specs, count);
    const struct weir_bucket bucket = raw_bucket(&specs[1]);
    struct weir_key key;
    struct weir_verdict verdict;
    const struct weir_time time = at(T0);
    const uint64_t costs[] = { WEIR_COST_MAX, (uint64_t)WEIR_COST_MAX + 1 };
    assert_int_equal(weir_limiter_bucket_key(f.limiter, (struct weir_slice){ bytes, sizeof bytes - 1 }, &key), 0);
    assert_int_equal(weir_limiter_bucket_key(f.limiter, (struct weir_slice){ bytes, sizeof bytes }, &key), WEIR_ERANGE);
    for (int i = 0; i < 2; i++)
        assert_int_equal(weir_limiter_bucket_decide_many(f.limiter, &bucket, &key, &costs[i], 1, &time, 0, &verdict),
                         i ? WEIR_ERANGE : 0);
    assert_int_equal(weir_limiter_bucket_decide_many(f.limiter, NULL, NULL, costs, 0, &time, 0, NULL), 0);
    struct weir_bucket *buckets = calloc(WEIR_BATCH_MAX + 1, sizeof *buckets);
    struct weir_key *keys = calloc(WEIR_BATCH_MAX + 1, sizeof *keys);
    uint64_t *zeros = calloc(WEIR_BATCH_MAX + 1, sizeof *zeros);
    struct weir_verdict *verdicts = calloc(WEIR_BATCH_MAX + 1, sizeof *verdicts);
    assert_true(buckets && keys && zeros && verdicts);
    for (size_t i = 0; i <= WEIR_BATCH_MAX; i++) {
        buckets[i] = bucket;
        keys[i] = key;
    }
    for (size_t n = WEIR_BATCH_MAX; n <= WEIR_BATCH_MAX + 1; n++)
        assert_int_equal(
            weir_limiter_bucket_decide_many(f.limiter, buckets, keys, zeros, n, &time, WEIR_PEEK, verdicts),
            n > WEIR_BATCH_MAX ? WEIR_ERANGE : 0);
    free(buckets);
    free(keys);
    free(zeros);
    free(verdicts);
    fixture_destroy(&f);
}

/* Permits do not give way: who finds no place is refused for that, is told so, and is counted. */
static void a_table_full_of_permits_refuses_it(void **state)
{
    (void)state;
    const struct weir_limit_spec permits = limit_of(WEIR_CONCURRENCY, 5, HOUR, 0);
    const struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 7, HOUR, 20);
    const struct weir_limiter_options options = { .memory_max = WEIR_MEMORY_MIN,
                                                  .log_memory_max = WEIR_MEMORY_MIN / 2 };
    struct fixture f = fixture_create_with(&options, &permits, 1);
    struct weir_limiter_stats before, after;
    struct weir_verdict verdict;
    const struct weir_time time = at(T0);
    uint64_t full = 0;
    for (uint64_t i = 0; i < 4000; i++) {
        const struct weir_charge charge = numbered(&f, 0, i);
        assert_int_equal(weir_limiter_decide_many(f.limiter, &charge, 1, &time, 0, &verdict), 0);
    }
    weir_limiter_stats(f.limiter, &before);
    for (uint64_t i = 0; i < 4000; i++) {
        verdict = ask_raw(&f, &spec, i, 1, T0, 0);
        assert_int_equal(verdict.admitted, !verdict.full);
        assert_int_equal(verdict.capacity, 20);
        assert_int_equal(verdict.remaining, verdict.full ? 0 : 19);
        assert_true(!verdict.full || verdict.retry_after_ns > 0);
        full += verdict.full;
    }
    weir_limiter_stats(f.limiter, &after);
    assert_int_equal(after.refused_full - before.refused_full, full);
    assert_true(full > 0);
    fixture_destroy(&f);
}

static void what_is_forgotten_is_fresh(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 7, HOUR, 20);
    struct fixture f = fixture_create(&spec, 1);
    const struct weir_key key = raw_key(&f, 1);
    (void)ask_raw(&f, &spec, 1, 3, T0, 0);
    for (int there = 1; there >= 0; there--) {
        bool found = !there;
        assert_int_equal(weir_limiter_bucket_forget(f.limiter, &key, &found), 0);
        assert_int_equal(found, there);
        assert_int_equal(ask_raw(&f, &spec, 1, 0, T0, WEIR_PEEK).remaining, 20);
    }
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_what_a_limit_of_its_numbers_says),
        cmocka_unit_test(it_is_full_when_it_was_to_be_by_whatever_ticks),
        cmocka_unit_test(what_is_out_of_range_decides_nothing),
        cmocka_unit_test(a_table_full_of_permits_refuses_it),
        cmocka_unit_test(what_is_forgotten_is_fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
