/* SPDX-License-Identifier: Apache-2.0
 *
 * One turn of the manager, without its thread: who has the manager says when it begins and what time it is, and
 * lets the engine decide the batch in between. manager.c does so on a thread, the simulator in virtual time. */
#include <string.h>

#include "base/checked.h"
#include "locks/manager_inside.h"

#define IDLE_NS UINT64_C(1000000000)
#define COMPANIONS_MAX 64U              /* so many are company enough */
#define COMMIT_MAX_NS UINT64_C(2000000) /* nobody waits a millisecond for company */

/* ---- when ---- */

bool weir_lock_manager_called(const struct weir_lock_manager *manager)
{
    return manager->submitted.first || manager->left || manager->stopping;
}

uint64_t weir_lock_manager_due_ns(struct weir_lock_manager *manager, uint64_t now_ns)
{
    if (manager->stirred && manager->idle_ns == UINT64_MAX)
        manager->idle_ns = now_ns + IDLE_NS;
    manager->stirred = false;
    manager->resting = manager->idle_ns == UINT64_MAX;
    if (manager->backlog.first || manager->urgent.first)
        return 0;
    uint64_t due_ns = weir_min_u64(weir_due_next_ns(&manager->queues_due), weir_due_next_ns(&manager->waits_due));
    due_ns = weir_min_u64(due_ns, manager->idle_ns);
    due_ns = weir_min_u64(due_ns, manager->put_off.first ? manager->put_off_ns : UINT64_MAX);
    return weir_min_u64(due_ns, manager->gathered.first ? manager->gather_until_ns : UINT64_MAX);
}

/* ---- what came ---- */

static void let_go(struct weir_lock_manager *manager)
{
    for (struct weir_lock_manager_request *request; (request = weir_lock_manager_pop(&manager->gathered));)
        weir_lock_manager_push(&manager->backlog, request);
    manager->gathered_count = 0;
}

/* Company for a commit. Clients that were answered together come back together, but not in one instant: the first of
 * them would be made durable alone, and the others would wait for that to end. So an ACQUIRE waits until as many have
 * come as lately, for half a commit at most. Whoever is alone waits for nobody, and nothing else is held back: a
 * release is what lets the next ACQUIRE come. Where a release does not wait for the commit under way (quick), the
 * others come back during it and are company for each other: to wait for more made 32 clients a fifth slower. */
static void hold_back(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    if (!manager->gathered.first)
        manager->gather_until_ns = manager->now_ns + manager->commit_ns / 2;
    weir_lock_manager_push(&manager->gathered, request);
    manager->gathered_count++;
}

/* What is asked of a name goes in the order in which it came. */
static bool behind_gathered(const struct weir_lock_manager *manager, const struct weir_lock_manager_request *request)
{
    const struct weir_lock_manager_request *other = manager->gathered.first;
    while (other && !weir_lock_slice_same(other->op.name, request->op.name))
        other = other->own.next;
    return other;
}

static void sort_in(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    if (request->own.waiter.phase == WEIR_WAITER_RETURNING) {
        weir_lock_manager_push(&manager->urgent, request);
        return;
    }
    request->own.waiter.until_ns = weir_add_sat(manager->now_ns, manager->stop ? 0 : request->wait_ns);
    if (request->op.verb == WEIR_LOCK_ACQUIRE && !manager->engine->ops->quick) {
        hold_back(manager, request);
        return;
    }
    if (request->op.verb == WEIR_LOCK_RAISE || behind_gathered(manager, request))
        let_go(manager);
    weir_lock_manager_push(&manager->backlog, request);
}

/* Those who were put off are asked as if they came now; their waits go on from when they came. */
static void ask_put_off(struct weir_lock_manager *manager)
{
    for (struct weir_lock_manager_request *request; (request = weir_lock_manager_pop(&manager->put_off));) {
        weir_waiter_move(&request->own.waiter, WEIR_WAITER_COME);
        request->own.waiter.refuted = false;
        weir_lock_manager_push(&manager->backlog, request);
    }
    manager->put_off_asks = 0;
}

static void take(struct weir_lock_manager *manager)
{
    pthread_mutex_lock(&manager->mutex);
    struct weir_lock_manager_list submitted = manager->submitted;
    struct weir_lock_manager_request *left = manager->left;
    manager->submitted = (struct weir_lock_manager_list){ 0 };
    manager->left = NULL;
    manager->coming = 0;
    manager->stop = manager->stopping;
    pthread_mutex_unlock(&manager->mutex);

    if (manager->stop || manager->now_ns >= manager->put_off_ns)
        ask_put_off(manager);
    for (struct weir_lock_manager_request *request; (request = weir_lock_manager_pop(&submitted));)
        sort_in(manager, request);
    if (manager->stop || manager->gathered_count >= manager->companions || manager->now_ns >= manager->gather_until_ns)
        let_go(manager);
    for (struct weir_lock_manager_request *request = left, *next; request; request = next) {
        next = request->own.next_left;
        weir_lock_manager_gone(manager, request);
    }
    weir_lock_manager_overdue(manager);
}

