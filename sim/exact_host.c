/* SPDX-License-Identifier: Apache-2.0
 *
 * exact as a server runs it: the bytes of the script's calls and what becomes of its replies (limits/redis/script.h),
 * the breaker, the fallback (limits/fallback.h), and the newest definitions of limits through the engine. What
 * limits/transaction.c and limits/redis/request.c do between them is here in short: one key, or two limits at once, in
 * one slot. A quarter of the runs refuse while the engine is away (on_failure: closed), the others decide by their
 * shares. */
#include <stdlib.h>

#include "base/assert.h"
#include "limits/fallback.h"
#include "sim/modes.h"
#include "sim/script_node.h"

#define LIMITS 2
#define BOTH_PPM 200000 /* of requests are under both limits */
#define PEEK_PPM 30000
#define FALLBACK_KEYS 64
#define CLOSES_NS (2 * WEIR_NS_PER_SECOND) /* a breaker whose wait is over: three probes, each a client's; the ramp */

/* A request under way at the engine. */
struct exact_pending {
    struct exact_pending *next;
    uint32_t id;
    uint32_t client;                   /* the request that waits, */
    bool waits;                        /* if one does */
    struct weir_sim_decision decision; /* of the first round: the second is computed for its time */
    uint64_t generation;
    bool quiet; /* asked when nothing is lost any more, and there is time for the answer */
    struct weir_remote_request request;
    struct weir_remote_op ops[LIMITS];
    struct weir_script_call call; /* last: touched only as far as it has ops */
};

struct exact_node {
    struct weir_sim_script_node node; /* first */
    struct weir_breaker breaker;
    bool opened_before; /* when it opened last, messages were still lost */
    uint64_t opened_ns;
    struct weir_fallback *fallback;
    struct exact_pending *first, *last; /* by deadline */
};

static bool is_closed(const struct weir_sim_plan *plan)
{
    return plan->seed % 4 == 0;
}

/* ---- the engine ---- */

static void engine_message(struct weir_sim *sim, void *state, uint32_t from, const void *data, size_t size)
{
    struct weir_sim_letter head;
    const uint8_t *bytes = (const uint8_t *)data + sizeof head;
    uint8_t answer[WEIR_SIM_SCRIPT_REPLY_MAX];
    struct weir_sim_script_reply reply = { answer, 0, { 0 } };
    memcpy(&head, data, sizeof head);
    if (head.kind != WEIR_SIM_CALL) {
        weir_sim_letter_note(sim, state, from, &head, bytes);
        return;
    }
    weir_assert(sizeof head + head.size == size);
    const struct weir_sim_decision now = weir_sim_letter_run(sim, state, &head, bytes, &reply);
    bool computed = reply.bytes[0] == 'S'; /* by the node, for the time of its first round */
    struct weir_sim_decision decision = computed ? head.decision : now;
    decision.older = reply.charged[0] > 0 && weir_sim_letter_is_older(sim, state, &head);
    if (reply.charged[0] > 0)
        weir_sim_admitted_as_of(sim, &decision, reply.charged[0]);
    head.charged = reply.charged[0] > 0;
    head.decision = now;
    head.size = (uint32_t)reply.size;
    weir_sim_letter_send(sim, WEIR_SIM_ENGINE, from, &head, reply.bytes, reply.size);
}

/* ---- the breaker ---- */

static bool may_ask(struct exact_node *self, uint64_t *ret_generation)
{
    return weir_breaker_allow(&self->breaker, &weir_breaker_defaults, weir_sim_now(self->node.sim, self->node.number),
                              weir_sim_random_u64(weir_sim_draw(self->node.sim)), ret_generation);
}

static void told(struct exact_node *self, const struct exact_pending *pending, bool success)
{
    const uint64_t generation = self->breaker.generation, now_ns = weir_sim_now(self->node.sim, self->node.number);
    weir_breaker_told(&self->breaker, &weir_breaker_defaults, now_ns,
                      weir_sim_random_u64(weir_sim_draw(self->node.sim)), pending->generation, success);
    if (self->breaker.generation == generation)
        return;
    self->opened_before = !pending->quiet;
    self->opened_ns = now_ns;
}

