/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside a connection: between conn.c, which takes turns, and conn_socket.c, which sends and ends. */
#pragma once

#include <sys/types.h>

#include "serve/conn.h"

/* What a client may still take and send after our last answer before it is cut off. */
#define WEIR_LINGER_NS (1 * WEIR_NS_PER_SECOND)
#define WEIR_LINGER_BYTES ((size_t)256 << 10)

/* While the server drains: for how long a client may still ask that has not yet, or that is told with its next answer
 * that the connection ends. Requests on their way would else be lost. */
#define WEIR_DRAIN_GRACE_NS (1 * WEIR_NS_PER_SECOND)

/* Answers that a caller without any right may leave unread: refusals are short. */
#define WEIR_STRANGER_OUTPUT_MAX ((size_t)8 << 10)

/* As recv, with errno, plain or TLS. */
ssize_t weir_conn_recv(struct weir_conn *conn, void *data, size_t size);
bool weir_conn_must_wait(int error);

/* Among the loop's. */
void weir_conn_list(struct weir_conn *conn);

/* Sends what can be sent; a connection that is finishing may end with it. */
void weir_conn_flush(struct weir_conn *conn);
void weir_conn_end(struct weir_conn *conn);

/* ---- to a successor: conn_hand.c ---- */

/* Whether it is drained: told with its next answer that it ends, and then closed. */
bool weir_conn_drains(const struct weir_conn *conn);
/* What a predecessor told of it. WEIR_ENOMEM, WEIR_EPROTO. */
int weir_conn_restore(struct weir_conn *conn, const struct weir_takeover_taken *taken);
/* The server has handed over, and this connection was not: it goes now if it can, or ends if it never will. */
void weir_conn_leave(struct weir_conn *conn);
