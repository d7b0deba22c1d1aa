/* SPDX-License-Identifier: Apache-2.0
 *
 * Which definition of a limit is the newest: "A superseded content becomes newest again only by a reload or the API,
 * never by a start" (Reconfiguration, over several nodes), in every order of what is told. */
#include "core/share/revision.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>

#include <cmocka.h>

#include "random.h"
#include "revision_node.h"

static void nothing_is_due_before_the_others_were_heard(void **state)
{
    (void)state;
    struct weir_revised node = started(7, 0);
    assert_false(weir_revised_settle(&node, NOW_S));
    assert_int_equal(node.newest.number, 0);
    assert_false(weir_revised_hear(&node, NULL));
    assert_true(weir_revised_settle(&node, NOW_S));
    assert_int_equal(node.newest.number, 1);
    assert_int_equal(node.newest.checksum, 7);
}

static void a_rollout_and_back(void **state)
{
    (void)state;
    struct weir_revision engine = { .number = 0 };
    struct weir_revised a = joined(&engine, 7), b = joined(&engine, 7);
    assert_int_equal(engine.number, 1);
    weir_revised_own(&a, 8, 0, true);
    visit(&engine, &a, NOW_S);
    visit(&engine, &b, NOW_S);
    assert_int_equal(b.newest.checksum, 8);
    b = started(7, 0); /* in the middle, with the old file */
    visit(&engine, &b, NOW_S + 5);
    assert_int_equal(engine.checksum, 8);
    assert_int_equal(engine.number, NOW_S);
    weir_revised_own(&b, 8, 0, true); /* what is the newest is not made it again */
    visit(&engine, &b, NOW_S + 5);
    assert_int_equal(engine.number, NOW_S);
    weir_revised_own(&a, 7, 0, true); /* back, by a reload; b's file has been reloaded too, before, and stays behind */
    visit(&engine, &a, NOW_S + 5);
    visit(&engine, &b, NOW_S + 5);
    assert_int_equal(engine.checksum, 7);
    assert_int_equal(b.newest.checksum, 7);
    visit(&engine, &a, NOW_S + 5);
    assert_int_equal(engine.number, NOW_S + 5);
}

static void a_reload_of_an_unchanged_file_changes_nothing(void **state)
{
    (void)state;
    struct weir_revision engine = { .number = 0 };
    struct weir_revised a = joined(&engine, 7), b = joined(&engine, 7);
    weir_revised_own(&a, 8, 0, true);
    visit(&engine, &a, NOW_S);
    weir_revised_own(&b, 7, 0, true);
    visit(&engine, &b, NOW_S);
    assert_int_equal(engine.checksum, 8);
}

/* A reload that takes the limit out of a node's file makes it forget the limit; one that brings it is the last word. */
static void what_a_reload_brings_back_is_the_newest(void **state)
{
    (void)state;
    struct weir_revision engine = { .number = 0 };
    struct weir_revised a = joined(&engine, 7), b = started(7, 0);
    weir_revised_own(&a, 8, 0, true);
    visit(&engine, &a, NOW_S);
    visit(&engine, &b, NOW_S);
    a = (struct weir_revised){ .owned = false };
    weir_revised_own(&a, 8, 0, true); /* what is the newest is not made it again */
    visit(&engine, &a, NOW_S + 5);
    visit(&engine, &b, NOW_S + 5);
    assert_int_equal(engine.number, NOW_S);
    a = (struct weir_revised){ .owned = false };
    weir_revised_own(&a, 7, 0, true);
    visit(&engine, &a, NOW_S + 5);
    visit(&engine, &b, NOW_S + 5);
    assert_int_equal(engine.checksum, 7);
    assert_int_equal(b.newest.checksum, 7);
}

