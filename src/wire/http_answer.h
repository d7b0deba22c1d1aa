/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 answers: the head, as text. A verdict must not be cached (RFC 6585 section 4), so no
 * answer is that does not say for how long.
 *
 * Thread rule: plain values. */
#pragma once

#include "wire/text.h"

#define WEIR_HTTP_CONTINUE_TEXT "HTTP/1.1 100 Continue\r\n\r\n"

/* Every status that weir answers with: X(status, reason). */
#define WEIR_HTTP_STATUS_LIST(X)                                                                                       \
    X(200, "OK")                                                                                                       \
    X(308, "Permanent Redirect")                                                                                       \
    X(400, "Bad Request")                                                                                              \
    X(401, "Unauthorized")                                                                                             \
    X(403, "Forbidden")                                                                                                \
    X(404, "Not Found")                                                                                                \
    X(405, "Method Not Allowed")                                                                                       \
    X(408, "Request Timeout")                                                                                          \
    X(409, "Conflict")                                                                                                 \
    X(412, "Precondition Failed")                                                                                      \
    X(413, "Content Too Large")                                                                                        \
    X(414, "URI Too Long")                                                                                             \
    X(417, "Expectation Failed")                                                                                       \
    X(428, "Precondition Required")                                                                                    \
    X(429, "Too Many Requests")                                                                                        \
    X(431, "Request Header Fields Too Large")                                                                          \
    X(500, "Internal Server Error")                                                                                    \
    X(503, "Service Unavailable")                                                                                      \
    X(504, "Gateway Timeout")                                                                                          \
    X(505, "HTTP Version Not Supported")

enum weir_http_status {
#define WEIR_HTTP_STATUS_ENUM(status, reason) WEIR_HTTP_STATUS_##status,
    WEIR_HTTP_STATUS_LIST(WEIR_HTTP_STATUS_ENUM)
#undef WEIR_HTTP_STATUS_ENUM
        WEIR_HTTP_STATUSES
};

/* WEIR_HTTP_STATUSES for one that is not in the list. */
enum weir_http_status weir_http_status_of(int status);
int weir_http_status_code(enum weir_http_status status);

struct weir_http_answer {
    int status;
    const char *content_type; /* NULL: there is no body */
    size_t content_length;
    unsigned max_age_s; /* for how long caches may keep it; 0: not at all */
    bool streams;       /* its length is not known: it ends with the connection */
    bool keep_alive;    /* another answer follows on this connection */
    bool version_10;    /* asked in HTTP/1.0, where keeping is what must be said */
    uint64_t wall_ns;   /* for Date */
};

/* Status line and the fields that every answer has. The caller adds its own fields, each with CRLF, and ends the head
 * with an empty line. At most WEIR_HTTP_ANSWER_HEAD_MAX bytes. */
#define WEIR_HTTP_ANSWER_HEAD_MAX 320
void weir_http_answer_head(struct weir_text *text, const struct weir_http_answer *answer);

/* "Too Many Requests"; "Unknown" for a status that weir does not send. */
const char *weir_http_reason(int status);

/* A problem detail (RFC 9457) as a whole body: type about:blank, title by status. At most WEIR_HTTP_PROBLEM_MAX bytes
 * beside 6 times the length of `detail`. */
#define WEIR_HTTP_PROBLEM_MAX 160
void weir_http_problem(struct weir_text *text, int status, const char *detail);
