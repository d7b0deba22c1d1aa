/* SPDX-License-Identifier: Apache-2.0
 *
 * One plan at a time, set number by number, and the last run of it. sim/ runs and judges it; this sums it up into the
 * columns that are drawn. The hosts of limits/ are not here: they stand on locks and threads of their own, and `weir
 * sim` has them. Called by the page. */
#include "play/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "sim/modes.h"
#include "sim/naive/naive.h"

static struct weir_sim_plan plan;
static struct weir_sim_result result;
static struct weir_sim_trace trace;
static struct weir_fault fault;
static double columns_units[PLAY_COLUMNS_MAX], columns_over[PLAY_COLUMNS_MAX], columns_bound[PLAY_COLUMNS_MAX];

static const struct weir_sim_mode *mode_at(uint32_t mode)
{
    static const struct weir_sim_mode *const modes[] = {
        &weir_sim_exact,    &weir_sim_leased,       &weir_sim_batched,    &weir_sim_split,
        &weir_sim_gossip,   &weir_naive_cache,      &weir_naive_get_incr, &weir_naive_incr_expire,
        &weir_naive_window, &weir_naive_node_clock, &weir_naive_tell,
    };
    return mode < sizeof modes / sizeof modes[0] ? modes[mode] : NULL;
}

const char *play_mode_name(uint32_t mode)
{
    return mode_at(mode) ? mode_at(mode)->name : NULL;
}

void play_plan_begin(void)
{
    weir_sim_plan_init(&plan, &weir_sim_exact);
}

void play_plan_set(uint32_t what, double value)
{
    uint64_t *const words[] = {
        [PLAY_PLAN_SEED] = &plan.seed,
        [PLAY_PLAN_DURATION_NS] = &plan.duration_ns,
        [PLAY_PLAN_COUNT] = &plan.limit.count,
        [PLAY_PLAN_PERIOD_NS] = &plan.limit.period_ns,
        [PLAY_PLAN_BURST] = &plan.limit.burst,
        [PLAY_PLAN_SLACK] = &plan.slack,
        [PLAY_PLAN_INTERVAL_NS] = &plan.interval_ns,
        [PLAY_PLAN_LATENCY_MIN_NS] = &plan.latency_min_ns,
        [PLAY_PLAN_LATENCY_MAX_NS] = &plan.latency_max_ns,
        [PLAY_PLAN_SKEW_NS] = &plan.skew_ns,
        [PLAY_PLAN_DEADLINE_NS] = &plan.deadline_ns,
        [PLAY_PLAN_CHUNK_TTL_NS] = &plan.chunk_ttl_ns,
    };
    uint32_t *const halves[] = {
        [PLAY_PLAN_NODES] = &plan.nodes,
        [PLAY_PLAN_LOSS_PPM] = &plan.loss_ppm,
        [PLAY_PLAN_DRIFT_PPM] = &plan.drift_ppm,
    };
    if (what == PLAY_PLAN_ALGORITHM)
        plan.limit.algorithm = (enum weir_algorithm)value;
    else if (what < sizeof words / sizeof words[0] && words[what])
        *words[what] = (uint64_t)value;
    else if (what < sizeof halves / sizeof halves[0] && halves[what])
        *halves[what] = (uint32_t)value;
    if (plan.nodes > PLAY_NODES_MAX)
        plan.nodes = PLAY_NODES_MAX;
}

bool play_plan_load(uint32_t nodes, double from_ns, double until_ns, double rate_per_s, double burst, double every_ns)
{
    if (plan.loads_count == WEIR_SIM_LOADS_MAX)
        return false;
    plan.loads[plan.loads_count++] = (struct weir_sim_load){ .nodes = nodes,
                                                             .from_ns = (uint64_t)from_ns,
                                                             .until_ns = (uint64_t)until_ns,
                                                             .rate_per_s = (uint64_t)rate_per_s,
                                                             .burst = (uint64_t)burst,
                                                             .every_ns = (uint64_t)every_ns };
    return true;
}

bool play_plan_fault(uint32_t kind, uint32_t nodes, double from_ns, double until_ns, double step_ns)
{
    if (plan.faults_count == WEIR_SIM_FAULTS_MAX || kind >= WEIR_SIM_FAULT_KINDS || kind == WEIR_SIM_RELOAD)
        return false;
    plan.faults[plan.faults_count++] = (struct weir_sim_fault){ .kind = (enum weir_sim_fault_kind)kind,
                                                                .nodes = nodes,
                                                                .from_ns = (uint64_t)from_ns,
                                                                .until_ns = (uint64_t)until_ns,
                                                                .step_ns = (int64_t)step_ns };
    return true;
}

