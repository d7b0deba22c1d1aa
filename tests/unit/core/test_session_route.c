/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/session/route.h"
#include "weir/error.h"

/* A primary on timeline 2, which left 1 at 104, and standbys. */
#define PRIMARY(t, p)                                                                                                  \
    {                                                                                                                  \
        .id = 100, .usable = true, .asked_ns = 1000, .replayed_ns = 9000, .clock = 50, .shown = {                      \
            .system = 9,                                                                                               \
            .timeline = t,                                                                                             \
            .position = p,                                                                                             \
            .flushed = p,                                                                                              \
            .run = 5,                                                                                                  \
            .primary = true                                                                                            \
        }                                                                                                              \
    }
#define STANDBY(i, t, p)                                                                                               \
    {                                                                                                                  \
        .id = i, .usable = true, .asked_ns = 1000, .replayed_ns = p, .clock = p, .shown = {                            \
            .system = 9,                                                                                               \
            .timeline = t,                                                                                             \
            .position = p,                                                                                             \
            .received = p                                                                                              \
        }                                                                                                              \
    }

static struct weir_known family(void)
{
    struct weir_known known = { 0 };
    weir_known_history(&known, 9, &(struct weir_history){ .timeline = 2, .count = 1, .ancestors = { { 1, 104, 0 } } });
    return known;
}

static struct weir_session_token token_at(uint32_t timeline, uint64_t position)
{
    return (struct weir_session_token){ .count = 1,
                                        .places = { { .system = 9, .timeline = timeline, .position = position } } };
}

/* What was expected, in a word: "go 1", "leader 0", "stale 2", "wait 1", "behind", "lost" … */
static void expect(const char *what, const struct weir_route_request *request, const char *expected)
{
    struct weir_route route = weir_route_choose(request);
    char got[32];
    if (route.wait)
        snprintf(got, sizeof got, "wait %d%s", (int)route.server,
                 route.verdict == WEIR_PLACE_DIVERGED ? ", diverged" : "");
    else if (route.server == WEIR_ROUTE_NONE)
        snprintf(got, sizeof got, "%s", weir_place_verdict_name(route.verdict));
    else
        snprintf(got, sizeof got, "%s %d", route.stale ? "stale" : route.leader ? "leader" : "go", (int)route.server);
    if (strcmp(got, expected) != 0)
        fail_msg("%s: %s, not %s", what, got, expected);
}

static struct weir_route_request request_of(const struct weir_session_token *token, const struct weir_known *known,
                                            const struct weir_route_server *servers, unsigned count)
{
    return (struct weir_route_request){ .token = token,
                                        .known = known,
                                        .servers = servers,
                                        .server_count = count,
                                        .session = 12345,
                                        .stay = WEIR_ROUTE_NONE,
                                        .wait_left_ns = 1 };
}

