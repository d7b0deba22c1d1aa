/* SPDX-License-Identifier: Apache-2.0
 *
 * Coverage is plain sums. Shrinking is greedy: a part is left out, the plan runs again, and the part stays out if the
 * run breaks in the same way; this goes on until nothing more can go. Called by cli/sim.c and the tests;
 * weir_sim_plan_reduce (plan.c) makes the smaller plan. */
#include "sim/soak.h"

#include "base/checked.h"

void weir_sim_cover_add(struct weir_sim_cover *cover, uint64_t seed, const struct weir_sim_plan *plan,
                        const struct weir_sim_result *result)
{
    bool first = cover->runs++ == 0, seen[WEIR_SIM_FAULT_KINDS] = { false };
    for (uint32_t i = 0; i < plan->faults_count; i++)
        seen[plan->faults[i].kind] = true;
    for (int kind = 0; kind < WEIR_SIM_FAULT_KINDS; kind++)
        cover->with[kind] += seen[kind];
    if (result->broken && cover->broken++ == 0)
        cover->first_broken = seed;
    cover->with_duplicates += result->duplicated > 0;
    cover->with_losses += result->lost > 0;
    cover->decisions += result->decisions;
    cover->admitted += result->admitted;
    cover->messages += result->messages;
    cover->virtual_ns += plan->duration_ns;
    cover->near_half += result->bound > 0 && result->near_ppm >= 500000;
    cover->near_max_ppm = weir_max_u64(cover->near_max_ppm, result->near_ppm);
    cover->peak_max = weir_max_u64(cover->peak_max, result->peak);
    cover->decisions_min = first ? result->decisions : weir_min_u64(cover->decisions_min, result->decisions);
    cover->faults_min = first ? plan->faults_count : weir_min_u64(cover->faults_min, plan->faults_count);
    cover->virtual_min_ns = first ? plan->duration_ns : weir_min_u64(cover->virtual_min_ns, plan->duration_ns);
    cover->nodes_min = first || plan->nodes < cover->nodes_min ? plan->nodes : cover->nodes_min;
    cover->nodes_max = plan->nodes > cover->nodes_max ? plan->nodes : cover->nodes_max;
}

/* Takes `tried` if the run still fails with it. */
static bool keep(const struct weir_sim_plan *plan, enum weir_sim_break kind, const struct weir_sim_reduction *tried,
                 struct weir_sim_reduction *reduction, struct weir_sim_result *result)
{
    struct weir_sim_plan smaller = *plan;
    struct weir_sim_result outcome;
    struct weir_fault fault;
    weir_sim_plan_reduce(&smaller, tried);
    if (weir_sim_run(&smaller, NULL, &outcome, &fault) != 0 || outcome.broken != kind)
        return false;
    *result = outcome;
    *reduction = *tried;
    return true;
}

/* Too little admitted: without demand that would be no wonder, so it stays, and with it nodes and the end. */
static bool drop_faults(const struct weir_sim_plan *plan, enum weir_sim_break kind,
                        struct weir_sim_reduction *reduction, struct weir_sim_result *result)
{
    bool progress = false;
    for (uint32_t i = 0; i < plan->faults_count; i++) {
        struct weir_sim_reduction tried = *reduction;
        tried.faults |= UINT64_C(1) << i;
        progress |= tried.faults != reduction->faults && keep(plan, kind, &tried, reduction, result);
    }
    for (uint32_t i = 0; kind != WEIR_SIM_LAZY && i < plan->loads_count; i++) {
        struct weir_sim_reduction tried = *reduction;
        tried.loads |= UINT64_C(1) << i;
        progress |= tried.loads != reduction->loads && keep(plan, kind, &tried, reduction, result);
    }
    return progress;
}

static bool drop_nodes(const struct weir_sim_plan *plan, enum weir_sim_break kind, struct weir_sim_reduction *reduction,
                       struct weir_sim_result *result)
{
    bool progress = false;
    for (uint32_t step = plan->nodes / 2; kind != WEIR_SIM_LAZY && step > 0; step /= 2) {
        struct weir_sim_reduction tried = *reduction;
        uint32_t nodes = reduction->nodes > 0 ? reduction->nodes : plan->nodes;
        if (nodes <= step)
            continue;
        tried.nodes = nodes - step;
        progress |= keep(plan, kind, &tried, reduction, result);
    }
    return progress;
}

struct weir_sim_reduction weir_sim_shrink(const struct weir_sim_plan *plan, enum weir_sim_break kind)
{
    struct weir_sim_reduction reduction = { 0 };
    struct weir_sim_result result = { 0 };
    for (bool progress = true; progress;) {
        progress = drop_faults(plan, kind, &reduction, &result);
        progress |= drop_nodes(plan, kind, &reduction, &result);
        struct weir_sim_reduction tried = reduction;
        tried.until_ns = result.broken_ns + 1;
        if (kind == WEIR_SIM_OVERSHOT && result.broken_ns > 0 &&
            (reduction.until_ns == 0 || tried.until_ns < reduction.until_ns))
            progress |= keep(plan, kind, &tried, &reduction, &result);
    }
    return reduction;
}
