/* SPDX-License-Identifier: Apache-2.0
 *
 * leased and batched as a server runs them: engine/share_host.h, with its table of keys, its asks, its deadlines and
 * its waiters, over a network that fails. Other keys crowd the one that is checked out of the table; now and then all
 * limits are retired, as by a reload. */
#include <string.h>

#include "base/assert.h"
#include "engine/share_host.h"
#include "sim/ledger_host.h"
#include "sim/modes.h"

#define KEYS 3 /* the first is checked */
#define ROOM 2 /* of a node's table */
#define PENDING_MAX 128
#define CROWD_PPM 30000 /* of requests come with one of each other key */
#define PEEK_PPM 30000
#define RETIRE_PPM 500

struct pending {
    struct weir_remote_request *request;
    uint32_t id;
};

struct node {
    struct weir_remote remote;
    struct weir_sim *sim;
    uint32_t number;
    struct weir_share_host *host;
    struct weir_share_terms terms;
    struct weir_share_waiter waiter; /* for all requests that wait */
    bool down, failing;
    uint64_t held_count, held_units; /* requests that have reserved and not finished */
    uint64_t wake_ns;                /* of the host */
    uint32_t ids;
    size_t pending_count;
    struct pending pending[PENDING_MAX];
};

struct engine {
    struct weir_sim_ledger keys[KEYS];
};

struct letter {
    uint32_t key, id;
    union {
        struct weir_share_ask ask;
        struct weir_share_answer answer;
    };
};

/* What the remote and the host wait for next. */
static void arm(struct node *self)
{
    uint64_t at_ns = self->wake_ns;
    for (size_t i = 0; i < self->pending_count; i++)
        at_ns = weir_min_u64(at_ns, self->pending[i].request->deadline_ns);
    weir_sim_wake(self->sim, self->number, at_ns == WEIR_NEVER ? 0 : at_ns);
}

/* ---- the engine, as a node sees it ---- */

static int submit(struct weir_remote *remote, struct weir_remote_request *request)
{
    struct node *self = (struct node *)remote;
    if (self->down || self->pending_count == PENDING_MAX)
        return WEIR_EDOWN;
    self->pending[self->pending_count++] = (struct pending){ request, ++self->ids };
    struct letter letter = { .key = (uint32_t)request->ops[0].key.id[1], .id = self->ids, .ask = request->ops[0].ask };
    weir_sim_send(self->sim, self->number, WEIR_SIM_ENGINE, &letter, sizeof letter);
    arm(self);
    return 0;
}

static const struct weir_remote_ops remote_ops = { .name = "simulated", .submit = submit };

static void end_pending(struct node *self, size_t index, int status)
{
    struct weir_remote_request *request = self->pending[index].request;
    self->pending[index] = self->pending[--self->pending_count];
    request->status = status;
    request->done(request);
}

static void expire(struct node *self)
{
    for (size_t i = 0; i < self->pending_count;) {
        if (self->pending[i].request->deadline_ns <= weir_sim_now(self->sim, self->number))
            end_pending(self, i, WEIR_EUNKNOWN);
        else
            i++;
    }
}

static void message(struct weir_sim *sim, uint32_t node, void *state, uint32_t from, const void *data, size_t size)
{
    struct node *self = state;
    struct letter letter;
    (void)sim, (void)node, (void)from;
    weir_assert(size == sizeof letter);
    memcpy(&letter, data, sizeof letter);
    expire(self); /* the loop runs its timers before it reads */
    for (size_t i = 0; i < self->pending_count; i++) {
        if (self->pending[i].id != letter.id)
            continue;
        self->pending[i].request->ops[0].answer = letter.answer;
        end_pending(self, i, 0);
        break;
    }
    arm(self);
}

static void engine_start(struct weir_sim *sim, void *state)
{
    struct engine *engine = state;
    for (size_t i = 0; i < KEYS; i++)
        weir_sim_ledger_start(sim, &engine->keys[i]);
}

static void engine_message(struct weir_sim *sim, void *state, uint32_t from, const void *data, size_t size)
{
    struct engine *engine = state;
    struct letter letter;
    weir_assert(size == sizeof letter);
    memcpy(&letter, data, sizeof letter);
    struct weir_share_answer answer;
    weir_sim_ledger_ask(sim, &engine->keys[letter.key], &letter.ask, &answer);
    letter.answer = answer;
    weir_sim_send(sim, WEIR_SIM_ENGINE, from, &letter, sizeof letter);
}

/* ---- a node ---- */

static struct weir_remote_key key_of(uint32_t number)
{
    return (struct weir_remote_key){ .id = { 1, number } };
}

static bool is_leased(const struct weir_sim *sim)
{
    return weir_sim_plan_of(sim)->mode == &weir_sim_leased_host;
}

static void on_wake(void *context, uint64_t at_ns)
{
    struct node *self = context;
    self->wake_ns = at_ns;
    if (!self->down)
        arm(self);
}

static uint64_t clock_of(void *context)
{
    const struct node *self = context;
    return weir_sim_now(self->sim, self->number);
}

static void on_ready(struct weir_share_waiter *waiter, int status)
{
    struct node *self = (struct node *)((char *)waiter - offsetof(struct node, waiter));
    self->failing = status != 0;
    weir_sim_retry(self->sim, self->number);
    self->failing = false;
}

