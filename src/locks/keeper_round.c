/* SPDX-License-Identifier: Apache-2.0
 *
 * One batch: what goes into it, and what each answer means. First come those who are asked for again, then the first of
 * each queue whose time has come, then the new ones; each op has a role, which says how its answer is taken. Who is
 * next and who has to wait is decided in core/lease/waiting.c. Called by keeper_turn.c before and after the engine
 * decides, on the keeper's thread. */
#include <string.h>

#include "base/checked.h"
#include "locks/keeper_inside.h"

_Static_assert(WEIR_WAITING_OWNER_MAX == WEIR_LOCK_OWNER_MAX, "any owner may be the holder");

/* ---- lists and answers ---- */

void weir_keeper_push(struct weir_keeper_list *list, struct weir_keeper_request *request)
{
    request->own.next = NULL;
    *(list->last ? &list->last->own.next : &list->first) = request;
    list->last = request;
}

struct weir_keeper_request *weir_keeper_pop(struct weir_keeper_list *list)
{
    struct weir_keeper_request *request = list->first;
    if (!request)
        return NULL;
    list->first = request->own.next;
    if (!list->first)
        list->last = NULL;
    return request;
}

static void decided(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    keeper->decided += request->own.decided ? 0 : 1;
    request->own.decided = true;
}

/* It leaves its queue with what stands in its op. */
static void finish(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    struct weir_lock_op *op = &request->op;
    bool denied = op->status == WEIR_EDOWN || (op->status == 0 && op->said == WEIR_LOCK_HELD);
    if (request->own.unknown && denied) /* a later attempt says nothing of that one: it may still be on its way */
        op->status = WEIR_EUNKNOWN;
    decided(keeper, request);
    weir_keeper_queue_leave(keeper, request, WEIR_WAITER_ANSWERED);
    weir_keeper_push(&keeper->finished, request);
}

static void fail(struct weir_keeper *keeper, struct weir_keeper_request *request, int status)
{
    request->op.status = status;
    finish(keeper, request);
}

/* The end of a wait. Whoever may have been granted it himself is told so. */
static void give_up(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    struct weir_lock_op *op = &request->op;
    if (request->own.queue && op->status == 0)
        weir_keeper_queue_say(keeper, request->own.queue, op);
    op->said = WEIR_LOCK_HELD;
    finish(keeper, request);
}

/* From now on it waits, and its wait ends by itself. */
static void start_waiting(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    bool over = request->own.waiter.until_ns <= keeper->now_ns; /* answered at the start of the next round */
    if (!over && keeper->waits_due.count >= keeper->waiters_max) {
        fail(keeper, request, WEIR_ELIMIT);
        return;
    }
    weir_due_set(&keeper->waits_due, &request->own.due, request->own.waiter.until_ns);
    weir_waiting_begin(&request->own.queue->waiting, &request->own.waiter);
    if (!over)
        decided(keeper, request);
}

static void fulfil(struct weir_keeper *keeper, struct weir_keeper_request *request, enum weir_waiting_fate fate)
{
    if (fate == WEIR_WAITING_BEGINS)
        start_waiting(keeper, request);
    else if (fate == WEIR_WAITING_PROBED)
        weir_keeper_push(&keeper->again, request);
    else if (fate == WEIR_WAITING_ENDS)
        give_up(keeper, request);
}

/* The engine says when to ask again. False: it is answered now. Of those who ask for raises themselves a batch waits at
 * most: it would be theirs to fill all the room there is. */
static bool put_off(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    struct weir_keeper_own *own = &request->own;
    uint64_t due_ns = request->op.due_ns;
    bool asks = request->op.verb == WEIR_LOCK_RAISE || request->op.seen > 0;
    if (due_ns == 0 || own->waiter.gone || keeper->stop || (asks && keeper->put_off_asks >= WEIR_LOCK_BATCH_MAX))
        return false;
    if (own->put_off_until_ns == 0)
        own->put_off_until_ns = weir_add_sat(keeper->now_ns, keeper->timeout_ns);
    if (weir_max_u64(due_ns, keeper->now_ns) >= own->put_off_until_ns)
        return false;
    weir_keeper_queue_leave(keeper, request, WEIR_WAITER_PUT_OFF);
    keeper->put_off_ns = weir_max_u64(due_ns, keeper->now_ns + WEIR_WAITING_AGAIN_MIN_NS);
    keeper->put_off_asks += asks;
    weir_keeper_push(&keeper->put_off, request);
    return true;
}

