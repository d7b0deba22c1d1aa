/* SPDX-License-Identifier: Apache-2.0
 *
 * What the benchmark's figures stand on: replies are counted right however the stream is cut, another shape is noticed,
 * and percentiles are within a bucket of the truth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "histogram.h"
#include "random.h"
#include "replies.h"

#define REPLIES 1000

static const char *const verdicts[] = { "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n",
                                        "*5\r\n:1\r\n:16\r\n:0\r\n:3\r\n:60\r\n" };
static const struct replies_shape shape = { .lines = 6, .type = '*', .verdict_line = 1, .admitted = '0' };

static void lines_of_a_reply(void **state)
{
    (void)state;
    assert_int_equal(replies_lines("+PONG\r\n", 7), 1);
    assert_int_equal(replies_lines(":12\r\n", 5), 1);
    assert_int_equal(replies_lines("$-1\r\n", 5), 1);
    assert_int_equal(replies_lines("$0\r\n\r\n", 6), 2);
    assert_int_equal(replies_lines("*2\r\n$3\r\nabc\r\n*1\r\n:1\r\n", 22), 5);
    assert_int_equal(replies_lines(verdicts[0], strlen(verdicts[0])), 6);
    assert_int_equal(replies_lines(verdicts[0], strlen(verdicts[0]) - 1), 0);
}

/* Feeds a stream in pieces the way the reader does: what was carried stands before what comes. */
static void counted_however_cut(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    char *stream = malloc(REPLIES * 64);
    char *in = malloc(REPLIES * 64);
    for (int run = 0; run < 200; run++) {
        struct replies replies = { 0 };
        struct replies_tally tally = { 0 };
        size_t size = 0;
        uint64_t refused = 0;
        for (int i = 0; i < REPLIES; i++) {
            size_t which = test_random_below(&random, 2);
            memcpy(stream + size, verdicts[which], strlen(verdicts[which]));
            size += strlen(verdicts[which]);
            refused += which;
        }
        for (size_t at = 0; at < size;) {
            size_t piece = 1 + test_random_below(&random, run % 2 == 0 ? 40 : 4000);
            piece = piece < size - at ? piece : size - at;
            memcpy(in, replies.carry, replies.carry_size);
            memcpy(in + replies.carry_size, stream + at, piece);
            assert_true(replies_scan(&replies, &shape, in, replies.carry_size + piece, &tally));
            at += piece;
        }
        assert_int_equal(tally.replies, REPLIES);
        assert_int_equal(tally.refused, refused);
        assert_int_equal(tally.admitted, REPLIES - refused);
        assert_int_equal(replies.carry_size, 0);
        assert_int_equal(replies.line, 0);
    }
    free(stream);
    free(in);
}

static void another_shape_is_noticed(void **state)
{
    (void)state;
    struct replies replies = { 0 };
    struct replies_tally tally = { 0 };
    const char error[] = "-ERR no\r\n";
    assert_false(replies_scan(&replies, &shape, error, sizeof error - 1, &tally));
    char endless[REPLIES_CARRY_MAX + 1];
    memset(endless, '*', sizeof endless);
    assert_false(replies_scan(&replies, &shape, endless, sizeof endless, &tally));
}

static void percentiles(void **state)
{
    (void)state;
    struct histogram *histogram = calloc(1, sizeof *histogram);
    assert_int_equal(histogram_percentile(histogram, 5000), 0);
    for (uint64_t i = 1; i <= 1000000; i++) {
        histogram_add(histogram, i);
    }
    histogram_add(histogram, UINT64_MAX);
    for (unsigned permyriad = 1; permyriad < 10000; permyriad += 7) {
        uint64_t exact = (uint64_t)permyriad * 100;
        uint64_t found = histogram_percentile(histogram, permyriad);
        assert_true(found >= exact && found <= exact + exact / HISTOGRAM_STEPS + 1);
    }
    assert_int_equal(histogram_percentile(histogram, 10000), UINT64_MAX);
    free(histogram);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_a_reply),
        cmocka_unit_test(counted_however_cut),
        cmocka_unit_test(another_shape_is_noticed),
        cmocka_unit_test(percentiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
