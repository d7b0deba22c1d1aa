/* SPDX-License-Identifier: Apache-2.0
 *
 * Traffic of hours, against a list of all of it: what is left of a key is all of it, whatever the traffic does; the
 * sample spans the hour where it can; and a reader beside a writer sees whole records. */
#include "observe/past.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checked.h"
#include "random.h"
#include "weir/limiter.h"

#define SMALL 256 /* loops: then a ring has 4096 records */
#define BEGIN_S 1000
#define LINES_MAX ((size_t)6000000)

/* All that was asked, added up as a record has it. */
struct world {
    struct weir_past *past;
    struct weir_past_record *lines; /* in order of time */
    size_t count;
    struct weir_past_record *read;
    struct weir_past_span span;
};

static uint64_t ns_of(uint32_t second)
{
    return second * WEIR_NS_PER_SECOND + 5;
}

static struct world *begin(size_t loops)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    assert_int_equal(weir_past_create(loops, ns_of(BEGIN_S), &world->past), 0);
    world->lines = malloc(LINES_MAX * sizeof(world->lines[0]));
    world->read = malloc(weir_past_room(world->past) * sizeof(world->read[0]));
    assert_non_null(world->lines);
    assert_non_null(world->read);
    return world;
}

static void end(struct world *world)
{
    weir_past_destroy(world->past);
    free(world->lines);
    free(world->read);
    free(world);
}

static uint64_t spread(uint64_t number)
{
    number ^= number >> 31;
    number *= UINT64_C(0x9e3779b97f4a7c15);
    number ^= number >> 29;
    number *= UINT64_C(0xbf58476d1ce4e5b9);
    return number ^ number >> 32;
}

static void ask(struct world *world, struct test_random *random, size_t loops, uint64_t key, uint32_t slot,
                uint32_t second)
{
    const struct weir_past_event event = { .hash = slot == 7 ? spread(3) : spread(key + 1),
                                           .slot = slot,
                                           .one_counter = slot == 7,
                                           .varied = key % 10 == 9,
                                           .refused = test_random_below(random, 3) == 0,
                                           .cost = 1 + test_random_below(random, 5) };
    weir_past_note(world->past, test_random_below(random, loops), &event, ns_of(second));
    assert_true(world->count < LINES_MAX);
    world->lines[world->count++] = (struct weir_past_record){ .hash = event.hash,
                                                              .slot = slot,
                                                              .second = second,
                                                              .asked = 1,
                                                              .refused = event.refused,
                                                              .units = event.cost,
                                                              .one_counter = event.one_counter,
                                                              .varied = event.varied };
}

static int by_place(const void *a, const void *b)
{
    const struct weir_past_record *left = a, *right = b;
    if (left->second != right->second)
        return left->second < right->second ? -1 : 1;
    if (left->hash != right->hash)
        return left->hash < right->hash ? -1 : 1;
    return (left->slot > right->slot) - (left->slot < right->slot);
}

/* Sorts, and adds up those of one key and second. */
static size_t add_up(struct weir_past_record *list, size_t count)
{
    size_t kept = 0;
    qsort(list, count, sizeof(list[0]), by_place);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && by_place(&list[kept - 1], &list[i]) == 0) {
            assert_true(list[kept - 1].varied == list[i].varied && list[kept - 1].one_counter == list[i].one_counter);
            list[kept - 1].asked += list[i].asked;
            list[kept - 1].refused += list[i].refused;
            list[kept - 1].units += list[i].units;
        } else {
            list[kept++] = list[i];
        }
    }
    return kept;
}

static bool is_left(const struct weir_past_record *line, const struct weir_past_span *span)
{
    const unsigned halvings = line->one_counter ? span->halvings_one_counter : span->halvings;
    return halvings == 0 || line->hash >> (64 - halvings) == 0;
}

