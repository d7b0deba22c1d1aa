/* SPDX-License-Identifier: Apache-2.0
 *
 * The RESP codec: what it takes, what it refuses and with which text, and that how the bytes are cut changes
 * nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "wire/resp.h"
#include "wire/resp_write.h"

static const struct weir_resp_bounds bounds = { .args_max = 16, .size_max = 1024 };

static struct weir_resp_command command;

static int parse(const char *text, size_t size)
{
    struct weir_resp_progress progress = { 0 };
    return weir_resp_parse(&progress, (const uint8_t *)text, size, &bounds, &command);
}

static void assert_arg(size_t i, const char *expected)
{
    assert_true(i < command.count);
    assert_int_equal(command.args[i].size, strlen(expected));
    assert_memory_equal(command.args[i].data, expected, strlen(expected));
}

static void array_of_bulks(void **state)
{
    (void)state;
    const char text[] = "*3\r\n$4\r\nECHO\r\n$0\r\n\r\n$2\r\n\r\n\r\nrest";
    assert_int_equal(parse(text, sizeof(text) - 1), 0);
    assert_int_equal(command.count, 3);
    assert_arg(0, "ECHO");
    assert_arg(1, "");
    assert_arg(2, "\r\n");
    assert_int_equal(command.size, sizeof(text) - 1 - 4);
    assert_false(command.line);
}

static void long_counts_and_lengths(void **state)
{
    (void)state;
    char text[700] = "*2\r\n$3\r\nDEL\r\n$600\r\n";
    size_t head = strlen(text);
    memset(text + head, 'x', 600);
    memcpy(text + head + 600, "\r\n", 2);
    assert_int_equal(parse(text, head + 601), WEIR_EAGAIN);
    assert_int_equal(parse(text, head + 602), 0);
    assert_int_equal(command.args[1].size, 600);
}

static void nothing_to_do(void **state)
{
    (void)state;
    const char *const empty[] = { "*0\r\n", "*-1\r\n", "\r\n", "\n", "   \r\n" };
    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
        assert_int_equal(parse(empty[i], strlen(empty[i])), 0);
        assert_int_equal(command.count, 0);
        assert_int_equal(command.size, strlen(empty[i]));
    }
}

static void inline_words(void **state)
{
    (void)state;
    const char text[] = "SET  \"a \\x41\\n\\\"\" 'it''s'\r\n";
    assert_int_equal(parse(text, sizeof(text) - 1), WEIR_EPROTO);
    assert_string_equal(command.error, "unbalanced quotes in request");

    const char good[] = "set\t\"a \\x41\\n\\\"\\q\" 'it\\'s' k\"v\" \"\"\r\n";
    assert_int_equal(parse(good, sizeof(good) - 1), 0);
    assert_int_equal(command.count, 5);
    assert_true(command.line);
    assert_arg(0, "set");
    assert_arg(1, "a A\n\"q");
    assert_arg(2, "it's");
    assert_arg(3, "kv");
    assert_arg(4, "");
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        { "*9223372036854775808\r\n", "invalid multibulk length" },
        { "*9223372036854775807\r\n", "invalid multibulk length" },
        { "*-2\r\n", "invalid multibulk length" },
        { "*17\r\n", "invalid multibulk length" },
        { "*1048576\r\n", "invalid multibulk length" },
        { "*\r\n", "invalid multibulk length" },
        { "*-\r\n", "invalid multibulk length" },
        { "*03\r\n", "invalid multibulk length" },
        { "*-0\r\n", "invalid multibulk length" },
        { "*+1\r\n", "invalid multibulk length" },
        { "* 1\r\n", "invalid multibulk length" },
        { "*1\rx", "invalid multibulk length" },
        { "*11111111111111111111111111111111", "too big mbulk count string" },
        { "*1\r\n$9223372036854775808\r\n", "invalid bulk length" },
        { "*1\r\n$9223372036854775807\r\n", "invalid bulk length" },
        { "*1\r\n$-2\r\n", "invalid bulk length" },
        { "*1\r\n$-1\r\n", "invalid bulk length" },
        { "*1\r\n$1025\r\n", "invalid bulk length" },
        { "*1\r\n$1018\r\n", "invalid bulk length" },
        { "*1\r\n$x\r\n", "invalid bulk length" },
        { "*1\r\n$11111111111111111111111111111111", "too big bulk count string" },
        { "*1\r\n*1\r\n", "expected '$', got '*'" },
        { "*1\r\n:1\r\n", "expected '$', got ':'" },
        { "*1\r\n\x01", "expected '$', got '?'" },
        { "*1\r\n$1\r\nabc", "bulk string is longer than its length" },
        { "*2\r\n$1\r\na\r\nb", "expected '$', got 'b'" },
        { "get 'x\r\n", "unbalanced quotes in request" },
        { "get \"x\"y\r\n", "unbalanced quotes in request" },
        { "get \"x\\\r\n", "unbalanced quotes in request" },
        { "a a a a a a a a a a a a a a a a a\r\n", "invalid multibulk length" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(cases[i].text, strlen(cases[i].text)), WEIR_EPROTO);
        assert_string_equal(command.error, cases[i].error);
    }
}

static void line_without_end(void **state)
{
    (void)state;
    char *line = malloc(WEIR_RESP_LINE_MAX);
    memset(line, 'a', WEIR_RESP_LINE_MAX);
    assert_int_equal(parse(line, WEIR_RESP_LINE_MAX - 1), WEIR_EAGAIN);
    assert_int_equal(parse(line, WEIR_RESP_LINE_MAX), WEIR_EPROTO);
    assert_string_equal(command.error, "too big inline request");
    free(line);
}

/* ---- how the bytes are cut ---- */

