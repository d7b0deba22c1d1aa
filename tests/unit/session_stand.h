/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of one session share: servers that stand where the test put them. What is below a session (pollers,
 * pool, links, the clock) is defined here. For one file of a program. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "net/postgres_ask.h"
#include "sessions/session_inside.h"

#define SYSTEM 7
#define MS UINT64_C(1000000)

/* ---- the servers ---- */

struct pg_conn {
    struct weir_link link;
    unsigned server;
    unsigned made; /* after so many breaks of its server's connections */
};

/* What its poller will say, and what a connection to it says now. */
struct server {
    struct weir_shown polled, now;
    bool settles;                    /* those that run at the primary end when they are awaited */
    bool mute;                       /* its poller hears nothing */
    bool busy;                       /* a transaction is open on its connections */
    bool teaches;                    /* its poller learns that timeline 2 left 1 at 104 */
    int refuses;                     /* connections: the error */
    unsigned turns;                  /* what it says to so many questions is `now`, then it is `polled`; 0: never */
    unsigned breaks;                 /* of all connections that there were */
    unsigned last;                   /* so many questions it hears, and breaks; 0: it does not */
    unsigned late;                   /* its poller hears from it after so many waits */
    unsigned asked, polls, settling; /* how often */
    unsigned tried, taken, counted;  /* how many connections, and reads */
    unsigned dropped;                /* of its connections, not given back */
    uint64_t clock;                  /* what the application's clock says there; 0: it is not told */
};

static struct {
    struct server servers[4];
    struct weir_snapshot snapshot;
    uint64_t now_ns;
    unsigned waits, lent, held; /* held: snapshots */
    unsigned told;              /* what primaries said of themselves */
    unsigned looks;
    uint64_t patience_ns; /* of who had a poller ask last */
} world;

enum { LOOKS = 8 };
static struct weir_snapshot looked_at[LOOKS];
static struct weir_replicas replicas = { .timeout_ns = 1000 * MS };
static struct weir_session *session;

/* Timeline 2 left 1 at 104. */
static inline void fork_off(void)
{
    const struct weir_ancestor first = { .timeline = 1, .end = 104 };
    weir_known_history(&world.snapshot.known, SYSTEM,
                       &(struct weir_history){ .timeline = 2, .branch = 20, .count = 1, .ancestors = { first } });
}

static inline void poll(unsigned index)
{
    struct weir_route_server *entry = &world.snapshot.servers[index];
    entry->shown = world.servers[index].polled;
    entry->usable = entry->shown.system != 0;
    entry->asked_ns = ++world.now_ns;
    world.snapshot.number++;
    if (world.servers[index].teaches)
        fork_off();
    if (entry->shown.primary)
        weir_known_run(&world.snapshot.known, SYSTEM, entry->shown.timeline, entry->shown.branch, entry->shown.run,
                       entry->shown.flushed);
}

/* It is there, for its poller and for others. */
static inline void stand(unsigned index, struct weir_shown shown)
{
    world.servers[index].polled = world.servers[index].now = shown;
    poll(index);
}

static inline struct weir_shown primary(uint32_t timeline, uint64_t run, uint64_t position)
{
    return (struct weir_shown){ .system = SYSTEM,
                                .timeline = timeline,
                                .branch = timeline > 1 ? 20 : 0,
                                .position = position,
                                .flushed = position,
                                .run = run,
                                .primary = true,
                                .settled = true };
}

static inline struct weir_shown standby(uint32_t timeline, uint64_t position)
{
    return (struct weir_shown){ .system = SYSTEM,
                                .timeline = timeline,
                                .branch = timeline > 1 ? 20 : 0,
                                .position = position,
                                .received = position };
}

static inline void begin(unsigned count)
{
    memset(&world, 0, sizeof world);
    world.now_ns = MS;
    world.snapshot.count = count;
    for (unsigned i = 0; i < count; i++) {
        world.snapshot.servers[i].id = 100 + i;
        world.snapshot.states[i].name[0] = (char)('a' + i);
        world.snapshot.states[i].conninfo = "";
    }
}

/* A session that has seen so much. */
static inline void open_at(enum weir_session_strategy strategy, enum weir_session_behind behind, struct weir_place seen)
{
    const struct weir_session_options options = {
        .id = "ada", .id_size = 3, .strategy = strategy, .behind = behind, .wait_ms = 20
    };
    assert_int_equal(weir_session_open(&replicas, &options, &session), 0);
    if (seen.position > 0) {
        seen.system = SYSTEM;
        session->token.places[session->token.count++] = seen;
        weir_session_gained(session, NULL);
    }
}

/* Every connection and every snapshot has come back by now. */
static inline void end(void)
{
    weir_session_close(session);
    assert_int_equal(world.lent, 0);
    assert_int_equal(world.held, 0);
}

static inline void expect_read(const char *server, bool leader, uint64_t waited_ns)
{
    struct weir_read read;
    assert_int_equal(weir_session_read(session, &read), 0);
    assert_string_equal(read.server, server);
    assert_int_equal(read.leader, leader);
    assert_int_equal((uint64_t)(read.waited_ms * 1000000 + 0.5), waited_ns);
    assert_false(read.stale);
}

static inline void expect_refused(int error, const char *server, const char *text)
{
    struct weir_read read;
    struct weir_fault fault;
    assert_int_equal(weir_session_read(session, &read), error);
    weir_session_fault(session, &fault);
    assert_string_equal(fault.field, server);
    assert_non_null(strstr(fault.text, text));
}

