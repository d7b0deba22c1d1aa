/* SPDX-License-Identifier: Apache-2.0
 *
 * leased and batched: hosts core/share's state machine of one key, for each node, as the server's host does. Requests
 * wait while the engine is asked; if the ask is lost they are refused (on_failure: closed). */
#include <string.h>

#include "base/assert.h"
#include "core/share/batched.h"
#include "core/share/leased.h"
#include "sim/ledger_host.h"
#include "sim/modes.h"

struct node {
    union {
        struct weir_leased leased;
        struct weir_batched batched;
    };
    bool failing;
};

static bool is_leased(const struct weir_sim *sim)
{
    return weir_sim_plan_of(sim)->mode == &weir_sim_leased;
}

/* When the ask under way was sent; 0 = none is. */
static uint64_t sent_ns(const struct weir_sim *sim, const struct node *self)
{
    return is_leased(sim) ? self->leased.sent_ns : self->batched.sent_ns;
}

/* Planted: a node that starts again goes on under its old stint. Its asks count as new, so that the engine believes
 * what they say. */
static void start(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    bool planted = weir_sim_plan_of(sim)->plant == WEIR_SIM_PLANT_EPOCH;
    uint64_t number = weir_sim_number(sim);
    uint64_t stint = (planted ? node + 1 : number) << WEIR_SHARE_STINT_BITS;
    if (is_leased(sim)) {
        weir_leased_init(&self->leased, stint);
        self->leased.seq = planted ? number << 20 : 0;
    } else {
        weir_batched_init(&self->batched, stint);
        self->batched.seq = planted ? number << 20 : 0;
    }
}

static void step_leased(struct weir_sim *sim, struct node *self, const struct weir_share_event *event, uint64_t now_ns,
                        struct weir_share_effects *effects)
{
    const struct weir_sim_plan *plan = weir_sim_plan_of(sim);
    struct weir_leased *key = &self->leased;
    const struct weir_leased_options options = {
        .capacity = weir_sim_limit(sim)->capacity,
        .ttl_ns = plan->chunk_ttl_ns,
        .lost_ns = plan->deadline_ns,
        .refused_ns = WEIR_NS_PER_SECOND / 20,
    };
    uint64_t before = key->pocket, deadline_ns = key->deadline_ns;
    weir_leased_step(key, &options, event, now_ns, effects);
    /* Planted: units that are given back stay in the pocket as well. */
    if (plan->plant == WEIR_SIM_PLANT_RETURN && event->kind == WEIR_SHARE_TICK && effects->send &&
        key->pocket < before && deadline_ns > now_ns)
        key->pocket = before;
}

static void step_batched(struct weir_sim *sim, struct node *self, const struct weir_share_event *event, uint64_t now_ns,
                         struct weir_share_effects *effects)
{
    const struct weir_sim_plan *plan = weir_sim_plan_of(sim);
    const struct weir_batched_options options = {
        .limit = *weir_sim_limit(sim),
        .slack = plan->slack,
        .interval_ns = plan->interval_ns,
        .ttl_ns = 60 * WEIR_NS_PER_SECOND,
        .lost_ns = plan->deadline_ns,
    };
    weir_batched_step(&self->batched, &options, event, now_ns, effects);
}

static enum weir_share_say step(struct weir_sim *sim, uint32_t node, struct node *self,
                                const struct weir_share_event *event)
{
    struct weir_share_effects effects;
    (is_leased(sim) ? step_leased : step_batched)(sim, self, event, weir_sim_now(sim, node), &effects);
    if (effects.send) {
        struct weir_sim_ask ask = { .ask = effects.ask };
        weir_sim_send(sim, node, WEIR_SIM_ENGINE, &ask, sizeof ask);
    }
    weir_sim_wake(sim, node, effects.wake_ns);
    return effects.say;
}

static enum weir_sim_say request(struct weir_sim *sim, uint32_t node, void *state,
                                 const struct weir_sim_request *request)
{
    struct node *self = state;
    if (request->again && self->failing)
        return WEIR_SIM_NO;
    struct weir_share_event event = { .kind = WEIR_SHARE_RESERVE, .units = request->cost };
    enum weir_share_say say = step(sim, node, self, &event);
    return say == WEIR_SHARE_YES ? WEIR_SIM_YES : say == WEIR_SHARE_NO ? WEIR_SIM_NO : WEIR_SIM_WAIT;
}

static bool finish(struct weir_sim *sim, uint32_t node, void *state, uint64_t cost, bool admitted)
{
    struct weir_share_event event = { .kind = admitted ? WEIR_SHARE_COMMIT : WEIR_SHARE_CANCEL, .units = cost };
    return step(sim, node, state, &event) == WEIR_SHARE_YES;
}

static void message(struct weir_sim *sim, uint32_t node, void *state, uint32_t from, const void *data, size_t size)
{
    (void)from;
    struct weir_sim_answer answer;
    weir_assert(size == sizeof answer);
    memcpy(&answer, data, sizeof answer);
    struct weir_share_event event = { .kind = WEIR_SHARE_HEARD, .answer = &answer.answer };
    (void)step(sim, node, state, &event);
    weir_sim_retry(sim, node);
}

