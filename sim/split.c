/* SPDX-License-Identifier: Apache-2.0
 *
 * split: each node decides by its share alone (core/share/split.h). A node that starts again starts empty. */
#include "core/share/split.h"

#include "base/checked.h"
#include "sim/modes.h"

struct node {
    struct weir_limit limit; /* its share */
    struct weir_state state;
    bool nothing; /* a share of no unit */
    uint64_t times[2048];
};

static void start(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    const struct weir_sim_plan *plan = weir_sim_plan_of(sim);
    struct weir_limit_spec spec = weir_split_spec(&plan->limit, plan->nodes, node);
    struct weir_fault fault;
    self->nothing = spec.count == 0;
    if (weir_limit_init(&self->limit, &spec, 0, &fault) != 0)
        self->nothing = true;
    if (self->nothing)
        return;
    struct weir_event event = weir_sim_event_now(sim, node, self->limit.capacity);
    struct weir_verdict verdict;
    self->state = weir_state_fresh(&self->limit, event.now_ns);
    self->state.log = (struct weir_log){ self->times, 2048, 0, 0 };
    if (weir_sim_restarted(sim, node) && weir_limit_judge(&self->limit, &self->state, &event, &verdict))
        weir_limit_charge(&self->limit, &self->state, &event, &verdict);
}

static enum weir_sim_say request(struct weir_sim *sim, uint32_t node, void *state,
                                 const struct weir_sim_request *request)
{
    struct node *self = state;
    struct weir_event event = weir_sim_event_now(sim, node, request->cost);
    struct weir_verdict verdict;
    if (self->nothing || !weir_limit_judge(&self->limit, &self->state, &event, &verdict))
        return WEIR_SIM_NO;
    weir_limit_charge(&self->limit, &self->state, &event, &verdict);
    return WEIR_SIM_YES;
}

/* A node without a unit of the burst or of the count admits nothing. With one unit, it waits idle for the next request
 * whenever that has refilled: the gaps between requests are of any length up to twice their mean, so that is two thirds
 * of a mean, and demand is three times the limit: of 1 + 2/9 of the time to refill, 2/9 are idle, and 9/11 = 82 % are
 * what to expect, and single runs went down to 78 %. With two units or more a node is seldom idle. */
static uint32_t calm_ppm(const struct weir_sim_plan *plan)
{
    uint64_t units = plan->limit.burst ? weir_min_u64(plan->limit.burst, plan->limit.count) : plan->limit.count;
    uint64_t part_ppm = units < 2 * (uint64_t)plan->nodes ? 750000 : 800000;
    return (uint32_t)(part_ppm * weir_min_u64(units, plan->nodes) / plan->nodes);
}

const struct weir_sim_mode weir_sim_split = {
    .name = "split",
    .node_size = sizeof(struct node),
    .start = start,
    .request = request,
    .engineless = true,
    .alone = true,
    .calm_ppm = calm_ppm,
};
