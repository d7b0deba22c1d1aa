/* SPDX-License-Identifier: Apache-2.0
 *
 * What a mode calls, and what happens to a node: clocks, timers, messages, requests that wait, start and crash. Delays
 * and losses are drawn when a message is sent, by the plan and the faults that are active then. Called by the modes and
 * by run.c, where faults begin and end. */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

#include "sim/inside.h"

struct weir_sim_place *weir_sim_place_of(struct weir_sim *sim, uint32_t place)
{
    weir_assert(place == WEIR_SIM_ENGINE || place < sim->plan->nodes);
    return place == WEIR_SIM_ENGINE ? &sim->engine : &sim->nodes[place];
}

const struct weir_sim_plan *weir_sim_plan_of(const struct weir_sim *sim)
{
    return sim->plan;
}

const struct weir_limit_spec *weir_sim_spec(const struct weir_sim *sim, uint32_t node)
{
    return weir_sim_revision(sim, sim->nodes[node].revision);
}

uint32_t weir_sim_file(const struct weir_sim *sim, uint32_t node)
{
    return sim->nodes[node].revision;
}

const struct weir_limit_spec *weir_sim_newest(const struct weir_sim *sim)
{
    return sim->settled ? weir_sim_revision(sim, weir_sim_newest_file(sim)) : NULL;
}

bool weir_sim_is_calm(const struct weir_sim *sim)
{
    return sim->plan->calm_ns > 0 && sim->now_ns >= sim->plan->calm_ns;
}

bool weir_sim_is_quiet(const struct weir_sim *sim)
{
    return sim->plan->calm_ns > 0 && sim->now_ns + WEIR_NS_PER_SECOND >= sim->plan->calm_ns;
}

void weir_sim_calm_again(struct weir_sim *sim)
{
    sim->calm_again_ns = sim->now_ns;
    sim->result->calm_units = 0;
}

const struct weir_limit *weir_sim_limit(const struct weir_sim *sim)
{
    return &sim->limit;
}

struct weir_sim_random *weir_sim_draw(struct weir_sim *sim)
{
    return &sim->random;
}

uint64_t weir_sim_number(struct weir_sim *sim)
{
    return ++sim->number;
}

void *weir_sim_state(struct weir_sim *sim, uint32_t place)
{
    struct weir_sim_place *p = weir_sim_place_of(sim, place);
    return p->downed_by ? NULL : p->state;
}

uint64_t weir_sim_units(const struct weir_sim *sim)
{
    return sim->result->units;
}

uint64_t weir_sim_crashes(const struct weir_sim *sim)
{
    uint64_t crashes = 0;
    for (uint32_t i = 0; i < sim->plan->nodes; i++)
        crashes += sim->nodes[i].life;
    return crashes;
}

bool weir_sim_restarted(const struct weir_sim *sim, uint32_t node)
{
    return sim->nodes[node].life > 0;
}

/* ---- clocks ---- */

uint64_t weir_sim_now(const struct weir_sim *sim, uint32_t place)
{
    if (place == WEIR_SIM_ENGINE)
        return WEIR_SIM_WALL_NS + sim->now_ns + (uint64_t)sim->stepped_ns;
    return weir_sim_clock_at(&sim->nodes[place], sim->now_ns);
}

uint64_t weir_sim_wall(const struct weir_sim *sim, uint32_t node)
{
    return WEIR_SIM_WALL_NS + sim->nodes[node].wall_off_ns + (weir_sim_now(sim, node) - sim->nodes[node].base_ns);
}

/* The window of `wall_ns`, judged by the highest wall time seen, as the engines do. */
static struct weir_window window_of(const struct weir_sim *sim, uint64_t wall_ns, uint64_t high_ns)
{
    uint64_t period_ns = sim->plan->limit.period_ns;
    high_ns = weir_max_u64(high_ns, wall_ns);
    return (struct weir_window){
        .id = high_ns / period_ns,
        .end_after_ns = (high_ns / period_ns + 1) * period_ns - wall_ns,
        .closed = high_ns - wall_ns > sim->limit.skew_max_ns,
    };
}