/* Each policy, where the standbys are behind, with time left and without, with a leader and without. */
static void route__does_on_behind_what_the_policy_says(void **state)
{
    static const struct {
        enum weir_session_behind behind;
        const char *with_time, *without, *no_leader_with_time, *no_leader_without;
    } cases[] = {
        { WEIR_BEHIND_LEADER, "wait 2", "leader 0", "wait 2", "behind" },
        { WEIR_BEHIND_WAIT, "wait 2", "behind", "wait 2", "behind" },
        { WEIR_BEHIND_OTHER, "leader 0", "leader 0", "behind", "behind" },
        { WEIR_BEHIND_STALE, "wait 2", "stale 2", "wait 2", "stale 2" },
        { WEIR_BEHIND_ERROR, "behind", "behind", "behind", "behind" },
    };
    static const enum weir_session_strategy strategies[] = { WEIR_SESSION_TRACKED, WEIR_SESSION_PHYSICAL,
                                                             WEIR_SESSION_LAMPORT };
    struct weir_route_server servers[] = { PRIMARY(2, 400), STANDBY(11, 2, 120), STANDBY(12, 2, 128),
                                           STANDBY(13, 2, 112) };
    struct weir_session_token token = token_at(2, 136);
    const struct weir_known known = family();
    (void)state;
    token.stamp_ns = token.clock = 136;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t j = 0; j < 3; j++) {
            struct weir_route_request request = request_of(&token, &known, servers, 4);
            request.strategy = strategies[j];
            request.behind = cases[i].behind;
            servers[0].usable = true;
            expect("time left", &request, cases[i].with_time);
            request.wait_left_ns = 0;
            expect("no time left", &request, cases[i].without);
            servers[0].usable = false;
            expect("no leader, no time left", &request, cases[i].no_leader_without);
            request.wait_left_ns = 1;
            expect("no leader, time left", &request, cases[i].no_leader_with_time);
            /* Whatever the policy: another replica that is far enough goes first. */
            servers[3].shown.position = servers[3].clock = servers[3].replayed_ns = 136;
            expect("another one", &request, "go 3");
            servers[3].shown.position = servers[3].clock = servers[3].replayed_ns = 112;
        }
}

/* One that stands still is what there is, for `stale` alone, after the wait, and behind any that moves. */
static void route__reads_a_frozen_standby_as_stale_where_there_is_no_better(void **state)
{
    struct weir_route_server servers[] = { PRIMARY(2, 400), STANDBY(11, 2, 120), STANDBY(12, 2, 128) };
    struct weir_session_token token = token_at(2, 136), lost = token_at(1, 136);
    const struct weir_known known = family();
    struct weir_route_request request = request_of(&token, &known, servers, 3);
    (void)state;
    for (unsigned i = 1; i < 3; i++) {
        servers[i].usable = false;
        servers[i].frozen = true;
    }
    expect("leader", &request, "leader 0");
    request.behind = WEIR_BEHIND_STALE;
    expect("time left", &request, "wait -1");
    request.wait_left_ns = 0;
    expect("the furthest", &request, "stale 2");
    servers[2].shown.position = 400;
    expect("even if it shows enough", &request, "stale 2");
    servers[1].usable = true;
    servers[1].frozen = false;
    expect("one that moves", &request, "stale 1");
    servers[1].usable = servers[0].usable = false;
    expect("no leader", &request, "stale 2");
    servers[2].frozen = false;
    expect("it does not answer", &request, "behind");
    servers[2].frozen = servers[0].usable = true;
    for (enum weir_session_behind behind = 0; behind <= WEIR_BEHIND_ERROR; behind++) {
        request.behind = behind;
        bool leads = behind == WEIR_BEHIND_LEADER || behind == WEIR_BEHIND_OTHER;
        if (behind != WEIR_BEHIND_STALE)
            expect("another policy", &request, leads ? "leader 0" : "behind");
    }
    request.behind = WEIR_BEHIND_STALE;
    request.token = &lost;
    expect("lost", &request, "lost");
}

/* Where no standby ever may serve it, the leader does, at once; but not with a policy that keeps it free of reads,
 * unless it is the only server there is. */
static void route__goes_to_the_leader_where_no_standby_may_ever_serve(void **state)
{
    static const struct {
        const char *down, *astray, *without;
    } expected[] = {
        [WEIR_BEHIND_LEADER] = { "leader 0", "leader 0", "leader 0" },
        [WEIR_BEHIND_WAIT] = { "wait -1", "wait -1", "behind" },
        [WEIR_BEHIND_OTHER] = { "leader 0", "leader 0", "leader 0" },
        [WEIR_BEHIND_STALE] = { "wait -1", "wait -1", "behind" },
        [WEIR_BEHIND_ERROR] = { "behind", "behind", "behind" },
    };
    struct weir_route_server alone[] = { PRIMARY(2, 400) };
    struct weir_route_server down[] = { PRIMARY(2, 400), STANDBY(11, 2, 400) };
    struct weir_route_server astray[] = { PRIMARY(2, 400), STANDBY(11, 1, 112) };
    struct weir_session_token token = token_at(2, 136);
    const struct weir_known known = family();
    (void)state;
    down[1].usable = false;
    for (enum weir_session_behind behind = WEIR_BEHIND_LEADER; behind <= WEIR_BEHIND_ERROR; behind++) {
        struct weir_route_request request = request_of(&token, &known, alone, 1);
        request.behind = behind;
        expect("alone", &request, "leader 0");
        request.servers = down;
        request.server_count = 2;
        expect("standby down", &request, expected[behind].down);
        request.servers = astray;
        expect("standby astray", &request, expected[behind].astray);
        request.servers = down;
        request.wait_left_ns = 0;
        expect("standby down, no time left", &request, expected[behind].without);
    }
}

