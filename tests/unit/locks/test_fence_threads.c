/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks by name: what threads may do at once. */
#include <pthread.h>

#include "fence_fixture.h"

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    int stage;
};

static void gate_set(struct gate *gate, int stage)
{
    pthread_mutex_lock(&gate->mutex);
    gate->stage = stage;
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->mutex);
}

static void gate_wait(struct gate *gate, int stage)
{
    pthread_mutex_lock(&gate->mutex);
    while (gate->stage < stage)
        pthread_cond_wait(&gate->moved, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

struct slow {
    struct weir_fence *fence;
    struct gate gate;
    struct gate installed;
    bool overtaken;
};

static int slow_write(void *context)
{
    struct slow *slow = context;
    gate_set(&slow->gate, 1);
    gate_wait(&slow->gate, 2);
    pthread_mutex_lock(&slow->installed.mutex);
    slow->overtaken = slow->installed.stage > 0;
    pthread_mutex_unlock(&slow->installed.mutex);
    return 0;
}

static void *slow_writer(void *context)
{
    struct slow *slow = context;
    int error = weir_fence_write(slow->fence, "l", 1, (struct weir_token){ 7, 1 }, slow_write, slow);
    return error ? slow : NULL;
}

static void *next_holder(void *context)
{
    struct slow *slow = context;
    int error = install(slow->fence, "l", 7, 2);
    gate_set(&slow->installed, 1);
    return error ? slow : NULL;
}

static void fence__an_install_waits_for_the_write_and_other_names_do_not(void **state)
{
    (void)state;
    struct slow slow = { .fence = fence_open(path),
                         .gate = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 },
                         .installed = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 } };
    pthread_t writer, holder;
    void *failed = NULL;
    assert_int_equal(install(slow.fence, "l", 7, 1), 0);
    assert_int_equal(pthread_create(&writer, NULL, slow_writer, &slow), 0);
    gate_wait(&slow.gate, 1);
    assert_int_equal(pthread_create(&holder, NULL, next_holder, &slow), 0);
    assert_int_equal(install(slow.fence, "other", 7, 1), 0);
    assert_int_equal(try_write(slow.fence, "other", 7, 1), 0);
    assert_int_equal(number_of(slow.fence, "l"), 1);
    usleep(20000); /* for an install that would not wait */
    gate_set(&slow.gate, 2);
    pthread_join(writer, &failed);
    assert_null(failed);
    assert_false(slow.overtaken);
    pthread_join(holder, &failed);
    assert_null(failed);
    assert_int_equal(try_write(slow.fence, "l", 7, 1), WEIR_EFENCED);
    weir_fence_close(slow.fence);
}

#define HOLDERS 4
#define TURNS 200
struct shared {
    struct weir_fence *fence;
    int value; /* changed and read only under the fence, so that TSan watches it */
    int added[HOLDERS];
};
struct holder {
    struct shared *shared;
    int id, read;
};

static int read_value(void *context)
{
    struct holder *holder = context;
    holder->read = holder->shared->value;
    return 0;
}

static int write_value(void *context)
{
    struct holder *holder = context;
    holder->shared->value = holder->read + 1;
    return 0;
}

static void *hold(void *context)
{
    struct holder *holder = context;
    struct weir_fence *fence = holder->shared->fence;
    for (int turn = 0; turn < TURNS; turn++) {
        struct weir_token token = { 7, (uint64_t)(turn * HOLDERS + holder->id + 1) };
        if (weir_fence_install(fence, "l", 1, token) == 0 &&
            weir_fence_write(fence, "l", 1, token, read_value, holder) == 0 &&
            weir_fence_write(fence, "l", 1, token, write_value, holder) == 0)
            holder->shared->added[holder->id]++;
    }
    return NULL;
}

static void fence__no_acknowledged_update_is_lost(void **state)
{
    (void)state;
    struct shared shared = { .fence = fence_open(path) };
    struct holder holders[HOLDERS];
    pthread_t threads[HOLDERS];
    int added = 0;
    for (int i = 0; i < HOLDERS; i++) {
        holders[i] = (struct holder){ &shared, i, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, hold, &holders[i]), 0);
    }
    for (int i = 0; i < HOLDERS; i++) {
        pthread_join(threads[i], NULL);
        added += shared.added[i];
    }
    assert_int_equal(shared.value, added);
    assert_true(added > 0);
    weir_fence_close(shared.fence);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fence__an_install_waits_for_the_write_and_other_names_do_not, folder_make,
                                        folder_remove),
        cmocka_unit_test_setup_teardown(fence__no_acknowledged_update_is_lost, folder_make, folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
