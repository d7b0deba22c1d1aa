/* SPDX-License-Identifier: Apache-2.0
 *
 * What several modes state of themselves. Apart from their list (modes.c), so that some can be had without the others:
 * the playground has the machines of core/share, and none of the hosts of limits/. */
#include "sim/modes.h"

uint64_t weir_sim_slack_of_all(const struct weir_sim_plan *plan)
{
    return plan->nodes * plan->slack;
}

uint64_t weir_sim_slack_of_others(const struct weir_sim_plan *plan)
{
    return (plan->nodes - 1) * plan->slack;
}

uint64_t weir_sim_slack_of_one(const struct weir_sim_plan *plan)
{
    return plan->slack;
}

uint32_t weir_sim_nine_tenths(const struct weir_sim_plan *plan)
{
    (void)plan;
    return 900000;
}
