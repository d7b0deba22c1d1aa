/* SPDX-License-Identifier: Apache-2.0
 *
 * What `weir sim` says about a run and about many. */
#ifndef WEIR_CLI_SIM_REPORT_H
#define WEIR_CLI_SIM_REPORT_H

#include <stdbool.h>

#include "sim/soak.h"

/* The command that repeats a run. */
struct weir_sim_command {
    uint64_t seed;
    const char *options; /* what was given besides mode and seed; "" */
    struct weir_sim_reduction reduction;
};

void weir_sim_report_run(const struct weir_sim_plan *plan, const struct weir_sim_result *result, bool json);
void weir_sim_report_cover(const struct weir_sim_plan *plan, const struct weir_sim_cover *cover, uint64_t took_ns,
                           bool json);
void weir_sim_report_command(const struct weir_sim_plan *plan, const struct weir_sim_command *command);

#endif
