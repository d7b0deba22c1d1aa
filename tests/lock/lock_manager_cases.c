/* SPDX-License-Identifier: Apache-2.0
 *
 * Through manager.h: waiting, in order, for real leases of a real engine. tests/unit/locks/test_lock_manager.c has the
 * corners. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lock_world.h"
#include "locks/manager.h"

static struct weir_lock_manager *manager;

/* A client: one request at a time. */
struct client {
    struct weir_lock_manager_request request;
    char owner[24];
    struct weir_slice name;
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    bool done;
    uint64_t order; /* of the answer among all */
};

static uint64_t answers;

static void on_done(struct weir_lock_manager_request *request)
{
    struct client *client = request->context;
    weir_lock_manager_told(manager, request);
    pthread_mutex_lock(&client->mutex);
    client->order = __atomic_add_fetch(&answers, 1, __ATOMIC_RELAXED);
    client->done = true;
    pthread_cond_signal(&client->answered);
    pthread_mutex_unlock(&client->mutex);
}

static void client_init(struct client *client, const char *owner, struct weir_slice name)
{
    memset(client, 0, sizeof *client);
    snprintf(client->owner, sizeof client->owner, "%s", owner);
    client->name = name;
    pthread_mutex_init(&client->mutex, NULL);
    pthread_cond_init(&client->answered, NULL);
}

static void client_deinit(struct client *client)
{
    pthread_cond_destroy(&client->answered);
    pthread_mutex_destroy(&client->mutex);
}

static void client_send(struct client *client, enum weir_lock_verb verb, uint64_t ttl_ns, uint64_t wait_ns)
{
    client->done = false;
    client->request.op = (struct weir_lock_op){
        .verb = verb, .name = client->name, .ttl_ns = ttl_ns, .owner = world_text(client->owner)
    };
    client->request.wait_ns = wait_ns;
    client->request.done = on_done;
    client->request.context = client;
    assert_int_equal(weir_lock_manager_submit(manager, &client->request), 0);
}

static struct weir_lock_op client_hear(struct client *client)
{
    pthread_mutex_lock(&client->mutex);
    while (!client->done)
        pthread_cond_wait(&client->answered, &client->mutex);
    pthread_mutex_unlock(&client->mutex);
    return client->request.op;
}

static struct weir_lock_op client_ask(struct client *client, enum weir_lock_verb verb, uint64_t ttl_ns)
{
    client_send(client, verb, ttl_ns, 0);
    return client_hear(client);
}

/* Until so many wait. */
static void await_waiting(size_t count)
{
    struct weir_lock_manager_state state;
    do {
        world_sleep(SECOND / 1000);
        weir_lock_manager_state(manager, &state);
    } while (state.waiting != count);
}

static int open_case(void **state)
{
    (void)state;
    world_open();
    struct weir_lock_engine *engine = lock_world.engine;
    lock_world.engine = NULL;
    return weir_lock_manager_create(engine, &(struct weir_lock_manager_options){ .timeout_ns = 10 * SECOND }, &manager);
}

static int close_case(void **state)
{
    (void)state;
    weir_lock_manager_destroy(manager);
    manager = NULL;
    return 0;
}

/* ---- cases ---- */

static void manager__grants_in_order_of_arrival_whoever_else_comes(void **state)
{
    (void)state;
    struct weir_slice name = world_name("queue");
    size_t count = lock_world.waiters;
    struct client *clients = test_calloc(count, sizeof *clients), holder, passer;
    client_init(&holder, "holder", name);
    client_init(&passer, "passer", name);
    struct weir_token last = world_granted(client_ask(&holder, WEIR_LOCK_ACQUIRE, TTL));
    for (size_t i = 0; i < count; i++) {
        char owner[24];
        snprintf(owner, sizeof owner, "w%zu", i);
        client_init(&clients[i], owner, name);
        client_send(&clients[i], WEIR_LOCK_ACQUIRE, TTL, 600 * SECOND);
    }
    await_waiting(count);
    assert_true(weir_token_compare(world_granted(client_ask(&holder, WEIR_LOCK_ACQUIRE, TTL)), last) == 0);
    world_granted(client_ask(&holder, WEIR_LOCK_RELEASE, 0));
    for (size_t i = 0; i < count; i++) {
        struct weir_token token = world_granted(client_hear(&clients[i]));
        world_after(token, last);
        last = token;
        assert_true(clients[i].request.waited);
        assert_true(i == 0 || clients[i].order > clients[i - 1].order);
        if (i % 100 == 0) {
            client_send(&passer, WEIR_LOCK_ACQUIRE, TTL, 0);
            world_held_by(client_hear(&passer), clients[i].owner);
        }
        world_granted(client_ask(&clients[i], WEIR_LOCK_RELEASE, 0));
    }
    for (size_t i = 0; i < count; i++)
        client_deinit(&clients[i]);
    client_deinit(&holder);
    client_deinit(&passer);
    test_free(clients);
}

