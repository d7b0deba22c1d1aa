/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes, cut anywhere, to an HTTP connection that may do everything: every path of it stays inside its memory and
 * bounds, whatever the proxy's fields say. */
#include "serve/http.h"
#include "serve_alone.h"

SERVE_ALONE_TARGET(weir_http_protocol, "listen: { http: { address: 127.0.0.1:8080, forwarded: nginx } }\n")
