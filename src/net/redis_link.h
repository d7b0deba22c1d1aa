/* SPDX-License-Identifier: Apache-2.0
 *
 * One attempt at one connection to one server, plain or TLS, and then the bytes on it: looked up, connected to, shaken
 * hands with, read and written without ever blocking the loop (a look-up of a name runs on libuv's threads). A link
 * that broke is closed by its owner and another one is opened.
 *
 * Thread rule: the loop's thread. The owner is called back only from the loop, never from within a call of its own. */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct weir_redis_link;

struct weir_redis_link_owner {
    void (*opened)(void *context);
    void (*heard)(void *context, const char *data, size_t size); /* may close the link */
    void (*writable)(void *context);                             /* after a send that took less than all */
    void (*broken)(void *context, const char *why);              /* once; the link must still be closed */
    void *context;
};

/* Where to; the texts stay alive as long as the link. */
struct weir_redis_place {
    const char *host;
    uint16_t port;
    const char *path;     /* not empty: a Unix socket */
    SSL_CTX *tls;         /* NULL = plain */
    const char *tls_name; /* that the certificate must be for */
};

/* WEIR_ENOMEM, WEIR_EIO. */
int weir_redis_link_open(uv_loop_t *loop, const struct weir_redis_place *place,
                         const struct weir_redis_link_owner *owner, struct weir_redis_link **ret_link);

/* How many bytes were taken: fewer than `size` when the socket is full (writable is called when it no longer is) or
 * broken (broken is called). Only after opened. */
size_t weir_redis_link_send(struct weir_redis_link *link, const char *data, size_t size);

/* It is connected, and the other side has not taken part in TLS yet. NULL is allowed. */
bool weir_redis_link_shakes_hands(const struct weir_redis_link *link);

/* The owner hears nothing more; the memory goes in a later turn. NULL is allowed. */
void weir_redis_link_close(struct weir_redis_link *link);
