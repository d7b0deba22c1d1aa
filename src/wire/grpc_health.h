/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of grpc.health.v1. Thread rule: plain values. */
#pragma once

#include "weir/limiter.h"

/* The numbers are the protocol's. */
enum weir_grpc_serving {
    WEIR_GRPC_SERVING = 1,
    WEIR_GRPC_NOT_SERVING = 2,
    WEIR_GRPC_SERVICE_UNKNOWN = 3, /* of Watch; Check says NOT_FOUND */
};

#define WEIR_GRPC_HEALTH_MAX 16    /* bytes of an answer, at most */
#define WEIR_GRPC_SERVICE_MAX 1024 /* of a name; no service has a longer one */

/* The name that is asked for, cut to fit, with a NUL at its end; "" is the server. WEIR_EPROTO: it is no such
 * message. */
int weir_grpc_health_read(const uint8_t *data, size_t size, char ret_service[WEIR_GRPC_SERVICE_MAX]);

/* Whether one of this name is served. */
bool weir_grpc_health_knows(const char *service);

size_t weir_grpc_health_write(enum weir_grpc_serving status, uint8_t buffer[WEIR_GRPC_HEALTH_MAX]);