/* ---- putting a batch together ---- */

static void ask(struct weir_keeper *keeper, struct weir_keeper_request *request, enum weir_keeper_role role)
{
    size_t i = keeper->count++;
    struct weir_lock_op *op = &keeper->ops[i];
    op->verb = role == WEIR_KEEPER_PROBE  ? WEIR_LOCK_RENEW
               : role == WEIR_KEEPER_BACK ? WEIR_LOCK_RELEASE
                                          : request->op.verb;
    op->name = request->op.name;
    op->owner = request->op.owner;
    op->ttl_ns = request->op.ttl_ns;
    op->seen = request->op.seen;
    op->due_ns = 0;
    keeper->asked[i] = request;
    keeper->roles[i] = role;
    weir_waiter_ask(&request->own.waiter);
}

static void ask_first(struct weir_keeper *keeper, struct weir_keeper_queue *queue)
{
    struct weir_waiter *first = weir_waiting_ask(&queue->waiting, keeper->now_ns);
    weir_keeper_queue_sync(keeper, queue);
    if (first)
        ask(keeper, weir_keeper_request_of(first), WEIR_KEEPER_FIRST);
}

static void join_others(struct weir_keeper *keeper, struct weir_keeper_queue *queue,
                        struct weir_keeper_request *request)
{
    enum weir_waiting_fate fate = weir_waiting_come(&queue->waiting, &request->own.waiter, keeper->now_ns);
    if (fate == WEIR_WAITING_PROBED) {
        ask(keeper, request, WEIR_KEEPER_PROBE);
    } else if (fate == WEIR_WAITING_ENDS) {
        weir_keeper_queue_say(keeper, queue, &request->op);
        finish(keeper, request);
    } else {
        fulfil(keeper, request, weir_keeper_queue_join(keeper, queue, request));
    }
}

static void admit(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    if (request->op.verb != WEIR_LOCK_ACQUIRE) {
        ask(keeper, request, WEIR_KEEPER_PLAIN);
        return;
    }
    if (request->own.waiter.gone) {
        give_up(keeper, request);
        return;
    }
    request->op.status = 0; /* of one that was put off: now it may be told who holds the lock */
    struct weir_keeper_queue *queue = weir_keeper_queue_find(keeper, request->op.name);
    if (queue) {
        join_others(keeper, queue, request);
        return;
    }
    queue = weir_keeper_queue_add(keeper, request->op.name);
    if (!queue) {
        fail(keeper, request, WEIR_ELIMIT);
        return;
    }
    (void)weir_keeper_queue_join(keeper, queue, request); /* nothing is known yet */
    ask_first(keeper, queue);
}

static struct weir_keeper_queue *queue_of_due(struct weir_due *due)
{
    return (struct weir_keeper_queue *)(void *)((char *)due - offsetof(struct weir_keeper_queue, due));
}

void weir_keeper_gather(struct weir_keeper *keeper)
{
    struct weir_keeper_request *request;
    keeper->count = 0;
    while (keeper->count < WEIR_LOCK_BATCH_MAX && (request = weir_keeper_pop(&keeper->again))) {
        if (request->own.waiter.phase == WEIR_WAITER_RETURNING)
            ask(keeper, request, WEIR_KEEPER_BACK);
        else if (request->own.queue)
            ask(keeper, request, WEIR_KEEPER_PROBE);
        else
            admit(keeper, request);
    }
    while (keeper->count < WEIR_LOCK_BATCH_MAX && weir_due_next_ns(&keeper->queues_due) <= keeper->now_ns)
        ask_first(keeper, queue_of_due(weir_due_first(&keeper->queues_due)));
    while (keeper->count < WEIR_LOCK_BATCH_MAX && (request = weir_keeper_pop(&keeper->backlog)))
        admit(keeper, request);
}

