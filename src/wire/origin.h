/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a request was made by a web page that is none of ours. A browser sends a page's requests to any address,
 * loopback included, and says in Origin and Sec-Fetch-Site where the page is from; a page whose name was made to point
 * here (DNS rebinding) shows in Host.
 *
 * What it decides: foreign or not. What it does not: who may call (serve/auth.h); programs can send any field.
 *
 * Thread rule: plain values. Sources: RFC 6454 (Origin), W3C Fetch Metadata, RFC 9110 section 7.2 (Host). */
#pragma once

#include "wire/http.h"

/* An Origin that is not this server's (its scheme's host and port are not those of Host; "null" never is), or a
 * Sec-Fetch-Site of cross-site or same-site. */
bool weir_origin_foreign(const struct weir_http_request *request);

/* Host is an IP address, localhost, or one of `names` (in any case), with or without a port; or there is none, as in
 * HTTP/1.0. */
bool weir_origin_host_ours(const struct weir_http_request *request, const char *const *names, size_t count);
