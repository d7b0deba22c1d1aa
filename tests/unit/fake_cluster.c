/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "net/postgres_ask.h"

#define SYSTEM 77
#define FIRST_POSITION 4096
#define RETURNED_MS 40

static struct fake_cluster *world; /* one at a time: see the header */

static uint64_t chance(uint64_t bound)
{
    return test_random_below(&world->random, bound);
}

/* ---- the log ---- */

static uint32_t append(uint32_t parent, uint32_t timeline)
{
    weir_assert(world->record_count < FAKE_RECORDS_MAX);
    uint32_t index = world->record_count++;
    world->records[index] = (struct fake_record){ .parent = parent,
                                                  .timeline = timeline,
                                                  .end = world->records[parent].end + 64 + 8 * chance(4) };
    return index;
}

bool fake_cluster_contains(const struct fake_cluster *cluster, uint32_t b, uint32_t a)
{
    while (cluster->records[b].end > cluster->records[a].end)
        b = cluster->records[b].parent;
    return a == b;
}

/* The next record after `from` on the way to `to`, which contains it. */
static uint32_t after(uint32_t from, uint32_t to)
{
    while (to != from && world->records[to].parent != from)
        to = world->records[to].parent;
    return to;
}

static uint32_t move(uint32_t from, uint32_t to, uint64_t steps)
{
    while (steps-- > 0 && from != to)
        from = after(from, to);
    return from;
}

/* ---- servers ---- */

unsigned fake_cluster_leader(const struct fake_cluster *cluster)
{
    for (unsigned i = 0; i < FAKE_SERVERS; i++)
        if (cluster->servers[i].alive && cluster->servers[i].primary &&
            cluster->servers[i].timeline == cluster->timeline)
            return i;
    return FAKE_SERVERS;
}

static void advance_primary(struct fake_server *server)
{
    if (chance(3) == 0)
        server->written = append(server->written, server->timeline);
    if (chance(2) == 0)
        server->flushed = move(server->flushed, server->written, 1 + chance(4));
    /* Only what is flushed is committed, and so shown; the last commits may be a while in coming. */
    if (chance(3) == 0 && fake_cluster_contains(world, server->flushed, server->shown))
        server->shown = move(server->shown, server->flushed, 1 + chance(4));
}

static void advance_standby(struct fake_server *server)
{
    const struct fake_server *from = server->upstream < FAKE_SERVERS ? &world->servers[server->upstream] : NULL;
    if (from && from->alive && chance(2) == 0 && fake_cluster_contains(world, from->flushed, server->written)) {
        server->written = move(server->written, from->flushed, 1 + chance(6));
        server->timeline = from->timeline;
    }
    if (chance(server->slow ? 12 : 2) != 0)
        return;
    server->counted = server->shown; /* the one in flight has landed */
    for (uint64_t i = chance(6); i > 0 && server->counted != server->written; i--)
        server->counted = after(server->counted, server->written);
    server->shown = chance(2) == 0 ? after(server->counted, server->written) : server->counted;
}

static void restart_standby(struct fake_server *server)
{
    server->incarnation++;
    server->was_polled = true;
    for (uint64_t i = chance(5); i > 0 && server->counted != 0; i--)
        server->counted = world->records[server->counted].parent;
    server->shown = server->counted;
}

static void crash_primary(struct fake_server *server)
{
    server->incarnation++;
    server->written = server->shown = server->flushed;
    server->run += 1000;
}

/* No two promotions here take one number: a branch for each. */
static uint32_t branch_of(uint32_t timeline)
{
    return timeline > 1 ? 1000 + timeline : 0;
}

static void note_history(uint32_t timeline, uint32_t parent_timeline, uint64_t end)
{
    struct weir_history *history = &world->histories[timeline % 64];
    *history = parent_timeline > 1 ? world->histories[parent_timeline % 64] : (struct weir_history){ 0 };
    history->timeline = timeline;
    history->branch = branch_of(timeline);
    if (history->count == WEIR_ANCESTORS_MAX) {
        memmove(history->ancestors, history->ancestors + 1, sizeof history->ancestors[0] * (WEIR_ANCESTORS_MAX - 1));
        history->count--;
        history->cut = true;
    }
    history->ancestors[history->count++] = (struct weir_ancestor){ parent_timeline, end, branch_of(parent_timeline) };
}

