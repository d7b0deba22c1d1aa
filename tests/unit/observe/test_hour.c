/* SPDX-License-Identifier: Apache-2.0
 *
 * Random looks, against a list of all of them; readers that lag; and a reader beside the one who looks. */
#include "observe/hour.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

#define LOOKS 9000 /* two and a half hours */

struct world {
    struct weir_hour *hour;
    struct weir_hour_totals totals[LOOKS];
    uint64_t now_ns[LOOKS], wall_ns[LOOKS];
};

static uint64_t some(struct test_random *random, uint64_t most)
{
    return test_random_below(random, most + 1);
}

static void grow(struct test_random *random, struct weir_hour_totals *totals)
{
    const uint64_t much = test_random_below(random, 8) == 0 ? (uint64_t)1 << 34 : 1000;
    for (size_t i = 0; i < WEIR_METRICS_VERDICTS; i++)
        totals->verdicts[i] += some(random, much);
    totals->requests += some(random, much);
    totals->unmatched += some(random, 3);
    totals->fallbacks += some(random, 1);
    totals->connections = some(random, 50);
    totals->keys = some(random, 100000);
    for (size_t i = 0; i < 5; i++)
        totals->turns[test_random_below(random, WEIR_HISTOGRAM_BUCKETS)] += some(random, 40);
    for (size_t i = 0; i < 5; i++) {
        struct weir_hour_limit *limit = &totals->limits[test_random_below(random, WEIR_HOUR_LIMITS)];
        limit->admitted += some(random, much);
        limit->refused += some(random, much);
    }
}

/* All events one by one, in order; the one that stands at the place. */
static uint64_t slow_quantile(const struct weir_hour_totals *old, const struct weir_hour_totals *now,
                              uint64_t per_mille)
{
    uint64_t total = 0, passed = 0;
    for (size_t i = 0; i < WEIR_HISTOGRAM_BUCKETS; i++)
        total += now->turns[i] - old->turns[i];
    for (size_t i = 0; i < WEIR_HISTOGRAM_BUCKETS; i++)
        for (uint64_t event = old->turns[i]; event < now->turns[i]; event++)
            if (++passed * 1000 >= total * per_mille)
                return weir_histogram_bound_ns(i);
    return 0;
}

static uint64_t capped(uint64_t value)
{
    return value > UINT32_MAX ? UINT32_MAX : value;
}

static void expect_row(const struct world *world, const struct weir_hour_row *row, uint64_t number)
{
    const struct weir_hour_totals *now = &world->totals[number], *old = &world->totals[number - 1];
    assert_int_equal(row->number, number);
    assert_int_equal(row->wall_ns, world->wall_ns[number]);
    const uint64_t span_ns = world->now_ns[number] - world->now_ns[number - 1];
    assert_int_equal(row->span_ns, span_ns > 0 ? span_ns : 1);
    for (size_t i = 0; i < WEIR_METRICS_VERDICTS; i++)
        assert_int_equal(row->verdicts[i], now->verdicts[i] - old->verdicts[i]);
    assert_int_equal(row->requests, now->requests - old->requests);
    assert_int_equal(row->unmatched, now->unmatched - old->unmatched);
    assert_int_equal(row->fallbacks, now->fallbacks - old->fallbacks);
    assert_int_equal(row->connections, now->connections);
    assert_int_equal(row->keys, now->keys);
    for (size_t i = 0; i < WEIR_HOUR_LIMITS; i++) {
        assert_int_equal(row->limits[i].admitted, capped(now->limits[i].admitted - old->limits[i].admitted));
        assert_int_equal(row->limits[i].refused, capped(now->limits[i].refused - old->limits[i].refused));
    }
    assert_int_equal(row->p50_ns, slow_quantile(old, now, 500));
    assert_int_equal(row->p99_ns, slow_quantile(old, now, 990));
    assert_int_equal(row->p999_ns, slow_quantile(old, now, 999));
}

/* `newest` looks were made after the first. */
static void expect_read(struct test_random *random, const struct world *world, uint64_t newest)
{
    static struct weir_hour_row rows[WEIR_HOUR_ROWS + 1];
    const uint64_t after = test_random_below(random, newest + 3);
    const size_t room = test_random_below(random, 4) == 0 ? WEIR_HOUR_ROWS + 1 : test_random_below(random, 20);
    const uint64_t oldest = newest > WEIR_HOUR_ROWS ? newest - WEIR_HOUR_ROWS : 0;
    const uint64_t from = after > oldest ? after : oldest, there = newest > from ? newest - from : 0;
    const size_t count = weir_hour_read(world->hour, after, rows, room);
    assert_int_equal(count, there < room ? there : room);
    for (size_t i = 0; i < count; i += count < 40 ? 1 : 97)
        expect_row(world, &rows[i], from + 1 + i);
    assert_int_equal(weir_hour_newest(world->hour), newest);
}

