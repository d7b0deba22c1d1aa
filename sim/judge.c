/* SPDX-License-Identifier: Apache-2.0
 *
 * What was admitted, as the check has it: by whose clock, in which window, in which order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/inside.h"
#include "sim/world.h"

#define LATE_NS (WEIR_NS_PER_SECOND / 10) /* longer than a request waits for its rounds */

/* A step back of the engine's clock out of a window: a key that was charged in it goes on in it, and one that was not
 * goes on in the one before. So what comes until the step is made up for counts to the window that was left, and after
 * it another begins: each holds what a window may, whichever it was. */
static uint64_t window_now(const struct weir_sim *sim, uint32_t place)
{
    if (sim->limit.algorithm == WEIR_SLIDING_COUNTER || (sim->plan->mode->engine_windows && sim->limit.calendar))
        return weir_sim_now(sim, place) / sim->plan->limit.period_ns + sim->windows_back;
    return weir_sim_event_now(sim, place, 0).window.id;
}

void weir_sim_window_begins(struct weir_sim *sim, uint64_t *last_ns, uint64_t start_ns, bool moves)
{
    if (*last_ns > 0 && start_ns != *last_ns && start_ns < *last_ns + sim->plan->limit.period_ns)
        weir_sim_wrong(sim, "a window begins before the one before it has ended");
    *last_ns = moves ? 0 : start_ns;
}

uint64_t weir_sim_window(struct weir_sim *sim, uint32_t node)
{
    const struct weir_sim_mode *mode = sim->plan->mode;
    if (mode->window_start && sim->limit.algorithm == WEIR_SLIDING_COUNTER)
        return mode->window_start(sim, node, sim->nodes[node].state);
    return window_now(sim, sim->plan->mode->engineless ? node : WEIR_SIM_ENGINE);
}

/* By how much the limit is passed now. Nodes without an engine count by windows of their own clocks, or say when theirs
 * began; where each has a share and asks nobody, that is what it must keep. */
static uint64_t over_by(struct weir_sim *sim, struct weir_sim_check *check, uint32_t node,
                        const struct weir_sim_decision *decision, uint64_t now_ns, uint64_t units)
{
    const struct weir_sim_plan *plan = sim->plan;
    uint64_t count = check->limit.count;
    if (!plan->mode->engineless || plan->limit.algorithm != WEIR_SLIDING_COUNTER)
        return weir_sim_check_admit(check, now_ns, decision->window, units);
    uint64_t clock_ns = weir_sim_clock_at(&sim->nodes[node], decision->at_ns);
    uint64_t start_ns = plan->mode->window_start ? decision->window : clock_ns - clock_ns % plan->limit.period_ns;
    uint64_t since_ns = weir_sim_true_at(&sim->nodes[node], start_ns), nodes = WEIR_SIM_ALL;
    if (plan->mode->alone) {
        nodes = UINT64_C(1) << node;
        count = count / plan->nodes + (node < count % plan->nodes);
    }
    struct weir_sim_spend spend = { weir_sim_checked(sim, decision->at_ns), units, node };
    return weir_sim_check_admit_since(check, &spend, weir_sim_checked(sim, since_ns), nodes, count);
}

static void newest_anew(struct weir_sim *sim)
{
    weir_sim_check_deinit(&sim->newest);
    weir_sim_check_init(&sim->newest, weir_sim_revision(sim, weir_sim_newest_file(sim)));
    weir_sim_check_allow_as(&sim->newest, &sim->check);
}

static void trace_over(struct weir_sim_trace *trace, uint64_t at_ns, uint64_t over, uint64_t bound)
{
    if (trace->overs_count == trace->overs_room) {
        trace->overs_room = trace->overs_room ? 2 * trace->overs_room : 4096;
        trace->overs = realloc(trace->overs, trace->overs_room * sizeof *trace->overs);
        weir_assert(trace->overs);
    }
    trace->overs[trace->overs_count++] = (struct weir_sim_over){ at_ns, over, bound };
}

void weir_sim_judge(struct weir_sim *sim, uint32_t node, const struct weir_sim_decision *decision, uint64_t now_ns,
                    uint64_t units)
{
    struct weir_sim_result *result = sim->result;
    uint64_t over = over_by(sim, &sim->check, node, decision, now_ns, units);
    uint64_t bound = sim->bound + weir_sim_check_allowed(&sim->check);
    if (sim->trace && sim->trace->judged)
        trace_over(sim->trace, sim->now_ns, over, bound);
    uint64_t near_ppm = bound > 0 ? weir_mul_div(over, 1000000, bound) : 0;
    if (near_ppm > result->near_ppm || (near_ppm == result->near_ppm && over > result->peak)) {
        result->near_ppm = near_ppm;
        result->bound = bound;
    }
    result->peak = weir_max_u64(result->peak, over);
    if (sim->settled && decision->older) {
        newest_anew(sim);
    } else if (sim->settled && over <= bound) {
        over = over_by(sim, &sim->newest, node, decision, now_ns, units);
        bound = sim->bound + weir_sim_check_allowed(&sim->newest);
    }
    if (over <= bound || result->broken)
        return;
    result->broken = WEIR_SIM_OVERSHOT;
    result->broken_ns = sim->now_ns;
    result->bound = bound;
    (void)snprintf(result->why, sizeof result->why, "%llu units over the limit, %llu allowed", (unsigned long long)over,
                   (unsigned long long)bound);
}