/* What is read is, of the keys that are left, all there was. Returns how many records that are. */
static size_t expect_all(struct world *world, uint32_t now_s)
{
    size_t count = weir_past_read(world->past, ns_of(now_s), world->read, &world->span);
    count = add_up(world->read, count);
    const struct weir_past_span *span = &world->span;
    assert_int_equal(span->to_s, now_s - 1);
    assert_true(span->from_s >= BEGIN_S && (span->from_s >= now_s - WEIR_PAST_S || now_s - BEGIN_S <= WEIR_PAST_S));
    size_t begin = world->count;
    while (begin > 0 && world->lines[begin - 1].second + UINT64_C(2) * WEIR_PAST_S > now_s)
        begin--;
    size_t wanted = 0;
    struct weir_past_record *lines = malloc((world->count - begin + 1) * sizeof(lines[0]));
    assert_non_null(lines);
    for (size_t i = begin; i < world->count; i++)
        if (world->lines[i].second >= span->from_s && world->lines[i].second <= span->to_s &&
            is_left(&world->lines[i], span))
            lines[wanted++] = world->lines[i];
    wanted = add_up(lines, wanted);
    assert_int_equal(count, wanted);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(by_place(&world->read[i], &lines[i]), 0);
        assert_int_equal(world->read[i].asked, lines[i].asked);
        assert_int_equal(world->read[i].refused, lines[i].refused);
        assert_int_equal(world->read[i].units, lines[i].units);
        assert_int_equal(world->read[i].varied, lines[i].varied);
    }
    free(lines);
    return count;
}

static void test_little_traffic_is_kept_whole(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct world *world = begin(4);
    uint32_t second = BEGIN_S;
    for (; second < BEGIN_S + 5000; second++) {
        for (size_t i = 0; i < 20; i++)
            ask(world, &random, 4, test_random_below(&random, 30), (uint32_t)test_random_below(&random, 3), second);
        if (second % 700 == 0)
            expect_all(world, second + 1);
    }
    expect_all(world, second);
    assert_int_equal(world->span.halvings, 0);
    assert_int_equal(world->span.from_s, second - WEIR_PAST_S);
    end(world);
}

/* A limit without a key takes 3600 of 4096 records for an hour; of 100 others a second a 1024th has room beside it. */
static void test_much_traffic_is_sampled_by_keys_and_spans_the_hour(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct world *world = begin(SMALL);
    uint32_t second = BEGIN_S;
    for (; second < BEGIN_S + 3 * WEIR_PAST_S; second++) {
        for (size_t i = 0; i < 100; i++)
            ask(world, &random, 1, test_random_below(&random, 20000), 2, second);
        ask(world, &random, 1, 0, 7, second);
        if (second == BEGIN_S + 60) { /* it is young, and tells more */
            assert_true(expect_all(world, second + 1) > 300);
            assert_in_range(world->span.halvings, 1, 4);
        }
        if (second % 900 == 0)
            expect_all(world, second + 1);
    }
    const size_t count = expect_all(world, second);
    printf("%zu records, one key in 2^%u, of %u s\n", count, world->span.halvings,
           world->span.to_s - world->span.from_s + 1);
    assert_in_range(world->span.halvings, 9, 12);
    assert_in_range(world->span.to_s - world->span.from_s + 1, WEIR_PAST_S * 3 / 4, WEIR_PAST_S);
    /* The one counter is there second by second, because it stays longer. */
    assert_int_equal(world->span.halvings_one_counter, 0);
    size_t seconds = 0;
    for (size_t i = 0; i < count; i++)
        seconds += world->read[i].one_counter;
    assert_int_equal(seconds, world->span.to_s - world->span.from_s + 1);
    end(world);
}

/* Traffic that rises overwrites what is younger than an hour: the first second that is left is not whole. */
static void test_it_begins_with_a_whole_second(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct world *world = begin(SMALL);
    uint64_t left[12]; /* keys that stay for long */
    size_t found = 0;
    for (uint64_t key = 0; found < 12; key++)
        if (spread(key + 1) >> 52 == 0)
            left[found++] = key;
    uint32_t second = BEGIN_S;
    for (; second < BEGIN_S + 2400; second += 10)
        for (size_t i = 0; i < 12; i++)
            ask(world, &random, 1, left[i], 2, second);
    for (const uint32_t until = second + 600; second < until; second++) {
        for (size_t i = 0; i < 20; i++)
            ask(world, &random, 1, test_random_below(&random, 100000), 2, second);
        if (second % 3 == 0)
            expect_all(world, second + 1);
    }
    assert_true(world->span.from_s > BEGIN_S && world->span.halvings > 0);
    end(world);
}

