/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/session/branches.h"
#include "core/session/route.h"
#include "weir/error.h"

#define SYSTEM 9

static uint32_t number(uint32_t timeline, uint64_t run)
{
    return weir_branch_of(SYSTEM, timeline, run);
}

static void add(struct weir_branches *branches, uint64_t timeline, const char *runs)
{
    assert_int_equal(weir_branches_add(branches, timeline, runs, strlen(runs)), 0);
}

static void a_table__has_a_name_that_needs_no_quotes(void **state)
{
    static const char *const good[] = { "weir.branches", "a.b", "_A9._b" };
    static const char *const bad[] = { "",     ".",   "a",    "a.",    ".b",     "a.b.c", "9a.b",
                                       "a.9b", "a b", "a.b ", "a.\"b", "a.b;--", "a.b\n", "\xc3\xa4.b" };
    char name[130];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(weir_branches_is_name(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(weir_branches_is_name(bad[i], strlen(bad[i])));
    memset(name, 'a', sizeof name);
    name[63] = '.';
    assert_true(weir_branches_is_name(name, 127));
    assert_false(weir_branches_is_name(name, 128));
    memset(name, 'a', sizeof name);
    name[64] = '.';
    assert_false(weir_branches_is_name(name, 66));
    assert_false(weir_branches_is_name("a.b\0c", 5));
}

static void a_row__is_numbers_with_one_blank_between(void **state)
{
    static const char *const bad[] = { "",   " ",     "1 ",  " 1",   "1  2",
                                       "0",  "1 0",   "-1",  "+1",   "1,2",
                                       "1x", "{1,2}", "1\n", "1\t2", "99999999999999999999" };
    struct weir_branches branches = { 0 };
    char many[8 * 20] = "";
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(weir_branches_add(&branches, 2, bad[i], strlen(bad[i])), WEIR_EPROTO);
    assert_int_equal(weir_branches_add(&branches, 3, "1234", 2), 0); /* what is behind its end is none of it */
    assert_true(weir_branches_has(&branches, 3, 12));
    branches.count = 0;
    assert_int_equal(weir_branches_add(&branches, 0, "1", 1), WEIR_EPROTO);
    assert_int_equal(weir_branches_add(&branches, 1, "1", 1), WEIR_EPROTO);
    assert_int_equal(weir_branches_add(&branches, UINT64_C(1) << 32, "1", 1), WEIR_EPROTO);
    assert_int_equal(branches.count, 0);
    for (int i = 1; i <= 20; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), i == 1 ? "%d" : " %d", i);
    for (uint64_t timeline = 2; timeline < 2 + WEIR_HISTORIES_MAX + 3; timeline++)
        add(&branches, timeline, many);
    assert_int_equal(branches.count, WEIR_HISTORIES_MAX);
    assert_int_equal(branches.rows[0].count, WEIR_BRANCH_RUNS_MAX);
    assert_true(weir_branches_has(&branches, 2, 16));
    assert_false(weir_branches_has(&branches, 2, 17));
    assert_false(weir_branches_has(&branches, 2 + WEIR_HISTORIES_MAX, 1));
    assert_int_equal(weir_branches_number(&branches, SYSTEM, 2), number(2, 1));
    assert_int_equal(weir_branches_number(&branches, SYSTEM, 99), 0);
}

/* Whatever was seen before, in whatever order: all that hang together are the same, and no others. */
static void what_is_the_same__is_so_whoever_said_it_first(void **state)
{
    (void)state;
    for (unsigned order = 0; order < 8; order++) {
        struct weir_known known = { .system = SYSTEM };
        struct weir_branches branches = { 0 };
        if (order & 1)
            weir_known_same(&known, 2, number(2, 13), number(2, 12));
        if (order & 2)
            weir_known_same(&known, 2, number(2, 21), number(2, 13));
        if (order & 4)
            weir_known_same(&known, 2, number(2, 11), number(2, 12));
        add(&branches, 2, "13 12 11");
        weir_branches_learn(&branches, 2, number(2, 13), &known);
        for (uint64_t run = 11; run <= 13; run++)
            for (uint64_t other = 11; other <= 13; other++)
                assert_true(weir_known_is_same(&known, 2, number(2, run), number(2, other)));
        assert_int_equal(weir_known_is_same(&known, 2, number(2, 21), number(2, 11)), (order & 2) != 0);
        assert_false(weir_known_is_same(&known, 2, number(2, 22), number(2, 11)));
        assert_false(weir_known_is_same(&known, 3, number(2, 12), number(2, 11)));
        unsigned count = known.same_count;
        weir_branches_learn(&branches, 2, number(2, 13), &known); /* again */
        assert_int_equal(known.same_count, count);
    }
}

static void all_that_a_table_holds__is_known_at_once(void **state)
{
    struct weir_known known = { .system = SYSTEM };
    struct weir_branches branches = { 0 };
    (void)state;
    for (uint64_t timeline = 2 + WEIR_HISTORIES_MAX; timeline-- > 2;)
        add(&branches, timeline, "16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1");
    weir_branches_learn(&branches, 9, number(9, 16), &known);
    for (uint32_t timeline = 2; timeline < 2 + WEIR_HISTORIES_MAX; timeline++)
        for (uint64_t run = 1; run <= 16; run++)
            assert_true(weir_known_is_same(&known, timeline, number(timeline, run), number(timeline, 16)));
}

/* Timeline 3 came of the run 11 or 12 of timeline 2, which nobody saw; the table says so. */
static void ancestors__are_told_by_their_rows(void **state)
{
    struct weir_known known = { .system = SYSTEM };
    struct weir_branches branches = { 0 };
    struct weir_history history = { .timeline = 3, .branch = number(3, 31), .count = 2 };
    struct weir_place seen = { .system = SYSTEM, .timeline = 2, .position = 200, .branch = number(2, 11) };
    struct weir_shown shown = { .system = SYSTEM, .timeline = 3, .position = 400, .branch = number(3, 31), .run = 1 };
    (void)state;
    history.ancestors[0] = (struct weir_ancestor){ 1, 104, 0 };
    history.ancestors[1] = (struct weir_ancestor){ 2, 240, 0 };
    shown.primary = shown.settled = shown.told = true;
    weir_known_history(&known, SYSTEM, &history);
    assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_UNPROVEN);
    add(&branches, 3, "31");
    add(&branches, 2, "12 11");
    weir_branches_learn(&branches, 3, number(3, 31), &known);
    assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_OK);
    seen.position = 248; /* beyond the fork */
    assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_LOST);
    seen = (struct weir_place){ .system = SYSTEM, .timeline = 2, .position = 200, .branch = number(2, 21) };
    assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_LOST); /* a sibling's */
    shown.told = false;
    assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_UNPROVEN);
    shown.told = true;
    seen.branch = 0; /* of a token that does not say */
    assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_UNPROVEN);
}