static void follow(struct fake_server *server, unsigned leader)
{
    server->upstream = leader;
    if (!fake_cluster_contains(world, world->servers[leader].written, server->written))
        server->upstream = FAKE_SERVERS; /* it has what the other lacks */
}

/* A server that was away comes back as a copy of another. */
static void clone(struct fake_server *server, unsigned leader)
{
    const struct fake_server *from = &world->servers[leader];
    server->incarnation++;
    server->alive = true;
    server->primary = false;
    server->reachable = true;
    server->timeline = from->timeline;
    server->upstream = leader;
    server->written = server->flushed = server->shown = server->counted = from->flushed;
}

/* A standby becomes the primary; what it lacks is lost. The old one dies, or lives on as a zombie. */
static void fail_over(void)
{
    unsigned next = (unsigned)chance(FAKE_SERVERS), old = fake_cluster_leader(world);
    struct fake_server *server = &world->servers[next];
    if (!server->alive || server->primary || world->timeline > 60 ||
        (old < FAKE_SERVERS && !world->servers[old].was_polled) ||
        world->records[server->written].timeline != world->timeline)
        return;
    if (old < FAKE_SERVERS && chance(2) == 0) {
        world->servers[old].alive = false;
        world->servers[old].incarnation++;
    }
    uint32_t from = world->records[server->written].timeline;
    world->timeline++;
    note_history(world->timeline, from, world->records[server->written].end);
    server->primary = true;
    server->timeline = world->timeline;
    server->run = (uint64_t)(world->timeline + 1) * 1000000;
    server->written = append(server->written, server->timeline);
    server->flushed = server->shown = server->counted = server->written;
    server->was_polled = false;
    for (unsigned i = 0; i < FAKE_SERVERS; i++)
        if (i != next && world->servers[i].alive && !world->servers[i].primary)
            follow(&world->servers[i], chance(4) == 0 ? world->servers[i].upstream % FAKE_SERVERS : next);
}

static void happen(void)
{
    struct fake_server *server = &world->servers[chance(FAKE_SERVERS)];
    unsigned leader = fake_cluster_leader(world);
    if (chance(10) == 0)
        server->slow = !server->slow;
    if (world->faults.restarts && server->alive && !server->primary && chance(6) == 0)
        restart_standby(server);
    if (world->faults.restarts && chance(6) == 0)
        server->reachable = !server->reachable;
    if (world->faults.crashes && server->alive && server->primary && server->was_polled && chance(6) == 0)
        crash_primary(server);
    if (world->faults.failovers && chance(12) == 0)
        fail_over();
    leader = fake_cluster_leader(world);
    if (server->primary && !server->was_polled)
        return;
    bool is_stuck = !server->alive || (server->primary && server->timeline != world->timeline) ||
                    (!server->primary && (server->upstream >= FAKE_SERVERS || server->upstream != leader));
    if (is_stuck && leader < FAKE_SERVERS && chance(5) == 0)
        clone(server, leader);
}

void fake_cluster_tick(struct fake_cluster *cluster)
{
    weir_assert(cluster == world);
    for (unsigned i = 0; i < FAKE_SERVERS; i++) {
        struct fake_server *server = &world->servers[i];
        if (server->alive && server->primary)
            advance_primary(server);
        else if (server->alive)
            advance_standby(server);
    }
    world->now_ns += 1 + chance(200000);
    if (chance(40) == 0)
        happen();
}

static void pass(void)
{
    for (uint64_t i = chance(4); i > 0; i--)
        fake_cluster_tick(world);
}

/* ---- what a server says ---- */

static void tell(const struct fake_server *server, bool to_poller, struct weir_shown *ret)
{
    uint32_t counted = server->primary ? server->written : server->counted;
    struct weir_shown shown = { .system = SYSTEM, .primary = server->primary };
    shown.position = world->records[counted].end;
    if (server->primary) {
        shown.timeline = server->timeline;
        shown.flushed = world->records[server->flushed].end;
        shown.run = server->run;
        shown.settled = server->shown == server->written;
    } else {
        shown.timeline = to_poller ? world->records[server->shown].timeline : server->mute ? 0 : server->timeline;
        shown.received = server->shown == server->counted && server->written == server->counted
                             ? shown.position
                             : world->records[server->written].end;
    }
    *ret = shown;
}

