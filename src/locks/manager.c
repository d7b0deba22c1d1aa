/* SPDX-License-Identifier: Apache-2.0
 *
 * The manager's thread, and the functions that other threads call. The thread sleeps until a turn is due;
 * manager_turn.c begins the turn, the engine decides the batch while the mutex is free, and manager_turn.c ends the
 * turn. Other threads put their requests on a list under the mutex, and the first of them wakes the thread. Called
 * by src/serve/locks.c; the simulator (sim/locks_weir.c) makes a manager without the thread and takes the turns
 * itself. */
#include "locks/manager.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/checked.h"
#include "base/timing.h"
#include "locks/manager_inside.h"

#define WAITERS_MAX 65536
#define PENDING_MAX 65536
#define TIMEOUT_NS UINT64_C(2000000000)

/* ---- the thread ---- */

static void sleep_until_due(struct weir_lock_manager *manager)
{
    pthread_mutex_lock(&manager->mutex);
    uint64_t until_ns = weir_lock_manager_due_ns(manager, weir_timing_now(CLOCK_MONOTONIC));
    while (!weir_lock_manager_called(manager) && weir_timing_now(CLOCK_MONOTONIC) < until_ns)
        if (until_ns == UINT64_MAX)
            pthread_cond_wait(&manager->wake, &manager->mutex);
        else
            (void)weir_timing_wait(&manager->wake, &manager->mutex, until_ns);
    pthread_mutex_unlock(&manager->mutex);
}

static void *run(void *context)
{
    struct weir_lock_manager *manager = context;
    struct weir_lock_engine *engine = manager->engine;
    for (;;) {
        sleep_until_due(manager);
        if (!weir_lock_manager_begin(manager, weir_timing_now(CLOCK_MONOTONIC)))
            return NULL;
        if (manager->count > 0)
            engine->ops->apply(engine, manager->ops, manager->count,
                               weir_add_sat(manager->now_ns, manager->timeout_ns));
        weir_lock_manager_end(manager, weir_timing_now(CLOCK_MONOTONIC));
    }
}

/* ---- life ---- */

static int init(struct weir_lock_manager *manager, const struct weir_lock_manager_options *options)
{
    uint8_t secret[16];
    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
        return WEIR_EIO;
    manager->key = weir_sip_key_load(secret);
    manager->waiters_max = options->waiters_max ? options->waiters_max : WAITERS_MAX;
    manager->pending_max = options->pending_max ? options->pending_max : PENDING_MAX;
    manager->timeout_ns = options->timeout_ns ? options->timeout_ns : TIMEOUT_NS;
    manager->idle_ns = UINT64_MAX;
    size_t room = manager->waiters_max + manager->pending_max;
    manager->queues_due = (struct weir_due_heap){ calloc(room + 1, sizeof(struct weir_due *)), 0, room };
    manager->waits_due = (struct weir_due_heap){ calloc(room + 1, sizeof(struct weir_due *)), 0, room };
    if (!manager->queues_due.members || !manager->waits_due.members || weir_hash_init(&manager->queues) != 0 ||
        weir_hash_init(&manager->owners) != 0 || weir_hash_init(&manager->claims) != 0)
        return WEIR_ENOMEM;
    pthread_mutex_init(&manager->mutex, NULL);
    weir_assert(weir_timing_cond_init(&manager->wake) == 0);
    manager->engine->ops->state(manager->engine, &manager->counts.engine);
    manager->state = manager->counts;
    manager->made = true;
    return 0;
}

/* There are none where the thread has ended; a simulated process may die with those who wait. */
static void free_queues(struct weir_lock_manager *manager)
{
    for (size_t i = 0; manager->queues.count > 0 && i <= manager->queues.mask; i++)
        for (struct weir_hash_node *node = weir_hash_chain(&manager->queues, i), *next; node; node = next) {
            next = node->next;
            free((struct weir_lock_manager_queue *)node);
        }
}

void weir_lock_manager_destroy_threadless(struct weir_lock_manager *manager)
{
    if (manager->made) {
        pthread_cond_destroy(&manager->wake);
        pthread_mutex_destroy(&manager->mutex);
    }
    manager->engine->ops->destroy(manager->engine);
    free(manager->waits_due.members);
    free(manager->queues_due.members);
    weir_hash_deinit(&manager->owners);
    weir_hash_deinit(&manager->claims);
    free_queues(manager);
    weir_hash_deinit(&manager->queues);
    free(manager);
}

int weir_lock_manager_create_threadless(struct weir_lock_engine *engine,
                                        const struct weir_lock_manager_options *options,
                                        struct weir_lock_manager **ret_manager)
{
    struct weir_lock_manager *manager = calloc(1, sizeof *manager);
    if (!manager) {
        engine->ops->destroy(engine);
        return WEIR_ENOMEM;
    }
    manager->engine = engine;
    int error = init(manager, options);
    if (error) {
        weir_lock_manager_destroy_threadless(manager);
        return error;
    }
    *ret_manager = manager;
    return 0;
}

