/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's end of an HTTP/2 connection, with libnghttp2's client at the other, for its tests. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "random.h"
#include "wire/h2.h"

#define TEXT_MAX 4096

/* One end's view of a call. */
struct seen {
    size_t calls, messages, halves, gone;
    char message[TEXT_MAX];
    size_t message_size;
    char path[WEIR_H2_PATH_MAX + 1], token[WEIR_H2_TOKEN_MAX + 2];
    uint64_t timeout_ns;
    struct weir_h2_call *call;
    bool echoes; /* answers each message with itself, and ends with the client */
};

struct bench {
    struct weir_h2 *h2;
    struct seen seen;
    nghttp2_session *client;
    uint64_t now_ns;
    size_t piece; /* in such pieces the server gets its bytes */
    int error;
    /* What the client got: */
    char http_status[4], status[4], text[TEXT_MAX];
    uint8_t answer[TEXT_MAX];
    size_t answer_size;
    uint32_t reset_code, goaway_code;
    size_t closed, goaways;
    int32_t goaway_last;
};

/* ---- the owner ---- */

static inline void keep(char *to, struct weir_slice from)
{
    memcpy(to, from.data ? from.data : "", from.size);
    to[from.size] = '\0';
}

static inline void on_call(void *context, struct weir_h2_call *call)
{
    struct seen *seen = &((struct bench *)context)->seen;
    seen->calls++;
    seen->call = call;
    keep(seen->path, call->path);
    keep(seen->token, call->token);
    seen->timeout_ns = call->timeout_ns;
}

static inline void on_message(void *context, struct weir_h2_call *call, const uint8_t *message, size_t size)
{
    struct seen *seen = &((struct bench *)context)->seen;
    seen->messages++;
    assert_true(size <= sizeof(seen->message));
    if (size > 0)
        memcpy(seen->message, message, size);
    seen->message_size = size;
    if (seen->echoes)
        weir_h2_send(call, message, size);
}

static inline void on_half(void *context, struct weir_h2_call *call)
{
    struct seen *seen = &((struct bench *)context)->seen;
    seen->halves++;
    if (seen->echoes)
        weir_h2_finish(call, WEIR_GRPC_OK, NULL);
}

static inline void on_gone(void *context, struct weir_h2_call *call)
{
    struct seen *seen = &((struct bench *)context)->seen;
    (void)call;
    seen->gone++;
    seen->call = NULL;
}

/* ---- the client ---- */

static inline int got_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                             size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags, void *context)
{
    struct bench *bench = context;
    (void)session, (void)frame, (void)flags;
    char *to = name_size == 7 && memcmp(name, ":status", 7) == 0          ? bench->http_status
               : name_size == 11 && memcmp(name, "grpc-status", 11) == 0  ? bench->status
               : name_size == 12 && memcmp(name, "grpc-message", 12) == 0 ? bench->text
                                                                          : NULL;
    if (to)
        keep(to, (struct weir_slice){ value, value_size });
    return 0;
}

static inline int got_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t size,
                           void *context)
{
    struct bench *bench = context;
    (void)session, (void)flags, (void)id;
    assert_true(bench->answer_size + size <= sizeof(bench->answer));
    memcpy(bench->answer + bench->answer_size, data, size);
    bench->answer_size += size;
    return 0;
}

static inline int got_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct bench *bench = context;
    (void)session;
    if (frame->hd.type != NGHTTP2_GOAWAY)
        return 0;
    bench->goaways++;
    bench->goaway_code = frame->goaway.error_code;
    bench->goaway_last = frame->goaway.last_stream_id;
    return 0;
}

static inline int got_close(nghttp2_session *session, int32_t id, uint32_t code, void *context)
{
    struct bench *bench = context;
    (void)session, (void)id;
    bench->closed++;
    bench->reset_code = code;
    return 0;
}

static const struct weir_h2_bounds bounds = {
    .streams_max = 4, .headers_max = 20, .header_bytes_max = 2000, .message_max = 1000, .kept_max = 2500
};

