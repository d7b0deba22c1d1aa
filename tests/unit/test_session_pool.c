/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool, over connections that are none: the bound holds under threads, nobody waits for ever, what is broken, in
 * use or of a server that is gone is closed. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "net/postgres_ask.h"
#include "random.h"
#include "sessions/pool.h"

#define THREADS 4
#define TURNS 3000
#define BOUND 2

/* ---- connections ---- */

struct pg_conn {
    enum weir_link_state state;
    bool nonblocking, stubborn; /* set so by who borrowed it, and stays so */
    char address[8];
};

static atomic_int open_count, refuse_count;
static int unusable; /* what the first question to a new connection ends with */

int weir_link_connect(const char *conninfo, uint64_t deadline_ns, struct pg_conn **ret_conn,
                      struct weir_fault *ret_fault)
{
    (void)deadline_ns, (void)ret_fault;
    if (strcmp(conninfo, "down") == 0)
        return WEIR_EDOWN;
    struct pg_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return WEIR_ENOMEM;
    strcpy(conn->address, conninfo);
    atomic_fetch_add(&open_count, 1);
    *ret_conn = conn;
    return 0;
}

void weir_link_close(struct pg_conn *conn)
{
    if (conn)
        atomic_fetch_sub(&open_count, 1);
    free(conn);
}

enum weir_link_state weir_link_state(struct weir_link *link)
{
    return link->conn->state;
}

const char *weir_shown_why_not(int error)
{
    return weir_error_text(error);
}

int weir_shown_fixed(struct pg_conn *conn, uint64_t deadline_ns, struct weir_shown_fixed *ret_fixed)
{
    (void)conn, (void)deadline_ns;
    *ret_fixed = (struct weir_shown_fixed){ .system = 1 };
    return unusable;
}

int PQisnonblocking(const struct pg_conn *conn);
int PQsetnonblocking(struct pg_conn *conn, int arg);
int PQbackendPID(const struct pg_conn *conn);

int PQbackendPID(const struct pg_conn *conn)
{
    (void)conn;
    return 1;
}

int PQisnonblocking(const struct pg_conn *conn)
{
    return conn->nonblocking;
}

int PQsetnonblocking(struct pg_conn *conn, int arg)
{
    if (conn->stubborn)
        return -1;
    conn->nonblocking = arg;
    return 0;
}

uint64_t weir_ask_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* ---- one thread ---- */

static struct weir_link *take(struct weir_pool *pool, uint64_t server, const char *conninfo)
{
    struct weir_link *link = NULL;
    struct weir_fault fault;
    assert_int_equal(weir_pool_take(pool, server, "a", conninfo, weir_ask_now_ns(), &link, &fault), 0);
    assert_int_equal(link->server, server);
    return link;
}

static void session_pool__lends_what_came_back_last_and_no_more_than_its_bound(void **state)
{
    (void)state;
    struct weir_pool *pool;
    struct weir_link *none = NULL;
    struct weir_fault fault;
    assert_int_equal(weir_pool_create(BOUND, 1000000000, &pool), 0);
    struct weir_link *one = take(pool, 1, "x"), *two = take(pool, 1, "x");
    assert_int_equal(weir_pool_take(pool, 1, "a", "x", weir_ask_now_ns() + 1000000, &none, &fault), WEIR_ELIMIT);
    assert_string_equal(fault.field, "a");
    assert_null(none);
    weir_pool_give(pool, take(pool, 2, "x")); /* another server has a bound of its own */
    weir_pool_give(pool, one);
    weir_pool_give(pool, two);
    assert_ptr_equal(take(pool, 1, "x"), two);
    weir_pool_give(pool, two);
    assert_int_equal(open_count, 3);
    weir_pool_destroy(NULL);
    weir_pool_destroy(pool);
    assert_int_equal(open_count, 0);
}

