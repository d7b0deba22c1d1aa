/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 5 in virtual time: INCR, then EXPIRE, by a client that dies between the two; the same in one step; and
 * weir's exact mode. The first client to come is the one that dies. cli/lab_expire.c does it with a Redis. */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "sim/lab/labs.h"
#include "sim/modes.h"
#include "sim/naive/naive.h"
#include "sim/scenario.h"

#define MS (WEIR_NS_PER_SECOND / 1000)
#define SECONDS 5

struct way {
    const char *label;
    const struct weir_sim_mode *mode;
};

static const struct way ways[] = { { "INCR, then EXPIRE", &weir_naive_incr_expire },
                                   { "one script", &weir_naive_window },
                                   { "weir, exact", &weir_sim_exact } };
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* Two clients that are nodes. The first asks once, and dies before the answer can reach it; the second asks 20 times a
 * second from then on. */
static void scenario_make(struct weir_scenario *scenario)
{
    struct weir_sim_plan *plan = &scenario->plan;
    weir_sim_plan_init(plan, NULL);
    plan->limit =
        (struct weir_limit_spec){ .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = WEIR_NS_PER_SECOND };
    plan->nodes = 2;
    plan->duration_ns = SECONDS * WEIR_NS_PER_SECOND;
    plan->latency_min_ns = plan->latency_max_ns = MS;
    plan->deadline_ns = 200 * MS;
    plan->faults[plan->faults_count++] = (struct weir_sim_fault){
        .kind = WEIR_SIM_CRASH, .nodes = 1, .from_ns = MS + MS / 2, .until_ns = plan->duration_ns
    };
    scenario->groups_count = 1;
    scenario->groups[0].keys = 1;
    scenario->groups[0].loads_count = 2;
    scenario->groups[0].loads[0] = (struct weir_sim_load){ .nodes = 1, .burst = 1 };
    scenario->groups[0].loads[1] = (struct weir_sim_load){
        .nodes = 2, .from_ns = 50 * MS, .until_ns = plan->duration_ns, .burst = 1, .every_ns = 50 * MS
    };
    for (uint32_t i = 0; i < WAYS; i++) {
        struct weir_scenario_way *way = &scenario->ways[scenario->ways_count++];
        (void)snprintf(way->label, sizeof(way->label), "%s", ways[i].label);
        way->plan = *plan;
        way->modes[0] = ways[i].mode;
    }
}

static void way_report(const char *name, const struct weir_scenario_row *row, struct weir_lab_report *report)
{
    size_t series = weir_lab_begin(report, "%s", name);
    uint64_t late = 0;
    weir_lab_point(report, series, 0, 0);
    for (size_t i = 0; i < row->times_count; i++) {
        late += row->times_ns[i] >= 2 * WEIR_NS_PER_SECOND;
        weir_lab_point(report, series, (double)row->times_ns[i] / 1e9, (double)(i + 1));
    }
    weir_lab_point(report, series, SECONDS, (double)row->times_count);
    weir_lab_number(report, (double)row->asked, "requests", "%s: asked", name);
    weir_lab_number(report, (double)row->admitted, "requests", "%s: admitted", name);
    weir_lab_number(report, (double)late, "requests", "%s: of them after 2 s", name);
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
    report->x = "s after the first request";
    report->y = "requests that were admitted";
    for (uint32_t i = 0; i < WAYS; i++)
        way_report(ways[i].label, &rows[i], report);
    weir_scenario_rows_deinit(rows, WAYS);
    free(scenario);
}

const struct weir_lab weir_lab_expire = {
    .number = 5,
    .title = "INCR, EXPIRE, the crash between, and what a script changes",
    .question =
        "A counter in Redis is incremented, and whoever made it gives it its time to live with a second command. "
        "What happens when that client dies between the two, and what does a script change? The limit is 10 a "
        "second; the first client dies, another asks 20 times a second.",
    .shows =
        "Without the EXPIRE the counter lives for ever: 9 more are admitted, then nobody is, ever again, though "
        "every client that is left does everything right. In a script the two are one step: the client may die when "
        "it likes, and the counter has its time to live.",
    .shows_not =
        "What a script leaves as it was: a client that dies before it reads its answer has used its unit. A "
        "fixed window still admits twice its limit around a boundary. And a Redis that fails over may lose the "
        "counter, whoever wrote it.",
    .run = run,
};
