/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of `weir lab`, in virtual time: each against arithmetic that is done here once more, without the code of
 * core/. Questions 1, 2, 7 and 9 are in test_lab_stores.c. What real servers say is tests/live/test_lab.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab_fixture.h"

/* ---- all of them ---- */

static void labs__are_in_order_and_say_what_they_show(void **state)
{
    (void)state;
    const struct weir_lab *lab;
    unsigned before = 0, count = 0;
    for (; (lab = weir_lab_at(count)); count++) {
        assert_true(lab->number > before && lab->number <= 10);
        before = lab->number;
        assert_ptr_equal(weir_lab_find(lab->number), lab);
        assert_true(strlen(lab->title) > 20 && strlen(lab->title) <= 90);
        assert_true(strlen(lab->question) > 60 && strlen(lab->shows) > 80 && strlen(lab->shows_not) > 80);
    }
    assert_int_equal(count, 10);
    assert_null(weir_lab_find(0));
    assert_null(weir_lab_find(11));
}

static void labs__say_the_same_each_time(void **state)
{
    (void)state;
    const struct weir_lab *lab;
    struct weir_lab_report *first = malloc(sizeof(*first));
    assert_non_null(first);
    for (size_t i = 0; (lab = weir_lab_at(i)); i++) {
        play(lab->number, 7);
        *first = report;
        play(lab->number, 7);
        assert_memory_equal(first, &report, sizeof(report));
        assert_int_equal(report.seed, lab->drawn ? 7 : 0);
        assert_true(report.series_count > 0 && report.numbers_count > 4 && report.x && report.y);
        for (size_t k = 0; k < report.series_count; k++)
            assert_true(report.series[k].count > 1 && report.series[k].count < WEIR_LAB_POINTS_MAX);
        assert_int_not_equal(report.source, WEIR_LAB_REAL);
    }
    free(first);
}

static void reports__keep_the_last_point_where_no_more_fit(void **state)
{
    (void)state;
    memset(&report, 0, sizeof(report));
    size_t line = weir_lab_begin(&report, "line");
    for (int i = 0; i < WEIR_LAB_POINTS_MAX + 5; i++)
        weir_lab_point(&report, line, i, 2 * i);
    assert_int_equal(report.series[line].count, WEIR_LAB_POINTS_MAX);
    assert_true(last_of("line") == 2 * (WEIR_LAB_POINTS_MAX + 4));
}

/* ---- 3 ---- */

/* A counter of two minutes, as it is told in a blog: 100 hits within the second that begins at burst_s, then one tried
 * each 100 ms from from_s on. In tenths of a millisecond. */
static void counter_by_hand(uint64_t burst_s, uint64_t from_s, uint64_t tries, uint64_t *ret_admitted,
                            uint64_t *ret_most, uint64_t *ret_hundredth)
{
    uint64_t times[256], count = 0, previous = 0, current = 0, minute = 0;
    *ret_admitted = *ret_most = *ret_hundredth = 0;
    for (uint64_t i = 0; i < 100 + tries; i++) {
        uint64_t at = i < 100 ? burst_s * 10000 + i * 99 : from_s * 10000 + (i - 100) * 1000;
        for (; minute < at / 600000; minute++) {
            previous = current;
            current = 0;
        }
        uint64_t left = 600000 - at % 600000, within = 0;
        if (previous * left / 600000 + current + 1 <= 100) {
            times[count++] = at;
            current++;
            *ret_admitted += i >= 100;
            if (*ret_admitted == 100 && *ret_hundredth == 0)
                *ret_hundredth = at - from_s * 10000;
        }
        for (uint64_t k = 0; k < count; k++)
            within += times[k] + 600000 > at;
        *ret_most = within > *ret_most ? within : *ret_most;
    }
}

