/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of several servers is a session's own: the same in every process, spread evenly, and moved as little as can be
 * when a server leaves or comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/session/route.h"
#include "random.h"

enum { SESSIONS = 20000, SERVERS_MAX = 16 };

/* Standbys whose ids are hashes of names; the names do not matter. */
static void fill(struct weir_route_server *servers, unsigned count, struct test_random *random)
{
    for (unsigned i = 0; i < count; i++)
        servers[i] = (struct weir_route_server){ .id = test_random_u64(random),
                                                 .usable = true,
                                                 .shown = { .system = 9, .timeline = 1, .position = 80 } };
}

static uint32_t own(const struct weir_route_server *servers, unsigned count, uint64_t session,
                    enum weir_session_strategy strategy)
{
    static const struct weir_session_token empty;
    struct weir_route_request request = { .token = &empty,
                                          .servers = servers,
                                          .server_count = count,
                                          .session = session,
                                          .stay = WEIR_ROUTE_NONE,
                                          .strategy = strategy };
    return weir_route_choose(&request).server;
}

static void rendezvous__spreads_sessions_evenly(void **state)
{
    struct test_random random = { test_random_seed() };
    struct weir_route_server servers[SERVERS_MAX];
    (void)state;
    for (unsigned count = 1; count <= SERVERS_MAX; count++) {
        unsigned of[SERVERS_MAX] = { 0 };
        fill(servers, count, &random);
        for (uint64_t session = 0; session < SESSIONS; session++) /* numbers in a row: the worst that a hash meets */
            of[own(servers, count, session, WEIR_SESSION_TRACKED)]++;
        for (unsigned i = 0; i < count; i++) {
            double mean = (double)SESSIONS / count, off = of[i] - mean;
            /* Six standard deviations. */
            assert_true(off * off <= 36 * mean * (1 - 1.0 / count) + 1);
        }
    }
}

static void rendezvous__moves_only_the_sessions_of_a_server_that_leaves_or_comes(void **state)
{
    struct test_random random = { test_random_seed() };
    struct weir_route_server servers[SERVERS_MAX];
    (void)state;
    for (unsigned count = 2; count <= SERVERS_MAX; count++) {
        fill(servers, count, &random);
        unsigned gone = (unsigned)test_random_below(&random, count), moved = 0, to[SERVERS_MAX] = { 0 };
        for (unsigned i = 0; i < SESSIONS; i++) {
            uint64_t session = test_random_u64(&random);
            enum weir_session_strategy strategy = i % 2 ? WEIR_SESSION_STICKY : WEIR_SESSION_TRACKED;
            servers[gone].usable = true;
            uint32_t with = own(servers, count, session, strategy);
            servers[gone].usable = false;
            uint32_t without = own(servers, count, session, strategy);
            assert_true(with == without || with == gone);
            moved += with == gone;
            to[without] += with == gone;
        }
        double mean = (double)SESSIONS / count, off = moved - mean;
        assert_true(off * off <= 36 * mean * (1 - 1.0 / count) + 1);
        for (unsigned i = 0; i < count; i++) {
            double share = i == gone ? 0 : (double)moved / (count - 1), away = to[i] - share;
            assert_true(away * away <= 36 * share + 1);
        }
    }
}

/* The order of the list is each process's own. */
static void rendezvous__does_not_depend_on_the_order_of_the_servers(void **state)
{
    struct test_random random = { test_random_seed() };
    struct weir_route_server servers[SERVERS_MAX], turned[SERVERS_MAX];
    (void)state;
    fill(servers, SERVERS_MAX, &random);
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        turned[i] = servers[(i * 5 + 3) % SERVERS_MAX];
    for (unsigned i = 0; i < SESSIONS; i++) {
        uint64_t session = test_random_u64(&random);
        assert_true(servers[own(servers, SERVERS_MAX, session, WEIR_SESSION_STICKY)].id ==
                    turned[own(turned, SERVERS_MAX, session, WEIR_SESSION_STICKY)].id);
    }
}

/* Numbers that were computed once by CPython's SipHash (bytes, PYTHONHASHSEED=0): any process, any machine. */
static void rendezvous__scores_are_the_same_everywhere(void **state)
{
    (void)state;
    assert_true(weir_route_score(0, 0) == UINT64_C(0x76be999e3e25b2a0));
    assert_true(weir_route_score(1, 2) == UINT64_C(0xfb058313e6201d48));
    assert_true(weir_route_score(UINT64_C(0x0123456789abcdef), UINT64_MAX) == UINT64_C(0xdf5ac6c8da2fd3e0));
}

/* Where nobody has answered yet, whoever does may know what became of it. */
static void whoever_has_not_answered__may_know_of_any_timeline(void **state)
{
    const struct weir_session_token token = { .count = 1,
                                              .places = { { .system = 9, .timeline = 1, .position = 80 } } };
    struct weir_route_server servers[] = { { .id = 1 }, { .id = 2 } };
    struct weir_route_request request = {
        .token = &token, .servers = servers, .server_count = 2, .stay = WEIR_ROUTE_NONE, .came_ns = 1
    };
    (void)state;
    assert_int_equal(weir_route_timeline(NULL, servers, 2), 0);
    assert_true(weir_route_may_learn(&request));
    servers[1].shown.timeline = 1;
    assert_int_equal(weir_route_timeline(NULL, servers, 2), 1);
    assert_false(weir_route_may_learn(&request));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rendezvous__spreads_sessions_evenly),
        cmocka_unit_test(rendezvous__moves_only_the_sessions_of_a_server_that_leaves_or_comes),
        cmocka_unit_test(rendezvous__does_not_depend_on_the_order_of_the_servers),
        cmocka_unit_test(rendezvous__scores_are_the_same_everywhere),
        cmocka_unit_test(whoever_has_not_answered__may_know_of_any_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
