/* SPDX-License-Identifier: Apache-2.0
 *
 * A world in virtual time: N nodes, one engine, clients and the network between them, for one key of one limit. What
 * happens follows from the plan alone (sim/plan.h): the same plan gives the same run, on every machine.
 *
 * ---- How a mode plugs in ----
 *
 * A mode is a table of functions (struct weir_sim_mode). Ours host core/share (sim/node_host.c and others), or run the
 * hosts of limits/ that do (sim/share_hosts.c, sim/gossip_host.c); a naive one is a few lines. GET, then INCR, say:
 *
 *     struct ask { uint32_t request; bool incr; uint64_t count; };
 *     static enum weir_sim_say request(sim, node, state, r)       a client asks
 *     {
 *         struct ask ask = { .request = r->id };
 *         weir_sim_send(sim, node, WEIR_SIM_ENGINE, &ask, sizeof ask);
 *         return WEIR_SIM_WAIT;                                   stays open until weir_sim_answer
 *     }
 *     static void engine_message(sim, state, from, data, size)    the server: state->count, answers with it
 *     static void message(sim, node, state, from, data, size)     the node decides
 *     {
 *         weir_sim_answer(sim, node, ask->request, ask->count < weir_sim_plan_of(sim)->limit.count);
 *     }
 *     const struct weir_sim_mode naive_get_incr = { .name = "get-then-incr", .node_size = 0, .engine_size = ..., ... };
 *
 * and a run of it: `plan.mode = &naive_get_incr; weir_sim_run(&plan, NULL, &result, &fault);` (sim/run.h). The checker
 * judges it by `bound` (NULL: 0) and the result says by how much it was passed.
 *
 * Rules for a mode: state is plain bytes, zeroed before `start`. An engine's has no pointers out of itself: it is saved
 * and restored for a lossy failover. A node's may have some where `stop` frees what they lead to. Time comes from
 * weir_sim_now and weir_sim_wall only, chance from weir_sim_draw. A node's `start` is called at the start and after
 * each crash.
 *
 * ---- What is simulated ----
 *
 * Virtual time is the engine's machine's true time. A node's monotonic clock (weir_sim_now) runs at its own rate
 * (plan: drift_ppm) and never steps or stops, as CLOCK_BOOTTIME; a paused node's goes on while it does nothing. The
 * engine's clock is a wall clock, as Redis's: it may step. Nodes' wall clocks (weir_sim_wall) are off by up to
 * skew_ns. Messages are delayed, lost, repeated, and overtake each other; a link may be cut, in one direction or both.
 * A crash loses all of a node's memory and what it was to answer; messages already sent still arrive. */
#pragma once

#include "core/limit/limit.h"
#include "sim/plan.h"
#include "sim/queue.h"
#include "sim/random.h"

struct weir_sim;

#define WEIR_SIM_ENGINE UINT32_MAX /* the place that is no node */

enum weir_sim_say {
    WEIR_SIM_NO,
    WEIR_SIM_YES,
    WEIR_SIM_WAIT, /* until weir_sim_answer, or weir_sim_retry asks again */
};

struct weir_sim_request {
    uint32_t id;
    uint64_t cost;
    bool again; /* asked before, and told to wait */
};

struct weir_sim_mode {
    const char *name;
    size_t node_size, engine_size;
    void (*start)(struct weir_sim *sim, uint32_t node, void *state);
    /* It crashes, or the run ends: for a mode with memory beside its state. NULL: none has to be freed. */
    void (*stop)(struct weir_sim *sim, uint32_t node, void *state);
    /* May the request proceed? YES of a mode with `finish`: the units are set aside until then. */
    enum weir_sim_say (*request)(struct weir_sim *sim, uint32_t node, void *state,
                                 const struct weir_sim_request *request);
    /* NULL: YES is final. Else called once for each YES, at once or a little later (other limits of the same request
     * had to be asked): admitted now, or given back. Says whether it was admitted: it may be too late. */
    bool (*finish)(struct weir_sim *sim, uint32_t node, void *state, uint64_t cost, bool admitted);
    void (*message)(struct weir_sim *sim, uint32_t node, void *state, uint32_t from, const void *data, size_t size);
    /* weir_sim_spec is another one now. NULL: the mode is not reloaded. */
    void (*reload)(struct weir_sim *sim, uint32_t node, void *state);
    void (*timer)(struct weir_sim *sim, uint32_t node, void *state); /* weir_sim_wake's time has come */
    void (*engine_start)(struct weir_sim *sim, void *state);         /* also after a loss of state */
    void (*engine_message)(struct weir_sim *sim, void *state, uint32_t from, const void *data, size_t size);
    /* Units over the limit that this mode may admit, crashes aside; NULL = 0. */
    uint64_t (*bound)(const struct weir_sim_plan *plan);
    /* Units more per crash of a node; NULL = 0. */
    uint64_t (*bound_crash)(const struct weir_sim_plan *plan);
    bool step_forgets;   /* a step forward of the engine's clock ends what nodes hold: one capacity more each time */
    bool no_log;         /* cannot share a sliding_log */
    bool engine_decides; /* the engine admits, and says so with weir_sim_admitted; nodes only pass it on */
    bool engineless;     /* judged by the fastest node's clock, not by the engine's */
    bool engine_windows; /* of its calendar are those of its clock, whatever it showed before */
    bool alone;          /* each node keeps its share of the limit, whatever the others do */
    /* Of what the limit allows in the calm tail of a plan, at least so much must be admitted, in millionths. NULL: not
     * judged. */
    uint32_t (*calm_ppm)(const struct weir_sim_plan *plan);
    /* Whether the node has heard what the others admitted before it started. NULL: as soon as it is up. */
    bool (*knows)(const void *state);
    /* Without an engine, sliding_counter: when the window began in which the node has just admitted, as it says, by its
     * clock. NULL: windows begin at multiples of the period. */
    uint64_t (*window_start)(struct weir_sim *sim, uint32_t node, void *state);
    /* At the end of a run: does the books' balance hold? NULL, or what is wrong. NULL = not asked. */
    const char *(*audit)(struct weir_sim *sim);
};

