/* SPDX-License-Identifier: Apache-2.0
 *
 * One batch: what goes into it, and what each answer means. First come those who are asked for again, then the first of
 * each queue whose time has come, then the new ones; each op has a role, which says how its answer is taken. Who is
 * next and who has to wait is decided in core/lease/waiting.c. Called by manager_turn.c before and after the engine
 * decides, on the manager's thread. */
#include <string.h>

#include "base/checked.h"
#include "locks/manager_inside.h"

_Static_assert(WEIR_WAITING_OWNER_MAX == WEIR_LOCK_OWNER_MAX, "any owner may be the holder");

/* ---- lists and answers ---- */

void weir_lock_manager_push(struct weir_lock_manager_list *list, struct weir_lock_manager_request *request)
{
    request->own.next = NULL;
    *(list->last ? &list->last->own.next : &list->first) = request;
    list->last = request;
}

struct weir_lock_manager_request *weir_lock_manager_pop(struct weir_lock_manager_list *list)
{
    struct weir_lock_manager_request *request = list->first;
    if (!request)
        return NULL;
    list->first = request->own.next;
    if (!list->first)
        list->last = NULL;
    return request;
}

static void no_longer_pending(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    manager->decided += request->own.decided ? 0 : 1;
    request->own.decided = true;
}

/* It leaves its queue with what stands in its op. */
static void finish(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    struct weir_lock_op *op = &request->op;
    bool denied = op->status == WEIR_EDOWN || (op->status == 0 && op->said == WEIR_LOCK_HELD);
    if (request->own.unknown && denied) /* a later attempt says nothing of that one: it may still be on its way */
        op->status = WEIR_EUNKNOWN;
    no_longer_pending(manager, request);
    weir_lock_manager_queue_leave(manager, request, WEIR_WAITER_ANSWERED);
    weir_lock_manager_push(&manager->finished, request);
}

static void fail(struct weir_lock_manager *manager, struct weir_lock_manager_request *request, int status)
{
    request->op.status = status;
    finish(manager, request);
}

/* The end of a wait. Whoever may have been granted it himself is told so. */
static void give_up(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    struct weir_lock_op *op = &request->op;
    const struct weir_lock_manager_queue *queue = request->own.queue;
    bool passed = queue && op->due_ns > 0 && queue->waiting.held; /* by another, while its raise was not due */
    if (queue && (op->status == 0 || passed))
        weir_lock_manager_queue_say(manager, queue, op);
    op->said = WEIR_LOCK_HELD;
    finish(manager, request);
}

/* From now on it waits, and its wait ends by itself. */
static void start_waiting(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    bool over = request->own.waiter.until_ns <= manager->now_ns; /* answered at the start of the next turn */
    if (over && request->own.queue->waiting.down) {              /* and now: the next batch may be as long in coming */
        give_up(manager, request);
        return;
    }
    if (!over && manager->waits_due.count >= manager->waiters_max) {
        fail(manager, request, WEIR_ELIMIT);
        return;
    }
    weir_due_set(&manager->waits_due, &request->own.due, request->own.waiter.until_ns);
    weir_waiting_begin(&request->own.queue->waiting, &request->own.waiter);
    if (!over)
        no_longer_pending(manager, request);
}

static void fulfil(struct weir_lock_manager *manager, struct weir_lock_manager_request *request,
                   enum weir_waiting_fate fate)
{
    if (fate == WEIR_WAITING_BEGINS)
        start_waiting(manager, request);
    else if (fate == WEIR_WAITING_PROBED)
        weir_lock_manager_push(&manager->urgent, request);
    else if (fate == WEIR_WAITING_ENDS)
        give_up(manager, request);
}

/* The engine says when to ask again. False: it is answered now. Of those who ask for raises themselves a batch waits at
 * most: it would be theirs to fill all the room there is. */
