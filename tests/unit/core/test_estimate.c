/* SPDX-License-Identifier: Apache-2.0
 *
 * The quantile against a sorted list: never below it, and at most an eighth above. */
#include "core/limit/estimate.h"

#include "fixture.h"
#include "random.h"

#define TOLD 1000

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void is_at_most_an_eighth_above_the_quantile_of_a_sorted_list(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    static uint64_t list[TOLD];
    for (uint64_t round = test_effort(20, 200, 5000); round > 0; round--) {
        struct weir_estimate estimate = { 0 };
        const unsigned bits = 1 + (unsigned)test_random_below(&random, 63);
        for (size_t i = 0; i < TOLD; i++) {
            list[i] = test_random_u64(&random) >> (64 - bits) >> test_random_below(&random, bits);
            weir_estimate_tell(&estimate, list[i]);
        }
        qsort(list, TOLD, sizeof list[0], compare);
        for (uint32_t percent = 50; percent <= 99; percent++) {
            const uint64_t exact = list[(TOLD * percent + 99) / 100 - 1];
            const uint64_t told = weir_estimate_quantile(&estimate, percent);
            assert_true(told >= exact && told >= 1);
            assert_true(told <= exact + exact / 8 || told == 1);
        }
    }
}

static void little_is_known_before_the_twentieth(void **state)
{
    (void)state;
    struct weir_estimate estimate = { 0 };
    for (unsigned i = 0; i < 19; i++)
        weir_estimate_tell(&estimate, 100);
    assert_int_equal(weir_estimate_quantile(&estimate, 95), 0);
    weir_estimate_tell(&estimate, UINT64_MAX); /* however much */
    assert_int_equal(weir_estimate_quantile(&estimate, 95), 103);
    assert_true(weir_estimate_quantile(&estimate, 99) >= INT64_MAX);
}

static void what_was_told_long_ago_fades(void **state)
{
    (void)state;
    struct weir_estimate estimate = { 0 };
    for (unsigned i = 0; i < 2000; i++)
        weir_estimate_tell(&estimate, 10);
    for (unsigned i = 0; i < 2000; i++)
        weir_estimate_tell(&estimate, 1000);
    assert_int_equal(weir_estimate_quantile(&estimate, 50), 1023);
    for (unsigned i = 0; i < 10000; i++)
        weir_estimate_tell(&estimate, 10);
    assert_int_equal(weir_estimate_quantile(&estimate, 95), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_at_most_an_eighth_above_the_quantile_of_a_sorted_list),
        cmocka_unit_test(little_is_known_before_the_twentieth),
        cmocka_unit_test(what_was_told_long_ago_fades),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
