/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine for tests of the manager: in memory, with a gate before it, and failures on demand. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <pthread.h>

#include "core/lease/holders.h"
#include "locks/manager.h"
#include "random.h"

#define SECOND UINT64_C(1000000000)
#define LOCKS 8
#define FAKE_SEEN 7 /* asks for a raise */

struct fake_lock {
    struct weir_holders holders;
    struct weir_lease_holder holder;
    char owner[32];
    size_t owner_size;
};

struct fake {
    struct weir_lock_engine base;
    struct weir_lock_engine_ops ops;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool shut;             /* apply waits at the gate */
    size_t passes;         /* so many batches pass it all the same */
    size_t arrivals;       /* batches that came to it */
    uint64_t slow_ns;      /* so long after a batch was decided it is answered */
    int fault;             /* of every op that would need the store */
    uint64_t left_ns;      /* from when the last batch came to it until its deadline */
    uint64_t due_after_ns; /* of every op that asks for a raise, by `seen`; 0: it is made */
    bool store_raises;     /* of every op that would be given a new token, too */
    size_t put_off_times;
    uint64_t number;
    size_t asked, asked_most, idles, destroyed;
    bool down; /* as it says */
    struct fake_lock locks[LOCKS];
};

static struct fake fake;
static struct weir_lock_manager *manager;

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static void nap(uint64_t ns)
{
    struct timespec left = { .tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND) };
    nanosleep(&left, NULL);
}

/* ---- the engine ---- */

static uint64_t fake_holder(const struct fake_lock *lock, struct weir_slice owner)
{
    return lock->owner_size == owner.size && memcmp(lock->owner, owner.data, owner.size) == 0 ? 1 : 2;
}

/* With the mutex held. */
static void fake_decide(struct weir_lock_op *op, uint64_t now)
{
    struct fake_lock *lock = &fake.locks[((const char *)op->name.data)[0] - 'a'];
    uint64_t holder = fake_holder(lock, op->owner);
    struct weir_lease_holder held_by;
    op->status = op->verb == WEIR_LOCK_SHOW ? 0 : fake.fault;
    op->said = WEIR_LOCK_FREE;
    bool anew = op->verb == WEIR_LOCK_ACQUIRE && weir_holders_expire(&lock->holders, now) == 0;
    bool asks = (op->verb == WEIR_LOCK_ACQUIRE || op->verb == WEIR_LOCK_RAISE) && op->seen == FAKE_SEEN;
    if (fake.due_after_ns > 0 && (asks || (fake.store_raises && anew))) {
        op->status = WEIR_EDOWN;
        op->due_ns = now + fake.due_after_ns;
        fake.put_off_times++;
    }
    if (op->status)
        return;
    if (op->verb == WEIR_LOCK_ACQUIRE) {
        enum weir_holders_answer answer = weir_holders_take(&lock->holders, holder, fake.number + 1, op->ttl_ns, now,
                                                            &held_by);
        op->said = answer == WEIR_HOLDERS_HELD ? WEIR_LOCK_HELD : WEIR_LOCK_GRANTED;
        if (answer == WEIR_HOLDERS_GRANTED) {
            fake.number++;
            lock->holder.id = 1;
            memcpy(lock->owner, op->owner.data, op->owner.size);
            lock->owner_size = op->owner.size;
        }
    } else if (op->verb == WEIR_LOCK_RENEW) {
        op->said = weir_holders_renew(&lock->holders, holder, op->ttl_ns, now, &held_by) ? WEIR_LOCK_GRANTED
                                                                                         : WEIR_LOCK_FREE;
    } else if (op->verb == WEIR_LOCK_RELEASE) {
        op->said = weir_holders_release(&lock->holders, holder, now) ? WEIR_LOCK_GRANTED : WEIR_LOCK_FREE;
    } else if (weir_holders_expire(&lock->holders, now) > 0) {
        op->said = WEIR_LOCK_GRANTED;
    }
    if (op->said == WEIR_LOCK_FREE)
        return;
    op->token = (struct weir_token){ 1, lock->holder.number };
    op->lease_ns = lock->holder.end_ns > now ? lock->holder.end_ns - now : 0;
    op->holder_size = lock->owner_size;
    memcpy(op->holder, lock->owner, lock->owner_size);
}

