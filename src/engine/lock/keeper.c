/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lock/keeper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/checked.h"
#include "engine/lock/keeper_inside.h"

#define WAITERS_MAX 65536
#define PENDING_MAX 65536
#define TIMEOUT_NS UINT64_C(2000000000)
#define IDLE_NS UINT64_C(1000000000)
#define COMPANIONS_MAX 64U              /* so many are company enough */
#define COMMIT_MAX_NS UINT64_C(2000000) /* nobody waits a millisecond for company */
#define NS_PER_SECOND UINT64_C(1000000000)

static uint64_t now_monotonic_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

/* ---- rounds ---- */

/* With the mutex held: until there is something to do. */
static void sleep_until_due(struct weir_keeper *keeper)
{
    bool busy = keeper->backlog.first || keeper->again.first;
    if (keeper->stirred && keeper->idle_ns == UINT64_MAX)
        keeper->idle_ns = now_monotonic_ns() + IDLE_NS;
    keeper->stirred = false;
    keeper->resting = keeper->idle_ns == UINT64_MAX;
    uint64_t until_ns = weir_min_u64(weir_due_next_ns(&keeper->queues_due), weir_due_next_ns(&keeper->waits_due));
    until_ns = weir_min_u64(until_ns, keeper->idle_ns);
    until_ns = weir_min_u64(until_ns, keeper->put_off.first ? keeper->put_off_ns : UINT64_MAX);
    until_ns = weir_min_u64(until_ns, keeper->gathered.first ? keeper->gather_until_ns : UINT64_MAX);
    while (!busy && !keeper->submitted.first && !keeper->left && !keeper->stopping) {
        if (until_ns == UINT64_MAX) {
            pthread_cond_wait(&keeper->wake, &keeper->mutex);
            continue;
        }
        struct timespec until = { .tv_sec = (time_t)(until_ns / NS_PER_SECOND),
                                  .tv_nsec = (long)(until_ns % NS_PER_SECOND) };
        if (now_monotonic_ns() >= until_ns ||
            pthread_cond_timedwait(&keeper->wake, &keeper->mutex, &until) == ETIMEDOUT)
            break;
    }
}

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
    for (struct weir_keeper_request *request; (request = weir_keeper_pop(&keeper->put_off));)
        weir_keeper_push(&keeper->backlog, request);
    keeper->put_off_asks = 0;
}

/* Takes over what came. False: the end. */
static bool take(struct weir_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    sleep_until_due(keeper);
    struct weir_keeper_list submitted = keeper->submitted;
    struct weir_keeper_request *left = keeper->left;
    keeper->submitted = (struct weir_keeper_list){ 0 };
    keeper->left = NULL;
    keeper->coming = 0;
    keeper->stop = keeper->stopping;
    pthread_mutex_unlock(&keeper->mutex);

    keeper->now_ns = now_monotonic_ns();
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
    return !keeper->stop || keeper->backlog.first || keeper->gathered.first || keeper->again.first ||
           keeper->queues.count > 0 || keeper->finished.first;
}

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

static void decide(struct weir_keeper *keeper)
{
    const struct weir_lock_engine_ops *ops = keeper->engine->ops;
    weir_keeper_gather(keeper);
    if (keeper->count > 0) {
        uint64_t begin_ns = keeper->now_ns;
        ops->apply(keeper->engine, keeper->ops, keeper->count, weir_add_sat(begin_ns, keeper->timeout_ns));
        keeper->now_ns = now_monotonic_ns();
        measure(keeper, keeper->now_ns - begin_ns);
        keeper->idle_ns = keeper->now_ns + IDLE_NS;
        weir_keeper_settle(keeper);
    } else if (keeper->now_ns >= keeper->idle_ns) {
        if (ops->idle)
            ops->idle(keeper->engine);
        ops->state(keeper->engine, &keeper->counts.engine);
        keeper->idle_ns = keeper->counts.engine.up ? UINT64_MAX : keeper->now_ns + IDLE_NS;
        return;
    }
    ops->state(keeper->engine, &keeper->counts.engine);
}

