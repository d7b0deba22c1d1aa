/* SPDX-License-Identifier: Apache-2.0
 *
 * leased and batched as a server runs them: limits/share_host.h, with its table of keys, its asks, its deadlines and
 * its waiters, over a network that fails; and its asks as the script's calls, by which a limit that was reloaded is
 * carried over. Other keys crowd the one that is checked out of the table; now and then all limits are retired. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/container.h"
#include "limits/share_host.h"
#include "sim/modes.h"
#include "sim/script_node.h"

#define KEYS 3 /* the first is checked */
#define ROOM 2 /* of a node's table */
#define DOZEN 12
#define DOZEN_ROOM 8
#define ABSENT_PPM 250000 /* of the other limits are not in the file that a reload brings */
#define PENDING_MAX 128
#define CROWD_PPM 30000 /* of requests come with one of each other key */
#define PEEK_PPM 30000
#define RETIRE_PPM 500

/* An ask under way. */
struct pending {
    struct weir_remote_request *request;
    uint32_t id;
    bool behind;                  /* who asked may have been behind, be it in its first round */
    struct weir_script_call call; /* last: touched only as far as it has ops */
};

struct node {
    struct weir_sim_script_node node; /* first */
    struct weir_share_host *host;
    struct weir_share_waiter waiter; /* for all requests that wait */
    bool failing;
    uint64_t held_count, held_units; /* requests that have reserved and not finished */
    uint64_t wake_ns;                /* of the host */
    uint64_t give_up_ns;             /* who waits longest is refused then */
    size_t pending_count;
    struct pending *pending[PENDING_MAX];
};

/* What the remote and the host wait for next. */
static void arm(struct node *self)
{
    uint64_t at_ns = weir_min_u64(self->wake_ns, weir_sim_script_node_due_ns(&self->node));
    for (size_t i = 0; i < self->pending_count; i++)
        at_ns = weir_min_u64(at_ns, self->pending[i]->request->deadline_ns);
    at_ns = weir_min_u64(at_ns, self->give_up_ns);
    weir_sim_wake(self->node.sim, self->node.number, at_ns);
}

/* Who waits, waits until a deadline of its own, whatever becomes of the ask. */
static void give_up(struct node *self)
{
    const uint64_t patience_ns = weir_sim_plan_of(self->node.sim)->deadline_ns;
    const uint64_t next_ns = weir_sim_give_up(self->node.sim, self->node.number, patience_ns);
    self->give_up_ns = next_ns > 0 ? weir_sim_now(self->node.sim, self->node.number) + next_ns : WEIR_NEVER;
    if (next_ns == 0)
        (void)weir_share_waiter_leave(&self->waiter);
}

/* ---- the engine, as a node sees it ---- */

static void send_call(struct node *self, struct pending *pending)
{
    int error = weir_script_call_encode(&pending->call, weir_script_sha1);
    weir_assert(error == 0);
    pending->id = ++self->node.ids; /* what answers an earlier round says nothing more */
    /* By what the node has heard, whatever the key goes by. */
    pending->behind |= weir_sim_script_node_may_be_behind(&self->node, self->node.limits[0]);
    struct weir_sim_letter head = { .id = pending->id, .behind = pending->behind };
    weir_sim_letter_call(&self->node, &head, &pending->call);
}

static int submit(struct weir_remote *remote, struct weir_remote_request *request)
{
    struct node *self = (struct node *)remote;
    if (self->node.down || self->pending_count == PENDING_MAX)
        return WEIR_EDOWN;
    struct pending *pending = malloc(sizeof *pending);
    weir_assert(pending && request->count == 1);
    pending->request = request;
    pending->behind = false;
    weir_sim_letter_begin(&self->node, &pending->call, request);
    weir_script_call_add(&pending->call, 0);
    self->pending[self->pending_count++] = pending;
    send_call(self, pending);
    arm(self);
    return 0;
}

static bool ready(struct weir_remote *remote)
{
    (void)remote;
    return true;
}

static const struct weir_remote_ops remote_ops = {
    .name = "simulated", .submit = submit, .note = weir_sim_script_node_note, .ready = ready
};

static void end_pending(struct node *self, size_t index, int status)
{
    struct pending *pending = self->pending[index];
    struct weir_remote_request *request = pending->request;
    self->pending[index] = self->pending[--self->pending_count];
    weir_script_call_deinit(&pending->call);
    free(pending);
    if (status == WEIR_ECORRUPT)
        weir_sim_wrong(self->node.sim, "what the script answered is not what core makes of it");
    request->status = status;
    request->done(request);
}

static void expire(struct node *self)
{
    for (size_t i = 0; i < self->pending_count;) {
        if (self->pending[i]->request->deadline_ns <= weir_sim_now(self->node.sim, self->node.number))
            end_pending(self, i, WEIR_EUNKNOWN);
        else
            i++;
    }
}

