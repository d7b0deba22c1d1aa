/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole head, read by llhttp, then judged by what llhttp lets pass (it accepts a missing Host, two Hosts, and any
 * target that has no control characters). Framing is judged here too: Content-Length, Transfer-Encoding, and both.
 * Called by http.c. */
#include <llhttp.h>
#include <string.h>

#include "wire/http.h"

bool weir_http_is(struct weir_slice slice, const char *literal)
{
    const uint8_t *at = slice.data;
    for (size_t i = 0; i < slice.size; i++) {
        uint8_t lower = (uint8_t)(at[i] >= 'A' && at[i] <= 'Z' ? at[i] | 0x20 : at[i]);
        if (literal[i] == '\0' || lower != (uint8_t)literal[i])
            return false;
    }
    return literal[slice.size] == '\0';
}

const struct weir_http_header *weir_http_find(const struct weir_http_request *request, const char *name)
{
    for (size_t i = 0; i < request->header_count; i++) {
        if (weir_http_is(request->headers[i].name, name))
            return &request->headers[i];
    }
    return NULL;
}

/* What the callbacks of llhttp fill. */
struct head {
    struct weir_http_request *request;
    size_t headers_max;
    struct weir_slice target;
    bool value_open; /* the last header has its value */
    bool complete;
};

static void extend(struct weir_slice *slice, const char *at, size_t size)
{
    if (slice->data == NULL || slice->size == 0)
        slice->data = at;
    slice->size += size;
}

static int on_url(llhttp_t *parser, const char *at, size_t size)
{
    struct head *head = parser->data;
    extend(&head->target, at, size);
    return 0;
}

static int on_field(llhttp_t *parser, const char *at, size_t size)
{
    struct head *head = parser->data;
    struct weir_http_request *request = head->request;
    if (request->header_count == 0 || head->value_open) {
        if (request->header_count == head->headers_max)
            return -1;
        request->headers[request->header_count++] = (struct weir_http_header){ { at, 0 }, { at, 0 } };
        head->value_open = false;
    }
    extend(&request->headers[request->header_count - 1].name, at, size);
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t size)
{
    struct head *head = parser->data;
    if (head->request->header_count == 0)
        return -1;
    extend(&head->request->headers[head->request->header_count - 1].value, at, size);
    head->value_open = true;
    return 0;
}

static int on_value_complete(llhttp_t *parser)
{
    struct head *head = parser->data;
    head->value_open = true; /* an empty value has no span */
    return 0;
}

