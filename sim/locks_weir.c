/* SPDX-License-Identifier: Apache-2.0
 *
 * A weir with locks: the manager of src/locks, as it is, whose turns are taken here in virtual time. Between a
 * turn's two halves the batch is with the store, and requests come and go; it may be lost on its way, late, or
 * decided when nobody waits for it any more. What serve/locks.c does around the manager (quick first, who is
 * superseded, a grant that nobody took) is done here too. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "sim/locks_inside.h"
#include "weir/error.h"

#define MICROSECOND (LOCKS_SECOND / 1000000)
#define LOST_PPM 8000

static uint64_t weir_now(const struct locks *locks, const struct locks_weir *weir)
{
    return locks_clock_ns(locks, &weir->clock);
}

static uint32_t index_of(const struct locks *locks, const struct locks_weir *weir)
{
    return (uint32_t)(weir - locks->weirs);
}

/* When its thread would begin the next turn. Its clock may run faster than the world's: it looks a little early then,
 * and again. */
static void schedule(struct locks *locks, struct locks_weir *weir)
{
    if (weir->busy || !weir->manager)
        return;
    uint64_t now_ns = weir_now(locks, weir), due_ns = weir_lock_manager_due_ns(weir->manager, now_ns), left_ns = 0;
    weir->timer++;
    if (due_ns == UINT64_MAX && !weir_lock_manager_called(weir->manager))
        return;
    if (!weir_lock_manager_called(weir->manager))
        left_ns = weir_sub_sat(due_ns, now_ns);
    left_ns -= left_ns / 100;
    locks_batch_event(locks, LOCKS_TURN, index_of(locks, weir), 0, locks->now_ns + left_ns + 10 * MICROSECOND);
}

/* ---- the engine, as far as the manager calls it ---- */

static void engine_state(struct weir_lock_engine *engine, struct weir_lock_engine_state *ret_state)
{
    (void)engine;
    *ret_state = (struct weir_lock_engine_state){ .name = "simulated", .up = true };
}

static void engine_idle(struct weir_lock_engine *engine)
{
    locks_store_synced(((struct locks_engine *)(void *)engine)->locks);
}

static void engine_destroy(struct weir_lock_engine *engine)
{
    (void)engine;
}

/* ---- requests ---- */

static struct locks_request *request_make(struct locks *locks, uint32_t at, enum weir_lock_verb verb, uint32_t name,
                                          uint64_t owner)
{
    struct locks_request *request = locks_grown(NULL, sizeof(*request));
    *request = (struct locks_request){ .locks = locks, .weir = at, .name = name, .owner = owner };
    request->visitor = LOCKS_NOBODY;
    request->letter = (char)('a' + name);
    request->request.op = (struct weir_lock_op){ .verb = verb,
                                                 .name = { &request->letter, 1 },
                                                 .owner = { &request->owner, sizeof(request->owner) },
                                                 .ttl_ns = locks->ttl_ns };
    request->request.context = request;
    return request;
}

static void request_unlink(struct locks *locks, struct locks_request *request)
{
    struct locks_request **at = &locks->weirs[request->weir].open;
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
}

static void reply(struct locks *locks, const struct locks_request *request)
{
    const struct weir_lock_op *op = &request->request.op;
    if (request->left)
        return;
    if (request->visitor != LOCKS_NOBODY)
        locks_visitor_hear(locks, request);
    if (!request->from_client)
        return;
    struct locks_message answer = request->message;
    answer.answer = true;
    answer.result = op->status ? op->status : op->said == WEIR_LOCK_HELD ? WEIR_EHELD : WEIR_ELOST;
    if (op->status == 0 && op->said == WEIR_LOCK_GRANTED)
        answer.result = 0;
    if (answer.result == 0)
        answer.token = op->token;
    answer.lease_ns = op->lease_ns;
    locks_send(locks, &answer);
}

static void forget_past(struct locks_weir *weir)
{
    for (struct locks_request *request; (request = weir->past);) {
        weir->past = request->next;
        free(request);
    }
}

