/* SPDX-License-Identifier: Apache-2.0
 *
 * A chunked body (RFC 9112 section 7.1). llhttp is shown a head of our own first, so that it stands where the body
 * begins; the real head was judged elsewhere. */
#include <llhttp.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "wire/http.h"

#define ENCODED_MAX_FACTOR 8 /* a body in chunks of one byte takes 6 bytes each */
#define BODY_ROOM_FIRST ((size_t)512)

struct weir_http_chunked {
    llhttp_t parser;
    size_t taken; /* encoded bytes parsed */
    size_t body_max;
    uint8_t *body;
    size_t body_size, body_room;
    bool complete;
    struct weir_http_refusal refusal; /* of a callback; status 0 = none */
};

static int stop(struct weir_http_chunked *chunked, int status, const char *text)
{
    chunked->refusal = (struct weir_http_refusal){ .status = status, .text = text };
    return -1;
}

static int on_body(llhttp_t *parser, const char *at, size_t size)
{
    struct weir_http_chunked *chunked = parser->data;
    if (size > chunked->body_max - chunked->body_size)
        return stop(chunked, 413, "the body is too long");
    if (size > chunked->body_room - chunked->body_size) {
        size_t room = chunked->body_room ? chunked->body_room : BODY_ROOM_FIRST;
        while (room < chunked->body_size + size)
            room *= 2;
        uint8_t *body = realloc(chunked->body, room);
        if (!body)
            return stop(chunked, 503, "out of memory");
        chunked->body = body;
        chunked->body_room = room;
    }
    memcpy(chunked->body + chunked->body_size, at, size);
    chunked->body_size += size;
    return 0;
}

/* The length of the chunk that begins, known before any of it has come. */
static int on_chunk(llhttp_t *parser)
{
    struct weir_http_chunked *chunked = parser->data;
    if (parser->content_length > chunked->body_max - chunked->body_size)
        return stop(chunked, 413, "the body is too long");
    return 0;
}

static int on_trailer(llhttp_t *parser, const char *at, size_t size)
{
    (void)at, (void)size;
    struct weir_http_chunked *chunked = parser->data;
    return parser->flags & F_TRAILING ? stop(chunked, 400, "trailer fields are not accepted") : 0;
}

static int on_complete(llhttp_t *parser)
{
    struct weir_http_chunked *chunked = parser->data;
    chunked->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t body_settings = {
    .on_header_field = on_trailer,
    .on_chunk_header = on_chunk,
    .on_body = on_body,
    .on_message_complete = on_complete,
};

struct weir_http_chunked *weir_http_chunked_create(size_t body_max)
{
    static const char head[] = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    struct weir_http_chunked *chunked = calloc(1, sizeof(*chunked));
    if (!chunked)
        return NULL;
    chunked->body_max = body_max;
    llhttp_init(&chunked->parser, HTTP_REQUEST, &body_settings);
    chunked->parser.data = chunked;
    llhttp_errno_t error = llhttp_execute(&chunked->parser, head, sizeof(head) - 1);
    weir_assert(error == HPE_OK);
    return chunked;
}

void weir_http_chunked_destroy(struct weir_http_chunked *chunked)
{
    if (!chunked)
        return;
    free(chunked->body);
    free(chunked);
}

/* llhttp accepts a bare LF in place of the last line. Without trailer fields the end is always the same four bytes. */
static bool end_valid(const uint8_t *data, size_t size)
{
    return size >= 5 && memcmp(data + size - 4, "\r\n\r\n", 4) == 0;
}

enum weir_http_event weir_http_chunked_go_on(struct weir_http_chunked *chunked, const uint8_t *data, size_t size,
                                             struct weir_slice *ret_body, size_t *ret_size,
                                             struct weir_http_refusal *ret_refusal)
{
    if (!chunked->complete && size > chunked->taken) {
        const char *from = (const char *)data + chunked->taken;
        llhttp_errno_t error = llhttp_execute(&chunked->parser, from, size - chunked->taken);
        if (chunked->complete)
            chunked->taken = (size_t)(llhttp_get_error_pos(&chunked->parser) - (const char *)data);
        else
            chunked->taken = size;
        if ((error != HPE_OK && !chunked->complete) || (chunked->complete && !end_valid(data, chunked->taken))) {
            *ret_refusal = chunked->refusal.status
                               ? chunked->refusal
                               : (struct weir_http_refusal){ .status = 400, .text = "malformed chunked body" };
            return WEIR_HTTP_REFUSED;
        }
    }
    if (chunked->taken > ENCODED_MAX_FACTOR * chunked->body_max + BODY_ROOM_FIRST) {
        *ret_refusal = (struct weir_http_refusal){ .status = 413, .text = "the chunked body is too long" };
        return WEIR_HTTP_REFUSED;
    }
    if (!chunked->complete)
        return WEIR_HTTP_MORE;
    *ret_body = (struct weir_slice){ .data = chunked->body, .size = chunked->body_size };
    *ret_size = chunked->taken;
    return WEIR_HTTP_REQUEST;
}
