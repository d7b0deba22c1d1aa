/* SPDX-License-Identifier: Apache-2.0
 *
 * Server reflection: a stream of questions, each answered at once. Called by grpc.c. */
#include "serve/grpc_call.h"

void weir_grpc_reflection(struct weir_grpc_call *call, const uint8_t *message, size_t size,
                          const struct weir_time *time)
{
    uint8_t buffer[WEIR_GRPC_REFLECTION_MAX];
    (void)time;
    const size_t answer = call->conn->loop->common->grpc->reflection_answer(message, size, buffer);
    if (answer == 0)
        weir_grpc_finish(call, WEIR_GRPC_INVALID_ARGUMENT, "this is no ServerReflectionRequest");
    else
        weir_grpc_send(call, buffer, answer);
}