static void on_done(struct weir_lock_manager_request *manager_request)
{
    struct locks_request *request = manager_request->context;
    struct locks *locks = request->locks;
    struct weir_lock_manager *manager = locks->weirs[request->weir].manager;
    if (!locks_waits_answered(locks, request))
        return;
    request_unlink(locks, request);
    reply(locks, request);
    if (request->left && weir_lock_manager_take_back(manager, manager_request))
        locks_broken(locks, "what one who left was granted is given back only after it was answered");
    weir_lock_manager_told(manager, manager_request);
    request->next = locks->weirs[request->weir].past;
    locks->weirs[request->weir].past = request;
}

/* False: it was refused at once, and is gone. */
static bool submit(struct locks *locks, struct locks_request *request)
{
    struct locks_weir *weir = &locks->weirs[request->weir];
    struct weir_lock_op *op = &request->request.op;
    request->request.done = on_done;
    locks_waits_came(locks, request);
    bool quick = weir_lock_manager_quick(weir->manager, &request->request);
    if (quick)
        locks_waits_quick(locks, request);
    else if (weir_lock_manager_submit(weir->manager, &request->request) != 0) {
        locks_waits_refused(locks, request);
        free(request);
        return false;
    }
    for (struct locks_request *other = weir->open; other; other = other->next)
        other->superseded |= (op->verb == WEIR_LOCK_ACQUIRE || op->verb == WEIR_LOCK_RENEW) &&
                             other->name == request->name && other->owner == request->owner;
    request->next = weir->open;
    weir->open = request;
    locks->result->requests++;
    if (quick)
        on_done(&request->request);
    schedule(locks, weir);
    return true;
}

void locks_weir_hear(struct locks *locks, const struct locks_message *message)
{
    static const enum weir_lock_verb verbs[] = {
        [LOCKS_ACQUIRE] = WEIR_LOCK_ACQUIRE, [LOCKS_RENEW] = WEIR_LOCK_RENEW, [LOCKS_RELEASE] = WEIR_LOCK_RELEASE
    };
    struct locks_weir *weir = &locks->weirs[message->replica];
    if (!weir->manager)
        return;
    /* It asks over a new connection: weir hears soon that the old one is gone, or never. */
    for (struct locks_request *other = weir->open; other && message->verb == LOCKS_ACQUIRE; other = other->next)
        if (other->from_client && other->message.client == message->client && other->message.verb == LOCKS_ACQUIRE &&
            weir_sim_random_below(&locks->random, 3) > 0)
            locks_batch_event(locks, LOCKS_LEAVE, message->replica, other->id,
                              locks->now_ns + weir_sim_random_below(&locks->random, 300 * LOCKS_MS));
    struct locks_request *request = request_make(locks, message->replica, verbs[message->verb], 0, message->holder);
    request->from_client = true;
    request->message = *message;
    request->request.wait_ns = message->wait_ns;
    (void)submit(locks, request);
}

bool locks_weir_visit(struct locks *locks, uint32_t at, uint64_t owner, const struct weir_lock_manager_request *wish)
{
    struct locks_visitor *visitor = &locks->visitors[at];
    if (!locks->weirs[visitor->weir].manager)
        return false;
    struct locks_request *request = request_make(locks, visitor->weir, wish->op.verb, visitor->name, owner);
    request->visitor = at;
    request->turn = visitor->turn;
    request->request.wait_ns = wish->wait_ns;
    request->request.op.ttl_ns = wish->op.ttl_ns;
    request->request.op.seen = wish->op.seen;
    return submit(locks, request);
}

void locks_weir_leave(struct locks *locks, uint32_t id)
{
    struct locks_request *request = locks->waits.records[id].request;
    if (!request || request->left)
        return;
    request->left = true;
    request->left_ns = locks->now_ns;
    locks->result->gone++;
    weir_lock_manager_client_gone(locks->weirs[request->weir].manager, &request->request);
    schedule(locks, &locks->weirs[request->weir]);
}

/* ---- turns ---- */

static uint32_t batch_slot(struct locks *locks)
{
    uint32_t slot = 0;
    while (slot < locks->batches_count && locks->batches[slot])
        slot++;
    if (slot == locks->batches_count) {
        locks->batches = locks_grown(locks->batches, (slot + 1) * sizeof(locks->batches[0]));
        locks->batches_count++;
    }
    return slot;
}

