/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions in virtual time: nothing that the checks look for happens, and each mistake is found. */
#include "sim/sessions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

#define SEEDS 300

static void sessions__never_go_back_whatever_happens(void **state)
{
    (void)state;
    struct weir_sim_sessions_result result, sum = { .broken = NULL };
    uint64_t runs = test_effort(SEEDS / 5, SEEDS, SEEDS);
    for (uint64_t seed = 1; seed <= runs; seed++) {
        weir_sim_sessions_run(seed, WEIR_SIM_SESSIONS_NONE, &result);
        if (result.broken)
            fail_msg("weir sim --sessions --seed %llu: %s", (unsigned long long)seed, result.broken);
        sum.calm += result.calm;
        sum.twins += result.twins;
        sum.reads += result.reads;
        sum.at_primary += result.at_primary;
        sum.stale += result.stale;
        sum.told_lost += result.told_lost;
        sum.merged += result.merged;
        sum.failovers += result.failovers;
        sum.crashes += result.crashes;
        sum.weir_starts += result.weir_starts;
    }
    /* What is to be survived did happen. */
    assert_true(sum.calm && sum.twins && 3 * sum.reads > 500 * runs && 3 * sum.at_primary > 10 * runs);
    assert_true(sum.stale > 2 * runs && sum.told_lost > 2 * runs && 3 * sum.merged > 10 * runs);
    assert_true(sum.failovers > 2 * runs && 3 * sum.crashes > runs && sum.weir_starts > 2 * runs);
}

static void sessions__runs_repeat(void **state)
{
    (void)state;
    struct weir_sim_sessions_result first, second;
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    weir_sim_sessions_run(1, WEIR_SIM_SESSIONS_NONE, &first);
    weir_sim_sessions_run(1, WEIR_SIM_SESSIONS_NONE, &second);
    assert_memory_equal(&first, &second, sizeof first);
}

static void sessions__each_mistake_is_found_within_1000_seeds(void **state)
{
    (void)state;
    struct weir_sim_sessions_result result;
    for (int plant = 1; plant < WEIR_SIM_SESSIONS_KNOWN_HOLE; plant++) {
        uint64_t seed = 0;
        do {
            weir_sim_sessions_run(++seed, (enum weir_sim_sessions_plant)plant, &result);
        } while (!result.broken && seed < 1000);
        if (!result.broken)
            fail_msg("%s is not found", weir_sim_sessions_plant_name((enum weir_sim_sessions_plant)plant));
        print_message("%s: seed %llu: %s\n", weir_sim_sessions_plant_name((enum weir_sim_sessions_plant)plant),
                      (unsigned long long)seed, result.broken);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions__never_go_back_whatever_happens),
        cmocka_unit_test(sessions__runs_repeat),
        cmocka_unit_test(sessions__each_mistake_is_found_within_1000_seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
