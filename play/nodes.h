/* SPDX-License-Identifier: Apache-2.0
 *
 * Many nodes: one plan of the simulator, run by one mode at a time. The same plan gives the same run wherever it
 * runs. */
#pragma once

#include "play/play.h"
#include "sim/run.h"

#define PLAY_NODES_MAX 16 /* of WEIR_SIM_NODES_MAX */
#define PLAY_COLUMNS_MAX 600

enum play_plan {
    PLAY_PLAN_SEED,
    PLAY_PLAN_NODES,
    PLAY_PLAN_DURATION_NS,
    PLAY_PLAN_ALGORITHM,
    PLAY_PLAN_COUNT,
    PLAY_PLAN_PERIOD_NS,
    PLAY_PLAN_BURST,
    PLAY_PLAN_SLACK,
    PLAY_PLAN_INTERVAL_NS,
    PLAY_PLAN_LATENCY_MIN_NS,
    PLAY_PLAN_LATENCY_MAX_NS,
    PLAY_PLAN_LOSS_PPM,
    PLAY_PLAN_DRIFT_PPM,
    PLAY_PLAN_SKEW_NS,
    PLAY_PLAN_DEADLINE_NS,
    PLAY_PLAN_CHUNK_TTL_NS,
};

/* What a run came to. */
enum play_sum {
    PLAY_SUM_ADMITTED, /* requests */
    PLAY_SUM_REFUSED,
    PLAY_SUM_DROPPED, /* died with a node, or came while it was down */
    PLAY_SUM_UNITS,
    PLAY_SUM_PEAK,   /* units over the limit, at most */
    PLAY_SUM_BOUND,  /* as stated, when that was closest */
    PLAY_SUM_STATED, /* the same without crashes; -1: the mode states none */
    PLAY_SUM_MESSAGES,
    PLAY_SUM_LOST,
    PLAY_SUM_TO_ENGINE,
    PLAY_SUM_WAIT_MEAN_NS,
    PLAY_SUM_WAIT_MAX_NS,
    PLAY_SUM_BROKEN, /* the checker says so, of a mode that states a bound */
};

/* A plan of no load and no fault, as weir_sim_plan_init has it. */
PLAY_EXPORT(play_plan_begin) void play_plan_begin(void);
PLAY_EXPORT(play_plan_set) void play_plan_set(uint32_t what, double value);
/* Nodes are masks. 0: too many. */
PLAY_EXPORT(play_plan_load)
bool play_plan_load(uint32_t nodes, double from_ns, double until_ns, double rate_per_s, double burst, double every_ns);
PLAY_EXPORT(play_plan_fault)
bool play_plan_fault(uint32_t kind, uint32_t nodes, double from_ns, double until_ns, double step_ns);

/* Of the modes that are here; NULL beyond the last. */
PLAY_EXPORT(play_mode_name) const char *play_mode_name(uint32_t mode);
/* 0 or a negative error, and play_plan_wrong says what. */
PLAY_EXPORT(play_run) int play_run(uint32_t mode);
PLAY_EXPORT(play_plan_wrong) const char *play_plan_wrong(void);

/* Of the last run. */
PLAY_EXPORT(play_sum) double play_sum(uint32_t what);
PLAY_EXPORT(play_node_admitted) double play_node_admitted(uint32_t node);
PLAY_EXPORT(play_node_refused) double play_node_refused(uint32_t node);
PLAY_EXPORT(play_node_dropped) double play_node_dropped(uint32_t node);
PLAY_EXPORT(play_why) const char *play_why(void); /* broken */
/* Time in so many columns. Units admitted in each; the most over the limit in each, -1 where nothing was judged; and
 * the bound at that moment. */
PLAY_EXPORT(play_units) const double *play_units(uint32_t columns);
PLAY_EXPORT(play_node_units) const double *play_node_units(uint32_t node, uint32_t columns);
PLAY_EXPORT(play_overs) const double *play_overs(uint32_t columns);
PLAY_EXPORT(play_bounds) const double *play_bounds(void); /* of the last play_overs */
/* Of every number and every admission of the run. */
PLAY_EXPORT(play_digest) uint64_t play_digest(void);

uint64_t play_digest_of(const struct weir_sim_plan *plan, const struct weir_sim_result *result,
                        const struct weir_sim_trace *trace);
