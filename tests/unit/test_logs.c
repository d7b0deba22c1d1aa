/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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
            block[i] = weir_logs_take(&logs, want, false);
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
    while (weir_logs_take(&logs, 65536, false) != WEIR_LOGS_NONE)
        largest++;
    assert_int_equal(largest, ARENA / (65536 * sizeof(uint64_t)) - 1); /* the last one's room keeps the states */
    weir_logs_deinit(&logs);
}

static void no_memory_is_legal(void **state)
{
    struct weir_logs logs;
    (void)state;
    assert_int_equal(weir_logs_init(&logs, 0), 0);
    assert_int_equal(weir_logs_take(&logs, 8, false), WEIR_LOGS_NONE);
    assert_int_equal(weir_logs_used(&logs), 0);
    weir_logs_deinit(&logs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_never_overlap_and_all_come_back),
        cmocka_unit_test(no_memory_is_legal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
