/* SPDX-License-Identifier: Apache-2.0
 *
 * The short way to a decision against the long one: the same requests in five limiters of one secret. One is asked in a
 * way that never takes the short one, the others by weir_limiter_decide, _admit, _decide_many and _admit_many. All must
 * say the same, to the last number. */
#include "fixture.h"
#include "random.h"

#define LIMITS 9
#define KEYS 30000 /* more than there are slots at the start: the table grows, and keys have second homes */
#define BATCH 40
#define ROUNDS 6000

enum way { LONG, SHORT, ADMIT, MANY, ADMIT_MANY, WAYS };

static struct weir_limit_spec bucket(enum weir_algorithm algorithm, uint64_t count, uint64_t period_ns, uint64_t burst)
{
    return (struct weir_limit_spec){ .algorithm = algorithm, .count = count, .period_ns = period_ns, .burst = burst };
}

static void make(struct fixture worlds[WAYS], uint64_t seed)
{
    const struct weir_limit_spec specs[LIMITS] = {
        bucket(WEIR_TOKEN_BUCKET, 10, SECOND, 20),
        bucket(WEIR_LEAKY_BUCKET, 50, SECOND, 5),
        bucket(WEIR_TOKEN_BUCKET, 1, 300 * DAY, 10), /* ticks of more than 1 ns */
        bucket(WEIR_TOKEN_BUCKET, 1000000, SECOND, 1000000),
        bucket(WEIR_TOKEN_BUCKET, 7, SECOND, 1),
        bucket(WEIR_TOKEN_BUCKET, 0, SECOND, 0),
        bucket(WEIR_LEAKY_BUCKET, 3, 7 * SECOND, 100),
        bucket(WEIR_FIXED_WINDOW, 9, SECOND, 0),
        bucket(WEIR_TOKEN_BUCKET, 999999937, SECOND, 64),
    };
    uint8_t secret[16] = { 0 };
    memcpy(secret, &seed, sizeof seed);
    const struct weir_limiter_options options = { .memory_max = (size_t)1 << 20, .secret = secret };
    for (size_t way = 0; way < WAYS; way++)
        worlds[way] = fixture_create_with(&options, specs, LIMITS);
}

static struct weir_charge draw(struct test_random *random, const struct fixture *f)
{
    static const uint64_t costs[] = { 0, 1, 1, 1, 2, 3, 5, 20, 21, 100, 1000000, UINT64_MAX >> 1 };
    char key[24];
    const uint64_t keys = test_random_below(random, 2) ? 10 : KEYS;
    (void)snprintf(key, sizeof key, "%u", (unsigned)test_random_below(random, keys));
    return charge_of(f, test_random_below(random, LIMITS), key, costs[test_random_below(random, 12)]);
}

static void expect_same(const struct weir_verdict *v, const struct weir_verdict *w)
{
    assert_int_equal(v->admitted, w->admitted);
    assert_int_equal(v->shadow, w->shadow);
    assert_int_equal(v->full, w->full);
    assert_int_equal(v->late, w->late);
    assert_int_equal(v->capacity, w->capacity);
    assert_int_equal(v->remaining, w->remaining);
    assert_int_equal(v->retry_after_ns, w->retry_after_ns);
    assert_int_equal(v->reset_after_ns, w->reset_after_ns);
    assert_int_equal(v->next_after_ns, w->next_after_ns);
    assert_int_equal(v->delay_ns, w->delay_ns);
    assert_int_equal(v->ticket, w->ticket);
}

static void ask_one(const struct fixture worlds[WAYS], struct weir_charge charge, const struct weir_time *time,
                    struct weir_verdict *ret_verdict)
{
    struct weir_decision decisions[2];
    struct weir_verdict verdict;
    memset(&verdict, 0xaa, sizeof verdict);
    memset(decisions, 0xaa, sizeof decisions);
    const struct weir_charge longer = { charge.limit, charge.key, charge.cost, 100000 * DAY };
    assert_int_equal(weir_limiter_decide(worlds[LONG].limiter, &longer, 1, time, 0, &decisions[0], ret_verdict), 0);
    assert_int_equal(weir_limiter_decide(worlds[SHORT].limiter, &charge, 1, time, 0, &decisions[1], &verdict), 0);
    expect_same(&verdict, ret_verdict);
    assert_int_equal(decisions[1].admitted, decisions[0].admitted);
    assert_int_equal(decisions[1].deciding, decisions[0].deciding);
    assert_int_equal(decisions[1].retry_after_ns, decisions[0].retry_after_ns);
    assert_int_equal(decisions[1].delay_ns, decisions[0].delay_ns);
    assert_int_equal(weir_limiter_admit(worlds[ADMIT].limiter, &charge, time), decisions[0].admitted);
}

