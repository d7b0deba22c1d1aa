/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 on the frame: POST /v1/check, GET /v1/auth, /healthz, /readyz, /metrics. docs/http.md says what they do. */
#ifndef WEIR_SERVE_HTTP_H
#define WEIR_SERVE_HTTP_H

#include "serve/protocol.h"

extern const struct weir_protocol weir_http_protocol;

#endif