static void start(struct weir_sim *sim, uint32_t node, void *state)
{
    struct node *self = state;
    const struct weir_sim_plan *plan = weir_sim_plan_of(sim);
    const struct weir_remote_limit *limit;
    const uint64_t secret[2] = { weir_sim_number(sim), node };
    struct weir_fault fault;
    int error = weir_remote_limit_create("api", 0, 0, &plan->limit, &limit, &fault);
    weir_assert(error == 0);
    *self = (struct node){ .remote = { &remote_ops }, .sim = sim, .number = node, .wake_ns = WEIR_NEVER };
    self->waiter.ready = on_ready;
    self->terms = (struct weir_share_terms){ .limit = limit,
                                             .leased = is_leased(sim),
                                             .slack = plan->slack,
                                             .interval_ns = plan->interval_ns,
                                             .chunk_ttl_ns = plan->chunk_ttl_ns,
                                             .deadline_ns = plan->deadline_ns };
    error = weir_share_host_create(&(struct weir_share_host_options){ .remote = &self->remote,
                                                                      .keys_max = ROOM,
                                                                      .wake = on_wake,
                                                                      .now_ns = clock_of,
                                                                      .context = self,
                                                                      .secret = (const uint8_t *)secret },
                                   &self->host);
    weir_assert(error == 0);
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
    const struct weir_remote_key key = key_of(0);
    const uint64_t now_ns = weir_sim_now(sim, node);
    self->down = true;
    weir_share_waiter_leave(&self->waiter);
    for (; self->held_count > 0; self->held_count--, self->held_units = 0)
        weir_share_host_cancel(self->host, &key, self->held_units, now_ns);
    weir_share_host_close(self->host, 0, on_closed, self);
    weir_share_host_turn(self->host, now_ns);
    weir_remote_limit_drop(self->terms.limit);
}

/* What happens beside the requests for the key that is checked, and must not be seen in them. */
static void crowd(struct weir_sim *sim, struct node *self, uint64_t now_ns)
{
    struct weir_sim_random *random = weir_sim_draw(sim);
    enum weir_share_say say;
    struct weir_verdict verdict;
    if (weir_sim_random_chance(random, PEEK_PPM)) {
        struct weir_remote_key key = key_of((uint32_t)weir_sim_random_below(random, KEYS));
        (void)weir_share_host_reserve(self->host, &self->terms, &key, 1, true, now_ns, &say, &verdict);
    }
    if (weir_sim_random_chance(random, RETIRE_PPM))
        (void)weir_share_host_retire(self->host, NULL, 0);
    if (!weir_sim_random_chance(random, CROWD_PPM))
        return;
    for (uint32_t i = 1; i < KEYS; i++) {
        struct weir_remote_key key = key_of(i);
        if (weir_share_host_reserve(self->host, &self->terms, &key, 1, false, now_ns, &say, &verdict) == 0 &&
            say == WEIR_SHARE_YES)
            (void)weir_share_host_commit(self->host, &key, 1, now_ns);
    }
}

static enum weir_sim_say request(struct weir_sim *sim, uint32_t node, void *state,
                                 const struct weir_sim_request *request)
{
    struct node *self = state;
    struct weir_remote_key key = key_of(0);
    uint64_t now_ns = weir_sim_now(sim, node);
    enum weir_share_say say;
    struct weir_verdict verdict;
    if (request->again && self->failing)
        return WEIR_SIM_NO;
    if (!request->again)
        crowd(sim, self, now_ns);
    if (weir_share_host_reserve(self->host, &self->terms, &key, request->cost, false, now_ns, &say, &verdict) != 0)
        return WEIR_SIM_NO;
    if (say == WEIR_SHARE_WAIT && !self->waiter.queue)
        weir_share_host_wait(self->host, &key, &self->waiter);
    self->held_count += say == WEIR_SHARE_YES;
    self->held_units += say == WEIR_SHARE_YES ? request->cost : 0;
    return say == WEIR_SHARE_YES ? WEIR_SIM_YES : say == WEIR_SHARE_NO ? WEIR_SIM_NO : WEIR_SIM_WAIT;
}

static bool finish(struct weir_sim *sim, uint32_t node, void *state, uint64_t cost, bool admitted)
{
    struct node *self = state;
    struct weir_remote_key key = key_of(0);
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
    if (self->wake_ns <= now_ns) {
        self->wake_ns = WEIR_NEVER;
        weir_share_host_turn(self->host, now_ns);
    }
    arm(self);
}

static uint64_t bound(const struct weir_sim_plan *plan)
{
    return plan->nodes * plan->slack;
}

static uint64_t bound_crash(const struct weir_sim_plan *plan)
{
    return plan->slack;
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
    .engine_size = sizeof(struct engine),
    .start = start,
    .stop = stop,
    .request = request,
    .finish = finish,
    .message = message,
    .timer = timer,
    .engine_start = engine_start,
    .engine_message = engine_message,
    .step_forgets = true,
    .calm_ppm = leased_calm_ppm,
};

const struct weir_sim_mode weir_sim_batched_host = {
    .name = "batched-host",
    .node_size = sizeof(struct node),
    .engine_size = sizeof(struct engine),
    .start = start,
    .stop = stop,
    .request = request,
    .finish = finish,
    .message = message,
    .timer = timer,
    .engine_start = engine_start,
    .engine_message = engine_message,
    .step_forgets = true,
    .bound = bound,
    .bound_crash = bound_crash,
    .calm_ppm = batched_calm_ppm,
};
