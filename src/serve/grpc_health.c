/* SPDX-License-Identifier: Apache-2.0
 *
 * grpc.health.v1: each service is as the server is, which serves until it drains. Without an engine it answers what it
 * can, as GET /readyz has it. Watch tells the state at once, and its end before the connection closes. Called by
 * grpc.c. */
#include "serve/grpc_call.h"

bool weir_grpc_is_serving(const struct weir_loop *loop)
{
    return !loop->draining && !atomic_load(&loop->common->draining);
}

static void tell(struct weir_grpc_call *call, enum weir_grpc_serving status)
{
    uint8_t buffer[WEIR_GRPC_HEALTH_MAX];
    const size_t size = call->conn->loop->common->grpc->health_write(status, buffer);
    weir_grpc_send(call, buffer, size);
}

/* False: it is no question, and the call is finished. */
static bool read_service(struct weir_grpc_call *call, const uint8_t *message, size_t size,
                         char service[WEIR_GRPC_SERVICE_MAX])
{
    const int error = call->conn->loop->common->grpc->health_read(message, size, service);
    if (error)
        weir_grpc_finish(call, WEIR_GRPC_INVALID_ARGUMENT, "this is no HealthCheckRequest");
    return !error;
}

static enum weir_grpc_serving state_of(const struct weir_grpc_call *call)
{
    return weir_grpc_is_serving(call->conn->loop) ? WEIR_GRPC_SERVING : WEIR_GRPC_NOT_SERVING;
}

void weir_grpc_health_check(struct weir_grpc_call *call, const uint8_t *message, size_t size,
                            const struct weir_time *time)
{
    char service[WEIR_GRPC_SERVICE_MAX];
    (void)time;
    if (!read_service(call, message, size, service))
        return;
    if (!call->conn->loop->common->grpc->health_knows(service)) {
        weir_grpc_finish(call, WEIR_GRPC_NOT_FOUND, "there is no such service");
        return;
    }
    tell(call, state_of(call));
    weir_grpc_finish(call, WEIR_GRPC_OK, NULL);
}

/* A call that watches has a state: the address of this. */
static const char watching = 1;

void weir_grpc_health_watch(struct weir_grpc_call *call, const uint8_t *message, size_t size,
                            const struct weir_time *time)
{
    char service[WEIR_GRPC_SERVICE_MAX];
    (void)time;
    if (call->state) {
        weir_grpc_finish(call, WEIR_GRPC_INTERNAL, "this method takes one message");
        return;
    }
    if (!read_service(call, message, size, service))
        return;
    call->state = (void *)(uintptr_t)&watching;
    tell(call, call->conn->loop->common->grpc->health_knows(service) ? state_of(call) : WEIR_GRPC_SERVICE_UNKNOWN);
}

void weir_grpc_health_half(struct weir_grpc_call *call)
{
    if (!call->state)
        weir_grpc_finish(call, WEIR_GRPC_INTERNAL, "the call ends without a message");
}

void weir_grpc_health_leave(struct weir_grpc_call *call)
{
    if (call->state)
        tell(call, state_of(call));
    weir_grpc_finish(call, WEIR_GRPC_UNAVAILABLE, "this connection ends: connect again");
}