static void test_after_a_flood_keys_come_back(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct world *world = begin(SMALL);
    uint32_t second = BEGIN_S;
    for (; second < BEGIN_S + 200; second++)
        for (size_t i = 0; i < 5000; i++)
            ask(world, &random, 1, second * UINT64_C(5000) + i, 2, second);
    expect_all(world, second);
    const unsigned flooded = world->span.halvings;
    assert_true(flooded > 8);
    for (; second < BEGIN_S + 8 * WEIR_PAST_S; second += 5) {
        ask(world, &random, 1, test_random_below(&random, 50), 2, second);
        if (second % 600 < 5)
            expect_all(world, second + 1);
    }
    const size_t count = expect_all(world, second);
    printf("one key in 2^%u in the flood, in 2^%u after it: %zu records\n", flooded, world->span.halvings, count);
    assert_int_equal(world->span.halvings, 0);
    assert_true(count > 500);
    end(world);
}

static void test_loops_that_differ_agree_on_the_keys(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct world *world = begin(SMALL);
    uint32_t second = BEGIN_S;
    for (; second < BEGIN_S + 1500; second++) {
        for (size_t i = 0; i < 300; i++)
            ask(world, &random, 1, test_random_below(&random, 3000), 2, second);
        for (size_t i = 0; i < 10; i++)
            ask(world, &random, SMALL, test_random_below(&random, 3000), 2, second);
        if (second % 250 == 0)
            expect_all(world, second + 1);
    }
    assert_true(expect_all(world, second) > 100);
    assert_true(world->span.halvings > 2);
    end(world);
}

/* ---- a reader beside a writer ---- */

struct pair {
    struct weir_past *past;
    _Atomic bool over;
    _Atomic uint64_t now_ns;
};

static void *write_on(void *context)
{
    struct pair *pair = context;
    uint64_t now_ns = ns_of(BEGIN_S);
    for (uint64_t i = 0; i < 3000000; i++) {
        const uint64_t hash = spread(i / 3) >> 1;
        const struct weir_past_event event = { .hash = hash,
                                               .slot = (uint32_t)(hash & 0xffff),
                                               .varied = hash & 1,
                                               .refused = hash & 2,
                                               .cost = hash & 0xff };
        now_ns += i % 16 == 0 ? WEIR_NS_PER_SECOND / 7 : 0;
        weir_past_note(pair->past, 0, &event, now_ns);
        if (i % 256 == 0)
            atomic_store(&pair->now_ns, now_ns);
    }
    atomic_store(&pair->over, true);
    return NULL;
}

static void test_a_reader_beside_the_writer_sees_whole_records(void **state)
{
    (void)state;
    struct pair pair = { .now_ns = ns_of(BEGIN_S) };
    pthread_t thread;
    size_t reads = 0, records = 0;
    assert_int_equal(weir_past_create(SMALL, ns_of(BEGIN_S), &pair.past), 0);
    struct weir_past_record *list = malloc(weir_past_room(pair.past) * sizeof(list[0]));
    assert_non_null(list);
    assert_int_equal(pthread_create(&thread, NULL, write_on, &pair), 0);
    while (!atomic_load(&pair.over)) {
        struct weir_past_span span;
        const size_t count = weir_past_read(pair.past, atomic_load(&pair.now_ns), list, &span);
        for (size_t i = 0; i < count; i++) {
            const struct weir_past_record *one = &list[i];
            assert_int_equal(one->slot, one->hash & 0xffff);
            assert_int_equal(one->varied, one->hash & 1);
            assert_int_equal(one->refused, one->hash & 2 ? one->asked : 0);
            assert_int_equal(one->units, one->asked * (one->hash & 0xff));
            assert_true(one->second >= span.from_s && one->second <= span.to_s);
        }
        records += count;
        reads++;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    printf("%zu reads of %zu records\n", reads, records);
    assert_true(records > 0);
    free(list);
    weir_past_destroy(pair.past);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_little_traffic_is_kept_whole),
        cmocka_unit_test(test_much_traffic_is_sampled_by_keys_and_spans_the_hour),
        cmocka_unit_test(test_it_begins_with_a_whole_second),
        cmocka_unit_test(test_after_a_flood_keys_come_back),
        cmocka_unit_test(test_loops_that_differ_agree_on_the_keys),
        cmocka_unit_test(test_a_reader_beside_the_writer_sees_whole_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