static inline int setup(void **state)
{
    static const struct weir_h2_owner owner = { on_call, on_message, on_half, on_gone };
    struct bench *bench = calloc(1, sizeof(*bench));
    nghttp2_session_callbacks *callbacks;
    bench->now_ns = 1;
    bench->piece = SIZE_MAX;
    bench->reset_code = bench->goaway_code = UINT32_MAX;
    assert_int_equal(weir_h2_create(&bounds, &owner, bench, &bench->h2), 0);
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, got_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, got_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, got_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, got_close);
    assert_int_equal(nghttp2_session_client_new(&bench->client, callbacks, bench), 0);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(nghttp2_submit_settings(bench->client, NGHTTP2_FLAG_NONE, NULL, 0), 0);
    *state = bench;
    return 0;
}

static inline int teardown(void **state)
{
    struct bench *bench = *state;
    const size_t told = bench->seen.calls;
    weir_h2_destroy(bench->h2);
    assert_int_equal(bench->seen.gone, told);
    nghttp2_session_del(bench->client);
    free(bench);
    return 0;
}

static inline void give(struct bench *bench, const uint8_t *data, size_t size)
{
    for (size_t at = 0; at < size && !bench->error;) {
        const size_t piece = size - at < bench->piece ? size - at : bench->piece;
        uint8_t *copy = malloc(piece);
        memcpy(copy, data + at, piece);
        bench->error = weir_h2_take(bench->h2, copy, piece, bench->now_ns);
        free(copy);
        at += piece;
    }
}

static inline bool drain(struct bench *bench)
{
    const uint8_t *data;
    size_t size;
    bool any = false;
    while ((size = weir_h2_output(bench->h2, &data)) > 0) {
        any = true;
        assert_int_equal(nghttp2_session_mem_recv(bench->client, data, size), size);
    }
    return any;
}

/* To and fro, until nobody has anything to say. */
static inline void run(struct bench *bench)
{
    const uint8_t *data;
    ssize_t size;
    bool any = true;
    while (any) {
        any = false;
        while ((size = nghttp2_session_mem_send(bench->client, &data)) > 0) {
            any = true;
            give(bench, data, (size_t)size);
        }
        any = drain(bench) || any;
    }
}

#define NV(name, value)                                                                                                \
    {                                                                                                                  \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE \
    }

struct body {
    const uint8_t *data;
    size_t size, at, step;
};

static inline ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t room, uint32_t *flags,
                                nghttp2_data_source *source, void *context)
{
    struct body *body = source->ptr;
    size_t size = body->size - body->at;
    (void)session, (void)id, (void)context;
    size = size < room ? size : room;
    size = size < body->step ? size : body->step;
    memcpy(buffer, body->data + body->at, size);
    body->at += size;
    if (body->at == body->size)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)size;
}

static inline int32_t ask_with(struct bench *bench, const char *method, const char *path, const char *type,
                               nghttp2_nv extra, struct body *body)
{
    const nghttp2_nv fields[] = { NV(":method", method),
                                  NV(":scheme", "http"),
                                  NV(":path", path),
                                  NV(":authority", "x"),
                                  NV("content-type", type),
                                  NV("te", "trailers"),
                                  extra };
    const nghttp2_data_provider provider = { .source = { .ptr = body }, .read_callback = read_body };
    return nghttp2_submit_request(bench->client, NULL, fields, sizeof(fields) / sizeof(fields[0]),
                                  body ? &provider : NULL, NULL);
}

static inline int32_t ask(struct bench *bench, struct body *body)
{
    return ask_with(bench, "POST", "/a.B/C", "application/grpc", (nghttp2_nv)NV("x", "y"), body);
}

static inline void expect_status(const struct bench *bench, const char *http_status, const char *status)
{
    assert_string_equal(bench->http_status, http_status);
    assert_string_equal(bench->status, status);
}

#define ON_BENCH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
