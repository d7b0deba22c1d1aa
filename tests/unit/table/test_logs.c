/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "random.h"
#include "table/logs.h"

#define ARENA ((size_t)4 << 20)
#define RINGS 4096

/* Rings are marked from end to end with their number: an overlap would show. */
static void mark(const struct weir_logs *logs, uint32_t block, uint32_t entries, uint64_t value)
{
    uint64_t *times = weir_logs_times(logs, block);
    for (uint32_t i = 0; i < entries; i++)
        times[i] = value;
}

static void check_mark(const struct weir_logs *logs, uint32_t block, uint32_t entries, uint64_t value)
{
    const uint64_t *times = weir_logs_times(logs, block);
    for (uint32_t i = 0; i < entries; i++)
        assert_int_equal(times[i], value);
}

static void rings_never_overlap_and_all_come_back(void **state)
{
    static uint32_t block[RINGS], entries[RINGS];
    struct test_random random = { test_random_seed() };
    struct weir_logs logs;
    uint64_t taken = 0, refused = 0;
    (void)state;
    assert_int_equal(weir_logs_init(&logs, ARENA), 0);
    for (int step = 0; step < 200000; step++) {
        size_t i = test_random_below(&random, RINGS);
        if (entries[i] > 0) {
            check_mark(&logs, block[i], entries[i], i);
            weir_logs_give(&logs, block[i], entries[i]);
            taken -= entries[i] * sizeof(uint64_t);
            entries[i] = 0;
        } else {
            uint32_t want = 8u << test_random_below(&random, test_random_below(&random, WEIR_LOGS_ORDERS) + 1);
            block[i] = weir_logs_take(&logs, want, 0);
            if (block[i] == WEIR_LOGS_NONE) {
                refused++;
                continue;
            }
            entries[i] = want;
            taken += want * sizeof(uint64_t);
            mark(&logs, block[i], want, i);
        }
        assert_int_equal(weir_logs_used(&logs), taken);
    }
    assert_true(refused > 0); /* the bound was met */
    for (size_t i = 0; i < RINGS; i++)
        if (entries[i] > 0)
            weir_logs_give(&logs, block[i], entries[i]);
    assert_int_equal(weir_logs_used(&logs), 0);
    /* Everything has joined again: the largest rings fit as often as in a new arena. */
    unsigned largest = 0;
    while (weir_logs_take(&logs, 65536, 0) != WEIR_LOGS_NONE)
        largest++;
    assert_int_equal(largest, ARENA / (65536 * sizeof(uint64_t)) - 1); /* the last one's room keeps the states */
    weir_logs_check(&logs);
    weir_logs_deinit(&logs);
}

static size_t resident_pages(const struct weir_logs *logs)
{
    static unsigned char resident[ARENA / 4096];
    size_t pages = (logs->blocks * (size_t)64 + 4095) / 4096, count = 0;
    assert_true(pages <= sizeof(resident));
    assert_int_equal(mincore(logs->memory, pages * 4096, resident), 0);
    for (size_t i = 0; i < pages; i++)
        count += resident[i] & 1;
    return count;
}

static void a_start_touches_no_page_of_the_largest_rings(void **state)
{
    struct weir_logs logs;
    (void)state;
    assert_int_equal(weir_logs_init(&logs, ARENA), 0);
    assert_true(resident_pages(&logs) < WEIR_LOGS_ORDERS); /* of what is smaller than the largest ring */
    uint32_t taken = 0;
    while (weir_logs_take(&logs, 65536, 0) != WEIR_LOGS_NONE)
        assert_true(resident_pages(&logs) < WEIR_LOGS_ORDERS + ++taken);
    assert_int_equal(taken, logs.blocks / 8192);
    weir_logs_deinit(&logs);
}

static void no_memory_is_legal(void **state)
{
    struct weir_logs logs;
    (void)state;
    assert_int_equal(weir_logs_init(&logs, 0), 0);
    uint16_t owner = 1;
    weir_logs_share(&logs, &owner, 1);
    assert_int_equal(weir_logs_take(&logs, 8, 0), WEIR_LOGS_NONE);
    assert_int_equal(weir_logs_take(&logs, 8, 1), WEIR_LOGS_NONE);
    assert_int_equal(weir_logs_used(&logs), 0);
    weir_logs_check(&logs);
    weir_logs_deinit(&logs);
}

/* The rule of floors, from nothing but who holds how much now. */
static bool slow_full(uint64_t half, const uint64_t *held, const bool *shares, size_t owners, size_t owner,
                      uint64_t blocks)
{
    uint64_t sharers = 0, kept = blocks, open = 0;
    for (size_t i = 0; i < owners; i++) {
        sharers += shares[i];
        kept += held[i];
    }
    uint64_t floor = sharers ? half / (2 * sharers) : 0;
    for (size_t i = 0; i < owners; i++)
        open += i != owner && shares[i] && held[i] < floor ? floor - held[i] : 0;
    bool below = shares[owner] && held[owner] + blocks <= floor;
    return kept > half || (!below && kept + open > half);
}

enum { OWNERS = 9, KEPT_RINGS = 400 };