void weir_sim_newest_again(struct weir_sim *sim, uint64_t held)
{
    const uint64_t grace_ns = sim->plan->chunk_ttl_ns + 2 * sim->plan->deadline_ns;
    weir_sim_late_judge(sim, WEIR_NEVER);
    newest_anew(sim);
    weir_sim_check_allow(&sim->newest, weir_sim_checked(sim, sim->now_ns), grace_ns,
                         weir_sub_sat(held, sim->newest.capacity));
}

void weir_sim_wrong(struct weir_sim *sim, const char *why)
{
    struct weir_sim_result *result = sim->result;
    if (result->broken)
        return;
    result->broken = WEIR_SIM_UNBALANCED;
    result->broken_ns = sim->now_ns;
    (void)snprintf(result->why, sizeof result->why, "%s", why);
}

/* What a node may admit while the engine is away: whole units, what is left over to the lowest numbers. */
static struct weir_limit_spec share_of(const struct weir_limit_spec *limit, uint32_t nodes, uint32_t node)
{
    struct weir_limit_spec share = { .algorithm = WEIR_TOKEN_BUCKET, .period_ns = limit->period_ns };
    share.count = limit->count / nodes + (node < limit->count % nodes);
    share.burst = limit->burst / nodes + (node < limit->burst % nodes);
    if (limit->burst > 0 && share.burst == 0)
        share.count = 0;
    return share;
}

void weir_sim_alone_init(struct weir_sim *sim, const struct weir_limit_spec *larger, uint32_t node)
{
    const struct weir_limit_spec share = share_of(larger, sim->plan->nodes, node);
    weir_sim_check_init(&sim->alone[node], &share);
}

void weir_sim_admitted_alone(struct weir_sim *sim, uint32_t node, uint64_t units)
{
    if (weir_sim_check_admit(&sim->alone[node], weir_sim_now(sim, node), 0, units) > 0)
        weir_sim_wrong(sim, "a node that is alone admits more than its share");
}

void weir_sim_admitted(struct weir_sim *sim, uint64_t units)
{
    const struct weir_sim_decision decision = weir_sim_decision_now(sim);
    weir_sim_judge(sim, 0, &decision, decision.at_ns, units);
}

struct weir_sim_decision weir_sim_decision_now(const struct weir_sim *sim)
{
    return (struct weir_sim_decision){ .at_ns = weir_sim_checked(sim, sim->now_ns),
                                       .window = window_now(sim, WEIR_SIM_ENGINE) };
}

void weir_sim_late_judge(struct weir_sim *sim, uint64_t until_ns)
{
    for (; sim->late_count > 0 && sim->late[sim->late_first].decision.at_ns <= until_ns; sim->late_count--) {
        const struct weir_sim_late *late = &sim->late[sim->late_first++];
        uint64_t at_ns = weir_max_u64(late->decision.at_ns, weir_max_u64(sim->check.at_ns, sim->newest.at_ns));
        weir_sim_judge(sim, 0, &late->decision, at_ns, late->units);
    }
}

static void late_room(struct weir_sim *sim)
{
    if (sim->late_count > 0)
        memmove(sim->late, sim->late + sim->late_first, sim->late_count * sizeof *sim->late);
    sim->late_first = 0;
    if (sim->late_count < sim->late_room / 2)
        return;
    sim->late_room = sim->late_room ? 2 * sim->late_room : 256;
    sim->late = realloc(sim->late, sim->late_room * sizeof *sim->late);
    weir_assert(sim->late);
}

void weir_sim_admitted_as_of(struct weir_sim *sim, const struct weir_sim_decision *decision, uint64_t units)
{
    weir_sim_late_judge(sim, weir_sub_sat(weir_sim_checked(sim, sim->now_ns), LATE_NS));
    if (sim->late_first + sim->late_count == sim->late_room)
        late_room(sim);
    uint32_t at = sim->late_first + sim->late_count++;
    for (; at > sim->late_first && sim->late[at - 1].decision.at_ns > decision->at_ns; at--)
        sim->late[at] = sim->late[at - 1];
    sim->late[at] = (struct weir_sim_late){ *decision, units };
}