static void expect_same_counts(const struct fixture worlds[WAYS])
{
    struct weir_limiter_stats want, got;
    weir_limiter_stats(worlds[LONG].limiter, &want);
    assert_true(want.keys > 20000 && want.slots > 32768);
    for (size_t way = SHORT; way < WAYS; way++) {
        weir_limiter_stats(worlds[way].limiter, &got);
        assert_int_equal(got.keys, want.keys);
        assert_int_equal(got.inserted, want.inserted);
        assert_int_equal(got.clock_jumps, want.clock_jumps);
        for (size_t i = 0; i < LIMITS; i++) {
            struct weir_limit_stats a, b;
            assert_int_equal(weir_limiter_limit_stats(worlds[LONG].limiter, worlds[LONG].ids[i], &a), 0);
            assert_int_equal(weir_limiter_limit_stats(worlds[way].limiter, worlds[way].ids[i], &b), 0);
            assert_int_equal(b.refused, a.refused);
        }
    }
}

static void all_ways_say_the_same(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct fixture worlds[WAYS];
    make(worlds, random.state);
    uint64_t now_ns = T0;
    for (int round = 0; round < ROUNDS; round++) {
        struct weir_charge charges[BATCH];
        struct weir_verdict want[BATCH], got[BATCH];
        bool admitted[BATCH];
        now_ns += test_random_below(&random, test_random_below(&random, 50) ? 20 * MS : 10 * SECOND);
        if (test_random_below(&random, 200) == 0)
            now_ns -= 300 * MS; /* within what callers' clocks may disagree */
        if (test_random_below(&random, 700) == 0)
            now_ns -= test_random_below(&random, 2) ? 3 * SECOND : 30 * SECOND; /* and beyond */
        const struct weir_time time = at(now_ns);
        const size_t count = 1 + test_random_below(&random, BATCH);
        memset(got, 0xaa, sizeof got);
        for (size_t i = 0; i < count; i++) {
            charges[i] = draw(&random, &worlds[LONG]);
            ask_one(worlds, charges[i], &time, &want[i]);
        }
        assert_int_equal(weir_limiter_decide_many(worlds[MANY].limiter, charges, count, &time, 0, got), 0);
        assert_int_equal(weir_limiter_admit_many(worlds[ADMIT_MANY].limiter, charges, count, &time, admitted), 0);
        for (size_t i = 0; i < count; i++) {
            expect_same(&got[i], &want[i]);
            assert_int_equal(admitted[i], want[i].admitted);
        }
    }
    expect_same_counts(worlds);
    for (size_t way = 0; way < WAYS; way++)
        fixture_destroy(&worlds[way]);
}

/* Our own clock goes on meanwhile, so only what does not depend on it is compared. */
static void by_our_own_clock_a_bucket_holds_what_it_holds(void **state)
{
    (void)state;
    const struct weir_limit_spec specs[] = { bucket(WEIR_TOKEN_BUCKET, 1, 30 * DAY, 5),
                                             bucket(WEIR_TOKEN_BUCKET, 1, HOUR, 5),
                                             { .algorithm = WEIR_FIXED_WINDOW, .count = 5, .period_ns = DAY } };
    for (size_t limit = 0; limit < 3; limit++) {
        struct fixture f = fixture_create(specs, 3);
        const struct weir_charge a = charge_of(&f, limit, "a", 1), b = charge_of(&f, limit, "b", 2);
        struct weir_decision decision;
        struct weir_verdict verdict;
        for (uint64_t i = 0; i < 7; i++) {
            assert_int_equal(weir_limiter_admit(f.limiter, &a, NULL), i < 5);
            assert_int_equal(weir_limiter_decide(f.limiter, &b, 1, NULL, 0, &decision, &verdict), 0);
            assert_int_equal(decision.admitted, i < 2);
            assert_int_equal(verdict.remaining, i < 2 ? 3 - 2 * i : 1);
            assert_int_equal(decision.retry_after_ns, i < 2 ? 0 : verdict.retry_after_ns);
            assert_int_equal(verdict.retry_after_ns == 0, i < 2);
        }
        fixture_destroy(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_ways_say_the_same),
                                        cmocka_unit_test(by_our_own_clock_a_bucket_holds_what_it_holds) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
