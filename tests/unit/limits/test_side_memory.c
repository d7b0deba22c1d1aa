/* SPDX-License-Identifier: Apache-2.0
 *
 * The side memory of logs and permits when it is full: who gets room, and how long a newcomer looks for it. */
#include "fixture.h"
#include "limits/memory.h"

#define MEMORY ((size_t)1 << 20)
#define KEYS 20000 /* more than there is room for */

static struct fixture two_limits(enum weir_on_full on_full)
{
    struct weir_limiter_options options = { .memory_max = MEMORY };
    struct weir_limit_spec specs[2] = { limit_of(WEIR_CONCURRENCY, 2, HOUR, 0),
                                        limit_of(WEIR_SLIDING_LOG, 5, HOUR, 0) };
    specs[1].on_full = on_full;
    return fixture_create_with(&options, specs, 2);
}

static struct weir_verdict ask_number(const struct fixture *f, size_t limit, uint64_t number, uint64_t now_ns)
{
    struct weir_charge charge = { .limit = f->ids[limit], .cost = 1 };
    struct weir_slice value = { &number, sizeof(number) };
    struct weir_verdict verdict;
    struct weir_time time = at(now_ns);
    assert_int_equal(weir_limiter_key(f->limiter, f->ids[limit], &value, 1, &charge.key), 0);
    assert_int_equal(weir_limiter_decide_many(f->limiter, &charge, 1, &time, 0, &verdict), 0);
    return verdict;
}

static uint64_t admitted_of_keys(const struct fixture *f, size_t limit, uint64_t keys)
{
    uint64_t admitted = 0;
    for (uint64_t i = 0; i < keys; i++)
        admitted += ask_number(f, limit, i, T0).admitted;
    return admitted;
}

/* A flood of permits' keys takes half, and logs that came before it stay; so do logs find room that come after. */
static void side_memory__permits_take_at_most_half(void **state)
{
    (void)state;
    struct fixture f = two_limits(WEIR_ON_FULL_EVICT);
    uint64_t blocks = f.limiter->logs.blocks, logs = blocks / 4;
    assert_int_equal(admitted_of_keys(&f, 1, logs), logs);
    assert_int_equal(admitted_of_keys(&f, 0, KEYS), blocks / 2);
    struct weir_limiter_stats stats;
    weir_limiter_stats(f.limiter, &stats);
    assert_int_equal(stats.evicted, 0);
    assert_int_equal(stats.refused_full, KEYS - blocks / 2);
    for (uint64_t i = 0; i < blocks; i++) /* they make room for each other */
        assert_true(ask_number(&f, 1, KEYS + i, T0 + 1).admitted);
    fixture_destroy(&f);
}

static struct fixture limits_of_permits(size_t count)
{
    struct weir_limiter_options options = { .memory_max = MEMORY };
    struct weir_limit_spec specs[FIXTURE_LIMITS_MAX];
    for (size_t i = 0; i < count; i++)
        specs[i] = limit_of(WEIR_CONCURRENCY, 2, HOUR, 0);
    return fixture_create_with(&options, specs, count);
}

static uint64_t half_of(const struct fixture *f)
{
    return f->limiter->logs.blocks / 2;
}

/* In blocks: one key each, here. */
static uint64_t floor_of(const struct fixture *f, uint64_t limits)
{
    return half_of(f) / (2 * limits);
}

static void redefine(struct fixture *f, size_t count)
{
    struct weir_limit_spec specs[FIXTURE_LIMITS_MAX];
    for (size_t i = 0; i < count; i++)
        specs[i] = limit_of(WEIR_CONCURRENCY, 2, HOUR, 0);
    fixture_define(f, specs, count, T0);
}

static void maintain(const struct fixture *f, uint64_t now_ns)
{
    struct weir_time time = at(now_ns);
    while (weir_limiter_maintain(f->limiter, &time, 1024)) {
    }
}

/* The first keys give back what they have, permits `first` and on; their room is free two seconds later. */
static void give_back(const struct fixture *f, size_t limit, uint64_t first, uint64_t keys)
{
    struct weir_time time = at(T0);
    for (uint64_t number = 0; number < keys; number++) {
        struct weir_slice value = { &number, sizeof(number) };
        struct weir_key key;
        uint64_t units = 0;
        assert_int_equal(weir_limiter_key(f->limiter, f->ids[limit], &value, 1, &key), 0);
        assert_int_equal(weir_limiter_release(f->limiter, &key, 1, first + number, &time, &units), 0);
        assert_int_equal(units, 1);
    }
}