static void poll(unsigned index)
{
    struct fake_server *server = &world->servers[index];
    struct weir_snapshot *snapshot = &world->snapshot;
    struct weir_route_server *entry = &snapshot->servers[index];
    entry->usable = server->alive && server->reachable;
    snapshot->number++;
    if (!entry->usable)
        return;
    tell(server, true, &entry->shown);
    entry->shown.branch = branch_of(entry->shown.timeline);
    server->was_polled = true;
    entry->asked_ns = snapshot->states[index].begun_ns = world->now_ns;
    world->now_ns++;
    if (entry->shown.timeline > 1)
        weir_known_history(&snapshot->known, SYSTEM, &world->histories[entry->shown.timeline % 64]);
    if (entry->shown.primary)
        weir_known_run(&snapshot->known, SYSTEM, entry->shown.timeline, entry->shown.branch, entry->shown.run,
                       entry->shown.flushed);
}

/* ---- beginning and ending ---- */

void fake_cluster_begin(struct fake_cluster *cluster, uint64_t seed, struct fake_faults faults)
{
    *cluster = (struct fake_cluster){ .random = { seed }, .faults = faults, .now_ns = 1000000, .timeline = 1 };
    world = cluster;
    cluster->records[0] = (struct fake_record){ 0, 1, FIRST_POSITION };
    cluster->record_count = 1;
    cluster->snapshot.count = FAKE_SERVERS;
    for (unsigned i = 0; i < FAKE_SERVERS; i++) {
        cluster->servers[i] = (struct fake_server){ .alive = true,
                                                    .primary = i == 0,
                                                    .reachable = true,
                                                    .mute = i == 3,
                                                    .upstream = i == 3 ? 2 : 0,
                                                    .timeline = 1,
                                                    .run = 1000000,
                                                    .was_polled = true };
        cluster->snapshot.servers[i].id = 100 + i;
        cluster->snapshot.states[i].name[0] = (char)('a' + i);
        cluster->snapshot.states[i].conninfo = "";
        poll(i);
    }
}

void fake_cluster_end(struct fake_cluster *cluster)
{
    weir_assert(cluster == world && cluster->lent == 0);
    world = NULL;
}

/* ---- connections ---- */

struct pg_conn {
    struct weir_link link;
    unsigned server;
    unsigned incarnation;
};

static struct fake_server *server_of(const struct pg_conn *conn)
{
    struct fake_server *server = &world->servers[conn->server];
    return server->alive && server->incarnation == conn->incarnation ? server : NULL;
}

bool fake_cluster_read(struct fake_cluster *cluster, struct pg_conn *conn, uint32_t *ret_record)
{
    struct fake_server *server = server_of(conn);
    weir_assert(cluster == world);
    if (server)
        *ret_record = server->shown;
    return server;
}

bool fake_cluster_write(struct fake_cluster *cluster, struct pg_conn *conn, uint32_t *ret_record)
{
    struct fake_server *server = server_of(conn);
    weir_assert(cluster == world);
    if (!server || !server->primary)
        return false;
    server->written = append(server->written, server->timeline);
    /* With synchronous_commit=off it is shown before it is flushed. */
    if (chance(2) == 0)
        server->flushed = server->written;
    *ret_record = server->shown = server->written;
    return true;
}

int weir_pool_take(struct weir_pool *pool, uint64_t server, const char *name, const char *conninfo, uint64_t until_ns,
                   struct weir_link **ret_link, struct weir_fault *ret_fault)
{
    (void)pool, (void)conninfo, (void)until_ns;
    pass();
    unsigned index = (unsigned)(server - 100);
    *ret_fault = (struct weir_fault){ 0 };
    if (!world->servers[index].alive)
        return WEIR_EDOWN;
    struct pg_conn *conn = calloc(1, sizeof *conn);
    weir_assert(conn);
    conn->server = index;
    conn->incarnation = world->servers[index].incarnation;
    conn->link = (struct weir_link){ .conn = conn, .server = server, .fixed = { .system = SYSTEM } };
    conn->link.name[0] = name[0];
    world->lent++;
    *ret_link = &conn->link;
    return 0;
}