bool weir_lock_manager_begin(struct weir_lock_manager *manager, uint64_t now_ns)
{
    manager->now_ns = now_ns;
    take(manager);
    if (manager->stop && !manager->backlog.first && !manager->urgent.first && manager->queues.count == 0 &&
        !manager->finished.first)
        return false;
    weir_lock_manager_gather(manager);
    return true;
}

/* ---- what was decided ---- */

/* What the next ACQUIREs may wait for. */
static void measure(struct weir_lock_manager *manager, uint64_t took_ns)
{
    size_t acquires = 0;
    for (size_t i = 0; i < manager->count; i++)
        acquires += manager->ops[i].verb == WEIR_LOCK_ACQUIRE;
    if (acquires == 0)
        return;
    pthread_mutex_lock(&manager->mutex);
    manager->companions = acquires + manager->coming < COMPANIONS_MAX ? acquires + manager->coming : COMPANIONS_MAX;
    pthread_mutex_unlock(&manager->mutex);
    manager->commit_ns = weir_min_u64(took_ns, COMMIT_MAX_NS);
}

static void hear_answers(struct weir_lock_manager *manager, uint64_t now_ns)
{
    const struct weir_lock_engine_ops *ops = manager->engine->ops;
    if (manager->count > 0) {
        manager->took_ns = now_ns - manager->now_ns;
        measure(manager, manager->took_ns);
        manager->now_ns = now_ns;
        manager->idle_ns = now_ns + IDLE_NS;
        weir_lock_manager_hear(manager);
    }
    bool idle = manager->now_ns >= manager->idle_ns;
    if (idle && ops->idle)
        ops->idle(manager->engine);
    ops->state(manager->engine, &manager->counts.engine);
    if (idle)
        manager->idle_ns = manager->counts.engine.up ? UINT64_MAX : manager->now_ns + IDLE_NS;
}

void weir_lock_manager_count(struct weir_lock_manager_state *counts, const struct weir_lock_op *op)
{
    bool granted = op->said == WEIR_LOCK_GRANTED;
    if (op->status) {
        counts->unknown += op->status == WEIR_EUNKNOWN;
        return;
    }
    switch (op->verb) {
    case WEIR_LOCK_ACQUIRE:
        counts->granted += granted;
        counts->held += !granted;
        break;
    case WEIR_LOCK_RENEW:
        counts->lost += !granted;
        break;
    case WEIR_LOCK_RELEASE:
        counts->released += granted;
        break;
    case WEIR_LOCK_SHOW:
    case WEIR_LOCK_RAISE:
        break;
    }
}

/* With the mutex held: from here on weir_lock_manager_client_gone comes too late for what is finished. */
static struct weir_lock_manager_list close_turn(struct weir_lock_manager *manager)
{
    struct weir_lock_manager_list answers = { 0 };
    for (struct weir_lock_manager_request *request = manager->finished.first; request; request = request->own.next)
        weir_lock_manager_claim_decided(manager, request);
    for (struct weir_lock_manager_request *request; (request = weir_lock_manager_pop(&manager->finished));) {
        if (request->own.left && weir_lock_manager_forgoes(request)) {
            weir_lock_manager_forget(manager, request);
            weir_waiter_move(&request->own.waiter, WEIR_WAITER_RETURNING);
            weir_lock_manager_push(&manager->urgent, request);
            continue;
        }
        if (request->own.left) { /* if it was granted, the same owner counts on it, over another connection */
            request->waited = false;
            weir_lock_manager_unclaim(manager, request);
        }
        request->own.finished = true;
        weir_waiter_move(&request->own.waiter, WEIR_WAITER_DONE);
        weir_lock_manager_count(&manager->counts, &request->op);
        manager->under_way[request->own.bucket]--;
        weir_lock_manager_push(&answers, request);
    }
    struct weir_lock_manager_request **at = &manager->left;
    while (*at)
        if ((*at)->own.finished)
            *at = (*at)->own.next_left;
        else
            at = &(*at)->own.next_left;
    manager->pending -= manager->decided;
    manager->decided = 0;
    manager->resting = manager->idle_ns == UINT64_MAX;
    manager->counts.waiting = manager->waits_due.count;
    manager->state = manager->counts;
    return answers;
}

void weir_lock_manager_end(struct weir_lock_manager *manager, uint64_t now_ns)
{
    hear_answers(manager, now_ns);
    pthread_mutex_lock(&manager->mutex);
    struct weir_lock_manager_list answers = close_turn(manager);
    pthread_mutex_unlock(&manager->mutex);
    for (struct weir_lock_manager_request *request; (request = weir_lock_manager_pop(&answers));)
        request->done(request);
}
