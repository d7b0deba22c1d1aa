/* SPDX-License-Identifier: Apache-2.0
 *
 * Two readers look at every head: this file finds its lines by bytes alone and refuses what is ambiguous (obs-fold, a
 * bare CR or LF: 400) or too large (414, 431); only a whole head is then given to llhttp (http_head.c). Each byte is
 * looked at once however the bytes were cut, so a client that sends one at a time costs no more than one that sends
 * all. */
#include "wire/http.h"

#include <string.h>

#include "base/assert.h"

#define EMPTY_LINES_SIZE_MAX 4 /* two before a request line: RFC 9112 section 2.2 asks to be lenient about one */
#define REQUEST_LINE_EXTRA 64  /* method, two spaces, version */

static enum weir_http_event refuse(struct weir_http_refusal *refusal, int status, const char *text)
{
    *refusal = (struct weir_http_refusal){ .status = status, .text = text };
    return WEIR_HTTP_REFUSED;
}

/* Is the line (whole or not) within the bounds of the head so far? */
static bool line_fits(const struct weir_http *http, const struct weir_http_bounds *bounds, size_t line_end,
                      struct weir_http_refusal *refusal)
{
    if (http->line_count == 0) {
        if (line_end - http->head_at > bounds->target_max + REQUEST_LINE_EXTRA) {
            refuse(refusal, 414, "the request target is too long");
            return false;
        }
        return true;
    }
    if (line_end - http->headers_at > bounds->header_bytes_max) {
        refuse(refusal, 431, "the header fields are too long");
        return false;
    }
    return true;
}

/* One line without its LF. */
static bool line_valid(const struct weir_http *http, const struct weir_http_bounds *bounds, const uint8_t *line,
                       size_t size, struct weir_http_refusal *refusal)
{
    if (size == 0 || line[size - 1] != '\r') {
        refuse(refusal, 400, "a line ends in LF without CR");
        return false;
    }
    if (memchr(line, '\r', size - 1)) {
        refuse(refusal, 400, "CR inside a line");
        return false;
    }
    if (http->line_count > 0 && (line[0] == ' ' || line[0] == '\t')) {
        refuse(refusal, 400, "a header field is folded over two lines (obs-fold)");
        return false;
    }
    if (size > 1 && http->line_count > bounds->headers_max) {
        refuse(refusal, 431, "too many header fields");
        return false;
    }
    return true;
}

/* Looks for the end of the head. */
static enum weir_http_event find_head(struct weir_http *http, const struct weir_http_bounds *bounds,
                                      const uint8_t *data, size_t size, struct weir_http_refusal *refusal)
{
    while (http->scanned < size) {
        const uint8_t *lf = memchr(data + http->scanned, '\n', size - http->scanned);
        size_t end = lf ? (size_t)(lf - data) : size;
        http->scanned = lf ? end + 1 : end;
        if (!line_fits(http, bounds, end, refusal))
            return WEIR_HTTP_REFUSED;
        if (!lf)
            return WEIR_HTTP_MORE;
        size_t line_size = end - http->line_at;
        if (!line_valid(http, bounds, data + http->line_at, line_size, refusal))
            return WEIR_HTTP_REFUSED;
        http->line_at = end + 1;
        if (line_size > 1) {
            if (http->line_count++ == 0)
                http->headers_at = end + 1;
        } else if (http->line_count > 0) {
            http->head_size = end + 1;
            return WEIR_HTTP_REQUEST;
        } else {
            http->head_at = end + 1;
            if (http->head_at > EMPTY_LINES_SIZE_MAX)
                return refuse(refusal, 400, "empty lines instead of a request");
        }
    }
    return WEIR_HTTP_MORE;
}

/* The body as it is known at the end of `data`. */
static enum weir_http_event find_body(struct weir_http *http, const uint8_t *data, size_t size,
                                      struct weir_slice *ret_body, size_t *ret_size, struct weir_http_refusal *refusal)
{
    const uint8_t *body = data + http->head_size;
    size_t come = size - http->head_size;
    if (http->chunked)
        return weir_http_chunked_go_on(http->chunked, body, come, ret_body, ret_size, refusal);
    if (come < http->body_size)
        return WEIR_HTTP_MORE;
    *ret_body = (struct weir_slice){ .data = body, .size = http->body_size };
    *ret_size = http->body_size;
    return WEIR_HTTP_REQUEST;
}

size_t weir_http_size_max(const struct weir_http_bounds *bounds)
{
    size_t request_line = bounds->target_max + REQUEST_LINE_EXTRA + 1; /* each with the LF that its check leaves out */
    return EMPTY_LINES_SIZE_MAX + request_line + bounds->header_bytes_max + 1 + bounds->body_max;
}

enum weir_http_event weir_http_parse(struct weir_http *http, const struct weir_http_bounds *bounds, const uint8_t *data,
                                     size_t size, struct weir_http_request *ret_request,
                                     struct weir_http_refusal *ret_refusal)
{
    weir_assert(bounds->headers_max <= WEIR_HTTP_HEADERS_MAX);
    bool fresh = http->head_size == 0;
    if (fresh) {
        enum weir_http_event event = find_head(http, bounds, data, size, ret_refusal);
        if (event != WEIR_HTTP_REQUEST)
            return event;
    } else if (!http->chunked && size - http->head_size < http->body_size) {
        return WEIR_HTTP_MORE;
    }
    /* Read again once the body is whole: nothing of the head has to be kept, and `data` may have moved. */
    struct weir_http_framing framing;
    if (!weir_http_head(bounds, data + http->head_at, http->head_size - http->head_at, ret_request, &framing,
                        ret_refusal))
        return WEIR_HTTP_REFUSED;
    if (fresh) {
        size_t body_max = bounds->body_max;
        if (bounds->body_max_of)
            body_max = bounds->body_max_of(bounds->context, ret_request,
                                           framing.chunked ? SIZE_MAX : framing.body_size);
        if (framing.body_size > body_max)
            return refuse(ret_refusal, 413, "the body is too long");
        http->body_size = framing.body_size;
        if (framing.chunked && !(http->chunked = weir_http_chunked_create(body_max)))
            return refuse(ret_refusal, 503, "out of memory");
    }
    size_t body_bytes = 0;
    enum weir_http_event event = find_body(http, data, size, &ret_request->body, &body_bytes, ret_refusal);
    ret_request->size = http->head_size + body_bytes;
    if (event == WEIR_HTTP_MORE && framing.expects_continue && !http->continue_told) {
        http->continue_told = true;
        return size == http->head_size ? WEIR_HTTP_CONTINUE : WEIR_HTTP_MORE;
    }
    return event;
}

void weir_http_next(struct weir_http *http)
{
    weir_http_chunked_destroy(http->chunked);
    *http = (struct weir_http){ 0 };
}
