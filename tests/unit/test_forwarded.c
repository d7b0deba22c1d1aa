/* SPDX-License-Identifier: Apache-2.0
 *
 * The attributes in a proxy's question: every source, which one wins, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "wire/forwarded.h"

static struct weir_forwarded forwarded;
static struct weir_http_request request;
static struct weir_http_refusal refusal;

/* `fields` are header fields with their CRLFs. */
static bool read_question(const char *query, const char *fields, bool skip_authorization)
{
    static char text[1 << 17];
    static const struct weir_http_bounds bounds = {
        .target_max = 1 << 16, .headers_max = 200, .header_bytes_max = 1 << 16, .body_max = 16
    };
    int size = snprintf(text, sizeof(text), "GET /v1/auth%s HTTP/1.1\r\nHost: weir\r\n%s\r\n", query, fields);
    struct weir_http http = { 0 };
    assert_int_equal(weir_http_parse(&http, &bounds, (const uint8_t *)text, (size_t)size, &request, &refusal),
                     WEIR_HTTP_REQUEST);
    weir_http_next(&http);
    return weir_forwarded_read(&request, skip_authorization, &forwarded, &refusal);
}

static void assert_is(size_t i, const char *name, const char *value)
{
    assert_true(i < forwarded.count);
    assert_int_equal(forwarded.attributes[i].name.size, strlen(name));
    assert_memory_equal(forwarded.attributes[i].name.data, name, strlen(name));
    assert_int_equal(forwarded.attributes[i].value.size, strlen(value));
    if (value[0])
        assert_memory_equal(forwarded.attributes[i].value.data, value, strlen(value));
}

static void assert_refused(int status, const char *query, const char *fields)
{
    assert_false(read_question(query, fields, false));
    assert_int_equal(refusal.status, status);
    assert_true(refusal.text[0]);
}

static void nothing_is_no_attribute(void **state)
{
    (void)state;
    assert_true(read_question("", "", false));
    assert_int_equal(forwarded.count, 0);
    assert_int_equal(forwarded.refused, 429);
}

static void the_query_string_is_decoded(void **state)
{
    (void)state;
    assert_true(read_question("?user=a%20b+c&empty=&bare&&%66%3D=%26%3d%ff&=x", "", false));
    assert_int_equal(forwarded.count, 5);
    assert_is(0, "user", "a b c");
    assert_is(1, "empty", "");
    assert_is(2, "bare", "");
    assert_is(3, "f=", "&=\xFF");
    assert_is(4, "", "x");
}

static void deny_is_an_option_and_no_attribute(void **state)
{
    (void)state;
    assert_true(read_question("?deny=403&a=b", "", false));
    assert_int_equal(forwarded.refused, 403);
    assert_int_equal(forwarded.count, 1);
    assert_true(read_question("?deny=429", "", false));
    assert_int_equal(forwarded.refused, 429);
    assert_refused(400, "?deny=401", "");
    assert_refused(400, "?deny", "");
}

static void malformed_encoding_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "?a=%", "?a=%4", "?a=%4&b", "?a=%gg", "?%zz=a", "?a=%-1", "?a=%%41" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(400, bad[i], "");
}

static void fields_name_attributes_in_lower_case(void **state)
{
    (void)state;
    assert_true(read_question("",
                              "X-Weir-User: ada\r\nx-weir-API-Key: K%20 y\r\nX-Weir-: no\r\nX-Weirdo: no\r\n"
                              "X-Weir-Token: secret\r\nX-Weir-Empty:\r\n",
                              false));
    assert_int_equal(forwarded.count, 3);
    assert_is(0, "user", "ada");
    assert_is(1, "api-key", "K%20 y");
    assert_is(2, "empty", "");
}

static void the_query_string_wins_over_fields(void **state)
{
    (void)state;
    assert_true(read_question("?user=ada&route=/a&ip=x&method=m&authorization=z",
                              "X-Weir-User: eve\r\nX-Weir-Other: o\r\nX-Original-URI: /b\r\nX-Forwarded-Uri: /c\r\n"
                              "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Method: PUT\r\nAuthorization: Basic q\r\n",
                              false));
    assert_int_equal(forwarded.count, 6);
    assert_is(0, "user", "ada");
    assert_is(5, "other", "o");
}