/* ---- for modes ---- */

/* The engine has admitted so much, now: for modes whose engine decides. */
void weir_sim_admitted(struct weir_sim *sim, uint64_t units);

/* The engine's time and window, as the check has them; and what was admitted as of then, in a second step that came
 * later. */
struct weir_sim_decision weir_sim_decision_now(const struct weir_sim *sim);
void weir_sim_admitted_as_of(struct weir_sim *sim, const struct weir_sim_decision *decision, uint64_t units);

/* A node has admitted so much by its share, now, for the engine is away: what all its lives admit so is held against
 * the share. */
void weir_sim_admitted_alone(struct weir_sim *sim, uint32_t node, uint64_t units);

/* Of window_start: `last_ns` is what the node said before, in this life (0: nothing), and becomes start_ns. A window
 * begins when the one before has ended, or later; `moves`: the next one may begin at any time. */
void weir_sim_window_begins(struct weir_sim *sim, uint64_t *last_ns, uint64_t start_ns, bool moves);

/* What the mode found is no overshoot, and must not be. */
void weir_sim_wrong(struct weir_sim *sim, const char *why);

/* The limit as the node was told last, and how often it had been changed by then. */
const struct weir_limit_spec *weir_sim_spec(const struct weir_sim *sim, uint32_t node);
uint32_t weir_sim_file(const struct weir_sim *sim, uint32_t node);
/* By which all nodes that can hear of it decide; NULL while that is not said: they have not had the time. In the calm
 * at the end all of them can. */
const struct weir_limit_spec *weir_sim_newest(const struct weir_sim *sim);
bool weir_sim_is_calm(const struct weir_sim *sim);
/* A second before the calm: from then on no message is lost, repeated or held up. */
bool weir_sim_is_quiet(const struct weir_sim *sim);
/* Too few nodes are back from what came before: what liveness is judged by begins now. */
void weir_sim_calm_again(struct weir_sim *sim);
/* A node that may be behind takes units by an older one: what is held against the newest alone begins anew. Of what
 * nodes hold now they may spend, while a chunk lasts, more than the newest has. */
void weir_sim_newest_again(struct weir_sim *sim, uint64_t held);

const struct weir_sim_plan *weir_sim_plan_of(const struct weir_sim *sim);
const struct weir_limit *weir_sim_limit(const struct weir_sim *sim); /* plan->limit, compiled */

/* The monotonic clock of a node; of the engine its wall clock. > 0. */
uint64_t weir_sim_now(const struct weir_sim *sim, uint32_t place);
/* A node's wall clock. */
uint64_t weir_sim_wall(const struct weir_sim *sim, uint32_t node);

/* An event of `cost` now, the calendar window filled in if the limit has one: on the engine's clock there, on a node's
 * wall clock here. */
struct weir_event weir_sim_event_now(const struct weir_sim *sim, uint32_t place, uint64_t cost);

/* Copies `data`. Nodes may send to each other and to the engine; size 1 to 65,535. */
void weir_sim_send(struct weir_sim *sim, uint32_t from, uint32_t to, const void *data, size_t size);

/* `timer` at this time of the node's monotonic clock; the newest call counts, 0 = not at all. */
void weir_sim_wake(struct weir_sim *sim, uint32_t node, uint64_t at_ns);
/* At this time, or sooner if that was wanted before. */
void weir_sim_wake_by(struct weir_sim *sim, uint32_t node, uint64_t at_ns);

/* Ends a request that waits; one that is gone (crash, answered) is left alone. */
void weir_sim_answer(struct weir_sim *sim, uint32_t node, uint32_t request, bool admitted);
/* Asks `request` again for all that wait at the node, oldest first. */
void weir_sim_retry(struct weir_sim *sim, uint32_t node);

/* Refuses what has waited for `age_ns` or longer. Returns how much later the next one will have; 0 = none waits. */
uint64_t weir_sim_give_up(struct weir_sim *sim, uint32_t node, uint64_t age_ns);

/* Of this run so far: units that were admitted, and crashes of nodes. */
uint64_t weir_sim_units(const struct weir_sim *sim);
uint64_t weir_sim_crashes(const struct weir_sim *sim);

/* Whether the node has crashed before. */
bool weir_sim_restarted(const struct weir_sim *sim, uint32_t node);
struct weir_sim_random *weir_sim_draw(struct weir_sim *sim);
/* A number never given before in this run, growing; > 0: stints and epochs. */
uint64_t weir_sim_number(struct weir_sim *sim);
/* The node's state, for checks across nodes and for plants; NULL while it is down. */
void *weir_sim_state(struct weir_sim *sim, uint32_t place);
