/* SPDX-License-Identifier: Apache-2.0
 *
 * What the manager answers at once, beside a batch that is being made durable; and what it must not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <pthread.h>

#include "locks/manager.h"

#define SECOND UINT64_C(1000000000)

/* ---- an engine that grants all that it is asked, behind a gate ---- */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool shut;
    size_t batches, quick, idles;
} fake = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void apply(struct weir_lock_engine *engine, struct weir_lock_op *ops, size_t count, uint64_t deadline_ns)
{
    (void)engine, (void)deadline_ns;
    pthread_mutex_lock(&fake.mutex);
    fake.batches++;
    pthread_cond_broadcast(&fake.changed);
    while (fake.shut)
        pthread_cond_wait(&fake.changed, &fake.mutex);
    for (size_t i = 0; i < count; i++) {
        ops[i].status = 0;
        ops[i].said = WEIR_LOCK_GRANTED;
        ops[i].lease_ns = 60 * SECOND;
    }
    pthread_mutex_unlock(&fake.mutex);
}

static bool quick(struct weir_lock_engine *engine, struct weir_lock_op *op)
{
    (void)engine;
    op->said = WEIR_LOCK_GRANTED;
    pthread_mutex_lock(&fake.mutex);
    fake.quick++;
    pthread_mutex_unlock(&fake.mutex);
    return true;
}

static void idle(struct weir_lock_engine *engine)
{
    (void)engine;
    pthread_mutex_lock(&fake.mutex);
    fake.idles++;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.mutex);
}

static void show_state(struct weir_lock_engine *engine, struct weir_lock_engine_state *ret_state)
{
    (void)engine;
    *ret_state = (struct weir_lock_engine_state){ .name = "fake", .up = true };
}

static void destroy(struct weir_lock_engine *engine)
{
    (void)engine;
}

static const struct weir_lock_engine_ops OPS = {
    .apply = apply, .state = show_state, .destroy = destroy, .idle = idle, .quick = quick
};
static struct weir_lock_engine engine = { &OPS };
static struct weir_lock_manager *manager;

static int begin(void **state)
{
    (void)state;
    fake.shut = false;
    fake.batches = fake.quick = fake.idles = 0;
    return weir_lock_manager_create(&engine, &(struct weir_lock_manager_options){ 0 }, &manager);
}

static int end(void **state)
{
    (void)state;
    weir_lock_manager_destroy(manager);
    return 0;
}

/* ---- requests ---- */

struct sent {
    struct weir_lock_manager_request request;
    bool done; /* atomic */
};

static void on_done(struct weir_lock_manager_request *request)
{
    weir_lock_manager_told(manager, request);
    __atomic_store_n(&((struct sent *)request->context)->done, true, __ATOMIC_RELEASE);
}

static void prepare(struct sent *sent, enum weir_lock_verb verb, const char *name, const char *owner)
{
    *sent = (struct sent){ 0 };
    sent->request.op = (struct weir_lock_op){
        .verb = verb, .name = { name, strlen(name) }, .owner = { owner, strlen(owner) }, .ttl_ns = 60 * SECOND
    };
    sent->request.done = on_done;
    sent->request.context = sent;
}

static bool is_quick(enum weir_lock_verb verb, const char *name, const char *owner)
{
    struct sent sent;
    prepare(&sent, verb, name, owner);
    bool done = weir_lock_manager_quick(manager, &sent.request);
    assert_int_equal(sent.request.own.waiter.phase, done ? WEIR_WAITER_DONE : WEIR_WAITER_COME);
    return done;
}

static void submit(struct sent *sent, enum weir_lock_verb verb, const char *name, const char *owner)
{
    prepare(sent, verb, name, owner);
    assert_int_equal(weir_lock_manager_submit(manager, &sent->request), 0);
}

static void hear(const struct sent *sent)
{
    while (!__atomic_load_n(&sent->done, __ATOMIC_ACQUIRE))
        nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
}