#define LOG_MAX 8192

/* Everything that parsing said, as text, so that two ways to cut the same bytes can be compared. */
struct log {
    size_t size;
    char text[LOG_MAX];
};

static void log_bytes(struct log *log, const void *data, size_t size)
{
    assert_true(log->size + size <= LOG_MAX);
    memcpy(log->text + log->size, data, size);
    log->size += size;
}

static void log_result(struct log *log, int error)
{
    if (error == WEIR_EPROTO) {
        log_bytes(log, command.error, strlen(command.error));
        return;
    }
    log_bytes(log, &command.count, sizeof(command.count));
    for (size_t i = 0; i < command.count; i++) {
        log_bytes(log, &command.args[i].size, sizeof(command.args[i].size));
        log_bytes(log, command.args[i].data, command.args[i].size);
    }
}

/* Feeds `text` in pieces of at most `piece` bytes, from a fresh allocation each time so that stale pointers show. */
static void feed(const uint8_t *text, size_t size, size_t piece, struct log *log)
{
    struct weir_resp_progress progress = { 0 };
    size_t start = 0;
    size_t end = 0;
    log->size = 0;
    while (end < size) {
        end = size - end < piece ? size : end + piece;
        uint8_t *copy = malloc(end - start + 1);
        memcpy(copy, text + start, end - start);
        size_t at = 0;
        int error = 0;
        while (!error) {
            error = weir_resp_parse(&progress, copy + at, end - start - at, &bounds, &command);
            if (error == WEIR_EAGAIN)
                break;
            log_result(log, error);
            at += error ? 0 : command.size;
        }
        free(copy);
        start += at;
        if (error == WEIR_EPROTO)
            return;
    }
}

static size_t make_stream(struct test_random *random, uint8_t *out)
{
    size_t size = 0;
    size_t commands = 1 + test_random_below(random, 5);
    for (size_t c = 0; c < commands; c++) {
        size_t args = test_random_below(random, 6);
        size += (size_t)sprintf((char *)out + size, "*%zu\r\n", args);
        for (size_t i = 0; i < args; i++) {
            size_t length = test_random_below(random, 20);
            size += (size_t)sprintf((char *)out + size, "$%zu\r\n", length);
            for (size_t k = 0; k < length; k++)
                out[size++] = (uint8_t)test_random_below(random, 256);
            out[size++] = '\r';
            out[size++] = '\n';
        }
        if (test_random_below(random, 4) == 0)
            size += (size_t)sprintf((char *)out + size, "PING 'a b' \"\\x00\"\r\n");
    }
    if (test_random_below(random, 2) == 0) /* and half of them are wrong somewhere */
        out[test_random_below(random, size)] = (uint8_t) "*$\r\n0129-x"[test_random_below(random, 10)];
    return size;
}

