/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 requests: what is one, what is refused and with which status, and that how the bytes were cut never
 * matters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "wire/http.h"

static const struct weir_http_bounds bounds = {
    .target_max = 8 << 10, .headers_max = 100, .header_bytes_max = 32 << 10, .body_max = 64 << 10
};

struct outcome {
    enum weir_http_event event;
    struct weir_http_request request;
    struct weir_http_refusal refusal;
    size_t continues;
};

/* Shows the bytes in growing pieces, each time at another address, as a connection does; `body` survives in `outcome`
 * until the codec goes on. */
static void parse(struct weir_http *http, const uint8_t *data, size_t size, size_t step, uint8_t *copies[2],
                  struct outcome *outcome)
{
    outcome->event = WEIR_HTTP_MORE;
    outcome->continues = 0;
    for (size_t shown = 0, turn = 0; shown < size && outcome->event <= WEIR_HTTP_CONTINUE; turn++) {
        shown = size - shown < step ? size : shown + step;
        memset(copies[(turn + 1) % 2], 0xEE, size);
        memcpy(copies[turn % 2], data, shown);
        outcome->event = weir_http_parse(http, &bounds, copies[turn % 2], shown, &outcome->request, &outcome->refusal);
        outcome->continues += outcome->event == WEIR_HTTP_CONTINUE;
    }
}

static uint8_t arena[2][1 << 20];

static void parse_text(const char *text, struct outcome *outcome)
{
    struct weir_http http = { 0 };
    uint8_t *copies[2] = { arena[0], arena[1] };
    parse(&http, (const uint8_t *)text, strlen(text), SIZE_MAX, copies, outcome);
    weir_http_next(&http);
}

static void assert_slice(struct weir_slice slice, const char *expected)
{
    assert_int_equal(slice.size, strlen(expected));
    if (slice.size)
        assert_memory_equal(slice.data, expected, slice.size);
}

/* Refused with that status, whole and byte by byte (long ones: in a thousand pieces). */
static void assert_refused(int status, const char *text)
{
    const size_t steps[] = { strlen(text) / 1000 + 1, SIZE_MAX };
    for (size_t i = 0; i < 2; i++) {
        struct weir_http http = { 0 };
        struct outcome outcome;
        uint8_t *copies[2] = { arena[0], arena[1] };
        parse(&http, (const uint8_t *)text, strlen(text), steps[i], copies, &outcome);
        if (outcome.event != WEIR_HTTP_REFUSED || outcome.refusal.status != status)
            fail_msg("event %d, status %d (%s) instead of %d for: %s", (int)outcome.event,
                     outcome.event == WEIR_HTTP_REFUSED ? outcome.refusal.status : 0,
                     outcome.event == WEIR_HTTP_REFUSED ? outcome.refusal.text : "", status, text);
        assert_true(outcome.refusal.text[0]);
        weir_http_next(&http);
    }
}

static void a_request_is_taken_apart(void **state)
{
    (void)state;
    struct outcome out;
    parse_text("POST /v1/check?deny=403&x HTTP/1.1\r\nHost: a:8080\r\nX-Empty:\r\nX-Space: \t b c \t\r\n"
               "content-LENGTH: 5\r\n\r\nhelloGET",
               &out);
    assert_int_equal(out.event, WEIR_HTTP_REQUEST);
    assert_int_equal(out.request.method, WEIR_HTTP_POST);
    assert_slice(out.request.path, "/v1/check");
    assert_slice(out.request.query, "deny=403&x");
    assert_slice(out.request.body, "hello");
    assert_int_equal(out.request.header_count, 4);
    assert_slice(weir_http_find(&out.request, "host")->value, "a:8080");
    assert_slice(weir_http_find(&out.request, "x-empty")->value, "");
    assert_slice(weir_http_find(&out.request, "x-space")->value, "b c");
    assert_null(weir_http_find(&out.request, "x-spac"));
    assert_null(weir_http_find(&out.request, "x-spaces"));
    assert_true(out.request.keep_alive);
    assert_false(out.request.version_10);
}

