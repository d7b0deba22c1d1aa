/* SPDX-License-Identifier: Apache-2.0
 *
 * Between a loop and the manager: what becomes of a grant whose asker has gone, which no client can time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "locks/manager.h"
#include "serve/locks.h"
#include "serve/loop.h"

#define SECOND UINT64_C(1000000000)

/* ---- one lock, whatever its name, for ever ---- */

static struct {
    pthread_mutex_t mutex;
    char owner[8]; /* "" = free */
    uint64_t number;
} store = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void decide(struct weir_lock_op *op)
{
    char owner[sizeof(store.owner)] = "";
    memcpy(owner, op->owner.data, op->owner.size);
    bool mine = strcmp(store.owner, owner) == 0, held = store.owner[0] != '\0';
    op->status = 0;
    op->said = !held || (op->verb != WEIR_LOCK_SHOW && !mine) ? WEIR_LOCK_FREE : WEIR_LOCK_GRANTED;
    if (op->verb == WEIR_LOCK_ACQUIRE) {
        op->said = held && !mine ? WEIR_LOCK_HELD : WEIR_LOCK_GRANTED;
        store.number += held ? 0 : 1;
        if (!held)
            memcpy(store.owner, owner, sizeof(owner));
    }
    op->token = (struct weir_token){ 1, store.number };
    op->lease_ns = 3600 * SECOND;
    op->holder_size = strlen(store.owner);
    memcpy(op->holder, store.owner, op->holder_size);
    if (op->verb == WEIR_LOCK_RELEASE && op->said == WEIR_LOCK_GRANTED)
        store.owner[0] = '\0';
}

static void apply(struct weir_lock_engine *engine, struct weir_lock_op *ops, size_t count, uint64_t deadline_ns)
{
    (void)engine, (void)deadline_ns;
    pthread_mutex_lock(&store.mutex);
    for (size_t i = 0; i < count; i++)
        decide(&ops[i]);
    pthread_mutex_unlock(&store.mutex);
}

static void engine_state(struct weir_lock_engine *engine, struct weir_lock_engine_state *ret_state)
{
    (void)engine;
    *ret_state = (struct weir_lock_engine_state){ .name = "fake", .up = true };
}

static void engine_destroy(struct weir_lock_engine *engine)
{
    (void)engine;
}

static bool quick_may; /* before the loop's thread asks, and only then */

static bool quick(struct weir_lock_engine *engine, struct weir_lock_op *op)
{
    if (quick_may)
        apply(engine, op, 1, 0);
    return quick_may;
}

static const struct weir_lock_engine_ops engine_ops = {
    .apply = apply, .state = engine_state, .destroy = engine_destroy, .quick = quick
};

/* ---- a loop that asks ---- */

static struct weir_lock_engine engine = { &engine_ops };
static struct weir_common common;
static struct weir_loop loop;
static struct weir_lock_ask *told[4]; /* and not ended */

static int begin(void **state)
{
    (void)state;
    const struct weir_lock_service_options options = { .engine = &engine, .loops = 1 };
    store.owner[0] = '\0';
    memset(told, 0, sizeof(told));
    common = (struct weir_common){ .loops = &loop, .loop_count = 1 };
    loop = (struct weir_loop){ .common = &common };
    assert_int_equal(uv_loop_init(&loop.uv), 0);
    assert_int_equal(weir_lock_service_create(&options, &common.locks), 0);
    assert_int_equal(weir_lock_inbox_open(&loop), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    weir_lock_inbox_close(&loop);
    uv_run(&loop.uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop.uv), 0);
    weir_lock_service_destroy(common.locks);
    return 0;
}

static void then(struct weir_lock_ask *ask, void *context)
{
    (void)context;
    size_t i = 0;
    while (told[i])
        i++;
    told[i] = ask;
}

static bool take_told(const struct weir_lock_ask *ask)
{
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        if (told[i] == ask) {
            told[i] = NULL;
            return true;
        }
    }
    return false;
}

static struct weir_lock_ask *ask(enum weir_lock_verb verb, const char *owner, uint64_t wait_ns)
{
    const struct weir_lock_wish wish = {
        .verb = verb, .name = { "a", 1 }, .owner = { owner, strlen(owner) }, .ttl_ns = 3600 * SECOND, .wait_ns = wait_ns
    };
    struct weir_lock_ask *asked = NULL;
    assert_int_equal(weir_lock_ask_create(&loop, &wish, then, NULL, &asked), 0);
    return asked;
}

/* Runs the loop until it is told. */
static struct weir_lock_op answered(struct weir_lock_ask *asked)
{
    while (!take_told(asked))
        uv_run(&loop.uv, UV_RUN_ONCE);
    struct weir_lock_op op = *weir_lock_ask_op(asked);
    weir_lock_ask_end(asked);
    return op;
}

/* Told or not. */
static void abandon(struct weir_lock_ask *asked)
{
    (void)take_told(asked);
    weir_lock_ask_abandon(asked);
}

static struct weir_lock_op asked_for(enum weir_lock_verb verb, const char *owner)
{
    return answered(ask(verb, owner, 0));
}

static struct weir_lock_manager_state seen(void)
{
    struct weir_lock_manager_state state;
    weir_lock_service_state(common.locks, &state);
    return state;
}

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
}