/* New keys, from `first` on, two seconds later. */
static uint64_t admitted_later(const struct fixture *f, size_t limit, uint64_t first, uint64_t keys)
{
    uint64_t admitted = 0;
    maintain(f, T0 + 2 * SECOND);
    for (uint64_t i = 0; i < keys; i++)
        admitted += ask_number(f, limit, first + i, T0 + 2 * SECOND).admitted;
    return admitted;
}

/* Beyond its floor a limit takes what leaves the others theirs; up to its floor each finds room, whatever floods came
 * before. */
static void side_memory__floods_one_after_another_leave_each_limit_its_floor(void **state)
{
    (void)state;
    for (size_t count = 2; count <= 14; count++) {
        struct fixture f = limits_of_permits(count);
        uint64_t floor = floor_of(&f, count);
        assert_true(floor > 0);
        assert_int_equal(admitted_of_keys(&f, 0, KEYS / 2), half_of(&f) - (count - 1) * floor);
        for (size_t limit = 1; limit < count; limit++)
            assert_int_equal(admitted_of_keys(&f, limit, floor + 100), floor);
        fixture_destroy(&f);
    }
}

/* Floods at the same time share what is beyond the floors; the floor of who comes later stands. */
static void side_memory__floods_at_once_leave_each_limit_its_floor(void **state)
{
    (void)state;
    for (size_t count = 3; count <= 13; count += 5) {
        struct fixture f = limits_of_permits(count);
        uint64_t half = half_of(&f), floor = floor_of(&f, count), sum = 0, admitted[FIXTURE_LIMITS_MAX] = { 0 };
        for (uint64_t i = 0; i < KEYS / 4; i++)
            for (size_t limit = 0; limit + 1 < count; limit++)
                admitted[limit] += ask_number(&f, limit, i, T0).admitted;
        for (size_t limit = 0; limit + 1 < count; limit++) {
            assert_in_range(admitted[limit], (half - floor) / (count - 1), (half - floor) / (count - 1) + 1);
            sum += admitted[limit];
        }
        assert_int_equal(sum, half - floor);
        assert_int_equal(admitted_of_keys(&f, count - 1, KEYS), floor);
        fixture_destroy(&f);
    }
}

/* What becomes free below a floor is kept for whom it belongs to; above, it is for whoever comes. */
static void side_memory__a_floor_stands_after_permits_are_given_back(void **state)
{
    (void)state;
    struct fixture f = limits_of_permits(3);
    uint64_t floor = floor_of(&f, 3);
    assert_int_equal(admitted_of_keys(&f, 1, floor), floor);
    assert_int_equal(admitted_of_keys(&f, 0, KEYS), half_of(&f) - 2 * floor);
    give_back(&f, 1, 1, 100);
    assert_int_equal(admitted_later(&f, 0, KEYS, 200), 0);
    assert_int_equal(admitted_later(&f, 1, KEYS, 200), 100);
    give_back(&f, 0, floor + 1, 50);
    assert_int_equal(admitted_later(&f, 1, 2 * KEYS, 200), 50);
    assert_int_equal(admitted_later(&f, 2, 0, floor), floor);
    fixture_destroy(&f);
}

/* A limit that a reload adds takes what is free, then what becomes free, up to its floor; nobody else does before. */
static void side_memory__a_limit_added_by_a_reload_gets_what_becomes_free(void **state)
{
    (void)state;
    struct fixture f = limits_of_permits(1);
    assert_int_equal(admitted_of_keys(&f, 0, KEYS), half_of(&f));
    redefine(&f, 3);
    assert_int_equal(admitted_of_keys(&f, 1, 100) + admitted_of_keys(&f, 2, 100), 0);
    give_back(&f, 0, 1, 30);
    assert_int_equal(admitted_later(&f, 0, KEYS, 100), 0);
    assert_int_equal(admitted_later(&f, 2, 0, 10), 10);
    assert_int_equal(admitted_later(&f, 1, 0, 100), 20);
    assert_int_equal(admitted_later(&f, 2, 10, 100), 0);
    assert_int_equal(admitted_later(&f, 0, 2 * KEYS, 100), 0);
    fixture_destroy(&f);
}

/* The floors of a limit that is removed, and what its permits held, are for those that stay. */
static void side_memory__a_limit_removed_by_a_reload_leaves_its_part(void **state)
{
    (void)state;
    struct fixture f = limits_of_permits(3);
    uint64_t floor = floor_of(&f, 3);
    assert_int_equal(admitted_of_keys(&f, 2, KEYS), half_of(&f) - 2 * floor);
    redefine(&f, 2);
    maintain(&f, T0);
    assert_int_equal(admitted_of_keys(&f, 0, KEYS), half_of(&f) - floor_of(&f, 2));
    redefine(&f, 1);
    maintain(&f, T0);
    assert_int_equal(admitted_later(&f, 0, KEYS, KEYS), floor_of(&f, 2) + half_of(&f) % 2);
    fixture_destroy(&f);
}