/* ---- taking the answers ---- */

static struct weir_waiting_answer answer_of(enum weir_waiting_said said, struct weir_slice holder,
                                            const struct weir_lock_op *op)
{
    return (struct weir_waiting_answer){
        .said = said, .holder = { holder.data, holder.size }, .token = op->token, .lease_ns = op->lease_ns
    };
}

/* Those who joined before anything was known: at the end, or beside one of the same owner. Who is being asked for is
 * on his way to an answer, by which he waits or not. */
static void wake_new(struct weir_keeper *keeper, struct weir_keeper_queue *queue)
{
    size_t left = queue->waiting.new_count; /* who is refused leaves, and with the last one goes the queue */
    for (struct weir_waiter *waiter = queue->waiting.last, *before; left > 0; waiter = before) {
        before = waiter->previous;
        left -= weir_waiter_is_new(waiter);
        if (waiter->phase == WEIR_WAITER_NEW)
            start_waiting(keeper, weir_keeper_request_of(waiter));
    }
}

/* An owner found to hold the lock that it waits for, after a reconnection say: is it so? */
static void probe_owner(struct weir_keeper *keeper, const struct weir_keeper_queue *queue, struct weir_slice owner)
{
    struct weir_keeper_request *twin = weir_keeper_queue_owner(keeper, queue, owner);
    if (!twin || weir_waiter_is_asked(&twin->own.waiter))
        return;
    weir_waiter_ask(&twin->own.waiter);
    weir_keeper_push(&keeper->again, twin);
}

static enum weir_waiting_said said_of(const struct weir_lock_op *op)
{
    if (op->status)
        return op->status == WEIR_ERANGE ? WEIR_WAITING_UNFIT : op->due_ns > 0 ? WEIR_WAITING_LATER : WEIR_WAITING_DOWN;
    return op->said == WEIR_LOCK_GRANTED ? WEIR_WAITING_GRANTED : WEIR_WAITING_HELD;
}

static void take_first(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    const struct weir_lock_op *op = &request->op;
    struct weir_keeper_queue *queue = request->own.queue;
    enum weir_waiting_said said = said_of(op);
    struct weir_slice holder = said == WEIR_WAITING_GRANTED ? op->owner
                                                            : (struct weir_slice){ op->holder, op->holder_size };
    struct weir_waiting_answer answer = answer_of(said, holder, op);
    struct weir_waiting_news news = weir_waiting_hear(&queue->waiting, &answer, keeper->now_ns);
    bool alone = queue->waiting.count == 1;
    request->waited = news.waited;
    weir_keeper_queue_sync(keeper, queue);
    if (news.fate != WEIR_WAITING_ENDS || said == WEIR_WAITING_HELD)
        fulfil(keeper, request, news.fate);
    else if (!put_off(keeper, request))
        finish(keeper, request);
    if (alone && !request->own.queue)
        return;
    if (news.probe)
        probe_owner(keeper, queue, holder);
    if (news.wake)
        wake_new(keeper, queue);
}

/* It was released: whoever is first may have it now. */
static void freed(struct weir_keeper *keeper, struct weir_slice name)
{
    struct weir_keeper_queue *queue = weir_keeper_queue_find(keeper, name);
    if (!queue)
        return;
    weir_waiting_freed(&queue->waiting);
    weir_keeper_queue_sync(keeper, queue);
}