static void keep_alive_by_version_and_connection(void **state)
{
    (void)state;
    struct outcome out;
    parse_text("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", &out);
    assert_false(out.request.keep_alive);
    parse_text("GET / HTTP/1.0\r\n\r\n", &out);
    assert_int_equal(out.event, WEIR_HTTP_REQUEST);
    assert_true(out.request.version_10);
    assert_false(out.request.keep_alive);
    parse_text("HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &out);
    assert_int_equal(out.request.method, WEIR_HTTP_HEAD);
    assert_true(out.request.keep_alive);
    static const char *const closes[] = { "keep-alive, close",
                                          "close, keep-alive",
                                          "keep-alive\r\nConnection: close",
                                          "close\r\nConnection: keep-alive",
                                          "a,b ,\tClose",
                                          ",close," };
    for (size_t i = 0; i < 2 * sizeof(closes) / sizeof(closes[0]); i++) {
        char text[128];
        snprintf(text, sizeof(text), "GET / HTTP/1.%zu\r\nHost: a\r\nConnection: %s\r\n\r\n", i % 2, closes[i / 2]);
        parse_text(text, &out);
        assert_int_equal(out.event, WEIR_HTTP_REQUEST);
        assert_false(out.request.keep_alive);
    }
    parse_text("GET / HTTP/1.1\r\nHost: a\r\nConnection: closed, x-close, te\r\n\r\n", &out);
    assert_true(out.request.keep_alive);
    parse_text("GET / HTTP/1.0\r\nConnection: te, Keep-Alive\r\n\r\n", &out);
    assert_true(out.request.keep_alive);
}

static void other_protocols_are_not_http(void **state)
{
    (void)state;
    assert_refused(505, "GET / RTSP/1.0\r\nHost: a\r\n\r\n");
    assert_refused(505, "OPTIONS / RTSP/1.0\r\nHost: a\r\n\r\n");
    assert_refused(505, "DESCRIBE / RTSP/1.0\r\nHost: a\r\n\r\n");
    assert_refused(505, "SOURCE / ICE/1.0\r\nHost: a\r\n\r\n");
}

static void targets(void **state)
{
    (void)state;
    struct outcome out;
    parse_text("GET http://weir:8080/v1/auth?a=b HTTP/1.1\r\nHost: weir\r\n\r\n", &out);
    assert_int_equal(out.event, WEIR_HTTP_REQUEST);
    assert_slice(out.request.path, "/v1/auth");
    assert_slice(out.request.query, "a=b");
    parse_text("OPTIONS * HTTP/1.1\r\nHost: weir\r\n\r\n", &out);
    assert_int_equal(out.event, WEIR_HTTP_REQUEST);
    assert_int_equal(out.request.method, WEIR_HTTP_OTHER);
    assert_slice(out.request.path, "*");
    assert_refused(400, "GET v1 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_refused(400, "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_refused(400, "GET http://weir HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_refused(400, "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n");
}

static void upgrades_are_ignored(void **state)
{
    (void)state;
    struct outcome out;
    parse_text("POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
               "Content-Length: 2\r\n\r\nhi",
               &out);
    assert_int_equal(out.event, WEIR_HTTP_REQUEST);
    assert_slice(out.request.body, "hi");
    assert_true(out.request.keep_alive);
}

static void chunked_bodies_are_decoded(void **state)
{
    (void)state;
    static const char text[] = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
                               "3\r\nabc\r\nA;ext=\"1\"\r\n0123456789\r\n0\r\n\r\nGET";
    for (size_t step = 1; step < sizeof(text); step++) {
        struct weir_http http = { 0 };
        struct outcome out;
        uint8_t *copies[2] = { arena[0], arena[1] };
        parse(&http, (const uint8_t *)text, sizeof(text) - 1, step, copies, &out);
        assert_int_equal(out.event, WEIR_HTTP_REQUEST);
        assert_slice(out.request.body, "abc0123456789");
        assert_int_equal(out.request.size, sizeof(text) - 4);
        weir_http_next(&http);
    }
}

static void expect_100_continue_is_told_once(void **state)
{
    (void)state;
    static const char text[] = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\nhi";
    struct weir_http http = { 0 };
    struct outcome out;
    uint8_t *copies[2] = { arena[0], arena[1] };
    parse(&http, (const uint8_t *)text, sizeof(text) - 1, 1, copies, &out);
    assert_int_equal(out.event, WEIR_HTTP_REQUEST);
    assert_int_equal(out.continues, 1);
    weir_http_next(&http);
    parse_text(text, &out); /* the body is there: nobody waits */
    assert_int_equal(out.event, WEIR_HTTP_REQUEST);
    assert_int_equal(out.continues, 0);
    assert_refused(417, "POST / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\nContent-Length: 2\r\n\r\nhi");
    assert_refused(417,
                   "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nExpect: tea\r\nContent-Length: 2\r\n\r\nhi");
    assert_refused(417, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue, tea\r\nContent-Length: 2\r\n\r\nhi");
}

static void ambiguous_requests_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\na",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\na",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\na",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\na",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551617\r\n\r\na",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX:\rTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\tb\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX Y: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\x01"
         "b\r\n\r\n"),
        "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / x HTTP/1.1\r\nHost: a\r\n\r\n",
        "get / HTTP/1.1\r\nHost: a\r\n\r\n",
        "NONSENSE / HTTP/1.1\r\nHost: a\r\n\r\n",
        "*1\r\n$4\r\nPING\r\n\r\n",
        "\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(400, bad[i]);
    struct outcome out; /* one empty line before a request is what old clients send after a body */
    parse_text("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", &out);
    assert_int_equal(out.event, WEIR_HTTP_REQUEST);
    assert_int_equal(out.request.size, 29);
}

static void malformed_chunks_are_refused(void **state)
{
    (void)state;
#define CHUNKED "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    static const char *const bad[] = {
        CHUNKED "3\nabc\r\n0\r\n\r\n",
        CHUNKED "3;x\nabc\r\n0\r\n\r\n",
        CHUNKED "3;x=\"\n\"\r\nabc\r\n0\r\n\r\n",
        CHUNKED "3\r\nabc\n0\r\n\r\n",
        CHUNKED "3\r\nabcd\r\n0\r\n\r\n",
        CHUNKED "0x3\r\nabc\r\n0\r\n\r\n",
        CHUNKED "-1\r\nabc\r\n0\r\n\r\n",
        CHUNKED "3 \r\nabc\r\n0\r\n\r\n",
        CHUNKED "\r\n0\r\n\r\n",
        CHUNKED "10000000000000000\r\nabc\r\n0\r\n\r\n",
        CHUNKED "0\r\n\n",
        CHUNKED "3\r\nabc\r\n0\r\n\n",
        CHUNKED "0\n\r\n",
        CHUNKED "0\n\n",
        CHUNKED "3\r\nabc\r\n0;x\n\r\n",
        CHUNKED "3\r\nabc\r\n0\r\n\rX",
        CHUNKED "0\r\nX: trailer\r\n\r\n",
        CHUNKED "0\r\nContent-Length: 3\r\n\r\nabc",
        CHUNKED "0\r\n folded\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(400, bad[i]);
}

static void other_versions_are_refused(void **state)
{
    (void)state;
    assert_refused(505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n");
    assert_refused(505, "GET / HTTP/1.2\r\nHost: a\r\n\r\n");
    assert_refused(505, "GET / HTTP/0.9\r\nHost: a\r\n\r\n");
    assert_refused(505, "GET /\r\nHost: a\r\n\r\n");
    assert_refused(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
}

static char *filled(char *at, char byte, size_t size)
{
    memset(at, byte, size);
    return at + size;
}

static void every_bound_has_its_status(void **state)
{
    (void)state;
    static char text[1 << 18];
    for (int more = 0; more <= 1; more++) {
        struct outcome out;
        char *at = stpcpy(filled(stpcpy(text, "GET /"), 'a', bounds.target_max - 1 + (size_t)more), " HTTP/1.1\r\n");
        strcpy(at, "Host: a\r\n\r\n");
        more ? assert_refused(414, text) : parse_text(text, &out);

        at = stpcpy(text, "GET / HTTP/1.1\r\nHost: a\r\n");
        for (size_t i = 0; i < bounds.headers_max - 1 + (size_t)more; i++)
            at = stpcpy(at, "X: y\r\n");
        strcpy(at, "\r\n");
        more ? assert_refused(431, text) : parse_text(text, &out);

        at = stpcpy(text, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
        strcpy(filled(at, 'y', bounds.header_bytes_max - 12 - 3 + (size_t)more), "\r\n\r\n");
        more ? assert_refused(431, text) : parse_text(text, &out);

        sprintf(text, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", bounds.body_max + (size_t)more);
        filled(text + strlen(text), '\0', 16);
        if (more)
            assert_refused(413, text);
        sprintf(text, CHUNKED "%zx\r\n", bounds.body_max + (size_t)more);
        if (more)
            assert_refused(413, text);
    }
}

static void bounds_hold_before_the_end_has_come(void **state)
{
    (void)state;
    static char text[1 << 20];
    strcpy(filled(text, 'G', bounds.target_max + 100), "");
    assert_refused(414, text);
    strcpy(filled(stpcpy(text, "GET / HTTP/1.1\r\nX: "), 'y', bounds.header_bytes_max), "");
    assert_refused(431, text);
    /* chunks of one byte, their total within the bound, then an extension without end */
    char *at = stpcpy(text, CHUNKED "1;");
    strcpy(filled(at, 'e', bounds.body_max * 8 + 1024), "");
    struct outcome out;
    parse_text(text, &out);
    assert_int_equal(out.event, WEIR_HTTP_REFUSED);
    assert_int_equal(out.refusal.status, 413);
}

static void just_within_every_bound_is_served(void **state)
{
    (void)state;
    static char text[1 << 18];
    struct outcome out;
    char *at = stpcpy(filled(stpcpy(text, "GET /"), 'a', bounds.target_max - 1), " HTTP/1.1\r\nHost: a\r\n");
    for (size_t i = 0; i < bounds.headers_max - 2; i++)
        at = stpcpy(at, "X: y\r\n");
    size_t used = 9 + (bounds.headers_max - 2) * 6;
    strcpy(filled(stpcpy(at, "Y:"), 'z', bounds.header_bytes_max - used - 5), "\r\n\r\n");
    parse_text(text, &out);
    assert_int_equal(out.event, WEIR_HTTP_REQUEST);
    assert_int_equal(out.request.header_count, bounds.headers_max);
    assert_true(strlen(text) + bounds.body_max <= weir_http_size_max(&bounds));
    at = text + sprintf(text, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", bounds.body_max);
    strcpy(filled(at, 'b', bounds.body_max), "");
    parse_text(text, &out);
    assert_int_equal(out.event, WEIR_HTTP_REQUEST);
    assert_int_equal(out.request.body.size, bounds.body_max);
}

/* A stream of requests, perhaps damaged, cut at random: same requests, same refusal as when shown whole. */
static size_t make_stream(struct test_random *random, char *text)
{
    static const char *const parts[] = {
        "GET /v1/auth?user=a HTTP/1.1\r\nHost: a\r\nX-Weir-User: ada\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
        "POST /v1/check HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        "\r\nGET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    };
    char *at = text;
    for (uint64_t i = 1 + test_random_below(random, 4); i > 0; i--)
        at = stpcpy(at, parts[test_random_below(random, 4)]);
    size_t size = (size_t)(at - text);
    for (uint64_t i = test_random_below(random, 3); i > 0; i--)
        text[test_random_below(random, size)] = "\r\n :\t0;G\0\xFF,"[test_random_below(random, 11)];
    return size;
}

static uint64_t digest(uint64_t sum, struct weir_slice slice)
{
    const uint8_t *at = slice.data;
    for (size_t i = 0; i < slice.size; i++)
        sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
    return sum * UINT64_C(0x100000001b3) + slice.size;
}

static uint64_t run_stream(const char *text, size_t size, size_t step)
{
    uint64_t sum = 0;
    struct weir_http http = { 0 };
    for (size_t used = 0; used < size;) {
        struct outcome out;
        uint8_t *copies[2] = { arena[0], arena[1] };
        parse(&http, (const uint8_t *)text + used, size - used, step, copies, &out);
        sum = sum * 31 + (out.event == WEIR_HTTP_CONTINUE ? WEIR_HTTP_MORE : out.event);
        if (out.event != WEIR_HTTP_REQUEST) {
            sum = sum * 31 + (out.event == WEIR_HTTP_REFUSED ? (uint64_t)out.refusal.status : 0);
            break;
        }
        sum = digest(digest(digest(sum, out.request.path), out.request.query), out.request.body);
        for (size_t i = 0; i < out.request.header_count; i++)
            sum = digest(digest(sum, out.request.headers[i].name), out.request.headers[i].value);
        used += out.request.size;
        weir_http_next(&http);
    }
    weir_http_next(&http);
    return sum;
}

static void how_the_bytes_were_cut_never_matters(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    static char text[4096];
    for (int i = 0; i < 20000; i++) {
        size_t size = make_stream(&random, text);
        uint64_t whole = run_stream(text, size, SIZE_MAX);
        assert_int_equal(run_stream(text, size, 1), whole);
        assert_int_equal(run_stream(text, size, 2 + test_random_below(&random, 60)), whole);
    }
}

/* 10 bytes for PUT, 3 for all else; notes what it was asked of. */
static size_t by_method(void *context, const struct weir_http_request *head, size_t size)
{
    *(size_t *)context = size;
    return head->method == WEIR_HTTP_PUT ? 10 : 3;
}

static void a_body_may_be_as_long_as_its_head_allows(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        enum weir_http_event event;
    } cases[] = {
        { "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", 10, WEIR_HTTP_MORE },
        { "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n", 11, WEIR_HTTP_REFUSED },
        { "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n", 3, WEIR_HTTP_MORE },
        { "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", 4, WEIR_HTTP_REFUSED },
        { "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\na\r\n", SIZE_MAX, WEIR_HTTP_MORE },
        { "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n", SIZE_MAX, WEIR_HTTP_REFUSED },
        { "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0, WEIR_HTTP_REQUEST },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct weir_http http = { 0 };
        struct weir_http_request request;
        struct weir_http_refusal refusal = { 0 };
        size_t asked = 99;
        struct weir_http_bounds some = bounds;
        some.body_max_of = by_method;
        some.context = &asked;
        enum weir_http_event event = weir_http_parse(&http, &some, (const uint8_t *)cases[i].text,
                                                     strlen(cases[i].text), &request, &refusal);
        assert_int_equal(event, cases[i].event);
        assert_int_equal(asked, cases[i].size);
        assert_int_equal(refusal.status, event == WEIR_HTTP_REFUSED ? 413 : 0);
        weir_http_next(&http);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_taken_apart),
        cmocka_unit_test(keep_alive_by_version_and_connection),
        cmocka_unit_test(other_protocols_are_not_http),
        cmocka_unit_test(targets),
        cmocka_unit_test(upgrades_are_ignored),
        cmocka_unit_test(chunked_bodies_are_decoded),
        cmocka_unit_test(expect_100_continue_is_told_once),
        cmocka_unit_test(ambiguous_requests_are_refused),
        cmocka_unit_test(malformed_chunks_are_refused),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(every_bound_has_its_status),
        cmocka_unit_test(bounds_hold_before_the_end_has_come),
        cmocka_unit_test(just_within_every_bound_is_served),
        cmocka_unit_test(a_body_may_be_as_long_as_its_head_allows),
        cmocka_unit_test(how_the_bytes_were_cut_never_matters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