static void lab_3__the_counter_is_wrong_both_ways(void **state)
{
    (void)state;
    uint64_t admitted, most, hundredth;
    play(3, 1);
    assert_int_equal(report.source, WEIR_LAB_CORE);

    counter_by_hand(59, 60, 600, &admitted, &most, &hundredth);
    assert_value("too low: asked after the burst of 100", 600);
    assert_value("too low: admitted of them by the counter", (double)admitted);
    assert_value("too low: most in any 60 s by the counter", (double)most);
    assert_value("too low: until the counter admitted another 100", (double)hundredth / 1e4);
    assert_int_equal(most, 199);
    assert_value("too low: counted less true, at worst", -99);
    /* The burst leaves the log 9.9 ms apart in the last second, in which ten more are tried. */
    assert_value("too low: admitted of them by a log", 10);
    assert_value("too low: most in any 60 s by a log", 100);

    counter_by_hand(0, 61, 590, &admitted, &most, &hundredth);
    assert_value("too high: asked after the burst of 100", 590);
    assert_value("too high: admitted of them by the counter", (double)admitted);
    assert_value("too high: most in any 60 s by the counter", (double)most);
    assert_value("too high: until the counter admitted another 100", (double)hundredth / 1e4);
    assert_value("too high: counted less true, at worst", 98); /* 59 of 60 seconds */
    assert_value("too high: admitted of them by a log", 100);
    assert_value("too high: most in any 60 s by a log", 100);
    /* A log has admitted its hundred after the hundredth try, the counter needs most of a minute. */
    assert_true(hundredth > 550000);
}

/* ---- 4 ---- */

static void lab_4__refusal_begins_near_10_s_and_then_every_second_one(void **state)
{
    (void)state;
    /* In twentieths of a token: a request takes 20, 50 ms bring 10. */
    unsigned left = 2000, admitted = 0, refused = 0, before = 0, first = 0;
    for (unsigned i = 0; i < 400; i++) {
        left = i == 0 ? left : left + 10 > 2000 ? 2000 : left + 10;
        if (left >= 20) {
            left -= 20;
            admitted++;
            continue;
        }
        if (refused++ == 0) {
            first = i;
            before = admitted;
        }
    }
    play(4, 1);
    assert_int_equal(report.source, WEIR_LAB_CORE);
    assert_value("asked", 400);
    assert_value("admitted", admitted);
    assert_value("first refusal", first * 0.05);
    assert_value("first refusal", 9.95); /* the 199th half token is the last */
    assert_value("admitted before it", before);
    assert_value("admitted after it", admitted - before);
    assert_value("refused", refused);
    assert_value("longest row of admissions after it", 1);
    assert_value("longest row of refusals", 1);
    assert_true(last_of("refused so far") == refused && last_of("tokens left") == 0);
    /* Ten a second, neither more nor less, once the bucket is empty. */
    const struct weir_lab_series *no = series("refused so far");
    for (size_t i = 220; i < 400; i++)
        assert_true(no->points[i].y - no->points[i - 20].y == 10);
}

/* ---- 5 ---- */

static void lab_5__who_dies_before_expire_blocks_the_key(void **state)
{
    (void)state;
    play(5, 1);
    assert_int_equal(report.source, WEIR_LAB_SIMULATED);
    static const char *const ways[] = { "INCR, then EXPIRE", "one script", "weir, exact" };
    for (size_t i = 0; i < 3; i++) {
        bool naive = i == 0;
        assert_value_of(ways[i], "asked", 1 + 99);                         /* every 50 ms, below 5 s */
        assert_value_of(ways[i], "admitted", naive ? 10 - 1 : 5 * 10 - 1); /* who died had used one */
        assert_value_of(ways[i], "of them after 2 s", naive ? 0 : 3 * 10);
        assert_true(last_of(ways[i]) == value_of(ways[i], "admitted"));
    }
}

/* ---- 6 ---- */

static void lab_6__who_only_tells_lets_all_pass(void **state)
{
    (void)state;
    static const char *const ours[] = { "gossip, slack 2", "gossip, slack 20", "split",
                                        "exact",           "leased",           "batched, slack 2" };
    play(6, 1);
    assert_int_equal(report.source, WEIR_LAB_SIMULATED);
    assert_value("asked", 50 * 200);
    assert_value("the limit allows", 1000 + 1); /* the refill of 100 ms is 1.67 */
    assert_value("naive: tell the others: passed", 50 * 200);
    assert_value("gossip, slack 2: passed", 50 * 2);
    assert_value("gossip, slack 20: passed", 50 * 20);
    assert_value("split: passed", 1000);
    assert_value("exact: passed", 1001);
    assert_value("leased: passed", 1001);
    assert_value("exact: at most, as weir states it", 1001);
    assert_value("gossip, slack 2: at most, as weir states it", 1001 + 49 * 2);
    assert_value("gossip, slack 20: at most, as weir states it", 1001 + 49 * 20);
    assert_value("batched, slack 2: at most, as weir states it", 1001 + 50 * 2);
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        assert_true(value_of(ours[i], "passed") <= value_of(ours[i], "at most, as weir states it"));
        assert_true(value_of(ours[i], "passed") == last_of(ours[i]));
    }
    assert_value("exact: to the engine", 10000);
    assert_value("exact: longest wait for an answer", 2); /* there and back */
    assert_value("split: to the engine", 0);
    assert_value("gossip, slack 2: to the engine", 0);
    assert_value("naive: tell the others: to the engine", 0);
    assert_true(value("leased: to the engine") < 1000 && value("batched, slack 2: to the engine") < 1000);
    assert_true(value("batched, slack 2: passed") > 1001); /* that is its price, within its bound */
}

