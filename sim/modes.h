/* SPDX-License-Identifier: Apache-2.0
 *
 * The five ways of sharing, as modes of the simulator: each hosts the code of core/share as a server does. */
#pragma once

#include "sim/world.h"

extern const struct weir_sim_mode weir_sim_exact;
extern const struct weir_sim_mode weir_sim_leased;
extern const struct weir_sim_mode weir_sim_batched;
extern const struct weir_sim_mode weir_sim_split;
extern const struct weir_sim_mode weir_sim_gossip;
/* The same with the code of limits/ around it that a server runs. */
extern const struct weir_sim_mode weir_sim_leased_host;
extern const struct weir_sim_mode weir_sim_batched_host;
extern const struct weir_sim_mode weir_sim_gossip_host;
extern const struct weir_sim_mode weir_sim_exact_host;

/* What several of them state. As bounds: the slack of all nodes, of all but one, of one. As calm_ppm: 90 %. */
uint64_t weir_sim_slack_of_all(const struct weir_sim_plan *plan);
uint64_t weir_sim_slack_of_others(const struct weir_sim_plan *plan);
uint64_t weir_sim_slack_of_one(const struct weir_sim_plan *plan);
uint32_t weir_sim_nine_tenths(const struct weir_sim_plan *plan);

/* By its name; NULL if there is none. */
const struct weir_sim_mode *weir_sim_mode_find(const char *name);
/* All of them, in the order of the table in docs/sharing.md, then the hosts; NULL beyond the last. */
const struct weir_sim_mode *weir_sim_mode_at(size_t index);