static bool put_off(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    struct weir_lock_manager_own *own = &request->own;
    uint64_t due_ns = request->op.due_ns;
    bool asks = request->op.verb == WEIR_LOCK_RAISE || request->op.seen > 0;
    if (due_ns == 0 || own->waiter.gone || manager->stop || (asks && manager->put_off_asks >= WEIR_LOCK_BATCH_MAX))
        return false;
    if (own->put_off_until_ns == 0)
        own->put_off_until_ns = weir_add_sat(manager->now_ns, manager->timeout_ns);
    if (weir_max_u64(due_ns, manager->now_ns) >= own->put_off_until_ns)
        return false;
    weir_lock_manager_queue_leave(manager, request, WEIR_WAITER_PUT_OFF);
    manager->put_off_ns = weir_max_u64(due_ns, manager->now_ns + WEIR_WAITING_AGAIN_MIN_NS);
    manager->put_off_asks += asks;
    weir_lock_manager_push(&manager->put_off, request);
    return true;
}

/* ---- putting a batch together ---- */

static void ask(struct weir_lock_manager *manager, struct weir_lock_manager_request *request,
                enum weir_lock_manager_role role)
{
    size_t i = manager->count++;
    struct weir_lock_op *op = &manager->ops[i];
    op->verb = role == WEIR_LOCK_MANAGER_PROBE  ? WEIR_LOCK_RENEW
               : role == WEIR_LOCK_MANAGER_BACK ? WEIR_LOCK_RELEASE
                                                : request->op.verb;
    op->name = request->op.name;
    op->owner = request->op.owner;
    op->ttl_ns = request->op.ttl_ns;
    op->seen = request->op.seen;
    op->due_ns = 0;
    manager->asked[i] = request;
    manager->roles[i] = role;
    weir_waiter_ask(&request->own.waiter);
}

static void ask_first(struct weir_lock_manager *manager, struct weir_lock_manager_queue *queue)
{
    struct weir_waiter *first = weir_waiting_ask(&queue->waiting, manager->now_ns);
    weir_lock_manager_queue_sync(manager, queue);
    if (first)
        ask(manager, weir_lock_manager_request_of(first), WEIR_LOCK_MANAGER_FIRST);
}

static void join_others(struct weir_lock_manager *manager, struct weir_lock_manager_queue *queue,
                        struct weir_lock_manager_request *request)
{
    enum weir_waiting_fate fate = weir_waiting_come(&queue->waiting, &request->own.waiter, manager->now_ns);
    if (fate == WEIR_WAITING_PROBED) {
        ask(manager, request, WEIR_LOCK_MANAGER_PROBE);
    } else if (fate == WEIR_WAITING_ENDS) {
        weir_lock_manager_queue_say(manager, queue, &request->op);
        finish(manager, request);
    } else {
        fulfil(manager, request, weir_lock_manager_queue_join(manager, queue, request));
    }
}

static void put_in_batch(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    if (request->op.verb != WEIR_LOCK_ACQUIRE) {
        ask(manager, request, WEIR_LOCK_MANAGER_PLAIN);
        return;
    }
    if (request->own.waiter.gone) {
        give_up(manager, request);
        return;
    }
    request->op.status = 0; /* of one that was put off: now it may be told who holds the lock */
    struct weir_lock_manager_queue *queue = weir_lock_manager_queue_find(manager, request->op.name);
    if (queue) {
        join_others(manager, queue, request);
        return;
    }
    queue = weir_lock_manager_queue_add(manager, request->op.name);
    if (!queue) {
        fail(manager, request, WEIR_ELIMIT);
        return;
    }
    (void)weir_lock_manager_queue_join(manager, queue, request); /* nothing is known yet */
    ask_first(manager, queue);
}

void weir_lock_manager_gather(struct weir_lock_manager *manager)
{
    struct weir_lock_manager_request *request;
    manager->count = 0;
    while (manager->count < WEIR_LOCK_BATCH_MAX && (request = weir_lock_manager_pop(&manager->urgent))) {
        if (request->own.waiter.phase == WEIR_WAITER_RETURNING)
            ask(manager, request, WEIR_LOCK_MANAGER_BACK);
        else if (request->own.queue)
            ask(manager, request, WEIR_LOCK_MANAGER_PROBE);
        else
            put_in_batch(manager, request);
    }
    while (manager->count < WEIR_LOCK_BATCH_MAX && weir_due_next_ns(&manager->queues_due) <= manager->now_ns)
        ask_first(manager, weir_container(weir_due_first(&manager->queues_due), struct weir_lock_manager_queue, due));
    while (manager->count < WEIR_LOCK_BATCH_MAX && (request = weir_lock_manager_pop(&manager->backlog)))
        put_in_batch(manager, request);
}

