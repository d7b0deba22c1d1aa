/* SPDX-License-Identifier: Apache-2.0
 *
 * The table itself. modules/grpc.c hands it to the program. */
#include "wire/grpc_library.h"

const struct weir_grpc_library weir_grpc_library = {
    .h2_create = weir_h2_create,
    .h2_destroy = weir_h2_destroy,
    .h2_take = weir_h2_take,
    .h2_output = weir_h2_output,
    .h2_is_over = weir_h2_is_over,
    .h2_calls = weir_h2_calls,
    .h2_kept = weir_h2_kept,
    .h2_leave = weir_h2_leave,
    .h2_send = weir_h2_send,
    .h2_finish = weir_h2_finish,
    .health_read = weir_grpc_health_read,
    .health_knows = weir_grpc_health_knows,
    .health_write = weir_grpc_health_write,
    .envoy_read = weir_envoy_read,
    .envoy_write = weir_envoy_write,
    .reflection_answer = weir_grpc_reflection_answer,
};