/* ---- 8 ---- */

static void lab_8__the_same_are_admitted_and_the_leaky_ones_wait(void **state)
{
    (void)state;
    static const char *const both[] = { "token bucket", "leaky bucket" };
    play(8, 1);
    assert_int_equal(report.source, WEIR_LAB_CORE);
    for (size_t i = 0; i < 2; i++) {
        assert_value_of(both[i], "asked", 30 + 40);
        assert_value_of(both[i], "admitted", 20 + 40);
        assert_value_of(both[i], "refused", 10);
        assert_value_of(both[i], "the first refused may retry after", 100);
        assert_true(last_of(both[i]) == 60);
    }
    assert_value("token bucket: told to wait", 0);
    assert_value("token bucket: longest wait", 0);
    assert_value("token bucket: mean wait", 0);
    assert_value("token bucket: most at the backend within 100 ms", 20);
    assert_value("leaky bucket: told to wait", 19); /* the first of the burst goes at once */
    assert_value("leaky bucket: longest wait", 19 * 100);
    assert_value("leaky bucket: mean wait", 19000 / 60.0); /* 0 to 1,900 ms in steps of 100 */
    assert_value("leaky bucket: most at the backend within 100 ms", 1);
    const struct weir_lab_series *leaky = series("leaky bucket");
    for (size_t i = 2; i < leaky->count; i++)
        assert_true(leaky->points[i].x - leaky->points[i - 1].x > 0.1 - 1e-9);
}

/* ---- 10 ---- */

static void lab_10__leased_asks_a_quarter_and_admits_the_same(void **state)
{
    (void)state;
    static const char *const ways[] = { "exact for all", "exact for the large one, else leased", "leased for all" };
    /* At two nodes for 5 s: 1,000 a second of the large one and 10 a second of each of a hundred. What is asked in the
     * last ms is answered by an engine after the end. */
    const double decided = 2 * (5 * 1000 + 100 * 5 * 10), unanswered[] = { 2, 2, 0 };
    /* 100, and 100 a second up to the last request; and all of the small ones. */
    const double admitted = 100 + 499 + 2 * 100 * 5 * 10;
    play(10, 1);
    assert_int_equal(report.source, WEIR_LAB_SIMULATED);
    for (size_t i = 0; i < 3; i++) {
        assert_value_of(ways[i], "decisions", decided - unanswered[i]);
        assert_value_of(ways[i], "admitted", admitted);
        assert_true(last_of(ways[i]) == admitted);
    }
    assert_value("exact for all: asks of Redis per 100 decisions", 100 * decided / (decided - 2));
    assert_value("exact for all: mean wait", 2); /* there and back */
    /* Of the large one each, of the small ones hardly any: between half and two thirds of all. */
    double mixed = value_of(ways[1], "asks of Redis per 100 decisions");
    assert_true(mixed > 50 && mixed < 67);
    assert_true(value_of(ways[2], "asks of Redis per 100 decisions") < 25);
    assert_true(value_of(ways[1], "mean wait") < 1.1 && value_of(ways[2], "mean wait") < 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labs__are_in_order_and_say_what_they_show),
        cmocka_unit_test(labs__say_the_same_each_time),
        cmocka_unit_test(reports__keep_the_last_point_where_no_more_fit),
        cmocka_unit_test(lab_3__the_counter_is_wrong_both_ways),
        cmocka_unit_test(lab_4__refusal_begins_near_10_s_and_then_every_second_one),
        cmocka_unit_test(lab_5__who_dies_before_expire_blocks_the_key),
        cmocka_unit_test(lab_6__who_only_tells_lets_all_pass),
        cmocka_unit_test(lab_8__the_same_are_admitted_and_the_leaky_ones_wait),
        cmocka_unit_test(lab_10__leased_asks_a_quarter_and_admits_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