static void a_row__is_found_by_its_timeline(void **state)
{
    struct weir_branches branches = { 0 };
    (void)state;
    add(&branches, 4, "41 42");
    add(&branches, 2, "21");
    add(&branches, 3, "31");
    for (uint32_t timeline = 1; timeline < 7; timeline++) {
        const struct weir_branch_row *row = weir_branches_find(&branches, timeline);
        bool there = timeline >= 2 && timeline <= 4;
        assert_int_equal(row != NULL, there);
        assert_true(!there || row->timeline == timeline);
        for (uint64_t run = 0; run < 60; run++)
            assert_int_equal(weir_branches_has(&branches, timeline, run),
                             there && (run == timeline * 10 + 1 || (run == 42 && timeline == 4)));
        assert_int_equal(weir_branches_number(&branches, SYSTEM, timeline),
                         there ? number(timeline, timeline * 10 + 1) : 0);
    }
}

static struct weir_route_server server(uint64_t id, bool primary, uint64_t run)
{
    return (struct weir_route_server){ .id = id,
                                       .usable = true,
                                       .asked_ns = 1000,
                                       .shown = { .system = SYSTEM,
                                                  .timeline = 2,
                                                  .position = 400,
                                                  .received = 400,
                                                  .flushed = 400,
                                                  .run = primary ? 5 : 0,
                                                  .started = run,
                                                  .branch = number(2, run),
                                                  .told = primary,
                                                  .primary = primary } };
}

/* Equal forks: the token's position is below what the second branch has. */
static void another_branch__is_lost_at_once_where_all_were_asked_since(void **state)
{
    const struct weir_known known = { .system = SYSTEM };
    const struct weir_session_token token = {
        .count = 1, .places = { { .system = SYSTEM, .timeline = 2, .position = 200, .branch = number(2, 11) } }
    };
    (void)state;
    for (int write = 0; write < 2; write++) {
        struct weir_route_server servers[] = { server(1, true, 21), server(2, false, 21) };
        struct weir_route_request request = { .token = &token,
                                              .known = &known,
                                              .servers = servers,
                                              .server_count = 2,
                                              .stay = WEIR_ROUTE_NONE,
                                              .came_ns = 999,
                                              .wait_left_ns = 1000,
                                              .write = write };
        struct weir_route route = weir_route_choose(&request);
        assert_true(!route.wait && route.server == WEIR_ROUTE_NONE && route.verdict == WEIR_PLACE_LOST);
        servers[1].asked_ns = 998; /* it may have been promoted, and be what the token is of */
        route = weir_route_choose(&request);
        assert_true(route.wait && route.verdict == WEIR_PLACE_UNPROVEN);
        servers[1].usable = false; /* it does not answer: nobody knows better */
        assert_int_equal(weir_route_choose(&request).verdict, WEIR_PLACE_LOST);
        servers[0].asked_ns = 998; /* it may have been started anew, and be what the token is of */
        route = weir_route_choose(&request);
        assert_true(route.wait && route.verdict == WEIR_PLACE_UNPROVEN);
        servers[0].asked_ns = 1000;
        servers[0].shown.told = false;
        route = weir_route_choose(&request);
        assert_true(route.wait && route.verdict == WEIR_PLACE_UNPROVEN);
    }
}

/* Of a long history the oldest are cut off: then the first is a timeline as any other. */
static void the_first_ancestor__is_told_by_its_row_too(void **state)
{
    struct weir_known known = { .system = SYSTEM };
    struct weir_branches branches = { 0 };
    struct weir_history history = { .timeline = 3, .branch = number(3, 31), .count = 1, .cut = true };
    (void)state;
    history.ancestors[0] = (struct weir_ancestor){ 2, 240, 0 };
    weir_known_history(&known, SYSTEM, &history);
    add(&branches, 2, "12");
    weir_branches_learn(&branches, 3, number(3, 31), &known);
    assert_int_equal(known.histories[0].ancestors[0].branch, number(2, 12));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row__is_found_by_its_timeline),
        cmocka_unit_test(a_table__has_a_name_that_needs_no_quotes),
        cmocka_unit_test(a_row__is_numbers_with_one_blank_between),
        cmocka_unit_test(what_is_the_same__is_so_whoever_said_it_first),
        cmocka_unit_test(all_that_a_table_holds__is_known_at_once),
        cmocka_unit_test(ancestors__are_told_by_their_rows),
        cmocka_unit_test(another_branch__is_lost_at_once_where_all_were_asked_since),
        cmocka_unit_test(the_first_ancestor__is_told_by_its_row_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
