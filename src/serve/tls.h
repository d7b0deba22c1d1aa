/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS 1.2 and 1.3 under all protocols, by OpenSSL on the connection's own non-blocking descriptor. */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/types.h>

#include "weir/error.h"

/* A context for the certificate chain and key in two PEM files. WEIR_EINVAL: they cannot be read or do not fit together
 * (the fault says which and why). */
int weir_tls_create(const char *certificate_file, const char *key_file, SSL_CTX **ret_context,
                    struct weir_fault *ret_fault);

/* The server's end of a connection; NULL when memory is out. `alpn`: as of struct weir_protocol. */
SSL *weir_tls_accept(SSL_CTX *context, int fd, const char *alpn);

/* As recv and send: bytes, 0 at the orderly end (recv), or -1 and errno: EAGAIN when the socket must be waited for
 * (*ret_wants_write: for room to send rather than for bytes), else EIO. */
ssize_t weir_tls_recv(SSL *ssl, void *data, size_t size, bool *ret_wants_write);
ssize_t weir_tls_send(SSL *ssl, const void *data, size_t size);

/* Says that nothing more will come from us. */
void weir_tls_shutdown(SSL *ssl);
