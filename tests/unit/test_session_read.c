/* SPDX-License-Identifier: Apache-2.0
 *
 * One session over servers that stand where the test put them: where it reads, whom it asks, for how long it waits and
 * what it says. What is below a session (pollers, pool, links, the clock) is defined here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "engine/session/ask.h"
#include "engine/session/session_inside.h"

#define SYSTEM 7
#define MS UINT64_C(1000000)

/* ---- the servers ---- */

struct pg_conn {
    struct weir_link link;
    unsigned server;
};

/* What its poller will say, and what a connection to it says now. */
struct server {
    struct weir_shown polled, now;
    bool settles;                    /* those that run at the primary end when they are awaited */
    unsigned asked, polls, settling; /* how often */
};

static struct {
    struct server servers[4];
    struct weir_snapshot snapshot;
    uint64_t now_ns;
    unsigned waits;
} world;

static struct weir_replicas replicas = { .timeout_ns = 1000 * MS };
static struct weir_session *session;

static void poll(unsigned index)
{
    struct weir_route_server *entry = &world.snapshot.servers[index];
    entry->shown = world.servers[index].polled;
    entry->usable = entry->shown.system != 0;
    entry->asked_ns = ++world.now_ns;
    world.snapshot.number++;
    if (entry->shown.primary)
        weir_known_run(&world.snapshot.known, SYSTEM, entry->shown.timeline, entry->shown.run, entry->shown.flushed);
}

/* It is there, for its poller and for others. */
static void stand(unsigned index, struct weir_shown shown)
{
    world.servers[index].polled = world.servers[index].now = shown;
    poll(index);
}

static struct weir_shown primary(uint32_t timeline, uint64_t run, uint64_t position)
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

static struct weir_shown standby(uint32_t timeline, uint64_t position)
{
    return (struct weir_shown){ .system = SYSTEM,
                                .timeline = timeline,
                                .branch = timeline > 1 ? 20 : 0,
                                .position = position,
                                .received = position };
}

/* Timeline 2 left 1 at 104. */
static void fork_off(void)
{
    const struct weir_ancestor first = { .timeline = 1, .end = 104 };
    weir_known_history(&world.snapshot.known, SYSTEM,
                       &(struct weir_history){ .timeline = 2, .branch = 20, .count = 1, .ancestors = { first } });
}

static void begin(unsigned count)
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
static void open_at(enum weir_session_strategy strategy, enum weir_session_behind behind, struct weir_place seen)
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

static void end(void)
{
    weir_session_close(session);
}

static void expect_read(const char *server, bool leader, uint64_t waited_ns)
{
    struct weir_read read;
    assert_int_equal(weir_session_read(session, &read), 0);
    assert_string_equal(read.server, server);
    assert_int_equal(read.leader, leader);
    assert_int_equal(read.waited_ns, waited_ns);
    assert_false(read.stale);
}

static void expect_refused(int error, const char *server, const char *text)
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
    (void)pool, (void)conninfo, (void)until_ns;
    struct pg_conn *conn = calloc(1, sizeof *conn);
    weir_assert(conn);
    conn->server = (unsigned)(server - 100);
    conn->link = (struct weir_link){ .conn = conn, .server = server, .fixed = { .system = SYSTEM } };
    conn->link.name[0] = name[0];
    *ret_link = &conn->link;
    *ret_fault = (struct weir_fault){ 0 };
    return 0;
}

void weir_pool_drop(struct weir_pool *pool, struct weir_link *link)
{
    (void)pool;
    free(link->conn);
}

void weir_pool_give(struct weir_pool *pool, struct weir_link *link)
{
    weir_pool_drop(pool, link);
}

enum weir_link_state weir_link_state(struct weir_link *link)
{
    (void)link;
    return WEIR_LINK_IDLE;
}

