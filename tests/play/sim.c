/* SPDX-License-Identifier: Apache-2.0
 *
 * sim FILE: runs each way of a scenario as the simulator does, natively, and prints its name and the digest of its
 * run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "play/nodes.h"
#include "sim/run.h"
#include "sim/scenario.h"

static int run_way(const struct weir_scenario *scenario, const struct weir_scenario_way *way)
{
    static struct weir_sim_result result;
    struct weir_sim_plan plan = way->plan;
    struct weir_sim_trace trace = { .judged = true };
    struct weir_fault fault;
    plan.mode = way->modes[0];
    plan.loads_count = scenario->groups[0].loads_count;
    memcpy(plan.loads, scenario->groups[0].loads, sizeof plan.loads);
    int error = weir_sim_run(&plan, &trace, &result, &fault);
    if (error == 0)
        printf("%s %" PRIu64 "\n", plan.mode->name, play_digest_of(&plan, &result, &trace));
    else
        printf("%s %s\n", plan.mode->name, fault.text);
    free(trace.marks);
    free(trace.overs);
    return 0;
}

int main(int argc, char **argv)
{
    static struct weir_scenario scenario;
    char error[256];
    if (argc != 2 || weir_scenario_load(argv[1], &scenario, error, sizeof error) != 0) {
        fprintf(stderr, "sim: %s\n", argc == 2 ? error : "usage: sim FILE");
        return 1;
    }
    for (uint32_t i = 0; i < scenario.ways_count; i++)
        run_way(&scenario, &scenario.ways[i]);
    return 0;
}