struct weir_event weir_sim_event_now(const struct weir_sim *sim, uint32_t place, uint64_t cost)
{
    struct weir_event event = { .now_ns = weir_sim_now(sim, place), .cost = cost };
    if (sim->limit.calendar)
        event.window = place == WEIR_SIM_ENGINE
                           ? window_of(sim, event.now_ns, sim->engine.wall_high_ns)
                           : window_of(sim, weir_sim_wall(sim, place), sim->nodes[place].wall_high_ns);
    return event;
}

void weir_sim_wake(struct weir_sim *sim, uint32_t node, uint64_t at_ns)
{
    struct weir_sim_place *p = weir_sim_place_of(sim, node);
    p->wake_ns = at_ns;
    if (at_ns == 0)
        return;
    uint64_t true_ns = weir_max_u64(sim->now_ns, weir_sim_true_at(p, at_ns));
    if (p->pending_ns != 0 && p->pending_ns <= true_ns)
        return; /* that one comes first, and looks again */
    p->pending_ns = weir_max_u64(true_ns, 1);
    struct weir_sim_event event = { .kind = WEIR_SIM_EVENT_TIMER, .place = node, .life = p->life };
    event.number = ++p->timer;
    weir_sim_queue_push(&sim->queue, p->pending_ns, &event);
}

void weir_sim_wake_by(struct weir_sim *sim, uint32_t node, uint64_t at_ns)
{
    uint64_t wanted_ns = sim->nodes[node].wake_ns;
    if (wanted_ns == 0 || at_ns < wanted_ns)
        weir_sim_wake(sim, node, at_ns);
}

void weir_sim_timer_due(struct weir_sim *sim, uint32_t node)
{
    struct weir_sim_place *p = &sim->nodes[node];
    p->pending_ns = 0;
    if (p->wake_ns == 0)
        return;
    if (p->wake_ns > weir_sim_now(sim, node)) {
        weir_sim_wake(sim, node, p->wake_ns);
        return;
    }
    p->wake_ns = 0;
    bool busy = sim->plan->tick_ppm > 0 && weir_sim_random_chance(&sim->random, sim->plan->tick_ppm);
    bool before = busy && weir_sim_random_below(&sim->random, 2) == 0;
    if (before)
        weir_sim_arrive(sim, node, 1);
    sim->plan->mode->timer(sim, node, p->state);
    if (busy && !before)
        weir_sim_arrive(sim, node, 1);
}

/* ---- network ---- */

static bool has(uint64_t mask, uint32_t place)
{
    return place != WEIR_SIM_ENGINE && (mask >> place & 1) != 0;
}

/* Whether an active fault keeps this message, and by how much the others delay it. */
static bool passes(const struct weir_sim *sim, struct weir_sim_random *random, uint32_t from, uint32_t to,
                   uint64_t *delay_ns, uint64_t *copies_ns)
{
    bool engine = from == WEIR_SIM_ENGINE || to == WEIR_SIM_ENGINE;
    for (uint64_t rest = sim->active; rest; rest &= rest - 1) {
        const struct weir_sim_fault *fault = &sim->plan->faults[__builtin_ctzll(rest)];
        bool leaves = has(fault->nodes, from) && !has(fault->nodes, to);
        bool enters = has(fault->nodes, to) && !has(fault->nodes, from);
        bool across = enters || (leaves && !fault->one_way);
        if ((fault->kind == WEIR_SIM_CUT && engine && across) || (fault->kind == WEIR_SIM_SPLIT && !engine && across) ||
            (fault->kind == WEIR_SIM_DROP && weir_sim_random_chance(random, 333333)))
            return false;
        if (fault->kind == WEIR_SIM_SLOW)
            *delay_ns += weir_sim_random_below(random, (uint64_t)fault->step_ns + 1);
        if (fault->kind == WEIR_SIM_DUPLICATE)
            *copies_ns = (uint64_t)fault->step_ns;
    }
    return true;
}

