/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's end of TLS 1.2 and 1.3, by OpenSSL on a non-blocking descriptor: the server's certificate must lead to a
 * trusted one and be for the name asked. */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/types.h>

#include "weir/error.h"

/* `ca_file`: PEM; NULL = the system's. WEIR_EIO: it cannot be read (the fault says why). WEIR_ENOMEM. */
int weir_redis_tls_create(const char *ca_file, SSL_CTX **ret_context, struct weir_fault *ret_fault);

/* `name`: a host's name or an IP address, for the certificate and (a name) SNI. NULL when memory is out. */
SSL *weir_redis_tls_connect(SSL_CTX *context, int fd, const char *name);

/* 0: done. -1 and errno: EAGAIN (*ret_wants_write: the socket must take bytes first), or EIO: explain says why. */
int weir_redis_tls_handshake(SSL *ssl, bool *ret_wants_write);

/* After it, as recv and send: bytes, 0 at the end (recv), or -1 and errno: EAGAIN or EIO. */
ssize_t weir_redis_tls_recv(SSL *ssl, void *data, size_t size);
ssize_t weir_redis_tls_send(SSL *ssl, const void *data, size_t size);

/* Why the handshake failed, for people. */
void weir_redis_tls_explain(SSL *ssl, char *text, size_t size);
