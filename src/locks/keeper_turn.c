/* SPDX-License-Identifier: Apache-2.0
 *
 * One turn of the keeper, without its thread: who has the keeper says when it begins and what time it is, and lets the
 * engine decide the batch in between. keeper.c does so on a thread, the simulator in virtual time. */
#include <string.h>

#include "base/checked.h"
#include "locks/keeper_inside.h"

#define IDLE_NS UINT64_C(1000000000)
#define COMPANIONS_MAX 64U              /* so many are company enough */
#define COMMIT_MAX_NS UINT64_C(2000000) /* nobody waits a millisecond for company */

/* ---- when ---- */

bool weir_keeper_called(const struct weir_keeper *keeper)
{
    return keeper->submitted.first || keeper->left || keeper->stopping;
}

uint64_t weir_keeper_due_ns(struct weir_keeper *keeper, uint64_t now_ns)
{
    if (keeper->stirred && keeper->idle_ns == UINT64_MAX)
        keeper->idle_ns = now_ns + IDLE_NS;
    keeper->stirred = false;
    keeper->resting = keeper->idle_ns == UINT64_MAX;
    if (keeper->backlog.first || keeper->again.first)
        return 0;
    uint64_t due_ns = weir_min_u64(weir_due_next_ns(&keeper->queues_due), weir_due_next_ns(&keeper->waits_due));
    due_ns = weir_min_u64(due_ns, keeper->idle_ns);
    due_ns = weir_min_u64(due_ns, keeper->put_off.first ? keeper->put_off_ns : UINT64_MAX);
    return weir_min_u64(due_ns, keeper->gathered.first ? keeper->gather_until_ns : UINT64_MAX);
}

/* ---- what came ---- */

/* Company for a commit. Clients that were answered together come back together, but not in one instant: the first of
 * them would be made durable alone, and the others would wait for that to end. So an ACQUIRE waits until as many have
 * come as lately, for half a commit at most. Whoever is alone waits for nobody, and nothing else is held back: a
 * release is what lets the next ACQUIRE come. Where a release does not wait for the commit under way (quick), the
 * others come back during it and are company for each other: to wait for more made 32 clients a fifth slower. */
static void let_go(struct weir_keeper *keeper)
{
    for (struct weir_keeper_request *request; (request = weir_keeper_pop(&keeper->gathered));)
        weir_keeper_push(&keeper->backlog, request);
    keeper->gathered_count = 0;
}

static void hold_back(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    if (!keeper->gathered.first)
        keeper->gather_until_ns = keeper->now_ns + keeper->commit_ns / 2;
    weir_keeper_push(&keeper->gathered, request);
    keeper->gathered_count++;
}

/* What is asked of a name goes in the order in which it came. */
static bool behind_gathered(const struct weir_keeper *keeper, const struct weir_keeper_request *request)
{
    const struct weir_keeper_request *other = keeper->gathered.first;
    while (other && (other->op.name.size != request->op.name.size ||
                     memcmp(other->op.name.data, request->op.name.data, request->op.name.size) != 0))
        other = other->own.next;
    return other;
}

static void sort_in(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    if (request->own.waiter.phase == WEIR_WAITER_RETURNING) {
        weir_keeper_push(&keeper->again, request);
        return;
    }
    request->own.waiter.until_ns = weir_add_sat(keeper->now_ns, keeper->stop ? 0 : request->wait_ns);
    if (request->op.verb == WEIR_LOCK_ACQUIRE && !keeper->engine->ops->quick) {
        hold_back(keeper, request);
        return;
    }
    if (request->op.verb == WEIR_LOCK_RAISE || behind_gathered(keeper, request))
        let_go(keeper);
    weir_keeper_push(&keeper->backlog, request);
}

/* Those who were put off are asked as if they came now; their waits go on from when they came. */
static void ask_put_off(struct weir_keeper *keeper)
{
    for (struct weir_keeper_request *request; (request = weir_keeper_pop(&keeper->put_off));) {
        weir_waiter_move(&request->own.waiter, WEIR_WAITER_COME);
        weir_keeper_push(&keeper->backlog, request);
    }
    keeper->put_off_asks = 0;
}

