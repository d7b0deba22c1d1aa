/* SPDX-License-Identifier: Apache-2.0
 *
 * Each server has a shelf: its idle links, the last one given back first, and the count of the open ones. The mutex
 * guards the shelves alone; connections are opened and closed without it. The epoch of a shelf changes with its
 * conninfo, and a link of another epoch is closed when it comes back. Called by session_pinned.c for links; replicas.c
 * creates the pool, and has it forget a server that was removed. */
#include "sessions/pool.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/timing.h"
#include "net/postgres_ask.h"

/* Of one server. */
struct shelf {
    uint64_t server;
    uint64_t epoch; /* of its conninfo: links of another one are closed when they come back */
    char *conninfo; /* NULL: forgotten */
    unsigned open;  /* lent, idle, and being made */
    unsigned waiting;
    struct weir_link *idle;
    struct shelf *next;
};

struct weir_pool {
    unsigned connections_max;
    uint64_t timeout_ns;
    pthread_mutex_t mutex;
    pthread_cond_t given; /* a link was given back, or closed */
    uint64_t epoch;
    struct shelf *shelves;
};

int weir_pool_create(unsigned connections_max, uint64_t timeout_ns, struct weir_pool **ret_pool)
{
    struct weir_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return WEIR_ENOMEM;
    weir_assert(connections_max > 0);
    pool->connections_max = connections_max;
    pool->timeout_ns = timeout_ns;
    pthread_mutex_init(&pool->mutex, NULL);
    weir_assert(weir_timing_cond_init(&pool->given) == 0);
    *ret_pool = pool;
    return 0;
}

static void close_list(struct weir_link *links)
{
    while (links) {
        struct weir_link *next = links->next;
        weir_link_close(links->conn);
        free(links);
        links = next;
    }
}

