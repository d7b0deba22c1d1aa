/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside an HTTP/2 connection: between h2.c, which libnghttp2 calls, h2_input.c, which reads a call, and h2_answer.c,
 * which writes one. */
#pragma once

#include <nghttp2/nghttp2.h>

#include "wire/h2.h"

#define WEIR_H2_OUT_INLINE 256 /* bytes of an answer that need no memory of their own */

struct weir_h2 {
    nghttp2_session *session;
    struct weir_h2_bounds bounds;
    const struct weir_h2_owner *owner;
    void *context;
    struct weir_h2_stream *streams; /* all */
    size_t calls;
    size_t kept;
    uint64_t now_ns, refilled_ns;
    uint64_t idle_frames; /* that may still come */
    bool flooded;         /* a bound on frames or on a header list was passed */
    bool leaves, left;    /* which GOAWAY was sent */
    bool over;            /* libnghttp2 said that it cannot go on */
};

/* What is wrong with a call that is not to be told to the owner. */
enum weir_h2_wrong {
    WEIR_H2_FINE,
    WEIR_H2_NOT_POST,
    WEIR_H2_NOT_GRPC,
    WEIR_H2_NO_PATH,
    WEIR_H2_BAD_TIMEOUT,
    WEIR_H2_TOO_LARGE,
    WEIR_H2_WRONGS
};

struct weir_h2_stream {
    struct weir_h2_call call;
    struct weir_h2 *h2;
    struct weir_h2_stream *next, *prev;
    int32_t id;
    bool told; /* the owner knows of it */
    /* Of its header list: */
    bool post, grpc, has_path, own_token;
    enum weir_h2_wrong wrong;
    size_t header_count, header_bytes;
    char path[WEIR_H2_PATH_MAX];
    char token[WEIR_H2_TOKEN_MAX + 1]; /* one more: it is too long, and so nobody's */
    /* The message that is coming: */
    uint8_t head[WEIR_GRPC_HEAD_SIZE];
    size_t head_size;
    size_t message_size; /* as its head says */
    uint8_t *message;
    size_t message_got, message_room;
    /* The answer: */
    bool begun;    /* its header fields are submitted */
    bool deferred; /* libnghttp2 waits for more of it */
    bool reset;
    enum weir_grpc_status status;
    char *text; /* of the status; NULL: none */
    uint8_t *out;
    size_t out_size, out_sent, out_room;
    uint8_t out_inline[WEIR_H2_OUT_INLINE];
};

static inline struct weir_h2_stream *weir_h2_stream_of(struct weir_h2_call *call)
{
    return (struct weir_h2_stream *)(void *)((char *)call - offsetof(struct weir_h2_stream, call));
}

/* ---- h2_input.c ---- */

void weir_h2_header(struct weir_h2_stream *stream, struct weir_slice name, struct weir_slice value);
void weir_h2_headers_end(struct weir_h2_stream *stream);
void weir_h2_data(struct weir_h2_stream *stream, const uint8_t *data, size_t size);
void weir_h2_half(struct weir_h2_stream *stream);

/* ---- h2_answer.c ---- */

/* A refusal in HTTP's terms, too. */
void weir_h2_refuse(struct weir_h2_stream *stream, const char *http_status, enum weir_grpc_status status,
                    const char *text);
void weir_h2_reset(struct weir_h2_stream *stream, uint32_t code);
void weir_h2_stream_free(struct weir_h2_stream *stream);
