/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client sends of one call: header fields, of which few mean something here, and messages, each behind five
 * bytes that say how long it is. A message that comes in one piece is not copied. Called by h2.c. */
#include <stdlib.h>

#include "base/checked.h"
#include "wire/h2_inside.h"

#define FIELD_EXTRA 32 /* RFC 9113, 6.5.2 */
#define MESSAGE_ROOM_MIN 512

/* ---- header fields ---- */

static bool is(struct weir_slice text, const char *literal)
{
    return text.size == strlen(literal) && memcmp(text.data, literal, text.size) == 0;
}

static void wrong(struct weir_h2_stream *stream, enum weir_h2_wrong what)
{
    if (stream->wrong == WEIR_H2_FINE)
        stream->wrong = what;
}

static void take_path(struct weir_h2_stream *stream, struct weir_slice value)
{
    if (value.size > sizeof(stream->path))
        return; /* and there is none */
    memcpy(stream->path, value.data, value.size);
    stream->call.path = (struct weir_slice){ stream->path, value.size };
    stream->has_path = true;
}

static void take_token(struct weir_h2_stream *stream, struct weir_slice value)
{
    const size_t size = weir_min_u64(value.size, sizeof(stream->token));
    if (size > 0)
        memcpy(stream->token, value.data, size);
    stream->call.token = (struct weir_slice){ stream->token, size };
}

/* Case makes no difference in the name of the scheme (RFC 9110, 11.1). */
static void take_authorization(struct weir_h2_stream *stream, struct weir_slice value)
{
    static const char scheme[] = "bearer ";
    const size_t size = sizeof(scheme) - 1;
    const char *text = value.data;
    if (stream->own_token || value.size <= size)
        return;
    for (size_t i = 0; i < size; i++) {
        const char lower = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] + 32) : text[i];
        if (lower != scheme[i])
            return;
    }
    take_token(stream, (struct weir_slice){ text + size, value.size - size });
}

void weir_h2_header(struct weir_h2_stream *stream, struct weir_slice name, struct weir_slice value)
{
    const struct weir_h2_bounds *bounds = &stream->h2->bounds;
    stream->header_count++;
    stream->header_bytes += name.size + value.size + FIELD_EXTRA;
    if (stream->header_count > bounds->headers_max || stream->header_bytes > bounds->header_bytes_max) {
        stream->wrong = WEIR_H2_TOO_LARGE;
    } else if (is(name, ":method")) {
        stream->post = is(value, "POST");
    } else if (is(name, ":path")) {
        take_path(stream, value);
    } else if (is(name, "content-type")) {
        stream->grpc = weir_grpc_is_content(value);
    } else if (is(name, "grpc-timeout")) {
        if (!weir_grpc_timeout_parse(value, &stream->call.timeout_ns))
            wrong(stream, WEIR_H2_BAD_TIMEOUT);
    } else if (is(name, "x-weir-token")) {
        stream->own_token = true;
        take_token(stream, value);
    } else if (is(name, "authorization")) {
        take_authorization(stream, value);
    }
}

void weir_h2_headers_end(struct weir_h2_stream *stream)
{
    static const struct {
        const char *http_status;
        enum weir_grpc_status status;
        const char *text;
    } refusals[WEIR_H2_WRONGS] = {
        [WEIR_H2_NOT_POST] = { "405", WEIR_GRPC_UNIMPLEMENTED, "gRPC calls are made with POST" },
        [WEIR_H2_NOT_GRPC] = { "415", WEIR_GRPC_UNIMPLEMENTED, "the content-type of a call is application/grpc" },
        [WEIR_H2_NO_PATH] = { "200", WEIR_GRPC_UNIMPLEMENTED, "no such method" },
        [WEIR_H2_BAD_TIMEOUT] = { "200", WEIR_GRPC_INVALID_ARGUMENT,
                                  "grpc-timeout must be one to eight digits and H, M, S, m, u or n" },
        [WEIR_H2_TOO_LARGE] = { "431", WEIR_GRPC_RESOURCE_EXHAUSTED, "too many header fields, or too long ones" },
    };
    if (!stream->post)
        wrong(stream, WEIR_H2_NOT_POST);
    if (!stream->grpc)
        wrong(stream, WEIR_H2_NOT_GRPC);
    if (!stream->has_path)
        wrong(stream, WEIR_H2_NO_PATH);
    if (stream->wrong != WEIR_H2_FINE) {
        weir_h2_refuse(stream, refusals[stream->wrong].http_status, refusals[stream->wrong].status,
                       refusals[stream->wrong].text);
        return;
    }
    stream->told = true;
    stream->h2->owner->on_call(stream->h2->context, &stream->call);
}