/* Nodes hear each other beside the engine: the next reload may be heard before this one's node knows that it was. */
static void who_was_superseded_by_one_who_knew_it_wants_no_more(void **state)
{
    (void)state;
    for (uint64_t next = 7; next <= 9; next += 2) { /* what stood before, or something new */
        struct weir_revision engine = { .number = 0 };
        struct weir_revised a = joined(&engine, 7), b = joined(&engine, 7);
        (void)joined(&engine, 7);
        weir_revised_own(&a, 8, 0, true);
        assert_true(weir_revised_settle(&a, NOW_S) && a.wanted);
        assert_true(weir_revised_hear(&b, &a.newest));
        weir_revised_own(&b, next == 7 ? 9 : 8, 0, true);
        weir_revised_own(&b, next, 0, true);
        assert_true(weir_revised_settle(&b, NOW_S));
        assert_true(weir_revised_hear(&a, &b.newest));
        assert_false(weir_revised_settle(&a, NOW_S + 1));
        assert_int_equal(a.newest.checksum, next);
    }
}

/* Of a definition that is brought back others may know only how it was superseded. */
static void who_brings_back_what_others_know_as_superseded_still_wants_it(void **state)
{
    (void)state;
    for (uint64_t first = 5; first <= 7; first += 2) { /* something stood before it, or nothing */
        struct weir_revised a = started(first, 0), b = started(first, 0);
        (void)weir_revised_hear(&a, NULL);
        (void)weir_revised_settle(&a, NOW_S);
        weir_revised_own(&a, 7, 0, true);
        (void)weir_revised_settle(&a, NOW_S);
        (void)weir_revised_hear(&b, &a.newest);
        weir_revised_own(&b, 8, 0, true);
        (void)weir_revised_settle(&b, NOW_S);
        (void)weir_revised_hear(&a, &b.newest);
        weir_revised_own(&a, 9, 0, true);
        weir_revised_own(&a, 7, 0, true); /* back, and over 8 */
        assert_true(weir_revised_settle(&a, NOW_S) && a.wanted);
        weir_revised_own(&b, 10, 0, true); /* b has not heard of it */
        (void)weir_revised_settle(&b, NOW_S + 5);
        assert_true(weir_revised_hear(&a, &b.newest));
        assert_true(a.wanted && weir_revised_settle(&a, NOW_S + 5));
        assert_int_equal(a.newest.checksum, 7);
    }
}

static void a_content_that_nobody_had_is_the_newest_even_by_a_start(void **state)
{
    (void)state;
    struct weir_revision engine = { .number = 0 };
    struct weir_revised a = joined(&engine, 7);
    (void)joined(&engine, 8);
    assert_int_equal(engine.checksum, 8);
    a = started(7, 0);
    visit(&engine, &a, NOW_S);
    assert_int_equal(engine.checksum, 8);
}

static void a_given_revision_decides(void **state)
{
    (void)state;
    struct weir_revision engine = { .number = 0 };
    struct weir_revised a = started(7, 3), b = started(8, 2), c = started(9, 0);
    visit(&engine, &a, NOW_S);
    visit(&engine, &b, NOW_S);
    visit(&engine, &c, NOW_S);
    assert_int_equal(engine.checksum, 7);
    weir_revised_own(&b, 6, 2, true);
    visit(&engine, &b, NOW_S);
    assert_int_equal(engine.checksum, 7);
    weir_revised_own(&b, 8, 4, true);
    visit(&engine, &b, NOW_S);
    assert_int_equal(engine.checksum, 8);
    visit(&engine, &a, NOW_S);
    assert_int_equal(a.newest.given, 4);
}

/* A reload that raises `given` alone is one: what is heard before it is told does not end it. And a file that says of
 * itself that it is older is none. */
static void a_given_revision_alone_is_wanted_if_it_is_later(void **state)
{
    (void)state;
    struct weir_revision engine = { .number = 0 };
    struct weir_revised a = joined(&engine, 7);
    weir_revised_own(&a, 7, 5, true);
    const struct weir_revision other = {
        .number = NOW_S + 1, .given = 5, .checksum = 8, .superseded = { 9 }, .superseded_count = 1
    };
    struct weir_revised alone = a;
    assert_true(weir_revised_settle(&alone, NOW_S));
    assert_true(alone.newest.checksum == 7 && alone.newest.given == 5 && alone.newest.superseded_count == 0);
    assert_true(weir_revised_hear(&a, &other));
    assert_true(weir_revised_settle(&a, NOW_S));
    assert_int_equal(a.newest.checksum, 7);
    assert_true(a.newest.number > other.number);
    weir_revised_own(&a, 6, 4, true);
    assert_true(a.wanted);
    assert_false(weir_revised_settle(&a, NOW_S));
    assert_false(a.wanted);
    assert_int_equal(a.newest.checksum, 7);
}