static void batch_done(struct locks *locks, uint32_t slot)
{
    if (--locks->batches[slot]->events > 0)
        return;
    free(locks->batches[slot]);
    locks->batches[slot] = NULL;
}

static void fail_all(struct locks_batch *batch, int status)
{
    for (size_t i = 0; i < batch->count; i++)
        batch->asked[i].op.status = status;
}

/* When, and whether at all, the store decides the batch, and when the manager hears of it. */
static void send_batch(struct locks *locks, uint32_t slot)
{
    struct weir_sim_random *random = &locks->random;
    struct locks_batch *batch = locks->batches[slot];
    const struct locks_store *store = &locks->store;
    uint64_t deadline_ns = locks->now_ns + locks->weirs[batch->weir].options.timeout_ns;
    uint64_t reach_ns = weir_sim_random_in(random, LOCKS_MS / 10, 2 * LOCKS_MS);
    uint64_t back_ns = weir_sim_random_in(random, LOCKS_MS / 10, 2 * LOCKS_MS);
    uint64_t at_ns = weir_max_u64(locks->now_ns + reach_ns, store->stalled_until_ns);
    bool calm = locks->now_ns >= locks->calm_ns;
    bool lost = !calm && weir_sim_random_chance(random, LOST_PPM);
    bool unheard = !calm && weir_sim_random_chance(random, LOST_PPM);
    batch->events = 1;
    if (!store->shared) { /* memory decides; then the disk has it */
        locks_store_decide(locks, batch);
        locks_batch_event(locks, LOCKS_END, batch->weir, slot, at_ns + back_ns);
        return;
    }
    if (locks->now_ns < store->down_until_ns) {
        fail_all(batch, WEIR_EDOWN);
        locks_batch_event(locks, LOCKS_END, batch->weir, slot, locks->now_ns + back_ns);
        return;
    }
    batch->unheard = lost || unheard || at_ns + back_ns > deadline_ns;
    batch->events += !lost;
    if (!lost)
        locks_batch_event(locks, LOCKS_DECIDE, batch->weir, slot, at_ns);
    locks_batch_event(locks, LOCKS_END, batch->weir, slot, batch->unheard ? deadline_ns : at_ns + back_ns);
}

static void ask_store(struct locks *locks, struct locks_weir *weir)
{
    const struct weir_lock_manager *manager = weir->manager;
    uint32_t slot = batch_slot(locks);
    struct locks_batch *batch = locks_grown(NULL, sizeof(*batch) + manager->count * sizeof(batch->asked[0]));
    *batch = (struct locks_batch){ .weir = index_of(locks, weir), .life = weir->life, .count = manager->count };
    weir->syncing = 0;
    for (size_t i = 0; i < manager->count; i++) {
        const struct locks_request *request = manager->asked[i]->context;
        batch->asked[i] = (struct locks_asked){ .op = manager->ops[i], .request = request->id };
        batch->asked[i].name = request->name;
        batch->asked[i].owner = request->owner;
        weir->syncing |= 1U << request->name;
    }
    locks->batches[slot] = batch;
    locks->result->batches++;
    weir->busy = true;
    send_batch(locks, slot);
}

static void stopped(struct locks *locks, struct locks_weir *weir)
{
    locks_waits_stopped(locks, weir);
    weir_lock_manager_destroy_threadless(weir->manager);
    weir->manager = NULL;
    forget_past(weir);
    weir->life++;
    locks_weir_ended(locks, index_of(locks, weir));
}

static void turn_end(struct locks *locks, struct locks_weir *weir)
{
    weir->busy = false;
    weir->syncing = 0;
    weir_lock_manager_end(weir->manager, weir_now(locks, weir));
    locks_waits_turned(locks, weir);
    schedule(locks, weir);
}

static void turn_begin(struct locks *locks, struct locks_weir *weir)
{
    uint64_t now_ns = weir_now(locks, weir);
    weir->turns++;
    if (!weir_lock_manager_called(weir->manager) && weir_lock_manager_due_ns(weir->manager, now_ns) > now_ns) {
        schedule(locks, weir);
        return;
    }
    if (!weir_lock_manager_begin(weir->manager, now_ns)) {
        stopped(locks, weir);
        return;
    }
    if (weir->manager->count == 0) {
        turn_end(locks, weir);
        return;
    }
    locks_waits_asked(locks, weir);
    ask_store(locks, weir);
}

