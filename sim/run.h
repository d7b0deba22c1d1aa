/* SPDX-License-Identifier: Apache-2.0
 *
 * One run of a plan, checked after every admission. */
#pragma once

#include "sim/plan.h"
#include "sim/world.h"

struct weir_sim_node_result {
    uint64_t admitted, refused, waited; /* requests; waited: told to wait first */
    uint64_t units;                     /* admitted */
    uint64_t dropped;                   /* requests that died with the node, or came while it was down */
};

/* One thing to draw: an admission, or the start of a fault. */
struct weir_sim_mark {
    uint64_t at_ns;
    uint32_t node;
    uint64_t units;
};

enum weir_sim_break {
    WEIR_SIM_WHOLE,      /* nothing is broken */
    WEIR_SIM_OVERSHOT,   /* the bound was passed */
    WEIR_SIM_STUCK,      /* a request waits without end */
    WEIR_SIM_LAZY,       /* too little was admitted in the calm at the end */
    WEIR_SIM_UNBALANCED, /* the mode's audit found the books wrong */
};

struct weir_sim_result {
    uint64_t decisions, admitted, refused, units;
    uint64_t messages, lost, duplicated, to_engine;
    uint64_t events;                     /* of the queue, in all */
    uint64_t peak;                       /* units over the limit, at most */
    uint64_t bound;                      /* as stated, when it was closest (or passed) */
    uint64_t near_ppm;                   /* peak / bound at that moment, in millionths; 0 for a bound of 0 */
    uint64_t limit_all;                  /* what the limit allows in the whole run: capacity and refill */
    uint64_t wait_total_ns, wait_max_ns; /* of requests, for an answer: 0 where the node decides */
    uint64_t calm_units, calm_limit;     /* admitted in the calm tail, and n*t/p of it */
    enum weir_sim_break broken;
    char why[160];
    uint64_t broken_ns;
    struct weir_sim_node_result nodes[WEIR_SIM_NODES_MAX];
};

/* What the checker found at one admission: units over the limit, and how many are allowed then. */
struct weir_sim_over {
    uint64_t at_ns, over, bound;
};

/* Collects what a picture needs; NULL for none. Both arrays grow; the caller frees them. */
struct weir_sim_trace {
    struct weir_sim_mark *marks;
    size_t count, room;
    bool judged; /* wanted: */
    struct weir_sim_over *overs;
    size_t overs_count, overs_room;
};

#define WEIR_SIM_LOG_MAX 1024 /* n of a sliding_log */

/* 0, or WEIR_ERANGE and the fault: the limit is none, or none of this mode. */
int weir_sim_run(const struct weir_sim_plan *plan, struct weir_sim_trace *trace, struct weir_sim_result *ret_result,
                 struct weir_fault *ret_fault);
