/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop of one run: it turns the plan's loads and faults into events, lets them happen in virtual time, and judges
 * the end. Clocks, network and requests are world.c; judge.c says whether an admission was allowed. Called by
 * cli/sim.c, soak.c, scenario_run.c and the tests. */
#include "sim/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "core/limit/limit.h"
#include "sim/inside.h"

#define SETTLES_NS (3 * WEIR_NS_PER_SECOND)

enum fault_moment {
    FAULT_BEGINS,
    FAULT_ENDS,
    FAULT_SAVES,   /* LOSE: what the engine will go back to */
    FAULT_SETTLES, /* RELOAD: all nodes have had the time to hear of it from each other */
};

static uint64_t all_nodes(const struct weir_sim_plan *plan)
{
    return plan->nodes == 64 ? UINT64_MAX : (UINT64_C(1) << plan->nodes) - 1;
}

/* ---- clients ---- */

static void load_next(struct weir_sim *sim, uint32_t index, uint32_t node)
{
    const struct weir_sim_load *load = &sim->plan->loads[index];
    uint64_t at_ns;
    if (load->rate_per_s > 0)
        at_ns = sim->now_ns + 1 + weir_sim_random_below(&sim->random, 2 * WEIR_NS_PER_SECOND / load->rate_per_s);
    else if (load->every_ns > 0)
        at_ns = sim->now_ns + load->every_ns;
    else
        return;
    if (at_ns < load->until_ns && at_ns < sim->plan->duration_ns)
        weir_sim_queue_push(&sim->queue, at_ns,
                            &(struct weir_sim_event){ .kind = WEIR_SIM_EVENT_ARRIVE, .place = node, .number = index });
}

static void load_due(struct weir_sim *sim, uint32_t index, uint32_t node)
{
    const struct weir_sim_load *load = &sim->plan->loads[index];
    uint64_t count = load->rate_per_s > 0 ? 1 : load->burst;
    load_next(sim, index, node);
    for (; count > 0; count--) {
        uint64_t cost = load->cost_max > 1 ? weir_sim_random_in(&sim->random, 1, load->cost_max) : 1;
        if (sim->nodes[node].downed_by)
            sim->result->nodes[node].dropped++;
        else
            weir_sim_arrive(sim, node, cost);
    }
}

static void loads_begin(struct weir_sim *sim)
{
    for (uint32_t i = 0; i < sim->plan->loads_count; i++) {
        const struct weir_sim_load *load = &sim->plan->loads[i];
        for (uint64_t rest = load->nodes & all_nodes(sim->plan); rest; rest &= rest - 1) {
            struct weir_sim_event event = { .kind = WEIR_SIM_EVENT_ARRIVE, .number = i };
            event.place = (uint32_t)__builtin_ctzll(rest);
            uint64_t gap_ns = load->rate_per_s > 0 ? WEIR_NS_PER_SECOND / load->rate_per_s : 0;
            weir_sim_queue_push(&sim->queue, load->from_ns + weir_sim_random_below(&sim->random, gap_ns), &event);
        }
    }
}

/* ---- faults ---- */

/* More may be admitted, because of what happens now. */
static void allow(struct weir_sim *sim, uint64_t grace_ns, uint64_t units)
{
    weir_sim_late_judge(sim, WEIR_NEVER);
    weir_sim_check_allow(&sim->check, weir_sim_checked(sim, sim->now_ns), grace_ns, units);
    if (sim->settled)
        weir_sim_check_allow(&sim->newest, weir_sim_checked(sim, sim->now_ns), grace_ns, units);
}

