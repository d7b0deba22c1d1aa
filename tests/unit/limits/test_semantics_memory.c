/* SPDX-License-Identifier: Apache-2.0
 *
 * semantics.md, "Memory": a bounded table, full and overfull (docs/semantics-tests.md). WEIR_TEST_EFFORT=soak floods
 * with 10 million keys. */
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"
#include "random.h"

#define MEMORY ((size_t)256 << 10)
#define SLOTS_MAX (MEMORY / 16) /* more keys than a table of that size could hold */

/* Enough to overfill it; fewer of the keys that take two slots, and longer to place. */
static uint64_t flood_of(int algorithm)
{
    return algorithm == WEIR_TOKEN_BUCKET || algorithm == WEIR_LEAKY_BUCKET ? 4 * SLOTS_MAX : SLOTS_MAX * 3 / 4;
}

static struct fixture small_table(const struct weir_limit_spec *specs, size_t count)
{
    struct weir_limiter_options options = { .memory_max = MEMORY };
    return fixture_create_with(&options, specs, count);
}

static struct weir_verdict ask_number(const struct fixture *f, size_t limit, uint64_t number, uint64_t cost,
                                      uint64_t now_ns)
{
    struct weir_charge charge = { .limit = f->ids[limit], .cost = cost };
    struct weir_slice value = { &number, sizeof(number) };
    struct weir_verdict verdict;
    struct weir_time time = at(now_ns);
    assert_int_equal(weir_limiter_key(f->limiter, f->ids[limit], &value, 1, &charge.key), 0);
    assert_int_equal(weir_limiter_decide_many(f->limiter, &charge, 1, &time, 0, &verdict), 0);
    return verdict;
}

/* Fresh keys of a limit, one unit each; returns how many were admitted. */
static uint64_t flood(const struct fixture *f, size_t limit, uint64_t from, uint64_t keys, uint64_t now_ns)
{
    uint64_t admitted = 0;
    for (uint64_t i = 0; i < keys; i++) {
        admitted += ask_number(f, limit, from + i, 1, now_ns).admitted;
    }
    return admitted;
}

static struct weir_limiter_stats stats_of(const struct fixture *f)
{
    struct weir_limiter_stats stats;
    weir_limiter_stats(f->limiter, &stats);
    return stats;
}

static size_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long size = 0, resident = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &size, &resident), 2);
    fclose(file);
    return (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void memory__a_table_never_exceeds_its_configured_size(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = limit_of((enum weir_algorithm)algorithm, 10, HOUR, 0);
        struct fixture f = small_table(&spec, 1);
        size_t before = resident_bytes();
        for (uint64_t part = 0; part < 8; part++) {
            flood(&f, 0, part * flood_of(algorithm) / 8, flood_of(algorithm) / 8, T0 + part);
            struct weir_limiter_stats stats = stats_of(&f);
            assert_int_equal(stats.memory_max, MEMORY);
            assert_true(stats.memory_used <= MEMORY);
        }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        assert_true(resident_bytes() <= before + MEMORY + ((size_t)512 << 10));
#else
        (void)before;
#endif
        fixture_destroy(&f);
    }
}

/* 32 bytes a key, everything included. */
static void memory__keys_take_at_most_32_bytes(void **state)
{
    (void)state;
    uint64_t keys = test_effort(200000, 200000, 10000000);
    struct weir_limiter_options options = { .memory_max = (size_t)(keys * 32) };
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture f = fixture_create_with(&options, &spec, 1);
    size_t before = resident_bytes();
    assert_int_equal(flood(&f, 0, 0, keys, T0), keys);
    struct weir_limiter_stats stats = stats_of(&f);
    assert_int_equal(stats.evicted, 0);
    assert_int_equal(stats.keys, keys);
    assert_true(stats.memory_used <= keys * 32);
    assert_true(resident_bytes() - before <= keys * 32 + ((size_t)512 << 10));
    for (uint64_t i = 0; i < keys; i += 997) {
        assert_int_equal(ask_number(&f, 0, i, 0, T0).remaining, 9);
    }
    fixture_destroy(&f);
}

/* 10/hour: a key of one unit is fresh after 6 minutes, and its slot free a second later; no eviction is counted. */
static void memory__a_slot_is_free_once_fresh_for_the_skew(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture f = small_table(&spec, 1);
    flood(&f, 0, 0, 4 * SLOTS_MAX, T0);
    uint64_t evicted = stats_of(&f).evicted;
    assert_true(evicted > 0);
    uint64_t room = stats_of(&f).keys; /* full: as many as there is room for */
    uint64_t later = T0 + 6 * MINUTE + SECOND + 1;
    flood(&f, 0, 10 * SLOTS_MAX, room / 4, later);
    assert_int_equal(stats_of(&f).evicted, evicted);
    fixture_destroy(&f);
}

