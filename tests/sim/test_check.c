/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker against the definition, by brute force over every interval; and what an allowance excuses. */
#include "sim/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "random.h"

#define SECOND WEIR_NS_PER_SECOND
#define SPENDS 400

struct spends {
    uint64_t at_ns[SPENDS], units[SPENDS];
    size_t count;
};

/* ceil(max over s of admitted in [s, t] - n (t - s) / p) - b, t being now; 0 if below. */
static uint64_t bucket_excess(const struct spends *spends, const struct weir_limit_spec *limit)
{
    weir_u128 most = 0, sum = 0, full = (weir_u128)weir_limit_capacity(limit) * limit->period_ns;
    uint64_t now_ns = spends->at_ns[spends->count - 1];
    for (size_t i = spends->count; i > 0; i--) {
        sum += (weir_u128)spends->units[i - 1] * limit->period_ns;
        weir_u128 back = (weir_u128)limit->count * (now_ns - spends->at_ns[i - 1]);
        most = sum > back && sum - back > most ? sum - back : most;
    }
    return most > full ? (uint64_t)((most - full + limit->period_ns - 1) / limit->period_ns) : 0;
}

static uint64_t log_excess(const struct spends *spends, const struct weir_limit_spec *limit)
{
    uint64_t sum = 0, now_ns = spends->at_ns[spends->count - 1];
    for (size_t i = 0; i < spends->count; i++)
        sum += spends->at_ns[i] + limit->period_ns > now_ns ? spends->units[i] : 0;
    return weir_sub_sat(sum, limit->count);
}

static void compare(enum weir_algorithm algorithm,
                    uint64_t (*excess)(const struct spends *, const struct weir_limit_spec *))
{
    struct test_random random = { test_random_seed() };
    for (int round = 0; round < 200; round++) {
        struct weir_limit_spec limit = { .algorithm = algorithm };
        struct weir_sim_check check;
        static struct spends spends;
        limit.count = 1 + test_random_below(&random, 50);
        limit.period_ns = 1 + test_random_below(&random, SECOND);
        limit.burst = algorithm == WEIR_TOKEN_BUCKET ? 1 + test_random_below(&random, 50) : 0;
        weir_sim_check_init(&check, &limit);
        uint64_t now_ns = 0;
        for (spends.count = 0; spends.count < SPENDS;) {
            uint64_t factor = test_random_below(&random, 3);
            now_ns += factor * test_random_below(&random, limit.period_ns / limit.count + 1);
            spends.at_ns[spends.count] = now_ns;
            spends.units[spends.count++] = 1 + test_random_below(&random, 3);
            uint64_t over = weir_sim_check_admit(&check, now_ns, 0, spends.units[spends.count - 1]);
            assert_int_equal(over, excess(&spends, &limit));
        }
        weir_sim_check_deinit(&check);
    }
}

static void bucket_is_exact(void **state)
{
    (void)state;
    compare(WEIR_TOKEN_BUCKET, bucket_excess);
}

static void log_is_exact(void **state)
{
    (void)state;
    compare(WEIR_SLIDING_LOG, log_excess);
}

static void window_counts_each_window(void **state)
{
    (void)state;
    struct weir_limit_spec limit = { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = SECOND };
    struct weir_sim_check check;
    weir_sim_check_init(&check, &limit);
    assert_int_equal(weir_sim_check_admit(&check, 1, 7, 10), 0);
    assert_int_equal(weir_sim_check_admit(&check, 2, 8, 10), 0);
    assert_int_equal(weir_sim_check_admit(&check, 3, 7, 1), 1); /* late, of the old one */
    assert_int_equal(weir_sim_check_admit(&check, 4, 8, 2), 2);
    weir_sim_check_deinit(&check);
}

/* Told in an order that is nearly that of time; as many nodes as there are bits in the mask. */
static void windows_of_own_clocks_count_since_they_began(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (int round = 0; round < 200; round++) {
        struct weir_limit_spec limit = { .algorithm = WEIR_SLIDING_COUNTER, .period_ns = 1000 };
        struct weir_sim_spend spends[SPENDS];
        struct weir_sim_check check;
        limit.count = 1 + test_random_below(&random, 50);
        weir_sim_check_init(&check, &limit);
        uint64_t now_ns = 5000;
        for (size_t count = 0; count < SPENDS; count++) {
            now_ns += test_random_below(&random, 60);
            struct weir_sim_spend *last = &spends[count];
            *last = (struct weir_sim_spend){ now_ns - test_random_below(&random, 100),
                                             1 + test_random_below(&random, 3),
                                             (uint32_t)test_random_below(&random, 3) };
            uint64_t since_ns = last->at_ns - test_random_below(&random, limit.period_ns), units = 0;
            uint64_t nodes = test_random_below(&random, 8);
            for (size_t i = 0; i <= count; i++)
                units += spends[i].at_ns >= since_ns && spends[i].at_ns <= last->at_ns && nodes >> spends[i].node & 1
                             ? spends[i].units
                             : 0;
            assert_int_equal(weir_sim_check_admit_since(&check, last, since_ns, nodes, limit.count),
                             weir_sub_sat(units, limit.count));
        }
        weir_sim_check_deinit(&check);
    }
}

static void allowance_excuses_its_own_time_only(void **state)
{
    (void)state;
    struct weir_limit_spec limit = { .count = 10, .period_ns = SECOND, .burst = 10 };
    struct weir_sim_check check;
    weir_sim_check_init(&check, &limit);
    weir_sim_check_allow(&check, 0, SECOND, 5);
    assert_int_equal(weir_sim_check_admit(&check, 0, 0, 15), 5);
    assert_int_equal(weir_sim_check_allowed(&check), 5);
    /* Beyond its grace: intervals that began before it still have it, later ones do not. */
    assert_int_equal(weir_sim_check_admit(&check, SECOND, 0, 10), 0);
    assert_int_equal(weir_sim_check_allowed(&check), 0);
    assert_int_equal(weir_sim_check_admit(&check, 9 * SECOND, 0, 15), 5);
    assert_int_equal(weir_sim_check_allowed(&check), 0);
    weir_sim_check_deinit(&check);
}

/* A check that begins later excuses what happened before, as long as the other one does. */
static void what_counts_in_another_check_counts_here(void **state)
{
    (void)state;
    struct weir_limit_spec limit = { .count = 10, .period_ns = SECOND, .burst = 10 };
    struct weir_sim_check before, after;
    weir_sim_check_init(&before, &limit);
    weir_sim_check_init(&after, &limit);
    weir_sim_check_allow(&before, 0, SECOND, 5);
    weir_sim_check_allow(&before, SECOND / 2, SECOND, 7);
    weir_sim_check_allow_as(&after, &before);
    assert_int_equal(weir_sim_check_allowed(&after), 12);
    assert_int_equal(weir_sim_check_admit(&after, SECOND / 2, 0, 22), 12);
    assert_int_equal(weir_sim_check_admit(&after, 2 * SECOND, 0, 5), 0); /* the graces are over */
    assert_int_equal(weir_sim_check_allowed(&after), 0);
    weir_sim_check_deinit(&before);
    weir_sim_check_deinit(&after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bucket_is_exact),
        cmocka_unit_test(log_is_exact),
        cmocka_unit_test(window_counts_each_window),
        cmocka_unit_test(windows_of_own_clocks_count_since_they_began),
        cmocka_unit_test(allowance_excuses_its_own_time_only),
        cmocka_unit_test(what_counts_in_another_check_counts_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
