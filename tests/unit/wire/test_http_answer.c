/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads of answers and problem details, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <limits.h>

#include "wire/http_answer.h"

static char room[4096];

static const char *head(const struct weir_http_answer *answer)
{
    struct weir_text text = weir_text_init(room, WEIR_HTTP_ANSWER_HEAD_MAX);
    weir_http_answer_head(&text, answer);
    assert_false(text.overflow);
    room[text.size] = '\0';
    return room;
}

#define DATE "Date: Thu, 01 Jan 1970 00:00:01 GMT\r\nCache-Control: no-store\r\n"

static void a_kept_answer_with_a_body(void **state)
{
    (void)state;
    const struct weir_http_answer answer = { .status = 200,
                                             .content_type = "application/json",
                                             .content_length = 2,
                                             .keep_alive = true,
                                             .wall_ns = WEIR_NS_PER_SECOND };
    assert_string_equal(head(&answer), "HTTP/1.1 200 OK\r\n" DATE "Content-Length: 2\r\n"
                                       "Content-Type: application/json\r\n");
}

static void an_answer_may_say_for_how_long_it_is_kept(void **state)
{
    (void)state;
    const struct weir_http_answer answer = {
        .status = 308, .max_age_s = 600, .keep_alive = true, .wall_ns = WEIR_NS_PER_SECOND
    };
    assert_string_equal(head(&answer), "HTTP/1.1 308 Permanent Redirect\r\nDate: Thu, 01 Jan 1970 00:00:01 GMT\r\n"
                                       "Cache-Control: max-age=600\r\nContent-Length: 0\r\n");
}

static void what_the_connection_does_is_said_where_it_must_be(void **state)
{
    (void)state;
    struct weir_http_answer answer = { .status = 429, .wall_ns = WEIR_NS_PER_SECOND };
    assert_string_equal(head(&answer), "HTTP/1.1 429 Too Many Requests\r\n" DATE "Content-Length: 0\r\n"
                                       "Connection: close\r\n");
    answer.version_10 = true;
    assert_string_equal(head(&answer), "HTTP/1.1 429 Too Many Requests\r\n" DATE "Content-Length: 0\r\n"
                                       "Connection: close\r\n");
    answer.keep_alive = true;
    assert_string_equal(head(&answer), "HTTP/1.1 429 Too Many Requests\r\n" DATE "Content-Length: 0\r\n"
                                       "Connection: keep-alive\r\n");
}

static void the_longest_head_keeps_its_bound(void **state)
{
    (void)state;
    const struct weir_http_answer answer = { .status = 431,
                                             .content_type = "text/plain; version=0.0.4; charset=utf-8",
                                             .content_length = SIZE_MAX,
                                             .max_age_s = UINT_MAX,
                                             .keep_alive = true,
                                             .version_10 = true,
                                             .wall_ns = UINT64_MAX };
    assert_int_equal(strncmp(head(&answer), "HTTP/1.1 431 Request Header Fields Too Large\r\n", 46), 0);
}

static void a_problem_is_json_whatever_its_text(void **state)
{
    (void)state;
    char detail[257];
    memset(detail, '\x01', 256);
    detail[256] = '\0';
    const char *details[] = { "the \"body\" is\n too \\ long", "", "\xFF", detail };
    for (size_t i = 0; i < 4; i++) {
        struct weir_text text = weir_text_init(room, WEIR_HTTP_PROBLEM_MAX + 6 * strlen(details[i]));
        weir_http_problem(&text, 431, details[i]);
        assert_false(text.overflow);
        json_t *json = json_loadb(room, text.size, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(json);
        assert_string_equal(json_string_value(json_object_get(json, "type")), "about:blank");
        assert_int_equal(json_integer_value(json_object_get(json, "status")), 431);
        if (i < 2)
            assert_string_equal(json_string_value(json_object_get(json, "detail")), details[i]);
        json_decref(json);
    }
}

static void every_status_has_its_words(void **state)
{
    (void)state;
    assert_string_equal(weir_http_reason(200), "OK");
    assert_string_equal(weir_http_reason(505), "HTTP Version Not Supported");
    assert_string_equal(weir_http_reason(299), "Unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kept_answer_with_a_body),
        cmocka_unit_test(an_answer_may_say_for_how_long_it_is_kept),
        cmocka_unit_test(what_the_connection_does_is_said_where_it_must_be),
        cmocka_unit_test(the_longest_head_keeps_its_bound),
        cmocka_unit_test(a_problem_is_json_whatever_its_text),
        cmocka_unit_test(every_status_has_its_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
