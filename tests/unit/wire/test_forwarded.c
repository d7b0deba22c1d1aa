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

#define NGINX_FIELDS "X-Original-URI: /r\r\nX-Original-Method: M\r\nX-Real-IP: 1.1.1.1\r\n"
#define CADDY_FIELDS "X-Forwarded-Uri: /r\r\nX-Forwarded-Method: M\r\nX-Forwarded-For: 1.1.1.1\r\n"
#define STATED 3 /* attributes that those say: the last ones */

static struct weir_forwarded_options options = { .source = WEIR_FORWARDED_NGINX };

/* `fields` are header fields with their CRLFs. */
static bool read_bare(const char *query, const char *fields)
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
    return weir_forwarded_read(&request, &options, &forwarded, &refusal);
}

/* With what nginx says of the request. */
static bool read_question(const char *query, const char *fields)
{
    static char all[1 << 16];
    snprintf(all, sizeof(all), "%s" NGINX_FIELDS, fields);
    return read_bare(query, all);
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

static void assert_refused_bare(const char *fields)
{
    assert_false(read_bare("", fields));
    assert_int_equal(refusal.status, 400);
    assert_true(refusal.text[0]);
}

static void assert_refused(int status, const char *query, const char *fields)
{
    assert_false(read_question(query, fields));
    assert_int_equal(refusal.status, status);
    assert_true(refusal.text[0]);
}

static void what_the_proxy_states(void **state)
{
    (void)state;
    static const char *const fields[] = {
        [WEIR_FORWARDED_NGINX] = NGINX_FIELDS,
        [WEIR_FORWARDED_TRAEFIK] = CADDY_FIELDS,
        [WEIR_FORWARDED_CADDY] = CADDY_FIELDS,
        [WEIR_FORWARDED_HAPROXY] = NGINX_FIELDS,
    };
    for (options.source = WEIR_FORWARDED_NGINX; options.source <= WEIR_FORWARDED_HAPROXY; options.source++) {
        assert_true(read_bare("", fields[options.source]));
        assert_int_equal(forwarded.count, STATED);
        assert_is(0, "route", "/r");
        assert_is(1, "method", "M");
        assert_is(2, "ip", "1.1.1.1");
        assert_int_equal(forwarded.refused, 429);
        assert_int_equal(forwarded.ignored, 0);
        assert_non_null(weir_forwarded_source_name(options.source));
    }
    options.source = WEIR_FORWARDED_NGINX;
}

static void what_is_missing_or_told_twice_is_refused(void **state)
{
    (void)state;
    assert_refused_bare("");
    assert_refused_bare("X-Original-Method: M\r\nX-Real-IP: 1.1.1.1\r\n");
    assert_refused_bare("X-Original-URI: /r\r\nX-Real-IP: 1.1.1.1\r\n");
    assert_refused_bare("X-Original-URI: /r\r\nX-Original-Method: M\r\n");
    assert_refused_bare("X-Original-URI: \r\nX-Original-Method: M\r\nX-Real-IP: 1.1.1.1\r\n");
    assert_refused_bare(NGINX_FIELDS "X-Original-URI: /r\r\n");
    assert_refused_bare(NGINX_FIELDS "X-Original-Method: M\r\n");
    assert_refused_bare(NGINX_FIELDS "x-real-ip: 1.1.1.1\r\n");
    assert_refused_bare(CADDY_FIELDS); /* of another proxy than the one stated */
    options.source = WEIR_FORWARDED_CADDY;
    assert_refused_bare(NGINX_FIELDS);
    assert_refused_bare(CADDY_FIELDS "X-Forwarded-Uri: /r\r\n");
    assert_refused_bare(CADDY_FIELDS "X-Forwarded-For: 1.1.1.1\r\n");
    assert_refused_bare("X-Forwarded-Method: M\r\nX-Forwarded-For: 1.1.1.1\r\n");
    assert_true(read_bare("", "X-Forwarded-Uri: /r\r\nX-Forwarded-Method: M\r\n")); /* its client has no address */
    assert_int_equal(forwarded.count, 2);
    options.source = WEIR_FORWARDED_NGINX;
}

/* Whoever mends the proxy's configuration reads which field it is. */
static void the_field_at_fault_is_named(void **state)
{
    (void)state;
    assert_refused_bare("X-Original-URI: /r\r\nX-Original-Method: M\r\n");
    assert_memory_equal(refusal.text, "X-Real-IP is missing or empty: ", 31);
    assert_refused_bare(NGINX_FIELDS "x-original-method: M\r\n");
    assert_memory_equal(refusal.text, "X-Original-Method is there more than once: ", 43);
    assert_refused_bare("");
    assert_memory_equal(refusal.text, "X-Original-URI is missing", 25); /* the first of three */
    options.source = WEIR_FORWARDED_CADDY;
    assert_refused_bare(CADDY_FIELDS "X-Forwarded-For: 1.1.1.1\r\n");
    assert_memory_equal(refusal.text, "X-Forwarded-For is there more than once: ", 41);
    options.source = WEIR_FORWARDED_NGINX;
}

/* Each was once a way around every limit on that attribute. */
static void nobody_else_says_what_is_reserved(void **state)
{
    (void)state;
    assert_true(read_question("?route=/x&method=x&ip=2.2.2.2&cost=0&authorization=x&user=ada",
                              "X-Weir-Route: /y\r\nX-Weir-Method: y\r\nX-WEIR-IP: 3.3.3.3\r\nX-Weir-Cost: 0\r\n"
                              "X-Weir-Authorization: y\r\nX-Forwarded-Uri: /z\r\nX-Forwarded-Method: z\r\n"
                              "X-Forwarded-For: 4.4.4.4\r\n"));
    assert_int_equal(forwarded.count, 1 + STATED);
    assert_is(0, "user", "ada");
    assert_is(1, "route", "/r");
    assert_is(2, "method", "M");
    assert_is(3, "ip", "1.1.1.1");
    assert_int_equal(forwarded.ignored, 12);
    options.source = WEIR_FORWARDED_CADDY;
    assert_true(read_bare("", CADDY_FIELDS NGINX_FIELDS));
    assert_int_equal(forwarded.count, STATED);
    assert_int_equal(forwarded.ignored, 2);
    options.source = WEIR_FORWARDED_NGINX;
}

static void the_query_string_is_decoded(void **state)
{
    (void)state;
    assert_true(read_question("?user=a%20b+c&empty=&bare&&%66%3D=%26%3d%ff&=x", ""));
    assert_int_equal(forwarded.count, 5 + STATED);
    assert_is(0, "user", "a b c");
    assert_is(1, "empty", "");
    assert_is(2, "bare", "");
    assert_is(3, "f=", "&=\xFF");
    assert_is(4, "", "x");
}

static void deny_is_an_option_and_no_attribute(void **state)
{
    (void)state;
    assert_true(read_question("?deny=403&a=b", ""));
    assert_int_equal(forwarded.refused, 403);
    assert_int_equal(forwarded.count, 1 + STATED);
    assert_true(read_question("?deny=429", ""));
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
    assert_true(read_question("", "X-Weir-User: ada\r\nx-weir-API-Key: K%20 y\r\nX-Weir-: no\r\nX-Weirdo: no\r\n"
                                  "X-Weir-Token: secret\r\nX-Weir-Empty:\r\n"));
    assert_int_equal(forwarded.count, 3 + STATED);
    assert_is(0, "user", "ada");
    assert_is(1, "api-key", "K%20 y");
    assert_is(2, "empty", "");
}

static void the_query_string_wins_over_fields(void **state)
{
    (void)state;
    assert_true(read_question("?user=ada", "X-Weir-User: eve\r\nX-Weir-Other: o\r\n"));
    assert_int_equal(forwarded.count, 2 + STATED);
    assert_is(0, "user", "ada");
    assert_is(1, "other", "o");
}

static void the_route_is_the_path(void **state)
{
    (void)state;
    options.source = WEIR_FORWARDED_CADDY;
    assert_true(read_bare("", "X-Forwarded-Uri: /o/..//%61pi/x%2Fy+z?q=%zz\r\nX-Forwarded-Method: PATCH\r\n"
                              "Authorization: Bearer abc\r\n"));
    assert_int_equal(forwarded.count, 3);
    assert_is(0, "route", "/api/x/y+z");
    assert_is(1, "method", "PATCH");
    /* printf 'Bearer abc' | sha256sum */
    assert_is(2, "authorization", "c355dce96c1612880d11940ffdd9014d386c253e0c3652a6cd06a7226f7bd2b6");
    options.path = WEIR_PATH_REFUSE;
    assert_refused_bare("X-Forwarded-Uri: /o/../api\r\nX-Forwarded-Method: GET\r\n");
    options = (struct weir_forwarded_options){ .source = WEIR_FORWARDED_NGINX };
    assert_refused_bare("X-Original-URI: api\r\nX-Original-Method: M\r\nX-Real-IP: 1.1.1.1\r\n");
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
    };
    options.source = WEIR_FORWARDED_TRAEFIK;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        char fields[128];
        snprintf(fields, sizeof(fields), "X-Forwarded-Uri: /\r\nX-Forwarded-Method: GET\r\nX-Forwarded-For: %s\r\n",
                 lists[i][0]);
        assert_true(read_bare("", fields));
        assert_int_equal(forwarded.count, lists[i][1][0] ? 3 : 2);
        if (lists[i][1][0])
            assert_is(2, "ip", lists[i][1]);
    }
    options.source = WEIR_FORWARDED_NGINX;
}

