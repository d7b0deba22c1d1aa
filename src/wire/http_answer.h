/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 answers: the head, as text. A verdict must not be cached (RFC 6585 section 4), so no answer is.
 *
 * Thread rule: plain values. */
#ifndef WEIR_WIRE_HTTP_ANSWER_H
#define WEIR_WIRE_HTTP_ANSWER_H

#include "wire/text.h"

#define WEIR_HTTP_CONTINUE_TEXT "HTTP/1.1 100 Continue\r\n\r\n"

struct weir_http_answer {
    int status;
    const char *content_type; /* NULL: there is no body */
    size_t content_length;
    bool keep_alive;  /* another answer follows on this connection */
    bool version_10;  /* asked in HTTP/1.0, where keeping is what must be said */
    uint64_t wall_ns; /* for Date */
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

#endif