static void engine_loses(struct weir_sim *sim, const struct weir_sim_fault *fault)
{
    const struct weir_sim_mode *mode = sim->plan->mode;
    if (mode->engine_size == 0)
        return;
    if (fault->step_ns > 0 && sim->saved) {
        memcpy(sim->engine.state, sim->saved, mode->engine_size);
    } else {
        memset(sim->engine.state, 0, mode->engine_size);
        if (mode->engine_start)
            mode->engine_start(sim, sim->engine.state);
    }
    sim->lost = true;
    /* What nodes still held of the old state is spent within the life of a chunk. Lost too is by how much the limit
     * had been passed already, which nobody pays back. */
    uint64_t grace_ns = sim->plan->chunk_ttl_ns + 2 * sim->plan->deadline_ns;
    allow(sim, grace_ns, sim->check.capacity + sim->bound);
}

/* What is held is held for a length of time on the engine's clock: a step forward by more than the margin (which is
 * small at the end of a window) ends it there and not at its holder. A loss, stated as one capacity. */
static void engine_steps(struct weir_sim *sim, const struct weir_sim_fault *fault)
{
    sim->engine.wall_high_ns = weir_max_u64(sim->engine.wall_high_ns, weir_sim_now(sim, WEIR_SIM_ENGINE));
    uint64_t period_ns = sim->plan->limit.period_ns, window = weir_sim_now(sim, WEIR_SIM_ENGINE) / period_ns;
    sim->stepped_ns += fault->step_ns;
    sim->windows_back += weir_sub_sat(window, weir_sim_now(sim, WEIR_SIM_ENGINE) / period_ns);
    if (fault->step_ns <= 0)
        return;
    uint64_t ahead_ns = (uint64_t)fault->step_ns;
    sim->forward_ns += ahead_ns;
    if (sim->plan->mode->step_forgets && (sim->limit.calendar || ahead_ns > sim->plan->chunk_ttl_ns / 20))
        allow(sim, sim->plan->chunk_ttl_ns, sim->check.capacity);
}

/* What others took they hear of through the engine. */
static bool learns(const struct weir_sim_mode *mode)
{
    return mode->reload && mode->engine_size > 0;
}

/* Nodes of the mask that are up take the newest definition; who is down will start with it. Where all have it, what is
 * admitted from now on is held against it alone. */
static void nodes_reload(struct weir_sim *sim, uint64_t nodes)
{
    weir_sim_late_judge(sim, WEIR_NEVER);
    sim->settled = true;
    for (uint32_t i = 0; i < sim->plan->nodes; i++) {
        struct weir_sim_place *p = &sim->nodes[i];
        if (!p->downed_by && (nodes >> i & 1) && p->revision != sim->revision) {
            p->revision = sim->revision;
            sim->plan->mode->reload(sim, i, p->state);
        }
        sim->settled &= p->downed_by || p->revision == sim->revision;
    }
    sim->settled &= !learns(sim->plan->mode);
    weir_sim_check_deinit(&sim->newest);
    weir_sim_check_init(&sim->newest, weir_sim_revision(sim, sim->revision));
}

/* Not while a reload is under way. One that has just ended does not put it off, though a node may not have heard of it:
 * what the engine decides for that node by an older definition is excused by the ask (weir_sim_newest_again), and what
 * the node decides itself in between is bounded by its slack. So the stricter moment holds. It has found where the
 * slack did not bound it (regressions/batched-host-left-behind-window). */
static void nodes_settle(struct weir_sim *sim)
{
    bool all = !sim->doubtful;
    for (uint32_t i = 0; i < sim->plan->faults_count; i++)
        all &= (sim->active >> i & 1) == 0 || sim->plan->faults[i].kind != WEIR_SIM_RELOAD;
    for (uint32_t i = 0; i < sim->plan->nodes; i++)
        all &= !sim->nodes[i].downed_by && (sim->plan->partial || sim->nodes[i].revision == sim->revision);
    if (!all || sim->settled)
        return;
    weir_sim_newest_again(sim, 0);
    sim->settled = true;
}

static void limit_changes(struct weir_sim *sim, uint64_t nodes)
{
    sim->revision++;
    nodes_reload(sim, nodes);
}