static void the_callers_own_authorization_is_no_attribute(void **state)
{
    (void)state;
    options.skip_authorization = true;
    assert_true(read_question("", "Authorization: Bearer abc\r\n"));
    assert_int_equal(forwarded.count, STATED);
    options.skip_authorization = false;
    assert_refused(400, "", "Authorization: Bearer abc\r\nAuthorization: Bearer def\r\n");
}

static void attributes_are_bounded(void **state)
{
    (void)state;
    static char text[1 << 16];
    for (size_t count = WEIR_FORWARDED_MAX - STATED; count <= WEIR_FORWARDED_MAX - STATED + 1; count++) {
        char *at = text;
        *at++ = '?';
        for (size_t i = 0; i < count; i++)
            at += sprintf(at, "a%zu&", i);
        assert_int_equal(read_question(text, ""), count == WEIR_FORWARDED_MAX - STATED);
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
        cmocka_unit_test(what_the_proxy_states),
        cmocka_unit_test(what_is_missing_or_told_twice_is_refused),
        cmocka_unit_test(the_field_at_fault_is_named),
        cmocka_unit_test(nobody_else_says_what_is_reserved),
        cmocka_unit_test(the_query_string_is_decoded),
        cmocka_unit_test(deny_is_an_option_and_no_attribute),
        cmocka_unit_test(malformed_encoding_is_refused),
        cmocka_unit_test(fields_name_attributes_in_lower_case),
        cmocka_unit_test(the_query_string_wins_over_fields),
        cmocka_unit_test(the_route_is_the_path),
        cmocka_unit_test(the_last_address_is_the_one_the_proxy_saw),
        cmocka_unit_test(the_callers_own_authorization_is_no_attribute),
        cmocka_unit_test(attributes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