static void named_fields_win_over_forwarded_ones(void **state)
{
    (void)state;
    assert_true(read_question("", "X-Original-URI: /b\r\nX-Weir-Route: /a\r\n", false));
    assert_int_equal(forwarded.count, 1);
    assert_is(0, "route", "/a");
}

static void what_proxies_send_by_themselves(void **state)
{
    (void)state;
    assert_true(read_question("",
                              "X-Forwarded-Uri: /%61pi/x%2Fy+z?q=%zz\r\nX-Forwarded-Method: PATCH\r\n"
                              "X-Forwarded-For: 203.0.113.9, 198.51.100.7\r\nAuthorization: Bearer abc\r\n",
                              false));
    assert_int_equal(forwarded.count, 4);
    assert_is(0, "route", "/api/x/y+z");
    assert_is(1, "method", "PATCH");
    assert_is(2, "ip", "198.51.100.7");
    /* printf 'Bearer abc' | sha256sum */
    assert_is(3, "authorization", "c355dce96c1612880d11940ffdd9014d386c253e0c3652a6cd06a7226f7bd2b6");
}

static void the_last_address_is_the_one_the_proxy_saw(void **state)
{
    (void)state;
    static const char *const lists[][2] = {
        { "1.1.1.1", "1.1.1.1" },
        { "1.1.1.1,2.2.2.2", "2.2.2.2" },
        { "1.1.1.1 , \t::1", "::1" },
        { "1.1.1.1,", "" },
        { ",", "" },
        { "", "" },
        { "a\r\nX-Forwarded-For: b", "b" },
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        char fields[128];
        snprintf(fields, sizeof(fields), "X-Forwarded-For: %s\r\n", lists[i][0]);
        assert_true(read_question("", fields, false));
        assert_is(0, "ip", lists[i][1]);
    }
}

static void a_route_told_twice_is_refused(void **state)
{
    (void)state;
    assert_refused(400, "", "X-Original-URI: /a\r\nX-Forwarded-Uri: /a\r\n");
    assert_true(read_question("", "X-Original-URI: /a%\r\n", false));
    assert_is(0, "route", "/a%"); /* what cannot be decoded stays as it is */
}

static void the_callers_own_authorization_is_no_attribute(void **state)
{
    (void)state;
    assert_true(read_question("", "Authorization: Bearer abc\r\n", true));
    assert_int_equal(forwarded.count, 0);
}

static void attributes_are_bounded(void **state)
{
    (void)state;
    static char text[1 << 16];
    for (size_t count = WEIR_FORWARDED_MAX; count <= WEIR_FORWARDED_MAX + 1; count++) {
        char *at = text;
        *at++ = '?';
        for (size_t i = 0; i < count; i++)
            at += sprintf(at, "a%zu&", i);
        assert_int_equal(read_question(text, "", false), count == WEIR_FORWARDED_MAX);
    }
    assert_int_equal(refusal.status, 400);
    char *at = text; /* 60 KiB in the query string, and the name of a field beyond what there is room for */
    *at++ = '?';
    memset(at, 'a', 60000);
    at[60000] = '\0';
    static char fields[1 << 14];
    at = stpcpy(fields, "X-Weir-");
    memset(at, 'n', 8000);
    strcpy(at + 8000, ": x\r\n");
    assert_refused(431, text, fields);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_no_attribute),
        cmocka_unit_test(the_query_string_is_decoded),
        cmocka_unit_test(deny_is_an_option_and_no_attribute),
        cmocka_unit_test(malformed_encoding_is_refused),
        cmocka_unit_test(fields_name_attributes_in_lower_case),
        cmocka_unit_test(the_query_string_wins_over_fields),
        cmocka_unit_test(named_fields_win_over_forwarded_ones),
        cmocka_unit_test(what_proxies_send_by_themselves),
        cmocka_unit_test(the_last_address_is_the_one_the_proxy_saw),
        cmocka_unit_test(a_route_told_twice_is_refused),
        cmocka_unit_test(the_callers_own_authorization_is_no_attribute),
        cmocka_unit_test(attributes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
