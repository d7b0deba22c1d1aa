/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends bytes to an HTTP or HTTPS server with POST, one request after another over one connection where that stays
 * open, and waits for each answer. The small interface behind which libcurl stands, so that a program that sends
 * nothing need not have it (modules/module.h).
 *
 * Nothing is followed (redirects are answers like others), no proxy is asked, and certificates are checked against
 * the system's.
 *
 * Bounds: an answer is read up to WEIR_POST_ANSWER_MAX bytes, the rest is dropped; `send` ends with its time.
 * Thread rule: one thread at a time for each object. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "weir/error.h"

#define WEIR_POST_URL_MAX 255
#define WEIR_POST_ANSWER_MAX 4096

struct weir_post_answer {
    int status;              /* 100 to 599 */
    uint64_t retry_after_ns; /* Retry-After; 0: there was none */
    size_t size;
    uint8_t body[WEIR_POST_ANSWER_MAX];
};

struct weir_post;

struct weir_post_ops {
    /* WEIR_EDOWN: no answer came, the fault says why. The server may have got the bytes all the same. WEIR_ENOMEM. */
    int (*send)(struct weir_post *post, const void *body, size_t size, uint64_t timeout_ns,
                struct weir_post_answer *ret_answer, struct weir_fault *ret_fault);
    void (*close)(struct weir_post *post);
};

struct weir_post {
    const struct weir_post_ops *ops;
};

/* http://HOST:PORT/PATH or https://…: nothing is sent yet. WEIR_EINVAL: it is no such URL, or what would send is not
 * there; the fault says which. WEIR_ENOMEM. */
int weir_post_open(const char *url, const char *content_type, struct weir_post **ret_post,
                   struct weir_fault *ret_fault);