static void count_answer(struct weir_keeper_state *counts, const struct weir_lock_op *op)
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
    for (struct weir_keeper_request *request = keeper->finished.first, *next; request; request = next) {
        next = request->own.next;
        if ((request->own.left || request->own.gone) && weir_keeper_forgo(keeper, request))
            request->own.finished = false;
        else
            request->own.finished = true;
    }
    for (struct weir_keeper_request *request; (request = weir_keeper_pop(&keeper->finished));) {
        if (request->own.finished) {
            count_answer(&keeper->counts, &request->op);
            keeper->under_way[request->own.bucket]--;
        }
        weir_keeper_push(request->own.finished ? &answers : &keeper->again, request);
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

static void answer(struct weir_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    struct weir_keeper_list answers = close_round(keeper);
    pthread_mutex_unlock(&keeper->mutex);
    for (struct weir_keeper_request *request; (request = weir_keeper_pop(&answers));)
        request->done(request);
}

static void *run(void *context)
{
    struct weir_keeper *keeper = context;
    while (take(keeper)) {
        decide(keeper);
        answer(keeper);
    }
    return NULL;
}

/* ---- life ---- */

static int init(struct weir_keeper *keeper, const struct weir_keeper_options *options)
{
    uint8_t secret[16];
    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
        return WEIR_EIO;
    keeper->key = weir_sip_key_load(secret);
    keeper->waiters_max = options->waiters_max ? options->waiters_max : WAITERS_MAX;
    keeper->pending_max = options->pending_max ? options->pending_max : PENDING_MAX;
    keeper->timeout_ns = options->timeout_ns ? options->timeout_ns : TIMEOUT_NS;
    keeper->idle_ns = UINT64_MAX;
    size_t room = keeper->waiters_max + keeper->pending_max;
    keeper->queues_due = (struct weir_due_heap){ calloc(room + 1, sizeof(struct weir_due *)), 0, room };
    keeper->waits_due = (struct weir_due_heap){ calloc(room + 1, sizeof(struct weir_due *)), 0, room };
    if (!keeper->queues_due.members || !keeper->waits_due.members || weir_hash_init(&keeper->queues) != 0 ||
        weir_hash_init(&keeper->owners) != 0)
        return WEIR_ENOMEM;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&keeper->mutex, NULL);
    pthread_cond_init(&keeper->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    keeper->engine->ops->state(keeper->engine, &keeper->counts.engine);
    keeper->state = keeper->counts;
    return pthread_create(&keeper->thread, NULL, run, keeper) == 0 ? 0 : WEIR_EIO;
}

static void deinit(struct weir_keeper *keeper)
{
    keeper->engine->ops->destroy(keeper->engine);
    free(keeper->waits_due.members);
    free(keeper->queues_due.members);
    weir_hash_deinit(&keeper->owners);
    weir_hash_deinit(&keeper->queues);
    free(keeper);
}

int weir_keeper_create(struct weir_lock_engine *engine, const struct weir_keeper_options *options,
                       struct weir_keeper **ret_keeper)
{
    struct weir_keeper *keeper = calloc(1, sizeof *keeper);
    if (!keeper) {
        engine->ops->destroy(engine);
        return WEIR_ENOMEM;
    }
    keeper->engine = engine;
    int error = init(keeper, options);
    if (error) {
        deinit(keeper);
        return error;
    }
    *ret_keeper = keeper;
    return 0;
}

void weir_keeper_destroy(struct weir_keeper *keeper)
{
    if (!keeper)
        return;
    pthread_mutex_lock(&keeper->mutex);
    keeper->stopping = true;
    pthread_cond_signal(&keeper->wake);
    pthread_mutex_unlock(&keeper->mutex);
    pthread_join(keeper->thread, NULL);
    pthread_cond_destroy(&keeper->wake);
    pthread_mutex_destroy(&keeper->mutex);
    deinit(keeper);
}

/* ---- from any thread ---- */

static void prepare(const struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    uint64_t hash = weir_siphash(&keeper->key, request->op.name.data, request->op.name.size);
    request->own = (struct weir_keeper_own){ .bucket = (uint16_t)(hash % WEIR_KEEPER_BUCKETS) };
    request->waited = false;
    request->waiters = 0;
    request->op.status = 0;
    request->op.holder_size = 0;
    request->op.token = (struct weir_token){ 0 };
    request->op.lease_ns = 0;
}

bool weir_keeper_quick(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    const struct weir_lock_engine_ops *ops = keeper->engine->ops;
    if (!ops->quick || (request->op.verb == WEIR_LOCK_ACQUIRE && request->wait_ns > 0))
        return false;
    prepare(keeper, request);
    pthread_mutex_lock(&keeper->mutex);
    bool free = keeper->under_way[request->own.bucket] == 0 && !keeper->resting && !keeper->stopping;
    bool done = free && ops->quick(keeper->engine, &request->op);
    if (done) {
        count_answer(&keeper->counts, &request->op);
        count_answer(&keeper->state, &request->op);
        keeper->stirred = request->own.finished = true;
    }
    pthread_mutex_unlock(&keeper->mutex);
    return done;
}

int weir_keeper_submit(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    prepare(keeper, request);
    pthread_mutex_lock(&keeper->mutex);
    bool room = keeper->pending < keeper->pending_max && !keeper->stopping;
    bool first = room && !keeper->submitted.first;
    if (room) {
        keeper->pending++;
        keeper->coming += request->op.verb == WEIR_LOCK_ACQUIRE;
        keeper->under_way[request->own.bucket]++;
        weir_keeper_push(&keeper->submitted, request);
    }
    pthread_mutex_unlock(&keeper->mutex);
    if (first) /* not before: it would wake up only to wait for the mutex */
        pthread_cond_signal(&keeper->wake);
    return room ? 0 : WEIR_ELIMIT;
}

void weir_keeper_leave(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    pthread_mutex_lock(&keeper->mutex);
    if (!request->own.finished && !request->own.left) {
        request->own.left = true;
        request->own.next_left = keeper->left;
        keeper->left = request;
        pthread_cond_signal(&keeper->wake);
    }
    pthread_mutex_unlock(&keeper->mutex);
}

void weir_keeper_state(struct weir_keeper *keeper, struct weir_keeper_state *ret_state)
{
    pthread_mutex_lock(&keeper->mutex);
    *ret_state = keeper->state;
    pthread_mutex_unlock(&keeper->mutex);
}
