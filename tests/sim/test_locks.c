/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks in virtual time, by the first seeds (or those from WEIR_SEED on): nothing that the checks look for happens, and
 * each mistake is found. */
#include "sim/locks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

static uint64_t seed_first;

static void locks__hold_whatever_happens(void **state)
{
    (void)state;
    struct weir_sim_locks_result result, sum = { .broken = NULL };
    uint64_t runs = test_effort(300, 3000, 3000);
    for (uint64_t seed = seed_first; seed < seed_first + runs; seed++) {
        weir_sim_locks_run(seed, WEIR_SIM_LOCKS_NONE, &result);
        if (result.broken)
            fail_msg("weir sim --locks --seed %llu: %s", (unsigned long long)seed, result.broken);
        sum.renewals += result.renewals;
        sum.fenced += result.fenced;
        sum.acknowledged += result.acknowledged;
        sum.restarts += result.restarts;
        sum.forgotten += result.forgotten;
        sum.waited += result.waited;
        sum.gone += result.gone;
        sum.forgone += result.forgone;
        sum.unanswered += result.unanswered;
    }
    /* What is to be survived did happen. */
    assert_true(sum.acknowledged > 1000 && sum.renewals > 100 && sum.fenced > 10);
    assert_true(sum.restarts > 10 && sum.forgotten > 10);
    assert_true(sum.waited > 1000 && sum.gone > 1000 && sum.forgone > 0 && sum.unanswered > 100);
}

static void locks__runs_repeat(void **state)
{
    (void)state;
    struct weir_sim_locks_result first, second;
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    weir_sim_locks_run(seed_first, WEIR_SIM_LOCKS_NONE, &first);
    weir_sim_locks_run(seed_first, WEIR_SIM_LOCKS_NONE, &second);
    assert_memory_equal(&first, &second, sizeof first);
}

static void locks__each_mistake_is_found_within_1000_seeds(void **state)
{
    (void)state;
    struct weir_sim_locks_result result;
    for (int plant = 1; plant < WEIR_SIM_LOCKS_PLANTS; plant++) {
        uint64_t seed = 0;
        do {
            weir_sim_locks_run(++seed, (enum weir_sim_locks_plant)plant, &result);
        } while (!result.broken && seed < 1000);
        if (!result.broken)
            fail_msg("%s is not found", weir_sim_locks_plant_name((enum weir_sim_locks_plant)plant));
        print_message("%s: seed %llu: %s\n", weir_sim_locks_plant_name((enum weir_sim_locks_plant)plant),
                      (unsigned long long)seed, result.broken);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locks__hold_whatever_happens),
        cmocka_unit_test(locks__runs_repeat),
        cmocka_unit_test(locks__each_mistake_is_found_within_1000_seeds),
    };
    seed_first = getenv("WEIR_SEED") ? test_random_seed() % (UINT64_C(1) << 62) : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