static void carry(struct weir_sim *sim, uint32_t from, uint32_t to, const void *data, size_t size, uint64_t delay_ns,
                  bool calm)
{
    const struct weir_sim_plan *plan = sim->plan;
    uint64_t latency_ns = weir_sim_random_in(&sim->random, plan->latency_min_ns, plan->latency_max_ns);
    if (plan->reorder_ppm > 0 && !calm && weir_sim_random_chance(&sim->random, plan->reorder_ppm))
        latency_ns *= weir_sim_random_in(&sim->random, 2, 10);
    if (has(plan->far, from) != has(plan->far, to))
        latency_ns += plan->far_ns;
    struct weir_sim_event event = { .kind = WEIR_SIM_EVENT_MESSAGE, .place = to, .from = from, .size = (uint32_t)size };
    event.slot = weir_sim_pool_put(&sim->pool, data, event.size);
    weir_sim_queue_push(&sim->queue, sim->now_ns + latency_ns + delay_ns, &event);
}

void weir_sim_send(struct weir_sim *sim, uint32_t from, uint32_t to, const void *data, size_t size)
{
    weir_assert(size > 0 && size < 65536 && from != to);
    uint64_t delay_ns = 0, copies_ns = 0;
    sim->result->messages++;
    sim->result->to_engine += to == WEIR_SIM_ENGINE;
    bool calm = weir_sim_is_quiet(sim);
    if (!passes(sim, &sim->random, from, to, &delay_ns, &copies_ns) ||
        (sim->plan->loss_ppm > 0 && !calm && weir_sim_random_chance(&sim->random, sim->plan->loss_ppm))) {
        sim->result->lost++;
        return;
    }
    carry(sim, from, to, data, size, delay_ns, calm);
    uint64_t copies = copies_ns > 0 ? weir_sim_random_in(&sim->random, 1, 2) : 0;
    if (sim->plan->duplicate_ppm > 0 && !calm && weir_sim_random_chance(&sim->random, sim->plan->duplicate_ppm))
        copies++;
    sim->result->duplicated += copies;
    for (; copies > 0; copies--)
        carry(sim, from, to, data, size, delay_ns + weir_sim_random_below(&sim->random, copies_ns + 1), calm);
}

/* ---- requests ---- */

static void trace_add(struct weir_sim_trace *trace, uint64_t at_ns, uint32_t node, uint64_t units)
{
    if (trace->count == trace->room) {
        trace->room = trace->room ? trace->room * 2 : 4096;
        trace->marks = realloc(trace->marks, trace->room * sizeof *trace->marks);
        weir_assert(trace->marks);
    }
    trace->marks[trace->count++] = (struct weir_sim_mark){ at_ns, node, units };
}

/* The client is told. */
static void admit(struct weir_sim *sim, uint32_t node, const struct weir_sim_decision *decision, uint64_t units)
{
    if (!sim->plan->mode->engine_decides)
        weir_sim_judge(sim, node, decision, weir_sim_checked(sim, sim->now_ns), units);
    sim->result->admitted++;
    sim->result->units += units;
    sim->result->nodes[node].admitted++;
    sim->result->nodes[node].units += units;
    if (sim->plan->calm_ns > 0 && sim->now_ns >= sim->plan->calm_ns)
        sim->result->calm_units += units;
    if (sim->trace)
        trace_add(sim->trace, sim->now_ns, node, units);
}

static void refuse(struct weir_sim *sim, uint32_t node)
{
    sim->result->refused++;
    sim->result->nodes[node].refused++;
}

