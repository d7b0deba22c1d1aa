/* SPDX-License-Identifier: Apache-2.0
 *
 * What of gRPC needs libnghttp2 and protobuf-c, as a table: a program has it from a module, which it loads where a
 * configuration names a gRPC listener (modules/module.h). Tests and fuzz targets link weir_grpc_library itself. The
 * functions are those of the same names in h2.h, grpc_health.h, grpc_reflection.h and envoy_proto.h. */
#pragma once

#include "wire/envoy_proto.h"
#include "wire/grpc_health.h"
#include "wire/grpc_reflection.h"
#include "wire/h2.h"

struct weir_grpc_library {
    int (*h2_create)(const struct weir_h2_bounds *bounds, const struct weir_h2_owner *owner, void *context,
                     struct weir_h2 **ret_h2);
    void (*h2_destroy)(struct weir_h2 *h2);
    int (*h2_take)(struct weir_h2 *h2, const uint8_t *data, size_t size, uint64_t now_ns);
    size_t (*h2_output)(struct weir_h2 *h2, const uint8_t **ret_data);
    bool (*h2_is_over)(const struct weir_h2 *h2);
    size_t (*h2_calls)(const struct weir_h2 *h2);
    size_t (*h2_kept)(const struct weir_h2 *h2);
    void (*h2_leave)(struct weir_h2 *h2, bool last);
    void (*h2_send)(struct weir_h2_call *call, const void *message, size_t size);
    void (*h2_finish)(struct weir_h2_call *call, enum weir_grpc_status status, const char *text);
    int (*health_read)(const uint8_t *data, size_t size, char ret_service[WEIR_GRPC_SERVICE_MAX]);
    bool (*health_knows)(const char *service);
    size_t (*health_write)(enum weir_grpc_serving status, uint8_t buffer[WEIR_GRPC_HEALTH_MAX]);
    int (*envoy_read)(const uint8_t *data, size_t size, void *block, struct weir_envoy_request *ret_request,
                      struct weir_fault *ret_fault);
    size_t (*envoy_write)(const struct weir_envoy_answer *answer, uint8_t *buffer);
    size_t (*reflection_answer)(const uint8_t *data, size_t size, uint8_t buffer[WEIR_GRPC_REFLECTION_MAX]);
};

extern const struct weir_grpc_library weir_grpc_library;
