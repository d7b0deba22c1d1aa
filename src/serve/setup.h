/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that a reload replaces, as one immutable thing: a loop holds one pointer to it and moves to the next one
 * between two turns, so no request ever sees half of a reload. The old one is freed when every loop has moved on. */
#ifndef WEIR_SERVE_SETUP_H
#define WEIR_SERVE_SETUP_H

#include <openssl/ssl.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/auth.h"

struct weir_rules; /* rules/rules.h */

/* Bounds on everything that a client can make grow, and what happens at each. */
struct weir_bounds {
    size_t connections_max;     /* of the whole server; one more is told so and closed */
    size_t input_max;           /* bytes of one connection not yet understood; then on_overdue(too_large), closed */
    size_t output_max;          /* bytes of one connection not yet taken by the client; then nothing more is read */
    uint64_t request_timeout_ms; /* from the first byte of a request (or of a TLS handshake) to its last; closed */
    uint64_t output_timeout_ms; /* a client that takes none of its answers for so long is closed */
    uint64_t resp_idle_ms;      /* a connection without a request for so long is closed; 0 = never */
    uint64_t http_idle_ms;
    uint64_t drain_timeout_ms;  /* after SIGTERM: what is not answered by then is closed */
};
#define WEIR_BOUNDS_DEFAULT                                                                                            \
    {                                                                                                                  \
        .connections_max = 10000, .input_max = (size_t)1 << 20, .output_max = (size_t)1 << 20,                         \
        .request_timeout_ms = 10000, .output_timeout_ms = 30000, .resp_idle_ms = 0, .http_idle_ms = 75000,             \
        .drain_timeout_ms = 10000                                                                                      \
    }

struct weir_setup {
    struct weir_bounds bounds;
    struct weir_auth auth;
    SSL_CTX *tls; /* NULL = plain */
    const struct weir_rules *rules;
};

#endif