int play_run(uint32_t mode)
{
    free(trace.marks);
    free(trace.overs);
    trace = (struct weir_sim_trace){ .judged = true };
    memset(&result, 0, sizeof result);
    plan.mode = mode_at(mode);
    if (!plan.mode)
        return WEIR_EINVAL;
    return weir_sim_run(&plan, &trace, &result, &fault);
}

const char *play_plan_wrong(void)
{
    return fault.text;
}

double play_sum(uint32_t what)
{
    uint64_t dropped = 0;
    for (uint32_t i = 0; i < plan.nodes; i++)
        dropped += result.nodes[i].dropped;
    switch ((enum play_sum)what) {
    case PLAY_SUM_ADMITTED:
        return (double)result.admitted;
    case PLAY_SUM_REFUSED:
        return (double)result.refused;
    case PLAY_SUM_DROPPED:
        return (double)dropped;
    case PLAY_SUM_UNITS:
        return (double)result.units;
    case PLAY_SUM_PEAK:
        return (double)result.peak;
    case PLAY_SUM_BOUND:
        return (double)result.bound;
    case PLAY_SUM_STATED:
        return weir_naive_find(plan.mode->name) ? -1 : plan.mode->bound ? (double)plan.mode->bound(&plan) : 0;
    case PLAY_SUM_MESSAGES:
        return (double)result.messages;
    case PLAY_SUM_LOST:
        return (double)result.lost;
    case PLAY_SUM_TO_ENGINE:
        return (double)result.to_engine;
    case PLAY_SUM_WAIT_MEAN_NS:
        return result.decisions ? (double)result.wait_total_ns / (double)result.decisions : 0;
    case PLAY_SUM_WAIT_MAX_NS:
        return (double)result.wait_max_ns;
    case PLAY_SUM_BROKEN:
        return result.broken != WEIR_SIM_WHOLE;
    }
    return 0;
}

double play_node_admitted(uint32_t node)
{
    return (double)result.nodes[node % PLAY_NODES_MAX].admitted;
}

double play_node_refused(uint32_t node)
{
    return (double)result.nodes[node % PLAY_NODES_MAX].refused;
}

double play_node_dropped(uint32_t node)
{
    return (double)result.nodes[node % PLAY_NODES_MAX].dropped;
}

const char *play_why(void)
{
    return result.why;
}

static uint32_t column_of(uint64_t at_ns, uint32_t columns)
{
    return (uint32_t)weir_min_u64(weir_mul_div(at_ns, columns, plan.duration_ns), columns - 1);
}

static const double *units_of(uint32_t node, uint32_t columns)
{
    columns = columns > PLAY_COLUMNS_MAX ? PLAY_COLUMNS_MAX : columns + (columns == 0);
    memset(columns_units, 0, sizeof columns_units);
    for (size_t i = 0; i < trace.count; i++) {
        if (node == UINT32_MAX || trace.marks[i].node == node)
            columns_units[column_of(trace.marks[i].at_ns, columns)] += (double)trace.marks[i].units;
    }
    return columns_units;
}

const double *play_units(uint32_t columns)
{
    return units_of(UINT32_MAX, columns);
}

const double *play_node_units(uint32_t node, uint32_t columns)
{
    return units_of(node, columns);
}

const double *play_overs(uint32_t columns)
{
    columns = columns > PLAY_COLUMNS_MAX ? PLAY_COLUMNS_MAX : columns + (columns == 0);
    for (uint32_t i = 0; i < PLAY_COLUMNS_MAX; i++) {
        columns_over[i] = -1;
        columns_bound[i] = 0;
    }
    for (size_t i = 0; i < trace.overs_count; i++) {
        uint32_t column = column_of(trace.overs[i].at_ns, columns);
        if ((double)trace.overs[i].over > columns_over[column]) {
            columns_over[column] = (double)trace.overs[i].over;
            columns_bound[column] = (double)trace.overs[i].bound;
        }
    }
    return columns_over;
}

const double *play_bounds(void)
{
    return columns_bound;
}

uint64_t play_digest(void)
{
    return play_digest_of(&plan, &result, &trace);
}
