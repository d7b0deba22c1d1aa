/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan says everything that a run depends on. weir_sim_plan_seeded draws one, adversarial on purpose; a scenario
 * file or a test writes its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "weir/limit.h"

#define WEIR_SIM_NODES_MAX 64
#define WEIR_SIM_LOADS_MAX 24
#define WEIR_SIM_FAULTS_MAX 32
#define WEIR_SIM_ALL UINT64_MAX /* nodes, as a mask */

struct weir_sim_mode;
struct weir_sim_script_server;

/* Requests of clients. Between from and until, each node of the mask gets them at rate_per_s (random gaps), or
 * `burst` of them at once at from_ns and then every every_ns. */
struct weir_sim_load {
    uint64_t nodes; /* mask */
    uint64_t from_ns, until_ns;
    uint64_t rate_per_s; /* per node; 0 = bursts */
    uint64_t burst, every_ns;
    uint64_t cost_max; /* costs are 1 to this; 0 = 1 */
};

enum weir_sim_fault_kind {
    WEIR_SIM_CUT,       /* the nodes of the mask cannot talk to the engine */
    WEIR_SIM_SPLIT,     /* the nodes of the mask and the others cannot talk to each other */
    WEIR_SIM_PAUSE,     /* the nodes of the mask do nothing (one: the engine, mask 0) */
    WEIR_SIM_CRASH,     /* the nodes of the mask crash, and start again at the end */
    WEIR_SIM_STEP,      /* the engine's clock steps by `step_ns` at once */
    WEIR_SIM_LOSE,      /* the engine loses its state: back to what it was step_ns before, or to nothing (0) */
    WEIR_SIM_SLOW,      /* all messages take up to step_ns longer */
    WEIR_SIM_DUPLICATE, /* all messages come several times, the copies up to step_ns later */
    WEIR_SIM_DROP,      /* a third of all messages is lost */
    WEIR_SIM_RELOAD,    /* the limit is `changed` at the nodes of the mask, and at the end at all; the next time back */
    WEIR_SIM_FAULT_KINDS
};

struct weir_sim_fault {
    enum weir_sim_fault_kind kind;
    uint64_t nodes; /* mask */
    uint64_t from_ns, until_ns;
    int64_t step_ns;
    bool one_way; /* CUT, SPLIT: only towards the nodes of the mask */
};

/* Mistakes that the checker must find: made by the host, never by core/. */
enum weir_sim_plant {
    WEIR_SIM_PLANT_NONE,
    WEIR_SIM_PLANT_SEQUENCE,  /* the engine (gossip: a peer) takes late and repeated messages for new ones */
    WEIR_SIM_PLANT_EPOCH,     /* a node that starts again goes on under its old stint (gossip: epoch) */
    WEIR_SIM_PLANT_RETURN,    /* units that a node gives back stay in its pocket as well */
    WEIR_SIM_PLANT_OVERWRITE, /* gossip: what is heard replaces what is known */
    WEIR_SIM_PLANT_TWIN,      /* leased-host, batched-host: stints follow from a node's name */
    WEIR_SIM_PLANTS
};

struct weir_sim_plan {
    const struct weir_sim_mode *mode;
    uint64_t seed; /* of the draws during the run: delays, losses, gaps */
    struct weir_limit_spec limit;
    struct weir_limit_spec changed; /* of the same algorithm and period; period_ns 0: RELOAD is no fault of it */
    uint32_t nodes;
    uint64_t duration_ns;
    uint64_t slack;          /* batched, gossip: of one node */
    uint64_t interval_ns;    /* batched, gossip */
    uint64_t chunk_ttl_ns;   /* leased */
    uint64_t deadline_ns;    /* an ask not answered for so long is lost */
    uint64_t latency_min_ns; /* one way */
    uint64_t latency_max_ns;
    uint64_t far;                                  /* mask: these nodes are in another region, */
    uint64_t far_ns;                               /* so much further from the engine and from the others */
    uint32_t loss_ppm, duplicate_ppm, reorder_ppm; /* of messages; a reordered one takes up to ten times as long */
    uint32_t drift_ppm;                            /* nodes' clocks run up to so much faster or slower */
    uint64_t skew_ns;                              /* nodes' wall clocks are off by up to so much */
    uint32_t hold_ppm;                             /* of requests are committed or cancelled only up to 20 ms later */
    uint32_t loads_count, faults_count;
    struct weir_sim_load loads[WEIR_SIM_LOADS_MAX];
    struct weir_sim_fault faults[WEIR_SIM_FAULTS_MAX];
    bool numbered;     /* files say which is newer (`revision: N`), where nodes learn of reloads from each other */
    bool partial;      /* the others keep their files when a reload ends, and hear of it all the same */
    uint32_t tick_ppm; /* of the ticks at which a node's timer is due bring a request, just before it or just after */
    bool door;         /* a client stands before each node that starts */
    bool twins;        /* the first two nodes have one name */
    bool dozen;        /* leased-host, batched-host: nodes have a dozen limits, and their files lack some at times */
    enum weir_sim_plant plant;
    struct weir_sim_script_server *server; /* exact-host: where the script runs; NULL: the double */
    uint64_t calm_ns; /* from here on nothing fails and demand is more than enough: the tail that liveness is judged by;
                         0 = not judged */
};

/* "partition", "crash", ... as tables name them. */
const char *weir_sim_fault_name(enum weir_sim_fault_kind kind);
const char *weir_sim_plant_name(enum weir_sim_plant plant);

/* A plain plan: one token bucket 100/s, 5 nodes, 10 s, 1 to 5 ms of latency, no faults, no load. */
void weir_sim_plan_init(struct weir_sim_plan *plan, const struct weir_sim_mode *mode);

/* What a seed does not choose. 0 = it does. */
struct weir_sim_fixed {
    uint32_t nodes;
    struct weir_limit_spec limit; /* period_ns 0: not fixed, */
    bool algorithm;               /* but for its algorithm */
    uint64_t slack;
};

/* Draws the rest from the seed. `fixed` may be NULL. */
void weir_sim_plan_seeded(struct weir_sim_plan *plan, const struct weir_sim_mode *mode, uint64_t seed,
                          const struct weir_sim_fixed *fixed);

/* What is left out of a plan, to find out what a failing run needs. Zero: nothing. */
struct weir_sim_reduction {
    uint32_t nodes;         /* only the first so many; 0 = all */
    uint64_t faults, loads; /* masks: without these */
    uint64_t until_ns;      /* not beyond this; 0 = to the end */
};

void weir_sim_plan_reduce(struct weir_sim_plan *plan, const struct weir_sim_reduction *reduction);
