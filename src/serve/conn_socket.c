/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection's socket: sending, and the end. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/conn_inside.h"
#include "serve/hold.h"
#include "serve/loop.h"
#include "serve/tls.h"

#define MAY(to) WEIR_PHASE(WEIR_CONN_##to)

/* ---- the socket, plain or TLS ---- */

ssize_t weir_conn_recv(struct weir_conn *conn, void *data, size_t size)
{
    return conn->ssl ? weir_tls_recv(conn->ssl, data, size, &conn->tls_wants_write) : recv(conn->fd, data, size, 0);
}

static ssize_t socket_send(struct weir_conn *conn, const void *data, size_t size)
{
    return conn->ssl ? weir_tls_send(conn->ssl, data, size) : send(conn->fd, data, size, MSG_NOSIGNAL);
}

bool weir_conn_must_wait(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* ---- the loop's lists ---- */

void weir_conn_list(struct weir_conn *conn)
{
    struct weir_loop *loop = conn->loop;
    conn->next = loop->conns;
    if (conn->next)
        conn->next->prev = conn;
    loop->conns = conn;
    loop->conn_count++;
}

static void list_remove(struct weir_conn *conn)
{
    struct weir_loop *loop = conn->loop;
    if (loop->check_next == conn)
        loop->check_next = conn->next;
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        loop->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    loop->conn_count--;
}

/* ---- ends ---- */

const struct weir_phase weir_conn_phases[WEIR_CONN_PHASES] = {
    [WEIR_CONN_OPEN] = { "open", MAY(FINISHING) | MAY(FAILED) | MAY(CLOSED) },
    [WEIR_CONN_FINISHING] = { "finishing", MAY(LINGERING) | MAY(FAILED) | MAY(CLOSED) },
    [WEIR_CONN_LINGERING] = { "lingering", MAY(FAILED) | MAY(CLOSED) },
    [WEIR_CONN_FAILED] = { "failed", MAY(CLOSED) },
    [WEIR_CONN_CLOSED] = { "closed", 0 },
};

static void move(struct weir_conn *conn, enum weir_conn_phase to)
{
    weir_phase_check(weir_conn_phases, conn->phase, to);
    conn->phase = to;
}

static void on_handle_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void weir_conn_end(struct weir_conn *conn)
{
    move(conn, WEIR_CONN_CLOSED);
    weir_hold_leave(conn);
    if (conn->protocol->on_close)
        conn->protocol->on_close(conn);

    struct weir_loop *loop = conn->loop;
    list_remove(conn);
    weir_loop_ready_remove(loop, conn);
    atomic_fetch_sub(&loop->common->buffered, conn->buffered);
    weir_buffer_release(&conn->in, &loop->pool);
    weir_buffer_release(&conn->out, &loop->pool);
    SSL_free(conn->ssl);
    conn->ssl = NULL;
    uv_close((uv_handle_t *)&conn->poll, on_handle_closed);
    close(conn->fd);
    weir_count(&loop->counters.connections_closed, 1);
    weir_loop_conn_closed(loop);
}

/* Not at once: the protocol may be in the middle of the input buffer. */
void weir_conn_abort(struct weir_conn *conn)
{
    if (conn->phase == WEIR_CONN_CLOSED || conn->phase == WEIR_CONN_FAILED)
        return;
    move(conn, WEIR_CONN_FAILED);
    weir_loop_ready_add(conn->loop, conn);
}

void weir_conn_close_after_flush(struct weir_conn *conn)
{
    if (conn->phase == WEIR_CONN_OPEN)
        move(conn, WEIR_CONN_FINISHING);
}

/* Our side is shut; the client's remaining bytes are read and dropped until it closes, because closing a socket with
 * unread bytes resets the connection and may take our last answer with it. */
static void begin_lingering(struct weir_conn *conn)
{
    if (conn->ssl)
        weir_tls_shutdown(conn->ssl);
    if (shutdown(conn->fd, SHUT_WR)) {
        weir_conn_end(conn);
        return;
    }
    move(conn, WEIR_CONN_LINGERING);
    conn->linger_bytes = WEIR_LINGER_BYTES;
    conn->partial_ns = uv_hrtime();
    weir_buffer_release(&conn->in, &conn->loop->pool);
}

/* ---- output ---- */

uint8_t *weir_conn_reserve(struct weir_conn *conn, size_t size)
{
    if (conn->phase != WEIR_CONN_OPEN && conn->phase != WEIR_CONN_FINISHING)
        return NULL;
    if (size <= conn->out.capacity - conn->out.size)
        return conn->out.data + conn->out.size;

    if (conn->out_sent > 0) {
        size_t sent = conn->out_sent;
        conn->out_sent = 0;
        weir_buffer_consume(&conn->out, &conn->loop->pool, sent);
    }
    if (!weir_buffer_reserve(&conn->out, &conn->loop->pool, size,
                             2 * (size_t)conn->loop->setup->config->server.output_bytes_max)) {
        weir_conn_abort(conn);
        return NULL;
    }
    return conn->out.data + conn->out.size;
}

void weir_conn_flush(struct weir_conn *conn)
{
    if (conn->phase == WEIR_CONN_FAILED) {
        weir_conn_end(conn);
        return;
    }
    size_t pending = weir_conn_pending(conn);
    if (pending > 0) {
        ssize_t sent = socket_send(conn, conn->out.data + conn->out_sent, pending);
        if (sent < 0 && !weir_conn_must_wait(errno)) {
            weir_conn_end(conn);
            return;
        }
        if (sent > 0) {
            weir_count(&conn->loop->counters.bytes_out, (uint64_t)sent);
            conn->out_sent += (size_t)sent;
        }
        if (conn->out_sent < conn->out.size) {
            if (sent > 0 || conn->stuck_ns == 0)
                conn->stuck_ns = uv_hrtime();
            return;
        }
        weir_buffer_release(&conn->out, &conn->loop->pool);
        conn->out_sent = 0;
        conn->stuck_ns = 0;
    }
    if (conn->phase == WEIR_CONN_FINISHING && !conn->held && conn->asks == 0)
        begin_lingering(conn);
}
