/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 10 in virtual time: what each way of sharing asks of the engine, one tenant being a hundred times larger
 * than the others. cli/lab_tenants.c does it with a Redis that is at its limit. */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "sim/lab/labs.h"
#include "sim/modes.h"
#include "sim/scenario.h"

#define MS (WEIR_NS_PER_SECOND / 1000)
#define SECONDS 5
#define NODES 2
#define SMALL 100 /* tenants */

struct way {
    const char *name;
    const struct weir_sim_mode *large, *small;
};

static const struct way ways[] = { { "exact for all", &weir_sim_exact, &weir_sim_exact },
                                   { "exact for the large one, else leased", &weir_sim_exact, &weir_sim_leased },
                                   { "leased for all", &weir_sim_leased, &weir_sim_leased } };
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static void group_make(struct weir_scenario *scenario, uint32_t keys, uint64_t every_ns)
{
    struct weir_scenario_group *group = &scenario->groups[scenario->groups_count++];
    group->keys = keys;
    group->loads_count = 1;
    group->loads[0] = (struct weir_sim_load){
        .nodes = WEIR_SIM_ALL, .until_ns = SECONDS * WEIR_NS_PER_SECOND, .burst = 1, .every_ns = every_ns
    };
}

static void scenario_make(struct weir_scenario *scenario)
{
    struct weir_sim_plan plan;
    weir_sim_plan_init(&plan, NULL);
    plan.nodes = NODES;
    plan.duration_ns = SECONDS * WEIR_NS_PER_SECOND;
    plan.latency_min_ns = plan.latency_max_ns = MS;
    scenario->plan = plan;
    group_make(scenario, 1, MS);           /* 1,000 a second at each node, */
    group_make(scenario, SMALL, 100 * MS); /* and 10 of each of these */
    for (uint32_t i = 0; i < WAYS; i++) {
        struct weir_scenario_way *way = &scenario->ways[scenario->ways_count++];
        (void)snprintf(way->label, sizeof(way->label), "%s", ways[i].name);
        way->plan = plan;
        way->modes[0] = ways[i].large;
        way->modes[1] = ways[i].small;
    }
}

/* What was admitted by when, each 20 ms. */
static void way_report(const char *name, const struct weir_scenario_row *row, struct weir_lab_report *report)
{
    size_t series = weir_lab_begin(report, "%s", name), admitted = 0;
    for (uint64_t ms = 0; ms <= SECONDS * 1000; ms += 20) {
        while (admitted < row->times_count && row->times_ns[admitted] <= ms * MS)
            admitted++;
        weir_lab_point(report, series, (double)ms / 1000, (double)admitted);
    }
    weir_lab_number(report, (double)row->asked, "requests", "%s: decisions", name);
    weir_lab_number(report, (double)row->admitted, "requests", "%s: admitted", name);
    weir_lab_number(report, (double)row->to_engine * 100 / (double)row->asked, "asks",
                    "%s: asks of Redis per 100 decisions", name);
    weir_lab_number(report, (double)row->wait_total_ns / (double)row->asked / 1e6, "ms", "%s: mean wait", name);
}

static void run(uint64_t seed, struct weir_lab_report *report)
{
    struct weir_scenario *scenario = calloc(1, sizeof(*scenario));
    struct weir_scenario_row rows[WEIR_SCENARIO_WAYS_MAX];
    struct weir_fault fault;
    (void)seed;
    weir_assert(scenario);
    scenario_make(scenario);
    int error = weir_scenario_run(scenario, rows, &fault);
    weir_assert(error == 0);
    report->source = WEIR_LAB_SIMULATED;
    report->x = "s";
    report->y = "requests that were admitted";
    for (uint32_t i = 0; i < WAYS; i++)
        way_report(ways[i].name, &rows[i], report);
    weir_scenario_rows_deinit(rows, WAYS);
    free(scenario);
}

const struct weir_lab weir_lab_tenants = {
    .number = 10,
    .title = "tenants a hundred times larger than others, and a Redis at its CPU limit",
    .question =
        "One tenant asks a hundred times as often as each of a hundred others; each may have 100 a second. Their "
        "limits are kept in one Redis, which has no processor time left. What does each way of sharing ask of "
        "it, and what do the clients feel of it?",
    .shows =
        "exact asks Redis once for each decision, so while Redis is busy every request of every tenant waits, also "
        "those of the small ones. leased asks only where a chunk runs out: the small tenants' asks go away, and with "
        "them most waits. The large tenant may stay exact, and pays for that alone. No way lets it have more than "
        "its limit.",
    .shows_not =
        "How much a Redis of yours can answer. With real servers everything runs on one machine, so that decisions "
        "a second say how the ways compare there and nothing else. What keeps Redis busy are scripts of somebody "
        "else's, behind one of which each ask waits; a limit on its processor time would be felt alike. Servers "
        "ask more often for leased than the simulator shows, whose leased is core/share without what a server "
        "does around it; so does whoever is over the limit. That one node lacks what the other holds, which is "
        "the price, is not seen where all nodes are asked alike.",
    .run = run,
};