void weir_pool_drop(struct weir_pool *pool, struct weir_link *link)
{
    (void)pool;
    world->lent--;
    free(link->conn);
}

void weir_pool_give(struct weir_pool *pool, struct weir_link *link)
{
    weir_pool_drop(pool, link);
}

enum weir_link_state weir_link_state(struct weir_link *link)
{
    return server_of(link->conn) ? WEIR_LINK_IDLE : WEIR_LINK_BROKEN;
}

int weir_link_ask(struct weir_link *link, uint64_t deadline_ns)
{
    (void)deadline_ns;
    pass();
    const struct fake_server *server = server_of(link->conn);
    if (!server)
        return WEIR_EIO;
    world->asked[server->primary]++;
    tell(server, false, &link->shown);
    link->asked = true;
    pass();
    return 0;
}

int weir_link_after(struct weir_link *link, uint64_t deadline_ns)
{
    int error = weir_link_ask(link, deadline_ns);
    if (error == 0)
        link->shown.settled = false;
    return error;
}

int weir_link_number(struct weir_link *link, const char *query, uint64_t deadline_ns, uint64_t *ret_number)
{
    (void)link, (void)query, (void)deadline_ns, (void)ret_number;
    return WEIR_EPROTO;
}

int weir_link_query(struct weir_link *link, const struct weir_query *query, bool wants_place,
                    struct pg_result **ret_result, bool *ret_placed)
{
    static uint32_t shown;
    struct fake_server *server = server_of(link->conn);
    (void)query;
    if (!server)
        return WEIR_EIO;
    shown = server->shown;
    *ret_result = (struct pg_result *)&shown;
    *ret_placed = wants_place && !server->mute && chance(4) > 0 && weir_link_after(link, 0) == 0;
    return 0;
}

int weir_shown_settle(struct pg_conn *conn, uint64_t deadline_ns)
{
    const struct fake_server *server = server_of(conn);
    uint32_t until = server ? server->written : 0;
    while (server_of(conn) && world->now_ns < deadline_ns) {
        if (fake_cluster_contains(world, server->shown, until))
            return 0;
        fake_cluster_tick(world);
    }
    return server_of(conn) ? WEIR_EAGAIN : WEIR_EIO;
}

/* ---- pollers and the clock ---- */

uint64_t weir_ask_now_ns(void)
{
    return world->now_ns;
}

const struct weir_snapshot *weir_servers_look(struct weir_servers *servers)
{
    (void)servers;
    return &world->snapshot;
}

void weir_servers_release(struct weir_servers *servers, const struct weir_snapshot *snapshot)
{
    (void)servers, (void)snapshot;
}

void weir_servers_count(struct weir_servers *servers, uint64_t id)
{
    (void)servers, (void)id;
    if (chance(3) == 0)
        poll((unsigned)chance(FAKE_SERVERS));
}

int weir_servers_wait(struct weir_servers *servers, uint64_t number, uint64_t deadline_ns)
{
    (void)servers, (void)number;
    pass();
    fake_cluster_tick(world);
    poll((unsigned)chance(FAKE_SERVERS));
    return world->now_ns < deadline_ns ? 0 : WEIR_EAGAIN;
}

int weir_servers_ask(struct weir_servers *servers, uint64_t id, uint64_t deadline_ns)
{
    (void)servers;
    pass();
    poll((unsigned)(id - 100));
    if (world->snapshot.servers[id - 100].usable)
        return 0;
    world->now_ns = deadline_ns;
    pass();
    return WEIR_EAGAIN;
}

void weir_servers_tell(struct weir_servers *servers, const struct weir_shown *shown)
{
    (void)servers;
    weir_known_run(&world->snapshot.known, SYSTEM, shown->timeline, shown->branch, shown->run, shown->flushed);
}
