/* SPDX-License-Identifier: Apache-2.0
 *
 * The one policy of a session's request: both who ask it, the service and the library, do what it says, over random
 * worlds; and what it says once a check has failed. Stands for the servers that the library waits for and asks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/session/policy.h"
#include "net/postgres_ask.h"
#include "random.h"
#include "serve/session_decide.h"
#include "sessions/session_inside.h"

#define SYSTEM 77
#define MS UINT64_C(1000000)
#define CAME (1000 * MS)
#define ROUNDS 50000

static struct test_random dice;
static struct weir_snapshot snapshot;
static struct weir_session_token token;
static uint64_t now_ns;
static unsigned waits, asks;

static uint64_t below(uint64_t bound)
{
    return test_random_below(&dice, bound);
}

/* ---- what the library has below it ---- */

uint64_t weir_ask_now_ns(void)
{
    return now_ns;
}

const struct weir_snapshot *weir_servers_look(struct weir_servers *servers)
{
    (void)servers;
    return &snapshot;
}

void weir_servers_release(struct weir_servers *servers, const struct weir_snapshot *released)
{
    (void)servers, (void)released;
}

/* No news until it is late. */
int weir_servers_wait(struct weir_servers *servers, uint64_t number, uint64_t deadline_ns)
{
    (void)servers, (void)number;
    waits++;
    now_ns = deadline_ns;
    return WEIR_EAGAIN;
}

int weir_servers_ask(struct weir_servers *servers, uint64_t id, uint64_t deadline_ns)
{
    (void)servers, (void)id, (void)deadline_ns;
    asks++;
    now_ns += MS;
    return WEIR_EAGAIN;
}

/* ---- random worlds ---- */

static struct weir_shown random_shown(void)
{
    struct weir_shown shown = {
        .system = below(20) ? SYSTEM : SYSTEM + 1,
        .position = 800 + 8 * below(8),
        .timeline = (uint32_t)(below(12) ? 1 + below(3) : 0),
        .primary = below(3) == 0,
        .settled = below(2),
        .streams = below(4) != 0,
        .started = 1 + below(3),
        .told = below(6) == 0,
    };
    shown.received = shown.position + 8 * below(2);
    shown.flushed = shown.position - 8 * below(2);
    shown.run = shown.primary ? 5 + below(2) : 0;
    shown.branch = shown.timeline > 1 ? (uint32_t)(9 + below(2)) : 0;
    return shown;
}

static void random_known(struct weir_known *known)
{
    *known = (struct weir_known){ 0 };
    for (uint32_t timeline = 2; timeline <= 3; timeline++) {
        struct weir_history history = { .timeline = timeline, .branch = (uint32_t)(9 + below(2)), .count = 1 };
        history.ancestors[0] = (struct weir_ancestor){ timeline - 1, 800 + 8 * below(8), timeline == 3 ? 9 : 0 };
        if (below(3))
            weir_known_history(known, SYSTEM, &history);
    }
    for (uint64_t run = 5; run <= 6; run++)
        if (below(2))
            weir_known_run(known, SYSTEM, (uint32_t)(1 + below(3)), 0, run, 800 + 8 * below(8));
}

static void random_world(void)
{
    memset(&snapshot, 0, sizeof snapshot);
    random_known(&snapshot.known);
    snapshot.count = (unsigned)(1 + below(5));
    for (unsigned i = 0; i < snapshot.count; i++) {
        struct weir_route_server *server = &snapshot.servers[i];
        *server = (struct weir_route_server){ .id = 10 + i,
                                              .shown = random_shown(),
                                              .asked_ns = below(10) ? CAME - MS + 2 * MS * below(2) : 0,
                                              .settled_ns = CAME - MS + 2 * MS * below(2),
                                              .usable = below(3) != 0 };
        server->frozen = !server->usable && !server->shown.primary && below(2);
        snapshot.states[i].begun_ns = server->asked_ns;
        snapshot.states[i].name[0] = (char)('a' + (int)i);
    }
    token = (struct weir_session_token){ .wrote_ns = below(2) };
    for (uint64_t i = below(3); i > 0; i--) {
        struct weir_place place = { .system = below(20) ? SYSTEM : SYSTEM + 1,
                                    .position = (800 + 8 * below(8)) | (below(5) == 0),
                                    .timeline = (uint32_t)(1 + below(4)),
                                    .standby = below(2),
                                    .run = below(5) ? 0 : 5 + below(2) };
        place.branch = place.timeline > 1 ? (uint32_t)(9 + below(2)) : 0;
        assert_int_equal(weir_session_token_add(&token, &place, &snapshot.known), 0);
    }
}