void weir_pool_destroy(struct weir_pool *pool)
{
    if (!pool)
        return;
    while (pool->shelves) {
        struct shelf *shelf = pool->shelves;
        pool->shelves = shelf->next;
        close_list(shelf->idle);
        free(shelf->conninfo);
        free(shelf);
    }
    pthread_cond_destroy(&pool->given);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

/* ---- shelves, under the mutex ---- */

static struct shelf *find(struct weir_pool *pool, uint64_t server)
{
    struct shelf *shelf = pool->shelves;
    while (shelf && shelf->server != server)
        shelf = shelf->next;
    return shelf;
}

/* Takes the idle links off, for closing once the mutex is free. */
static struct weir_link *clear(struct shelf *shelf)
{
    struct weir_link *links = shelf->idle;
    for (struct weir_link *link = links; link; link = link->next)
        shelf->open--;
    shelf->idle = NULL;
    return links;
}

/* Forgotten and empty: of no more use. */
static void sweep(struct weir_pool *pool)
{
    for (struct shelf **at = &pool->shelves; *at;) {
        struct shelf *shelf = *at;
        if (shelf->conninfo || shelf->open > 0 || shelf->waiting > 0) {
            at = &shelf->next;
            continue;
        }
        *at = shelf->next;
        free(shelf);
    }
}

/* *ret_close: set where it has another conninfo now: what lay idle is to be closed. */
static struct shelf *shelf_for(struct weir_pool *pool, uint64_t server, const char *conninfo,
                               struct weir_link **ret_close)
{
    struct shelf *shelf = find(pool, server);
    if (shelf && shelf->conninfo && strcmp(shelf->conninfo, conninfo) == 0)
        return shelf;
    char *copy = strdup(conninfo);
    if (!shelf && copy) {
        shelf = calloc(1, sizeof *shelf);
        if (shelf) {
            shelf->server = server;
            shelf->next = pool->shelves;
            pool->shelves = shelf;
        }
    }
    if (!shelf || !copy) {
        free(copy);
        return NULL;
    }
    *ret_close = clear(shelf);
    free(shelf->conninfo);
    shelf->conninfo = copy;
    shelf->epoch = ++pool->epoch;
    return shelf;
}

/* An idle link, or (NULL and 0) the right to open one. */
static int lend(struct weir_pool *pool, struct shelf *shelf, uint64_t until_ns, struct weir_link **ret_link)
{
    int late = 0;
    while (!shelf->idle && shelf->open >= pool->connections_max && late == 0) {
        shelf->waiting++;
        late = weir_timing_wait(&pool->given, &pool->mutex, until_ns);
        shelf->waiting--;
    }
    *ret_link = shelf->idle;
    if (shelf->idle) {
        shelf->idle = shelf->idle->next;
        return 0;
    }
    if (shelf->open >= pool->connections_max)
        return WEIR_ELIMIT;
    shelf->open++;
    return 0;
}

/* One that is not open any more. */
static void unlend(struct weir_pool *pool, uint64_t server)
{
    pthread_mutex_lock(&pool->mutex);
    struct shelf *shelf = find(pool, server);
    weir_assert(shelf && shelf->open > 0);
    shelf->open--;
    pthread_cond_broadcast(&pool->given);
    sweep(pool);
    pthread_mutex_unlock(&pool->mutex);
}

/* ---- lending ---- */

static int open_link(struct weir_pool *pool, uint64_t server, uint64_t epoch, const char *name, const char *conninfo,
                     struct weir_link **ret_link, struct weir_fault *ret_fault)
{
    uint64_t deadline_ns = weir_add_sat(weir_ask_now_ns(), pool->timeout_ns);
    struct weir_link *link = calloc(1, sizeof *link);
    int error = link ? weir_link_connect(conninfo, deadline_ns, &link->conn, ret_fault) : WEIR_ENOMEM;
    if (error == 0 && (error = weir_shown_fixed(link->conn, deadline_ns, &link->fixed)) != 0) {
        (void)snprintf(ret_fault->text, sizeof ret_fault->text, "cannot be used: %s", weir_shown_why_not(error));
        error = error == WEIR_EPROTO || error == WEIR_EINVAL ? WEIR_EPROTO : WEIR_EDOWN;
    }
    if (error != 0) {
        if (link)
            weir_link_close(link->conn);
        free(link);
        return error;
    }
    link->server = server;
    link->backend = PQbackendPID(link->conn);
    link->epoch = epoch;
    (void)snprintf(link->name, sizeof link->name, "%s", name);
    *ret_link = link;
    return 0;
}

int weir_pool_take(struct weir_pool *pool, uint64_t server, const char *name, const char *conninfo, uint64_t until_ns,
                   struct weir_link **ret_link, struct weir_fault *ret_fault)
{
    (void)snprintf(ret_fault->field, sizeof ret_fault->field, "%s", name);
    for (;;) {
        struct weir_link *link = NULL, *old = NULL;
        pthread_mutex_lock(&pool->mutex);
        struct shelf *shelf = shelf_for(pool, server, conninfo, &old);
        uint64_t epoch = shelf ? shelf->epoch : 0; /* the conninfo's, which may be another's when the wait is over */
        int error = shelf ? lend(pool, shelf, until_ns, &link) : WEIR_ENOMEM;
        pthread_mutex_unlock(&pool->mutex);
        close_list(old);
        if (error == 0 && !link) {
            error = open_link(pool, server, epoch, name, conninfo, &link, ret_fault);
            if (error != 0)
                unlend(pool, server);
        } else if (error != 0) {
            (void)snprintf(ret_fault->text, sizeof ret_fault->text, "%s",
                           error == WEIR_ELIMIT ? "all its connections are lent" : weir_error_text(error));
        } else if (weir_link_state(link) != WEIR_LINK_IDLE) { /* it hung up while nobody looked */
            weir_pool_drop(pool, link);
            continue;
        }
        if (error != 0)
            return error;
        *ret_link = link;
        *ret_fault = (struct weir_fault){ 0 };
        return 0;
    }
}

void weir_pool_drop(struct weir_pool *pool, struct weir_link *link)
{
    uint64_t server = link->server;
    weir_link_close(link->conn);
    free(link);
    unlend(pool, server);
}

void weir_pool_give(struct weir_pool *pool, struct weir_link *link)
{
    bool fit = weir_link_state(link) == WEIR_LINK_IDLE &&
               (!PQisnonblocking(link->conn) || PQsetnonblocking(link->conn, 0) == 0);
    pthread_mutex_lock(&pool->mutex);
    struct shelf *shelf = find(pool, link->server);
    weir_assert(shelf);
    fit = fit && shelf->conninfo && shelf->epoch == link->epoch;
    if (fit) {
        link->next = shelf->idle;
        shelf->idle = link;
        if (shelf->waiting > 0)
            pthread_cond_broadcast(&pool->given);
    }
    pthread_mutex_unlock(&pool->mutex);
    if (!fit)
        weir_pool_drop(pool, link);
}

void weir_pool_forget(struct weir_pool *pool, uint64_t server)
{
    struct weir_link *idle = NULL;
    pthread_mutex_lock(&pool->mutex);
    struct shelf *shelf = find(pool, server);
    if (shelf) {
        idle = clear(shelf);
        free(shelf->conninfo);
        shelf->conninfo = NULL;
        sweep(pool);
    }
    pthread_mutex_unlock(&pool->mutex);
    close_list(idle);
}
