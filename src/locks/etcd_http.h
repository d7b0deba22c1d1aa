/* SPDX-License-Identifier: Apache-2.0
 *
 * etcd's JSON gateway: several calls under way at once, each a POST with a JSON body. Source: the gRPC gateway of etcd
 * 3.4, paths /v3/… Keys and values are base64 there, 64-bit integers are strings.
 *
 * Thread rule: one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "locks/open.h"

#define WEIR_ETCD_ANSWER_MAX ((size_t)1 << 20)

struct weir_etcd_http;

struct weir_etcd_call {
    /* afterwards */
    int status;     /* 0: answered, see `answer`; WEIR_EDOWN: certainly not done; WEIR_EUNKNOWN: done or not */
    bool not_found; /* with WEIR_EDOWN: etcd does not know the lease */
    json_t *answer; /* of status 0; the caller's: json_decref */
    void *context;
    /* the client's own */
    void *easy;
    char *body;
    size_t body_size;
    char *text;
    size_t text_size;
    bool busy;
    bool not_now; /* failed precondition */
    const char *path;
    uint64_t deadline_ns;
    size_t endpoint, tried;
};

/* WEIR_ENOMEM; WEIR_EINVAL for an endpoint that is not http:// or https://. */
int weir_etcd_http_create(const struct weir_lock_etcd_options *options, struct weir_etcd_http **ret_http,
                          struct weir_fault *ret_fault);
void weir_etcd_http_destroy(struct weir_etcd_http *http);

/* Starts a call; takes over `body` (NULL, out of memory, ends in WEIR_EDOWN); `path` is a literal. An endpoint to which
 * nothing could be sent is left for the next, for this call too. It ends at the deadline (CLOCK_MONOTONIC)
 * at the latest, through weir_etcd_http_next. */
void weir_etcd_http_start(struct weir_etcd_http *http, struct weir_etcd_call *call, const char *path, json_t *body,
                          uint64_t deadline_ns);

/* The next call that has ended; blocks. NULL: none is under way. */
struct weir_etcd_call *weir_etcd_http_next(struct weir_etcd_http *http);

/* Why the last call that failed did, for people. */
const char *weir_etcd_http_fault(const struct weir_etcd_http *http);

/* ---- values ---- */

/* A JSON string with the base64 of the bytes; NULL: out of memory. */
json_t *weir_etcd_bytes(const void *data, size_t size);
/* Decodes one into `buffer`; its size, or SIZE_MAX where it is none or does not fit. */
size_t weir_etcd_bytes_get(const json_t *value, char *buffer, size_t room);
/* A 64-bit integer that is a string, or a number; 0 where there is none (the gateway leaves zeros out). */
int64_t weir_etcd_integer(const json_t *object, const char *name);
