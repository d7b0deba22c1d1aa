/* SPDX-License-Identifier: Apache-2.0
 *
 * What libnghttp2 tells of a connection, and the bounds on what a client may send without asking for anything. Called
 * by serve/grpc.c through the table of grpc_library.c, since libnghttp2 is in a module (modules/module.h). */
#include "wire/h2.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/checked.h"
#include "wire/h2_inside.h"

#define RESETS_BURST 1000
#define RESETS_PER_SECOND 100

/* ---- streams ---- */

static struct weir_h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static void unlist(struct weir_h2_stream *stream)
{
    struct weir_h2 *h2 = stream->h2;
    if (stream->prev)
        stream->prev->next = stream->next;
    else
        h2->streams = stream->next;
    if (stream->next)
        stream->next->prev = stream->prev;
    h2->calls--;
}

static void drop(struct weir_h2_stream *stream)
{
    unlist(stream);
    stream->call.finished = true; /* its owner has nothing more to say */
    if (stream->told)
        stream->h2->owner->on_gone(stream->h2->context, &stream->call);
    weir_h2_stream_free(stream);
}

/* ---- what is sent without asking for anything ---- */

static bool asks_for_nothing(const nghttp2_frame_hd *head)
{
    return head->type != NGHTTP2_HEADERS &&
           (head->type != NGHTTP2_DATA || (head->length == 0 && !(head->flags & NGHTTP2_FLAG_END_STREAM)));
}

static void refill(struct weir_h2 *h2)
{
    const uint64_t passed_ns = weir_sub_sat(h2->now_ns, h2->refilled_ns);
    const uint64_t step_ns = WEIR_NS_PER_SECOND / WEIR_H2_IDLE_FRAMES_PER_SECOND;
    const uint64_t more = passed_ns / step_ns;
    h2->refilled_ns += more * step_ns;
    h2->idle_frames = weir_min_u64(weir_add_sat(h2->idle_frames, more), WEIR_H2_IDLE_FRAMES);
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *context)
{
    struct weir_h2 *h2 = context;
    (void)session;
    if (!asks_for_nothing(head))
        return 0;
    if (h2->idle_frames == 0) {
        h2->flooded = true;
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    h2->idle_frames--;
    return 0;
}

/* ---- what libnghttp2 tells ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct weir_h2 *h2 = context;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0; /* fields behind the messages mean nothing here */
    struct weir_h2_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    stream->h2 = h2;
    stream->id = frame->hd.stream_id;
    stream->call.timeout_ns = WEIR_NEVER;
    stream->next = h2->streams;
    if (stream->next)
        stream->next->prev = stream;
    h2->streams = stream;
    h2->calls++;
    h2->idle_frames = weir_min_u64(h2->idle_frames + WEIR_H2_IDLE_FRAMES_PER_CALL, WEIR_H2_IDLE_FRAMES);
    (void)nghttp2_session_set_stream_user_data(session, stream->id, stream);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t value_size, uint8_t flags, void *context)
{
    struct weir_h2 *h2 = context;
    struct weir_h2_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)flags;
    if (!stream || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    weir_h2_header(stream, (struct weir_slice){ name, name_size }, (struct weir_slice){ value, value_size });
    if (stream->header_bytes <= 4 * (size_t)h2->bounds.header_bytes_max)
        return 0;
    h2->flooded = true;
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct weir_h2_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)context;
    if (!stream)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        weir_h2_headers_end(stream);
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        weir_h2_half(stream);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t size, void *context)
{
    struct weir_h2_stream *stream = stream_of(session, id);
    (void)flags, (void)context;
    if (stream && stream->told)
        weir_h2_data(stream, data, size);
    return 0;
}

/* A client that still sends is told that nobody listens (RFC 9113, 8.1). */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct weir_h2_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)context;
    if (stream && !stream->call.half && frame->hd.type == NGHTTP2_HEADERS &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        weir_h2_reset(stream, NGHTTP2_NO_ERROR);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *context)
{
    struct weir_h2_stream *stream = stream_of(session, id);
    (void)code, (void)context;
    if (stream)
        drop(stream);
    return 0;
}

/* ---- a connection ---- */

