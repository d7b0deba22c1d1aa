/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 6: a burst that is over before the nodes have heard of each other, by each way of sharing. Runs the ways as
 * a scenario (sim/scenario.h), whose file would be that of sim/scenarios/gossip-burst with more ways. */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "sim/lab/labs.h"
#include "sim/modes.h"
#include "sim/naive/naive.h"
#include "sim/scenario.h"

#define MS (WEIR_NS_PER_SECOND / 1000)
#define NODES 50
#define FROM_NS (2000 * MS)

struct way {
    const char *label;
    const struct weir_sim_mode *mode;
    uint64_t slack;
};

static const struct way ways[] = {
    { "naive: tell the others", &weir_naive_tell, 2 },
    { "gossip, slack 2", &weir_sim_gossip, 2 },
    { "gossip, slack 20", &weir_sim_gossip, 20 },
    { "split", &weir_sim_split, 2 },
    { "exact", &weir_sim_exact, 2 },
    { "leased", &weir_sim_leased, 2 },
    { "batched, slack 2", &weir_sim_batched, 2 },
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static void scenario_make(struct weir_scenario *scenario)
{
    struct weir_sim_plan *plan = &scenario->plan;
    weir_sim_plan_init(plan, NULL);
    plan->limit = (struct weir_limit_spec){ .count = 1000, .period_ns = 60 * WEIR_NS_PER_SECOND };
    plan->nodes = NODES;
    plan->duration_ns = 3000 * MS;
    plan->interval_ns = 500 * MS;
    plan->latency_min_ns = plan->latency_max_ns = MS;
    scenario->groups_count = 1;
    scenario->groups[0].keys = 1;
    scenario->groups[0].loads_count = 1;
    scenario->groups[0].loads[0] = (struct weir_sim_load){
        .nodes = WEIR_SIM_ALL, .from_ns = FROM_NS, .until_ns = FROM_NS + 100 * MS, .burst = 1, .every_ns = MS / 2
    };
    for (uint32_t i = 0; i < WAYS; i++) {
        struct weir_scenario_way *way = &scenario->ways[scenario->ways_count++];
        (void)snprintf(way->label, sizeof(way->label), "%s", ways[i].label);
        way->plan = *plan;
        way->plan.slack = ways[i].slack;
        way->modes[0] = ways[i].mode;
    }
}

/* What was admitted by when, from the burst on: a point each millisecond. */
static void series_make(const char *name, const struct weir_scenario_row *row, struct weir_lab_report *report)
{
    size_t series = weir_lab_begin(report, "%s", name), admitted = 0;
    for (uint64_t ms = 0; ms <= 200; ms++) {
        while (admitted < row->times_count && row->times_ns[admitted] <= FROM_NS + ms * MS)
            admitted++;
        weir_lab_point(report, series, (double)ms, (double)admitted);
    }
}

static void run(uint64_t seed, struct weir_lab_report *report)
{
    struct weir_scenario *scenario = calloc(1, sizeof(*scenario));
    struct weir_scenario_row rows[WEIR_SCENARIO_WAYS_MAX];
    struct weir_fault fault;
    (void)seed;
    weir_assert(scenario && WAYS <= WEIR_SCENARIO_WAYS_MAX && WAYS <= WEIR_LAB_SERIES_MAX);
    scenario_make(scenario);
    int error = weir_scenario_run(scenario, rows, &fault);
    weir_assert(error == 0);
    report->source = WEIR_LAB_SIMULATED;
    report->x = "ms after the burst began";
    report->y = "requests that have passed";
    weir_lab_number(report, (double)rows[0].asked, "requests", "asked");
    weir_lab_number(report, (double)rows[0].limit, "requests", "the limit allows");
    for (uint32_t i = 0; i < WAYS; i++) {
        const struct weir_scenario_row *row = &rows[i];
        series_make(ways[i].label, row, report);
        weir_lab_number(report, (double)row->admitted, "requests", "%s: passed", ways[i].label);
        if (!row->naive)
            weir_lab_number(report, (double)row->bound, "requests", "%s: at most, as weir states it", ways[i].label);
        weir_lab_number(report, (double)row->to_engine, "messages", "%s: to the engine", ways[i].label);
        weir_lab_number(report, (double)row->wait_max_ns / 1e6, "ms", "%s: longest wait for an answer", ways[i].label);
    }
    weir_scenario_rows_deinit(rows, WAYS);
    free(scenario);
}

const struct weir_lab weir_lab_gossip = {
    .number = 6,
    .title = "50 nodes, 500 ms gossip, 10,000 requests in 100 ms, limit 1,000 per minute",
    .question = "50 nodes tell each other what they admitted every 500 ms. 10,000 requests come within 100 ms, 200 at "
                "each node; the limit is 1,000 a minute for all. How many pass, by mode?",
    .shows =
        "Who only tells the others lets all 10,000 pass: the burst is over before anybody has heard of anybody. "
        "weir's gossip admits no more than each node's slack before it has heard. split keeps each node's share and "
        "asks nobody. exact, leased and batched ask an engine, and stay at the limit or within their bound; what "
        "they cost is the engine's messages and the wait.",
    .shows_not =
        "No message is lost here and no node is down; `weir sim --mode gossip --seed N` has that. All nodes get "
        "the same share of the burst, which is split's best case: if one node gets it all, split admits a "
        "fiftieth of the limit.",
    .run = run,
};