void weir_sim_finish(struct weir_sim *sim, uint32_t node, uint64_t cost, const struct weir_sim_decision *decision,
                     bool admitted)
{
    if (sim->plan->mode->finish(sim, node, sim->nodes[node].state, cost, admitted))
        admit(sim, node, decision, cost);
    else
        refuse(sim, node);
}

/* The mode said yes or no. */
static void decided(struct weir_sim *sim, uint32_t node, uint64_t cost, bool yes)
{
    sim->result->decisions++;
    if (!yes) {
        refuse(sim, node);
        return;
    }
    const struct weir_sim_decision decision = { .at_ns = sim->now_ns, .window = weir_sim_window(sim, node) };
    if (!sim->plan->mode->finish) {
        admit(sim, node, &decision, cost);
    } else if (sim->plan->hold_ppm > 0 && weir_sim_random_chance(&sim->random, sim->plan->hold_ppm)) {
        struct weir_sim_event event = { .kind = WEIR_SIM_EVENT_FINISH, .place = node, .life = sim->nodes[node].life };
        event.number = cost;
        event.decision = decision;
        event.from = weir_sim_random_below(&sim->random, 4) > 0; /* one in four is refused by another limit */
        uint64_t held_ns = weir_sim_random_below(&sim->random, WEIR_SIM_HOLD_MAX_NS);
        weir_sim_queue_push(&sim->queue, sim->now_ns + held_ns, &event);
    } else {
        weir_sim_finish(sim, node, cost, &decision, true);
    }
}

static uint32_t waiting_take(struct weir_sim *sim)
{
    if (sim->waiting_free != WEIR_SIM_NONE) {
        uint32_t slot = sim->waiting_free;
        sim->waiting_free = sim->waiting[slot].next;
        return slot;
    }
    if (sim->waiting_count == WEIR_SIM_WAITING_MAX)
        return WEIR_SIM_NONE;
    if ((sim->waiting_count & (sim->waiting_count - 1)) == 0) {
        size_t room = sim->waiting_count ? sim->waiting_count * 2 : 1;
        sim->waiting = realloc(sim->waiting, room * sizeof *sim->waiting);
        weir_assert(sim->waiting);
    }
    sim->waiting[sim->waiting_count] = (struct weir_sim_waiting){ 0 };
    return sim->waiting_count++;
}

static uint32_t waiting_id(const struct weir_sim *sim, uint32_t slot)
{
    return (sim->waiting[slot].turn & 0xffff) << 16 | slot;
}

static void waiting_link(struct weir_sim *sim, uint32_t slot, uint32_t node, uint64_t cost)
{
    struct weir_sim_place *p = &sim->nodes[node];
    struct weir_sim_waiting *w = &sim->waiting[slot];
    *w = (struct weir_sim_waiting){ WEIR_SIM_NONE, p->last, node, w->turn, cost, sim->now_ns, true };
    *(p->last != WEIR_SIM_NONE ? &sim->waiting[p->last].next : &p->first) = slot;
    p->last = slot;
}

static void waiting_drop(struct weir_sim *sim, uint32_t slot)
{
    struct weir_sim_waiting *w = &sim->waiting[slot];
    struct weir_sim_place *p = &sim->nodes[w->node];
    *(w->previous != WEIR_SIM_NONE ? &sim->waiting[w->previous].next : &p->first) = w->next;
    *(w->next != WEIR_SIM_NONE ? &sim->waiting[w->next].previous : &p->last) = w->previous;
    uint64_t waited_ns = sim->now_ns - w->since_ns;
    sim->result->wait_total_ns += waited_ns;
    sim->result->wait_max_ns = weir_max_u64(sim->result->wait_max_ns, waited_ns);
    w->used = false;
    w->turn++;
    w->next = sim->waiting_free;
    sim->waiting_free = slot;
}