static void reply_heard(struct node *self, const struct weir_sim_letter *head, const uint8_t *bytes)
{
    size_t i = 0;
    while (i < self->pending_count && self->pending[i]->id != head->id)
        i++;
    if (i == self->pending_count)
        return; /* late, or again */
    int status = weir_sim_letter_decode(&self->node, &self->pending[i]->call, head, bytes);
    if (status != WEIR_EAGAIN) {
        end_pending(self, i, status);
        return;
    }
    weir_script_call_next_round(&self->pending[i]->call, weir_sim_now(self->node.sim, self->node.number));
    send_call(self, self->pending[i]);
}

static void message(struct weir_sim *sim, uint32_t node, void *state, uint32_t from, const void *data, size_t size)
{
    struct node *self = state;
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

static void engine_start(struct weir_sim *sim, void *state)
{
    struct weir_sim_script *engine = state;
    engine->careless = weir_sim_plan_of(sim)->plant == WEIR_SIM_PLANT_SEQUENCE;
}

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
    (void)weir_sim_letter_run(sim, state, &head, bytes, &reply);
    if (reply.bytes[0] == 'S' && weir_sim_letter_is_older(sim, state, &head))
        weir_sim_newest_again(sim, weir_sim_script_held(&((struct weir_sim_script *)state)->values[0]));
    head.size = (uint32_t)reply.size;
    weir_sim_letter_send(sim, WEIR_SIM_ENGINE, from, &head, reply.bytes, reply.size);
}

/* ---- a node ---- */

static bool is_leased(const struct weir_sim *sim)
{
    return weir_sim_plan_of(sim)->mode == &weir_sim_leased_host;
}

static struct weir_share_terms terms_of(const struct node *self, uint32_t key)
{
    const struct weir_sim_plan *plan = weir_sim_plan_of(self->node.sim);
    return (struct weir_share_terms){ .limit = self->node.limits[key % self->node.count],
                                      .leased = is_leased(self->node.sim),
                                      .slack = plan->slack,
                                      .interval_ns = plan->interval_ns,
                                      .chunk_ttl_ns = plan->chunk_ttl_ns,
                                      .deadline_ns = plan->deadline_ns };
}

static void on_wake(void *context, uint64_t at_ns)
{
    struct node *self = context;
    self->wake_ns = at_ns;
    if (!self->node.down)
        arm(self);
}

static uint64_t clock_of(void *context)
{
    const struct node *self = context;
    return weir_sim_now(self->node.sim, self->node.number);
}

static void on_ready(struct weir_share_waiter *waiter, int status)
{
    struct node *self = weir_container(waiter, struct node, waiter);
    self->failing = status != 0;
    weir_sim_retry(self->node.sim, self->node.number);
    self->failing = false;
}

static void start(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    const struct weir_sim_plan *plan = weir_sim_plan_of(sim);
    uint64_t secret[2] = { weir_sim_number(sim), node };
    if (plan->plant == WEIR_SIM_PLANT_TWIN && !weir_sim_restarted(sim, node)) {
        secret[0] = 0;
        secret[1] = plan->twins && node == 1 ? 0 : node;
    }
    weir_sim_script_node_start(&self->node, sim, node, plan->dozen ? DOZEN : 1, &remote_ops);
    self->wake_ns = self->give_up_ns = WEIR_NEVER;
    self->waiter.ready = on_ready;
    int error = weir_share_host_create(&(struct weir_share_host_options){ .remote = &self->node.remote,
                                                                          .keys_max = plan->dozen ? DOZEN_ROOM : ROOM,
                                                                          .wake = on_wake,
                                                                          .now_ns = clock_of,
                                                                          .context = self,
                                                                          .secret = (const uint8_t *)secret },
                                       &self->host);
    weir_assert(error == 0);
    arm(self);
}

static void on_closed(void *context)
{
    struct node *self = context;
    while (self->pending_count > 0)
        end_pending(self, 0, WEIR_EUNKNOWN);
}

/* A crash: nothing is sent any more, and what was under way is never heard of. */
static void stop(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    const struct weir_remote_key key = weir_sim_script_key(0);
    const uint64_t now_ns = weir_sim_now(sim, node);
    self->node.down = true;
    (void)weir_share_waiter_leave(&self->waiter);
    for (; self->held_count > 0; self->held_count--, self->held_units = 0)
        weir_share_host_cancel(self->host, &key, self->held_units, now_ns);
    weir_share_host_close(self->host, 0, on_closed, self);
    weir_share_host_turn(self->host, now_ns);
    weir_sim_script_node_stop(&self->node);
}

/* Of the other limits some are taken away, and others are brought back. */
static void reload(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    const char *names[WEIR_SIM_SCRIPT_KEYS];
    size_t count = 0;
    (void)node;
    self->node.absent = 0;
    for (uint32_t i = 1; i < self->node.count; i++)
        self->node.absent |= (uint32_t)weir_sim_random_chance(weir_sim_draw(sim), ABSENT_PPM) << i;
    weir_sim_script_node_reload(&self->node);
    for (uint32_t i = 0; i < self->node.count; i++) {
        if ((self->node.absent >> i & 1) == 0)
            names[count++] = self->node.limits[i]->name;
    }
    int error = weir_share_host_retire(self->host, names, count);
    weir_assert(error == 0);
}

