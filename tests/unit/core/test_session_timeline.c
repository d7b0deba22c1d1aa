/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/session/place.h"
#include "random.h"
#include "weir/error.h"

static int parse(uint32_t timeline, const char *text, struct weir_history *ret_history)
{
    return weir_history_parse(timeline, text, strlen(text), ret_history);
}

static void history__reads_what_postgresql_writes(void **state)
{
    struct weir_history history;
    (void)state;
    assert_int_equal(parse(4,
                           "1\t0/3000148\tno recovery target specified\n\n2\t16/B374D848\tafter transaction 7\r\n"
                           "# 9\t9/9\n  3 \t FFFFFFFF/FFFFFFFF",
                           &history),
                     0);
    assert_int_equal(history.timeline, 4);
    assert_int_equal(history.count, 3);
    assert_false(history.cut);
    assert_int_equal(history.ancestors[0].timeline, 1);
    assert_int_equal(history.ancestors[0].end, 0x3000148);
    assert_int_equal(history.ancestors[1].timeline, 2);
    assert_int_equal(history.ancestors[1].end, UINT64_C(0x16B374D848));
    assert_int_equal(history.ancestors[2].timeline, 3);
    assert_true(history.ancestors[2].end == UINT64_MAX);
    assert_int_equal(weir_history_parse(1, "", 0, &history), 0);
    assert_int_equal(history.count, 0);
    assert_int_equal(history.timeline, 1);
}

static void history__refuses_what_is_none_and_changes_nothing(void **state)
{
    static const char *const bad[] = {
        "1",
        "1\t",
        "1\t0",
        "1\t0/",
        "1\t/0",
        "x\t0/0",
        "-1\t0/0",
        "+1\t0/0",
        "0\t0/0",
        "1 0/0x",
        "1\t0/123456789",
        "1\t123456789/0",
        "1\t0/0/0",
        "1,0/0",
        "4\t0/0",
        "5\t0/0",
        "4294967296\t0/0",
        "4294967297\t0/0",
        "99999999999999999999\t0/0",
        "2\t0/0\n1\t0/8",
        "1\t0/0\n1\t0/8",
        "1\t0/0\nrubbish",
        "1#\t0/0",
    };
    struct weir_history history = { .timeline = 77, .count = 5 };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (parse(4, bad[i], &history) != WEIR_EPROTO)
            fail_msg("accepted: %s", bad[i]);
    assert_int_equal(parse(0, "", &history), WEIR_EPROTO);
    assert_int_equal(history.timeline, 77);
    assert_int_equal(history.count, 5);
    assert_int_equal(parse(UINT32_MAX, "4294967294\t0/8", &history), 0);
}

static void history__of_many_ancestors_keeps_the_newest_and_says_so(void **state)
{
    static char text[100 * 32];
    struct weir_history history;
    size_t size = 0, all = WEIR_ANCESTORS_MAX;
    (void)state;
    for (unsigned i = 1; i <= 70; i++) {
        size += (size_t)snprintf(text + size, sizeof text - size, "%u\t0/%X\tx\n", i, 8 * i);
        assert_int_equal(weir_history_parse(i + 1, text, size, &history), 0);
        assert_int_equal(history.count, i < all ? i : all);
        assert_int_equal(history.cut, i > all);
        assert_int_equal(history.ancestors[history.count - 1].timeline, i);
        assert_int_equal(history.ancestors[0].end, i < all ? 8 : 8 * (i - all + 1));
    }
}

static void known__does_not_depend_on_the_order(void **state)
{
    struct test_random random = { test_random_seed() };
    (void)state;
    for (unsigned round = 0; round < 200; round++) {
        struct weir_known one = { 0 }, other = { 0 };
        for (uint32_t i = 0; i < WEIR_HISTORIES_MAX; i++) {
            uint32_t timeline = (uint32_t)(2 + i * 5 % WEIR_HISTORIES_MAX);
            weir_known_history(&one, 9, &(struct weir_history){ .timeline = 2 + i });
            weir_known_history(&other, 9, &(struct weir_history){ .timeline = timeline });
        }
        struct weir_run runs[WEIR_RUNS_MAX];
        for (unsigned i = 0; i < WEIR_RUNS_MAX; i++)
            runs[i] = (struct weir_run){ (uint32_t)(1 + test_random_below(&random, 3)), 0,
                                         1 + test_random_below(&random, 3), test_random_below(&random, 100) };
        for (unsigned i = 0; i < WEIR_RUNS_MAX; i++) {
            const struct weir_run *back = &runs[WEIR_RUNS_MAX - 1 - i];
            weir_known_run(&one, 9, runs[i].timeline, 0, runs[i].run, runs[i].flushed);
            weir_known_run(&other, 9, back->timeline, 0, back->run, back->flushed);
        }
        assert_memory_equal(&one.histories, &other.histories, sizeof one.histories);
        assert_int_equal(one.run_count, other.run_count);
        for (unsigned i = 0; i < one.run_count; i++) {
            assert_int_equal(one.runs[i].timeline, other.runs[i].timeline);
            assert_int_equal(one.runs[i].run, other.runs[i].run);
            assert_int_equal(one.runs[i].flushed, other.runs[i].flushed);
        }
    }
}

