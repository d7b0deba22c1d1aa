/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of calls, of messages in any pieces, and of what exceeds a bound. */
#include "h2_bench.h"

static void h2__answers_a_call(void **state)
{
    struct bench *bench = *state;
    struct body body = { (const uint8_t *)"\0\0\0\0\5hello", 10, 0, SIZE_MAX };
    bench->seen.echoes = true;
    ask_with(bench, "POST", "/a.B/C", "application/grpc+proto", (nghttp2_nv)NV("grpc-timeout", "20m"), &body);
    run(bench);
    assert_string_equal(bench->seen.path, "/a.B/C");
    assert_string_equal(bench->seen.token, "");
    assert_int_equal(bench->seen.timeout_ns, 20000000);
    assert_int_equal(bench->seen.messages, 1);
    assert_int_equal(bench->seen.message_size, 5);
    assert_memory_equal(bench->seen.message, "hello", 5);
    expect_status(bench, "200", "0");
    assert_int_equal(bench->answer_size, 10);
    assert_memory_equal(bench->answer, "\0\0\0\0\5hello", 10);
    assert_int_equal(bench->reset_code, NGHTTP2_NO_ERROR);
    assert_int_equal(bench->seen.gone, 1);
    assert_int_equal(weir_h2_calls(bench->h2), 0);
    assert_int_equal(weir_h2_kept(bench->h2), 0);
}

/* Frames and bytes may be cut anywhere. */
static void h2__puts_messages_together(void **state)
{
    struct bench *bench = *state;
    uint8_t bytes[1024] = { 0 };
    bench->seen.echoes = true;
    size_t size = 0, count = 0;
    for (; size < 900; count++) {
        const size_t message = count * 13 % 300;
        weir_grpc_head_put(bytes + size, message);
        memset(bytes + size + WEIR_GRPC_HEAD_SIZE, (int)count, message);
        size += WEIR_GRPC_HEAD_SIZE + message;
    }
    for (size_t step = 1; step < 40; step += 3) {
        struct body body = { bytes, size, 0, step };
        bench->piece = step * 2 + 1;
        bench->seen.messages = bench->answer_size = 0;
        ask(bench, &body);
        run(bench);
        assert_int_equal(bench->error, 0);
        assert_int_equal(bench->seen.messages, count);
        assert_int_equal(bench->answer_size, size);
        assert_memory_equal(bench->answer, bytes, size);
        expect_status(bench, "200", "0");
        assert_int_equal(weir_h2_kept(bench->h2), 0);
    }
}

static void h2__reads_tokens(void **state)
{
    struct bench *bench = *state;
    char long_token[600];
    memset(long_token, 't', sizeof(long_token));
    long_token[sizeof(long_token) - 1] = '\0';
    const struct {
        const char *name, *value, *token;
    } cases[] = { { "authorization", "Bearer abc", "abc" },
                  { "authorization", "bEARER a b", "a b" },
                  { "authorization", "Basic abc", "" },
                  { "x-weir-token", "abc", "abc" } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ask_with(bench, "POST", "/a", "application/grpc", (nghttp2_nv)NV(cases[i].name, cases[i].value), NULL);
        run(bench);
        assert_string_equal(bench->seen.token, cases[i].token);
        weir_h2_finish(bench->seen.call, WEIR_GRPC_OK, NULL);
        run(bench);
    }
    ask_with(bench, "POST", "/a", "application/grpc", (nghttp2_nv)NV("x-weir-token", long_token), NULL);
    run(bench);
    assert_int_equal(strlen(bench->seen.token), WEIR_H2_TOKEN_MAX + 1);
}

static void h2__refuses_what_is_no_call(void **state)
{
    struct bench *bench = *state;
    char path[WEIR_H2_PATH_MAX + 2] = "/";
    memset(path + 1, 'a', sizeof(path) - 2);
    const struct {
        const char *method, *path, *type, *name, *value, *http_status, *status;
    } cases[] = { { "GET", "/a", "application/grpc", "x", "y", "405", "12" },
                  { "POST", "/a", "text/plain", "x", "y", "415", "12" },
                  { "POST", path, "application/grpc", "x", "y", "200", "12" },
                  { "POST", "/a", "application/grpc", "grpc-timeout", "1s", "200", "3" } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bench->closed = 0;
        ask_with(bench, cases[i].method, cases[i].path, cases[i].type, (nghttp2_nv)NV(cases[i].name, cases[i].value),
                 NULL);
        run(bench);
        expect_status(bench, cases[i].http_status, cases[i].status);
        assert_int_equal(bench->closed, 1);
    }
    assert_int_equal(bench->seen.calls, 0);
}