/* A standby that follows a zombie shows what was seen; nobody else ever will show what it shows besides. */
static void route__does_not_read_at_a_standby_that_went_astray(void **state)
{
    struct weir_route_server servers[] = { PRIMARY(2, 400), STANDBY(11, 1, 112), STANDBY(12, 1, 104),
                                           STANDBY(13, 0, 400) };
    struct weir_session_token token = token_at(1, 80), empty = { 0 };
    const struct weir_known known = family();
    struct weir_route_request request = request_of(&token, &known, servers, 2);
    (void)state;
    expect("only the one astray", &request, "leader 0");
    request.token = &empty;
    expect("nothing seen", &request, "leader 0");
    servers[0].usable = false;
    expect("nobody else", &request, "wait -1, diverged");
    servers[0].usable = true;
    request.server_count = 3;
    expect("one that is not", &request, "go 2");
    servers[2].usable = false;
    request.server_count = 4;
    request.token = &token;
    expect("one that cannot tell", &request, "wait 3");
    request.strategy = WEIR_SESSION_PHYSICAL;
    servers[3].usable = false;
    expect("physical", &request, "leader 0");
}

static void route__tells_at_once_what_is_lost(void **state)
{
    struct weir_route_server servers[] = { PRIMARY(2, 400), STANDBY(11, 2, 104), STANDBY(12, 1, 80) };
    struct weir_session_token lost = token_at(1, 112), foreign = token_at(1, 8);
    const struct weir_known known = family();
    (void)state;
    foreign.places[0].system = 8;
    for (enum weir_session_behind behind = WEIR_BEHIND_LEADER; behind <= WEIR_BEHIND_ERROR; behind++) {
        struct weir_route_request request = request_of(&lost, &known, servers, 3);
        request.behind = behind;
        servers[0].usable = true;
        expect("lost", &request, "lost");
        request.write = true;
        expect("lost, a write", &request, "lost");
        request.write = false;
        request.token = &foreign;
        expect("foreign", &request, "foreign");
        servers[0].usable = false;
        expect("foreign, no leader", &request, "foreign");
        request.token = &lost;
        request.server_count = 2;
        expect("lost, no leader", &request, "lost");
        request.server_count = 3;
        request.behind = WEIR_BEHIND_WAIT;
        expect("lost by one, no leader, and another may come", &request, "wait 2");
    }
}

/* The leader's position of before the token came says nothing against it; asked afterwards, it does. */
static void route__finds_a_forged_position_out_without_waiting(void **state)
{
    struct weir_route_server servers[] = { PRIMARY(2, 400), STANDBY(11, 2, 400) };
    struct weir_session_token token = token_at(2, UINT64_MAX - 7);
    const struct weir_known known = family();
    struct weir_route_request request = request_of(&token, &known, servers, 2);
    (void)state;
    request.came_ns = 1000;
    expect("asked before", &request, "wait 1");
    servers[0].asked_ns = 1001;
    expect("asked after", &request, "lost");
    request.came_ns = 0;
    expect("not known when it came", &request, "wait 1");
    request.wait_left_ns = 0;
    expect("no time left", &request, "leader 0");
    request.came_ns = 1000;
    expect("asked after, no time left", &request, "lost");
    token = token_at(2, 401);
    expect("half a position beyond", &request, "leader 0");
    token = token_at(2, 408);
    token.places[0].run = 4;
    request.came_ns = 1001;
    expect("a run that may be the leader's now", &request, "leader 0");
    servers[0].shown.position = 408;
    servers[0].asked_ns = 1002;
    expect("a run that is over", &request, "lost");
    token.places[0].run = 5;
    expect("the run that is on", &request, "leader 0");
}