static void rows_say_what_came_between_two_looks(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct world *world = calloc(1, sizeof(*world));
    struct weir_hour_row row;
    assert_int_equal(weir_hour_create(77, &world->hour), 0);
    assert_int_equal(weir_hour_read(world->hour, 0, &row, 1), 0);
    world->now_ns[0] = 77;
    for (size_t i = 1; i < LOOKS; i++) {
        world->totals[i] = world->totals[i - 1];
        grow(&random, &world->totals[i]);
        world->now_ns[i] = world->now_ns[i - 1] + some(&random, 3) * 500000000;
        world->wall_ns[i] = some(&random, UINT64_MAX - 1); /* it is set forth and back */
        weir_hour_look(world->hour, &world->totals[i], world->now_ns[i], world->wall_ns[i]);
        if (i % 7 == 0)
            expect_read(&random, world, i);
    }
    weir_hour_destroy(world->hour);
    free(world);
}

static void a_look_is_due_nearly_a_second_after_the_last(void **state)
{
    (void)state;
    struct weir_hour *hour = NULL;
    static const struct weir_hour_totals none;
    assert_int_equal(weir_hour_create(5000, &hour), 0);
    for (uint64_t from = 5000; from < 3000000000; from += 1000000000) {
        assert_false(weir_hour_is_due(hour, from + 874999999));
        assert_true(weir_hour_is_due(hour, from + 875000000));
        weir_hour_look(hour, &none, from + 1000000000, 0);
    }
    weir_hour_destroy(hour);
}

/* Readers compare it: whoever reads an hour that began anew would take its rows for later ones of the one before. */
static void a_process_is_told_from_the_next_one(void **state)
{
    (void)state;
    struct weir_hour *hour = NULL, *next = NULL;
    static const struct weir_hour_totals none;
    assert_int_equal(weir_hour_create(5000000, &hour), 0);
    assert_int_equal(weir_hour_create(5001000, &next), 0);
    const uint64_t process = weir_hour_process(hour);
    assert_int_not_equal(process, weir_hour_process(next));
    weir_hour_look(hour, &none, 9000000000, 7);
    assert_int_equal(weir_hour_process(hour), process);
    weir_hour_destroy(hour);
    weir_hour_destroy(next);
    assert_int_equal(weir_hour_create(UINT64_C(100) * 365 * 86400 * 1000000000, &hour), 0); /* up for a hundred years */
    assert_true(weir_hour_process(hour) < UINT64_C(1) << 53);
    weir_hour_destroy(hour);
}

static void *look_on(void *context)
{
    static struct weir_hour_totals totals;
    for (uint64_t i = 1; i < 20000; i++) {
        totals.requests = i;
        totals.verdicts[0] = i;
        weir_hour_look(context, &totals, i, i);
    }
    return NULL;
}

static void a_row_is_whole_while_others_are_made(void **state)
{
    (void)state;
    struct weir_hour *hour = NULL;
    pthread_t thread;
    struct weir_hour_row rows[8];
    uint64_t after = 0;
    assert_int_equal(weir_hour_create(0, &hour), 0);
    assert_int_equal(pthread_create(&thread, NULL, look_on, hour), 0);
    while (after < 19999) {
        const size_t count = weir_hour_read(hour, after, rows, 8);
        for (size_t i = 0; i < count; i++) {
            assert_true(rows[i].number > after);
            assert_int_equal(rows[i].wall_ns, rows[i].number);
            assert_int_equal(rows[i].requests, 1);
            assert_int_equal(rows[i].verdicts[0], 1);
            after = rows[i].number;
        }
    }
    pthread_join(thread, NULL);
    weir_hour_destroy(hour);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_say_what_came_between_two_looks),
        cmocka_unit_test(a_look_is_due_nearly_a_second_after_the_last),
        cmocka_unit_test(a_process_is_told_from_the_next_one),
        cmocka_unit_test(a_row_is_whole_while_others_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