/* A breaker that opened while messages were lost stays open for as long as it says, whatever comes after. */
static bool is_coming_back(const struct exact_node *self)
{
    const struct weir_breaker *breaker = &self->breaker;
    const uint64_t now_ns = weir_sim_now(self->node.sim, self->node.number);
    bool back = breaker->state == WEIR_BREAKER_CLOSED && now_ns - breaker->closed_ns >= weir_breaker_defaults.ramp_ns;
    uint64_t wait_ns = weir_min_u64(breaker->wait_ns, weir_breaker_defaults.wait_max_ns);
    uint64_t longest_ns = wait_ns + wait_ns / 4 + CLOSES_NS; /* it may be a quarter more */
    return self->opened_before && !back && now_ns - self->opened_ns <= longest_ns;
}

/* Each node is asked for three times its part: by half of them more than the limit is asked for. */
static bool are_too_few(struct weir_sim *sim)
{
    const uint32_t nodes = weir_sim_plan_of(sim)->nodes;
    uint32_t coming = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        const struct exact_node *self = weir_sim_state(sim, i);
        coming += !self || is_coming_back(self);
    }
    return 2 * coming > nodes;
}

/* ---- requests ---- */

static void arm(struct exact_node *self)
{
    uint64_t at_ns = weir_sim_script_node_due_ns(&self->node);
    if (self->first)
        at_ns = weir_min_u64(at_ns, self->first->request.deadline_ns);
    weir_sim_wake(self->node.sim, self->node.number, at_ns);
}

static void pending_free(struct exact_pending *pending)
{
    weir_script_call_deinit(&pending->call);
    for (size_t i = 0; i < pending->request.count; i++)
        weir_remote_limit_drop(pending->ops[i].limit);
    free(pending);
}

static void pending_take_out(struct exact_node *self, struct exact_pending *pending)
{
    struct exact_pending **at = &self->first, *before = NULL;
    for (; *at != pending; at = &before->next)
        before = *at;
    *at = pending->next;
    if (self->last == pending)
        self->last = before;
}

/* Of two rounds the second may be too late though nothing is lost: a decision's deadline is not moved by them. */
static bool has_time(const struct exact_node *self, const struct exact_pending *pending)
{
    const struct weir_sim_plan *plan = weir_sim_plan_of(self->node.sim);
    const uint64_t now_ns = weir_sim_now(self->node.sim, self->node.number);
    return weir_sub_sat(pending->request.deadline_ns, now_ns) >= 2 * (plan->latency_max_ns + plan->far_ns);
}

/* Sends the call, or its next round. The argument is the last of argv, the keys stand before it. */
static bool send_call(struct exact_node *self, struct exact_pending *pending)
{
    struct weir_script_call *call = &pending->call;
    if (!may_ask(self, &pending->generation))
        return false;
    pending->quiet = weir_sim_is_quiet(self->node.sim) && has_time(self, pending);
    int error = weir_script_call_encode(call, weir_script_sha1);
    weir_assert(error == 0);
    struct weir_sim_letter head = { .id = pending->id, .decision = pending->decision };
    head.behind = weir_sim_script_node_may_be_behind(&self->node, pending->ops[0].limit);
    weir_sim_letter_call(&self->node, &head, call);
    return true;
}

static struct exact_pending *pending_create(struct exact_node *self, uint64_t cost, bool both, bool peek)
{
    const struct weir_sim_plan *plan = weir_sim_plan_of(self->node.sim);
    struct exact_pending *pending = malloc(sizeof *pending);
    weir_assert(pending);
    memset(pending, 0, offsetof(struct exact_pending, call));
    pending->id = ++self->node.ids;
    pending->request = (struct weir_remote_request){
        .verb = peek ? WEIR_REMOTE_PEEK : WEIR_REMOTE_DECIDE,
        .ops = pending->ops,
        .count = both ? LIMITS : 1,
        .deadline_ns = weir_sim_now(self->node.sim, self->node.number) + plan->deadline_ns,
    };
    weir_sim_letter_begin(&self->node, &pending->call, &pending->request);
    for (uint32_t i = 0; i < pending->request.count; i++) {
        pending->ops[i] = (struct weir_remote_op){ .limit = weir_remote_limit_hold(self->node.limits[i]),
                                                   .key = weir_sim_script_key(i),
                                                   .units = i == 0 ? cost : 1 };
        weir_script_call_add(&pending->call, i);
    }
    return pending;
}

