/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers in RESP2, however they are cut, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/resp_answer.h"

static struct weir_resp_value values[8];
static size_t count, used;

/* Of a copy without a byte behind it, so that reading too far shows. */
static int parse(const char *text, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, text, size);
    int error = weir_resp_answer_parse(copy, size, values, 8, &count, &used);
    free(copy);
    return error;
}

static void resp_answer__an_answer_is_the_same_however_it_is_cut(void **state)
{
    (void)state;
    static const char text[] = "*5\r\n:-2\r\n$3\r\na\r\n\r\n*1\r\n+OK\r\n$-1\r\n-ERR no\r\n";
    for (size_t size = 0; size < sizeof(text) - 1; size++)
        assert_int_equal(parse(text, size), WEIR_EAGAIN);
    assert_int_equal(weir_resp_answer_parse((const uint8_t *)text, sizeof(text), values, 8, &count, &used), 0);
    assert_int_equal(used, sizeof(text) - 1);
    assert_int_equal(count, 7);
    assert_int_equal(values[0].type, WEIR_RESP_ARRAY);
    assert_int_equal(values[1].integer, -2);
    assert_int_equal(values[2].text.size, 3);
    assert_memory_equal(values[2].text.data, "a\r\n", 3);
    assert_int_equal(values[3].integer, 1);
    assert_memory_equal(values[4].text.data, "OK", 2);
    assert_int_equal(values[5].type, WEIR_RESP_NULL);
    assert_int_equal(values[6].type, WEIR_RESP_ERROR);
}

static void resp_answer__integers_are_whole_and_in_range(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        ":\r\n", ":-\r\n", ":1x\r\n", ":+1\r\n", ": 1\r\n", ":9223372036854775808\r\n", ":-9223372036854775809\r\n"
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(parse(wrong[i], strlen(wrong[i])), WEIR_EPROTO);
    assert_int_equal(parse(":-9223372036854775808\r\n", 23), 0);
    assert_true(values[0].integer == INT64_MIN);
    assert_int_equal(parse(":9223372036854775807\r\n", 22), 0);
    assert_true(values[0].integer == INT64_MAX);
}

static void resp_answer__what_is_no_answer_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = { "HTTP/1.1 400\r\n", "\r\n",      "$-2\r\n", "*-2\r\n",
                                         "$1\r\nab\r\n",     "+a\rb\r\n", "%1\r\n",  "$9223372036854775807\r\n" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(parse(wrong[i], strlen(wrong[i])), WEIR_EPROTO);
    assert_int_equal(parse("*8\r\n", 4), WEIR_ELIMIT);
    assert_int_equal(parse("*9223372036854775807\r\n", 22), WEIR_ELIMIT);
    assert_int_equal(parse("*2\r\n*6\r\n", 8), WEIR_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resp_answer__an_answer_is_the_same_however_it_is_cut),
        cmocka_unit_test(resp_answer__integers_are_whole_and_in_range),
        cmocka_unit_test(resp_answer__what_is_no_answer_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
