/* SPDX-License-Identifier: Apache-2.0
 *
 * A short slice of `make soak`: every mode by the first seeds (or those from WEIR_SEED on), the planted mistakes, and
 * that a run can be run again. */
#include "sim/soak.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "sim/modes.h"

static uint64_t seed_first;

static void run(const struct weir_sim_plan *plan, struct weir_sim_result *ret_result)
{
    struct weir_fault fault;
    assert_int_equal(weir_sim_run(plan, NULL, ret_result, &fault), 0);
}

/* The bound of each mode, liveness and the books, in a slice of the seeds; and what issue 3 asks of each run. */
static void slice(const struct weir_sim_mode *mode, uint64_t runs)
{
    static struct weir_sim_result result;
    struct weir_sim_cover cover = { 0 };
    struct weir_sim_plan plan;
    unsigned drawn = 0;
    runs = test_effort(5, runs, runs);
    for (uint64_t seed = seed_first; seed < seed_first + runs; seed++) {
        weir_sim_plan_seeded(&plan, mode, seed, NULL);
        run(&plan, &result);
        drawn |= 1U << plan.limit.algorithm;
        weir_sim_cover_add(&cover, seed, &plan, &result);
        if (result.broken)
            fail_msg("weir sim --mode %s --seed %llu: %s", mode->name, (unsigned long long)seed, result.why);
    }
    assert_true(cover.decisions_min >= 1000);
    assert_true(cover.faults_min >= 3);
    assert_true(cover.virtual_min_ns >= 10 * WEIR_NS_PER_SECOND);
    assert_true(cover.nodes_min >= 3 && cover.nodes_max <= 50);
    assert_true(cover.with[WEIR_SIM_CRASH] > 0 && cover.with[WEIR_SIM_CUT] + cover.with[WEIR_SIM_SPLIT] > 0);
    for (int i = 0; i < WEIR_CONCURRENCY && runs >= 150; i++) /* which no mode shares */
        assert_true(drawn >> i & 1 || (i == WEIR_SLIDING_LOG && mode->no_log));
    assert_true(!mode->reload || cover.with[WEIR_SIM_RELOAD] > 0);
    if (mode->bound && runs >= 150) /* of few it may be none */
        assert_true(cover.near_half * 100 >= runs);
}

static void exact_keeps_its_bound(void **state)
{
    (void)state;
    slice(&weir_sim_exact, 300);
}

static void leased_keeps_its_bound(void **state)
{
    (void)state;
    slice(&weir_sim_leased, 300);
}

static void batched_keeps_its_bound(void **state)
{
    (void)state;
    slice(&weir_sim_batched, 300);
}

static void split_keeps_its_bound(void **state)
{
    (void)state;
    slice(&weir_sim_split, 300);
}

static void gossip_keeps_its_bound(void **state)
{
    (void)state;
    slice(&weir_sim_gossip, 150);
}

static void hosts_keep_their_bounds(void **state)
{
    (void)state;
    slice(&weir_sim_leased_host, 150);
    slice(&weir_sim_batched_host, 150);
    slice(&weir_sim_gossip_host, 50);
    slice(&weir_sim_exact_host, 150);
}

/* The same plan gives the same run, to the last number. */
static void runs_repeat(void **state)
{
    (void)state;
    static struct weir_sim_result first, second;
    struct weir_sim_plan plan;
    const struct weir_sim_mode *mode;
    if (test_effort(0, 1, 1) == 0) /* a sanitizer has seen these runs already */
        return;
    for (size_t i = 0; (mode = weir_sim_mode_at(i)); i++) {
        weir_sim_plan_seeded(&plan, mode, seed_first, NULL);
        run(&plan, &first);
        run(&plan, &second);
        assert_memory_equal(&first, &second, sizeof first);
    }
}

/* The check finds each mistake within 1,000 runs of fixed seeds, and what is left of the plan still shows it. A
 * sanitizer sees no more in many runs than in few: under one the first will do. */
static void plant_is_found_under(const struct weir_sim_fixed *fixed, const struct weir_sim_mode *mode,
                                 enum weir_sim_plant plant)
{
    static struct weir_sim_result result;
    struct weir_sim_plan plan;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        weir_sim_plan_seeded(&plan, mode, seed, fixed);
        plan.plant = plant;
        run(&plan, &result);
        if (!result.broken)
            continue;
        enum weir_sim_break kind = result.broken;
        struct weir_sim_reduction reduction = weir_sim_shrink(&plan, kind);
        weir_sim_plan_reduce(&plan, &reduction);
        run(&plan, &result);
        assert_int_equal(result.broken, kind);
        return;
    }
    fail_msg("%s: %s is not found", mode->name, weir_sim_plant_name(plant));
}

static void plant_is_found(const struct weir_sim_mode *mode, enum weir_sim_plant plant)
{
    plant_is_found_under(NULL, mode, plant);
}

static void plants_are_found(void **state)
{
    (void)state;
    const struct weir_sim_fixed counter = {
        .limit = { .algorithm = WEIR_SLIDING_COUNTER, .count = 150, .period_ns = WEIR_NS_PER_SECOND }
    };
    plant_is_found(&weir_sim_leased, WEIR_SIM_PLANT_SEQUENCE);
    if (test_effort(0, 1, 1) == 0)
        return;
    plant_is_found(&weir_sim_leased, WEIR_SIM_PLANT_EPOCH);
    plant_is_found(&weir_sim_leased, WEIR_SIM_PLANT_RETURN);
    plant_is_found(&weir_sim_batched, WEIR_SIM_PLANT_SEQUENCE);
    plant_is_found(&weir_sim_batched, WEIR_SIM_PLANT_EPOCH);
    plant_is_found(&weir_sim_gossip, WEIR_SIM_PLANT_EPOCH);
    plant_is_found(&weir_sim_gossip, WEIR_SIM_PLANT_OVERWRITE);
    plant_is_found(&weir_sim_batched_host, WEIR_SIM_PLANT_SEQUENCE);
    plant_is_found(&weir_sim_leased_host, WEIR_SIM_PLANT_TWIN);
    plant_is_found(&weir_sim_batched_host, WEIR_SIM_PLANT_TWIN);
    plant_is_found(&weir_sim_gossip_host, WEIR_SIM_PLANT_EPOCH);
    plant_is_found_under(&counter, &weir_sim_gossip, WEIR_SIM_PLANT_EPOCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_keeps_its_bound),
        cmocka_unit_test(leased_keeps_its_bound),
        cmocka_unit_test(batched_keeps_its_bound),
        cmocka_unit_test(split_keeps_its_bound),
        cmocka_unit_test(gossip_keeps_its_bound),
        cmocka_unit_test(hosts_keep_their_bounds),
        cmocka_unit_test(runs_repeat),
        cmocka_unit_test(plants_are_found),
    };
    seed_first = getenv("WEIR_SEED") ? test_random_seed() % (UINT64_C(1) << 62) : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