/* on_failure. All limits of the request by their shares, or none. */
static bool decide_alone(struct exact_node *self, const struct weir_remote_op *ops, size_t count)
{
    const uint64_t now_ns = weir_sim_now(self->node.sim, self->node.number);
    struct weir_verdict verdict;
    size_t charged = 0;
    bool admitted = !is_closed(weir_sim_plan_of(self->node.sim));
    for (; admitted && charged < count; charged += admitted) {
        admitted = weir_fallback_decide(self->fallback, charged, &self->node.shares[charged], self->node.reloads,
                                        &ops[charged].key, ops[charged].units, false, now_ns, &verdict) == 0 &&
                   verdict.admitted;
    }
    for (size_t i = 0; !admitted && i < charged; i++)
        weir_fallback_refund(self->fallback, &self->node.shares[i], self->node.reloads, &ops[i].key, ops[i].units,
                             now_ns);
    if (!admitted)
        return false;
    weir_sim_admitted_alone(self->node.sim, self->node.number, ops[0].units);
    if (weir_fallback_overshoot(self->fallback, 0, &ops[0].limit->spec, now_ns) < ops[0].units)
        weir_sim_wrong(self->node.sim, "what a share admits is told with the bound of the engine");
    return true;
}

/* The engine failed it, or others were faster at the key. */
static bool decide_failed(struct exact_node *self, const struct exact_pending *pending, int status)
{
    if (status == WEIR_ECORRUPT)
        weir_sim_wrong(self->node.sim, "what the script answered is not what core makes of it");
    return status != WEIR_EBUSY && pending->waits && decide_alone(self, pending->ops, pending->request.count);
}

static void end_pending(struct exact_node *self, struct exact_pending *pending, bool admitted)
{
    pending_take_out(self, pending);
    if (pending->waits)
        weir_sim_answer(self->node.sim, self->node.number, pending->client, admitted);
    pending_free(pending);
}

/* Whoever comes back from an outage asks for decisions and for definitions at once: it is told within two turns. */
static bool is_told_of_reloads(const struct exact_node *self)
{
    const struct weir_breaker *breaker = &self->breaker;
    const uint64_t now_ns = weir_sim_now(self->node.sim, self->node.number);
    return breaker->state == WEIR_BREAKER_CLOSED && now_ns - breaker->closed_ns > 2 * WEIR_REVISOR_PERIOD_NS;
}

/* Somebody who decides by the newest has been able to tell the engine of it. */
static bool is_newest_told(const struct exact_node *self)
{
    struct weir_sim *sim = self->node.sim;
    for (uint32_t i = 0; i < weir_sim_plan_of(sim)->nodes; i++) {
        const struct exact_node *node = weir_sim_state(sim, i);
        if (node && is_told_of_reloads(node) && !weir_sim_script_node_is_left_behind(&node->node, node->node.limits[0]))
            return true;
    }
    return false;
}

static bool decide_answered(struct exact_node *self, struct exact_pending *pending, const struct weir_sim_letter *head)
{
    weir_script_finish(&pending->request);
    for (size_t i = 0; i < pending->request.count; i++)
        weir_fallback_answered(self->fallback, i);
    bool admitted = pending->request.decision.admitted;
    if (pending->waits && admitted != head->charged)
        weir_sim_wrong(self->node.sim, admitted ? "a client is told yes, and the engine charged nothing"
                                                : "a client is told no, and the engine charged it");
    if (weir_sim_is_calm(self->node.sim) && is_told_of_reloads(self) &&
        weir_sim_script_node_is_left_behind(&self->node, pending->ops[0].limit) && is_newest_told(self))
        weir_sim_wrong(self->node.sim, "a node decides by a definition that others left behind");
    return admitted;
}

static void reply_heard(struct exact_node *self, const struct weir_sim_letter *head, const uint8_t *bytes)
{
    struct exact_pending *pending = self->first;
    while (pending && pending->id != head->id)
        pending = pending->next;
    if (!pending)
        return; /* late, or again */
    int status = weir_sim_letter_decode(&self->node, &pending->call, head, bytes);
    told(self, pending, true);
    if (status == WEIR_EAGAIN) {
        pending->decision = head->decision;
        pending->id = ++self->node.ids; /* the first round's answer says nothing more */
        if (send_call(self, pending))
            return;
        status = WEIR_EDOWN;
    }
    bool admitted = status == 0 ? decide_answered(self, pending, head) : decide_failed(self, pending, status);
    end_pending(self, pending, admitted);
}