/* ---- taking the answers ---- */

/* A lease counts from when the store decided it, which may have been as soon as it was asked, and is taken to be: one
 * that is asked for too early is asked for once more, too late would keep a free lock from those who wait for as long
 * as the batch hung. */
static struct weir_waiting_answer answer_of(const struct weir_lock_manager *manager, enum weir_waiting_said said,
                                            struct weir_slice holder, const struct weir_lock_op *op)
{
    return (struct weir_waiting_answer){
        .said = said,
        .holder = { holder.data, holder.size },
        .token = op->token,
        .lease_ns = weir_sub_sat(op->lease_ns, manager->took_ns),
        .due_ns = op->due_ns,
    };
}

/* Those who joined before anything was known begin to wait. They stand at the end, or behind one of their owner. Who is
 * being asked for is left out: his answer says whether he waits. */
static void wake_new(struct weir_lock_manager *manager, struct weir_lock_manager_queue *queue)
{
    size_t left = queue->waiting.new_count; /* who is refused leaves, and with the last one goes the queue */
    for (struct weir_waiter *waiter = queue->waiting.last, *before; left > 0; waiter = before) {
        before = waiter->previous;
        left -= weir_waiter_is_new(waiter);
        if (waiter->phase == WEIR_WAITER_NEW)
            start_waiting(manager, weir_lock_manager_request_of(waiter));
    }
}

/* An owner found to hold the lock that it waits for, after a reconnection say: is it so? */
static void probe_owner(struct weir_lock_manager *manager, const struct weir_lock_manager_queue *queue,
                        struct weir_slice owner)
{
    struct weir_lock_manager_request *same_owner = weir_lock_manager_queue_owner(manager, queue, owner);
    if (!same_owner || weir_waiter_is_asked(&same_owner->own.waiter))
        return;
    weir_waiter_ask(&same_owner->own.waiter);
    weir_lock_manager_push(&manager->urgent, same_owner);
}

static enum weir_waiting_said said_of(const struct weir_lock_op *op)
{
    if (op->status)
        return op->status == WEIR_ERANGE ? WEIR_WAITING_UNFIT : op->due_ns > 0 ? WEIR_WAITING_LATER : WEIR_WAITING_DOWN;
    return op->said == WEIR_LOCK_GRANTED ? WEIR_WAITING_GRANTED : WEIR_WAITING_HELD;
}

static void take_first(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    const struct weir_lock_op *op = &request->op;
    struct weir_lock_manager_queue *queue = request->own.queue;
    enum weir_waiting_said said = said_of(op);
    struct weir_slice holder = said == WEIR_WAITING_GRANTED ? op->owner
                                                            : (struct weir_slice){ op->holder, op->holder_size };
    struct weir_waiting_answer answer = answer_of(manager, said, holder, op);
    struct weir_waiting_news news = weir_waiting_hear(&queue->waiting, &answer, manager->now_ns);
    bool alone = queue->waiting.count == 1;
    request->waited = news.waited;
    weir_lock_manager_queue_sync(manager, queue);
    if (news.fate != WEIR_WAITING_ENDS || said == WEIR_WAITING_HELD)
        fulfil(manager, request, news.fate);
    else if (!put_off(manager, request))
        finish(manager, request);
    if (alone && !request->own.queue)
        return;
    if (news.probe)
        probe_owner(manager, queue, holder);
    if (news.wake)
        wake_new(manager, queue);
}

/* It was released: whoever is first may have it now. */
static void freed(struct weir_lock_manager *manager, struct weir_slice name)
{
    struct weir_lock_manager_queue *queue = weir_lock_manager_queue_find(manager, name);
    if (!queue)
        return;
    weir_waiting_freed(&queue->waiting);
    weir_lock_manager_queue_sync(manager, queue);
}