/* Of two nodes that were reloaded at one moment one is the last, and then it stays so. */
static void two_reloads_at_once_end(void **state)
{
    (void)state;
    struct weir_revision engine = { .number = 0 };
    struct weir_revised a = joined(&engine, 7), b = joined(&engine, 7);
    weir_revised_own(&a, 8, 0, true);
    weir_revised_own(&b, 9, 0, true);
    assert_true(weir_revised_settle(&a, NOW_S) && weir_revised_settle(&b, NOW_S));
    for (int round = 0; round < 4; round++) {
        visit(&engine, &a, NOW_S);
        visit(&engine, &b, NOW_S);
    }
    const struct weir_revision end = engine;
    for (int round = 0; round < 4; round++) {
        visit(&engine, &b, NOW_S);
        visit(&engine, &a, NOW_S);
    }
    assert_int_equal(engine.number, end.number);
    assert_int_equal(engine.checksum, end.checksum);
    assert_int_equal(a.newest.checksum, b.newest.checksum);
}

/* The engine lost all: whoever still knows tells it again, and outweighs who started meanwhile and knows nothing. */
static void what_was_forgotten_is_told_again(void **state)
{
    (void)state;
    struct weir_revision engine = { .number = 0 };
    struct weir_revised a = joined(&engine, 7);
    weir_revised_own(&a, 8, 0, true);
    visit(&engine, &a, NOW_S);
    engine = (struct weir_revision){ .number = 0 };
    visit(&engine, &a, NOW_S);
    struct weir_revised b = started(7, 0);
    visit(&engine, &b, NOW_S);
    assert_int_equal(engine.checksum, 8);
    engine = (struct weir_revision){ .number = 0 };
    b = started(7, 0);
    visit(&engine, &b, NOW_S + 60);
    assert_int_equal(engine.checksum, 7);
    visit(&engine, &a, NOW_S + 60);
    visit(&engine, &b, NOW_S + 60);
    assert_int_equal(engine.checksum, 8);
    assert_int_equal(b.newest.checksum, 8);
}

/* Nodes whose first look at the engine comes late, and a reload before it: who still has the old file neither takes the
 * reload back nor is believed, whoever writes first. */
static void a_reload_before_anything_was_heard_counts(void **state)
{
    (void)state;
    for (uint64_t old = 6; old <= 8; old += 2) { /* at one number the greater one would win */
        struct weir_revision engine = { .number = 0 }, late = { .number = 0 };
        struct weir_revised a = started(old, 0), b = started(old, 0);
        weir_revised_own(&a, 7, 0, true);
        visit(&engine, &a, NOW_S);
        visit(&engine, &b, NOW_S);
        assert_int_equal(engine.checksum, 7);
        assert_int_equal(b.newest.checksum, 7);
        b = started(old, 0); /* both have read that there is nothing */
        visit(&late, &b, NOW_S);
        visit(&late, &a, NOW_S);
        assert_int_equal(late.checksum, 7);
    }
    struct weir_revised node = started(0, 0); /* more often than what is remembered */
    for (uint64_t checksum = 1; checksum < 100; checksum++)
        weir_revised_own(&node, checksum, 0, true);
    assert_int_equal(node.newest.superseded_count, WEIR_SUPERSEDED_MAX);
}

/* Two that cannot hear each other, reloaded one after the other: the later one wins, though it never knew the first. */
static void of_two_reloads_behind_a_cut_the_later_one_wins(void **state)
{
    (void)state;
    struct weir_revision here = { .number = 0 }, there = { .number = 0 };
    struct weir_revised a = started(1, 0), c = started(1, 0);
    visit(&here, &a, NOW_S);
    weir_revised_own(&a, 2, 0, true);
    visit(&here, &a, NOW_S);
    visit(&there, &c, NOW_S);
    weir_revised_own(&c, 3, 0, true);
    visit(&there, &c, NOW_S + 5);
    visit(&there, &a, NOW_S + 6);
    visit(&there, &c, NOW_S + 6);
    assert_int_equal(there.checksum, 3);
    assert_int_equal(a.newest.checksum, 3);
}