static void expire(struct exact_node *self)
{
    const uint64_t now_ns = weir_sim_now(self->node.sim, self->node.number);
    while (self->first && self->first->request.deadline_ns <= now_ns) {
        told(self, self->first, false);
        end_pending(self, self->first, decide_failed(self, self->first, WEIR_EUNKNOWN));
    }
}

static enum weir_sim_say submit(struct exact_node *self, struct exact_pending *pending)
{
    if (!send_call(self, pending)) {
        bool admitted = decide_failed(self, pending, WEIR_EDOWN);
        pending_free(pending);
        return admitted ? WEIR_SIM_YES : WEIR_SIM_NO;
    }
    *(self->last ? &self->last->next : &self->first) = pending;
    self->last = pending;
    arm(self);
    return WEIR_SIM_WAIT;
}

static enum weir_sim_say request(struct weir_sim *sim, uint32_t node, void *state,
                                 const struct weir_sim_request *request)
{
    struct exact_node *self = state;
    struct weir_sim_random *random = weir_sim_draw(sim);
    (void)node;
    if (weir_sim_is_calm(sim) && is_coming_back(self) && are_too_few(sim))
        weir_sim_calm_again(sim);
    if (weir_sim_random_chance(random, PEEK_PPM))
        (void)submit(self, pending_create(self, 1, true, true));
    struct exact_pending *pending = pending_create(self, request->cost, weir_sim_random_chance(random, BOTH_PPM),
                                                   false);
    pending->client = request->id;
    pending->waits = true;
    return submit(self, pending);
}

/* ---- a node ---- */

static bool ready(struct weir_remote *remote)
{
    const struct exact_node *self = (struct exact_node *)remote;
    return self->breaker.state != WEIR_BREAKER_OPEN;
}

static const struct weir_remote_ops remote_ops = { .name = "simulated",
                                                   .note = weir_sim_script_node_note,
                                                   .ready = ready };

static void start(struct weir_sim *sim, uint32_t node, void *state)
{
    struct exact_node *self = state;
    const uint64_t now_ns = weir_sim_now(sim, node);
    weir_sim_script_node_start(&self->node, sim, node, LIMITS, &remote_ops);
    weir_breaker_init(&self->breaker, now_ns);
    int error = weir_fallback_create(LIMITS, FALLBACK_KEYS, now_ns, &self->fallback);
    weir_assert(error == 0);
    arm(self);
}

static void stop(struct weir_sim *sim, uint32_t node, void *state)
{
    struct exact_node *self = state;
    (void)sim, (void)node;
    while (self->first) {
        struct exact_pending *pending = self->first;
        self->first = pending->next;
        pending_free(pending);
    }
    weir_sim_script_node_stop(&self->node);
    weir_fallback_destroy(self->fallback);
}

static void reload(struct weir_sim *sim, uint32_t node, void *state)
{
    (void)sim, (void)node;
    weir_sim_script_node_reload(state);
}

static void message(struct weir_sim *sim, uint32_t node, void *state, uint32_t from, const void *data, size_t size)
{
    struct exact_node *self = state;
    struct weir_sim_letter head;
    const uint8_t *bytes = (const uint8_t *)data + sizeof head;
    (void)sim, (void)node, (void)from;
    memcpy(&head, data, sizeof head);
    weir_assert(sizeof head + head.size == size);
    expire(self); /* the loop runs its timers before it reads */
    if (head.kind == WEIR_SIM_CALL)
        reply_heard(self, &head, bytes);
    else
        weir_sim_script_node_heard(&self->node, &head, bytes);
    arm(self);
}

static void timer(struct weir_sim *sim, uint32_t node, void *state)
{
    struct exact_node *self = state;
    (void)sim, (void)node;
    expire(self);
    weir_sim_script_node_turn(&self->node);
    arm(self);
}

static bool is_told(const struct weir_sim_script_node *node)
{
    return is_told_of_reloads((const struct exact_node *)node);
}

static const char *audit(struct weir_sim *sim)
{
    return weir_sim_script_nodes_agree(sim, is_told);
}

const struct weir_sim_mode weir_sim_exact_host = {
    .name = "exact-host",
    .node_size = sizeof(struct exact_node),
    .engine_size = sizeof(struct weir_sim_script),
    .start = start,
    .stop = stop,
    .request = request,
    .message = message,
    .timer = timer,
    .reload = reload,
    .engine_message = engine_message,
    .engine_decides = true,
    .engine_windows = true,
    .calm_ppm = weir_sim_nine_tenths,
    .audit = audit,
};
