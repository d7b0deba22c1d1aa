/* SPDX-License-Identifier: Apache-2.0
 *
 * The side memory of logs and permits when it is full: who gets room, and how long a newcomer looks for it. */
#include "engine/memory.h"
#include "fixture.h"

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

/* What is given back is there for the next. */
static void side_memory__a_permit_given_back_makes_room(void **state)
{
    (void)state;
    struct fixture f = two_limits(WEIR_ON_FULL_EVICT);
    (void)admitted_of_keys(&f, 0, KEYS);
    uint64_t number = 0, units = 0;
    struct weir_slice value = { &number, sizeof(number) };
    struct weir_key key;
    struct weir_time time = at(T0);
    assert_true(ask_number(&f, 0, KEYS, T0).full);
    assert_int_equal(weir_limiter_key(f.limiter, f.ids[0], &value, 1, &key), 0);
    assert_int_equal(weir_limiter_release(f.limiter, &key, 1, 1, &time, &units), 0);
    assert_int_equal(units, 1);
    time = at(T0 + 2 * SECOND); /* the key is fresh: its room goes to whoever needs it */
    while (weir_limiter_maintain(f.limiter, &time, 1024)) {
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(side_memory__permits_take_at_most_half),
        cmocka_unit_test(side_memory__a_permit_given_back_makes_room),
        cmocka_unit_test(side_memory__a_refused_newcomer_looks_little_and_remembers),
    };
    return cmocka_run_group_tests_name("side memory", tests, NULL, NULL);
}
