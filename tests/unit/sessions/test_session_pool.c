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

/* ---- memory: how many pieces are held ---- */

static atomic_int held;
static bool denied, copy_denied;

void *__wrap_calloc(size_t count, size_t size);
void *__real_calloc(size_t count, size_t size);
char *__wrap_strdup(const char *text);
char *__real_strdup(const char *text);
void __wrap_free(void *memory);
void __real_free(void *memory);

void *__wrap_calloc(size_t count, size_t size)
{
    void *memory = denied ? NULL : __real_calloc(count, size);
    atomic_fetch_add(&held, memory != NULL);
    return memory;
}

char *__wrap_strdup(const char *text)
{
    char *copy = copy_denied ? NULL : __real_strdup(text);
    atomic_fetch_add(&held, copy != NULL);
    return copy;
}

void __wrap_free(void *memory)
{
    atomic_fetch_sub(&held, memory != NULL);
    __real_free(memory);
}

/* ---- connections ---- */

struct pg_conn {
    enum weir_link_state state;
    bool nonblocking, stubborn; /* set so by who borrowed it, and stays so */
    char address[8];
};

static atomic_int open_count, refuse_count;
static atomic_uint_fast64_t connect_until_ns, first_until_ns; /* of the newest connection, and its first question */
static int unusable; /* what the first question to a new connection ends with */

int weir_link_connect(const char *conninfo, uint64_t deadline_ns, struct pg_conn **ret_conn,
                      struct weir_fault *ret_fault)
{
    (void)ret_fault;
    atomic_store(&connect_until_ns, deadline_ns);
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
    (void)conn;
    atomic_store(&first_until_ns, deadline_ns);
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

/* Those that lay idle for an address of before leave room for those of the new one. */
static void session_pool__another_address_has_the_whole_bound(void **state)
{
    (void)state;
    struct weir_pool *pool;
    assert_int_equal(weir_pool_create(BOUND, 1000000000, &pool), 0);
    struct weir_link *one = take(pool, 1, "x"), *two = take(pool, 1, "x");
    weir_pool_give(pool, one);
    weir_pool_give(pool, two);
    one = take(pool, 1, "y");
    two = take(pool, 1, "y");
    assert_int_equal(open_count, 2);
    weir_pool_drop(pool, one);
    weir_pool_drop(pool, two);
    weir_pool_destroy(pool);
    assert_int_equal(held, 0);
}

/* Of servers that come and go nothing is kept, wherever they stand among those that stay. */
static void session_pool__a_forgotten_server_leaves_no_trace(void **state)
{
    (void)state;
    struct weir_pool *pool;
    assert_int_equal(weir_pool_create(BOUND, 1000000000, &pool), 0);
    for (uint64_t stays = 1; stays <= 2; stays++)
        weir_pool_drop(pool, take(pool, stays, "x"));
    const int before = held;
    for (unsigned lent = 0; lent < 2; lent++) {
        struct weir_link *link = take(pool, 3, "x");
        weir_pool_drop(pool, take(pool, 4, "x"));
        if (!lent)
            weir_pool_give(pool, link);
        weir_pool_forget(pool, 3);
        if (lent)
            weir_pool_give(pool, link);
        assert_int_equal(open_count, 0);
        assert_int_equal(held, before + 2); /* of server 4 */
        weir_pool_forget(pool, 4);
        assert_int_equal(held, before);
    }
    weir_pool_forget(pool, 5);
    weir_pool_destroy(pool);
    assert_int_equal(held, 0);
}

/* One timeout for all of it. */
static void session_pool__opens_a_connection_within_its_timeout(void **state)
{
    (void)state;
    for (uint64_t timeout_ns = 0; timeout_ns <= UINT64_C(3600000000000); timeout_ns += UINT64_C(1200000000000)) {
        struct weir_pool *pool;
        assert_int_equal(weir_pool_create(1, timeout_ns, &pool), 0);
        uint64_t before_ns = weir_ask_now_ns();
        struct weir_link *link = take(pool, 1, "x");
        assert_in_range(connect_until_ns, before_ns + timeout_ns, weir_ask_now_ns() + timeout_ns);
        assert_int_equal(first_until_ns, connect_until_ns);
        weir_pool_give(pool, link);
        weir_pool_destroy(pool);
    }
}

/* Nor is anything kept of a server that there was no memory for. */
static void session_pool__without_memory_lends_none(void **state)
{
    (void)state;
    struct weir_pool *pool = NULL;
    struct weir_link *none = NULL;
    struct weir_fault fault;
    denied = true;
    assert_int_equal(weir_pool_create(BOUND, 1000000000, &pool), WEIR_ENOMEM);
    denied = false;
    assert_null(pool);
    assert_int_equal(weir_pool_create(BOUND, 1000000000, &pool), 0);
    const int before = held;
    for (int copy = 0; copy < 2; copy++) {
        denied = !copy;
        copy_denied = copy;
        assert_int_equal(weir_pool_take(pool, 1, "a", "x", weir_ask_now_ns(), &none, &fault), WEIR_ENOMEM);
        denied = copy_denied = false;
        assert_string_equal(fault.text, weir_error_text(WEIR_ENOMEM));
        assert_int_equal(held, before);
    }
    weir_pool_give(pool, take(pool, 1, "x"));
    weir_pool_destroy(pool);
    assert_int_equal(held, 0);
}

/* ---- two ---- */

static atomic_int waiting_count, late_count;

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);
int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    atomic_fetch_add(&waiting_count, 1);
    int late = __real_pthread_cond_timedwait(cond, mutex, until);
    atomic_fetch_add(&late_count, late != 0);
    return late;
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