static void manager__a_wait_ends_in_time_and_the_next_moves_up(void **state)
{
    (void)state;
    struct weir_slice name = world_name("patience");
    struct client holder, brief, patient, leaver;
    client_init(&holder, "holder", name);
    client_init(&brief, "brief", name);
    client_init(&leaver, "leaver", name);
    client_init(&patient, "patient", name);
    world_granted(client_ask(&holder, WEIR_LOCK_ACQUIRE, TTL));
    uint64_t start_ns = world_now_ns();
    client_send(&brief, WEIR_LOCK_ACQUIRE, TTL, SECOND / 5);
    client_send(&leaver, WEIR_LOCK_ACQUIRE, TTL, 600 * SECOND);
    client_send(&patient, WEIR_LOCK_ACQUIRE, TTL, 600 * SECOND);
    world_held_by(client_hear(&brief), "holder");
    assert_true(world_now_ns() - start_ns >= SECOND / 5);
    weir_lock_manager_client_gone(manager, &leaver.request);
    assert_int_equal(client_hear(&leaver).said, WEIR_LOCK_HELD);
    world_granted(client_ask(&holder, WEIR_LOCK_RELEASE, 0));
    world_granted(client_hear(&patient));
    world_granted(client_ask(&patient, WEIR_LOCK_RELEASE, 0));
    client_deinit(&holder);
    client_deinit(&brief);
    client_deinit(&leaver);
    client_deinit(&patient);
}

static void manager__a_waiter_has_it_when_the_lease_ends(void **state)
{
    (void)state;
    struct weir_slice name = world_name("dead");
    struct client dead, heir;
    client_init(&dead, "dead", name);
    client_init(&heir, "heir", name);
    uint64_t start_ns = world_now_ns();
    struct weir_lock_op lease = client_ask(&dead, WEIR_LOCK_ACQUIRE, SHORT);
    struct weir_token first = world_granted(lease);
    client_send(&heir, WEIR_LOCK_ACQUIRE, TTL, 600 * SECOND);
    world_after(world_granted(client_hear(&heir)), first);
    assert_true(world_now_ns() - start_ns >= SHORT);
    world_free(client_ask(&dead, WEIR_LOCK_RENEW, SHORT));
    world_granted(client_ask(&heir, WEIR_LOCK_RELEASE, 0));
    client_deinit(&dead);
    client_deinit(&heir);
}

/* ---- many at once ---- */

#define THREADS 4
#define TURNS 25

struct contest {
    struct weir_slice name;
    struct weir_token mark; /* the resource: it trusts no one */
    uint64_t inside;
    uint64_t refused;
};

struct contestant {
    struct contest *contest;
    unsigned number;
};

static void *contend(void *context)
{
    struct contestant *self = context;
    struct client client;
    char owner[24];
    snprintf(owner, sizeof owner, "t%u", self->number);
    client_init(&client, owner, self->contest->name);
    for (int i = 0; i < TURNS; i++) {
        client_send(&client, WEIR_LOCK_ACQUIRE, TTL, 600 * SECOND);
        struct weir_lock_op op = client_hear(&client);
        bool good = op.status == 0 && op.said == WEIR_LOCK_GRANTED &&
                    __atomic_add_fetch(&self->contest->inside, 1, __ATOMIC_ACQ_REL) == 1 &&
                    weir_mark_install(&self->contest->mark, op.token) == 0;
        __atomic_sub_fetch(&self->contest->inside, 1, __ATOMIC_ACQ_REL);
        if (!good)
            __atomic_add_fetch(&self->contest->refused, 1, __ATOMIC_RELAXED);
        client_ask(&client, WEIR_LOCK_RELEASE, 0);
    }
    client_deinit(&client);
    return NULL;
}

static void manager__threads_exclude_each_other_with_growing_tokens(void **state)
{
    (void)state;
    struct contest contest = { .name = world_name("contest") };
    struct contestant contestants[THREADS];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        contestants[i] = (struct contestant){ &contest, i };
        assert_int_equal(pthread_create(&threads[i], NULL, contend, &contestants[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(contest.refused, 0);
    assert_true(contest.mark.number > 0);
}

int lock_manager_cases(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_case, close_case)
    const struct CMUnitTest quick[] = {
        CASE(manager__grants_in_order_of_arrival_whoever_else_comes),
        CASE(manager__a_wait_ends_in_time_and_the_next_moves_up),
        CASE(manager__threads_exclude_each_other_with_growing_tokens),
    };
    const struct CMUnitTest slow[] = { CASE(manager__a_waiter_has_it_when_the_lease_ends) };
#undef CASE
    int failed = cmocka_run_group_tests_name("manager", quick, NULL, NULL);
    return lock_world.fast ? failed : failed + cmocka_run_group_tests_name("manager, slow", slow, NULL, NULL);
}