/* ---- messages ---- */

static void deliver(struct weir_h2_stream *stream, const uint8_t *message, size_t size)
{
    stream->head_size = 0;
    stream->h2->owner->on_message(stream->h2->context, &stream->call, message, size);
}

static void drop_message(struct weir_h2_stream *stream)
{
    stream->h2->kept -= stream->message_room;
    free(stream->message);
    stream->message = NULL;
    stream->message_got = stream->message_room = 0;
}

/* What has not come takes no memory, whatever the head promises. */
static bool make_room(struct weir_h2_stream *stream, size_t size)
{
    struct weir_h2 *h2 = stream->h2;
    const size_t wanted = stream->message_got + size;
    if (wanted <= stream->message_room)
        return true;
    size_t room = weir_max_u64(2 * stream->message_room, MESSAGE_ROOM_MIN);
    room = weir_min_u64(weir_max_u64(room, wanted), stream->message_size);
    const size_t more = room - stream->message_room;
    uint8_t *message = h2->kept + more <= h2->bounds.kept_max ? realloc(stream->message, room) : NULL;
    if (!message)
        return false;
    h2->kept += more;
    stream->message = message;
    stream->message_room = room;
    return true;
}

/* Returns how much of `data` it took. */
static size_t take_head(struct weir_h2_stream *stream, const uint8_t *data, size_t size)
{
    const size_t more = weir_min_u64(size, WEIR_GRPC_HEAD_SIZE - stream->head_size);
    memcpy(stream->head + stream->head_size, data, more);
    stream->head_size += more;
    if (stream->head_size < WEIR_GRPC_HEAD_SIZE)
        return more;
    const struct weir_grpc_head head = weir_grpc_head_get(stream->head);
    stream->message_size = head.size;
    if (head.flags != 0)
        weir_h2_finish(&stream->call, head.flags == 1 ? WEIR_GRPC_UNIMPLEMENTED : WEIR_GRPC_INTERNAL,
                       head.flags == 1 ? "messages may not be compressed here" : "these bytes begin no message");
    else if (head.size > stream->h2->bounds.message_max)
        weir_h2_finish(&stream->call, WEIR_GRPC_RESOURCE_EXHAUSTED, "the message is longer than server.body_bytes_max");
    else if (head.size == 0)
        deliver(stream, stream->head, 0);
    return more;
}

static size_t take_body(struct weir_h2_stream *stream, const uint8_t *data, size_t size)
{
    if (stream->message_got == 0 && size >= stream->message_size) {
        const size_t whole = stream->message_size;
        deliver(stream, data, whole);
        return whole;
    }
    const size_t more = weir_min_u64(size, stream->message_size - stream->message_got);
    if (!make_room(stream, more)) {
        weir_h2_finish(&stream->call, WEIR_GRPC_RESOURCE_EXHAUSTED,
                       "this connection has too many unfinished messages, or answers that were not taken");
        return size;
    }
    memcpy(stream->message + stream->message_got, data, more);
    stream->message_got += more;
    if (stream->message_got == stream->message_size) {
        deliver(stream, stream->message, stream->message_size);
        drop_message(stream);
    }
    return more;
}

void weir_h2_data(struct weir_h2_stream *stream, const uint8_t *data, size_t size)
{
    while (size > 0 && !stream->call.finished) {
        const size_t taken = stream->head_size < WEIR_GRPC_HEAD_SIZE ? take_head(stream, data, size)
                                                                     : take_body(stream, data, size);
        data += taken;
        size -= taken;
    }
    if (stream->call.finished && stream->message)
        drop_message(stream);
}

void weir_h2_half(struct weir_h2_stream *stream)
{
    if (stream->call.half)
        return;
    stream->call.half = true;
    if (stream->call.finished || !stream->told)
        return;
    if (stream->head_size > 0)
        weir_h2_finish(&stream->call, WEIR_GRPC_INTERNAL, "the call ends within a message");
    else
        stream->h2->owner->on_half(stream->h2->context, &stream->call);
}