static void fake_apply(struct weir_lock_engine *engine, struct weir_lock_op *ops, size_t count, uint64_t deadline_ns)
{
    (void)engine;
    pthread_mutex_lock(&fake.mutex);
    fake.arrivals++;
    fake.left_ns = deadline_ns - now_ns();
    pthread_cond_broadcast(&fake.changed);
    while (fake.shut && fake.passes == 0)
        pthread_cond_wait(&fake.changed, &fake.mutex);
    fake.passes -= fake.shut ? 1 : 0;
    fake.asked += count;
    fake.asked_most = count > fake.asked_most ? count : fake.asked_most;
    uint64_t now = now_ns();
    for (size_t i = 0; i < count; i++)
        fake_decide(&ops[i], now);
    uint64_t slow_ns = fake.slow_ns;
    pthread_mutex_unlock(&fake.mutex);
    nap(slow_ns);
}

static void fake_state(struct weir_lock_engine *engine, struct weir_lock_engine_state *ret_state)
{
    (void)engine;
    pthread_mutex_lock(&fake.mutex);
    *ret_state = (struct weir_lock_engine_state){ .name = "fake", .up = !fake.down };
    pthread_mutex_unlock(&fake.mutex);
}

static void fake_destroy(struct weir_lock_engine *engine)
{
    (void)engine;
    fake.destroyed++;
}

static void fake_idle(struct weir_lock_engine *engine)
{
    (void)engine;
    pthread_mutex_lock(&fake.mutex);
    fake.idles++;
    pthread_mutex_unlock(&fake.mutex);
}

/* ---- what tests do to it ---- */

static void begin(const struct weir_lock_manager_options *options, uint64_t poll_ns)
{
    fake = (struct fake){ .ops = { .apply = fake_apply,
                                   .state = fake_state,
                                   .destroy = fake_destroy,
                                   .idle = fake_idle,
                                   .poll_ns = poll_ns } };
    fake.base.ops = &fake.ops;
    pthread_mutex_init(&fake.mutex, NULL);
    pthread_cond_init(&fake.changed, NULL);
    for (size_t i = 0; i < LOCKS; i++)
        fake.locks[i].holders = (struct weir_holders){ .out = &fake.locks[i].holder, .max = 1 };
    assert_int_equal(weir_lock_manager_create(&fake.base, options, &manager), 0);
}

static void end(void)
{
    weir_lock_manager_destroy(manager);
    assert_int_equal(fake.destroyed, 1);
    pthread_cond_destroy(&fake.changed);
    pthread_mutex_destroy(&fake.mutex);
}

static inline void gate(bool shut)
{
    pthread_mutex_lock(&fake.mutex);
    fake.shut = shut;
    fake.passes = fake.arrivals = 0;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.mutex);
}

/* Until the manager stands before the shut gate with a batch: the one after those that passed. */
static void await_at_gate(void)
{
    pthread_mutex_lock(&fake.mutex);
    while (fake.arrivals == 0)
        pthread_cond_wait(&fake.changed, &fake.mutex);
    pthread_mutex_unlock(&fake.mutex);
}

/* Lets the batch at the gate pass, and waits for the next. */
static inline void pass_one(void)
{
    pthread_mutex_lock(&fake.mutex);
    fake.arrivals = 0;
    fake.passes = 1;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.mutex);
    await_at_gate();
}

static inline void set_slow(uint64_t slow_ns)
{
    pthread_mutex_lock(&fake.mutex);
    fake.slow_ns = slow_ns;
    pthread_mutex_unlock(&fake.mutex);
}

static inline void set_fault(int fault)
{
    pthread_mutex_lock(&fake.mutex);
    fake.fault = fault;
    pthread_mutex_unlock(&fake.mutex);
}

/* 0: raises are made; else they are put off for so long, again and again; one that the store needs, if it does. */
static inline void set_raises_due(uint64_t after_ns, bool store_raises)
{
    pthread_mutex_lock(&fake.mutex);
    fake.due_after_ns = after_ns;
    fake.store_raises = store_raises;
    pthread_mutex_unlock(&fake.mutex);
}

