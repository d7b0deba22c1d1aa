/* SPDX-License-Identifier: Apache-2.0
 *
 * Many runs by seed: what they covered, and what a failing one needs to fail. */
#pragma once

#include "sim/run.h"

struct weir_sim_cover {
    uint64_t runs, broken, first_broken; /* first_broken: its seed */
    uint64_t with[WEIR_SIM_FAULT_KINDS]; /* runs with such a fault */
    uint64_t with_duplicates, with_losses;
    uint64_t decisions, decisions_min, admitted, messages;
    uint64_t faults_min;
    uint32_t nodes_min, nodes_max;
    uint64_t virtual_ns, virtual_min_ns;
    uint64_t near_half;    /* runs that came within half of their bound */
    uint64_t near_max_ppm; /* the closest approach */
    uint64_t peak_max;     /* units over the limit, at most */
};

/* Adds one run. */
void weir_sim_cover_add(struct weir_sim_cover *cover, uint64_t seed, const struct weir_sim_plan *plan,
                        const struct weir_sim_result *result);

/* `plan` breaks something. Drops faults, loads, nodes and the end, one after the other, as long as the run still breaks
 * the same; returns what can go. */
struct weir_sim_reduction weir_sim_shrink(const struct weir_sim_plan *plan, enum weir_sim_break kind);