static bool knows(const struct weir_sim *sim, uint32_t node)
{
    return sim->nodes[node].downed_by == 0 &&
           (!sim->plan->mode->knows || sim->plan->mode->knows(sim->nodes[node].state));
}

static void nodes_crash(struct weir_sim *sim, uint32_t index, uint64_t nodes)
{
    bool knew = false;
    for (; nodes; nodes &= nodes - 1) {
        uint32_t node = (uint32_t)__builtin_ctzll(nodes);
        if (sim->nodes[node].downed_by)
            continue;
        knew |= knows(sim, node);
        sim->nodes[node].downed_by = index + 1;
        weir_sim_crash_node(sim, node);
        allow(sim, 0, sim->bound_crash);
    }
    /* Without an engine, what no node remembers nobody does: a loss of state. Who has just started has none. */
    bool known = !sim->plan->mode->engineless || !sim->plan->mode->bound;
    uint64_t until_ns = 0;
    for (uint32_t i = 0; i < sim->plan->nodes; i++) {
        known |= knows(sim, i);
        if (sim->nodes[i].downed_by)
            until_ns = weir_max_u64(until_ns, sim->plan->faults[sim->nodes[i].downed_by - 1].until_ns);
    }
    if (knew && !known)
        allow(sim, until_ns - sim->now_ns + WEIR_NS_PER_SECOND, sim->check.capacity + sim->bound);
}

static void nodes_start(struct weir_sim *sim, uint32_t index, uint64_t nodes)
{
    for (; nodes; nodes &= nodes - 1) {
        uint32_t node = (uint32_t)__builtin_ctzll(nodes);
        if (sim->nodes[node].downed_by != index + 1)
            continue;
        sim->nodes[node].downed_by = 0;
        weir_sim_start_node(sim, node);
        if (sim->lost && sim->plan->partial && !sim->plan->numbered && sim->revision > 0) {
            sim->doubtful = true; /* whoever knew which of two files is the newer may be gone */
            sim->settled = false;
        }
    }
}

static void pause_places(struct weir_sim *sim, uint64_t nodes, uint64_t until_ns)
{
    if (nodes == 0)
        sim->engine.paused_until_ns = weir_max_u64(sim->engine.paused_until_ns, until_ns);
    for (; nodes; nodes &= nodes - 1) {
        struct weir_sim_place *p = &sim->nodes[__builtin_ctzll(nodes)];
        p->paused_until_ns = weir_max_u64(p->paused_until_ns, until_ns);
    }
}

static void fault_due(struct weir_sim *sim, uint32_t index, enum fault_moment moment)
{
    const struct weir_sim_fault *fault = &sim->plan->faults[index];
    uint64_t nodes = fault->nodes & all_nodes(sim->plan);
    if (moment == FAULT_SAVES) {
        if (sim->saved)
            memcpy(sim->saved, sim->engine.state, sim->plan->mode->engine_size);
        return;
    }
    if (moment == FAULT_SETTLES) {
        nodes_settle(sim);
        return;
    }
    if (moment == FAULT_ENDS) {
        sim->active &= ~(UINT64_C(1) << index);
        if (fault->kind == WEIR_SIM_CRASH)
            nodes_start(sim, index, nodes);
        else if (fault->kind == WEIR_SIM_RELOAD)
            nodes_reload(sim, sim->plan->partial ? 0 : all_nodes(sim->plan));
        return;
    }
    sim->active |= UINT64_C(1) << index;
    if (fault->kind == WEIR_SIM_PAUSE)
        pause_places(sim, nodes, fault->until_ns);
    else if (fault->kind == WEIR_SIM_CRASH)
        nodes_crash(sim, index, nodes);
    else if (fault->kind == WEIR_SIM_STEP)
        engine_steps(sim, fault);
    else if (fault->kind == WEIR_SIM_LOSE)
        engine_loses(sim, fault);
    else if (fault->kind == WEIR_SIM_RELOAD)
        limit_changes(sim, nodes);
}