static void one_byte_at_a_time_equals_all_at_once(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    uint8_t *stream = malloc(LOG_MAX);
    struct log *whole = malloc(sizeof(*whole));
    struct log *cut = malloc(sizeof(*cut));
    for (int i = 0; i < 20000; i++) {
        size_t size = make_stream(&random, stream);
        feed(stream, size, size, whole);
        feed(stream, size, 1, cut);
        assert_int_equal(whole->size, cut->size);
        assert_memory_equal(whole->text, cut->text, whole->size);
        feed(stream, size, 1 + test_random_below(&random, 30), cut);
        assert_int_equal(whole->size, cut->size);
        assert_memory_equal(whole->text, cut->text, whole->size);
    }
    free(stream);
    free(whole);
    free(cut);
}

static void integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        int64_t value;
    } cases[] = {
        { "0", true, 0 },
        { "-1", true, -1 },
        { "9223372036854775807", true, INT64_MAX },
        { "-9223372036854775808", true, INT64_MIN },
        { "9223372036854775808", false, 0 },
        { "-9223372036854775809", false, 0 },
        { "", false, 0 },
        { "-", false, 0 },
        { "-0", false, 0 },
        { "01", false, 0 },
        { "+1", false, 0 },
        { " 1", false, 0 },
        { "1 ", false, 0 },
        { "1.5", false, 0 },
        { "1e3", false, 0 },
        { "99999999999999999999", false, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t value = 7;
        struct weir_slice text = { cases[i].text, strlen(cases[i].text) };
        assert_int_equal(weir_resp_integer(text, &value), cases[i].good);
        assert_int_equal(value, cases[i].good ? cases[i].value : 7);
    }
}

static void names_in_any_case(void **state)
{
    (void)state;
    assert_true(weir_resp_is((struct weir_slice){ "Cl.ThroTTle", 11 }, "cl.throttle"));
    assert_false(weir_resp_is((struct weir_slice){ "cl.throttl", 10 }, "cl.throttle"));
    assert_false(weir_resp_is((struct weir_slice){ "\x03l.throttle", 11 }, "cl.throttle"));
    assert_false(weir_resp_is((struct weir_slice){ "GET\0", 4 }, "get"));
}

static void writing(void **state)
{
    (void)state;
    uint8_t out[256];
    uint8_t *at = out;
    at = weir_resp_put_array(at, 12);
    at = weir_resp_put_integer(at, 7);
    at = weir_resp_put_integer(at, 10);
    at = weir_resp_put_integer(at, -1);
    at = weir_resp_put_integer(at, INT64_MIN);
    at = weir_resp_put_map(at, 2, true);
    at = weir_resp_put_map(at, 2, false);
    at = weir_resp_put_null(at, true);
    at = weir_resp_put_null(at, false);
    at = weir_resp_put_bulk(at, "a\r\n", 3);
    at = weir_resp_put_bulk(at, NULL, 0);
    at = weir_resp_put_simple(at, "OK", 2);
    at = weir_resp_put_error(at, "ERR no\r\n+OK", 11);
    const char expected[] =
        "*12\r\n:7\r\n:10\r\n:-1\r\n:-9223372036854775808\r\n%2\r\n*4\r\n_\r\n$-1\r\n$3\r\na\r\n\r\n$0\r\n\r\n"
        "+OK\r\n-ERR no  +OK\r\n";
    assert_int_equal(at - out, sizeof(expected) - 1);
    assert_memory_equal(out, expected, sizeof(expected) - 1);
}

static void numbers_of_every_length(void **state)
{
    (void)state;
    uint64_t value = 1;
    for (int digits = 1; digits <= 20; digits++, value *= 10) {
        for (uint64_t near = value - 1; near <= value + 1; near++) {
            char expected[WEIR_RESP_HEADER_MAX + 1];
            uint8_t out[WEIR_RESP_HEADER_MAX];
            int size = snprintf(expected, sizeof(expected), "*%llu\r\n", (unsigned long long)near);
            assert_int_equal(weir_resp_put_number(out, '*', near, false) - out, size);
            assert_memory_equal(out, expected, (size_t)size);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(array_of_bulks),
        cmocka_unit_test(long_counts_and_lengths),
        cmocka_unit_test(nothing_to_do),
        cmocka_unit_test(inline_words),
        cmocka_unit_test(refused),
        cmocka_unit_test(line_without_end),
        cmocka_unit_test(one_byte_at_a_time_equals_all_at_once),
        cmocka_unit_test(integers),
        cmocka_unit_test(names_in_any_case),
        cmocka_unit_test(writing),
        cmocka_unit_test(numbers_of_every_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