static void session_pool__keeps_none_that_is_broken_or_in_use_or_of_an_address_of_before(void **state)
{
    (void)state;
    struct weir_pool *pool;
    struct weir_fault fault;
    assert_int_equal(weir_pool_create(BOUND, 1000000000, &pool), 0);
    struct weir_link *link = take(pool, 1, "x");
    link->conn->state = WEIR_LINK_BUSY;
    weir_pool_give(pool, link);
    assert_int_equal(open_count, 0);
    link = take(pool, 1, "x");
    weir_pool_give(pool, link);
    link->conn->state = WEIR_LINK_BROKEN; /* while it lay idle */
    link = take(pool, 1, "x");
    assert_int_equal(link->conn->state, WEIR_LINK_IDLE);
    assert_int_equal(open_count, 1);
    struct weir_link *moved = take(pool, 1, "y");
    weir_pool_give(pool, link);
    assert_int_equal(open_count, 1);
    weir_pool_give(pool, moved);
    assert_int_equal(open_count, 1);
    link = take(pool, 1, "y");
    weir_pool_forget(pool, 1);
    weir_pool_give(pool, link);
    assert_int_equal(open_count, 0);
    assert_int_equal(weir_pool_take(pool, 1, "a", "down", weir_ask_now_ns(), &link, &fault), WEIR_EDOWN);
    assert_int_equal(weir_pool_take(pool, 1, "a", "down", weir_ask_now_ns(), &link, &fault), WEIR_EDOWN);
    assert_int_equal(weir_pool_take(pool, 1, "a", "down", weir_ask_now_ns(), &link, &fault), WEIR_EDOWN);
    weir_pool_destroy(pool);
}

/* A connection is lent as the library expects it: it waits. */
static void session_pool__lends_connections_that_wait(void **state)
{
    (void)state;
    struct weir_pool *pool;
    assert_int_equal(weir_pool_create(BOUND, 1000000000, &pool), 0);
    struct weir_link *link = take(pool, 1, "x");
    link->conn->nonblocking = true;
    weir_pool_give(pool, link);
    assert_int_equal(open_count, 1);
    assert_ptr_equal(take(pool, 1, "x"), link);
    assert_false(link->conn->nonblocking);
    link->conn->nonblocking = link->conn->stubborn = true;
    weir_pool_give(pool, link);
    assert_int_equal(open_count, 0);
    weir_pool_destroy(pool);
}

/* Whom it could not lend one of, and why. Names are no formats. */
static void session_pool__says_why_it_lends_none(void **state)
{
    (void)state;
    static const char name[] = "100%% of 5% s";
    struct weir_pool *pool;
    struct weir_link *link = NULL, *none = NULL;
    struct weir_fault fault;
    assert_int_equal(weir_pool_create(1, 1000000000, &pool), 0);
    assert_int_equal(weir_pool_take(pool, 7, name, "x", weir_ask_now_ns(), &link, &fault), 0);
    assert_string_equal(fault.field, "");
    assert_string_equal(link->name, name);
    assert_int_equal(link->server, 7);
    assert_int_equal(link->backend, 1);
    assert_int_equal(link->fixed.system, 1);
    assert_int_equal(weir_pool_take(pool, 7, name, "x", weir_ask_now_ns(), &none, &fault), WEIR_ELIMIT);
    assert_string_equal(fault.field, name);
    assert_string_equal(fault.text, "all its connections are lent");
    unusable = WEIR_EPROTO;
    assert_int_equal(weir_pool_take(pool, 8, name, "x", weir_ask_now_ns(), &none, &fault), WEIR_EPROTO);
    assert_string_equal(fault.text, "cannot be used: malformed input");
    unusable = WEIR_EINVAL;
    assert_int_equal(weir_pool_take(pool, 8, name, "x", weir_ask_now_ns(), &none, &fault), WEIR_EPROTO);
    unusable = WEIR_EIO;
    assert_int_equal(weir_pool_take(pool, 8, name, "x", weir_ask_now_ns(), &none, &fault), WEIR_EDOWN);
    unusable = 0;
    assert_int_equal(open_count, 1);
    weir_pool_drop(pool, link);
    weir_pool_destroy(pool);
    assert_int_equal(open_count, 0);
}

/* ---- two ---- */

