/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/checked.h"
#include "engine/lock/keeper_inside.h"

#define AGAIN_MIN_NS UINT64_C(200000)     /* between two questions about one lock */
#define AGAIN_MAX_NS UINT64_C(5000000000) /* the engine's clock may run ahead of ours, or jump when a machine wakes */
#define AGAIN_DOWN_NS UINT64_C(100000000) /* when the engine could not say */

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

static void finish(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    struct weir_lock_op *op = &request->op;
    weir_assert(!request->own.queue);
    request->own.busy = false;
    bool denied = op->status == WEIR_EDOWN || (op->status == 0 && op->said == WEIR_LOCK_HELD);
    if (request->own.unknown && denied) /* a later attempt says nothing of that one: it may still be on its way */
        op->status = WEIR_EUNKNOWN;
    decided(keeper, request);
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
    weir_keeper_queue_leave(keeper, request);
    finish(keeper, request);
}

/* From now on it waits, and its wait ends by itself. */
static void start_waiting(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    bool over = request->own.waiter.until_ns <= keeper->now_ns; /* answered at the start of the next round */
    if (!over && keeper->waits_due.count >= keeper->waiters_max) {
        weir_keeper_queue_leave(keeper, request);
        fail(keeper, request, WEIR_ELIMIT);
        return;
    }
    weir_due_set(&keeper->waits_due, &request->own.due, request->own.waiter.until_ns);
    request->own.timed = true;
    request->own.queue->untimed--;
    if (!over)
        decided(keeper, request);
}

/* The engine says when to ask again. False: it is answered now. Of those who ask for raises themselves a batch waits at
 * most: it would be theirs to fill all the room there is. */
static bool put_off(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    struct weir_keeper_own *own = &request->own;
    uint64_t due_ns = request->op.due_ns;
    bool asks = request->op.verb == WEIR_LOCK_RAISE || request->op.seen > 0;
    if (due_ns == 0 || own->gone || keeper->stop || (asks && keeper->put_off_asks >= WEIR_LOCK_BATCH_MAX))
        return false;
    if (own->put_off_until_ns == 0)
        own->put_off_until_ns = weir_add_sat(keeper->now_ns, keeper->timeout_ns);
    if (weir_max_u64(due_ns, keeper->now_ns) >= own->put_off_until_ns)
        return false;
    own->busy = false;
    keeper->put_off_ns = weir_max_u64(due_ns, keeper->now_ns + AGAIN_MIN_NS);
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
    request->own.busy = true;
}

static void ask_first(struct weir_keeper *keeper, struct weir_keeper_queue *queue)
{
    weir_due_remove(&keeper->queues_due, &queue->due);
    queue->in_flight = true;
    ask(keeper, weir_keeper_queue_first(queue), WEIR_KEEPER_FIRST);
}

/* Whether this owner may hold the lock that others wait for: then it need not wait behind them. What an engine that has
 * the store to itself said of the holder stays true; of a shared one it is true for a while. */
static bool may_hold(const struct weir_keeper *keeper, const struct weir_keeper_queue *queue,
                     const struct weir_keeper_request *request)
{
    const struct weir_lock_op *first = &weir_keeper_queue_first(queue)->op, *op = &request->op;
    if (request->own.probed || op->seen > queue->token.incarnation)
        return false;
    if (queue->in_flight && first->owner.size == op->owner.size &&
        memcmp(first->owner.data, op->owner.data, op->owner.size) == 0)
        return true;
    uint64_t poll_ns = keeper->engine->ops->poll_ns;
    bool stale = poll_ns > 0 && queue->asked && keeper->now_ns - queue->known_ns >= poll_ns;
    return stale || weir_keeper_queue_holds(queue, op->owner);
}

static void join_others(struct weir_keeper *keeper, struct weir_keeper_queue *queue,
                        struct weir_keeper_request *request)
{
    if (may_hold(keeper, queue, request)) {
        ask(keeper, request, WEIR_KEEPER_PROBE);
        return;
    }
    bool over = request->own.waiter.until_ns <= keeper->now_ns;
    bool known = queue->asked && (queue->status || (queue->held && queue->held_until_ns > keeper->now_ns));
    if (over && known) {
        weir_keeper_queue_say(keeper, queue, &request->op);
        finish(keeper, request);
        return;
    }
    weir_keeper_queue_join(keeper, queue, request);
    if (over)
        queue->asked = false; /* nothing may be said of it before the next answer */
    if (queue->asked)
        start_waiting(keeper, request);
}