/* ---- what is below a session ---- */

int weir_pool_take(struct weir_pool *pool, uint64_t server, const char *name, const char *conninfo, uint64_t until_ns,
                   struct weir_link **ret_link, struct weir_fault *ret_fault)
{
    (void)pool, (void)conninfo;
    struct server *of = &world.servers[server - 100];
    assert_true(until_ns >= world.now_ns);
    of->tried++;
    if (of->refuses) {
        *ret_fault = (struct weir_fault){ .field = "r", .text = "refused" };
        return of->refuses;
    }
    struct pg_conn *conn = calloc(1, sizeof *conn);
    weir_assert(conn);
    conn->server = (unsigned)(server - 100);
    conn->made = of->breaks;
    conn->link = (struct weir_link){ .conn = conn, .server = server, .fixed = { .system = of->now.system } };
    conn->link.name[0] = name[0];
    *ret_link = &conn->link;
    *ret_fault = (struct weir_fault){ 0 };
    world.lent++;
    of->taken++;
    return 0;
}

void weir_pool_drop(struct weir_pool *pool, struct weir_link *link)
{
    (void)pool;
    world.servers[link->conn->server].dropped++;
    world.lent--;
    free(link->conn);
}

void weir_pool_give(struct weir_pool *pool, struct weir_link *link)
{
    world.servers[link->conn->server].dropped--;
    weir_pool_drop(pool, link);
}

enum weir_link_state weir_link_state(struct weir_link *link)
{
    const struct server *of = &world.servers[link->conn->server];
    return link->conn->made != of->breaks ? WEIR_LINK_BROKEN : of->busy ? WEIR_LINK_BUSY : WEIR_LINK_IDLE;
}

int weir_link_ask(struct weir_link *link, uint64_t deadline_ns)
{
    struct server *server = &world.servers[link->conn->server];
    assert_true(deadline_ns == world.now_ns + replicas.timeout_ns);
    if (weir_link_state(link) != WEIR_LINK_IDLE)
        return weir_link_state(link) == WEIR_LINK_BUSY ? WEIR_EBUSY : WEIR_EIO;
    server->asked++;
    world.now_ns++;
    if (server->asked == server->last) {
        server->breaks++;
        return WEIR_EIO;
    }
    if (server->turns && server->asked > server->turns)
        server->now = server->polled;
    link->shown = server->now;
    link->asked = true;
    return 0;
}

int weir_link_after(struct weir_link *link, uint64_t deadline_ns)
{
    return weir_link_ask(link, deadline_ns);
}

int weir_link_number(struct weir_link *link, const char *query, uint64_t deadline_ns, uint64_t *ret_number)
{
    const struct server *of = &world.servers[link->conn->server];
    assert_ptr_equal(query, replicas.clock_query);
    assert_true(deadline_ns == world.now_ns + replicas.timeout_ns);
    if (weir_link_state(link) == WEIR_LINK_BUSY)
        return WEIR_EBUSY;
    *ret_number = of->clock;
    return of->clock ? 0 : WEIR_EPROTO;
}

int weir_link_query(struct weir_link *link, const struct weir_query *query, bool wants_place,
                    struct pg_result **ret_result, bool *ret_placed)
{
    (void)link, (void)query, (void)wants_place, (void)ret_result, (void)ret_placed;
    return WEIR_EIO;
}

int weir_shown_settle(struct pg_conn *conn, uint64_t deadline_ns)
{
    assert_true(deadline_ns > world.now_ns);
    world.servers[conn->server].settling++;
    return world.servers[conn->server].settles ? 0 : WEIR_EAGAIN;
}

uint64_t weir_ask_now_ns(void)
{
    return world.now_ns;
}

const struct weir_snapshot *weir_servers_look(struct weir_servers *servers)
{
    (void)servers;
    world.held++;
    struct weir_snapshot *copy = &looked_at[world.looks++ % LOOKS];
    *copy = world.snapshot; /* who holds it sees no later one */
    return copy;
}

void weir_servers_release(struct weir_servers *servers, const struct weir_snapshot *snapshot)
{
    (void)servers;
    assert_true(snapshot >= looked_at && snapshot < looked_at + LOOKS);
    world.held--;
}

void weir_servers_count(struct weir_servers *servers, uint64_t id)
{
    (void)servers;
    world.servers[id - 100].counted++;
}

int weir_servers_wait(struct weir_servers *servers, uint64_t number, uint64_t deadline_ns)
{
    (void)servers;
    assert_int_equal(number, world.snapshot.number);
    assert_true(deadline_ns > world.now_ns);
    world.waits++;
    world.now_ns += 3 * MS;
    for (unsigned i = 0; i < world.snapshot.count; i++)
        if (!world.servers[i].mute && world.servers[i].late < world.waits)
            poll(i);
    return 0;
}

int weir_servers_ask(struct weir_servers *servers, uint64_t id, uint64_t deadline_ns)
{
    (void)servers;
    assert_in_range(id, 100, 100 + world.snapshot.count - 1);
    struct server *server = &world.servers[id - 100];
    assert_true(deadline_ns > world.now_ns);
    server->polls++;
    world.patience_ns = deadline_ns - world.now_ns;
    if (server->mute || server->late > world.waits)
        return WEIR_EDOWN;
    poll((unsigned)(id - 100));
    return 0;
}

void weir_servers_tell(struct weir_servers *servers, const struct weir_shown *shown)
{
    (void)servers;
    assert_true(shown->primary);
    world.told++;
}