static void batch_ends(struct locks *locks, struct locks_weir *weir, uint32_t slot)
{
    struct locks_batch *batch = locks->batches[slot];
    if (!weir->manager || weir->life != batch->life)
        return;
    if (!locks->store.shared)
        locks_store_synced(locks);
    if (weir->doomed) { /* killed between commit and answer */
        locks_weir_kill(locks, index_of(locks, weir));
        return;
    }
    if (batch->unheard)
        fail_all(batch, WEIR_EUNKNOWN);
    for (size_t i = 0; i < batch->count; i++)
        weir->manager->ops[i] = batch->asked[i].op;
    locks_waits_decided(locks, weir);
    turn_end(locks, weir);
}

void locks_weir_step(struct locks *locks, const struct weir_sim_event *event)
{
    struct locks_weir *weir = &locks->weirs[event->place];
    switch ((enum locks_step)event->number) {
    case LOCKS_TURN:
        if (weir->manager && !weir->busy && weir->timer == event->life)
            turn_begin(locks, weir);
        break;
    case LOCKS_DECIDE:
        locks_store_decide(locks, locks->batches[event->slot]);
        batch_done(locks, event->slot);
        break;
    case LOCKS_END:
        batch_ends(locks, weir, event->slot);
        batch_done(locks, event->slot);
        break;
    case LOCKS_LEAVE:
        locks_weir_leave(locks, event->slot);
        break;
    }
}

/* ---- life ---- */

void locks_weir_draw(struct locks *locks, uint32_t at)
{
    struct weir_sim_random *random = &locks->random;
    struct locks_weir *weir = &locks->weirs[at];
    bool shared = locks->store.shared;
    weir->clock = shared ? locks_clock_draw(random) : locks->store.clock;
    weir->engine.locks = locks;
    weir->engine.weir = at;
    weir->engine.base.ops = &weir->engine.ops;
    weir->engine.ops = (struct weir_lock_engine_ops){ .state = engine_state,
                                                      .destroy = engine_destroy,
                                                      .idle = shared ? NULL : engine_idle,
                                                      .quick = shared ? NULL : locks_store_quick };
    if (shared)
        weir->engine.ops.poll_ns = weir_sim_random_in(random, 20, 500) * LOCKS_MS;
    weir->options.waiters_max = weir_sim_random_below(random, 2) ? weir_sim_random_in(random, 1, 6) : 64;
    weir->options.pending_max = weir_sim_random_below(random, 4) ? 64 : weir_sim_random_in(random, 3, 6);
    weir->options.timeout_ns = weir_sim_random_in(random, 200, 2000) * LOCKS_MS;
}

void locks_weir_start(struct locks *locks, uint32_t at)
{
    struct locks_weir *weir = &locks->weirs[at];
    uint8_t secret[16] = { (uint8_t)at };
    locks_store_started(locks, at);
    weir->busy = weir->doomed = false;
    weir->told = (struct weir_lock_manager_state){ 0 };
    if (weir_lock_manager_create_threadless(&weir->engine.base, &weir->options, &weir->manager) != 0)
        abort(); /* a simulation cannot go on without */
    weir->manager->key = weir_sip_key_load(secret);
}

void locks_weir_stop(struct locks *locks, uint32_t at)
{
    struct locks_weir *weir = &locks->weirs[at];
    if (!weir->manager)
        return;
    weir->manager->stopping = true;
    schedule(locks, weir);
}

void locks_weir_kill(struct locks *locks, uint32_t at)
{
    struct locks_weir *weir = &locks->weirs[at];
    if (!weir->manager)
        return;
    locks->result->restarts++;
    for (struct locks_request *request; (request = weir->open);) {
        weir->open = request->next;
        locks_waits_forget(locks, request);
        free(request);
    }
    weir_lock_manager_destroy_threadless(weir->manager);
    weir->manager = NULL;
    forget_past(weir);
    weir->busy = false;
    weir->life++;
    locks_weir_ended(locks, at);
}
