/* SPDX-License-Identifier: Apache-2.0
 *
 * What is checked of the lock manager's requests: each is answered once, in time, and truly; nobody passes who came
 * earlier to the same weir; no wait is forgotten, and nothing is left in a manager that has answered everybody.
 * What the manager keeps is read here, to compare it with what happened; nothing is decided by it. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "sim/locks_inside.h"
#include "weir/error.h"

#define TURNS_MAX 3000                /* between two looks: no manager has so much to do */
#define SETTLED_NS (7 * LOCKS_SECOND) /* so long after the last fault nothing of it is left */
#define PATIENCE_NS (4 * LOCKS_SECOND)
#define MEMORY_NS (6 * LOCKS_SECOND) /* what a manager says of a holder may be as old as that */

static bool is_acquire(const struct locks_request *request)
{
    return request->request.op.verb == WEIR_LOCK_ACQUIRE;
}

static bool is_same(const struct locks_request *a, const struct locks_request *b)
{
    return a->name == b->name && a->owner == b->owner;
}

/* It joined no queue yet, and was asked for nothing. */
static bool is_unread(const struct locks_request *request)
{
    return !request->asked && !request->request.own.queue && !request->request.own.decided &&
           !request->request.own.finished;
}

/* ---- requests come ---- */

void locks_waits_came(struct locks *locks, struct locks_request *request)
{
    struct locks_waits *waits = &locks->waits;
    if (waits->count == waits->room) {
        waits->room = waits->room ? 2 * waits->room : 1024;
        waits->records = locks_grown(waits->records, waits->room * sizeof(waits->records[0]));
    }
    request->place = request->id = waits->count++;
    request->came_ns = locks->now_ns;
    waits->records[request->id] = (struct locks_record){ .request = request };
    for (const struct locks_request *other = locks->weirs[request->weir].open; other; other = other->next)
        if (is_acquire(request) && is_acquire(other) && is_same(request, other))
            request->place = weir_min_u64(request->place, other->place);
}

static size_t open_count(const struct locks_weir *weir, bool acquires)
{
    size_t count = 0;
    for (const struct locks_request *other = weir->open; other; other = other->next)
        count += !acquires || is_acquire(other);
    return count;
}

void locks_waits_refused(struct locks *locks, struct locks_request *request)
{
    const struct locks_weir *weir = &locks->weirs[request->weir];
    locks->waits.records[request->id] = (struct locks_record){ .told = LOCKS_DENIED };
    if (!weir->manager->stopping && open_count(weir, false) < weir->options.pending_max)
        locks_broken(locks, "a request was refused though there is room");
}

void locks_waits_quick(struct locks *locks, const struct locks_request *request)
{
    for (const struct locks_request *other = locks->weirs[request->weir].open; other; other = other->next)
        if (other->name == request->name && !other->request.own.finished && other->request.op.verb != WEIR_LOCK_RAISE)
            locks_broken(locks, "a quick answer overtook what was asked of the name before");
}

/* ---- the order in which they are asked for ---- */

static void check_order(struct locks *locks, const struct locks_weir *weir, const struct locks_request *request,
                        enum weir_lock_manager_role role)
{
    for (const struct locks_request *other = weir->open; other; other = other->next) {
        if (other->name != request->name || other->id >= request->place || other->owner == request->owner)
            continue;
        if (is_unread(other) && other->request.op.verb != WEIR_LOCK_RAISE)
            locks_broken(locks, "what came later of a name was asked first");
        bool excused = other->left || other->was_put_off || other->was_probed || !other->request.own.queue;
        if (role == WEIR_LOCK_MANAGER_FIRST && is_acquire(other) && !excused)
            locks_broken(locks, "one who waits was passed by one who came later");
    }
}

void locks_waits_asked(struct locks *locks, const struct locks_weir *weir)
{
    const struct weir_lock_manager *manager = weir->manager;
    for (size_t i = 0; i < manager->count; i++) {
        struct locks_request *request = manager->asked[i]->context;
        request->was_probed |= manager->roles[i] == WEIR_LOCK_MANAGER_PROBE;
    }
    for (size_t i = 0; i < manager->count; i++) {
        struct locks_request *request = manager->asked[i]->context;
        if (locks->waits.records[request->id].told != LOCKS_OPEN)
            locks_broken(locks, "the store is asked for one who has been answered");
        if (request->request.op.verb != WEIR_LOCK_RAISE &&
            (manager->roles[i] == WEIR_LOCK_MANAGER_PLAIN || manager->roles[i] == WEIR_LOCK_MANAGER_FIRST))
            check_order(locks, weir, request, manager->roles[i]);
        request->asked = true;
    }
}