static void memory__a_newcomer_always_finds_a_place(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = limit_of((enum weir_algorithm)algorithm, 10, HOUR, 0);
        struct fixture f = small_table(&spec, 1);
        assert_int_equal(flood(&f, 0, 0, flood_of(algorithm), T0), flood_of(algorithm));
        assert_true(stats_of(&f).evicted > 0);
        assert_int_equal(stats_of(&f).refused_full, 0);
        fixture_destroy(&f);
    }
}

/* Not the oldest: 100 keys that need longest stay, though they came first, while later ones go. */
static void memory__the_resident_with_the_least_time_until_fresh_goes(void **state)
{
    (void)state;
    struct weir_limit_spec specs[2] = { limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0),
                                        limit_of(WEIR_TOKEN_BUCKET, 1000, SECOND, 0) };
    struct fixture f = small_table(specs, 2);
    for (uint64_t i = 0; i < 100; i++) {
        assert_true(ask_number(&f, 0, i, 1, T0).admitted); /* fresh in 6 minutes */
    }
    flood(&f, 1, 0, 8 * SLOTS_MAX, T0); /* of another limit: fresh in 1 ms */
    assert_true(stats_of(&f).evicted > SLOTS_MAX);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(ask_number(&f, 0, i, 0, T0).remaining, 9);
    }
    struct weir_limit_stats slow, fast;
    assert_int_equal(weir_limiter_limit_stats(f.limiter, f.ids[0], &slow), 0);
    assert_int_equal(weir_limiter_limit_stats(f.limiter, f.ids[1], &fast), 0);
    assert_int_equal(slow.evicted, 0);
    assert_int_equal(fast.evicted, stats_of(&f).evicted);
    fixture_destroy(&f);
}

static void memory__an_offender_outlives_a_flood_of_fresher_keys(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_LEAKY_BUCKET; algorithm++) { /* the others: test_semantics_flood.c */
        struct weir_limit_spec spec = limit_of((enum weir_algorithm)algorithm, 10, HOUR, 10);
        struct fixture f = small_table(&spec, 1);
        assert_true(ask(&f, 10, T0).admitted);
        flood(&f, 0, 0, test_effort(2 * SLOTS_MAX, 8 * SLOTS_MAX, 10000000), T0 + 1);
        assert_true(stats_of(&f).evicted > SLOTS_MAX);
        struct weir_verdict v = ask(&f, 1, T0 + 2);
        assert_false(v.admitted);
        assert_int_equal(v.retry_after_ns, 6 * MINUTE - 2);
        fixture_destroy(&f);
    }
}

/* Capacity 1: the flood's keys are as far from fresh as the offender. Refusing newcomers keeps it where it is. */
static void memory__on_full_refuse_keeps_an_offender_of_capacity_1(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 1);
    spec.on_full = WEIR_ON_FULL_REFUSE;
    struct fixture f = small_table(&spec, 1);
    assert_true(ask(&f, 1, T0).admitted);
    uint64_t keys = test_effort(8 * SLOTS_MAX, 8 * SLOTS_MAX, 10000000);
    uint64_t admitted = flood(&f, 0, 0, keys, T0 + 1);
    struct weir_limiter_stats stats = stats_of(&f);
    struct weir_limit_stats limit;
    assert_int_equal(weir_limiter_limit_stats(f.limiter, f.ids[0], &limit), 0);
    assert_int_equal(stats.evicted, 0);
    assert_true(admitted < SLOTS_MAX);
    assert_int_equal(stats.refused_full, keys - admitted);
    assert_int_equal(limit.refused_full, keys - admitted);
    assert_false(ask(&f, 1, T0 + 2).admitted);
    struct weir_verdict v = ask_number(&f, 0, keys * 2, 1, T0 + 2);
    assert_true(!v.admitted && v.full && v.retry_after_ns > 0);
    assert_true(v.remaining == 0 && v.reset_after_ns == v.retry_after_ns); /* not what a fresh key would have */
    /* A reload may say otherwise. */
    spec.on_full = WEIR_ON_FULL_EVICT;
    fixture_define(&f, &spec, 1, T0 + 2);
    assert_true(ask_number(&f, 0, keys * 2, 1, T0 + 2).admitted);
    fixture_destroy(&f);
}

/* With evict, each key that lost its place is counted: as many as came and are not there. */
static void memory__each_eviction_is_counted_by_limit(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = limit_of((enum weir_algorithm)algorithm, 1, HOUR, 0);
        struct fixture f = small_table(&spec, 1);
        flood(&f, 0, 0, flood_of(algorithm), T0);
        struct weir_limiter_stats stats = stats_of(&f);
        struct weir_limit_stats limit;
        assert_int_equal(weir_limiter_limit_stats(f.limiter, f.ids[0], &limit), 0);
        assert_int_equal(stats.inserted, flood_of(algorithm));
        assert_int_equal(stats.inserted - stats.evicted, stats.keys);
        assert_int_equal(limit.evicted, stats.evicted);
        spec.count = 2; /* and goes on over a reload */
        fixture_define(&f, &spec, 1, T0);
        assert_int_equal(weir_limiter_limit_stats(f.limiter, f.ids[0], &limit), 0);
        assert_int_equal(limit.evicted, stats.evicted);
        fixture_destroy(&f);
    }
}

