/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of OpenSSL. Where it must read or write first, the caller gets EAGAIN; where it fails, its error queue
 * becomes a text. A name that is an IP address must be an address of the certificate; any other must be a host of it,
 * and is sent as SNI. Called by limits/redis/redis.c, which makes one context per engine, and by redis_link.c, which
 * makes one SSL per connection. */
#include "net/redis_tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>

#include "base/fault_format.h"
#include "base/regular.h"

static void last_reason(char *text, size_t size)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    snprintf(text, size, "%s", reason ? reason : "the connection ended");
    ERR_clear_error();
}

int weir_redis_tls_create(const char *ca_file, SSL_CTX **ret_context, struct weir_fault *ret_fault)
{
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!context)
        return WEIR_ENOMEM;
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    const char *why = ca_file ? weir_regular_fault(ca_file) : NULL;
    int trusted = 0;
    if (!why)
        trusted = ca_file ? SSL_CTX_load_verify_file(context, ca_file) : SSL_CTX_set_default_verify_paths(context);
    if (trusted == 1) {
        *ret_context = context;
        return 0;
    }
    char reason[80];
    last_reason(reason, sizeof reason);
    SSL_CTX_free(context);
    return weir_fault_format(ret_fault, WEIR_EIO, "tls_ca_file", "%.70s: %s", ca_file ? ca_file : "the system's",
                             why ? why : reason);
}

/* The certificate must name what was asked for; SNI is for names only (RFC 6066, 3). */
static bool expect(SSL *ssl, const char *name)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1)
        return true;
    ERR_clear_error();
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    char copy[256]; /* OpenSSL's macro takes no const */
    int size = snprintf(copy, sizeof copy, "%s", name);
    return size < (int)sizeof copy && SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, copy) == 1;
}

SSL *weir_redis_tls_connect(SSL_CTX *context, int fd, const char *name)
{
    SSL *ssl = SSL_new(context);
    if (!ssl)
        return NULL;
    if (SSL_set_fd(ssl, fd) != 1 || !expect(ssl, name)) {
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_connect_state(ssl);
    return ssl;
}

/* -1 and errno, or 0 at the orderly end. */
static int failed(SSL *ssl, int result, bool *ret_wants_write)
{
    int error = SSL_get_error(ssl, result);
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    if (ret_wants_write)
        *ret_wants_write = error == SSL_ERROR_WANT_WRITE;
    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EIO;
    return -1;
}

int weir_redis_tls_handshake(SSL *ssl, bool *ret_wants_write)
{
    ERR_clear_error();
    *ret_wants_write = false;
    int result = SSL_do_handshake(ssl);
    if (result == 1)
        return 0;
    if (failed(ssl, result, ret_wants_write) == 0)
        errno = EIO; /* it said goodbye instead */
    return -1;
}

ssize_t weir_redis_tls_recv(SSL *ssl, void *data, size_t size)
{
    ERR_clear_error();
    int got = SSL_read(ssl, data, size < INT_MAX ? (int)size : INT_MAX);
    return got > 0 ? got : failed(ssl, got, NULL);
}

ssize_t weir_redis_tls_send(SSL *ssl, const void *data, size_t size)
{
    ERR_clear_error();
    int sent = SSL_write(ssl, data, size < INT_MAX ? (int)size : INT_MAX);
    if (sent > 0)
        return sent;
    if (failed(ssl, sent, NULL) == 0)
        errno = EIO;
    return -1;
}

void weir_redis_tls_explain(SSL *ssl, char *text, size_t size)
{
    long verified = SSL_get_verify_result(ssl);
    char reason[96];
    last_reason(reason, sizeof reason);
    if (verified != X509_V_OK)
        snprintf(text, size, "its certificate is refused: %s", X509_verify_cert_error_string(verified));
    else
        snprintf(text, size, "no TLS with it (is TLS offered there?): %s", reason);
}