static void timer(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    uint64_t sent_before_ns = sent_ns(sim, self);
    struct weir_share_event event = { .kind = WEIR_SHARE_TICK };
    (void)step(sim, node, self, &event);
    if (sent_before_ns == 0 || sent_ns(sim, self) == sent_before_ns)
        return;
    self->failing = true;
    weir_sim_retry(sim, node);
    self->failing = false;
}

/* While a node may spend, the ledger holds at least as much for it; and it was charged nothing that it did not spend.
 * (A ledger that lost its state, or whose clock stepped, may know less.) */
static const char *audit_leased(struct weir_sim *sim)
{
    const struct weir_sim_plan *plan = weir_sim_plan_of(sim);
    const struct weir_sim_ledger *engine = weir_sim_state(sim, WEIR_SIM_ENGINE);
    for (uint32_t i = 0; i < plan->faults_count; i++) {
        if (plan->faults[i].kind == WEIR_SIM_LOSE || plan->faults[i].kind == WEIR_SIM_STEP)
            return NULL;
    }
    for (uint32_t i = 0; i < plan->nodes; i++) {
        const struct node *node = weir_sim_state(sim, i);
        const struct weir_leased *key = node ? &node->leased : NULL;
        const struct weir_ledger_stint *stint = key ? weir_sim_ledger_stint(engine, key->stint) : NULL;
        if (stint && stint->spent > key->spent)
            return "conservation: more was charged than was spent";
        if (!key || key->pocket == 0 || weir_sim_now(sim, i) >= key->deadline_ns)
            continue;
        if (!stint || stint->spent + stint->held < key->spent + key->reserved + key->pocket)
            return "conservation: a node may spend more than is held for it";
    }
    return NULL;
}

/* A bucket that fills several times while nodes wait to hear of it runs over: 3 of 900 a second are there in 3.3 ms. */
static uint32_t calm_ppm(const struct weir_sim_plan *plan)
{
    uint64_t fill_ns = weir_mul_div(plan->limit.period_ns, weir_limit_capacity(&plan->limit), plan->limit.count);
    uint64_t wait_ns = plan->interval_ns + 4 * plan->latency_max_ns;
    return (uint32_t)weir_mul_div(600000, weir_min_u64(4 * fill_ns, wait_ns), wait_ns);
}

/* What nodes hold when a fixed window closes is not spent, and so not used (under-use is at most what is unspent and
 * forfeited). A chunk is what a node is asked for in a third of the ttl T; of that it can spend what it is
 * asked for in nine tenths of the period p (the last tenth of a hold is its margin): 2.7 p / T of it, if that is less
 * than all. For example 131 per 0.5 s, 38 nodes, T 1.84 s: 21 requests a second and node, chunks of 13 units, so that
 * ten nodes hold all, and each spends at most 9 of its 13. The ledger had all 131 given out at every close, and 43 to
 * 59 of them unspent. Half of 2.7 p / T is demanded: a chunk does not come in the window's first moment. Where there
 * are few units for a node, no more than a part of them; where there is one, much of the time to refill it (22 ms
 * for 3 of 40 per 300 ms) is the way to the engine and back: one of 3,000 runs admitted 58 %. */
static uint32_t leased_calm_ppm(const struct weir_sim_plan *plan)
{
    uint64_t capacity = weir_limit_capacity(&plan->limit), ample = UINT64_C(8) * plan->nodes;
    uint64_t few_ppm = 600000 * weir_min_u64(capacity, ample) / ample;
    if (capacity < plan->nodes)
        return (uint32_t)few_ppm;
    if (capacity < 2 * (uint64_t)plan->nodes && plan->limit.algorithm != WEIR_FIXED_WINDOW)
        return 450000;
    if (plan->limit.algorithm != WEIR_FIXED_WINDOW)
        return 600000;
    uint64_t spent_ppm = weir_min_u64(weir_mul_div(2700000, plan->limit.period_ns, plan->chunk_ttl_ns), 1000000);
    return (uint32_t)weir_max_u64(few_ppm, spent_ppm / 2);
}

const struct weir_sim_mode weir_sim_leased = {
    .name = "leased",
    .node_size = sizeof(struct node),
    .engine_size = sizeof(struct weir_sim_ledger),
    .start = start,
    .request = request,
    .finish = finish,
    .message = message,
    .timer = timer,
    .engine_start = weir_sim_ledger_start,
    .engine_message = weir_sim_ledger_message,
    .step_forgets = true,
    .calm_ppm = leased_calm_ppm,
    .audit = audit_leased,
};

const struct weir_sim_mode weir_sim_batched = {
    .name = "batched",
    .node_size = sizeof(struct node),
    .engine_size = sizeof(struct weir_sim_ledger),
    .start = start,
    .request = request,
    .finish = finish,
    .message = message,
    .timer = timer,
    .engine_start = weir_sim_ledger_start,
    .engine_message = weir_sim_ledger_message,
    .step_forgets = true,
    .bound = weir_sim_slack_of_all,
    .bound_crash = weir_sim_slack_of_one,
    .calm_ppm = calm_ppm,
};