static void admit(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    if (request->op.verb != WEIR_LOCK_ACQUIRE) {
        ask(keeper, request, WEIR_KEEPER_PLAIN);
        return;
    }
    if (request->own.gone) {
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
    weir_keeper_queue_join(keeper, queue, request);
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
        request->own.busy = false;
        if (request->own.giving_back)
            ask(keeper, request, WEIR_KEEPER_BACK);
        else if (request->own.queue)
            ask(keeper, request, WEIR_KEEPER_PROBE);
        else
            admit(keeper, request);
    }
    while (keeper->count < WEIR_LOCK_BATCH_MAX && weir_due_next_ns(&keeper->queues_due) <= keeper->now_ns) {
        struct weir_keeper_queue *queue = queue_of_due(weir_due_first(&keeper->queues_due));
        if (weir_keeper_queue_first(queue)->own.busy)
            weir_due_set(&keeper->queues_due, &queue->due, keeper->now_ns + AGAIN_MIN_NS);
        else
            ask_first(keeper, queue);
    }
    while (keeper->count < WEIR_LOCK_BATCH_MAX && (request = weir_keeper_pop(&keeper->backlog)))
        admit(keeper, request);
}

/* ---- taking the answers ---- */

/* When the first of a queue is asked next, by what is known of the holder. */
static void ask_later(struct weir_keeper *keeper, struct weir_keeper_queue *queue)
{
    uint64_t poll_ns = keeper->engine->ops->poll_ns;
    uint64_t at_ns = weir_min_u64(queue->held_until_ns, weir_add_sat(keeper->now_ns, AGAIN_MAX_NS));
    if (poll_ns > 0)
        at_ns = weir_min_u64(at_ns, weir_add_sat(keeper->now_ns, poll_ns));
    weir_due_set(&keeper->queues_due, &queue->due, weir_max_u64(at_ns, keeper->now_ns + AGAIN_MIN_NS));
}

/* Those who joined before anything was known: at the end, or beside one of the same owner. Who is being asked for is
 * on his way to an answer, by which he waits or not. */
static void wake_untimed(struct weir_keeper *keeper, struct weir_keeper_queue *queue)
{
    size_t untimed = queue->untimed; /* who is refused leaves, and with the last one goes the queue */
    for (struct weir_waiter *waiter = queue->waiting.last, *before; untimed > 0; waiter = before) {
        before = waiter->previous;
        struct weir_keeper_request *request = weir_keeper_request_of(waiter);
        if (request->own.timed)
            continue;
        untimed--;
        if (!request->own.busy)
            start_waiting(keeper, request);
    }
}

/* An owner found to hold the lock that it waits for, after a reconnection say: is it so? */
static void probe_owner(struct weir_keeper *keeper, const struct weir_keeper_queue *queue, struct weir_slice owner)
{
    struct weir_keeper_request *twin = weir_keeper_queue_owner(keeper, queue, owner);
    if (!twin || twin->own.busy)
        return;
    twin->own.busy = true;
    weir_keeper_push(&keeper->again, twin);
}

static void granted(struct weir_keeper *keeper, struct weir_keeper_queue *queue, struct weir_keeper_request *request)
{
    struct weir_slice owner = request->op.owner;
    request->waited = queue->holder_size > 0 &&
                      !(queue->holder_size == owner.size && memcmp(queue->holder, owner.data, owner.size) == 0);
    weir_keeper_queue_learn(keeper, queue, owner, &request->op);
    bool alone = queue->waiting.count == 1;
    weir_keeper_queue_leave(keeper, request);
    finish(keeper, request);
    if (alone)
        return;
    ask_later(keeper, queue);
    probe_owner(keeper, queue, owner);
    wake_untimed(keeper, queue);
}

static void held(struct weir_keeper *keeper, struct weir_keeper_queue *queue, struct weir_keeper_request *request)
{
    struct weir_slice holder = { request->op.holder, request->op.holder_size };
    bool news = !weir_keeper_queue_holds(queue, holder);
    weir_keeper_queue_learn(keeper, queue, holder, &request->op);
    ask_later(keeper, queue);
    if (news)
        probe_owner(keeper, queue, holder);
    bool alone = queue->waiting.count == 1;
    if (request->own.waiter.until_ns <= keeper->now_ns)
        give_up(keeper, request);
    else if (!request->own.timed)
        start_waiting(keeper, request);
    if (!alone || request->own.queue)
        wake_untimed(keeper, queue);
}

/* Who has just come is told at once; who has waited already goes on, and asking twice for one owner is harmless. */
static void failed(struct weir_keeper *keeper, struct weir_keeper_queue *queue, struct weir_keeper_request *request)
{
    bool own_fault = request->op.status == WEIR_ERANGE || (request->op.due_ns > 0 && !request->own.timed);
    queue->asked = true;
    queue->status = own_fault ? queue->status : request->op.status;
    weir_due_set(&keeper->queues_due, &queue->due, own_fault ? 0 : keeper->now_ns + AGAIN_DOWN_NS);
    if (own_fault)
        queue->asked = queue->held;
    bool alone = queue->waiting.count == 1;
    if (own_fault || !request->own.timed) {
        weir_keeper_queue_leave(keeper, request);
        if (!put_off(keeper, request))
            finish(keeper, request);
        if (alone)
            return;
    }
    if (queue->asked)
        wake_untimed(keeper, queue);
}