static void await(const size_t *what, size_t count)
{
    pthread_mutex_lock(&fake.mutex);
    while (*what < count)
        pthread_cond_wait(&fake.changed, &fake.mutex);
    pthread_mutex_unlock(&fake.mutex);
}

static void gate(bool shut)
{
    pthread_mutex_lock(&fake.mutex);
    fake.shut = shut;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.mutex);
}

/* ---- the cases ---- */

static void manager__a_release_does_not_wait_for_a_batch_of_others(void **state)
{
    (void)state;
    struct sent first, acquire;
    submit(&first, WEIR_LOCK_ACQUIRE, "held", "A");
    hear(&first);
    gate(true);
    submit(&acquire, WEIR_LOCK_ACQUIRE, "other", "B");
    await(&fake.batches, 2);
    assert_true(is_quick(WEIR_LOCK_RENEW, "held", "A"));
    assert_true(is_quick(WEIR_LOCK_SHOW, "held", "A"));
    assert_true(is_quick(WEIR_LOCK_RELEASE, "held", "A"));
    struct weir_lock_manager_state shown;
    weir_lock_manager_state(manager, &shown);
    assert_int_equal(shown.released, 1);
    assert_int_equal(shown.granted, 1);
    gate(false);
    hear(&acquire);
    weir_lock_manager_state(manager, &shown);
    assert_int_equal(shown.released, 1);
    assert_int_equal(shown.granted, 2);
}

static void manager__nothing_quick_passes_what_was_asked_of_its_name_before(void **state)
{
    (void)state;
    struct sent first, acquire, release;
    submit(&first, WEIR_LOCK_ACQUIRE, "other", "B");
    hear(&first);
    gate(true);
    submit(&first, WEIR_LOCK_SHOW, "other", "B");
    await(&fake.batches, 2);
    submit(&acquire, WEIR_LOCK_ACQUIRE, "asked", "A"); /* it waits for the batch before it */
    assert_false(is_quick(WEIR_LOCK_RELEASE, "asked", "A"));
    submit(&release, WEIR_LOCK_RELEASE, "asked", "A");
    assert_false(is_quick(WEIR_LOCK_SHOW, "asked", "A"));
    assert_int_equal(fake.quick, 0);
    gate(false);
    hear(&first);
    hear(&acquire);
    hear(&release);
    assert_true(is_quick(WEIR_LOCK_SHOW, "asked", "A"));
}

static void manager__one_who_would_wait_is_not_refused_at_once(void **state)
{
    (void)state;
    struct sent first, waits;
    submit(&first, WEIR_LOCK_SHOW, "other", "B");
    hear(&first);
    assert_true(is_quick(WEIR_LOCK_ACQUIRE, "held", "A"));
    prepare(&waits, WEIR_LOCK_ACQUIRE, "held", "A");
    waits.request.wait_ns = 1;
    assert_false(weir_lock_manager_quick(manager, &waits.request));
}

/* What a quick answer left unwritten is written by an idle engine, however often it was idle before. */
static void manager__a_quick_answer_is_followed_by_an_idle_engine(void **state)
{
    (void)state;
    struct sent first;
    submit(&first, WEIR_LOCK_SHOW, "other", "B");
    hear(&first);
    assert_true(is_quick(WEIR_LOCK_RELEASE, "held", "A"));
    await(&fake.idles, 1);
    if (!is_quick(WEIR_LOCK_RELEASE, "held", "A")) {
        submit(&first, WEIR_LOCK_RELEASE, "held", "A");
        hear(&first);
    }
    await(&fake.idles, 2);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(manager__a_release_does_not_wait_for_a_batch_of_others),
        CASE(manager__nothing_quick_passes_what_was_asked_of_its_name_before),
        CASE(manager__one_who_would_wait_is_not_refused_at_once),
        CASE(manager__a_quick_answer_is_followed_by_an_idle_engine),
    };
#undef CASE
    return cmocka_run_group_tests_name("manager, quick", tests, NULL, NULL);
}
