/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 requests as a codec: bytes in, request out, whatever way the bytes were cut.
 *
 * What it decides: where a request ends, what its parts are, and whether it is one. It is strict where two readers of
 * the same bytes could disagree (request smuggling): obs-fold, bare CR or LF, a missing or second Host, a second
 * Content-Length, Content-Length beside Transfer-Encoding, any transfer coding but `chunked`, and trailer fields are
 * refused. What it does not: what the request asks for. Upgrades are ignored, as RFC 9110 (section 7.8) allows.
 *
 * Every refusal ends the connection: what follows cannot be told from the body of what was refused.
 *
 * Thread rule: one thread at a time for each object.
 * Sources: RFC 9112 (HTTP/1.1), RFC 9110 (semantics). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/limiter.h"

#define WEIR_HTTP_HEADERS_MAX 1000 /* the most that `headers_max` may be */

struct weir_http_request;

/* What a request may take; more is refused with the status named. */
struct weir_http_bounds {
    size_t target_max;       /* bytes of the request target: 414 */
    size_t headers_max;      /* header fields: 431 */
    size_t header_bytes_max; /* all of them together: 431 */
    size_t body_max;         /* bytes of the body: 413 */
    /* Where it depends on the request, at most body_max: asked once its head is whole, so that nobody has to send, or
     * keep, a body to be refused. `size` is SIZE_MAX where it is not known. NULL: body_max. */
    size_t (*body_max_of)(void *context, const struct weir_http_request *head, size_t size);
    void *context;
};

enum weir_http_method {
    WEIR_HTTP_GET,
    WEIR_HTTP_HEAD,
    WEIR_HTTP_POST,
    WEIR_HTTP_PUT,
    WEIR_HTTP_DELETE,
    WEIR_HTTP_OTHER,
};

struct weir_http_header {
    struct weir_slice name;  /* as it was sent: compare with weir_http_is() */
    struct weir_slice value; /* without space around it */
};

/* Slices point into the bytes that were parsed (a chunked body: into the codec). Valid until either changes. */
struct weir_http_request {
    size_t size; /* bytes that the request took */
    enum weir_http_method method;
    struct weir_slice path;  /* as it was sent, not decoded; begins with '/', or is "*" */
    struct weir_slice query; /* what followed the first '?', without it */
    struct weir_slice body;
    bool keep_alive; /* another request may follow */
    bool version_10; /* HTTP/1.0: an answer that keeps the connection has to say so */
    size_t header_count;
    struct weir_http_header headers[WEIR_HTTP_HEADERS_MAX];
};

struct weir_http_refusal {
    int status;
    const char *text; /* what was wrong, for people */
};

struct weir_http_chunked;

/* Where the codec is in a request that is not yet whole. Zeroed = at the beginning of one. */
struct weir_http {
    size_t scanned;    /* bytes already looked at */
    size_t line_at;    /* where the line being looked at begins */
    size_t head_at;    /* where the request line begins; empty lines may stand before it */
    size_t headers_at; /* where it has ended */
    size_t head_size;  /* up to the body; 0 = not known yet */
    size_t line_count;
    size_t body_size; /* by Content-Length */
    bool continue_told;
    struct weir_http_chunked *chunked; /* NULL where the body is not chunked */
};

enum weir_http_event {
    WEIR_HTTP_MORE,     /* not whole yet: show the same bytes again when more have come */
    WEIR_HTTP_CONTINUE, /* the same, and the client waits for "100 Continue": told once a request */
    WEIR_HTTP_REQUEST,
    WEIR_HTTP_REFUSED,
};

/* Parses the request that begins at data[0]. While it answers MORE or CONTINUE the caller shows the same bytes again,
 * at
 * the same or another address, with more behind them; after REQUEST it calls weir_http_next, drops request->size bytes
 * and may go on. */
enum weir_http_event weir_http_parse(struct weir_http *http, const struct weir_http_bounds *bounds, const uint8_t *data,
                                     size_t size, struct weir_http_request *ret_request,
                                     struct weir_http_refusal *ret_refusal);

/* Bytes that the largest request within the bounds takes; of a chunked body, without its framing. */
size_t weir_http_size_max(const struct weir_http_bounds *bounds);

/* Forgets the request, also one that is not whole. Frees what it took; safe to call at any time. */
void weir_http_next(struct weir_http *http);

/* A header's name or value, without regard to case. `literal` is in lower case. */
bool weir_http_is(struct weir_slice slice, const char *literal);

/* The first header of that name, or NULL. */
const struct weir_http_header *weir_http_find(const struct weir_http_request *request, const char *name);

/* ---- for the files of this codec ---- */

/* What follows a head. */
struct weir_http_framing {
    bool chunked;
    bool expects_continue;
    size_t body_size; /* by Content-Length */
};

/* Parses and judges a whole head (request line to empty line). Fills all of the request but size and body. */
bool weir_http_head(const struct weir_http_bounds *bounds, const uint8_t *head, size_t size,
                    struct weir_http_request *ret_request, struct weir_http_framing *ret_framing,
                    struct weir_http_refusal *ret_refusal);

/* A chunked body, decoded as it comes. */
struct weir_http_chunked *weir_http_chunked_create(size_t body_max);
void weir_http_chunked_destroy(struct weir_http_chunked *chunked);
/* Takes what has come since the last call: `data` to `data + size` is all of the encoded body so far. */
enum weir_http_event weir_http_chunked_go_on(struct weir_http_chunked *chunked, const uint8_t *data, size_t size,
                                             struct weir_slice *ret_body, size_t *ret_size,
                                             struct weir_http_refusal *ret_refusal);
