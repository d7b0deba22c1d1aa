/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper's thread, and the functions that other threads call. The thread sleeps until a turn is due; keeper_turn.c
 * begins the turn, the engine decides the batch while the mutex is free, and keeper_turn.c ends the turn. Other threads
 * put their requests on a list under the mutex, and the first of them wakes the thread. Called by src/serve/locks.c;
 * the simulator (sim/locks_weir.c) makes a keeper without the thread and takes the turns itself. */
#include "locks/keeper.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/checked.h"
#include "locks/keeper_inside.h"

#define WAITERS_MAX 65536
#define PENDING_MAX 65536
#define TIMEOUT_NS UINT64_C(2000000000)
#define NS_PER_SECOND UINT64_C(1000000000)

static uint64_t now_monotonic_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

/* ---- the thread ---- */

static void sleep_until_due(struct weir_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    uint64_t until_ns = weir_keeper_due_ns(keeper, now_monotonic_ns());
    while (until_ns > 0 && !weir_keeper_called(keeper)) {
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
    pthread_mutex_unlock(&keeper->mutex);
}

static void *run(void *context)
{
    struct weir_keeper *keeper = context;
    struct weir_lock_engine *engine = keeper->engine;
    for (;;) {
        sleep_until_due(keeper);
        if (!weir_keeper_begin(keeper, now_monotonic_ns()))
            return NULL;
        if (keeper->count > 0)
            engine->ops->apply(engine, keeper->ops, keeper->count, weir_add_sat(keeper->now_ns, keeper->timeout_ns));
        weir_keeper_end(keeper, now_monotonic_ns());
    }
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
        weir_hash_init(&keeper->owners) != 0 || weir_hash_init(&keeper->claims) != 0)
        return WEIR_ENOMEM;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&keeper->mutex, NULL);
    pthread_cond_init(&keeper->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    keeper->engine->ops->state(keeper->engine, &keeper->counts.engine);
    keeper->state = keeper->counts;
    keeper->still = true;
    return 0;
}

/* There are none where the thread has ended; a simulated process may die with those who wait. */
static void free_queues(struct weir_keeper *keeper)
{
    for (size_t i = 0; keeper->queues.count > 0 && i <= keeper->queues.mask; i++)
        for (struct weir_hash_node *node = weir_hash_chain(&keeper->queues, i), *next; node; node = next) {
            next = node->next;
            free((struct weir_keeper_queue *)node);
        }
}

void weir_keeper_destroy_still(struct weir_keeper *keeper)
{
    if (keeper->still) {
        pthread_cond_destroy(&keeper->wake);
        pthread_mutex_destroy(&keeper->mutex);
    }
    keeper->engine->ops->destroy(keeper->engine);
    free(keeper->waits_due.members);
    free(keeper->queues_due.members);
    weir_hash_deinit(&keeper->owners);
    weir_hash_deinit(&keeper->claims);
    free_queues(keeper);
    weir_hash_deinit(&keeper->queues);
    free(keeper);
}

int weir_keeper_create_still(struct weir_lock_engine *engine, const struct weir_keeper_options *options,
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
        weir_keeper_destroy_still(keeper);
        return error;
    }
    *ret_keeper = keeper;
    return 0;
}

int weir_keeper_create(struct weir_lock_engine *engine, const struct weir_keeper_options *options,
                       struct weir_keeper **ret_keeper)
{
    struct weir_keeper *keeper;
    int error = weir_keeper_create_still(engine, options, &keeper);
    if (error)
        return error;
    if (pthread_create(&keeper->thread, NULL, run, keeper) != 0) {
        weir_keeper_destroy_still(keeper);
        return WEIR_EIO;
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
    weir_keeper_destroy_still(keeper);
}

/* ---- from any thread ---- */

static void prepare(const struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    uint64_t hash = weir_siphash(&keeper->key, request->op.name.data, request->op.name.size);
    request->own = (struct weir_keeper_own){ .bucket = (uint16_t)(hash % WEIR_KEEPER_BUCKETS) };
    request->own.waiter.owner = (struct weir_owner){ request->op.owner.data, request->op.owner.size };
    request->own.waiter.seen = request->op.seen;
    if (request->op.verb == WEIR_LOCK_ACQUIRE || request->op.verb == WEIR_LOCK_RENEW)
        request->own.claim.hash = weir_siphash_joined(&keeper->key, request->op.name.data, request->op.name.size,
                                                      request->op.owner.data, request->op.owner.size);
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
        weir_keeper_count(&keeper->counts, &request->op);
        weir_keeper_count(&keeper->state, &request->op);
        weir_waiter_move(&request->own.waiter, WEIR_WAITER_DONE);
        keeper->stirred = request->own.finished = true;
        if (request->op.status == 0 && request->op.said == WEIR_LOCK_GRANTED)
            weir_keeper_claim(keeper, request);
    }
    pthread_mutex_unlock(&keeper->mutex);
    return done;
}

/* With the mutex held. False: there is no room. */
static bool take_over(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    if (keeper->pending >= keeper->pending_max || keeper->stopping)
        return false;
    keeper->pending++;
    keeper->under_way[request->own.bucket]++;
    weir_keeper_push(&keeper->submitted, request);
    return true;
}

/* The mutex is given back before the thread is woken: it would wake up only to wait for it. */
static void unlock_waking(struct weir_keeper *keeper, bool wake)
{
    pthread_mutex_unlock(&keeper->mutex);
    if (wake)
        pthread_cond_signal(&keeper->wake);
}

int weir_keeper_submit(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    prepare(keeper, request);
    pthread_mutex_lock(&keeper->mutex);
    bool first = !keeper->submitted.first, room = take_over(keeper, request);
    if (room) {
        keeper->coming += request->op.verb == WEIR_LOCK_ACQUIRE;
        weir_keeper_claim(keeper, request);
    }
    unlock_waking(keeper, room && first);
    return room ? 0 : WEIR_ELIMIT;
}

void weir_keeper_told(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    if (!request->own.claims)
        return;
    pthread_mutex_lock(&keeper->mutex);
    weir_keeper_unclaim(keeper, request);
    pthread_mutex_unlock(&keeper->mutex);
}

bool weir_keeper_untold(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    pthread_mutex_lock(&keeper->mutex);
    bool first = !keeper->submitted.first, back = weir_keeper_forgoes(request) && take_over(keeper, request);
    weir_keeper_forget(keeper, request);
    if (back) {
        weir_waiter_move(&request->own.waiter, WEIR_WAITER_RETURNING);
        request->op.verb = WEIR_LOCK_RELEASE;
        request->own.finished = request->own.decided = false;
    }
    unlock_waking(keeper, back && first);
    return back;
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