static void take_first(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    struct weir_keeper_queue *queue = request->own.queue;
    queue->in_flight = request->own.busy = false;
    if (request->op.status)
        failed(keeper, queue, request);
    else if (request->op.said == WEIR_LOCK_GRANTED)
        granted(keeper, queue, request);
    else
        held(keeper, queue, request);
}

/* It was released: whoever is first may have it now. */
static void freed(struct weir_keeper *keeper, struct weir_slice name)
{
    struct weir_keeper_queue *queue = weir_keeper_queue_find(keeper, name);
    if (!queue)
        return;
    queue->held = false;
    if (!queue->in_flight)
        weir_due_set(&keeper->queues_due, &queue->due, 0);
}

/* Its owner does not hold the lock: what was known is out of date, if it said so. */
static void disowned(struct weir_keeper *keeper, const struct weir_keeper_request *request)
{
    const struct weir_keeper_queue *queue = weir_keeper_queue_find(keeper, request->op.name);
    if (queue && weir_keeper_queue_holds(queue, request->op.owner))
        freed(keeper, request->op.name);
}

/* The end of a wait: told who holds the lock. If nobody can be said to hold it, the next answer tells. */
static void end_wait(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    struct weir_keeper_queue *queue = request->own.queue;
    if (queue->held || queue->status || keeper->stop) {
        give_up(keeper, request);
        return;
    }
    queue->asked = request->own.timed = request->own.overdue = false;
    queue->untimed++;
}

static void take_probe(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    struct weir_slice owner = request->op.owner;
    struct weir_keeper_queue *queue = request->own.queue;
    request->own.busy = false;
    if (!request->op.status && request->op.said == WEIR_LOCK_GRANTED) {
        request->waited = false;
        weir_keeper_queue_leave(keeper, request);
        finish(keeper, request);
        queue = weir_keeper_queue_find(keeper, request->op.name);
        if (queue && !queue->in_flight) {
            weir_keeper_queue_learn(keeper, queue, owner, &request->op);
            ask_later(keeper, queue);
            probe_owner(keeper, queue, owner);
        }
        return;
    }
    if (!request->op.status)
        disowned(keeper, request);
    if (!queue && request->op.status) {
        finish(keeper, request);
    } else if (!queue) {
        request->own.probed = request->own.busy = true;
        weir_keeper_push(&keeper->again, request);
    } else if (request->own.gone) {
        give_up(keeper, request);
    } else if (request->own.overdue) {
        end_wait(keeper, request);
    } else if (!request->own.timed && queue->asked) {
        start_waiting(keeper, request);
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
    if (good && queue && op->verb == WEIR_LOCK_RENEW && weir_keeper_queue_holds(queue, op->owner))
        weir_keeper_queue_learn(keeper, queue, op->owner, op);
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
        struct weir_keeper_queue *queue = request->own.queue;
        weir_due_remove(&keeper->waits_due, due);
        request->own.overdue = request->own.busy;
        if (request->own.busy)
            continue;
        if (weir_keeper_queue_holds(queue, request->op.owner) && !keeper->stop) { /* its own: is it so still? */
            request->own.overdue = request->own.busy = true;
            weir_keeper_push(&keeper->again, request);
            continue;
        }
        end_wait(keeper, request);
    }
}

void weir_keeper_gone(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    request->own.gone = true;
    if (request->own.queue && !request->own.busy)
        give_up(keeper, request);
}

bool weir_keeper_forgo(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    const struct weir_lock_op *op = &request->op;
    if (op->verb != WEIR_LOCK_ACQUIRE || op->status || op->said != WEIR_LOCK_GRANTED || !request->waited)
        return false;
    struct weir_keeper_queue *queue = weir_keeper_queue_find(keeper, op->name);
    bool wanted = queue && weir_keeper_queue_owner(keeper, queue, op->owner);
    for (struct weir_keeper_request *other = keeper->finished.first; other && !wanted; other = other->own.next)
        wanted = other != request && other->op.verb == WEIR_LOCK_ACQUIRE && !other->own.left && !other->op.status &&
                 other->op.said == WEIR_LOCK_GRANTED && weir_token_compare(other->op.token, op->token) == 0;
    if (wanted) {
        request->waited = false; /* the same owner, over another connection, counts on it */
        return false;
    }
    request->own.busy = request->own.giving_back = true;
    return true;
}