static void route__sends_writes_to_the_leader(void **state)
{
    struct weir_route_server servers[] = { STANDBY(11, 2, 400), PRIMARY(2, 400), PRIMARY(1, 400) };
    struct weir_session_token token = token_at(2, 136), ahead = token_at(3, 136);
    const struct weir_known known = family();
    (void)state;
    for (enum weir_session_strategy strategy = 0; strategy <= WEIR_SESSION_LAMPORT; strategy++) {
        struct weir_route_request request = request_of(&token, &known, servers, 3);
        request.strategy = strategy;
        request.write = true;
        token.places[0].standby = true; /* what it does not show yet it cannot overlook in a write */
        servers[1].usable = true;
        expect("write", &request, "leader 1");
        request.token = &ahead;
        expect("a timeline that is not known yet", &request, "wait 1");
        request.wait_left_ns = 0;
        expect("not known, no time left", &request, "unproven");
        request.token = &token;
        servers[1].usable = false;
        expect("no leader but a zombie", &request, "behind");
        request.wait_left_ns = 1;
        expect("no leader yet", &request, "wait -1");
        request.behind = WEIR_BEHIND_ERROR;
        expect("no leader, no patience", &request, "behind");
    }
}

static void route__stays_where_it_is_while_that_shows_enough(void **state)
{
    struct weir_route_server servers[] = { PRIMARY(2, 400), STANDBY(11, 2, 136), STANDBY(12, 2, 136),
                                           STANDBY(13, 2, 136) };
    struct weir_session_token token = token_at(2, 136);
    const struct weir_known known = family();
    struct weir_route_request request = request_of(&token, &known, servers, 4);
    (void)state;
    uint32_t own = weir_route_choose(&request).server;
    for (uint32_t i = 0; i < 60; i++) {
        request.session = i;
        request.stay = 1 + i % 3;
        assert_int_equal(weir_route_choose(&request).server, request.stay);
    }
    request.session = 12345;
    request.stay = own == 1 ? 2 : 1;
    servers[request.stay].shown.position = 128;
    assert_int_equal(weir_route_choose(&request).server, own);
    request.stay = 0; /* after a write: reads leave the primary as soon as they can */
    assert_int_equal(weir_route_choose(&request).server, own);
}

static void route__waits_for_the_one_that_is_nearest(void **state)
{
    struct weir_route_server servers[] = { PRIMARY(2, 400), STANDBY(11, 3, 400), STANDBY(12, 2, 120),
                                           STANDBY(13, 2, 128), STANDBY(14, 2, 128) };
    struct weir_session_token token = token_at(2, 136);
    struct weir_known known = family();
    struct weir_route_request request = request_of(&token, &known, servers, 5);
    (void)state;
    servers[0].usable = false;
    expect("one whose history is not known is the last", &request, "wait 3");
    servers[2].usable = servers[3].usable = servers[4].usable = false;
    expect("only that one", &request, "wait 1");
    request.wait_left_ns = 0;
    expect("only that one, and no time", &request, "unproven");
    request.behind = WEIR_BEHIND_STALE;
    expect("stale from that one", &request, "stale 1");
    servers[1].usable = false;
    expect("nobody at all", &request, "behind");
    request.wait_left_ns = 1;
    expect("nobody yet", &request, "wait -1");
    request.server_count = 0;
    expect("no servers", &request, "wait -1");
}