static void fault_plan(struct weir_sim *sim, uint32_t index, uint64_t at_ns, enum fault_moment moment)
{
    struct weir_sim_event event = { .kind = WEIR_SIM_EVENT_FAULT, .place = index, .number = (uint64_t)moment };
    weir_sim_queue_push(&sim->queue, at_ns, &event);
}

static void faults_begin(struct weir_sim *sim)
{
    for (uint32_t i = 0; i < sim->plan->faults_count; i++) {
        const struct weir_sim_fault *fault = &sim->plan->faults[i];
        if (fault->kind == WEIR_SIM_LOSE && fault->step_ns > 0)
            fault_plan(sim, i, weir_sub_sat(fault->from_ns, (uint64_t)fault->step_ns), FAULT_SAVES);
        fault_plan(sim, i, fault->from_ns, FAULT_BEGINS);
        fault_plan(sim, i, weir_max_u64(fault->until_ns, fault->from_ns), FAULT_ENDS);
        if (fault->kind == WEIR_SIM_RELOAD && learns(sim->plan->mode))
            fault_plan(sim, i, fault->until_ns + SETTLES_NS, FAULT_SETTLES);
    }
}

/* ---- the loop ---- */

static void message_due(struct weir_sim *sim, const struct weir_sim_event *event)
{
    const struct weir_sim_mode *mode = sim->plan->mode;
    const uint8_t *data = weir_sim_pool_get(&sim->pool, event->slot, event->size);
    struct weir_sim_place *p = weir_sim_place_of(sim, event->place);
    if (event->place == WEIR_SIM_ENGINE) {
        p->wall_high_ns = weir_max_u64(p->wall_high_ns, weir_sim_now(sim, WEIR_SIM_ENGINE));
        mode->engine_message(sim, p->state, event->from, data, event->size);
    } else if (!p->downed_by && mode->message) {
        mode->message(sim, event->place, p->state, event->from, data, event->size);
    }
    weir_sim_pool_free(&sim->pool, event->slot, event->size);
}

/* A place that is paused meets its events when it wakes, in their order. */
static bool deferred(struct weir_sim *sim, const struct weir_sim_event *event)
{
    if (event->kind == WEIR_SIM_EVENT_FAULT)
        return false;
    const struct weir_sim_place *p = weir_sim_place_of(sim, event->place);
    if (p->paused_until_ns <= sim->now_ns || p->downed_by)
        return false;
    weir_sim_queue_push(&sim->queue, p->paused_until_ns, event);
    return true;
}

static void event_due(struct weir_sim *sim, const struct weir_sim_event *event)
{
    if (deferred(sim, event))
        return;
    bool same_life = event->place < sim->plan->nodes && sim->nodes[event->place].life == event->life;
    switch (event->kind) {
    case WEIR_SIM_EVENT_ARRIVE:
        load_due(sim, (uint32_t)event->number, event->place);
        break;
    case WEIR_SIM_EVENT_FINISH:
        if (same_life)
            weir_sim_finish(sim, event->place, event->number, &event->decision, event->from != 0);
        else
            sim->result->nodes[event->place].dropped++;
        break;
    case WEIR_SIM_EVENT_MESSAGE:
        message_due(sim, event);
        break;
    case WEIR_SIM_EVENT_TIMER:
        if (same_life && event->number == sim->nodes[event->place].timer)
            weir_sim_timer_due(sim, event->place);
        break;
    case WEIR_SIM_EVENT_FAULT:
        fault_due(sim, event->place, (enum fault_moment)event->number);
        break;
    }
}