/* A part whose leases have ended can be taken again, whole. */
static void side_memory__a_part_comes_back_when_its_leases_end(void **state)
{
    (void)state;
    struct fixture f = limits_of_permits(2);
    uint64_t taken = admitted_of_keys(&f, 0, KEYS), again = 0, later_ns = T0 + HOUR + 2 * SECOND;
    struct weir_time time = at(later_ns);
    (void)ask_number(&f, 1, 0, T0);
    weir_limiter_maintain(f.limiter, &time, SIZE_MAX);
    assert_int_equal(weir_logs_used(&f.limiter->logs), 0);
    for (uint64_t i = 0; i < KEYS; i++)
        again += ask_number(&f, 0, i, later_ns).admitted;
    assert_int_equal(again, taken);
    fixture_destroy(&f);
}

/* By the name: neither an override nor a reload gives a limit another part. */
static void side_memory__a_part_is_of_the_name(void **state)
{
    (void)state;
    struct weir_limiter_options options = { .memory_max = MEMORY };
    struct weir_limit_def defs[3] = { { .name = "a" }, { .name = "a", .variant = "v" }, { .name = "b" } };
    struct fixture f = limits_of_permits(2);
    weir_limiter_destroy(f.limiter);
    assert_int_equal(weir_limiter_create(&options, &f.limiter, NULL), 0);
    for (size_t i = 0; i < 3; i++)
        defs[i].spec = limit_of(WEIR_CONCURRENCY, 2, HOUR, 0);
    struct weir_time time = at(T0);
    assert_int_equal(weir_limiter_define(f.limiter, defs, 3, &time, f.ids, NULL), 0);
    assert_int_equal(admitted_of_keys(&f, 0, KEYS), half_of(&f) - floor_of(&f, 2));
    assert_true(ask_number(&f, 1, 2 * KEYS, T0).full);
    defs[0].spec.count = defs[1].spec.count = 1;
    assert_int_equal(weir_limiter_define(f.limiter, defs, 3, &time, f.ids, NULL), 0);
    assert_true(ask_number(&f, 0, 3 * KEYS, T0).full);
    assert_true(ask_number(&f, 1, 4 * KEYS, T0).full);
    assert_int_equal(admitted_of_keys(&f, 2, KEYS), floor_of(&f, 2));
    fixture_destroy(&f);
}

/* What is given back is there for the next. */
static void side_memory__a_permit_given_back_makes_room(void **state)
{
    (void)state;
    struct fixture f = two_limits(WEIR_ON_FULL_EVICT);
    (void)admitted_of_keys(&f, 0, KEYS);
    assert_true(ask_number(&f, 0, KEYS, T0).full);
    give_back(&f, 0, 1, 1);
    maintain(&f, T0 + 2 * SECOND); /* the key is fresh: its room goes to whoever needs it */
    assert_true(ask_number(&f, 0, KEYS, T0 + 2 * SECOND).admitted);
    fixture_destroy(&f);
}

/* A refused newcomer looks at 256 lines; what has been looked through from end to end is remembered, and looked at
 * again after a while: the permits' leases end. */
static void side_memory__a_refused_newcomer_looks_little_and_remembers(void **state)
{
    (void)state;
    for (size_t limit = 0; limit < 2; limit++) { /* permits, and logs that evict nobody */
        struct fixture f = two_limits(WEIR_ON_FULL_REFUSE);
        (void)admitted_of_keys(&f, limit, KEYS);
        uint64_t before = f.limiter->log_cursor;
        assert_true(ask_number(&f, limit, KEYS, T0).full);
        assert_true(f.limiter->log_cursor - before <= 256);
        for (uint64_t i = 0; i < KEYS; i++)
            assert_true(ask_number(&f, limit, 2 * KEYS + i, T0).full);
        assert_true(f.limiter->log_cursor - before <= f.limiter->table.count + 256);
        uint64_t later_ns = T0 + HOUR + 2 * SECOND, admitted = 0;
        for (uint64_t i = 0; i < 100; i++)
            admitted += ask_number(&f, limit, 4 * KEYS + i, later_ns).admitted;
        assert_int_equal(admitted, 100);
        fixture_destroy(&f);
    }
}

