/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that a web page of somebody else's made: what Origin, Sec-Fetch-Site and Host say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/origin.h"

static struct weir_http_request request;

/* `fields` with their CRLFs, the Host among them. */
static void make(const char *fields)
{
    static char text[4096];
    static const struct weir_http_bounds bounds = {
        .target_max = 8 << 10, .headers_max = 100, .header_bytes_max = 32 << 10, .body_max = 64 << 10
    };
    struct weir_http http = { 0 };
    struct weir_http_refusal refusal;
    int size = snprintf(text, sizeof(text), "GET / HTTP/1.%d\r\n%s\r\n", strstr(fields, "Host") != NULL, fields);
    if (weir_http_parse(&http, &bounds, (const uint8_t *)text, (size_t)size, &request, &refusal) != WEIR_HTTP_REQUEST)
        fail_msg("%s: %s", fields, refusal.text);
    weir_http_next(&http);
}

static bool foreign(const char *host, const char *fields)
{
    char text[512];
    snprintf(text, sizeof(text), "Host: %s\r\n%s", host, fields);
    make(text);
    return weir_origin_foreign(&request);
}

static void who_says_nothing_is_no_browser(void **state)
{
    (void)state;
    assert_false(foreign("localhost:8080", ""));
    make("");
    assert_false(weir_origin_foreign(&request));
}

static void an_origin_must_be_that_of_host(void **state)
{
    (void)state;
    static const char *const ours[][2] = {
        { "localhost:8080", "http://localhost:8080" },
        { "LOCALHOST:8080", "http://localhost:8080" },
        { "weir", "http://weir" },
        { "weir", "https://weir" },
        { "weir:80", "http://weir" },
        { "weir", "http://weir:80" },
        { "weir:443", "https://weir" },
        { "[::1]:8080", "http://[::1]:8080" },
        { "10.0.0.5:1", "https://10.0.0.5:1" },
    };
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        char field[128];
        snprintf(field, sizeof(field), "Origin: %s\r\n", ours[i][1]);
        if (foreign(ours[i][0], field))
            fail_msg("%s is foreign to %s", ours[i][1], ours[i][0]);
    }
    static const char *const others[][2] = {
        { "localhost:8080", "http://evil.example" },
        { "localhost:8080", "null" },
        { "localhost:8080", "" },
        { "localhost:8080", "http://localhost:8081" },
        { "localhost:8080", "http://localhost" },
        { "localhost:8080", "http://127.0.0.1:8080" },
        { "weir", "https://weir:80" },
        { "weir", "http://weir.evil" },
        { "weir", "http://evilweir" },
        { "weir", "http://weir@evil" },
        { "weir", "weir" },
        { "weir", "ftp://weir" },
        { "weir", "http://" },
        { "", "http://" },
        { "weir", "http://weir, http://evil" },
        { "weir:80", "http://weir:8080" },
        { "weir", "chrome-extension://weir" },
        { "[::1]:80", "http://[::2]:80" },
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        char field[128];
        snprintf(field, sizeof(field), "Origin: %s\r\n", others[i][1]);
        if (!foreign(others[i][0], field))
            fail_msg("%s is not foreign to %s", others[i][1], others[i][0]);
    }
    assert_true(foreign("weir", "Origin: http://weir\r\nOrigin: http://evil\r\n"));
    assert_true(foreign("weir", "origin: http://evil\r\n"));
    make("Origin: http://weir\r\n"); /* HTTP/1.0 without Host */
    assert_true(weir_origin_foreign(&request));
}

static void a_site_says_where_the_page_is_from(void **state)
{
    (void)state;
    assert_false(foreign("weir", "Sec-Fetch-Site: none\r\n"));
    assert_false(foreign("weir", "Sec-Fetch-Site: same-origin\r\n"));
    assert_true(foreign("weir", "Sec-Fetch-Site: cross-site\r\n"));
    assert_true(foreign("weir", "Sec-Fetch-Site: same-site\r\n"));
    assert_true(foreign("weir", "Origin: http://weir\r\nsec-fetch-site: CROSS-SITE\r\n"));
    assert_true(foreign("weir", "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n"));
}

static bool ours(const char *host)
{
    static const char *const names[] = { "weir", "Weir.Internal" };
    char text[512];
    snprintf(text, sizeof(text), "Host: %s\r\n", host);
    make(text);
    return weir_origin_host_ours(&request, names, 2);
}

static void a_host_must_be_known(void **state)
{
    (void)state;
    static const char *const good[] = { "127.0.0.1",  "127.0.0.1:8080", "10.1.2.3:80",      "[::1]",
                                        "[::1]:8080", "localhost",      "LocalHost:9",      "weir",
                                        "WEIR:8080",  "weir.internal",  "[::ffff:1.2.3.4]", "localhost:" };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (!ours(good[i]))
            fail_msg("%s is unknown", good[i]);
    }
    static const char *const bad[] = { "evil.example",
                                       "evil.example:8080",
                                       "localhost.evil.example",
                                       "127.0.0.1.evil.example",
                                       "127.1",
                                       "2130706433",
                                       "0x7f.0.0.1",
                                       "",
                                       ":8080",
                                       "[::1",
                                       "::1",
                                       "[evil]:80",
                                       "weir.evil",
                                       "xweir",
                                       "localhost.",
                                       "a.localhost",
                                       "127.0.0.1:80:80x",
                                       "[127.0.0.1]" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (ours(bad[i]))
            fail_msg("%s is known", bad[i]);
    }
    make(""); /* HTTP/1.0: rebinding needs a name */
    assert_true(weir_origin_host_ours(&request, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_says_nothing_is_no_browser),
        cmocka_unit_test(an_origin_must_be_that_of_host),
        cmocka_unit_test(a_site_says_where_the_page_is_from),
        cmocka_unit_test(a_host_must_be_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