static void h2__refuses_long_header_lists(void **state)
{
    struct bench *bench = *state;
    char value[1900];
    memset(value, 'v', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    ask_with(bench, "POST", "/a", "application/grpc", (nghttp2_nv)NV("x", value), NULL);
    run(bench);
    expect_status(bench, "431", "8");
    nghttp2_nv many[32] = { NV(":method", "POST"), NV(":scheme", "http"), NV(":path", "/a"), NV(":authority", "x"),
                            NV("content-type", "application/grpc") };
    for (size_t i = 5; i < 32; i++)
        many[i] = (nghttp2_nv)NV("a", "b");
    bench->status[0] = '\0';
    nghttp2_submit_request(bench->client, NULL, many, 21, NULL, NULL);
    run(bench);
    expect_status(bench, "431", "8");
    assert_int_equal(bench->seen.calls, 0);
    nghttp2_submit_request(bench->client, NULL, many, 20, NULL, NULL);
    run(bench);
    assert_int_equal(bench->seen.calls, 1);
    assert_int_equal(bench->goaways, 0);
}

static void h2__refuses_messages_that_it_cannot_take(void **state)
{
    struct bench *bench = *state;
    const struct {
        const char *bytes;
        size_t size;
        const char *status;
    } cases[] = { { "\1\0\0\0\1x", 6, "12" },       /* compressed */
                  { "\2\0\0\0\1x", 6, "13" },       /* no such flag */
                  { "\0\xff\xff\xff\xff", 5, "8" }, /* 2^32 - 1 bytes */
                  { "\0\0\0\x03\xe9", 5, "8" },     /* one byte too many */
                  { "\0\0\0\0\5hell", 9, "13" },    /* ends within it */
                  { "\0\0\0", 3, "13" } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct body body = { (const uint8_t *)cases[i].bytes, cases[i].size, 0, SIZE_MAX };
        bench->status[0] = '\0';
        ask(bench, &body);
        run(bench);
        expect_status(bench, "200", cases[i].status);
    }
    assert_int_equal(bench->seen.messages, 0);
    assert_int_equal(bench->seen.halves, 0);
    assert_int_equal(bench->goaways, 0);
    assert_int_equal(weir_h2_kept(bench->h2), 0);
}

/* What is promised takes no memory, and all calls together take no more than kept_max. */
static void h2__keeps_no_more_than_its_bound(void **state)
{
    struct bench *bench = *state;
    uint8_t bytes[5 + 900];
    struct body bodies[3];
    weir_grpc_head_put(bytes, 1000);
    memset(bytes + 5, 'x', 900);
    for (size_t i = 0; i < 3; i++) {
        bodies[i] = (struct body){ bytes, sizeof(bytes), 0, 500 };
        const nghttp2_nv fields[] = { NV(":method", "POST"), NV(":scheme", "http"), NV(":path", "/a"),
                                      NV(":authority", "x"), NV("content-type", "application/grpc") };
        const nghttp2_data_provider provider = { .source = { .ptr = &bodies[i] }, .read_callback = read_body };
        const int32_t id = nghttp2_submit_headers(bench->client, NGHTTP2_FLAG_NONE, -1, NULL, fields, 5, NULL);
        run(bench);
        assert_int_equal(nghttp2_submit_data(bench->client, NGHTTP2_FLAG_NONE, id, &provider), 0);
        run(bench);
        assert_true(weir_h2_kept(bench->h2) <= bounds.kept_max + 3 * 2048);
    }
    expect_status(bench, "200", "8");
    assert_int_equal(bench->closed, 1);
    assert_int_equal(weir_h2_calls(bench->h2), 2);
}

/* A client that reads nothing and lets a call answer on. */
static void h2__resets_a_call_whose_answers_are_not_taken(void **state)
{
    struct bench *bench = *state;
    const nghttp2_settings_entry none = { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0 };
    uint8_t bytes[500] = { 0 };
    nghttp2_submit_settings(bench->client, NGHTTP2_FLAG_NONE, &none, 1);
    ask(bench, NULL);
    run(bench);
    for (size_t i = 0; i < 3; i++)
        weir_h2_send(bench->seen.call, bytes, sizeof(bytes));
    run(bench);
    assert_int_equal(bench->closed, 0);
    for (size_t i = 0; i < 3; i++)
        weir_h2_send(bench->seen.call, bytes, sizeof(bytes));
    run(bench);
    assert_int_equal(bench->closed, 1);
    assert_int_equal(bench->reset_code, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(bench->answer_size, 0);
}

static void h2__takes_so_many_calls_at_once(void **state)
{
    struct bench *bench = *state;
    run(bench); /* our settings are known there */
    for (size_t i = 0; i < 6; i++)
        ask(bench, NULL);
    run(bench);
    assert_int_equal(bench->seen.calls, 4); /* the client keeps to it, */
    static const uint8_t more[] = { 0, 0, 1, 1, 5, 0, 0, 0, 99, 0x83 };
    give(bench, more, sizeof(more)); /* and one that does not, is not heard */
    run(bench);
    assert_int_equal(bench->seen.calls, 4);
    assert_int_equal(bench->goaway_code, NGHTTP2_PROTOCOL_ERROR);
}

/* ---- the end ---- */

static void h2__says_that_it_leaves(void **state)
{
    struct bench *bench = *state;
    const int32_t id = ask(bench, NULL);
    run(bench);
    weir_h2_leave(bench->h2, false);
    weir_h2_leave(bench->h2, false);
    run(bench);
    assert_int_equal(bench->goaways, 1);
    assert_int_equal(bench->goaway_last, INT32_MAX);
    weir_h2_leave(bench->h2, true);
    weir_h2_leave(bench->h2, true);
    run(bench);
    assert_int_equal(bench->goaways, 2);
    assert_int_equal(bench->goaway_last, id);
    assert_int_equal(bench->goaway_code, NGHTTP2_NO_ERROR);
    assert_false(weir_h2_is_over(bench->h2));
    weir_h2_finish(bench->seen.call, WEIR_GRPC_UNAVAILABLE, "gone");
    run(bench);
    assert_string_equal(bench->text, "gone");
    assert_true(weir_h2_is_over(bench->h2));
}

static void h2__tells_a_client_that_still_sends(void **state)
{
    struct bench *bench = *state;
    const nghttp2_nv fields[] = { NV(":method", "POST"), NV(":scheme", "http"), NV(":path", "/a"),
                                  NV(":authority", "x"), NV("content-type", "application/grpc") };
    nghttp2_submit_headers(bench->client, NGHTTP2_FLAG_NONE, -1, NULL, fields, 5, NULL);
    run(bench);
    weir_h2_finish(bench->seen.call, WEIR_GRPC_NOT_FOUND, "none");
    weir_h2_finish(bench->seen.call, WEIR_GRPC_OK, "twice");
    run(bench);
    expect_status(bench, "200", "5");
    assert_int_equal(bench->reset_code, NGHTTP2_NO_ERROR);
    assert_int_equal(weir_h2_calls(bench->h2), 0);
}

static void h2__is_no_http_1(void **state)
{
    struct bench *bench = *state;
    static const char other[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    give(bench, (const uint8_t *)other, sizeof(other) - 1);
    assert_int_equal(bench->error, WEIR_EPROTO);
    assert_int_equal(weir_h2_take(bench->h2, (const uint8_t *)other, 5, 2), WEIR_EPROTO);
    (void)drain(bench);
    assert_int_equal(bench->goaway_code, NGHTTP2_PROTOCOL_ERROR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BENCH(h2__answers_a_call),
        ON_BENCH(h2__puts_messages_together),
        ON_BENCH(h2__reads_tokens),
        ON_BENCH(h2__refuses_what_is_no_call),
        ON_BENCH(h2__refuses_long_header_lists),
        ON_BENCH(h2__refuses_messages_that_it_cannot_take),
        ON_BENCH(h2__keeps_no_more_than_its_bound),
        ON_BENCH(h2__resets_a_call_whose_answers_are_not_taken),
        ON_BENCH(h2__takes_so_many_calls_at_once),
        ON_BENCH(h2__says_that_it_leaves),
        ON_BENCH(h2__tells_a_client_that_still_sends),
        ON_BENCH(h2__is_no_http_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
