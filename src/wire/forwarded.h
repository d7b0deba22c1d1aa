/* SPDX-License-Identifier: Apache-2.0
 *
 * The attributes in a question that a proxy asks about its client's request (GET /v1/auth).
 *
 * Five names are reserved: route, method, ip and cost are said by the fields of one stated proxy alone, authorization
 * by the field Authorization alone, so that what the proxy knows and what its client claims never compete.
 * Every other attribute comes from the query string, or from an X-Weir-<Name> field where that does not name it.
 * docs/http.md has the table.
 *
 * Thread rule: plain values. */
#pragma once

#include "wire/http.h"
#include "wire/path.h"
#include "wire/text.h"

#define WEIR_FORWARDED_MAX 64                      /* attributes; more is 400 */
#define WEIR_FORWARDED_TEXT_MAX ((size_t)64 << 10) /* of what had to be decoded; more is 431 */

/* Whose fields say route, method and address. */
enum weir_forwarded_source {
    WEIR_FORWARDED_NONE, /* nobody's: such questions are not answered */
    WEIR_FORWARDED_NGINX,
    WEIR_FORWARDED_TRAEFIK,
    WEIR_FORWARDED_CADDY,
    WEIR_FORWARDED_HAPROXY,
};

const char *weir_forwarded_source_name(enum weir_forwarded_source source); /* "nginx", as in the file */

struct weir_forwarded_options {
    enum weir_forwarded_source source; /* not NONE */
    enum weir_path_rule path;
    bool skip_authorization; /* that field told who asks: it is no attribute */
};

struct weir_forwarded_attribute {
    struct weir_slice name;
    struct weir_slice value;
};

/* Slices point into the request or into `text`. */
struct weir_forwarded {
    size_t count;
    struct weir_forwarded_attribute attributes[WEIR_FORWARDED_MAX];
    int refused;    /* the status that stands for a refusal: 429, or 403 by ?deny=403 */
    size_t ignored; /* claims of a reserved name by what does not say it */
    uint8_t text[WEIR_FORWARDED_TEXT_MAX];
};

/* False: it is none, see the refusal, whose text is one of ours that stays: nothing of the request is in it. */
bool weir_forwarded_read(const struct weir_http_request *request, const struct weir_forwarded_options *options,
                         struct weir_forwarded *ret_forwarded, struct weir_http_refusal *ret_refusal);