/* As another weir would, which shares the store. With the mutex held. */
static struct weir_lock_op elsewhere_held(enum weir_lock_verb verb, const char *name, const char *owner,
                                          uint64_t ttl_ns)
{
    struct weir_lock_op op = {
        .verb = verb, .name = { name, strlen(name) }, .owner = { owner, strlen(owner) }, .ttl_ns = ttl_ns
    };
    fake_decide(&op, now_ns());
    return op;
}

static inline struct weir_lock_op elsewhere(enum weir_lock_verb verb, const char *name, const char *owner,
                                            uint64_t ttl_ns)
{
    pthread_mutex_lock(&fake.mutex);
    struct weir_lock_op op = elsewhere_held(verb, name, owner, ttl_ns);
    pthread_mutex_unlock(&fake.mutex);
    return op;
}

/* ---- requests ---- */

struct sent {
    struct weir_lock_manager_request request;
    char owner[32];
    unsigned done; /* how often; atomic */
    bool untold;   /* its client does not hear of it */
    uint64_t order;
};

static uint64_t answers;
static bool is_untold; /* of what is sent from now on */

static void on_done(struct weir_lock_manager_request *request)
{
    struct sent *sent = request->context;
    if (!sent->untold)
        weir_lock_manager_told(manager, request);
    sent->order = __atomic_add_fetch(&answers, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&sent->done, 1, __ATOMIC_RELEASE);
}

static int try_send(struct sent *sent, enum weir_lock_verb verb, const char *name, const char *owner, uint64_t wait_ns)
{
    *sent = (struct sent){ .untold = is_untold };
    snprintf(sent->owner, sizeof sent->owner, "%s", owner);
    sent->request.op = (struct weir_lock_op){ .verb = verb,
                                              .name = { name, strlen(name) },
                                              .owner = { sent->owner, strlen(sent->owner) },
                                              .ttl_ns = 60 * SECOND };
    sent->request.wait_ns = wait_ns;
    sent->request.done = on_done;
    sent->request.context = sent;
    return weir_lock_manager_submit(manager, &sent->request);
}

static void send(struct sent *sent, enum weir_lock_verb verb, const char *name, const char *owner, uint64_t wait_ns)
{
    assert_int_equal(try_send(sent, verb, name, owner, wait_ns), 0);
}

static bool is_done(const struct sent *sent)
{
    return __atomic_load_n(&sent->done, __ATOMIC_ACQUIRE) > 0;
}

static const struct weir_lock_op *hear(const struct sent *sent)
{
    while (!is_done(sent))
        nap(50000);
    assert_int_equal(sent->done, 1);
    return &sent->request.op;
}

static struct weir_token assert_granted(const struct sent *sent)
{
    const struct weir_lock_op *op = hear(sent);
    assert_int_equal(op->status, 0);
    assert_int_equal(op->said, WEIR_LOCK_GRANTED);
    return op->token;
}

static inline void assert_held(const struct sent *sent, const char *holder)
{
    const struct weir_lock_op *op = hear(sent);
    assert_int_equal(op->status, 0);
    assert_int_equal(op->said, WEIR_LOCK_HELD);
    if (holder) {
        assert_int_equal(op->holder_size, strlen(holder));
        assert_memory_equal(op->holder, holder, op->holder_size);
    }
}

static inline void assert_status(const struct sent *sent, int status)
{
    assert_int_equal(hear(sent)->status, status);
}

static void acquire(struct sent *sent, const char *name, const char *owner)
{
    send(sent, WEIR_LOCK_ACQUIRE, name, owner, 0);
}

static void queue_up(struct sent *sent, const char *name, const char *owner)
{
    send(sent, WEIR_LOCK_ACQUIRE, name, owner, 600 * SECOND);
}

static void release(const char *name, const char *owner)
{
    struct sent sent;
    send(&sent, WEIR_LOCK_RELEASE, name, owner, 0);
    assert_granted(&sent);
}

static struct weir_lock_manager_state shown(void)
{
    struct weir_lock_manager_state state;
    weir_lock_manager_state(manager, &state);
    return state;
}

static void await_waiting(size_t count)
{
    while (shown().waiting != count)
        nap(50000);
}