/* ---- the strategies that do not look ---- */

static void route__sticky_goes_to_its_own_whatever_that_shows(void **state)
{
    struct weir_route_server servers[] = { PRIMARY(2, 400), STANDBY(11, 2, 8), STANDBY(12, 2, 8), STANDBY(13, 2, 8) };
    struct weir_session_token token = token_at(2, 136);
    const struct weir_known known = family();
    struct weir_route_request request = request_of(&token, &known, servers, 4);
    (void)state;
    request.strategy = WEIR_SESSION_STICKY;
    token.wrote_ns = request.window_ns = UINT64_MAX; /* which is nothing to it */
    struct weir_route first = weir_route_choose(&request);
    assert_true(first.server != WEIR_ROUTE_NONE && first.server != 0 && !first.wait && !first.leader);
    assert_int_equal(first.verdict, WEIR_PLACE_BEHIND);
    request.stay = first.server == 1 ? 2 : 1; /* where it happens to be does not matter */
    assert_int_equal(weir_route_choose(&request).server, first.server);
    servers[first.server].usable = false;
    struct weir_route second = weir_route_choose(&request);
    assert_true(second.server != first.server && second.server != 0);
    servers[1].usable = servers[2].usable = servers[3].usable = false;
    expect("no standby", &request, "leader 0");
    servers[0].usable = false;
    expect("nobody", &request, "behind");
}

static void route__window_goes_to_the_leader_for_a_while_after_a_write(void **state)
{
    struct weir_route_server servers[] = { PRIMARY(2, 400), STANDBY(11, 2, 8) };
    struct weir_session_token token = token_at(2, 136);
    const struct weir_known known = family();
    struct weir_route_request request = request_of(&token, &known, servers, 2);
    static const struct {
        uint64_t wrote, now, window;
        const char *expected;
    } cases[] = {
        { 0, 500, 1000, "go 1" },
        { 500, 500, 1000, "leader 0" },
        { 500, 1499, 1000, "leader 0" },
        { 500, 1500, 1000, "go 1" },
        { 500, 499, 1000, "leader 0" }, /* another machine's clock is ahead */
        { 500, 500, 0, "go 1" },
        { UINT64_MAX, UINT64_MAX - 1, 1000, "leader 0" },
        { UINT64_MAX - 1, UINT64_MAX - 1, UINT64_MAX, "leader 0" },
    };
    (void)state;
    request.strategy = WEIR_SESSION_WINDOW;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        token.wrote_ns = cases[i].wrote;
        request.wall_ns = cases[i].now;
        request.window_ns = cases[i].window;
        expect("window", &request, cases[i].expected);
    }
    servers[0].usable = false;
    token.wrote_ns = request.wall_ns = 500;
    request.window_ns = 1000;
    expect("no leader", &request, "go 1");
}

static void route__physical_and_lamport_go_by_their_clocks_alone(void **state)
{
    struct weir_route_server servers[] = { PRIMARY(2, 400), STANDBY(11, 2, 8), STANDBY(12, 2, 8) };
    struct weir_session_token token = token_at(2, 136);
    const struct weir_known known = family();
    struct weir_route_request request = request_of(&token, &known, servers, 3);
    (void)state;
    token.stamp_ns = token.clock = 1000;
    request.behind = WEIR_BEHIND_OTHER;
    servers[1].replayed_ns = 1000;
    servers[2].clock = 1000;
    request.strategy = WEIR_SESSION_PHYSICAL;
    expect("physical", &request, "go 1");
    request.strategy = WEIR_SESSION_LAMPORT;
    expect("lamport", &request, "go 2");
    servers[2].clock = 999;
    expect("lamport behind", &request, "leader 0");
    servers[1].replayed_ns = 999;
    request.strategy = WEIR_SESSION_PHYSICAL;
    expect("physical behind", &request, "leader 0");
    token.stamp_ns = token.clock = UINT64_MAX;
    expect("at the end of time", &request, "leader 0");
}