static enum weir_share_say reserve(struct node *self, uint32_t key, uint64_t units, bool peek)
{
    const struct weir_share_terms terms = terms_of(self, key);
    const struct weir_remote_key of = weir_sim_script_key(key);
    enum weir_share_say say = WEIR_SHARE_NO;
    struct weir_verdict verdict;
    if (weir_share_host_reserve(self->host, &terms, &of, units, peek, weir_sim_now(self->node.sim, self->node.number),
                                &say, &verdict) != 0)
        return WEIR_SHARE_NO;
    return say;
}

/* What happens beside the requests for the key that is checked, and must not be seen in them. */
static void crowd(struct weir_sim *sim, struct node *self)
{
    struct weir_sim_random *random = weir_sim_draw(sim);
    const uint32_t keys = self->node.count == 1 ? KEYS : self->node.count;
    if (weir_sim_random_chance(random, PEEK_PPM))
        (void)reserve(self, (uint32_t)weir_sim_random_below(random, keys), 1, true);
    if (weir_sim_random_chance(random, RETIRE_PPM))
        (void)weir_share_host_retire(self->host, NULL, 0);
    if (!weir_sim_random_chance(random, CROWD_PPM))
        return;
    for (uint32_t i = 1; i < keys; i++) {
        const struct weir_remote_key key = weir_sim_script_key(i);
        if ((self->node.absent >> i & 1) == 0 && reserve(self, i, 1, false) == WEIR_SHARE_YES)
            (void)weir_share_host_commit(self->host, &key, 1, weir_sim_now(sim, self->node.number));
    }
}

static enum weir_sim_say request(struct weir_sim *sim, uint32_t node, void *state,
                                 const struct weir_sim_request *request)
{
    struct node *self = state;
    const struct weir_remote_key key = weir_sim_script_key(0);
    (void)node;
    if (request->again && self->failing)
        return WEIR_SIM_NO;
    if (!request->again)
        crowd(sim, self);
    enum weir_share_say say = reserve(self, 0, request->cost, false);
    if (say == WEIR_SHARE_WAIT && !self->waiter.queue)
        weir_share_host_wait(self->host, &key, &self->waiter);
    if (say == WEIR_SHARE_WAIT)
        self->give_up_ns = weir_min_u64(self->give_up_ns, weir_sim_now(sim, node) + weir_sim_plan_of(sim)->deadline_ns);
    self->held_count += say == WEIR_SHARE_YES;
    self->held_units += say == WEIR_SHARE_YES ? request->cost : 0;
    return say == WEIR_SHARE_YES ? WEIR_SIM_YES : say == WEIR_SHARE_NO ? WEIR_SIM_NO : WEIR_SIM_WAIT;
}

static bool finish(struct weir_sim *sim, uint32_t node, void *state, uint64_t cost, bool admitted)
{
    struct node *self = state;
    struct weir_remote_key key = weir_sim_script_key(0);
    self->held_count--;
    self->held_units -= cost;
    if (admitted)
        return weir_share_host_commit(self->host, &key, cost, weir_sim_now(sim, node));
    weir_share_host_cancel(self->host, &key, cost, weir_sim_now(sim, node));
    return false;
}

static void timer(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    uint64_t now_ns = weir_sim_now(sim, node);
    expire(self);
    if (self->give_up_ns <= now_ns)
        give_up(self);
    weir_sim_script_node_turn(&self->node);
    if (self->wake_ns <= now_ns) {
        self->wake_ns = WEIR_NEVER;
        weir_share_host_turn(self->host, now_ns);
    }
    arm(self);
}

static const char *audit(struct weir_sim *sim)
{
    return weir_sim_script_nodes_agree(sim, NULL);
}

/* Half of what the machines alone do: a key that is crowded out gives back what it holds, and asks again. */
static uint32_t leased_calm_ppm(const struct weir_sim_plan *plan)
{
    return weir_sim_leased.calm_ppm(plan) / 2;
}

static uint32_t batched_calm_ppm(const struct weir_sim_plan *plan)
{
    return weir_sim_batched.calm_ppm(plan) / 2;
}

const struct weir_sim_mode weir_sim_leased_host = {
    .name = "leased-host",
    .node_size = sizeof(struct node),
    .engine_size = sizeof(struct weir_sim_script),
    .start = start,
    .stop = stop,
    .request = request,
    .finish = finish,
    .message = message,
    .timer = timer,
    .reload = reload,
    .engine_start = engine_start,
    .engine_message = engine_message,
    .step_forgets = true,
    .engine_windows = true,
    .calm_ppm = leased_calm_ppm,
    .audit = audit,
};

const struct weir_sim_mode weir_sim_batched_host = {
    .name = "batched-host",
    .node_size = sizeof(struct node),
    .engine_size = sizeof(struct weir_sim_script),
    .start = start,
    .stop = stop,
    .request = request,
    .finish = finish,
    .message = message,
    .timer = timer,
    .reload = reload,
    .engine_start = engine_start,
    .engine_message = engine_message,
    .step_forgets = true,
    .engine_windows = true,
    .bound = weir_sim_slack_of_all,
    .bound_crash = weir_sim_slack_of_one,
    .calm_ppm = batched_calm_ppm,
    .audit = audit,
};