/* Who waits is woken by what is given back, and by the room that one leaves: of a server that has gone, too. */
static void session_pool__who_waits_gets_what_is_left(void **state)
{
    (void)state;
    enum { GIVEN, DROPPED, FORGOTTEN, WAYS };
    for (int way = 0; way < WAYS; way++) {
        struct weir_pool *pool;
        pthread_t thread;
        void *waited;
        assert_int_equal(weir_pool_create(1, UINT64_C(1000000000), &pool), 0);
        const int before = held;
        struct weir_link *first = take(pool, 1, "old");
        atomic_store(&waiting_count, 0);
        atomic_store(&late_count, 0);
        assert_int_equal(pthread_create(&thread, NULL, take_old, pool), 0);
        while (atomic_load(&waiting_count) == 0)
            sched_yield();
        if (way == FORGOTTEN)
            weir_pool_forget(pool, 1);
        if (way == GIVEN)
            weir_pool_give(pool, first);
        else
            weir_pool_drop(pool, first);
        pthread_join(thread, &waited);
        assert_non_null(waited);
        assert_int_equal(late_count, 0);
        if (way == GIVEN)
            assert_ptr_equal(waited, first);
        weir_pool_give(pool, waited);
        assert_int_equal(open_count, way == FORGOTTEN ? 0 : 1);
        weir_pool_forget(pool, 1);
        assert_int_equal(held, before); /* nobody waits any more */
        weir_pool_destroy(pool);
        assert_int_equal(open_count, 0);
        assert_int_equal(held, 0);
    }
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
        cmocka_unit_test(session_pool__opens_a_connection_within_its_timeout),
        cmocka_unit_test(session_pool__another_address_has_the_whole_bound),
        cmocka_unit_test(session_pool__a_forgotten_server_leaves_no_trace),
        cmocka_unit_test(session_pool__without_memory_lends_none),
        cmocka_unit_test(session_pool__who_waits_gets_what_is_left),
        cmocka_unit_test(session_pool__one_of_an_address_of_before_is_not_kept_by_who_waited_for_it),
        cmocka_unit_test(session_pool__holds_its_bound_for_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