void locks_waits_decided(struct locks *locks, struct locks_weir *weir)
{
    const struct weir_lock_manager *manager = weir->manager;
    for (size_t i = 0; i < manager->count; i++) {
        const struct weir_lock_op *op = &manager->ops[i];
        struct locks_request *request = manager->asked[i]->context;
        bool first = manager->roles[i] == WEIR_LOCK_MANAGER_FIRST;
        uint64_t holder = 0;
        if (op->holder_size == sizeof(holder))
            memcpy(&holder, op->holder, sizeof(holder));
        request->was_held |= first && op->status == 0 && op->said == WEIR_LOCK_HELD && holder != request->owner;
        request->was_unknown |= op->status == WEIR_EUNKNOWN ||
                                (op->status && manager->roles[i] == WEIR_LOCK_MANAGER_BACK);
        request->was_put_off |= op->due_ns > 0;
        request->given_back |= manager->roles[i] == WEIR_LOCK_MANAGER_BACK && op->status == 0;
        weir->told.forgone += manager->roles[i] == WEIR_LOCK_MANAGER_BACK && op->status == 0;
        if (op->due_ns > 0 && op->seen == 0)
            weir->raising_ns = locks->now_ns;
        else if (op->due_ns == 0 && (op->status == WEIR_EDOWN || op->status == WEIR_EUNKNOWN))
            weir->failed_ns = locks->now_ns;
    }
}

/* ---- what the store gives ---- */

void locks_waits_granted(struct locks *locks, const struct locks_asked *asked)
{
    struct locks_waits *waits = &locks->waits;
    const struct locks_lock *lock = &locks->store.memory.locks[asked->name];
    if (waits->holds_count == waits->holds_room) {
        waits->holds_room = waits->holds_room ? 2 * waits->holds_room : 256;
        waits->holds = locks_grown(waits->holds, waits->holds_room * sizeof(waits->holds[0]));
    }
    waits->holds[waits->holds_count++] = (struct locks_hold){
        .holder = asked->owner,
        .begin_ns = locks->now_ns,
        .name = asked->name,
        .token = lock->token,
        .request = asked->request,
    };
    if (weir_token_compare(lock->token, waits->newest[asked->name]) <= 0)
        locks_broken(locks, "a token is not greater than the one before it");
    waits->newest[asked->name] = lock->token;
    waits->changed_ns[asked->name] = locks->now_ns;
    if (waits->records[asked->request].told == LOCKS_DENIED)
        locks_broken(locks, "granted to one who was told that it was not");
}

/* ---- answers ---- */

static struct locks_hold *hold_find(const struct locks *locks, uint32_t name, struct weir_token token)
{
    const struct locks_waits *waits = &locks->waits;
    for (uint32_t i = waits->holds_count; i > 0; i--)
        if (waits->holds[i - 1].name == name && weir_token_compare(waits->holds[i - 1].token, token) == 0)
            return &waits->holds[i - 1];
    return NULL;
}

static void check_grant(struct locks *locks, const struct locks_request *request)
{
    struct locks_hold *hold = hold_find(locks, request->name, request->request.op.token);
    locks->result->waited += request->request.waited;
    if (!hold || hold->holder != request->owner)
        locks_broken(locks, "a grant was told that the store did not give");
    else if (request->request.waited && (hold->told == request->weir + 1 || hold->begin_ns < request->came_ns))
        locks_broken(locks, "a lease from before was told as one that was waited for");
    else if (!request->request.waited && request->was_held && hold->request == request->id && !request->superseded &&
             request->place == request->id)
        locks_broken(locks, "a grant after a wait was not told as one");
    if (hold && !request->left)
        hold->told = request->weir + 1;
}

/* Was it held by whom it was told of, lately? */
static bool held_lately(const struct locks *locks, uint32_t name, uint64_t holder, uint64_t since_ns)
{
    const struct locks_waits *waits = &locks->waits;
    for (uint32_t i = waits->holds_count; i > 0; i--) {
        if (waits->holds[i - 1].name != name)
            continue;
        if (waits->holds[i - 1].holder == holder)
            return true;
        if (waits->holds[i - 1].begin_ns < since_ns)
            return false;
    }
    return false;
}

static void check_denial(struct locks *locks, const struct locks_request *request)
{
    const struct weir_lock_op *op = &request->request.op;
    const struct locks_lock *lock = &locks->store.memory.locks[request->name];
    uint64_t holder = 0, since_ns = weir_sub_sat(request->came_ns, MEMORY_NS);
    bool out = lock->holders.count > 0 && locks_clock_ns(locks, &locks->store.clock) < lock->out[0].end_ns;
    if (out && lock->request == request->id && !request->given_back)
        locks_broken(locks, "one who was told that it was not granted holds the lock");
    if (op->status != 0 || request->left || locks->weirs[request->weir].manager->stop)
        return;
    if (op->holder_size == sizeof(holder))
        memcpy(&holder, op->holder, sizeof(holder));
    if (holder == request->owner && op->seen == 0)
        locks_broken(locks, "one was told that it holds the lock itself");
    else if (locks->result->failovers + locks->result->restarts == 0 &&
             !held_lately(locks, request->name, holder, since_ns))
        locks_broken(locks, "one was told of a holder who did not hold it");
}

