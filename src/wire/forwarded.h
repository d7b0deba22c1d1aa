/* SPDX-License-Identifier: Apache-2.0
 *
 * The attributes in a question that a proxy asks about its client's request (GET /v1/auth). Three sources, the first of
 * which wins where they name the same attribute: the query string, which only the proxy's configuration writes;
 * X-Weir-<Name> fields; the fields that proxies send by themselves. docs/http.md has the table.
 *
 * Thread rule: plain values. */
#ifndef WEIR_WIRE_FORWARDED_H
#define WEIR_WIRE_FORWARDED_H

#include "wire/http.h"
#include "wire/text.h"

#define WEIR_FORWARDED_MAX 64                      /* attributes; more is 400 */
#define WEIR_FORWARDED_TEXT_MAX ((size_t)64 << 10) /* of what had to be decoded; more is 431 */

struct weir_forwarded_attribute {
    struct weir_slice name;
    struct weir_slice value;
};

/* Slices point into the request or into `text`. */
struct weir_forwarded {
    size_t count;
    struct weir_forwarded_attribute attributes[WEIR_FORWARDED_MAX];
    int refused; /* the status that stands for a refusal: 429, or 403 by ?deny=403 */
    uint8_t text[WEIR_FORWARDED_TEXT_MAX];
};

/* `skip_authorization`: that field told who asks, it is no attribute. False: it is none, see the refusal. */
bool weir_forwarded_read(const struct weir_http_request *request, bool skip_authorization,
                         struct weir_forwarded *ret_forwarded, struct weir_http_refusal *ret_refusal);

#endif
