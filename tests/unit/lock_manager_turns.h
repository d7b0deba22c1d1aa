/* SPDX-License-Identifier: Apache-2.0
 *
 * The manager without its thread, turn by turn: the test is the engine and the clock. For one file of a program. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "locks/manager_inside.h"

#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)
#define REQUESTS_MAX (WEIR_LOCK_BATCH_MAX + 2)

static struct weir_lock_manager *manager;
static struct weir_lock_manager_request requests[REQUESTS_MAX];
static unsigned answers[REQUESTS_MAX];
static const char *name; /* of the lock that is asked for */
static uint64_t now_ns, poll_ns;
static uint64_t number;        /* of the newest grant */
static const char *named = ""; /* who has it */
static bool is_down;           /* as the engine says */
static unsigned idles;         /* how often it was idle */
static uint64_t locks_held;    /* as it says */
static unsigned destroyed;     /* how often */
static bool has_quick;         /* the next engine answers at once, */
static bool is_quick;          /* if it can, */
static enum weir_lock_said quick_said;
static unsigned quick_calls; /* and was asked so often */

static void show_state(struct weir_lock_engine *engine, struct weir_lock_engine_state *ret_state)
{
    (void)engine;
    *ret_state = (struct weir_lock_engine_state){ .name = "test", .up = !is_down };
}

static void destroy(struct weir_lock_engine *engine)
{
    (void)engine;
    destroyed++;
}

static void idle(struct weir_lock_engine *engine)
{
    (void)engine;
    idles++;
}

static void on_done(struct weir_lock_manager_request *request)
{
    assert_true(request->own.finished && request->own.waiter.phase == WEIR_WAITER_DONE);
    assert_false(request->own.left && request->own.claims); /* nobody ends what it claims */
    answers[request - requests]++;
}

static bool count_held(struct weir_lock_engine *engine, uint64_t *ret_count)
{
    (void)engine;
    *ret_count = locks_held;
    return locks_held > 0;
}

static bool answer_quickly(struct weir_lock_engine *engine, struct weir_lock_op *op)
{
    (void)engine;
    quick_calls++;
    op->said = quick_said;
    return is_quick;
}

static int try_begin(const struct weir_lock_manager_options *options)
{
    static struct weir_lock_engine_ops ops = {
        .state = show_state, .destroy = destroy, .idle = idle, .held = count_held
    };
    static struct weir_lock_engine engine = { .ops = &ops };
    ops.poll_ns = poll_ns;
    ops.quick = has_quick ? answer_quickly : NULL;
    poll_ns = 0;
    has_quick = false;
    is_quick = true;
    quick_said = WEIR_LOCK_GRANTED;
    quick_calls = 0;
    is_down = false;
    idles = 0;
    locks_held = 0;
    name = "lock";
    named = "";
    number = 1;
    memset(answers, 0, sizeof answers);
    now_ns = 1000 * SECOND;
    destroyed = 0;
    return weir_lock_manager_create_threadless(&engine, options, &manager);
}

static void begin(const struct weir_lock_manager_options *options)
{
    assert_int_equal(try_begin(options), 0);
}

static int try_submit(size_t i, enum weir_lock_verb verb, const char *owner, uint64_t ttl_ns, uint64_t wait_ns)
{
    requests[i] = (struct weir_lock_manager_request){
        .op = { .verb = verb, .name = { name, strlen(name) }, .owner = { owner, strlen(owner) }, .ttl_ns = ttl_ns },
        .wait_ns = wait_ns,
        .done = on_done,
    };
    int error = weir_lock_manager_submit(manager, &requests[i]);
    assert_true(requests[i].own.bucket < WEIR_LOCK_MANAGER_BUCKETS);
    return error;
}

static void submit(size_t i, enum weir_lock_verb verb, const char *owner, uint64_t ttl_ns, uint64_t wait_ns)
{
    assert_int_equal(try_submit(i, verb, owner, ttl_ns, wait_ns), 0);
}

/* Another holder than the last has a grant of his own. */
static void say(size_t i, enum weir_lock_verb asked, enum weir_lock_said said, const char *holder, uint64_t lease_ns)
{
    struct weir_lock_op *op = &manager->ops[i];
    const struct weir_lock_op *from = &manager->asked[i]->op;
    assert_int_equal(op->verb, asked);
    assert_true(op->name.data == from->name.data && op->name.size == from->name.size);
    assert_true(op->owner.data == from->owner.data && op->owner.size == from->owner.size);
    assert_true(op->ttl_ns == from->ttl_ns && op->seen == from->seen && op->due_ns == 0);
    op->status = 0;
    op->said = said;
    number += *holder && strcmp(holder, named) != 0;
    named = *holder ? holder : named;
    op->token = (struct weir_token){ 1, number };
    op->lease_ns = lease_ns;
    op->holder_size = strlen(holder);
    memcpy(op->holder, holder, op->holder_size);
}

/* It needs a raise, which is due in a second. */
static inline void say_later(size_t i, enum weir_lock_verb asked)
{
    say(i, asked, WEIR_LOCK_FREE, "", 0);
    manager->ops[i].status = WEIR_EDOWN;
    manager->ops[i].due_ns = now_ns + SECOND;
}

static void begin_turn(size_t count)
{
    assert_true(weir_lock_manager_begin(manager, now_ns));
    assert_int_equal(manager->count, count);
}

/* One turn, in which the engine is asked one thing and says this. */
static inline void turn(enum weir_lock_verb asked, enum weir_lock_said said, const char *holder, uint64_t lease_ns)
{
    begin_turn(1);
    say(0, asked, said, holder, lease_ns);
    weir_lock_manager_end(manager, now_ns);
}

/* H (0) holds it for a minute, A (1) waits for it. */
static inline void begin_waiting(const struct weir_lock_manager_options *options)
{
    begin(options);
    submit(0, WEIR_LOCK_ACQUIRE, "H", 60 * SECOND, 0);
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "H", 60 * SECOND);
    assert_int_equal(answers[0], 1);
    weir_lock_manager_told(manager, &requests[0]);
    submit(1, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 600 * SECOND);
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "H", 60 * SECOND);
    assert_int_equal(manager->waits_due.count, 1);
    assert_int_equal(weir_due_next_ns(&manager->queues_due), now_ns + WEIR_WAITING_AGAIN_MAX_NS);
}