static void take_probe(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    struct weir_slice owner = request->op.owner;
    struct weir_waiter *waiter = &request->own.waiter;
    bool good = !request->op.status && request->op.said == WEIR_LOCK_GRANTED;
    if (good || (request->op.status && !request->own.queue)) {
        request->waited = false;
        if (request->own.queue)
            weir_waiter_hear(waiter);
        finish(keeper, request);
    }
    struct weir_keeper_queue *queue = weir_keeper_queue_find(keeper, request->op.name);
    if (good && queue) {
        struct weir_waiting_answer answer = answer_of(WEIR_WAITING_GRANTED, owner, &request->op);
        bool found = weir_waiting_found(&queue->waiting, &answer, keeper->now_ns);
        weir_keeper_queue_sync(keeper, queue);
        if (found) {
            probe_owner(keeper, queue, owner);
            wake_new(keeper, queue);
        }
    } else if (!request->op.status && queue) {
        weir_waiting_disowned(&queue->waiting, waiter->owner);
        weir_keeper_queue_sync(keeper, queue);
    }
    if (request->own.queue) {
        fulfil(keeper, request, weir_waiting_denied(&queue->waiting, waiter, keeper->stop));
    } else if (waiter->phase == WEIR_WAITER_ASKED) {
        waiter->refuted = true;
        weir_waiter_move(waiter, WEIR_WAITER_COME);
        weir_keeper_push(&keeper->again, request);
    }
}

static void take_back(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    if (request->op.status) {
        request->op.status = WEIR_EUNKNOWN;
    } else {
        keeper->counts.forgone++;
        freed(keeper, request->op.name);
    }
    request->op.said = WEIR_LOCK_HELD;
    finish(keeper, request);
}

static void take_plain(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    const struct weir_lock_op *op = &request->op;
    bool good = !op->status && op->said == WEIR_LOCK_GRANTED;
    if (good && op->verb == WEIR_LOCK_RELEASE)
        freed(keeper, op->name);
    struct weir_keeper_queue *queue = op->verb == WEIR_LOCK_RAISE ? NULL : weir_keeper_queue_find(keeper, op->name);
    if (good && queue && op->verb == WEIR_LOCK_RENEW) {
        struct weir_waiting_answer answer = answer_of(WEIR_WAITING_GRANTED, op->owner, op);
        if (weir_waiting_renewed(&queue->waiting, &answer, keeper->now_ns))
            wake_new(keeper, queue);
    }
    request->waiters = op->verb == WEIR_LOCK_SHOW && queue ? queue->waiting.count : 0;
    if (!put_off(keeper, request))
        finish(keeper, request);
}

void weir_keeper_settle(struct weir_keeper *keeper)
{
    static void (*const TAKE[])(struct weir_keeper *, struct weir_keeper_request *) = {
        [WEIR_KEEPER_PLAIN] = take_plain,
        [WEIR_KEEPER_FIRST] = take_first,
        [WEIR_KEEPER_PROBE] = take_probe,
        [WEIR_KEEPER_BACK] = take_back,
    };
    for (size_t i = 0; i < keeper->count; i++) {
        const struct weir_lock_op *from = &keeper->ops[i];
        struct weir_lock_op *to = &keeper->asked[i]->op;
        to->status = from->status;
        to->due_ns = from->due_ns;
        keeper->asked[i]->own.unknown |= keeper->roles[i] == WEIR_KEEPER_FIRST && from->status == WEIR_EUNKNOWN;
        if (keeper->roles[i] != WEIR_KEEPER_BACK && !from->status) {
            to->said = from->said;
            to->token = from->token;
            to->lease_ns = from->lease_ns;
            to->holder_size = from->holder_size;
            memcpy(to->holder, from->holder, from->holder_size);
        }
        TAKE[keeper->roles[i]](keeper, keeper->asked[i]);
    }
}

/* ---- those who wait no longer ---- */

void weir_keeper_overdue(struct weir_keeper *keeper)
{
    while (weir_due_next_ns(&keeper->waits_due) <= (keeper->stop ? UINT64_MAX - 1 : keeper->now_ns)) {
        struct weir_due *due = weir_due_first(&keeper->waits_due);
        char *own = (char *)due - offsetof(struct weir_keeper_own, due);
        struct weir_keeper_request *request =
            (struct weir_keeper_request *)(void *)(own - offsetof(struct weir_keeper_request, own));
        weir_due_remove(&keeper->waits_due, due);
        fulfil(keeper, request, weir_waiting_end(&request->own.queue->waiting, &request->own.waiter, keeper->stop));
    }
}

void weir_keeper_gone(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    fulfil(keeper, request, weir_waiting_gone(&request->own.waiter));
}