/* What a burst took is given back with the next charge that needs much less. */
static void side_memory__a_log_that_was_long_becomes_short(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_SLIDING_LOG, 1000, SECOND, 0);
    assert_true(ask(&f, 1000, T0).admitted);
    const uint64_t long_bytes = weir_logs_used(&f.limiter->logs);
    for (uint64_t i = 0; i < 2; i++) /* the first one sees what has gone */
        assert_true(ask(&f, 1, T0 + 2 * SECOND).admitted);
    assert_true(weir_logs_used(&f.limiter->logs) <= long_bytes / 64);
    assert_int_equal(peek(&f, 0, T0 + 2 * SECOND).remaining, 998);
    fixture_destroy(&f);
}

static void expect_told(struct weir_limiter *limiter, const struct weir_limit_def *defs, size_t count,
                        const char *field, const char *text)
{
    weir_limit_id ids[4];
    struct weir_fault fault = { "before", "before" };
    struct weir_time time = at(T0);
    assert_int_equal(weir_limiter_define(limiter, defs, count, &time, ids, &fault), 0);
    assert_string_equal(fault.field, field);
    assert_string_equal(fault.text, text);
}

/* What is told is so: as many as it says find room, alone, and no more. */
static void side_memory__what_is_too_small_for_one_key_is_told(void **state)
{
    (void)state;
    const struct weir_limiter_options options = { .memory_max = MEMORY, .log_memory_max = (size_t)64 << 10 };
    struct weir_limit_def defs[] = { { "bucket", NULL, limit_of(WEIR_TOKEN_BUCKET, 1000000, HOUR, 0) },
                                     { "log", NULL, limit_of(WEIR_SLIDING_LOG, 2048, HOUR, 0) },
                                     { "log", "big", limit_of(WEIR_SLIDING_LOG, 2048, HOUR, 0) },
                                     { "permits", NULL, limit_of(WEIR_CONCURRENCY, 1024, HOUR, 0) } };
    struct fixture f = { 0 };
    assert_int_equal(weir_limiter_create(&options, &f.limiter, NULL), 0);
    expect_told(f.limiter, defs, 4, "", "");
    const struct weir_limit_def both[] = { defs[3], { "permits", "big", defs[3].spec } };
    expect_told(f.limiter, both, 2, "", ""); /* an override shares its limit's part */
    defs[3].spec.count++;
    expect_told(f.limiter, defs, 4, "permits.count", "is never reached: log_memory_max has room for 1024 of one key");
    expect_told(f.limiter, defs, 3, "", "");
    defs[0] = (struct weir_limit_def){ "permits", "v", limit_of(WEIR_CONCURRENCY, 1, HOUR, 0) };
    expect_told(f.limiter, defs, 4, "permits.count", "is never reached: log_memory_max has room for 1024 of one key");
    defs[0].name = "others"; /* which have a part of what permits may take; an override has none of its own */
    expect_told(f.limiter, defs, 4, "permits.count", "is never reached: log_memory_max has room for 512 of one key");
    defs[3].spec.count = 512;
    expect_told(f.limiter, defs, 4, "", "");
    defs[2].spec.count = 5000;
    expect_told(f.limiter, defs, 3, "log.count", "is never reached: log_memory_max has room for 2048 of one key");
    const struct weir_limit_spec alone[] = { limit_of(WEIR_SLIDING_LOG, 5000, HOUR, 0),
                                             limit_of(WEIR_CONCURRENCY, 5000, HOUR, 0) };
    for (size_t i = 0; i < 2; i++) {
        uint64_t admitted = 0;
        fixture_define(&f, &alone[i], 1, T0);
        while (ask_number(&f, 0, 1, T0).admitted)
            admitted++;
        assert_int_equal(admitted, i == 0 ? 2048 : 1024);
        fixture_define(&f, NULL, 0, T0);
    }
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(side_memory__permits_take_at_most_half),
        cmocka_unit_test(side_memory__floods_one_after_another_leave_each_limit_its_floor),
        cmocka_unit_test(side_memory__floods_at_once_leave_each_limit_its_floor),
        cmocka_unit_test(side_memory__a_floor_stands_after_permits_are_given_back),
        cmocka_unit_test(side_memory__a_limit_added_by_a_reload_gets_what_becomes_free),
        cmocka_unit_test(side_memory__a_limit_removed_by_a_reload_leaves_its_part),
        cmocka_unit_test(side_memory__a_part_comes_back_when_its_leases_end),
        cmocka_unit_test(side_memory__a_part_is_of_the_name),
        cmocka_unit_test(side_memory__a_permit_given_back_makes_room),
        cmocka_unit_test(side_memory__a_refused_newcomer_looks_little_and_remembers),
        cmocka_unit_test(side_memory__what_is_too_small_for_one_key_is_told),
        cmocka_unit_test(side_memory__a_log_that_was_long_becomes_short),
    };
    return cmocka_run_group_tests_name("side memory", tests, NULL, NULL);
}