static void check_status(struct locks *locks, const struct locks_request *request)
{
    const struct locks_weir *weir = &locks->weirs[request->weir];
    uint64_t failed_ns = weir_max_u64(weir->failed_ns, weir->raising_ns);
    bool failed = failed_ns > 0 && failed_ns + LOCKS_SECOND >= request->came_ns;
    switch (request->request.op.status) {
    case WEIR_EDOWN:
        if (!failed && !request->was_put_off)
            locks_broken(locks, "told that the store is down, which answers");
        break;
    case WEIR_EUNKNOWN:
        if (!request->was_unknown)
            locks_broken(locks, "told unknown, of what is known");
        break;
    case WEIR_ELIMIT:
        if (open_count(weir, true) < weir->options.waiters_max)
            locks_broken(locks, "refused for those who wait, who are few");
        break;
    case WEIR_ERANGE:
        if (request->request.op.seen < WEIR_INCARNATION_MAX)
            locks_broken(locks, "an incarnation that was seen is refused");
        break;
    default:
        break;
    }
}

static void count(struct weir_lock_manager_state *told, const struct locks_request *request)
{
    const struct weir_lock_op *op = &request->request.op;
    bool good = op->status == 0, granted = good && op->said == WEIR_LOCK_GRANTED;
    told->unknown += op->status == WEIR_EUNKNOWN;
    told->granted += granted && is_acquire(request);
    told->held += good && !granted && is_acquire(request);
    told->lost += good && !granted && op->verb == WEIR_LOCK_RENEW;
    told->released += granted && op->verb == WEIR_LOCK_RELEASE;
}

bool locks_waits_answered(struct locks *locks, struct locks_request *request)
{
    const struct weir_lock_op *op = &request->request.op;
    struct locks_record *record = &locks->waits.records[request->id];
    struct locks_weir *weir = &locks->weirs[request->weir];
    bool granted = op->status == 0 && op->said == WEIR_LOCK_GRANTED;
    if (record->told != LOCKS_OPEN) {
        locks_broken(locks, "a request was answered twice");
        return false;
    }
    *record = (struct locks_record){ .told = LOCKS_ANSWERED };
    count(&weir->told, request);
    if (!is_acquire(request))
        return true;
    if (granted)
        check_grant(locks, request);
    else if (op->status != WEIR_EUNKNOWN)
        check_denial(locks, request);
    check_status(locks, request);
    record->told = granted || op->status == WEIR_EUNKNOWN || request->given_back ? LOCKS_ANSWERED : LOCKS_DENIED;
    return true;
}

void locks_waits_forget(struct locks *locks, const struct locks_request *request)
{
    locks->waits.records[request->id] = (struct locks_record){ .told = LOCKS_FORGOTTEN };
    locks->result->unanswered++;
}

/* ---- what a manager keeps ---- */

static const char *queue_fault(const struct locks *locks, const struct weir_lock_manager_queue *queue)
{
    const char *fault = weir_waiting_fault(&queue->waiting);
    for (struct weir_waiter *at = fault ? NULL : queue->waiting.first; at; at = at->next) {
        const struct weir_lock_manager_own *own = &weir_lock_manager_request_of(at)->own;
        const struct locks_request *request = weir_lock_manager_request_of(at)->context;
        if (own->queue != queue)
            return "the list of those who wait is broken";
        if (locks->waits.records[request->id].told != LOCKS_OPEN)
            return "one who has been answered waits on";
        if (at->phase == WEIR_WAITER_WAITING && own->due.place == 0)
            return "a wait does not end";
    }
    if (!fault && queue->waiting.count == 0)
        return "the list of those who wait is broken";
    bool asks = queue->due.place > 0 && queue->due.at_ns == queue->waiting.ask_ns;
    return fault || asks ? fault : "nobody asks again for those who wait";
}