void weir_sim_arrive(struct weir_sim *sim, uint32_t node, uint64_t cost)
{
    uint32_t slot = waiting_take(sim);
    if (slot == WEIR_SIM_NONE) {
        refuse(sim, node);
        return;
    }
    waiting_link(sim, slot, node, cost);
    struct weir_sim_request request = { .id = waiting_id(sim, slot), .cost = cost };
    enum weir_sim_say say = sim->plan->mode->request(sim, node, sim->nodes[node].state, &request);
    if (say == WEIR_SIM_WAIT) {
        sim->result->nodes[node].waited++;
        return;
    }
    waiting_drop(sim, slot);
    decided(sim, node, cost, say == WEIR_SIM_YES);
}

void weir_sim_answer(struct weir_sim *sim, uint32_t node, uint32_t request, bool admitted)
{
    uint32_t slot = request & 0xffff;
    if (slot >= sim->waiting_count || !sim->waiting[slot].used || sim->waiting[slot].node != node ||
        waiting_id(sim, slot) != request)
        return;
    uint64_t cost = sim->waiting[slot].cost;
    waiting_drop(sim, slot);
    decided(sim, node, cost, admitted);
}

void weir_sim_retry(struct weir_sim *sim, uint32_t node)
{
    struct weir_sim_place *p = &sim->nodes[node];
    for (uint32_t slot = p->first, next; slot != WEIR_SIM_NONE; slot = next) {
        next = sim->waiting[slot].next;
        struct weir_sim_request request = { waiting_id(sim, slot), sim->waiting[slot].cost, true };
        enum weir_sim_say say = sim->plan->mode->request(sim, node, p->state, &request);
        if (say == WEIR_SIM_WAIT)
            continue;
        waiting_drop(sim, slot);
        decided(sim, node, request.cost, say == WEIR_SIM_YES);
    }
}

uint64_t weir_sim_give_up(struct weir_sim *sim, uint32_t node, uint64_t age_ns)
{
    struct weir_sim_place *p = &sim->nodes[node];
    while (p->first != WEIR_SIM_NONE) {
        const struct weir_sim_waiting *oldest = &sim->waiting[p->first];
        uint64_t waited_ns = sim->now_ns - oldest->since_ns, cost = oldest->cost;
        if (waited_ns < age_ns)
            return age_ns - waited_ns;
        waiting_drop(sim, p->first);
        decided(sim, node, cost, false);
    }
    return 0;
}

uint32_t weir_sim_stuck(const struct weir_sim *sim, uint64_t longer_than_ns)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->waiting_count; i++) {
        const struct weir_sim_waiting *w = &sim->waiting[i];
        count += w->used && sim->now_ns - w->since_ns > longer_than_ns;
    }
    return count;
}

/* ---- nodes ---- */

void weir_sim_start_node(struct weir_sim *sim, uint32_t node)
{
    struct weir_sim_place *p = &sim->nodes[node];
    memset(p->state, 0, sim->plan->mode->node_size);
    p->wake_ns = p->pending_ns = p->wall_high_ns = 0;
    p->revision = sim->plan->partial ? p->revision : sim->revision;
    if (sim->plan->mode->start)
        sim->plan->mode->start(sim, node, p->state);
    if (sim->plan->door)
        weir_sim_arrive(sim, node, 1);
}

void weir_sim_stop_node(struct weir_sim *sim, uint32_t node)
{
    if (sim->plan->mode->stop)
        sim->plan->mode->stop(sim, node, sim->nodes[node].state);
}

void weir_sim_crash_node(struct weir_sim *sim, uint32_t node)
{
    struct weir_sim_place *p = &sim->nodes[node];
    p->life++;
    sim->doubtful |= sim->revision > 0 && !sim->plan->numbered && (!sim->plan->partial || p->revision > 0);
    while (p->first != WEIR_SIM_NONE) {
        sim->result->nodes[node].dropped++;
        waiting_drop(sim, p->first);
    }
    weir_sim_stop_node(sim, node);
    p->wake_ns = 0;
}