static atomic_int waiting_count;

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);
int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    atomic_fetch_add(&waiting_count, 1);
    return __real_pthread_cond_timedwait(cond, mutex, until);
}

static void *take_old(void *context)
{
    struct weir_link *link = NULL;
    struct weir_fault fault;
    (void)weir_pool_take(context, 1, "a", "old", weir_ask_now_ns() + UINT64_C(60000000000), &link, &fault);
    return link;
}

/* Who waits for a connection while the server gets another address opens one to the address that it was told. That is
 * none of the new address's, which would be lent as such. */
static void session_pool__one_of_an_address_of_before_is_not_kept_by_who_waited_for_it(void **state)
{
    (void)state;
    struct weir_pool *pool;
    struct weir_link *none = NULL;
    struct weir_fault fault;
    pthread_t thread;
    void *waited;
    assert_int_equal(weir_pool_create(1, UINT64_C(1000000000), &pool), 0);
    struct weir_link *first = take(pool, 1, "old");
    atomic_store(&waiting_count, 0);
    assert_int_equal(pthread_create(&thread, NULL, take_old, pool), 0);
    while (atomic_load(&waiting_count) == 0)
        sched_yield();
    assert_int_equal(weir_pool_take(pool, 1, "a", "new", weir_ask_now_ns(), &none, &fault), WEIR_ELIMIT);
    weir_pool_give(pool, first);
    pthread_join(thread, &waited);
    assert_non_null(waited);
    weir_pool_give(pool, waited);
    struct weir_link *next = take(pool, 1, "new");
    assert_string_equal(next->conn->address, "new");
    weir_pool_give(pool, next);
    weir_pool_destroy(pool);
    assert_int_equal(open_count, 0);
}

/* ---- many ---- */

struct crowd {
    struct weir_pool *pool;
    uint64_t seed;
    atomic_int lent;
};

static void *crowd(void *context)
{
    struct crowd *all = context;
    struct test_random random = { all->seed + (uint64_t)(uintptr_t)&random };
    struct weir_fault fault;
    for (unsigned i = 0; i < TURNS; i++) {
        struct weir_link *link;
        const char *conninfo = test_random_below(&random, 50) == 0 ? "y" : "x";
        int error = weir_pool_take(all->pool, 1, "a", conninfo, weir_ask_now_ns() + 20000000, &link, &fault);
        if (error != 0) {
            atomic_fetch_add(&refuse_count, error == WEIR_ELIMIT ? 1 : 1000000);
            continue;
        }
        if (atomic_fetch_add(&all->lent, 1) >= BOUND)
            atomic_fetch_add(&refuse_count, 1000000);
        link->conn->state = test_random_below(&random, 20) == 0 ? WEIR_LINK_BROKEN : WEIR_LINK_IDLE;
        atomic_fetch_sub(&all->lent, 1);
        if (test_random_below(&random, 30) == 0)
            weir_pool_drop(all->pool, link);
        else
            weir_pool_give(all->pool, link);
        if (test_random_below(&random, 100) == 0)
            weir_pool_forget(all->pool, 1);
    }
    return NULL;
}

static void session_pool__holds_its_bound_for_many_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    struct crowd all = { .seed = test_random_seed() };
    assert_int_equal(weir_pool_create(BOUND, 1000000000, &all.pool), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd, &all), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(refuse_count < 1000000); /* of those that waited in vain there may be some */
    assert_true(open_count <= BOUND);
    weir_pool_destroy(all.pool);
    assert_int_equal(open_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_pool__lends_what_came_back_last_and_no_more_than_its_bound),
        cmocka_unit_test(session_pool__keeps_none_that_is_broken_or_in_use_or_of_an_address_of_before),
        cmocka_unit_test(session_pool__lends_connections_that_wait),
        cmocka_unit_test(session_pool__says_why_it_lends_none),
        cmocka_unit_test(session_pool__one_of_an_address_of_before_is_not_kept_by_who_waited_for_it),
        cmocka_unit_test(session_pool__holds_its_bound_for_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