static struct weir_policy_request random_request(enum weir_policy_caller caller)
{
    static const enum weir_session_strategy strategies[] = { WEIR_SESSION_TRACKED, WEIR_SESSION_TRACKED,
                                                             WEIR_SESSION_STICKY, WEIR_SESSION_WINDOW };
    struct weir_policy_request request = {
        .caller = caller,
        .begun_ns = CAME + MS,
        .now_ns = CAME + MS + 10 * MS * below(5),
        .wait_ns = CAME + MS + 20 * MS * below(3),
    };
    request.give_up_ns = request.wait_ns + 20 * MS * below(2);
    request.route = (struct weir_route_request){ .token = &token,
                                                 .known = &snapshot.known,
                                                 .servers = snapshot.servers,
                                                 .server_count = snapshot.count,
                                                 .session = below(1000),
                                                 .stay = below(2) ? (uint32_t)below(snapshot.count) : WEIR_ROUTE_NONE,
                                                 .came_ns = CAME,
                                                 .wall_ns = 1,
                                                 .window_ns = below(2) * 1000 * MS,
                                                 .strategy = strategies[below(4)],
                                                 .behind = (enum weir_session_behind)below(5),
                                                 .write = below(4) == 0 };
    return request;
}

/* ---- the service does what it says ---- */

static enum weir_session_said said_by(const struct weir_policy *policy)
{
    static const enum weir_session_said ends[] = {
        [WEIR_ROUTE_LOST] = WEIR_SESSION_LOST,
        [WEIR_ROUTE_FOREIGN] = WEIR_SESSION_FOREIGN,
        [WEIR_ROUTE_BEHIND] = WEIR_SESSION_BEHIND,
        [WEIR_ROUTE_DOWN] = WEIR_SESSION_DOWN,
    };
    return policy->next == WEIR_POLICY_GO     ? WEIR_SESSION_ROUTED
           : policy->next == WEIR_POLICY_WAIT ? WEIR_SESSION_WAITS
                                              : ends[policy->end];
}

static void the_service__does_what_the_policy_says(void **state)
{
    (void)state;
    unsigned said[WEIR_SESSION_SAID] = { 0 };
    for (unsigned i = 0; i < ROUNDS; i++) {
        random_world();
        struct weir_policy_request request = random_request(WEIR_POLICY_STATEMENT);
        bool primary = below(8) == 0;
        request.avoided = below(4) ? 0 : below(32);
        struct weir_session_case route = { .token = token,
                                           .session = request.route.session,
                                           .strategy = request.route.strategy,
                                           .behind = request.route.behind,
                                           .write = request.route.write,
                                           .primary = primary,
                                           .came_ns = CAME,
                                           .wait_ns = request.wait_ns,
                                           .give_up_ns = request.give_up_ns };
        const struct weir_session_times times = { .now_ns = request.now_ns,
                                                  .wall_ns = request.route.wall_ns,
                                                  .window_ns = request.route.window_ns,
                                                  .freeze_ns = 1000 * MS,
                                                  .poll_ns = 50 * MS };
        if (request.route.stay != WEIR_ROUTE_NONE)
            route.stay[0] = (char)('a' + (int)request.route.stay);
        for (unsigned k = 0; k < snapshot.count; k++)
            if (request.avoided >> k & 1)
                route.avoid[route.avoid_count++][0] = (char)('a' + (int)k);
        request.route.write = request.route.write || primary;
        weir_session_tidy(&token, &snapshot.known);
        static struct weir_session_answer answer;
        weir_session_decide(&route, &snapshot, &times, &answer);
        const struct weir_policy policy = weir_policy_decide(&request);
        assert_int_equal(answer.said, said_by(&policy));
        said[answer.said]++;
        if (policy.next != WEIR_POLICY_GO)
            continue;
        assert_int_equal(answer.index, policy.route.server);
        assert_int_equal(answer.proven, policy.shows_all);
        assert_int_equal(answer.stale, policy.route.stale || policy.route.verdict != WEIR_PLACE_OK);
    }
    assert_true(said[WEIR_SESSION_ROUTED] && said[WEIR_SESSION_WAITS] && said[WEIR_SESSION_LOST] &&
                said[WEIR_SESSION_BEHIND] && said[WEIR_SESSION_DOWN] && said[WEIR_SESSION_FOREIGN]);
}

