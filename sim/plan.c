/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, the defaults of a plan, and leaving parts of it out (weir_sim_plan_reduce), by which soak.c makes a failing
 * run smaller. Plans are drawn by seeded.c, read from a file by scenario.c and written to one by plan_file.c. */
#include "sim/plan.h"

#include "base/assert.h"

const char *weir_sim_fault_name(enum weir_sim_fault_kind kind)
{
    static const char *const names[WEIR_SIM_FAULT_KINDS] = {
        [WEIR_SIM_CUT] = "cut",       [WEIR_SIM_SPLIT] = "split",         [WEIR_SIM_PAUSE] = "pause",
        [WEIR_SIM_CRASH] = "crash",   [WEIR_SIM_STEP] = "step",           [WEIR_SIM_LOSE] = "lose",
        [WEIR_SIM_SLOW] = "slow",     [WEIR_SIM_DUPLICATE] = "duplicate", [WEIR_SIM_DROP] = "drop",
        [WEIR_SIM_RELOAD] = "reload",
    };
    weir_assert((unsigned)kind < WEIR_SIM_FAULT_KINDS);
    return names[kind];
}

const char *weir_sim_plant_name(enum weir_sim_plant plant)
{
    static const char *const names[WEIR_SIM_PLANTS] = { "none", "sequence", "epoch", "return", "overwrite", "twin" };
    weir_assert((unsigned)plant < WEIR_SIM_PLANTS);
    return names[plant];
}

void weir_sim_plan_init(struct weir_sim_plan *plan, const struct weir_sim_mode *mode)
{
    *plan = (struct weir_sim_plan){
        .mode = mode,
        .seed = 1,
        .limit = { .count = 100, .period_ns = WEIR_NS_PER_SECOND },
        .nodes = 5,
        .duration_ns = 10 * WEIR_NS_PER_SECOND,
        .slack = 2,
        .interval_ns = WEIR_NS_PER_SECOND / 10,
        .chunk_ttl_ns = 2 * WEIR_NS_PER_SECOND,
        .deadline_ns = WEIR_NS_PER_SECOND / 50,
        .latency_min_ns = WEIR_NS_PER_SECOND / 1000,
        .latency_max_ns = 5 * (WEIR_NS_PER_SECOND / 1000),
    };
}

void weir_sim_plan_reduce(struct weir_sim_plan *plan, const struct weir_sim_reduction *reduction)
{
    uint32_t faults = 0, loads = 0;
    for (uint32_t i = 0; i < plan->faults_count; i++) {
        if ((reduction->faults >> i & 1) == 0)
            plan->faults[faults++] = plan->faults[i];
    }
    for (uint32_t i = 0; i < plan->loads_count; i++) {
        if ((reduction->loads >> i & 1) == 0)
            plan->loads[loads++] = plan->loads[i];
    }
    plan->faults_count = faults;
    plan->loads_count = loads;
    if (reduction->nodes > 0 && reduction->nodes < plan->nodes)
        plan->nodes = reduction->nodes;
    if (reduction->until_ns > 0 && reduction->until_ns < plan->duration_ns) {
        plan->duration_ns = reduction->until_ns;
        plan->calm_ns = 0;
    }
}
