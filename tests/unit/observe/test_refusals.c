/* SPDX-License-Identifier: Apache-2.0
 *
 * Refusals picked for the log: the rate of each limit, what is left out, and a taker on another thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "observe/last.h"
#include "observe/metrics.h"
#include "random.h"

#define SECOND WEIR_NS_PER_SECOND
#define LIMITS 8

static struct weir_refusals *create(uint32_t per_second)
{
    struct weir_refusals *refusals = NULL;
    assert_int_equal(weir_refusals_create(&refusals), 0);
    weir_refusals_rate(refusals, per_second);
    return refusals;
}

static bool refuse(struct weir_refusals *refusals, uint32_t slot, uint64_t now_ns, uint64_t hash)
{
    bool wanted = weir_refusals_wants(refusals, slot, now_ns);
    if (wanted)
        weir_refusals_put(refusals, &(struct weir_refusal){ .hash = hash, .slot = slot, .now_ns = now_ns });
    return wanted;
}

static void each_limit_has_its_rate(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct weir_refusals *refusals = create(3);
    uint64_t now_ns = 5 * SECOND, second[LIMITS] = { 0 }, hash = 0;
    unsigned taken[LIMITS] = { 0 };
    uint64_t left_out[LIMITS] = { 0 };
    for (int i = 0; i < 20000; i++) {
        const uint32_t slot = (uint32_t)test_random_below(&random, LIMITS);
        struct weir_refusal told;
        now_ns += test_random_below(&random, SECOND / 20);
        if (second[slot] != now_ns / SECOND) {
            second[slot] = now_ns / SECOND;
            taken[slot] = 0;
        }
        const bool wanted = taken[slot] < 3;
        assert_int_equal(refuse(refusals, slot, now_ns, ++hash), wanted);
        assert_int_equal(weir_refusals_take(refusals, &told), wanted);
        if (wanted) {
            assert_true(told.hash == hash && told.slot == slot && told.now_ns == now_ns);
            assert_int_equal(told.left_out, left_out[slot]);
            left_out[slot] = 0;
            taken[slot]++;
        } else {
            const uint64_t more = test_random_below(&random, 3);
            weir_refusals_left_out(refusals, slot, more);
            left_out[slot] += 1 + more;
        }
        assert_false(weir_refusals_take(refusals, &told));
    }
    weir_refusals_rate(refusals, 0);
    weir_refusals_left_out(refusals, 0, 5); /* nobody is to hear of any: these are not counted */
    weir_refusals_rate(refusals, 1);
    struct weir_refusal last;
    assert_true(refuse(refusals, 0, now_ns + 2 * SECOND, 1) && weir_refusals_take(refusals, &last));
    assert_int_equal(last.left_out, left_out[0]);
    weir_refusals_destroy(refusals);
    weir_refusals_destroy(NULL);
}

static void what_finds_no_room_is_left_out_and_told(void **state)
{
    (void)state;
    struct weir_refusals *refusals = create(1);
    struct weir_refusal told;
    for (uint64_t i = 0; i < WEIR_REFUSALS_ROOM + 10; i++)
        assert_int_equal(refuse(refusals, WEIR_METRICS_LIMITS_MAX - 1, i * SECOND, i), i < WEIR_REFUSALS_ROOM);
    for (uint64_t i = 0; i < WEIR_REFUSALS_ROOM; i++)
        assert_true(weir_refusals_take(refusals, &told) && told.hash == i && told.left_out == 0);
    assert_false(weir_refusals_take(refusals, &told));
    assert_true(refuse(refusals, WEIR_METRICS_LIMITS_MAX - 1, 1000 * SECOND, 1000));
    assert_true(weir_refusals_take(refusals, &told) && told.left_out == 10);
    weir_refusals_rate(refusals, 0);
    assert_false(refuse(refusals, 0, 2000 * SECOND, 1));
    weir_refusals_destroy(refusals);
}

struct taker {
    struct weir_refusals *refusals;
    uint64_t seen, told; /* lines, and refusals that they tell of */
    _Atomic bool done;
};

static void *take_all(void *argument)
{
    struct taker *taker = argument;
    struct weir_refusal refusal;
    uint64_t last = 0;
    for (;;) {
        const bool done = taker->done;
        if (weir_refusals_take(taker->refusals, &refusal)) {
            assert_true(refusal.hash > last && refusal.cost == ~refusal.hash &&
                        refusal.label.size == refusal.hash % 64);
            last = refusal.hash;
            taker->seen++;
            taker->told += 1 + refusal.left_out;
        } else if (done) {
            return NULL;
        }
    }
}

static void none_is_torn_and_none_is_lost(void **state)
{
    (void)state;
    struct taker taker = { .refusals = create(WEIR_REFUSALS_RATE_MAX) };
    const uint64_t count = 300000;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_all, &taker), 0);
    for (uint64_t i = 1; i <= count; i++) {
        if (!weir_refusals_wants(taker.refusals, 0, i * SECOND / 10))
            continue;
        struct weir_refusal refusal = { .hash = i, .cost = ~i, .label.size = (uint8_t)(i % 64) };
        weir_refusals_put(taker.refusals, &refusal);
    }
    taker.done = true;
    pthread_join(thread, NULL);
    /* One more says what was left out at the end. */
    struct weir_refusal last;
    assert_true(refuse(taker.refusals, 0, count * SECOND, count + 1));
    assert_true(weir_refusals_take(taker.refusals, &last));
    assert_int_equal(taker.told + last.left_out, count);
    assert_true(taker.seen > 0);
    weir_refusals_destroy(taker.refusals);
}

static void the_last_are_kept_and_the_newest_comes_first(void **state)
{
    (void)state;
    struct weir_last *last;
    struct weir_last_refusal read[WEIR_LAST_ROOM];
    assert_int_equal(weir_last_create(&last), 0);
    assert_int_equal(weir_last_read(last, read), 0);
    for (uint64_t n = 1; n <= 3 * WEIR_LAST_ROOM + 5; n++) {
        const struct weir_last_refusal one = { .wall_ns = n, .refusal = { .hash = ~n } };
        weir_last_put(last, &one);
        const size_t count = weir_last_read(last, read);
        assert_int_equal(count, n < WEIR_LAST_ROOM ? n : WEIR_LAST_ROOM);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(read[i].wall_ns, n - i);
            assert_int_equal(read[i].refusal.hash, ~(n - i));
        }
        assert_int_equal(weir_last_number(last), n);
    }
    weir_last_destroy(last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_limit_has_its_rate),
        cmocka_unit_test(what_finds_no_room_is_left_out_and_told),
        cmocka_unit_test(none_is_torn_and_none_is_lost),
        cmocka_unit_test(the_last_are_kept_and_the_newest_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