static int on_complete(llhttp_t *parser)
{
    struct head *head = parser->data;
    head->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t head_settings = {
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_complete,
};

static bool refuse(struct weir_http_refusal *refusal, int status, const char *text)
{
    *refusal = (struct weir_http_refusal){ .status = status, .text = text };
    return false;
}

static bool refuse_syntax(const llhttp_t *parser, struct weir_http_refusal *refusal)
{
    if (parser->method == HTTP_PRI) /* the preface of HTTP/2, whose second half is not part of the head */
        return refuse(refusal, 505, "HTTP/2 is not spoken here");
    switch (llhttp_get_errno(parser)) {
    case HPE_INVALID_VERSION:
        return refuse(refusal, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    case HPE_INVALID_METHOD:
        return refuse(refusal, 400, "not a method of HTTP");
    case HPE_INVALID_URL:
        return refuse(refusal, 400, "malformed request target");
    case HPE_UNEXPECTED_CONTENT_LENGTH:
        return refuse(refusal, 400, "a second Content-Length, or one beside Transfer-Encoding");
    case HPE_INVALID_CONTENT_LENGTH:
        return refuse(refusal, 400, "malformed Content-Length");
    case HPE_INVALID_TRANSFER_ENCODING:
        return refuse(refusal, 400, "unsupported Transfer-Encoding");
    case HPE_INVALID_HEADER_TOKEN:
        return refuse(refusal, 400, "malformed header field");
    default:
        return refuse(refusal, 400, "malformed request");
    }
}

/* One space on either side of the target, nothing else: llhttp lets more pass. */
static bool line_exact(const llhttp_t *parser, const uint8_t *line, size_t size, struct weir_slice target)
{
    const uint8_t *end = memchr(line, '\r', size);
    size_t method = strlen(llhttp_method_name(parser->method));
    return end && (size_t)(end - line) == method + 1 + target.size + sizeof(" HTTP/1.1") - 1;
}

/* llhttp takes RTSP and ICE for HTTP. */
static bool is_http(const uint8_t *line, size_t size)
{
    static const char version[] = " HTTP/1.";
    const uint8_t *end = memchr(line, '\r', size);
    return end && end - line > (ptrdiff_t)sizeof(version) &&
           memcmp(end - sizeof(version), version, sizeof(version) - 1) == 0;
}

/* Origin form, "*", or absolute form, whose authority is dropped (RFC 9112 section 3.2.2). */
static bool split_target(struct weir_slice target, struct weir_http_request *request)
{
    const char *at = target.data, *end = at + target.size;
    if (target.size >= 7 && weir_http_is((struct weir_slice){ at, 7 }, "http://")) {
        for (at += 7; at < end && *at != '/';)
            at++;
        if (at == end)
            return false;
    }
    bool star = end - at == 1 && *at == '*';
    if (at >= end || (*at != '/' && !star))
        return false;
    const char *question = memchr(at, '?', (size_t)(end - at));
    request->path = (struct weir_slice){ at, (size_t)((question ? question : end) - at) };
    request->query = (struct weir_slice){ end, 0 };
    if (question)
        request->query = (struct weir_slice){ question + 1, (size_t)(end - question - 1) };
    return memchr(at, '#', (size_t)(end - at)) == NULL;
}

static size_t count_of(const struct weir_http_request *request, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < request->header_count; i++)
        count += weir_http_is(request->headers[i].name, name);
    return count;
}

/* uri-host [":" port] of RFC 3986, by its characters. Empty is legal. */
static bool host_valid(struct weir_slice host)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%!$&'()*+,;=:[]";
    const char *at = host.data;
    for (size_t i = 0; i < host.size; i++) {
        if (at[i] == '\0' || !strchr(legal, at[i]))
            return false;
    }
    return true;
}

static bool host_judged(const struct weir_http_request *request, struct weir_http_refusal *refusal)
{
    size_t hosts = count_of(request, "host");
    if (hosts > 1)
        return refuse(refusal, 400, "more than one Host");
    if (hosts == 0 && !request->version_10)
        return refuse(refusal, 400, "no Host");
    if (hosts == 1 && !host_valid(weir_http_find(request, "host")->value))
        return refuse(refusal, 400, "malformed Host");
    return true;
}

/* What tells where the request ends, judged once more by ourselves: that is what smuggling is made of. */
static bool framing_judged(const struct weir_http_bounds *bounds, const llhttp_t *parser,
                           const struct weir_http_request *request, struct weir_http_framing *framing,
                           struct weir_http_refusal *refusal)
{
    size_t codings = count_of(request, "transfer-encoding"), lengths = count_of(request, "content-length");
    if (lengths > 1)
        return refuse(refusal, 400, "more than one Content-Length");
    if (codings > 0 && lengths > 0)
        return refuse(refusal, 400, "Content-Length beside Transfer-Encoding");
    if (codings > 0 && request->version_10)
        return refuse(refusal, 400, "Transfer-Encoding in HTTP/1.0");
    if (codings > 1 || (codings == 1 && !weir_http_is(weir_http_find(request, "transfer-encoding")->value, "chunked")))
        return refuse(refusal, 400, "unsupported Transfer-Encoding: only chunked is");
    if (lengths == 1 && parser->content_length > bounds->body_max)
        return refuse(refusal, 413, "the body is too long");
    framing->chunked = codings == 1;
    framing->body_size = lengths == 1 ? (size_t)parser->content_length : 0;
    return true;
}