static void logs__floors_agree_with_a_slow_reference(void **state)
{
    (void)state;
    struct weir_logs logs;
    struct test_random random = { test_random_seed() };
    uint64_t held[OWNERS] = { 0 };
    bool shares[OWNERS] = { false };
    struct {
        uint32_t block, entries;
        size_t owner;
    } rings[KEPT_RINGS];
    size_t count = 0;
    assert_int_equal(weir_logs_init(&logs, 64 * 1024), 0);
    for (unsigned step = 0; step < 50000; step++) {
        uint64_t dice = test_random_below(&random, 1000);
        if (dice == 0) { /* another set */
            uint16_t owners[2 * OWNERS];
            size_t sharers = 0;
            for (size_t i = 0; i < OWNERS; i++)
                if ((shares[i] = test_random_below(&random, 2))) {
                    owners[sharers++] = (uint16_t)(i + 1);
                    owners[sharers++] = (uint16_t)(i + 1);
                }
            weir_logs_share(&logs, owners, sharers);
        } else if (dice < 450 && count > 0) {
            size_t i = test_random_below(&random, count);
            weir_logs_give(&logs, rings[i].block, rings[i].entries);
            held[rings[i].owner] -= rings[i].entries / 8;
            rings[i] = rings[--count];
        } else if (count < KEPT_RINGS) {
            size_t owner = test_random_below(&random, OWNERS);
            uint32_t entries = 8u << test_random_below(&random, 4);
            bool full = slow_full(logs.blocks / 2, held, shares, OWNERS, owner, entries / 8);
            assert_int_equal(weir_logs_kept_full(&logs, entries, (uint16_t)(owner + 1)), full);
            uint32_t block = weir_logs_take(&logs, entries, (uint16_t)(owner + 1));
            if (full)
                assert_int_equal(block, WEIR_LOGS_NONE);
            if (block == WEIR_LOGS_NONE)
                continue;
            held[owner] += entries / 8;
            rings[count].block = block;
            rings[count].entries = entries;
            rings[count++].owner = owner;
        }
    }
    weir_logs_check(&logs);
    weir_logs_deinit(&logs);
}

/* Small arenas of every size: all that fits is given out, in rings of any size, and what is kept is at most half. */
static void logs__every_block_of_an_arena_is_given_out(void **state)
{
    (void)state;
    for (size_t blocks = 1; blocks < 70; blocks++) {
        struct weir_logs logs;
        uint32_t taken = 0;
        assert_int_equal(weir_logs_init(&logs, blocks * (64 + 1 + 2)), 0);
        assert_int_equal(logs.blocks, blocks);
        while (weir_logs_take(&logs, 8, 0) != WEIR_LOGS_NONE)
            taken++;
        assert_int_equal(taken, blocks);
        assert_int_equal(weir_logs_used(&logs), blocks * 64);
        for (uint32_t i = 0; i < blocks; i++)
            weir_logs_give(&logs, i, 8);
        const uint16_t last = WEIR_LOGS_OWNERS;
        weir_logs_share(&logs, &last, 1);
        for (taken = 0; weir_logs_take(&logs, 8, last) != WEIR_LOGS_NONE; taken++)
            assert_int_equal(weir_logs_kept(&logs), (taken + 1) * 64);
        assert_int_equal(taken, blocks / 2);
        assert_true(weir_logs_kept_full(&logs, 8, last));
        weir_logs_check(&logs);
        weir_logs_deinit(&logs);
    }
}

/* Who keeps nothing may have all, who keeps what it takes no more than half. */
static void the_longest_ring_is_bounded_by_who_takes_it(void **state)
{
    (void)state;
    static const struct {
        size_t blocks, owners;
        uint32_t entries;
    } cases[] = { { 0, 0, 0 }, { 1, 0, 8 }, { 3, 0, 16 }, { 1, 1, 0 }, { 3, 1, 8 }, { 6, 1, 16 }, { 7, 0, 32 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t entries = 77;
        assert_int_equal(weir_logs_longest(cases[i].blocks * (64 + 3), cases[i].owners, &entries), 0);
        assert_int_equal(entries, cases[i].entries);
    }
}

/* As a ring of one owner grows, beside others whose floors are open: it is taken anew, and then the old one goes. */
static void the_longest_ring_is_the_one_that_there_is(void **state)
{
    (void)state;
    for (size_t blocks = 1; blocks < 300; blocks++)
        for (uint16_t owners = 1; owners <= 9; owners++) {
            uint16_t all[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
            struct weir_logs logs;
            uint32_t held = WEIR_LOGS_NONE, entries = 0, told = 77;
            assert_int_equal(weir_logs_init(&logs, blocks * (64 + 3)), 0);
            weir_logs_share(&logs, all, owners);
            for (uint32_t next = WEIR_LOGS_ENTRIES_MIN; next <= WEIR_LOGS_ENTRIES_MIN << (WEIR_LOGS_ORDERS - 1);
                 next *= 2) {
                const uint32_t block = weir_logs_take(&logs, next, 1);
                if (block == WEIR_LOGS_NONE)
                    break;
                if (held != WEIR_LOGS_NONE)
                    weir_logs_give(&logs, held, entries);
                held = block;
                entries = next;
            }
            assert_int_equal(weir_logs_longest(blocks * (64 + 3), owners, &told), 0);
            assert_int_equal(told, entries);
            weir_logs_deinit(&logs);
        }
}

static void the_memory_goes_with_the_logs(void **state)
{
    (void)state;
    struct weir_logs logs;
    unsigned char there;
    assert_int_equal(weir_logs_init(&logs, ARENA), 0);
    void *memory = logs.memory;
    assert_int_equal(mincore(memory, 1, &there), 0);
    weir_logs_deinit(&logs);
    assert_int_equal(mincore(memory, 1, &there), -1);
    assert_int_equal(errno, ENOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_ring_is_bounded_by_who_takes_it),
        cmocka_unit_test(the_longest_ring_is_the_one_that_there_is),
        cmocka_unit_test(the_memory_goes_with_the_logs),
        cmocka_unit_test(rings_never_overlap_and_all_come_back),
        cmocka_unit_test(a_start_touches_no_page_of_the_largest_rings),
        cmocka_unit_test(no_memory_is_legal),
        cmocka_unit_test(logs__every_block_of_an_arena_is_given_out),
        cmocka_unit_test(logs__floors_agree_with_a_slow_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