void locks_waits_turned(struct locks *locks, const struct locks_weir *weir)
{
    const struct weir_lock_manager *manager = weir->manager;
    size_t members = 0, queued = 0, timed = 0, undecided = 0, many = 0;
    const char *fault = NULL;
    for (size_t cursor = 0; cursor <= manager->queues.mask && !fault; cursor++)
        for (const struct weir_hash_node *node = weir_hash_chain(&manager->queues, cursor); node && !fault;
             node = weir_hash_next(node)) {
            const struct weir_lock_manager_queue *queue = (const struct weir_lock_manager_queue *)(const void *)node;
            fault = queue_fault(locks, queue);
            members += queue->waiting.count;
        }
    for (const struct locks_request *request = weir->open; request; request = request->next) {
        const struct weir_lock_manager_own *own = &request->request.own;
        queued += own->queue != NULL;
        timed += own->due.place > 0;
        many += own->due.place > 0 && own->waiter.until_ns > manager->now_ns;
        undecided += !own->decided;
    }
    if (!fault && (members != queued || members != manager->owners.count || timed != manager->waits_due.count))
        fault = "the list of those who wait is broken";
    if (!fault && many > weir->options.waiters_max)
        fault = "more wait than may";
    if (!fault && undecided != manager->pending)
        fault = "the count of requests that are not decided is wrong";
    if (fault)
        locks_broken(locks, fault);
}

void locks_waits_stopped(struct locks *locks, const struct locks_weir *weir)
{
    const struct weir_lock_manager *manager = weir->manager;
    const struct weir_lock_manager_state *state = &manager->state, *told = &weir->told;
    size_t under_way = 0;
    for (size_t i = 0; i < WEIR_LOCK_MANAGER_BUCKETS; i++)
        under_way += manager->under_way[i];
    if (weir->open)
        locks_broken(locks, "a weir ended with requests that it did not answer");
    else if (under_way + manager->pending + manager->queues.count + manager->owners.count + manager->claims.count +
                 manager->waits_due.count + manager->queues_due.count >
             0)
        locks_broken(locks, "something is left in a manager that has answered everybody");
    if (state->granted != told->granted || state->held != told->held || state->lost != told->lost ||
        state->unknown != told->unknown || state->released != told->released || state->forgone != told->forgone)
        locks_broken(locks, "a weir's counts of its answers are wrong");
    locks->result->forgone += state->forgone;
}

/* ---- now and then ---- */

/* How long a request may wait for a lock that is free. There is one raise a second, and one that is asked for by a
 * request alone may have to come after another. */
static uint64_t free_most_ns(const struct locks_weir *weir, const struct locks_request *request)
{
    uint64_t raise_ns = request->request.op.seen > 0 ? 2 * LOCKS_SECOND : weir->needs_raise ? LOCKS_SECOND : 0;
    return weir->engine.ops.poll_ns + 500 * LOCKS_MS + raise_ns;
}

static void look_at_request(struct locks *locks, const struct locks_weir *weir, const struct locks_request *request)
{
    uint64_t patience_ns = PATIENCE_NS + 4 * weir->options.timeout_ns;
    uint64_t end_ns = weir_add_sat(request->came_ns, weir_add_sat(request->request.wait_ns, patience_ns));
    if (request->left)
        end_ns = weir_min_u64(end_ns, request->left_ns + patience_ns);
    if (!locks->store.shared) /* nobody can end an fsync early */
        end_ns = weir_max_u64(end_ns, locks->store.stalled_until_ns + patience_ns);
    if (locks->now_ns > end_ns)
        locks_broken(locks, "a request was not answered in time");
    const struct locks_lock *lock = &locks->store.memory.locks[request->name];
    uint64_t now_ns = locks_clock_ns(locks, &locks->store.clock);
    uint64_t free_ns = lock->holders.count > 0 ? weir_sub_sat(now_ns, lock->out[0].end_ns) : locks->now_ns;
    free_ns = weir_min_u64(free_ns, locks->now_ns - locks->waits.changed_ns[request->name]);
    free_ns = weir_min_u64(free_ns, locks->now_ns - request->came_ns);
    free_ns = weir->needs_raise ? free_ns : weir_min_u64(free_ns, locks->now_ns - weir->raising_ns);
    bool settled = locks->now_ns >= locks->calm_ns + SETTLED_NS && !weir->manager->stopping;
    if (settled && is_acquire(request) && !request->left && free_ns > free_most_ns(weir, request))
        locks_broken(locks, "nobody gets a lock that is free, and somebody waits");
}

void locks_waits_look(struct locks *locks)
{
    for (uint32_t i = 0; i < locks->weirs_count; i++) {
        struct locks_weir *weir = &locks->weirs[i];
        if (!weir->manager)
            continue;
        weir->raising_ns = weir->needs_raise ? locks->now_ns : weir->raising_ns;
        for (const struct locks_request *request = weir->open; request; request = request->next)
            look_at_request(locks, weir, request);
        if (weir->turns > TURNS_MAX)
            locks_broken(locks, "a manager turns without end");
        weir->turns = 0;
    }
    locks->waits.dirty = locks->store.dirty && locks->weirs[0].manager ? locks->waits.dirty + 1 : 0;
    if (locks->now_ns >= locks->calm_ns + SETTLED_NS && locks->waits.dirty * LOCKS_LOOK_NS > 4 * LOCKS_SECOND)
        locks_broken(locks, "a release is not written, though nothing else is to do");
}