static void known__keeps_the_newest(void **state)
{
    struct weir_known known = { 0 };
    (void)state;
    for (uint32_t i = 1; i <= 20; i++) {
        weir_known_history(&known, 9, &(struct weir_history){ .timeline = i });
        weir_known_run(&known, 9, 3, 0, i, 100);
    }
    assert_int_equal(known.history_count, WEIR_HISTORIES_MAX);
    assert_int_equal(known.run_count, WEIR_RUNS_MAX);
    for (uint32_t i = 2; i <= 20; i++)
        assert_int_equal(weir_known_find(&known, i, 0) != NULL, i > 20 - WEIR_HISTORIES_MAX);
    weir_known_history(&known, 9, &(struct weir_history){ .timeline = 5 });
    weir_known_run(&known, 9, 3, 0, 5, 100);
    assert_null(weir_known_find(&known, 5, 0));
    assert_int_equal(known.runs[0].run, 20 - WEIR_RUNS_MAX + 1);
    assert_int_equal(known.runs[WEIR_RUNS_MAX - 1].run, 20);
    weir_known_run(&known, 9, 3, 0, 20, 90);
    assert_int_equal(known.runs[WEIR_RUNS_MAX - 1].flushed, 100);
    weir_known_run(&known, 9, 3, 0, 20, 110);
    assert_int_equal(known.runs[WEIR_RUNS_MAX - 1].flushed, 110);
    weir_known_history(&known, 9, &(struct weir_history){ .timeline = 20, .cut = true });
    assert_true(weir_known_find(&known, 20, 0)->cut);
}

static void known__is_of_one_system_and_timeline_1_is_always_known(void **state)
{
    struct weir_known known = { 0 };
    (void)state;
    assert_int_equal(weir_known_find(NULL, 1, 0)->count, 0);
    assert_null(weir_known_find(NULL, 2, 0));
    assert_int_equal(weir_known_find(&known, 1, 0)->timeline, 1);
    weir_known_history(&known, 0, &(struct weir_history){ .timeline = 2 }); /* of no system, and there is none yet */
    weir_known_run(&known, 0, 1, 0, 7, 8);
    assert_int_equal(known.history_count + known.run_count, 0);
    weir_known_run(&known, 9, 1, 0, 5, 8);
    weir_known_run(&known, 8, 1, 0, 6, 8);
    weir_known_run(&known, 0, 1, 0, 7, 8);
    weir_known_run(&known, 9, 0, 0, 7, 8);
    weir_known_run(&known, 9, 1, 0, 0, 8);
    weir_known_history(&known, 8, &(struct weir_history){ .timeline = 2 });
    assert_true(known.system == 9);
    assert_int_equal(known.run_count, 1);
    assert_int_equal(known.history_count, 0);
}

/* ---- positions ---- */

static void branch__the_first_timeline_has_one_and_others_have_each_their_own(void **state)
{
    (void)state;
    assert_int_equal(weir_branch_of(7, 1, 1000), 0);
    assert_int_equal(weir_branch_of(7, 0, 1000), 0);
    assert_int_not_equal(weir_branch_of(7, 2, 1000), 0);
    assert_int_not_equal(weir_branch_of(7, 2, 1000), weir_branch_of(7, 2, 1001));
    assert_int_not_equal(weir_branch_of(7, 2, 1000), weir_branch_of(7, 3, 1000));
    assert_int_not_equal(weir_branch_of(7, 2, 1000), weir_branch_of(8, 2, 1000));
}

