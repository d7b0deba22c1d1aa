/* SPDX-License-Identifier: Apache-2.0
 *
 * envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit: the message is read and written in wire/envoy_proto.c,
 * and decided in envoy.c. An answer that needs an engine comes later; calls do not wait for each other. Called by
 * grpc.c. */
#include <stdlib.h>

#include "base/assert.h"
#include "serve/grpc_call.h"

static void reply(struct weir_grpc_call *call, const struct weir_envoy_answer *answer)
{
    struct weir_grpc_work *work = weir_conn_loop_state(call->conn);
    const struct weir_grpc_library *library = weir_grpc_library_of(call->conn);
    const size_t size = library->envoy_write(answer, NULL);
    if (size > sizeof(work->bytes)) {
        weir_grpc_finish(call, WEIR_GRPC_RESOURCE_EXHAUSTED, "the answer is too long");
        return;
    }
    (void)library->envoy_write(answer, work->bytes);
    weir_grpc_send(call, work->bytes, size);
    weir_grpc_finish(call, WEIR_GRPC_OK, NULL);
}

static void on_done(struct weir_envoy_ask *ask, void *context)
{
    struct weir_grpc_call *call = context;
    struct weir_conn *conn = call->conn;
    struct weir_grpc_work *work = weir_conn_loop_state(conn);
    call->state = NULL;
    const int error = weir_envoy_hear(ask, &work->envoy);
    if (error)
        weir_grpc_finish_fault(call, error, &(struct weir_fault){ 0 });
    else
        reply(call, &work->envoy.answer);
    weir_envoy_end(ask);
    weir_conn_ask_end(conn);
}

/* The client, or its timeout, or the connection ended it. */
static void on_gone(struct weir_grpc_call *call)
{
    if (!call->state)
        return;
    weir_envoy_end(call->state);
    call->state = NULL;
    if (call->conn->phase != WEIR_CONN_CLOSED)
        weir_conn_ask_end(call->conn);
}

void weir_grpc_should_rate_limit(struct weir_grpc_call *call, const uint8_t *message, size_t size,
                                 const struct weir_time *time)
{
    struct weir_grpc_work *work = weir_conn_loop_state(call->conn);
    struct weir_envoy_ask *later = NULL;
    struct weir_fault fault = { 0 };
    int error = weir_grpc_library_of(call->conn)->envoy_read(message, size, work->block, &work->envoy.request, &fault);
    if (!error && weir_envoy_refunds(&work->envoy.request) && !(call->rights & WEIR_RIGHT_REFUND)) {
        weir_grpc_finish(call, WEIR_GRPC_PERMISSION_DENIED,
                         "this token lacks the right to give units back: refund, of rights in auth: tokens");
        return;
    }
    if (!error)
        error = weir_envoy_decide(call->conn->loop, &work->envoy, time, on_done, call, &later, &fault);
    if (error) {
        weir_grpc_finish_fault(call, error, &fault);
    } else if (later) {
        call->state = later;
        call->on_gone = on_gone;
        weir_conn_ask_begin(call->conn);
    } else {
        reply(call, &work->envoy.answer);
    }
}