/* ---- the library does what it says ---- */

struct outcome {
    int error;
    struct weir_route route; /* where there is no error */
    unsigned waits, asks;
};

static bool same(const struct weir_route *one, const struct weir_route *other)
{
    return one->server == other->server && one->verdict == other->verdict && one->wait == other->wait &&
           one->stale == other->stale && one->leader == other->leader;
}

static struct outcome by_policy(struct weir_policy_request request)
{
    static const int ends[] = { [WEIR_ROUTE_LOST] = WEIR_ECUTOFF,
                                [WEIR_ROUTE_FOREIGN] = WEIR_EFOREIGN,
                                [WEIR_ROUTE_BEHIND] = WEIR_EBEHIND,
                                [WEIR_ROUTE_DOWN] = WEIR_EDOWN };
    struct outcome outcome = { 0 };
    for (;; request.looked = true) {
        const struct weir_policy policy = weir_policy_decide(&request);
        if (policy.next == WEIR_POLICY_ASK) {
            outcome.asks++;
            request.now_ns += MS;
        } else if (policy.next == WEIR_POLICY_WAIT) {
            outcome.waits++;
            request.now_ns = request.wait_ns;
        } else if (policy.next == WEIR_POLICY_GO) {
            outcome.route = policy.route;
            return outcome;
        } else {
            outcome.error = ends[policy.end];
            return outcome;
        }
    }
}

static void the_library__does_what_the_policy_says(void **state)
{
    (void)state;
    unsigned went = 0, waited = 0, asked = 0, at_leader = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        static struct weir_replicas replicas;
        static struct weir_session session;
        static struct weir_call call;
        struct weir_link links[2] = { { .server = 0 } };
        random_world();
        struct weir_policy_request request = random_request(WEIR_POLICY_CONNECTION);
        request.give_up_ns = request.wait_ns;
        request.at_leader = !request.route.write && below(4) == 0;
        session = (struct weir_session){ .replicas = &replicas,
                                         .id = request.route.session,
                                         .strategy = request.route.strategy,
                                         .behind = request.route.behind,
                                         .window_ns = request.route.window_ns,
                                         .token = token,
                                         .version = 1,
                                         .gained_ns = CAME };
        session.token.wrote_ns = 0; /* the wall's clock is no matter then */
        token.wrote_ns = 0;
        if (request.route.stay != WEIR_ROUTE_NONE) {
            links[0].server = 10 + request.route.stay;
            session.pins[WEIR_PINNED_REPLICA].link = &links[0];
        }
        if (request.at_leader) {
            session.pins[WEIR_PINNED_LEADER] = (struct weir_pinned){ .link = &links[1], .version = 1 };
            session.at = &session.pins[WEIR_PINNED_LEADER];
        }
        call = (struct weir_call){ .session = &session, .begun_ns = request.begun_ns, .until_ns = request.wait_ns };
        now_ns = request.now_ns;
        waits = asks = 0;
        weir_call_look(&call);
        request.route.servers = call.servers;
        static const struct weir_session_token none;
        if (request.route.write && request.route.strategy != WEIR_SESSION_TRACKED)
            request.route.token = &none;
        const struct outcome expected = by_policy(request);
        struct weir_route route = { 0 };
        assert_int_equal(weir_session_find(&call, request.route.write, &route), expected.error);
        assert_int_equal(waits, expected.waits);
        assert_int_equal(asks, expected.asks);
        if (!expected.error)
            assert_true(same(&route, &expected.route));
        went += !expected.error;
        waited += waits;
        asked += asks;
        at_leader += request.at_leader;
    }
    assert_true(went && waited && asked && at_leader);
}

/* ---- what it promises to both ---- */

static void nobody__waits_when_the_time_is_over(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        random_world();
        struct weir_policy_request request = random_request(below(2) ? WEIR_POLICY_STATEMENT : WEIR_POLICY_CONNECTION);
        request.now_ns = request.give_up_ns + below(2);
        request.looked = true;
        const struct weir_policy policy = weir_policy_decide(&request);
        assert_true(policy.next == WEIR_POLICY_GO || policy.next == WEIR_POLICY_END);
    }
}