static void bounds(void **state)
{
    (void)state;
    struct weir_revision engine = { .number = 0 };
    struct weir_revised a = started(1, 0);
    for (uint64_t checksum = 1; checksum < 100; checksum++) {
        weir_revised_own(&a, checksum, 0, true);
        visit(&engine, &a, NOW_S);
    }
    assert_int_equal(engine.superseded_count, WEIR_SUPERSEDED_MAX);
    assert_int_equal(engine.superseded[0], 98);
    assert_int_equal(engine.superseded[WEIR_SUPERSEDED_MAX - 1], 98 - WEIR_SUPERSEDED_MAX + 1);
    visit(&engine, &a, UINT64_MAX);
    weir_revised_own(&a, 1000, 0, true);
    visit(&engine, &a, UINT64_MAX); /* of a clock that is wrong: */
    assert_true(engine.number < WEIR_REVISION_MAX - 1000000);
    struct weir_revised b = started(1, 0);
    visit(&engine, &b, NOW_S);
    weir_revised_own(&b, 1001, 0, true); /* it does not have the last word */
    visit(&engine, &b, NOW_S);
    visit(&engine, &a, NOW_S);
    assert_int_equal(a.newest.checksum, 1001);
    engine.number = WEIR_REVISION_MAX;
    engine.checksum = 1000;
    visit(&engine, &a, NOW_S);
    weir_revised_own(&a, 1001, 0, true);
    visit(&engine, &a, UINT64_MAX);
    assert_int_equal(engine.checksum, 1000);
}

/* Any number of nodes, reloads, starts and losses of the engine: once it is quiet they agree, on what the last reload
 * that changed a file said, or on what was newest before. */
static void nodes_agree_in_the_end(void **state)
{
    (void)state;
    unsigned seed = 20261122;
    uint64_t rounds = test_effort(2000, 50000, 50000);
    print_message("seed %u\n", seed);
    srand(seed);
    for (uint64_t round = 0; round < rounds; round++) {
        struct weir_revision engine = { .number = 0 };
        struct weir_revised nodes[3];
        for (int i = 0; i < 3; i++)
            nodes[i] = started(1, 0);
        for (int step = 0; step < 20; step++) {
            struct weir_revised *node = &nodes[rand() % 3];
            uint64_t checksum = 1 + (uint64_t)rand() % 4;
            switch (rand() % 8) {
            case 0:
                weir_revised_own(node, checksum, 0, true);
                (void)weir_revised_settle(node, NOW_S + (uint64_t)step);
                break;
            case 1:
                *node = started(node->own, 0);
                break;
            case 2:
                if (rand() % 4 == 0)
                    engine = (struct weir_revision){ .number = 0 };
                break;
            default:
                visit(&engine, node, NOW_S + (uint64_t)step);
            }
        }
        for (int i = 0; i < 12; i++)
            visit(&engine, &nodes[i % 3], NOW_S + 30);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(nodes[i].newest.number, engine.number);
            assert_int_equal(nodes[i].newest.checksum, engine.checksum);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_due_before_the_others_were_heard),
        cmocka_unit_test(a_rollout_and_back),
        cmocka_unit_test(a_reload_of_an_unchanged_file_changes_nothing),
        cmocka_unit_test(what_a_reload_brings_back_is_the_newest),
        cmocka_unit_test(who_was_superseded_by_one_who_knew_it_wants_no_more),
        cmocka_unit_test(who_brings_back_what_others_know_as_superseded_still_wants_it),
        cmocka_unit_test(a_content_that_nobody_had_is_the_newest_even_by_a_start),
        cmocka_unit_test(a_given_revision_decides),
        cmocka_unit_test(a_given_revision_alone_is_wanted_if_it_is_later),
        cmocka_unit_test(two_reloads_at_once_end),
        cmocka_unit_test(what_was_forgotten_is_told_again),
        cmocka_unit_test(a_reload_before_anything_was_heard_counts),
        cmocka_unit_test(of_two_reloads_behind_a_cut_the_later_one_wins),
        cmocka_unit_test(bounds),
        cmocka_unit_test(nodes_agree_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