static void position__is_read_as_postgresql_writes_it(void **state)
{
    static const struct {
        const char *text;
        uint64_t position;
    } good[] = {
        { "0/0", 0 },
        { "16/B374D848", UINT64_C(0x16B374D848) },
        { "0/b374d84f", UINT64_C(0xB374D84F) },
        { "FFFFFFFF/FFFFFFFF", UINT64_MAX },
        { "00000001/00000002", UINT64_C(0x100000002) },
        { "1/2", UINT64_C(0x100000002) },
    };
    static const char *const bad[] = { "",     "/",    "0/",          "/0",          "0",     "0 /0",
                                       "0/ 0", "0/0 ", "0/g",         "0/0/0",       "0x1/0", "-1/0",
                                       "0/+1", "0\\0", "0/000000000", "123456789/0", "//",    "0//0" };
    uint64_t position = 7;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(weir_position_parse(good[i].text, strlen(good[i].text), &position), 0);
        assert_true(position == good[i].position);
    }
    position = 7;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (weir_position_parse(bad[i], strlen(bad[i]), &position) != WEIR_EPROTO)
            fail_msg("accepted: %s", bad[i]);
    assert_int_equal(weir_position_parse("0/0\0", 4, &position), WEIR_EPROTO);
    assert_int_equal(weir_position_parse("1/2x", 3, &position), 0);
    assert_true(position == UINT64_C(0x100000002));
}

/* Where a record ends, and where PostgreSQL says the next one goes (XLogBytePosToRecPtr): the log is a line of bytes
 * that the headers of pages interrupt. The end of a record is taken before a header, the next one's place behind it. */
static void both_ends(uint64_t bytes, uint64_t page, uint64_t segment, uint64_t *ret_end, uint64_t *ret_insert)
{
    uint64_t position = 0;
    for (;;) {
        uint64_t header = position % segment == 0 ? 40 : 24, room = page - header;
        if (bytes == 0) {
            *ret_end = position;
            *ret_insert = position + header;
            return;
        }
        if (bytes < room) {
            *ret_end = *ret_insert = position + header + bytes;
            return;
        }
        bytes -= room;
        position += page;
    }
}

static void position__of_the_last_record_is_without_the_next_pages_header(void **state)
{
    struct test_random random = { test_random_seed() };
    (void)state;
    for (uint64_t page = 1024; page <= 65536; page *= 2)
        for (uint64_t segment = UINT64_C(1) << 20; segment <= UINT64_C(1) << 30; segment *= 2) {
            uint64_t per_segment = segment / page * (page - 24) - 16, end, insert;
            uint64_t near[] = { 0, page - 40, per_segment, per_segment + page - 40, per_segment - (page - 24) };
            for (unsigned i = 0; i < 30; i++) {
                uint64_t off = 8 * test_random_below(&random, 16), bytes = near[i % 5] + off;
                if (i >= 15)
                    bytes = near[i % 5] >= off ? near[i % 5] - off : 0;
                /* A whole segment is a line of the same length each: begin behind so many of them. */
                uint64_t before = test_random_below(&random, (UINT64_C(1) << 40) / segment) * segment;
                both_ends(bytes, page, segment, &end, &insert);
                assert_true(weir_position_normal(before + insert, page, segment) == before + end);
                assert_true(weir_position_normal(before + end, page, segment) == before + end);
            }
        }
}

static void position__headers_are_24_bytes_and_40_at_a_segments_start(void **state)
{
    const uint64_t page = 8192, segment = UINT64_C(16) << 20, at = UINT64_C(5) << 24;
    (void)state;
    assert_true(weir_position_normal(at + 40, page, segment) == at);
    assert_true(weir_position_normal(at + 48, page, segment) == at + 48);
    assert_true(weir_position_normal(at + page + 24, page, segment) == at + page);
    assert_true(weir_position_normal(at + page + 32, page, segment) == at + page + 32);
    assert_true(weir_position_normal(at + page + 40, page, segment) == at + page + 40);
    assert_true(weir_position_normal(at + page - 8, page, segment) == at + page - 8);
    assert_true(weir_position_normal(UINT64_MAX - 7, page, segment) == UINT64_MAX - 7);
    assert_true(weir_position_normal(UINT64_MAX - page + 1 + 24, page, segment) == UINT64_MAX - page + 1);
    assert_true(weir_position_normal(0, page, segment) == 0);
}

static void position__sizes_are_powers_of_two(void **state)
{
    (void)state;
    assert_true(weir_position_sizes(8192, 1 << 24));
    assert_true(weir_position_sizes(64, 64));
    assert_false(weir_position_sizes(0, 1 << 24));
    assert_false(weir_position_sizes(8192, 0));
    assert_false(weir_position_sizes(8193, 1 << 24));
    assert_false(weir_position_sizes(8192, (1 << 24) + 1));
    assert_false(weir_position_sizes(8192, 4096));
    assert_false(weir_position_sizes(32, 4096));
}