static void take(struct weir_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    struct weir_keeper_list submitted = keeper->submitted;
    struct weir_keeper_request *left = keeper->left;
    keeper->submitted = (struct weir_keeper_list){ 0 };
    keeper->left = NULL;
    keeper->coming = 0;
    keeper->stop = keeper->stopping;
    pthread_mutex_unlock(&keeper->mutex);

    if (keeper->stop || keeper->now_ns >= keeper->put_off_ns)
        ask_put_off(keeper);
    for (struct weir_keeper_request *request; (request = weir_keeper_pop(&submitted));)
        sort_in(keeper, request);
    if (keeper->stop || keeper->gathered_count >= keeper->companions || keeper->now_ns >= keeper->gather_until_ns)
        let_go(keeper);
    for (struct weir_keeper_request *request = left, *next; request; request = next) {
        next = request->own.next_left;
        weir_keeper_gone(keeper, request);
    }
    weir_keeper_overdue(keeper);
}

bool weir_keeper_begin(struct weir_keeper *keeper, uint64_t now_ns)
{
    keeper->now_ns = now_ns;
    take(keeper);
    if (keeper->stop && !keeper->backlog.first && !keeper->gathered.first && !keeper->again.first &&
        keeper->queues.count == 0 && !keeper->finished.first)
        return false;
    weir_keeper_gather(keeper);
    return true;
}

/* ---- what was decided ---- */

/* What the next ACQUIREs may wait for. */
static void measure(struct weir_keeper *keeper, uint64_t took_ns)
{
    size_t acquires = 0;
    for (size_t i = 0; i < keeper->count; i++)
        acquires += keeper->ops[i].verb == WEIR_LOCK_ACQUIRE;
    if (acquires == 0)
        return;
    pthread_mutex_lock(&keeper->mutex);
    keeper->companions = acquires + keeper->coming < COMPANIONS_MAX ? acquires + keeper->coming : COMPANIONS_MAX;
    pthread_mutex_unlock(&keeper->mutex);
    keeper->commit_ns = weir_min_u64(took_ns, COMMIT_MAX_NS);
}

static void take_in(struct weir_keeper *keeper, uint64_t now_ns)
{
    const struct weir_lock_engine_ops *ops = keeper->engine->ops;
    if (keeper->count > 0) {
        measure(keeper, now_ns - keeper->now_ns);
        keeper->now_ns = now_ns;
        keeper->idle_ns = now_ns + IDLE_NS;
        weir_keeper_settle(keeper);
        ops->state(keeper->engine, &keeper->counts.engine);
        return;
    }
    bool idle = keeper->now_ns >= keeper->idle_ns;
    if (idle && ops->idle)
        ops->idle(keeper->engine);
    ops->state(keeper->engine, &keeper->counts.engine);
    if (idle)
        keeper->idle_ns = keeper->counts.engine.up ? UINT64_MAX : keeper->now_ns + IDLE_NS;
}

void weir_keeper_count(struct weir_keeper_state *counts, const struct weir_lock_op *op)
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

/* With the mutex held: from here on `leave` comes too late for what is finished. */
static struct weir_keeper_list close_round(struct weir_keeper *keeper)
{
    struct weir_keeper_list answers = { 0 };
    for (struct weir_keeper_request *request = keeper->finished.first; request; request = request->own.next)
        weir_keeper_decided(keeper, request);
    for (struct weir_keeper_request *request; (request = weir_keeper_pop(&keeper->finished));) {
        if (request->own.left && weir_keeper_forgoes(request)) {
            weir_keeper_forget(keeper, request);
            weir_waiter_move(&request->own.waiter, WEIR_WAITER_RETURNING);
            weir_keeper_push(&keeper->again, request);
            continue;
        }
        if (request->own.left) { /* if it was granted, the same owner counts on it, over another connection */
            request->waited = false;
            weir_keeper_unclaim(keeper, request);
        }
        request->own.finished = true;
        weir_waiter_move(&request->own.waiter, WEIR_WAITER_DONE);
        weir_keeper_count(&keeper->counts, &request->op);
        keeper->under_way[request->own.bucket]--;
        weir_keeper_push(&answers, request);
    }
    struct weir_keeper_request **at = &keeper->left;
    while (*at)
        if ((*at)->own.finished)
            *at = (*at)->own.next_left;
        else
            at = &(*at)->own.next_left;
    keeper->pending -= keeper->decided;
    keeper->decided = 0;
    keeper->resting = keeper->idle_ns == UINT64_MAX;
    keeper->counts.waiting = keeper->waits_due.count;
    keeper->state = keeper->counts;
    return answers;
}

void weir_keeper_end(struct weir_keeper *keeper, uint64_t now_ns)
{
    take_in(keeper, now_ns);
    pthread_mutex_lock(&keeper->mutex);
    struct weir_keeper_list answers = close_round(keeper);
    pthread_mutex_unlock(&keeper->mutex);
    for (struct weir_keeper_request *request; (request = weir_keeper_pop(&answers));)
        request->done(request);
}