static bool expectation_judged(const struct weir_http_request *request, struct weir_http_framing *framing,
                               struct weir_http_refusal *refusal)
{
    framing->expects_continue = false;
    if (request->version_10)
        return true; /* RFC 9110 section 10.1.1: ignored in HTTP/1.0 */
    for (size_t i = 0; i < request->header_count; i++) {
        if (!weir_http_is(request->headers[i].name, "expect"))
            continue;
        if (!weir_http_is(request->headers[i].value, "100-continue"))
            return refuse(refusal, 417, "only 100-continue can be expected");
        framing->expects_continue = framing->chunked || framing->body_size > 0;
    }
    return true;
}

/* Does any Connection field list that option (RFC 9110 section 7.6.1)? llhttp looks at the first of a list only. */
static bool connection_has(const struct weir_http_request *request, const char *option)
{
    for (size_t i = 0; i < request->header_count; i++) {
        const char *at = request->headers[i].value.data, *end = at + request->headers[i].value.size;
        if (!weir_http_is(request->headers[i].name, "connection"))
            continue;
        while (at < end) {
            const char *begin = at;
            while (at < end && !strchr(", \t", *at))
                at++;
            if (weir_http_is((struct weir_slice){ begin, (size_t)(at - begin) }, option))
                return true;
            at += at < end;
        }
    }
    return false;
}

/* RFC 9112 section 9.3: close wins. */
static bool keeps_alive(const struct weir_http_request *request)
{
    return !connection_has(request, "close") && (!request->version_10 || connection_has(request, "keep-alive"));
}

static void trim(struct weir_slice *value)
{
    const char *at = value->data;
    while (value->size && (at[value->size - 1] == ' ' || at[value->size - 1] == '\t'))
        value->size--;
}

static enum weir_http_method method_of(uint8_t method)
{
    switch (method) {
    case HTTP_GET:
        return WEIR_HTTP_GET;
    case HTTP_HEAD:
        return WEIR_HTTP_HEAD;
    case HTTP_POST:
        return WEIR_HTTP_POST;
    case HTTP_PUT:
        return WEIR_HTTP_PUT;
    case HTTP_DELETE:
        return WEIR_HTTP_DELETE;
    default:
        return WEIR_HTTP_OTHER;
    }
}

bool weir_http_head(const struct weir_http_bounds *bounds, const uint8_t *data, size_t size,
                    struct weir_http_request *ret_request, struct weir_http_framing *ret_framing,
                    struct weir_http_refusal *ret_refusal)
{
    struct head head = { .request = ret_request, .headers_max = bounds->headers_max };
    ret_request->header_count = 0;
    llhttp_t parser;
    llhttp_init(&parser, HTTP_REQUEST, &head_settings);
    parser.data = &head;
    llhttp_errno_t error = llhttp_execute(&parser, (const char *)data, size);
    if (!head.complete || error != HPE_PAUSED)
        return refuse_syntax(&parser, ret_refusal);
    for (size_t i = 0; i < ret_request->header_count; i++) {
        if (ret_request->headers[i].name.size == 0)
            return refuse(ret_refusal, 400, "a header field without a name");
        trim(&ret_request->headers[i].value);
    }
    ret_request->method = method_of(parser.method);
    ret_request->version_10 = parser.http_minor == 0;
    ret_request->body = (struct weir_slice){ .data = data + size };
    if (parser.http_major != 1 || !is_http(data, size))
        return refuse(ret_refusal, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    if (parser.method == HTTP_CONNECT)
        return refuse(ret_refusal, 400, "CONNECT is for proxies");
    if (head.target.size > bounds->target_max)
        return refuse(ret_refusal, 414, "the request target is too long");
    if (!line_exact(&parser, data, size, head.target) || !split_target(head.target, ret_request))
        return refuse(ret_refusal, 400, "malformed request target");
    ret_request->keep_alive = keeps_alive(ret_request);
    return host_judged(ret_request, ret_refusal) &&
           framing_judged(bounds, &parser, ret_request, ret_framing, ret_refusal) &&
           expectation_judged(ret_request, ret_framing, ret_refusal);
}