static void take_probe(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    struct weir_slice owner = request->op.owner;
    struct weir_waiter *waiter = &request->own.waiter;
    bool good = !request->op.status && request->op.said == WEIR_LOCK_GRANTED;
    if (good || (request->op.status && !request->own.queue)) {
        request->waited = false;
        if (request->own.queue)
            weir_waiter_hear(waiter);
        finish(manager, request);
    }
    struct weir_lock_manager_queue *queue = weir_lock_manager_queue_find(manager, request->op.name);
    if (good && queue) {
        struct weir_waiting_answer answer = answer_of(manager, WEIR_WAITING_GRANTED, owner, &request->op);
        bool found = weir_waiting_found(&queue->waiting, &answer, manager->now_ns);
        weir_lock_manager_queue_sync(manager, queue);
        if (found) {
            probe_owner(manager, queue, owner);
            wake_new(manager, queue);
        }
    } else if (!request->op.status && queue) {
        weir_waiting_disowned(&queue->waiting, waiter->owner);
        weir_lock_manager_queue_sync(manager, queue);
    }
    if (request->own.queue) {
        fulfil(manager, request, weir_waiting_denied(&queue->waiting, waiter, manager->stop));
    } else if (waiter->phase == WEIR_WAITER_ASKED) {
        waiter->refuted = true;
        weir_waiter_move(waiter, WEIR_WAITER_COME);
        weir_lock_manager_push(&manager->urgent, request);
    }
}

static void hear_return(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    if (request->op.status) {
        request->op.status = WEIR_EUNKNOWN;
    } else {
        manager->counts.forgone++;
        freed(manager, request->op.name);
    }
    request->op.said = WEIR_LOCK_HELD;
    finish(manager, request);
}

static void take_plain(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    const struct weir_lock_op *op = &request->op;
    bool good = !op->status && op->said == WEIR_LOCK_GRANTED;
    if (good && op->verb == WEIR_LOCK_RELEASE)
        freed(manager, op->name);
    struct weir_lock_manager_queue *queue = weir_lock_manager_queue_find(manager, op->name);
    if (good && queue && op->verb == WEIR_LOCK_RENEW) {
        struct weir_waiting_answer answer = answer_of(manager, WEIR_WAITING_GRANTED, op->owner, op);
        if (weir_waiting_renewed(&queue->waiting, &answer, manager->now_ns))
            wake_new(manager, queue);
    }
    request->waiters = op->verb == WEIR_LOCK_SHOW && queue ? queue->waiting.count : 0;
    if (!put_off(manager, request))
        finish(manager, request);
}

void weir_lock_manager_hear(struct weir_lock_manager *manager)
{
    static void (*const TAKE[])(struct weir_lock_manager *, struct weir_lock_manager_request *) = {
        [WEIR_LOCK_MANAGER_PLAIN] = take_plain,
        [WEIR_LOCK_MANAGER_FIRST] = take_first,
        [WEIR_LOCK_MANAGER_PROBE] = take_probe,
        [WEIR_LOCK_MANAGER_BACK] = hear_return,
    };
    for (size_t i = 0; i < manager->count; i++) {
        const struct weir_lock_op *from = &manager->ops[i];
        struct weir_lock_op *to = &manager->asked[i]->op;
        to->status = from->status;
        to->due_ns = from->due_ns;
        manager->asked[i]->own.unknown |= manager->roles[i] == WEIR_LOCK_MANAGER_FIRST && from->status == WEIR_EUNKNOWN;
        if (manager->roles[i] != WEIR_LOCK_MANAGER_BACK && !from->status) {
            to->said = from->said;
            to->token = from->token;
            to->lease_ns = from->lease_ns;
            to->holder_size = from->holder_size;
            memcpy(to->holder, from->holder, from->holder_size);
        }
        TAKE[manager->roles[i]](manager, manager->asked[i]);
    }
}

/* ---- those who wait no longer ---- */

void weir_lock_manager_overdue(struct weir_lock_manager *manager)
{
    struct weir_due *due;
    while ((due = weir_due_first(&manager->waits_due)) && (manager->stop || due->at_ns <= manager->now_ns)) {
        struct weir_lock_manager_request *request = weir_container(due, struct weir_lock_manager_request, own.due);
        weir_due_remove(&manager->waits_due, due);
        fulfil(manager, request, weir_waiting_end(&request->own.queue->waiting, &request->own.waiter, manager->stop));
    }
}

void weir_lock_manager_gone(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    fulfil(manager, request, weir_waiting_gone(&request->own.waiter));
}