static int make_session(struct weir_h2 *h2)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    if (nghttp2_session_callbacks_new(&callbacks))
        return WEIR_ENOMEM;
    if (nghttp2_option_new(&option)) {
        nghttp2_session_callbacks_del(callbacks);
        return WEIR_ENOMEM;
    }
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_option_set_no_closed_streams(option, 1);
#ifdef WEIR_HAVE_NGHTTP2_RESET_LIMIT
    nghttp2_option_set_stream_reset_rate_limit(option, RESETS_BURST, RESETS_PER_SECOND);
#endif
    const int failed = nghttp2_session_server_new2(&h2->session, callbacks, h2, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return failed ? WEIR_ENOMEM : 0;
}

int weir_h2_create(const struct weir_h2_bounds *bounds, const struct weir_h2_owner *owner, void *context,
                   struct weir_h2 **ret_h2)
{
    const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, bounds->streams_max },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, bounds->header_bytes_max },
    };
    struct weir_h2 *h2 = calloc(1, sizeof(*h2));
    if (!h2)
        return WEIR_ENOMEM;
    h2->bounds = *bounds;
    h2->owner = owner;
    h2->context = context;
    h2->idle_frames = WEIR_H2_IDLE_FRAMES;
    int error = make_session(h2);
    if (!error && nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, 2)) {
        nghttp2_session_del(h2->session);
        error = WEIR_ENOMEM;
    }
    if (error)
        free(h2);
    else
        *ret_h2 = h2;
    return error;
}

void weir_h2_destroy(struct weir_h2 *h2)
{
    if (!h2)
        return;
    while (h2->streams)
        drop(h2->streams);
    weir_assert(h2->calls == 0 && h2->kept == 0);
    nghttp2_session_del(h2->session);
    free(h2);
}

static uint32_t code_of(const struct weir_h2 *h2, ssize_t error)
{
    if (h2->flooded || error == NGHTTP2_ERR_FLOODED || error == NGHTTP2_ERR_TOO_MANY_SETTINGS)
        return NGHTTP2_ENHANCE_YOUR_CALM;
#ifdef WEIR_HAVE_NGHTTP2_CONTINUATIONS
    if (error == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS)
        return NGHTTP2_ENHANCE_YOUR_CALM;
#endif
    return error == NGHTTP2_ERR_NOMEM ? NGHTTP2_INTERNAL_ERROR : NGHTTP2_PROTOCOL_ERROR;
}

int weir_h2_take(struct weir_h2 *h2, const uint8_t *data, size_t size, uint64_t now_ns)
{
    if (h2->over)
        return WEIR_EPROTO;
    h2->refilled_ns = h2->now_ns == 0 ? now_ns : h2->refilled_ns;
    h2->now_ns = now_ns;
    refill(h2);
    const ssize_t taken = nghttp2_session_mem_recv(h2->session, data, size);
    if (taken >= 0)
        return 0;
    h2->over = true;
    (void)nghttp2_session_terminate_session(h2->session, code_of(h2, taken));
    return WEIR_EPROTO;
}

size_t weir_h2_output(struct weir_h2 *h2, const uint8_t **ret_data)
{
    const ssize_t size = nghttp2_session_mem_send(h2->session, ret_data);
    if (size < 0)
        h2->over = true; /* no memory */
    return size > 0 ? (size_t)size : 0;
}

bool weir_h2_is_over(const struct weir_h2 *h2)
{
    return h2->over || (!nghttp2_session_want_read(h2->session) && !nghttp2_session_want_write(h2->session));
}

size_t weir_h2_calls(const struct weir_h2 *h2)
{
    return h2->calls;
}

size_t weir_h2_kept(const struct weir_h2 *h2)
{
    return h2->kept + h2->calls * sizeof(struct weir_h2_stream);
}

void weir_h2_leave(struct weir_h2 *h2, bool last)
{
    if (!h2->leaves && !last)
        (void)nghttp2_submit_shutdown_notice(h2->session);
    h2->leaves = true;
    if (!last || h2->left)
        return;
    h2->left = true;
    (void)nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h2->session),
                                NGHTTP2_NO_ERROR, NULL, 0);
}
