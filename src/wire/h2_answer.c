/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer of one call: header fields, messages, and the status as the fields behind them (trailers); where there is
 * no message, the status stands in the header fields. Messages wait here until the client has room for them. Called by
 * the owner of a connection, and by h2_input.c for what it refuses. */
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "wire/h2_inside.h"

#define TEXT_MAX 512 /* of a status; longer ones are cut */

#define FIELD(field_name, field_value, value_size)                                                                     \
    {                                                                                                                  \
        (uint8_t *)(uintptr_t)(field_name), (uint8_t *)(uintptr_t)(field_value), sizeof(field_name) - 1, (value_size), \
            NGHTTP2_NV_FLAG_NO_COPY_NAME                                                                               \
    }

/* The status, and its text if it has one; returns how many fields they are. */
static size_t status_fields(const struct weir_h2_stream *stream, char number[4], char encoded[3 * TEXT_MAX],
                            nghttp2_nv fields[2])
{
    struct weir_text text = weir_text_init(encoded, 3 * TEXT_MAX);
    const int digits = snprintf(number, 4, "%d", (int)stream->status);
    const nghttp2_nv status = FIELD("grpc-status", number, (size_t)digits);
    fields[0] = status;
    if (!stream->text)
        return 1;
    weir_grpc_message(&text, stream->text);
    const nghttp2_nv message = FIELD("grpc-message", encoded, text.size);
    fields[1] = message;
    return 2;
}

void weir_h2_reset(struct weir_h2_stream *stream, uint32_t code)
{
    if (!stream->reset)
        (void)nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, code);
    stream->reset = true;
    stream->call.finished = true;
}

static void submit_status(struct weir_h2_stream *stream)
{
    char number[4], encoded[3 * TEXT_MAX];
    nghttp2_nv fields[2];
    const size_t count = status_fields(stream, number, encoded, fields);
    if (nghttp2_submit_trailer(stream->h2->session, stream->id, fields, count))
        weir_h2_reset(stream, NGHTTP2_INTERNAL_ERROR);
}

/* What libnghttp2 asks for when the client has room. */
static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t room, uint32_t *flags,
                        nghttp2_data_source *source, void *context)
{
    struct weir_h2_stream *stream = source->ptr;
    (void)session, (void)id, (void)context;
    const size_t size = weir_min_u64(room, stream->out_size - stream->out_sent);
    if (size > 0)
        memcpy(buffer, stream->out + stream->out_sent, size);
    stream->out_sent += size;
    if (stream->out_sent < stream->out_size)
        return (ssize_t)size;
    stream->out_size = stream->out_sent = 0;
    if (stream->call.finished) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_status(stream);
    } else if (size == 0) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)size;
}

static void begin(struct weir_h2_stream *stream)
{
    const nghttp2_nv fields[] = { FIELD(":status", "200", 3), FIELD("content-type", "application/grpc", 16) };
    const nghttp2_data_provider provider = { .source = { .ptr = stream }, .read_callback = read_out };
    stream->begun = true;
    if (nghttp2_submit_response(stream->h2->session, stream->id, fields, 2, &provider))
        weir_h2_reset(stream, NGHTTP2_INTERNAL_ERROR);
}

static void go_on(struct weir_h2_stream *stream)
{
    if (!stream->deferred)
        return;
    stream->deferred = false;
    (void)nghttp2_session_resume_data(stream->h2->session, stream->id);
}

static bool make_room(struct weir_h2_stream *stream, size_t size)
{
    struct weir_h2 *h2 = stream->h2;
    if (!stream->out) {
        stream->out = stream->out_inline;
        stream->out_room = sizeof(stream->out_inline);
    }
    if (size <= stream->out_room - stream->out_size)
        return true;
    const bool is_inline = stream->out == stream->out_inline;
    const size_t before = is_inline ? 0 : stream->out_room;
    const size_t room = weir_max_u64(2 * stream->out_room, stream->out_size + size);
    uint8_t *out = h2->kept + room - before <= h2->bounds.kept_max ? realloc(is_inline ? NULL : stream->out, room)
                                                                   : NULL;
    if (!out)
        return false;
    if (is_inline)
        memcpy(out, stream->out_inline, stream->out_size);
    h2->kept += room - before;
    stream->out = out;
    stream->out_room = room;
    return true;
}

void weir_h2_send(struct weir_h2_call *call, const void *message, size_t size)
{
    struct weir_h2_stream *stream = weir_h2_stream_of(call);
    if (call->finished)
        return;
    if (!make_room(stream, WEIR_GRPC_HEAD_SIZE + size)) {
        weir_h2_reset(stream, NGHTTP2_ENHANCE_YOUR_CALM);
        return;
    }
    weir_grpc_head_put(stream->out + stream->out_size, size);
    if (size > 0)
        memcpy(stream->out + stream->out_size + WEIR_GRPC_HEAD_SIZE, message, size);
    stream->out_size += WEIR_GRPC_HEAD_SIZE + size;
    if (!stream->begun)
        begin(stream);
    else
        go_on(stream);
}

/* Header fields and nothing behind them. */
static void answer_at_once(struct weir_h2_stream *stream, const char *http_status)
{
    char number[4], encoded[3 * TEXT_MAX];
    nghttp2_nv fields[4] = { FIELD(":status", http_status, 3), FIELD("content-type", "application/grpc", 16) };
    const size_t count = status_fields(stream, number, encoded, &fields[2]);
    stream->begun = true;
    if (nghttp2_submit_response(stream->h2->session, stream->id, fields, 2 + count, NULL))
        weir_h2_reset(stream, NGHTTP2_INTERNAL_ERROR);
}

static void finish(struct weir_h2_stream *stream, const char *http_status, enum weir_grpc_status status,
                   const char *text)
{
    if (stream->call.finished)
        return;
    stream->call.finished = true;
    stream->status = status;
    stream->text = text && text[0] ? strndup(text, TEXT_MAX) : NULL; /* without memory it has none */
    if (!stream->begun)
        answer_at_once(stream, http_status);
    else
        go_on(stream);
}

void weir_h2_refuse(struct weir_h2_stream *stream, const char *http_status, enum weir_grpc_status status,
                    const char *text)
{
    finish(stream, http_status, status, text);
}

void weir_h2_finish(struct weir_h2_call *call, enum weir_grpc_status status, const char *text)
{
    finish(weir_h2_stream_of(call), "200", status, text);
}

void weir_h2_stream_free(struct weir_h2_stream *stream)
{
    struct weir_h2 *h2 = stream->h2;
    h2->kept -= stream->message_room;
    if (stream->out && stream->out != stream->out_inline) {
        h2->kept -= stream->out_room;
        free(stream->out);
    }
    free(stream->message);
    free(stream->text);
    free(stream);
}