/* ---- arrays that others stand behind ---- */

/* In whatever order they come they stand in theirs, and nothing else is written to. */
static void known__holds_what_was_told_and_nothing_else(void **state)
{
    (void)state;
    static const uint32_t orders[][4] = { { 2, 3, 4, 5 }, { 5, 4, 3, 2 }, { 2, 5, 3, 4 }, { 3, 5, 2, 4 } };
    for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++) {
        static struct weir_known known, none;
        for (unsigned i = 4; i < WEIR_HISTORIES_MAX; i++)
            none.histories[i].timeline = 1000 + i;
        for (unsigned i = 4; i < WEIR_RUNS_MAX; i++)
            none.runs[i].timeline = 1000 + i;
        known = none;
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t timeline = orders[o][i];
            weir_known_history(&known, 9, &(struct weir_history){ .timeline = timeline, .branch = 10 + timeline });
            weir_known_run(&known, 9, timeline, 10 + timeline, 20 + timeline, 100 * timeline);
        }
        assert_int_equal(known.history_count, 4);
        assert_int_equal(known.run_count, 4);
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(known.histories[i].timeline == 2 + i && known.histories[i].branch == 12 + i);
            assert_true(known.runs[i].timeline == 2 + i && known.runs[i].branch == 12 + i);
            assert_true(known.runs[i].run == 22 + i && known.runs[i].flushed == 200 + 100 * i);
        }
        for (unsigned i = 4; i < WEIR_HISTORIES_MAX; i++)
            assert_memory_equal(&known.histories[i], &none.histories[i], sizeof none.histories[i]);
        for (unsigned i = 4; i < WEIR_RUNS_MAX; i++)
            assert_memory_equal(&known.runs[i], &none.runs[i], sizeof none.runs[i]);
        assert_memory_equal(known.same, none.same, sizeof none.same);
        assert_memory_equal(&known.leading, &none.leading, sizeof none.leading);
    }
}

/* What lies behind what is known is not known. */
static void known__ends_where_it_says(void **state)
{
    (void)state;
    static struct weir_known known = { .histories = { { .timeline = 5, .branch = 7 } },
                                       .runs = { { .timeline = 5, .branch = 7, .run = 3, .flushed = 900 } },
                                       .same = { { 5, 7, 8 } } };
    assert_null(weir_known_find(&known, 5, 7));
    assert_false(weir_known_is_same(&known, 5, 7, 8));
    weir_known_run(&known, 9, 5, 7, 3, 100);
    assert_int_equal(known.run_count, 1);
    assert_int_equal(known.runs[0].flushed, 100);
    weir_known_same(&known, 5, 11, 12);
    assert_int_equal(known.same_count, 1);
    assert_true(weir_known_is_same(&known, 5, 11, 12) && !weir_known_is_same(&known, 5, 7, 8));
}

/* All nodes name a branch alike, whatever version of weir they run. */
static void branch__has_one_number(void **state)
{
    (void)state;
    assert_int_equal(weir_branch_of(UINT64_C(0x0123456789abcdef), 2, UINT64_C(0xfedcba9876543210)), 878455957);
    assert_int_equal(weir_branch_of(77, 0xfffffffe, 5), 821996013);
    assert_int_equal(weir_branch_of(77, 1, 5), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known__holds_what_was_told_and_nothing_else),
        cmocka_unit_test(known__ends_where_it_says),
        cmocka_unit_test(branch__has_one_number),
        cmocka_unit_test(history__reads_what_postgresql_writes),
        cmocka_unit_test(history__refuses_what_is_none_and_changes_nothing),
        cmocka_unit_test(history__of_many_ancestors_keeps_the_newest_and_says_so),
        cmocka_unit_test(known__does_not_depend_on_the_order),
        cmocka_unit_test(known__keeps_the_newest),
        cmocka_unit_test(known__is_of_one_system_and_timeline_1_is_always_known),
        cmocka_unit_test(branch__the_first_timeline_has_one_and_others_have_each_their_own),
        cmocka_unit_test(position__is_read_as_postgresql_writes_it),
        cmocka_unit_test(position__of_the_last_record_is_without_the_next_pages_header),
        cmocka_unit_test(position__headers_are_24_bytes_and_40_at_a_segments_start),
        cmocka_unit_test(position__sizes_are_powers_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
