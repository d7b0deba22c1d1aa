/* SPDX-License-Identifier: Apache-2.0
 *
 * The world from inside: what world.c (places, clocks, network, requests) and run.c (clients, faults, the loop) share.
 * Nobody else includes it. */
#pragma once

#include "sim/check.h"
#include "sim/pool.h"
#include "sim/queue.h"
#include "sim/run.h"

#define WEIR_SIM_WALL_NS (UINT64_C(1700000000) * WEIR_NS_PER_SECOND) /* wall time when a run begins */
#define WEIR_SIM_WAITING_MAX 65536                                   /* requests that wait at once, of all nodes */
#define WEIR_SIM_HOLD_MAX_NS (20 * WEIR_NS_PER_SECOND / 1000)
#define WEIR_SIM_NONE UINT32_MAX

struct weir_sim_waiting {
    uint32_t next, previous; /* at its node, oldest first */
    uint32_t node;
    uint32_t turn; /* how often this place was used: part of the id */
    uint64_t cost, since_ns;
    bool used;
};

struct weir_sim_place {
    uint8_t *state;
    uint64_t base_ns;      /* a node's monotonic clock when the run begins */
    int64_t rate;          /* it runs faster by so many 2^-20 */
    uint64_t wall_off_ns;  /* its wall clock is ahead by so much */
    uint64_t wall_high_ns; /* the highest wall time it has seen */
    uint64_t paused_until_ns;
    uint32_t revision;   /* of the limit */
    uint32_t life;       /* + 1 with each crash */
    uint32_t downed_by;  /* fault + 1; 0 = up */
    uint64_t wake_ns;    /* wanted; 0 = none */
    uint64_t pending_ns; /* the true time of the timer event under way; 0 = none */
    uint64_t timer;      /* its number: those before it were replaced, and do nothing */
    uint32_t first, last;
};

/* Units that the engine admitted. */
struct weir_sim_late {
    struct weir_sim_decision decision;
    uint64_t units;
};

struct weir_sim {
    const struct weir_sim_plan *plan;
    struct weir_limit limit;
    struct weir_sim_queue queue;
    struct weir_sim_pool pool;
    struct weir_sim_random random;
    uint32_t revision;                               /* the newest: odd ones are plan->changed */
    struct weir_sim_check check;                     /* by the larger of both, in rate and in burst */
    struct weir_sim_check newest;                    /* by the newest, of what was admitted since all nodes have it */
    bool settled;                                    /* they have */
    bool lost;                                       /* the engine has lost state */
    bool doubtful;                                   /* a reload may have died with a node before anybody heard of it */
    struct weir_sim_check alone[WEIR_SIM_NODES_MAX]; /* of each node's share */
    struct weir_sim_late *late; /* admitted as of an earlier time: held back for a while, to be judged in its order */
    uint32_t late_first, late_count, late_room;
    struct weir_sim_result *result;
    struct weir_sim_trace *trace;
    uint64_t now_ns; /* true */
    uint64_t number;
    int64_t stepped_ns;     /* the engine's clock, in all */
    uint64_t forward_ns;    /* of it, forward ones */
    uint64_t windows_back;  /* that it stepped back over */
    uint64_t fastest_rate;  /* of the nodes' clocks, 2^-20 */
    uint64_t active;        /* faults, as a mask */
    uint64_t calm_again_ns; /* the calm is judged from here on only; 0: from its begin */
    uint8_t *saved;         /* the engine's state as it was before a failover */
    uint64_t bound, bound_crash;
    struct weir_sim_place nodes[WEIR_SIM_NODES_MAX];
    struct weir_sim_place engine;
    struct weir_sim_waiting *waiting;
    uint32_t waiting_count, waiting_free;
};

_Static_assert(WEIR_SIM_FAULTS_MAX <= 64, "faults fit a mask");

/* A node's clock at a true time, and the first true time at which it shows so much. */
static inline uint64_t weir_sim_clock_at(const struct weir_sim_place *p, uint64_t true_ns)
{
    return p->base_ns + true_ns + (uint64_t)(((int64_t)true_ns * p->rate) >> 20);
}

static inline uint64_t weir_sim_true_at(const struct weir_sim_place *p, uint64_t clock_ns)
{
    uint64_t since_ns = weir_sub_sat(clock_ns, p->base_ns);
    return weir_mul_div_ceil(since_ns, UINT64_C(1) << 20, (uint64_t)((INT64_C(1) << 20) + p->rate));
}

/* A time as the check has it: of the fastest clock without an engine, else with what the engine's clock skipped. */
static inline uint64_t weir_sim_checked(const struct weir_sim *sim, uint64_t at_ns)
{
    return at_ns + (sim->plan->mode->engineless ? (at_ns * sim->fastest_rate >> 20) : sim->forward_ns);
}

static inline const struct weir_limit_spec *weir_sim_revision(const struct weir_sim *sim, uint32_t revision)
{
    return revision & 1 ? &sim->plan->changed : &sim->plan->limit;
}

/* Which definition is the newest: that of the last reload, which all took in the end; or, where the others keep their
 * files, that of the last that a node took. */
static inline uint32_t weir_sim_newest_file(const struct weir_sim *sim)
{
    uint32_t newest = sim->plan->partial ? 0 : sim->revision;
    for (uint32_t i = 0; i < sim->plan->nodes; i++)
        newest = sim->nodes[i].revision > newest ? sim->nodes[i].revision : newest;
    return newest;
}

/* world.c */
struct weir_sim_place *weir_sim_place_of(struct weir_sim *sim, uint32_t place);
void weir_sim_start_node(struct weir_sim *sim, uint32_t node);
void weir_sim_stop_node(struct weir_sim *sim, uint32_t node);
void weir_sim_crash_node(struct weir_sim *sim, uint32_t node);
void weir_sim_arrive(struct weir_sim *sim, uint32_t node, uint64_t cost);
/* As of the decision: when it was made, and the window that it fell into. */
void weir_sim_finish(struct weir_sim *sim, uint32_t node, uint64_t cost, const struct weir_sim_decision *decision,
                     bool admitted);
void weir_sim_timer_due(struct weir_sim *sim, uint32_t node);
/* Requests that have waited for longer than this, of nodes that are up. */
uint32_t weir_sim_stuck(const struct weir_sim *sim, uint64_t longer_than_ns);

/* judge.c */
/* `units` are admitted at now_ns, which is the check's: is the bound kept? */
void weir_sim_judge(struct weir_sim *sim, uint32_t node, const struct weir_sim_decision *decision, uint64_t now_ns,
                    uint64_t units);
/* What the node admits alone is held against its share of this. */
void weir_sim_alone_init(struct weir_sim *sim, const struct weir_limit_spec *larger, uint32_t node);
/* The window that a decision of the node falls into now; its start, where the mode tells that. */
uint64_t weir_sim_window(struct weir_sim *sim, uint32_t node);
/* Judges what was admitted as of a time up to this, which is the check's. */
void weir_sim_late_judge(struct weir_sim *sim, uint64_t until_ns);