/* A primary on timeline 2, which left 1 at 104, and a standby of it. */
static struct weir_policy_request one_failover(void)
{
    struct weir_history history = { .timeline = 2, .branch = 9, .count = 1, .ancestors = { { 1, 104, 0 } } };
    memset(&snapshot, 0, sizeof snapshot);
    weir_known_history(&snapshot.known, SYSTEM, &history);
    snapshot.count = 2;
    for (unsigned i = 0; i < 2; i++)
        snapshot.servers[i] = (struct weir_route_server){ .id = 10 + i,
                                                          .shown = { .system = SYSTEM,
                                                                     .timeline = 2,
                                                                     .branch = 9,
                                                                     .position = 200,
                                                                     .primary = i == 0,
                                                                     .run = i == 0 },
                                                          .asked_ns = CAME + 1,
                                                          .usable = true };
    token = (struct weir_session_token){ .count = 0 };
    return (struct weir_policy_request){ .route = { .token = &token,
                                                    .known = &snapshot.known,
                                                    .servers = snapshot.servers,
                                                    .server_count = 2,
                                                    .stay = WEIR_ROUTE_NONE,
                                                    .came_ns = CAME } };
}

static void see(uint32_t timeline, uint64_t position)
{
    const struct weir_place place = {
        .system = SYSTEM, .timeline = timeline, .branch = timeline > 1 ? 9 : 0, .position = position
    };
    assert_int_equal(weir_session_token_add(&token, &place, &snapshot.known), 0);
}

static enum weir_policy_next next_at(struct weir_policy_request request, uint64_t passed_ns)
{
    request.begun_ns = CAME;
    request.now_ns = CAME + passed_ns;
    request.wait_ns = request.give_up_ns = CAME + 100 * MS;
    return weir_policy_decide(&request).next;
}

static void only_who_blocks__waits_for_a_first_answer(void **state)
{
    (void)state;
    struct weir_policy_request request = one_failover();
    request.route.behind = WEIR_BEHIND_OTHER;
    snapshot.servers[0].usable = snapshot.servers[1].usable = false;
    request.caller = WEIR_POLICY_CONNECTION;
    assert_int_equal(next_at(request, 0), WEIR_POLICY_WAIT);
    assert_int_equal(next_at(request, 99 * MS), WEIR_POLICY_WAIT);
    assert_int_equal(next_at(request, 100 * MS), WEIR_POLICY_END);
    request.caller = WEIR_POLICY_STATEMENT;
    assert_int_equal(next_at(request, 0), WEIR_POLICY_END);
}

/* Who does not wait for servers to catch up: the library has those asked once that were not since. */
static void who_does_not_wait__has_servers_asked_once_more(void **state)
{
    (void)state;
    struct weir_policy_request request = one_failover();
    see(2, 208);
    request.route.behind = WEIR_BEHIND_OTHER;
    snapshot.servers[0].asked_ns = snapshot.servers[1].asked_ns = CAME - 1;
    request.caller = WEIR_POLICY_CONNECTION;
    assert_int_equal(next_at(request, 0), WEIR_POLICY_WAIT);
    request.route.behind = WEIR_BEHIND_ERROR;
    snapshot.servers[0].asked_ns = CAME + 1; /* the other is out, and is not waited for */
    snapshot.servers[0].shown.position = 208;
    snapshot.servers[1].usable = false;
    assert_int_equal(next_at(request, 0), WEIR_POLICY_END);
    snapshot.servers[0].shown.position = 200;
    snapshot.servers[1].usable = true;
    snapshot.servers[0].asked_ns = snapshot.servers[1].asked_ns = CAME - 1;
    request.caller = WEIR_POLICY_CONNECTION;
    assert_int_equal(next_at(request, 0), WEIR_POLICY_WAIT);
    assert_int_equal(next_at(request, WEIR_POLICY_REFRESH_NS + 1), WEIR_POLICY_END);
    request.caller = WEIR_POLICY_STATEMENT;
    assert_int_equal(next_at(request, 0), WEIR_POLICY_END);
    request.caller = WEIR_POLICY_CONNECTION;
    snapshot.servers[0].asked_ns = snapshot.servers[1].asked_ns = CAME + 1;
    snapshot.servers[0].shown.position = 208;
    assert_int_equal(next_at(request, 0), WEIR_POLICY_END);
}