int weir_lock_manager_create(struct weir_lock_engine *engine, const struct weir_lock_manager_options *options,
                             struct weir_lock_manager **ret_manager)
{
    struct weir_lock_manager *manager;
    int error = weir_lock_manager_create_threadless(engine, options, &manager);
    if (error)
        return error;
    if (pthread_create(&manager->thread, NULL, run, manager) != 0) {
        weir_lock_manager_destroy_threadless(manager);
        return WEIR_EIO;
    }
    *ret_manager = manager;
    return 0;
}

void weir_lock_manager_destroy(struct weir_lock_manager *manager)
{
    if (!manager)
        return;
    pthread_mutex_lock(&manager->mutex);
    manager->stopping = true;
    pthread_cond_signal(&manager->wake);
    pthread_mutex_unlock(&manager->mutex);
    pthread_join(manager->thread, NULL);
    weir_lock_manager_destroy_threadless(manager);
}

/* ---- from any thread ---- */

static void prepare(const struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    uint64_t hash = weir_siphash(&manager->key, request->op.name.data, request->op.name.size);
    request->own = (struct weir_lock_manager_own){ .bucket = (uint16_t)(hash % WEIR_LOCK_MANAGER_BUCKETS) };
    request->own.waiter.owner = (struct weir_owner){ request->op.owner.data, request->op.owner.size };
    request->own.waiter.seen = request->op.seen;
    if (request->op.verb == WEIR_LOCK_ACQUIRE || request->op.verb == WEIR_LOCK_RENEW)
        request->own.claim.hash = weir_siphash_joined(&manager->key, request->op.name.data, request->op.name.size,
                                                      request->op.owner.data, request->op.owner.size);
    request->waited = false;
    request->waiters = 0;
    request->op.status = 0;
    request->op.holder_size = 0;
    request->op.token = (struct weir_token){ 0 };
    request->op.lease_ns = 0;
}

bool weir_lock_manager_quick(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    const struct weir_lock_engine_ops *ops = manager->engine->ops;
    if (!ops->quick || (request->op.verb == WEIR_LOCK_ACQUIRE && request->wait_ns > 0))
        return false;
    prepare(manager, request);
    pthread_mutex_lock(&manager->mutex);
    bool idle = manager->under_way[request->own.bucket] == 0 && !manager->resting && !manager->stopping;
    bool done = idle && ops->quick(manager->engine, &request->op);
    if (done) {
        weir_lock_manager_count(&manager->counts, &request->op);
        weir_lock_manager_count(&manager->state, &request->op);
        weir_waiter_move(&request->own.waiter, WEIR_WAITER_DONE);
        manager->stirred = request->own.finished = true;
        if (request->op.status == 0 && request->op.said == WEIR_LOCK_GRANTED)
            weir_lock_manager_claim(manager, request);
    }
    pthread_mutex_unlock(&manager->mutex);
    return done;
}

/* With the mutex held. False: there is no room. */
static bool accept_request(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    if (manager->pending >= manager->pending_max || manager->stopping)
        return false;
    manager->pending++;
    manager->under_way[request->own.bucket]++;
    weir_lock_manager_push(&manager->submitted, request);
    return true;
}

/* The mutex is given back before the thread is woken: it would wake up only to wait for it. */
static void unlock_waking(struct weir_lock_manager *manager, bool wake)
{
    pthread_mutex_unlock(&manager->mutex);
    if (wake)
        pthread_cond_signal(&manager->wake);
}

int weir_lock_manager_submit(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    prepare(manager, request);
    pthread_mutex_lock(&manager->mutex);
    bool first = !manager->submitted.first, room = accept_request(manager, request);
    if (room) {
        manager->coming += request->op.verb == WEIR_LOCK_ACQUIRE;
        weir_lock_manager_claim(manager, request);
    }
    unlock_waking(manager, room && first);
    return room ? 0 : WEIR_ELIMIT;
}

void weir_lock_manager_told(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    if (!request->own.claims)
        return;
    pthread_mutex_lock(&manager->mutex);
    weir_lock_manager_unclaim(manager, request);
    pthread_mutex_unlock(&manager->mutex);
}

bool weir_lock_manager_take_back(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    pthread_mutex_lock(&manager->mutex);
    bool first = !manager->submitted.first,
         back = weir_lock_manager_forgoes(request) && accept_request(manager, request);
    weir_lock_manager_forget(manager, request);
    if (back) {
        weir_waiter_move(&request->own.waiter, WEIR_WAITER_RETURNING);
        request->op.verb = WEIR_LOCK_RELEASE;
        request->own.finished = request->own.decided = false;
    }
    unlock_waking(manager, back && first);
    return back;
}

void weir_lock_manager_client_gone(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    pthread_mutex_lock(&manager->mutex);
    if (!request->own.finished && !request->own.left) {
        request->own.left = true;
        request->own.next_left = manager->left;
        manager->left = request;
        pthread_cond_signal(&manager->wake);
    }
    pthread_mutex_unlock(&manager->mutex);
}

void weir_lock_manager_state(struct weir_lock_manager *manager, struct weir_lock_manager_state *ret_state)
{
    pthread_mutex_lock(&manager->mutex);
    *ret_state = manager->state;
    pthread_mutex_unlock(&manager->mutex);
    const struct weir_lock_engine_ops *ops = manager->engine->ops;
    ret_state->locks_known = ops->held && ops->held(manager->engine, &ret_state->locks);
}
