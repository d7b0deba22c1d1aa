/* SPDX-License-Identifier: Apache-2.0
 *
 * core/session/policy: whether what is known of the primary says enough about what a session has seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/session/policy.h"

#define SYSTEM 77
#define MS UINT64_C(1000000)
#define CAME (1000 * MS)

static struct weir_known known;
static struct weir_route_server servers[2];
static struct weir_session_token token;

/* A write to a primary on timeline 2 at 200, beside a standby of it; both were asked since the token came. */
static struct weir_policy_request begin(void)
{
    const struct weir_history history = { .timeline = 2, .branch = 9, .count = 1, .ancestors = { { 1, 104, 0 } } };
    memset(&known, 0, sizeof known);
    weir_known_history(&known, SYSTEM, &history);
    for (unsigned i = 0; i < 2; i++) {
        servers[i] = (struct weir_route_server){ .id = 10 + i, .asked_ns = CAME + 1, .usable = true };
        servers[i].shown = (struct weir_shown){ .system = SYSTEM, .timeline = 2, .branch = 9, .position = 200 };
    }
    servers[0].shown.primary = true;
    servers[0].shown.run = 5;
    token = (struct weir_session_token){ .count = 0 };
    return (struct weir_policy_request){ .route = { .token = &token,
                                                    .known = &known,
                                                    .servers = servers,
                                                    .server_count = 2,
                                                    .write = true,
                                                    .stay = WEIR_ROUTE_NONE,
                                                    .came_ns = CAME },
                                         .caller = WEIR_POLICY_STATEMENT,
                                         .begun_ns = CAME,
                                         .now_ns = CAME,
                                         .wait_ns = CAME + 100 * MS,
                                         .give_up_ns = CAME + 100 * MS };
}

static struct weir_place *see(uint32_t timeline, uint64_t position)
{
    const struct weir_place place = {
        .system = SYSTEM, .timeline = timeline, .branch = timeline > 1 ? 9 : 0, .position = position
    };
    assert_int_equal(weir_session_token_add(&token, &place, &known), 0);
    return &token.places[token.count - 1];
}

static bool shows_all(const struct weir_policy_request *request)
{
    const struct weir_policy policy = weir_policy_decide(request);
    assert_int_equal(policy.next, WEIR_POLICY_GO);
    assert_int_equal(policy.route.server, 0);
    return policy.shows_all;
}

/* What a standby or a later timeline has shown the primary may not show yet, if it was not seen settled since. */
static void what_was_seen_elsewhere__may_not_show_at_the_primary(void **state)
{
    (void)state;
    struct weir_policy_request request = begin();
    struct weir_place *place = see(2, 200);
    assert_true(shows_all(&request));
    place->standby = true;
    assert_false(shows_all(&request));
    servers[0].settled_ns = CAME;
    assert_false(shows_all(&request));
    servers[0].settled_ns = CAME + 1;
    assert_true(shows_all(&request));
    servers[0].settled_ns = 0;
    request.route.server_count = 1; /* nobody else could have shown it */
    assert_true(shows_all(&request));

    const struct weir_history later = { .timeline = 3, .branch = 9, .count = 1, .ancestors = { { 2, 300, 9 } } };
    request = begin();
    weir_known_history(&known, SYSTEM, &later);
    (void)see(3, 200); /* a part of it that is of timeline 2 */
    servers[0].shown.settled = true;
    assert_false(shows_all(&request));
    servers[0].settled_ns = CAME + 1;
    assert_true(shows_all(&request));
}

static bool goes(const struct weir_policy_request *request)
{
    return weir_policy_decide(request).next == WEIR_POLICY_GO;
}

/* One that was not asked since the token came says enough if it had gone as far as that before, in the same run. */
static void what_a_primary_showed_before__is_enough_if_it_reaches(void **state)
{
    (void)state;
    struct weir_policy_request request = begin();
    servers[0].asked_ns = CAME;
    struct weir_place *place = see(2, 200);
    assert_true(goes(&request));
    place->position = 201; /* and the record after it, if there is one */
    assert_true(goes(&request));
    place->position = 208;
    assert_false(goes(&request));
    servers[0].asked_ns = CAME + 1;
    assert_int_equal(weir_policy_decide(&request).next, WEIR_POLICY_END); /* it has lost it */
    servers[0].asked_ns = CAME;
    place->position = 200;
    place->run = 5;
    assert_true(goes(&request));
    place->run = 6;
    assert_false(goes(&request));
    weir_known_run(&known, SYSTEM, 2, place->branch, 6, 208); /* of which all is there, as is known since */
    assert_false(goes(&request));
    servers[0].asked_ns = CAME + 1;
    assert_true(goes(&request));
}

/* Whoever tells of a timeline: a history or a server, wherever it stands. */
static void the_highest_timeline__is_the_highest_that_is_known_or_shown(void **state)
{
    (void)state;
    (void)begin();
    assert_int_equal(weir_route_timeline(NULL, servers, 0), 0);
    servers[0].shown.timeline = servers[1].shown.timeline = 1;
    assert_int_equal(weir_route_timeline(NULL, servers, 2), 1);
    assert_int_equal(weir_route_timeline(&known, servers, 2), 2);
    for (unsigned i = 0; i < 2; i++) {
        servers[i].shown.timeline = 7 + i;
        assert_int_equal(weir_route_timeline(&known, servers, 2), 7 + i);
        servers[i].shown.timeline = 1;
    }
}

/* One place on a timeline that nobody knows of is enough, whatever the others are on. */
static void more_may_be_learned__of_any_place_that_is_on_a_higher_timeline(void **state)
{
    (void)state;
    const struct weir_policy_request request = begin();
    servers[1].asked_ns = CAME;
    for (unsigned higher = 0; higher < 3; higher++) {
        token.count = 2;
        for (unsigned i = 0; i < 2; i++)
            token.places[i] =
                (struct weir_place){ .system = SYSTEM + i, .timeline = i == higher ? 9 : 1, .position = 8 };
        assert_int_equal(weir_route_may_learn(&request.route), higher < 2);
    }
}

/* Of a session that was at two systems a primary answers for what was seen in its own. */
static void another_systems_place__is_no_matter_to_a_primary(void **state)
{
    (void)state;
    struct weir_policy_request request = begin();
    (void)see(2, 160);
    const struct weir_place other = { .system = SYSTEM + 1, .timeline = 1, .position = 8 };
    assert_int_equal(weir_session_token_add(&token, &other, &known), 0);
    for (uint64_t since = 0; since < 2; since++) {
        servers[0].asked_ns = CAME - 1 + 2 * since;
        const struct weir_route route = weir_route_choose(&request.route);
        assert_int_equal(route.server, 0);
        assert_int_equal(route.verdict, WEIR_PLACE_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_systems_place__is_no_matter_to_a_primary),
        cmocka_unit_test(what_was_seen_elsewhere__may_not_show_at_the_primary),
        cmocka_unit_test(what_a_primary_showed_before__is_enough_if_it_reaches),
        cmocka_unit_test(more_may_be_learned__of_any_place_that_is_on_a_higher_timeline),
        cmocka_unit_test(the_highest_timeline__is_the_highest_that_is_known_or_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
