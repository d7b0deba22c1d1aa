/* SPDX-License-Identifier: Apache-2.0
 *
 * gRPC over HTTP/2, as far as it is text and bytes: status codes, grpc-timeout, grpc-message, and the five bytes before
 * each message. Source: "gRPC over HTTP2" of the gRPC project (PROTOCOL-HTTP2).
 *
 * Thread rule: plain values. */
#pragma once

#include "weir/limiter.h"
#include "wire/text.h"

/* The numbers are the protocol's. */
#define WEIR_GRPC_STATUS_LIST(X)                                                                                       \
    X(OK, "OK")                                                                                                        \
    X(CANCELLED, "CANCELLED")                                                                                          \
    X(UNKNOWN, "UNKNOWN")                                                                                              \
    X(INVALID_ARGUMENT, "INVALID_ARGUMENT")                                                                            \
    X(DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")                                                                          \
    X(NOT_FOUND, "NOT_FOUND")                                                                                          \
    X(ALREADY_EXISTS, "ALREADY_EXISTS")                                                                                \
    X(PERMISSION_DENIED, "PERMISSION_DENIED")                                                                          \
    X(RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED")                                                                        \
    X(FAILED_PRECONDITION, "FAILED_PRECONDITION")                                                                      \
    X(ABORTED, "ABORTED")                                                                                              \
    X(OUT_OF_RANGE, "OUT_OF_RANGE")                                                                                    \
    X(UNIMPLEMENTED, "UNIMPLEMENTED")                                                                                  \
    X(INTERNAL, "INTERNAL")                                                                                            \
    X(UNAVAILABLE, "UNAVAILABLE")                                                                                      \
    X(DATA_LOSS, "DATA_LOSS")                                                                                          \
    X(UNAUTHENTICATED, "UNAUTHENTICATED")

enum weir_grpc_status {
#define WEIR_GRPC_STATUS_ENUM(name, text) WEIR_GRPC_##name,
    WEIR_GRPC_STATUS_LIST(WEIR_GRPC_STATUS_ENUM)
#undef WEIR_GRPC_STATUS_ENUM
        WEIR_GRPC_STATUSES
};

const char *weir_grpc_status_name(enum weir_grpc_status status);

/* One to eight digits and H, M, S, m, u or n: "20m" is 20 ms. False: it is none. */
bool weir_grpc_timeout_parse(struct weir_slice text, uint64_t *ret_ns);

/* Percent-encoded: all but printable ASCII, and '%'. At most 3 times the length. */
void weir_grpc_message(struct weir_text *text, const char *message);

/* Before each message: whether it is compressed, and its length, the biggest byte first. */
#define WEIR_GRPC_HEAD_SIZE 5
struct weir_grpc_head {
    uint8_t flags; /* 1: compressed; other bits have no meaning */
    uint32_t size;
};
struct weir_grpc_head weir_grpc_head_get(const uint8_t bytes[WEIR_GRPC_HEAD_SIZE]);
void weir_grpc_head_put(uint8_t bytes[WEIR_GRPC_HEAD_SIZE], size_t size); /* of one that is not compressed */

/* Whether a content-type is gRPC's: "application/grpc", and what may follow it. */
bool weir_grpc_is_content(struct weir_slice content_type);