static struct weir_lock_ask *queued(const char *owner, size_t waiting)
{
    struct weir_lock_ask *asked = ask(WEIR_LOCK_ACQUIRE, owner, 600 * SECOND);
    while (seen().waiting != waiting)
        nap();
    return asked;
}

/* Frees what "x" holds, and waits until the next has been granted it, though its loop has not heard of it. */
static void hand_on(void)
{
    uint64_t granted = seen().granted;
    assert_int_equal(asked_for(WEIR_LOCK_RELEASE, "x").said, WEIR_LOCK_GRANTED);
    while (seen().granted != granted + 1)
        nap();
}

/* ---- tests ---- */

static void a_grant_that_nobody_hears_of__is_released(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(asked_for(WEIR_LOCK_ACQUIRE, "x").said, WEIR_LOCK_GRANTED);
        struct weir_lock_ask *gone = queued("y", 1);
        hand_on();
        abandon(gone);
        while (asked_for(WEIR_LOCK_SHOW, "").said != WEIR_LOCK_FREE)
            nap();
    }
}

static void a_grant_that_its_owner_asks_for_again__is_kept(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(asked_for(WEIR_LOCK_ACQUIRE, "x").said, WEIR_LOCK_GRANTED);
        struct weir_lock_ask *gone = queued("y", 1);
        hand_on();
        struct weir_lock_ask *again = ask(WEIR_LOCK_ACQUIRE, "y", 0);
        abandon(gone);
        assert_int_equal(answered(again).said, WEIR_LOCK_GRANTED);
        assert_int_equal(asked_for(WEIR_LOCK_RENEW, "y").said, WEIR_LOCK_GRANTED);
        assert_int_equal(asked_for(WEIR_LOCK_RELEASE, "y").said, WEIR_LOCK_GRANTED);
    }
}

static void a_lease_from_before__is_not_released(void **state)
{
    (void)state;
    assert_int_equal(asked_for(WEIR_LOCK_ACQUIRE, "x").said, WEIR_LOCK_GRANTED);
    for (int i = 0; i < 200; i++) {
        uint64_t granted = seen().granted;
        struct weir_lock_ask *gone = ask(WEIR_LOCK_ACQUIRE, "x", 0);
        while (i % 2 && seen().granted == granted)
            nap();
        abandon(gone);
        assert_int_equal(asked_for(WEIR_LOCK_RENEW, "x").said, WEIR_LOCK_GRANTED);
    }
}

static void who_leaves_while_waiting__is_not_told(void **state)
{
    (void)state;
    assert_int_equal(asked_for(WEIR_LOCK_ACQUIRE, "x").said, WEIR_LOCK_GRANTED);
    struct weir_lock_ask *gone = queued("y", 1), *next = queued("z", 2);
    abandon(gone);
    while (seen().waiting != 1)
        nap();
    assert_int_equal(asked_for(WEIR_LOCK_RELEASE, "x").said, WEIR_LOCK_GRANTED);
    assert_int_equal(answered(next).said, WEIR_LOCK_GRANTED);
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
        assert_null(told[i]);
}

static void a_drain__answers_who_waits_and_lets_nobody_wait(void **state)
{
    (void)state;
    assert_int_equal(asked_for(WEIR_LOCK_ACQUIRE, "x").said, WEIR_LOCK_GRANTED);
    struct weir_lock_ask *waiting = queued("y", 1);
    weir_lock_inbox_drain(&loop);
    assert_int_equal(answered(waiting).said, WEIR_LOCK_HELD);
    assert_int_equal(answered(ask(WEIR_LOCK_ACQUIRE, "z", 600 * SECOND)).said, WEIR_LOCK_HELD);
}

static void what_is_decided_at_once__is_told_by_the_call(void **state)
{
    (void)state;
    assert_int_equal(asked_for(WEIR_LOCK_ACQUIRE, "x").said, WEIR_LOCK_GRANTED);
    quick_may = true;
    for (int i = 0; i < 2; i++) {
        struct weir_lock_ask *asked = ask(WEIR_LOCK_RELEASE, "x", 0);
        assert_true(weir_lock_ask_decided_at_once(asked));
        assert_int_equal(weir_lock_ask_op(asked)->said, i == 0 ? WEIR_LOCK_GRANTED : WEIR_LOCK_FREE);
        if (i == 0)
            weir_lock_ask_end(asked);
        else
            weir_lock_ask_abandon(asked);
    }
    quick_may = false;
    struct weir_lock_ask *asked = ask(WEIR_LOCK_SHOW, "x", 0);
    assert_false(weir_lock_ask_decided_at_once(asked));
    assert_int_equal(answered(asked).said, WEIR_LOCK_FREE);
    assert_null(told[0]);
    assert_int_equal(seen().released, 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(a_grant_that_nobody_hears_of__is_released),
        CASE(a_grant_that_its_owner_asks_for_again__is_kept),
        CASE(a_lease_from_before__is_not_released),
        CASE(who_leaves_while_waiting__is_not_told),
        CASE(a_drain__answers_who_waits_and_lets_nobody_wait),
        CASE(what_is_decided_at_once__is_told_by_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
