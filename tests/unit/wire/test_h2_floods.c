/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client sends without asking for anything, or without an end: the connection ends, and not before. */
#include "h2_bench.h"

/* Sends a frame until the connection ends; returns how many were taken. */
static size_t flood(struct bench *bench, const uint8_t *frame, size_t size, size_t most)
{
    size_t count = 0;
    run(bench);
    for (; count < most && !bench->error; count++) {
        give(bench, frame, size);
        (void)drain(bench);
    }
    return count;
}

static void h2__ends_floods(void **state)
{
    struct bench *bench = *state;
    static const uint8_t ping[17] = { 0, 0, 8, 6 };
    assert_int_equal(flood(bench, ping, sizeof(ping), 20000), WEIR_H2_IDLE_FRAMES + 1 - 2); /* two were SETTINGS */
    (void)drain(bench);
    assert_int_equal(bench->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_true(weir_h2_is_over(bench->h2));
}

static void h2__allows_in_time_what_is_no_flood(void **state)
{
    struct bench *bench = *state;
    static const uint8_t ping[17] = { 0, 0, 8, 6 };
    for (size_t i = 0; i < 30000; i++) {
        bench->now_ns += WEIR_NS_PER_SECOND / WEIR_H2_IDLE_FRAMES_PER_SECOND;
        give(bench, i == 0 ? (const uint8_t *)WEIR_H2_PREFACE "\0\0\0\4\0\0\0\0" : ping, i == 0 ? 33 : sizeof(ping));
        (void)drain(bench);
        if (bench->error)
            break;
    }
    assert_int_equal(bench->error, 0);
}

static void h2__ends_other_floods(void **state)
{
    static const uint8_t settings[15] = { 0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 9 };
    static const uint8_t priority[14] = { 0, 0, 5, 2, 0, 0, 0, 0, 1 };
    static const uint8_t window[13] = { 0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1 };
    const struct {
        const uint8_t *frame;
        size_t size;
    } cases[] = { { settings, 15 }, { priority, 14 }, { window, 13 } };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        void *own = NULL;
        setup(&own);
        struct bench *bench = own;
        assert_true(flood(bench, cases[i].frame, cases[i].size, 20000) <= WEIR_H2_IDLE_FRAMES + 1);
        (void)drain(bench);
        assert_int_equal(bench->error, WEIR_EPROTO);
        if (i > 0) /* the client did not ask for so many acknowledgements, and listens no more */
            assert_int_equal(bench->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
        teardown(&own);
    }
}

/* HEADERS and RST_STREAM, again and again (CVE-2023-44487). */
static void h2__ends_rapid_resets(void **state)
{
    struct bench *bench = *state;
    size_t count = 0;
    for (; count < 5000 && !bench->error && !weir_h2_is_over(bench->h2); count++) {
        const int32_t id = ask(bench, NULL);
        run(bench);
        nghttp2_submit_rst_stream(bench->client, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
        run(bench);
        if (bench->goaways > 0)
            break;
    }
    assert_true(count >= 500 && count <= 1001);
    assert_int_equal(weir_h2_calls(bench->h2), 0);
}

/* A header list without an end (CVE-2024-28182), in empty frames and in full ones. */
static void h2__ends_header_lists_without_an_end(void **state)
{
    struct bench *bench = *state;
    static const uint8_t headers[] = { 0, 0, 1, 1, 0, 0, 0, 0, 1, 0x83 };
    static const uint8_t empty[] = { 0, 0, 0, 9, 0, 0, 0, 0, 1 };
    run(bench);
    give(bench, headers, sizeof(headers));
    size_t count = 0;
    for (; count < 100000 && !bench->error; count++)
        give(bench, empty, sizeof(empty));
    (void)drain(bench);
    assert_true(count <= 16);
    assert_int_equal(bench->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void h2__ends_header_lists_of_any_length(void **state)
{
    struct bench *bench = *state;
    uint8_t frame[9 + 9000] = { 0, 0x23, 0x28, 1, 0, 0, 0, 0, 1 };
    run(bench);
    for (size_t at = 9; at + 4 <= sizeof(frame); at += 4) /* a literal field "a: b", not indexed */
        memcpy(frame + at, "\x00\x01\x61\x00", 4);
    give(bench, frame, sizeof(frame));
    (void)drain(bench);
    assert_int_equal(bench->error, WEIR_EPROTO);
    assert_int_equal(bench->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BENCH(h2__ends_floods),
        ON_BENCH(h2__allows_in_time_what_is_no_flood),
        cmocka_unit_test(h2__ends_other_floods),
        ON_BENCH(h2__ends_rapid_resets),
        ON_BENCH(h2__ends_header_lists_without_an_end),
        ON_BENCH(h2__ends_header_lists_of_any_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
