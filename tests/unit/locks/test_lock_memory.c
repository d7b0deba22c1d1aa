/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock manager and the fence where memory runs out, or a thread cannot be had. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "locks/manager_inside.h"
#include "no_memory.h"
#include "weir/fence.h"

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context);

static bool thread_denied;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context)
{
    return thread_denied ? EAGAIN : __real_pthread_create(thread, attributes, run, context);
}

static size_t engines_destroyed;

static void engine_state(struct weir_lock_engine *engine, struct weir_lock_engine_state *ret_state)
{
    (void)engine;
    *ret_state = (struct weir_lock_engine_state){ .name = "none", .up = true };
}

static void engine_destroy(struct weir_lock_engine *engine)
{
    (void)engine;
    engines_destroyed++;
}

static int answered;

static void on_answered(struct weir_lock_manager_request *request)
{
    answered = request->op.status;
}

/* One who asks, and stands in the queue of his name when the process ends: or is told that there was no room. */
static int ask_manager(struct weir_lock_manager *manager)
{
    static struct weir_lock_manager_request request;
    request = (struct weir_lock_manager_request){
        .op = { .verb = WEIR_LOCK_ACQUIRE, .name = { "name", 4 }, .owner = { "ada", 3 }, .ttl_ns = 1 << 30 },
        .done = on_answered,
    };
    answered = 0;
    assert_int_equal(weir_lock_manager_submit(manager, &request), 0);
    assert_true(weir_lock_manager_begin(manager, 1));
    if (manager->count > 0) /* the engine is never asked */
        return 0;
    weir_lock_manager_end(manager, 2);
    assert_int_equal(answered, WEIR_ELIMIT);
    return WEIR_ENOMEM;
}

static int make_manager(void)
{
    static const struct weir_lock_engine_ops ops = { .state = engine_state, .destroy = engine_destroy };
    struct weir_lock_engine engine = { .ops = &ops };
    struct weir_lock_manager *manager;
    engines_destroyed = 0;
    int error = weir_lock_manager_create_threadless(
        &engine, &(struct weir_lock_manager_options){ .waiters_max = 8, .pending_max = 8 }, &manager);
    if (!error) {
        error = ask_manager(manager);
        weir_lock_manager_destroy_threadless(manager);
    }
    assert_int_equal(engines_destroyed, 1); /* it is the manager's from the beginning */
    return error;
}

static int start_manager(void)
{
    static const struct weir_lock_engine_ops ops = { .state = engine_state, .destroy = engine_destroy };
    struct weir_lock_engine engine = { .ops = &ops };
    struct weir_lock_manager *manager;
    engines_destroyed = 0;
    int error = weir_lock_manager_create(&engine, &(struct weir_lock_manager_options){ .waiters_max = 8 }, &manager);
    if (!error)
        weir_lock_manager_destroy(manager);
    assert_int_equal(engines_destroyed, 1);
    return error;
}

static void a_lock_manager(void **state)
{
    (void)state;
    each_in_turn(make_manager, 5);
    each_in_turn(start_manager, 5);
    counts = thread_denied = true;
    granted = 1000;
    assert_int_equal(start_manager(), WEIR_EIO);
    counts = thread_denied = false;
    assert_int_equal(live_count, 0);
    assert_int_equal(mutexes, 0);
    weir_lock_manager_destroy(NULL);
}

static int make_fence(void)
{
    struct weir_fence *fence;
    int error = weir_fence_open(&(struct weir_fence_options){ .names_max = 4 }, &fence, NULL);
    if (error)
        return error;
    error = weir_fence_install(fence, "name", 4, (struct weir_token){ 1, 1 });
    weir_fence_close(fence);
    return error;
}

static void a_fence(void **state)
{
    (void)state;
    each_in_turn(make_fence, 3);
    weir_fence_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_lock_manager), cmocka_unit_test(a_fence) };
    return cmocka_run_group_tests_name("lock memory", tests, NULL, NULL);
}