static void lamport__moves_past_both_and_wraps_nowhere(void **state)
{
    uint64_t clock = 7;
    (void)state;
    assert_int_equal(weir_lamport_after(UINT64_MAX, 0, &clock), WEIR_ERANGE);
    assert_int_equal(weir_lamport_after(0, UINT64_MAX, &clock), WEIR_ERANGE);
    assert_int_equal(clock, 7);
    assert_int_equal(weir_lamport_after(3, 9, &clock), 0);
    assert_int_equal(clock, 10);
    assert_int_equal(weir_lamport_after(9, 3, &clock), 0);
    assert_int_equal(clock, 10);
    assert_int_equal(weir_lamport_after(UINT64_MAX - 1, 0, &clock), 0);
    assert_true(clock == UINT64_MAX);
}

/* ---- the leader ---- */

static void leader__is_the_primary_of_the_highest_timeline(void **state)
{
    struct weir_route_server servers[] = { PRIMARY(1, 400), STANDBY(11, 1, 400), PRIMARY(2, 200) };
    (void)state;
    assert_int_equal(weir_route_leader(servers, 0), WEIR_ROUTE_NONE);
    assert_int_equal(weir_route_leader(servers, 2), 0);
    assert_int_equal(weir_route_leader(servers, 3), 2);
    servers[2].usable = false; /* it was seen: the old one is a zombie for good */
    assert_int_equal(weir_route_leader(servers, 3), WEIR_ROUTE_NONE);
    servers[2].shown = (struct weir_shown){ 0 };
    assert_int_equal(weir_route_leader(servers, 3), 0);
    servers[1].shown.timeline = 2; /* a standby knows of another primary */
    assert_int_equal(weir_route_leader(servers, 3), WEIR_ROUTE_NONE);
    servers[1].shown.system = 8;
    assert_int_equal(weir_route_leader(servers, 3), 0);
}

static void leader__is_nobody_in_a_split(void **state)
{
    struct weir_route_server servers[] = { PRIMARY(2, 400), PRIMARY(2, 400) };
    (void)state;
    assert_int_equal(weir_route_leader(servers, 2), 0); /* one server under two names */
    servers[1].shown.run = 6;
    assert_int_equal(weir_route_leader(servers, 2), WEIR_ROUTE_NONE);
    servers[1].usable = false;
    assert_int_equal(weir_route_leader(servers, 2), 0);
    servers[1].usable = true;
    servers[1].shown.run = 5;
    servers[1].shown.system = 8;
    assert_int_equal(weir_route_leader(servers, 2), WEIR_ROUTE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(route__does_on_behind_what_the_policy_says),
        cmocka_unit_test(route__reads_a_frozen_standby_as_stale_where_there_is_no_better),
        cmocka_unit_test(route__goes_to_the_leader_where_no_standby_may_ever_serve),
        cmocka_unit_test(route__does_not_read_at_a_standby_that_went_astray),
        cmocka_unit_test(route__tells_at_once_what_is_lost),
        cmocka_unit_test(route__finds_a_forged_position_out_without_waiting),
        cmocka_unit_test(route__sends_writes_to_the_leader),
        cmocka_unit_test(route__stays_where_it_is_while_that_shows_enough),
        cmocka_unit_test(route__waits_for_the_one_that_is_nearest),
        cmocka_unit_test(route__sticky_goes_to_its_own_whatever_that_shows),
        cmocka_unit_test(route__window_goes_to_the_leader_for_a_while_after_a_write),
        cmocka_unit_test(route__physical_and_lamport_go_by_their_clocks_alone),
        cmocka_unit_test(lamport__moves_past_both_and_wraps_nowhere),
        cmocka_unit_test(leader__is_the_primary_of_the_highest_timeline),
        cmocka_unit_test(leader__is_nobody_in_a_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