static void world_init(struct weir_sim *sim)
{
    const struct weir_sim_plan *plan = sim->plan;
    const struct weir_sim_mode *mode = plan->mode;
    uint64_t drift = ((uint64_t)plan->drift_ppm << 20) / 1000000;
    sim->random.state = plan->seed;
    sim->waiting_free = WEIR_SIM_NONE;
    weir_sim_queue_init(&sim->queue);
    struct weir_limit_spec larger = plan->limit;
    larger.count = weir_max_u64(larger.count, plan->changed.count);
    larger.burst = weir_max_u64(larger.burst, plan->changed.burst);
    weir_sim_check_init(&sim->check, &larger);
    weir_sim_check_init(&sim->newest, &plan->limit);
    sim->bound = mode->bound ? mode->bound(plan) : 0;
    sim->bound_crash = mode->bound_crash ? mode->bound_crash(plan) : 0;
    for (uint32_t i = 0; i < plan->nodes; i++) {
        struct weir_sim_place *p = &sim->nodes[i];
        weir_sim_alone_init(sim, &larger, i);
        p->first = p->last = WEIR_SIM_NONE;
        p->base_ns = weir_sim_random_in(&sim->random, 1, 1000) * WEIR_NS_PER_SECOND;
        p->rate = (int64_t)weir_sim_random_in(&sim->random, 0, 2 * drift) - (int64_t)drift;
        p->wall_off_ns = weir_sim_random_in(&sim->random, 0, plan->skew_ns);
        if (p->rate > 0)
            sim->fastest_rate = weir_max_u64(sim->fastest_rate, (uint64_t)p->rate);
        p->state = calloc(1, mode->node_size + 1);
        weir_assert(p->state);
    }
    sim->engine.state = calloc(1, mode->engine_size + 1);
    sim->saved = mode->engine_size > 0 ? calloc(1, mode->engine_size) : NULL;
    weir_assert(sim->engine.state && (sim->saved || mode->engine_size == 0));
    if (mode->engine_start) {
        mode->engine_start(sim, sim->engine.state);
        memcpy(sim->saved, sim->engine.state, mode->engine_size);
    }
    for (uint32_t i = 0; i < plan->nodes; i++)
        weir_sim_start_node(sim, i);
}

static void world_deinit(struct weir_sim *sim)
{
    for (uint32_t i = 0; i < sim->plan->nodes; i++) {
        if (!sim->nodes[i].downed_by)
            weir_sim_stop_node(sim, i);
        free(sim->nodes[i].state);
    }
    free(sim->engine.state);
    free(sim->saved);
    free(sim->waiting);
    free(sim->late);
    weir_sim_queue_deinit(&sim->queue);
    weir_sim_pool_deinit(&sim->pool);
    weir_sim_check_deinit(&sim->check);
    weir_sim_check_deinit(&sim->newest);
}

static void fail(struct weir_sim *sim, enum weir_sim_break broken, const char *why)
{
    if (sim->result->broken)
        return;
    sim->result->broken = broken;
    sim->result->broken_ns = sim->now_ns;
    (void)snprintf(sim->result->why, sizeof sim->result->why, "%s", why);
}

static uint64_t root_ceil(uint64_t of)
{
    uint64_t root = 0;
    while (root * root < of)
        root++;
    return root;
}

/* What the limit allows in the calm. In a window all may have been admitted before the calm began: only those that
 * begin in it count. The first and the last are cut by its ends; of both together one window's units are admitted,
 * give or take chance: twice the root of so many. */
static uint64_t calm_limit(const struct weir_limit_spec *limit, uint64_t calm_ns)
{
    if (limit->algorithm == WEIR_TOKEN_BUCKET || limit->algorithm == WEIR_LEAKY_BUCKET)
        return weir_mul_div(calm_ns, limit->count, limit->period_ns);
    return weir_sub_sat(calm_ns / limit->period_ns * limit->count, root_ceil(4 * limit->count));
}

