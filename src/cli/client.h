/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP call to a running server, and its answer: connect, ask, read to the end. Blocking, with one deadline over
 * all of it; over TCP, TLS (the server's certificate is always checked) or a Unix socket. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define WEIR_CLIENT_ANSWER_MAX ((size_t)64 << 20) /* GET /v1/limits of the most limits there can be fits */
#define WEIR_CLIENT_HEAD_MAX ((size_t)1 << 20)

struct weir_client_options {
    const char *server;  /* HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:/path */
    const char *ca_file; /* whom to trust over https; NULL = the system's authorities */
    const char *token;   /* NULL = none */
    uint64_t timeout_ns; /* for everything together */
};

struct weir_client_answer {
    int status;
    char *body; /* ended by a NUL; free() it */
    size_t size;
};

/* WEIR_EINVAL (no such address), WEIR_EIO (no connection, no answer in time), WEIR_EPROTO (no HTTP), WEIR_ELIMIT (more
 * than WEIR_CLIENT_ANSWER_MAX, or a head above WEIR_CLIENT_HEAD_MAX), WEIR_ENOMEM. `problem` says what, for people. */
int weir_client_post(const struct weir_client_options *options, const char *path, const char *body,
                     struct weir_client_answer *ret_answer, char *problem, size_t problem_size);
int weir_client_get(const struct weir_client_options *options, const char *path, struct weir_client_answer *ret_answer,
                    char *problem, size_t problem_size);
