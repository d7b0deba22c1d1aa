/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs each way for each key of each group, one weir_sim_run a key, under seeds that count up, and adds the results to
 * the way's row. Called by cli/sim.c and by sim/lab; the file is read by scenario.c, the rows are shown by
 * scenario_print.c. */
#include <stdlib.h>
#include <string.h>

#include "sim/naive/naive.h"
#include "sim/run.h"
#include "sim/scenario.h"

struct span {
    uint64_t first_ns, last_ns;
};

/* When a group's first request can come, and its last. */
static struct span asked_in(const struct weir_scenario_group *group)
{
    struct span span = { UINT64_MAX, 0 };
    for (uint32_t i = 0; i < group->loads_count; i++) {
        const struct weir_sim_load *load = &group->loads[i];
        bool once = load->rate_per_s == 0 && load->every_ns == 0;
        uint64_t last_ns = once ? load->from_ns : load->until_ns;
        span.first_ns = load->from_ns < span.first_ns ? load->from_ns : span.first_ns;
        span.last_ns = last_ns > span.last_ns ? last_ns : span.last_ns;
    }
    return span.first_ns <= span.last_ns ? span : (struct span){ 0, 0 };
}

/* The most that the limit lets through between two instants. Windows are aligned to the start of the run, which is
 * right for periods that divide the wall time it starts at (run.h); scenarios use no other. */
static uint64_t limit_in(const struct weir_limit_spec *spec, struct span span)
{
    uint64_t capacity = weir_limit_capacity(spec);
    switch (spec->algorithm) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        return capacity + (uint64_t)((weir_u128)spec->count * (span.last_ns - span.first_ns) / spec->period_ns);
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_COUNTER: {
        uint64_t end_ns = span.last_ns > span.first_ns ? span.last_ns - 1 : span.last_ns;
        return capacity * (end_ns / spec->period_ns - span.first_ns / spec->period_ns + 1);
    }
    case WEIR_SLIDING_LOG:
    case WEIR_CONCURRENCY: /* weir_sim_run refuses it */
        break;
    }
    return capacity * ((span.last_ns - span.first_ns) / spec->period_ns + 1);
}

static void keep_times(struct weir_scenario_row *row, const struct weir_sim_trace *trace)
{
    for (size_t i = 0; i < trace->count; i++) {
        for (uint64_t unit = 0; unit < trace->marks[i].units; unit++) {
            if (row->times_count == row->times_room) {
                row->times_room = row->times_room ? 2 * row->times_room : 4096;
                row->times_ns = realloc(row->times_ns, row->times_room * sizeof(*row->times_ns));
                weir_assert(row->times_ns);
            }
            row->times_ns[row->times_count++] = trace->marks[i].at_ns;
        }
    }
}

static uint64_t bound_of(const struct weir_sim_plan *plan, const struct weir_sim_result *result)
{
    uint64_t bound = plan->mode->bound ? plan->mode->bound(plan) : 0;
    return result->bound > bound ? result->bound : bound;
}

static int run_key(const struct weir_sim_plan *plan, struct weir_scenario_row *row, struct weir_fault *fault)
{
    struct weir_sim_result *result = malloc(sizeof(*result));
    struct weir_sim_trace trace = { .marks = NULL };
    weir_assert(result);
    int error = weir_sim_run(plan, &trace, result, fault);
    if (error == 0) {
        row->asked += result->admitted + result->refused;
        for (uint32_t node = 0; node < plan->nodes; node++)
            row->asked += result->nodes[node].dropped;
        row->admitted += result->units;
        row->over = result->peak > row->over ? result->peak : row->over;
        row->bound += bound_of(plan, result);
        row->to_engine += result->to_engine;
        row->wait_total_ns += result->wait_total_ns;
        row->wait_max_ns = result->wait_max_ns > row->wait_max_ns ? result->wait_max_ns : row->wait_max_ns;
        if (row->kept && result->broken)
            (void)snprintf(row->why, sizeof(row->why), "%s", result->why);
        row->kept = row->kept && !result->broken;
        keep_times(row, &trace);
    }
    free(trace.marks);
    free(result);
    return error;
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static bool is_naive(const struct weir_scenario *scenario, const struct weir_scenario_way *way)
{
    for (uint32_t g = 0; g < scenario->groups_count; g++) {
        if (weir_naive_find(way->modes[g]->name))
            return true;
    }
    return false;
}

static int run_way(const struct weir_scenario *scenario, const struct weir_scenario_way *way,
                   struct weir_scenario_row *row, struct weir_fault *fault)
{
    *row = (struct weir_scenario_row){ .naive = is_naive(scenario, way), .kept = true };
    for (uint32_t g = 0; g < scenario->groups_count; g++) {
        const struct weir_scenario_group *group = &scenario->groups[g];
        struct weir_sim_plan plan = way->plan;
        plan.mode = way->modes[g];
        plan.loads_count = group->loads_count;
        memcpy(plan.loads, group->loads, sizeof(plan.loads));
        for (uint32_t key = 0; key < group->keys; key++, plan.seed++) {
            int error = run_key(&plan, row, fault);
            if (error != 0)
                return error;
            row->limit += limit_in(&plan.limit, asked_in(group));
        }
    }
    if (row->times_count > 0)
        qsort(row->times_ns, row->times_count, sizeof(*row->times_ns), compare_times);
    row->bound += row->limit;
    return 0;
}

int weir_scenario_run(const struct weir_scenario *scenario, struct weir_scenario_row *ret_rows,
                      struct weir_fault *ret_fault)
{
    for (uint32_t i = 0; i < scenario->ways_count; i++) {
        int error = run_way(scenario, &scenario->ways[i], &ret_rows[i], ret_fault);
        if (error != 0) {
            weir_scenario_rows_deinit(ret_rows, i + 1);
            return error;
        }
    }
    return 0;
}

void weir_scenario_rows_deinit(struct weir_scenario_row *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(rows[i].times_ns);
        rows[i].times_ns = NULL;
    }
}
