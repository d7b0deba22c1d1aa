/* SPDX-License-Identifier: Apache-2.0
 *
 * What `weir sim` says about a run and about many. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

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
/* Writes the plan as a scenario. False: it could not be written, which was said. */
bool weir_sim_report_plan(const struct weir_sim_plan *plan, uint64_t seed, const char *path);

/* 0, or WEIR_EXIT_ERROR, and it was said. */
int weir_sim_file_open(const char *path, FILE **ret_file);
int weir_sim_file_close(const char *path, FILE *file);