/* Among equals an eviction forgives one capacity: with each eviction counted, no more than that is admitted again. */
static void memory__an_eviction_forgives_at_most_one_capacity(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 3, HOUR, 3);
    struct fixture f = small_table(&spec, 1);
    uint64_t keys = 3 * SLOTS_MAX, admitted = 0;
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < keys; i++) {
            admitted += 3 * ask_number(&f, 0, i, 3, T0).admitted;
        }
    }
    assert_true(admitted <= 3 * (keys + stats_of(&f).evicted));
    fixture_destroy(&f);
}

static void memory__a_key_can_be_forgotten(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        struct weir_limit_spec spec = limit_of((enum weir_algorithm)algorithm, 10, HOUR, 0);
        struct fixture f = small_table(&spec, 1);
        bool found = true;
        struct weir_charge charge = charge_of(&f, 0, "k", 0);
        assert_int_equal(weir_limiter_forget(f.limiter, &charge, &found), 0);
        assert_false(found);
        struct weir_time now = weir_time_read(); /* forget goes by the limiter's own clock */
        ask_at(&f, "k", 10, now, 0);
        assert_int_equal(weir_limiter_forget(f.limiter, &charge, &found), 0);
        assert_true(found);
        assert_int_equal(ask_at(&f, "k", 0, now, 0).remaining, 10);
        fixture_destroy(&f);
    }
}

static void memory__an_option_out_of_range_is_named(void **state)
{
    (void)state;
    static const struct {
        struct weir_limiter_options options;
        int error;
        const char *field, *text;
    } cases[] = {
        { { .memory_max = WEIR_MEMORY_MIN }, 0, "", "" },
        { { .memory_max = WEIR_MEMORY_MIN - 1 }, WEIR_ERANGE, "memory_max", "must be 65536 to 2^46 bytes" },
        { { .memory_max = ((size_t)1 << 46) + 1 }, WEIR_ERANGE, "memory_max", "must be 65536 to 2^46 bytes" },
        { { .memory_max = 1 << 20, .log_memory_max = 1 << 19 }, 0, "", "" },
        { { .memory_max = 1 << 20, .log_memory_max = (1 << 19) + 1 },
          WEIR_ERANGE,
          "log_memory_max",
          "must be at most half of memory_max" },
        { { .log_memory_max = WEIR_MEMORY_DEFAULT / 2 + 1 },
          WEIR_ERANGE,
          "log_memory_max",
          "must be at most half of memory_max" },
        { { .memory_max = 1 << 20, .skew_max_ns = HOUR }, 0, "", "" },
        { { .skew_max_ns = HOUR + 1 }, WEIR_ERANGE, "skew_max_ns", "must be at most 1 hour, and 0 with skew_none" },
        { { .memory_max = 1 << 20, .skew_none = true }, 0, "", "" },
        { { .skew_none = true, .skew_max_ns = 1 },
          WEIR_ERANGE,
          "skew_max_ns",
          "must be at most 1 hour, and 0 with skew_none" },
        { { .reserved = { 1 } }, WEIR_EINVAL, "reserved", "must be 0: only a later release knows what it means" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_limiter *limiter = NULL;
        struct weir_fault fault = { 0 };
        assert_int_equal(weir_limiter_create(&cases[i].options, &limiter, &fault), cases[i].error);
        assert_string_equal(fault.field, cases[i].field);
        assert_string_equal(fault.text, cases[i].text);
        assert_int_equal(limiter == NULL, cases[i].error != 0);
        weir_limiter_destroy(limiter);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory__a_table_never_exceeds_its_configured_size),
        cmocka_unit_test(memory__keys_take_at_most_32_bytes),
        cmocka_unit_test(memory__a_slot_is_free_once_fresh_for_the_skew),
        cmocka_unit_test(memory__a_newcomer_always_finds_a_place),
        cmocka_unit_test(memory__the_resident_with_the_least_time_until_fresh_goes),
        cmocka_unit_test(memory__an_offender_outlives_a_flood_of_fresher_keys),
        cmocka_unit_test(memory__on_full_refuse_keeps_an_offender_of_capacity_1),
        cmocka_unit_test(memory__each_eviction_is_counted_by_limit),
        cmocka_unit_test(memory__an_eviction_forgives_at_most_one_capacity),
        cmocka_unit_test(memory__a_key_can_be_forgotten),
        cmocka_unit_test(memory__an_option_out_of_range_is_named),
    };
    return cmocka_run_group_tests_name("semantics: memory", tests, NULL, NULL);
}