int weir_link_ask(struct weir_link *link, uint64_t deadline_ns)
{
    (void)deadline_ns;
    struct server *server = &world.servers[link->conn->server];
    server->asked++;
    world.now_ns++;
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
    (void)link, (void)query, (void)deadline_ns, (void)ret_number;
    return WEIR_EPROTO;
}

int weir_link_query(struct weir_link *link, const struct weir_query *query, bool wants_place,
                    struct pg_result **ret_result, bool *ret_placed)
{
    (void)link, (void)query, (void)wants_place, (void)ret_result, (void)ret_placed;
    return WEIR_EIO;
}

int weir_shown_settle(struct pg_conn *conn, uint64_t deadline_ns)
{
    (void)deadline_ns;
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
    return &world.snapshot;
}

void weir_servers_release(struct weir_servers *servers, const struct weir_snapshot *snapshot)
{
    (void)servers, (void)snapshot;
}

void weir_servers_count(struct weir_servers *servers, uint64_t id)
{
    (void)servers, (void)id;
}

int weir_servers_wait(struct weir_servers *servers, uint64_t number, uint64_t deadline_ns)
{
    (void)servers, (void)number, (void)deadline_ns;
    world.waits++;
    world.now_ns += 3 * MS;
    for (unsigned i = 0; i < world.snapshot.count; i++)
        poll(i);
    return 0;
}

int weir_servers_ask(struct weir_servers *servers, uint64_t id, uint64_t deadline_ns)
{
    (void)servers, (void)deadline_ns;
    world.servers[id - 100].polls++;
    poll((unsigned)(id - 100));
    return 0;
}

void weir_servers_tell(struct weir_servers *servers, const struct weir_shown *shown)
{
    (void)servers, (void)shown;
}

/* ---- who is read ---- */

/* Whatever the strategy: what was read at one that the others left behind could be read nowhere else. */
static void read__is_of_no_standby_that_the_leader_left_behind(void **state)
{
    static const enum weir_session_strategy all[] = { WEIR_SESSION_TRACKED, WEIR_SESSION_STICKY };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        begin(2);
        fork_off();
        stand(0, primary(2, 5, 400));
        stand(1, standby(1, 112)); /* it went on after the fork */
        open_at(all[i], WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
        expect_read("a", true, 0);
        end();
        stand(1, standby(1, 104)); /* it follows yet */
        open_at(all[i], WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
        expect_read("b", false, 0);
        end();
        stand(1, standby(2, 400));
        open_at(all[i], WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
        expect_read("b", false, 0);
        end();
        world.servers[1].polled.branch = 21; /* of another promotion to timeline 2 */
        poll(1);
        open_at(all[i], WEIR_BEHIND_LEADER, (struct weir_place){ 0 });
        expect_read("a", true, 0);
        end();
    }
}

/* A session at the leader has waited for the replicas when it went there. */
static void read__at_the_leader_waits_no_more_and_goes_as_soon_as_a_replica_is_far_enough(void **state)
{
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 80));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ .timeline = 1, .position = 200 });
    uint64_t begun_ns = world.now_ns;
    struct weir_read read;
    assert_int_equal(weir_session_read(session, &read), 0);
    assert_true(read.leader && read.waited_ns > 0 && read.waited_ns <= world.now_ns - begun_ns);
    unsigned waits = world.waits;
    for (int i = 0; i < 3; i++) {
        poll(1);
        expect_read("a", true, 0);
    }
    assert_int_equal(world.waits, waits);
    stand(1, standby(1, 400));
    expect_read("b", false, 0);
    assert_int_equal(world.waits, waits);
    end();
}

/* ---- the check ---- */

