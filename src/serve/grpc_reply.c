/* SPDX-License-Identifier: Apache-2.0
 *
 * From a call's answer to the connection's output. With a batch of input all answers are written at its end; one that
 * comes by itself is written at once. Called by grpc.c and the methods (grpc_*.c); HTTP/2 is in wire/h2.h. */
#include <stdio.h>

#include "serve/grpc_call.h"

void weir_grpc_put_output(struct weir_conn *conn)
{
    struct weir_grpc_session *session = weir_conn_state(conn);
    const uint8_t *data;
    while (weir_conn_pending(conn) < conn->output_max) {
        const size_t size = weir_grpc_library_of(conn)->h2_output(session->h2, &data);
        if (size == 0)
            return;
        weir_conn_write(conn, data, size);
    }
    conn->stalled = true; /* on_input is called when there is room */
}

void weir_grpc_push(struct weir_conn *conn)
{
    const struct weir_grpc_session *session = weir_conn_state(conn);
    if (session->time || session->quiet || conn->phase == WEIR_CONN_CLOSED)
        return;
    weir_grpc_put_output(conn);
    weir_loop_ready_add(conn->loop, conn);
}

void weir_grpc_send(struct weir_grpc_call *call, const void *message, size_t size)
{
    weir_grpc_library_of(call->conn)->h2_send(call->h2, message, size);
    weir_grpc_push(call->conn);
}

void weir_grpc_finish(struct weir_grpc_call *call, enum weir_grpc_status status, const char *text)
{
    if (call->h2->finished)
        return;
    weir_count(&call->conn->loop->counters.grpc_answers[status], 1);
    weir_timer_stop(&call->conn->loop->timers, &call->timer);
    weir_grpc_library_of(call->conn)->h2_finish(call->h2, status, text);
    weir_grpc_push(call->conn);
}

void weir_grpc_finish_fault(struct weir_grpc_call *call, int error, const struct weir_fault *fault)
{
    char text[sizeof(fault->field) + sizeof(fault->text) + 3];
    const bool bound = error == WEIR_ENOMEM || error == WEIR_ELIMIT;
    (void)snprintf(text, sizeof(text), "%s%s%s", fault->field, fault->field[0] ? ": " : "",
                   fault->text[0] ? fault->text : weir_error_text(error));
    weir_grpc_finish(call, bound ? WEIR_GRPC_RESOURCE_EXHAUSTED : WEIR_GRPC_INVALID_ARGUMENT, text);
}
