/* SPDX-License-Identifier: Apache-2.0
 *
 * How limits over many nodes are usually written, to stand beside ours in a scenario. None is a straw man: each is what
 * the first page of a search finds, and each is right on one node. All count requests of cost 1 against plan->limit's
 * n per p, whatever its algorithm. */
#pragma once

#include "sim/world.h"

/* A node decides by a copy of the count that is interval_ns old, and counts behind the answer. */
extern const struct weir_sim_mode weir_naive_cache;
/* GET, compare, INCR. */
extern const struct weir_sim_mode weir_naive_get_incr;
/* INCR; whoever gets 1 sends EXPIRE next. */
extern const struct weir_sim_mode weir_naive_incr_expire;
/* INCR of "key:window" and its expiry in one step, the window by the store's clock. */
extern const struct weir_sim_mode weir_naive_window;
/* The same, the window by the node's own clock. */
extern const struct weir_sim_mode weir_naive_node_clock;
/* Own count plus what the others said last; each node says its count every interval_ns. No store. */
extern const struct weir_sim_mode weir_naive_tell;

/* By its name, "naive-cache" and so on; NULL if there is none. */
const struct weir_sim_mode *weir_naive_find(const char *name);