/* What is known of where it is may be older than the token. */
static void where_it_is__is_asked_before_it_leaves(void **state)
{
    (void)state;
    struct weir_policy_request request = one_failover();
    request.caller = WEIR_POLICY_CONNECTION;
    request.route.behind = WEIR_BEHIND_OTHER;
    request.route.stay = 1;
    see(2, 200);
    snapshot.servers[1].shown.position = 192;
    snapshot.servers[1].asked_ns = CAME;
    assert_int_equal(next_at(request, 50 * MS), WEIR_POLICY_ASK);
    request.looked = true;
    assert_int_equal(next_at(request, 50 * MS), WEIR_POLICY_GO);
    request.looked = false;
    request.route.write = true;
    assert_int_equal(next_at(request, 50 * MS), WEIR_POLICY_GO);
    request.route.write = false;
    snapshot.servers[1].asked_ns = CAME + 1;
    assert_int_equal(next_at(request, 50 * MS), WEIR_POLICY_GO);
    snapshot.servers[1].asked_ns = CAME;
    snapshot.servers[1].usable = false; /* it has to leave */
    assert_int_equal(next_at(request, 50 * MS), WEIR_POLICY_GO);
    snapshot.servers[1].usable = true;
    snapshot.servers[1].shown.position = 200; /* it need not leave */
    assert_int_equal(next_at(request, 50 * MS), WEIR_POLICY_GO);
}

static void a_check_that_fails__is_a_loss_on_the_highest_timeline_only(void **state)
{
    (void)state;
    const struct weir_policy_request request = one_failover();
    struct weir_shown now = snapshot.servers[0].shown, old = { .system = SYSTEM, .timeline = 1, .primary = true };
    assert_int_equal(weir_policy_refused(&request.route, &now, WEIR_PLACE_LOST), WEIR_POLICY_LOST);
    assert_int_equal(weir_policy_refused(&request.route, &old, WEIR_PLACE_LOST), WEIR_POLICY_ELSEWHERE);
    assert_int_equal(weir_policy_refused(&request.route, &now, WEIR_PLACE_UNPROVEN), WEIR_POLICY_LOST);
    assert_int_equal(weir_policy_refused(&request.route, &old, WEIR_PLACE_UNPROVEN), WEIR_POLICY_ELSEWHERE);
    assert_int_equal(weir_policy_refused(&request.route, &now, WEIR_PLACE_FOREIGN), WEIR_POLICY_FOREIGN);
    assert_int_equal(weir_policy_refused(&request.route, &now, WEIR_PLACE_BEHIND), WEIR_POLICY_ELSEWHERE);
    assert_int_equal(weir_policy_refused(&request.route, &now, WEIR_PLACE_DIVERGED), WEIR_POLICY_ELSEWHERE);
    now.primary = false; /* others may know what it does not */
    assert_int_equal(weir_policy_refused(&request.route, &now, WEIR_PLACE_UNPROVEN), WEIR_POLICY_ELSEWHERE);
    assert_int_equal(weir_policy_refused(&request.route, &now, WEIR_PLACE_FOREIGN), WEIR_POLICY_ELSEWHERE);
    now.primary = true;
    see(3, 400); /* of a promotion that nobody has heard of yet, and one was not asked since */
    snapshot.servers[1].asked_ns = CAME;
    assert_int_equal(weir_policy_refused(&request.route, &now, WEIR_PLACE_UNPROVEN), WEIR_POLICY_ELSEWHERE);
}

static void a_session__stays_where_nothing_speaks_against_it(void **state)
{
    (void)state;
    (void)one_failover();
    struct weir_route_server there = snapshot.servers[1];
    see(1, 104);
    assert_true(weir_policy_may_stay(&token, &there, &snapshot.known));
    see(2, 208); /* its poller asked before it was there */
    assert_true(weir_policy_may_stay(&token, &there, &snapshot.known));
    token.count = 0;
    see(1, 112); /* cut off */
    assert_false(weir_policy_may_stay(&token, &there, &snapshot.known));
    token.count = 0;
    assert_true(weir_policy_may_stay(&token, &snapshot.servers[0], &snapshot.known)); /* promoted */
    there.usable = false;
    assert_false(weir_policy_may_stay(&token, &there, &snapshot.known));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_service__does_what_the_policy_says),
        cmocka_unit_test(the_library__does_what_the_policy_says),
        cmocka_unit_test(nobody__waits_when_the_time_is_over),
        cmocka_unit_test(only_who_blocks__waits_for_a_first_answer),
        cmocka_unit_test(who_does_not_wait__has_servers_asked_once_more),
        cmocka_unit_test(where_it_is__is_asked_before_it_leaves),
        cmocka_unit_test(a_check_that_fails__is_a_loss_on_the_highest_timeline_only),
        cmocka_unit_test(a_session__stays_where_nothing_speaks_against_it),
    };
    dice.state = test_random_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