/* What must be so at the end of a run whose tail is calm. */
static void judge_end(struct weir_sim *sim)
{
    const struct weir_sim_plan *plan = sim->plan;
    struct weir_sim_result *result = sim->result;
    uint64_t period_ns = plan->limit.period_ns;
    uint64_t calm_ns = plan->duration_ns - weir_max_u64(plan->calm_ns, sim->calm_again_ns);
    result->limit_all = weir_limit_capacity(&plan->limit) +
                        weir_mul_div(plan->duration_ns, plan->limit.count, period_ns);
    if (result->bound == 0)
        result->bound = sim->bound;
    if (plan->calm_ns == 0)
        return;
    result->calm_limit = calm_limit(weir_sim_revision(sim, weir_sim_newest_file(sim)), calm_ns);
    if (sim->doubtful) /* it is one of the two */
        result->calm_limit = weir_min_u64(result->calm_limit,
                                          calm_limit(weir_sim_revision(sim, weir_sim_newest_file(sim) + 1), calm_ns));
    uint32_t least_ppm = plan->mode->calm_ppm ? plan->mode->calm_ppm(plan) : 0;
    char text[96];
    if (weir_sim_stuck(sim, weir_max_u64(WEIR_NS_PER_SECOND, 10 * plan->deadline_ns)) > 0)
        fail(sim, WEIR_SIM_STUCK, "a request waits without end");
    uint64_t least = weir_mul_div(result->calm_limit, least_ppm, 1000000);
    if (result->calm_units < least - root_ceil(least / 2)) { /* how many, is chance: of few, more so */
        (void)snprintf(text, sizeof text, "liveness: %llu units admitted of %llu in the calm at the end",
                       (unsigned long long)result->calm_units, (unsigned long long)result->calm_limit);
        fail(sim, WEIR_SIM_LAZY, text);
    }
    const char *wrong = plan->mode->audit ? plan->mode->audit(sim) : NULL;
    if (wrong)
        fail(sim, WEIR_SIM_UNBALANCED, wrong);
}

/* What the mode, or the room for a log, cannot do. */
static int limit_init(const struct weir_sim_plan *plan, struct weir_limit *ret_limit, struct weir_fault *ret_fault)
{
    bool log = plan->limit.algorithm == WEIR_SLIDING_LOG;
    if (plan->limit.algorithm == WEIR_CONCURRENCY)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "algorithm",
                              "concurrency is kept by each process alone: nothing to simulate");
    if (log && plan->mode->no_log)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "algorithm", "this mode cannot share a sliding_log");
    if (log && plan->limit.count > WEIR_SIM_LOG_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "algorithm", "a sliding_log of at most 1024 units is simulated");
    return weir_limit_init(ret_limit, &plan->limit, WEIR_NS_PER_SECOND, ret_fault);
}

int weir_sim_run(const struct weir_sim_plan *plan, struct weir_sim_trace *trace, struct weir_sim_result *ret_result,
                 struct weir_fault *ret_fault)
{
    weir_assert(plan->nodes >= 1 && plan->nodes <= WEIR_SIM_NODES_MAX && plan->duration_ns < UINT64_C(1) << 50);
    weir_assert(plan->loads_count <= WEIR_SIM_LOADS_MAX && plan->faults_count <= WEIR_SIM_FAULTS_MAX);
    struct weir_sim *sim = calloc(1, sizeof *sim);
    weir_assert(sim);
    int error = limit_init(plan, &sim->limit, ret_fault);
    if (error) {
        free(sim);
        return error;
    }
    memset(ret_result, 0, sizeof *ret_result);
    sim->plan = plan;
    sim->result = ret_result;
    sim->trace = trace;
    world_init(sim);
    faults_begin(sim);
    loads_begin(sim);
    struct weir_sim_event event;
    for (uint64_t at_ns; weir_sim_queue_pop(&sim->queue, &at_ns, &event) && at_ns <= plan->duration_ns;) {
        sim->now_ns = at_ns;
        ret_result->events++;
        event_due(sim, &event);
    }
    sim->now_ns = plan->duration_ns;
    weir_sim_late_judge(sim, WEIR_NEVER);
    judge_end(sim);
    world_deinit(sim);
    free(sim);
    return 0;
}
