/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings and errors of OpenSSL: TLS 1.2 takes ciphers with forward secrecy only, ALPN selects the listener's
 * protocol, an idle connection gives its buffers back, and a failed read or write becomes an errno as of recv and send.
 * Called by setup.c (certificate), conn.c (accept) and conn_socket.c (bytes); TLS towards the engine is in
 * net/redis_tls.c. */
#include "serve/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <stdio.h>

#include "base/regular.h"

#define CIPHERS_TLS_12 "ECDHE+AESGCM:ECDHE+CHACHA20" /* forward secret and authenticated; all others are refused */

static void explain(struct weir_fault *fault, const char *field, const char *file)
{
    char reason[80];
    ERR_error_string_n(ERR_peek_last_error(), reason, sizeof(reason));
    ERR_clear_error();
    if (!fault)
        return;
    snprintf(fault->field, sizeof(fault->field), "%s", field);
    snprintf(fault->text, sizeof(fault->text), "%.70s: %s", file, reason);
}

/* Browsers and curl offer h2 first: say plainly that it is http/1.1. RESP clients offer nothing. Who offers something
 * else where gRPC is served is told that it is not (RFC 7301, 3.2). */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_size, const unsigned char *in,
                           unsigned in_size, void *arg)
{
    const char *alpn = SSL_get_app_data(ssl);
    const unsigned char *ours = (const unsigned char *)(alpn ? alpn : "\x08http/1.1");
    unsigned char *chosen = NULL;
    (void)arg;
    if (SSL_select_next_proto(&chosen, out_size, ours, ours[0] + 1U, in, in_size) != OPENSSL_NPN_NEGOTIATED)
        return alpn ? SSL_TLSEXT_ERR_ALERT_FATAL : SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static bool is_regular(const char *field, const char *file, struct weir_fault *ret_fault)
{
    const char *why = weir_regular_fault(file);
    if (why && ret_fault) {
        snprintf(ret_fault->field, sizeof(ret_fault->field), "%s", field);
        snprintf(ret_fault->text, sizeof(ret_fault->text), "%.70s: %s", file, why);
    }
    return !why;
}

static int load(SSL_CTX *context, const char *certificate_file, const char *key_file, struct weir_fault *ret_fault)
{
    ERR_clear_error();
    if (!is_regular("tls.cert", certificate_file, ret_fault) || !is_regular("tls.key", key_file, ret_fault))
        return WEIR_EINVAL;
    if (SSL_CTX_use_certificate_chain_file(context, certificate_file) != 1) {
        explain(ret_fault, "tls.cert", certificate_file);
        return WEIR_EINVAL;
    }
    if (SSL_CTX_use_PrivateKey_file(context, key_file, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1) {
        explain(ret_fault, "tls.key", key_file);
        return WEIR_EINVAL;
    }
    return 0;
}

int weir_tls_create(const char *certificate_file, const char *key_file, SSL_CTX **ret_context,
                    struct weir_fault *ret_fault)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context)
        return WEIR_ENOMEM;
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    /* With TLS 1.2 too, whoever learns the key later cannot read what was said. TLS 1.3 has no other. */
    if (SSL_CTX_set_cipher_list(context, CIPHERS_TLS_12) != 1) {
        SSL_CTX_free(context);
        return WEIR_ENOMEM;
    }
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_COMPRESSION);
    /* The output buffer may move between two tries to send, and unused record buffers are given back: thousands of
     * idle connections would else hold 34 KiB each. */
    SSL_CTX_set_mode(context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);

    int error = load(context, certificate_file, key_file, ret_fault);
    if (error) {
        SSL_CTX_free(context);
        return error;
    }
    *ret_context = context;
    return 0;
}

SSL *weir_tls_accept(SSL_CTX *context, int fd, const char *alpn)
{
    SSL *ssl = SSL_new(context);
    if (!ssl)
        return NULL;
    if (SSL_set_fd(ssl, fd) != 1 || SSL_set_app_data(ssl, (char *)(uintptr_t)alpn) != 1) {
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_accept_state(ssl);
    return ssl;
}

static ssize_t failed(SSL *ssl, int result, bool *ret_wants_write)
{
    int error = SSL_get_error(ssl, result);
    ERR_clear_error();
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    *ret_wants_write = error == SSL_ERROR_WANT_WRITE;
    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EIO;
    return -1;
}

ssize_t weir_tls_recv(SSL *ssl, void *data, size_t size, bool *ret_wants_write)
{
    *ret_wants_write = false;
    int got = SSL_read(ssl, data, size < INT_MAX ? (int)size : INT_MAX);
    return got > 0 ? got : failed(ssl, got, ret_wants_write);
}

ssize_t weir_tls_send(SSL *ssl, const void *data, size_t size)
{
    bool wants_write;
    int sent = SSL_write(ssl, data, size < INT_MAX ? (int)size : INT_MAX);
    if (sent > 0)
        return sent;
    ssize_t result = failed(ssl, sent, &wants_write);
    if (result == 0) { /* the client has said goodbye: nobody takes our answer any more */
        errno = EIO;
        return -1;
    }
    return result;
}

void weir_tls_shutdown(SSL *ssl)
{
    if (SSL_is_init_finished(ssl))
        (void)SSL_shutdown(ssl);
    ERR_clear_error();
}