/* What a standby shows the primary may not show yet: it is read once those that ran have ended. */
static void read__at_a_primary_awaits_the_commits_that_standbys_show(void **state)
{
    const struct weir_place seen = { .timeline = 1, .position = 200, .standby = true };
    (void)state;
    for (unsigned settles = 0; settles < 2; settles++) {
        begin(2);
        stand(0, primary(1, 5, 400));
        world.servers[0].now.settled = false;
        world.servers[0].settles = settles;
        stand(1, standby(1, 80));
        open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, seen);
        struct weir_read read;
        if (settles)
            assert_true(weir_session_read(session, &read) == 0 && read.leader);
        else
            expect_refused(WEIR_EBEHIND, "a", "behind");
        assert_true(world.servers[0].settling > 0);
        assert_int_equal(session->token.places[0].standby, !settles);
        end();
    }
    begin(1); /* alone, it showed all that was shown */
    stand(0, primary(1, 5, 400));
    world.servers[0].now.settled = false;
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_ERROR, seen);
    expect_read("a", true, 0);
    assert_int_equal(world.servers[0].settling, 0);
    end();
}

/* A crash took it back; the poller has not noticed. The connection says so, and it is named. */
static void read__of_what_a_crash_took_back_is_lost(void **state)
{
    (void)state;
    begin(2);
    stand(0, primary(1, 5, 400));
    stand(1, standby(1, 80));
    world.servers[0].now = primary(1, 6, 120);
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_OTHER, (struct weir_place){ .timeline = 1, .position = 200 });
    expect_refused(WEIR_ECUTOFF, "a", "cut off");
    end();
}

/* The same at one that others have left behind is its own loss. */
static void read__of_what_one_on_an_old_timeline_lost_goes_elsewhere(void **state)
{
    (void)state;
    begin(3);
    fork_off();
    stand(0, primary(2, 6, 400));
    stand(1, standby(2, 400));
    stand(2, standby(2, 400));
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ .timeline = 1, .position = 104, .run = 5 });
    weir_known_run(&world.snapshot.known, SYSTEM, 1, 5, 104);
    struct weir_read read;
    assert_int_equal(weir_session_read(session, &read), 0);
    unsigned at = (unsigned)(read.server[0] - 'a');
    end();
    /* The server where this user goes first was rebuilt, and is a primary of timeline 1 that crashed. */
    world.servers[at].now = primary(1, 9, 80);
    open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ .timeline = 1, .position = 104 });
    expect_read(at == 1 ? "c" : "b", false, 0);
    assert_true(world.servers[at].asked > 0);
    end();
}

/* Who stands still is there for a stale read; who is down is there for nobody. */
static void read__where_nobody_can_be_read_names_one_that_stands_still_first(void **state)
{
    static const struct {
        unsigned frozen, down; /* bits of the servers */
        const char *server, *text;
    } cases[] = {
        { 0, 0, "", "no server answers" }, { 0, 7, "a", "refused" },      { 4, 3, "c", "stands still" },
        { 6, 1, "b", "stands still" },     { 1, 6, "a", "stands still" },
    };
    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        begin(3);
        for (unsigned i = 0; i < 3; i++) {
            bool frozen = cases[c].frozen >> i & 1, down = cases[c].down >> i & 1;
            world.snapshot.servers[i].frozen = frozen;
            strcpy(world.snapshot.states[i].fault, frozen ? "it stands still" : down ? "refused" : "");
        }
        open_at(WEIR_SESSION_TRACKED, WEIR_BEHIND_LEADER, (struct weir_place){ .timeline = 1, .position = 104 });
        expect_refused(WEIR_EDOWN, cases[c].server, cases[c].text);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read__is_of_no_standby_that_the_leader_left_behind),
        cmocka_unit_test(read__at_the_leader_waits_no_more_and_goes_as_soon_as_a_replica_is_far_enough),
        cmocka_unit_test(read__at_a_primary_awaits_the_commits_that_standbys_show),
        cmocka_unit_test(read__of_what_a_crash_took_back_is_lost),
        cmocka_unit_test(read__of_what_one_on_an_old_timeline_lost_goes_elsewhere),
        cmocka_unit_test(read__where_nobody_can_be_read_names_one_that_stands_still_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
