/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "serve/hold.h"
#include "serve/loop.h"
#include "serve/tls.h"

/* What a client may still take and send after our last answer before it is cut off. */
#define LINGER_NS (1 * WEIR_NS_PER_SECOND)
#define LINGER_BYTES ((size_t)256 << 10)

const struct weir_setup *weir_conn_setup(const struct weir_conn *conn)
{
    return conn->loop->setup;
}

/* ---- rights ---- */

/* As the setup in force has it, which a reload may have changed. */
static void refresh_rights(struct weir_conn *conn)
{
    const struct weir_setup *setup = conn->loop->setup;
    conn->setup_number = conn->loop->setup_number;
    conn->rights = conn->has_token ? weir_auth_check_digest(&setup->auth, &conn->token)
                                   : weir_auth_anonymous(setup->config->auth_required, conn->loopback);
}

bool weir_conn_authenticate(struct weir_conn *conn, const void *token, size_t size)
{
    struct weir_auth_digest digest;
    if (weir_auth_digest(token, size, &digest) || !weir_auth_check_digest(&conn->loop->setup->auth, &digest))
        return false;
    conn->has_token = true;
    conn->token = digest;
    refresh_rights(conn);
    return true;
}

void weir_conn_forget_token(struct weir_conn *conn)
{
    conn->has_token = false;
    refresh_rights(conn);
}

/* ---- the socket, plain or TLS ---- */

static ssize_t socket_recv(struct weir_conn *conn, void *data, size_t size)
{
    return conn->ssl ? weir_tls_recv(conn->ssl, data, size, &conn->tls_wants_write) : recv(conn->fd, data, size, 0);
}

static ssize_t socket_send(struct weir_conn *conn, const void *data, size_t size)
{
    return conn->ssl ? weir_tls_send(conn->ssl, data, size) : send(conn->fd, data, size, MSG_NOSIGNAL);
}

static bool must_wait(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* ---- the loop's lists ---- */

static void list_insert(struct weir_conn *conn)
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

static void on_handle_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void end(struct weir_conn *conn)
{
    weir_assert(!conn->closed);
    conn->closed = true;
    weir_hold_leave(conn);
    if (conn->protocol->on_close)
        conn->protocol->on_close(conn);

    struct weir_loop *loop = conn->loop;
    list_remove(conn);
    weir_loop_ready_remove(loop, conn);
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
    if (conn->closed || conn->failed)
        return;
    conn->failed = true;
    conn->finishing = true;
    weir_loop_ready_add(conn->loop, conn);
}

void weir_conn_close_after_flush(struct weir_conn *conn)
{
    conn->finishing = true;
}

/* Our side is shut; the client's remaining bytes are read and dropped until it closes, because closing a socket with
 * unread bytes resets the connection and may take our last answer with it. */
static void begin_lingering(struct weir_conn *conn)
{
    if (conn->ssl)
        weir_tls_shutdown(conn->ssl);
    if (shutdown(conn->fd, SHUT_WR)) {
        end(conn);
        return;
    }
    conn->lingering = true;
    conn->linger_bytes = LINGER_BYTES;
    conn->partial_ns = uv_hrtime();
    weir_buffer_release(&conn->in, &conn->loop->pool);
}

/* ---- output ---- */

uint8_t *weir_conn_reserve(struct weir_conn *conn, size_t size)
{
    if (conn->closed || conn->lingering || conn->failed)
        return NULL;
    if (size <= conn->out.capacity - conn->out.size)
        return conn->out.data + conn->out.size;

    if (conn->out_sent > 0) {
        size_t sent = conn->out_sent;
        conn->out_sent = 0;
        weir_buffer_consume(&conn->out, &conn->loop->pool, sent);
    }
    if (!weir_buffer_reserve(&conn->out, &conn->loop->pool, size, 2 * conn->output_max)) {
        weir_conn_abort(conn);
        return NULL;
    }
    return conn->out.data + conn->out.size;
}

static void flush(struct weir_conn *conn)
{
    if (conn->failed) {
        end(conn);
        return;
    }
    size_t pending = weir_conn_pending(conn);
    if (pending > 0) {
        ssize_t sent = socket_send(conn, conn->out.data + conn->out_sent, pending);
        if (sent < 0 && !must_wait(errno)) {
            end(conn);
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
    if (conn->finishing && !conn->held && conn->asks == 0 && !conn->lingering)
        begin_lingering(conn);
}

/* ---- input ---- */

static void overdue(struct weir_conn *conn, bool too_large)
{
    if (conn->protocol->on_overdue)
        conn->protocol->on_overdue(conn, too_large);
    weir_conn_close_after_flush(conn);
}

/* When did the request begin that is not yet whole? */
static void note_partial(struct weir_conn *conn, bool took, uint64_t now_ns)
{
    if (weir_conn_blocked(conn) || (conn->in.size == 0 && !conn->mid_request))
        conn->partial_ns = 0;
    else if (conn->partial_ns == 0 || (took && !conn->mid_request))
        conn->partial_ns = now_ns;
}

static void take_input(struct weir_conn *conn, const struct weir_time *time)
{
    if (weir_conn_blocked(conn)) {
        conn->stalled = true;
        return;
    }
    conn->stalled = false;
    conn->yielded = false;
    if (conn->setup_number != conn->loop->setup_number)
        refresh_rights(conn);
    size_t used = conn->protocol->on_input(conn, conn->in.data, conn->in.size, time);
    if (conn->closed)
        return;
    weir_assert(used <= conn->in.size);
    weir_buffer_consume(&conn->in, &conn->loop->pool, used);
    if (used > 0)
        conn->active_ns = time->now_ns;
    if (conn->asks > 0 && conn->in.size >= conn->input_max)
        conn->gated = true; /* too large or not: it is answered after those before it */
    conn->stalled = weir_conn_blocked(conn) || conn->yielded;
    note_partial(conn, used > 0, time->now_ns);
    if (!conn->stalled && conn->in.size >= conn->input_max)
        overdue(conn, true);
}

static void drop_input(struct weir_conn *conn)
{
    uint8_t dropped[4096];
    ssize_t got = recv(conn->fd, dropped, sizeof(dropped), 0);
    bool bounded = got < 0 || (size_t)got < conn->linger_bytes;
    if (got == 0 || (got < 0 && !must_wait(errno)) || !bounded)
        end(conn);
    else if (got > 0)
        conn->linger_bytes -= (size_t)got;
}

/* What it waits for is of use to nobody when the client has gone. */
static bool loses_caller(const struct weir_conn *conn)
{
    return conn->held || conn->waits > 0;
}

/* The client will send no more. What it has sent is answered; a request that waits for its turn has lost its caller. */
static void end_of_input(struct weir_conn *conn)
{
    if (loses_caller(conn) || (weir_conn_pending(conn) == 0 && conn->asks == 0))
        end(conn);
    else
        weir_conn_close_after_flush(conn);
}

/* A small input buffer is filled up before it grows, and it never grows past its bound. */
static bool make_input_room(struct weir_conn *conn)
{
    if (conn->in.size < conn->in.capacity)
        return true;
    size_t more = conn->input_max - conn->in.size;
    more = more < WEIR_CHUNK_SIZE ? more : WEIR_CHUNK_SIZE;
    return weir_buffer_reserve(&conn->in, &conn->loop->pool, more, conn->input_max);
}

static void receive(struct weir_conn *conn)
{
    if (conn->lingering) {
        drop_input(conn);
        return;
    }
    if (!make_input_room(conn)) {
        end(conn);
        return;
    }
    struct weir_pool *pool = &conn->loop->pool;
    size_t room = conn->in.capacity - conn->in.size;
    ssize_t got = socket_recv(conn, conn->in.data + conn->in.size, room < WEIR_CHUNK_SIZE ? room : WEIR_CHUNK_SIZE);
    conn->tls_more = conn->ssl && got > 0 && SSL_has_pending(conn->ssl);
    if (got > 0) {
        conn->in.size += (size_t)got;
        weir_count(&conn->loop->counters.bytes_in, (uint64_t)got);
        struct weir_time time = weir_time_read();
        take_input(conn, &time);
        return;
    }
    bool wait = got < 0 && must_wait(errno);
    if (conn->in.size == 0)
        weir_buffer_release(&conn->in, pool);
    if (got == 0)
        end_of_input(conn);
    else if (!wait)
        end(conn);
    else if (conn->loop->draining)
        weir_conn_close_after_flush(conn);
}

/* ---- turns ---- */

/* May bytes be taken from the socket? One that waits is read on for one chunk, so that its end is noticed. */
static bool wants_input(const struct weir_conn *conn)
{
    if (conn->lingering)
        return true;
    if (loses_caller(conn))
        return conn->in.size < WEIR_CHUNK_SIZE;
    return !weir_conn_blocked(conn) && conn->in.size < conn->input_max;
}

static void on_poll(uv_poll_t *poll, int status, int events);

/* At the end of each turn: what to wait for. Costs a system call only when it changes. */
static void settle(struct weir_conn *conn)
{
    if (conn->closed)
        return;
    bool reads = wants_input(conn);
    bool open = !weir_conn_blocked(conn);
    if ((conn->stalled && open) || (reads && conn->tls_more) || (open && conn->loop->draining))
        weir_loop_ready_add(conn->loop, conn);

    int events = (reads ? UV_READABLE : 0) | (loses_caller(conn) && !reads ? UV_DISCONNECT : 0);
    if (weir_conn_pending(conn) > 0 || conn->tls_wants_write)
        events |= UV_WRITABLE;
    if (events == conn->events)
        return;
    conn->events = events;
    if (events == 0)
        uv_poll_stop(&conn->poll);
    else if (uv_poll_start(&conn->poll, events, on_poll))
        end(conn);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct weir_conn *conn = poll->data;
    if (status < 0) {
        end(conn);
        return;
    }
    if (loses_caller(conn) && (events & UV_DISCONNECT)) {
        end(conn);
        return;
    }
    bool reads = (events & UV_READABLE) || (conn->tls_wants_write && (events & UV_WRITABLE));
    if (reads && wants_input(conn))
        receive(conn);
    if (!conn->closed && (weir_conn_pending(conn) > 0 || conn->finishing))
        flush(conn);
    settle(conn);
}

void weir_conn_go_on(struct weir_conn *conn)
{
    if (conn->stalled && !weir_conn_blocked(conn)) {
        struct weir_time time = weir_time_read();
        take_input(conn, &time);
    } else if ((conn->tls_more || (conn->loop->draining && !loses_caller(conn))) && wants_input(conn)) {
        receive(conn);
    }
    if (!conn->closed)
        flush(conn);
    settle(conn);
}

void weir_conn_hold(struct weir_conn *conn)
{
    weir_assert(!conn->held);
    conn->held = true;
    conn->stalled = true;
}

void weir_conn_resume(struct weir_conn *conn)
{
    weir_assert(conn->held && !conn->closed);
    conn->held = false;
    weir_loop_ready_add(conn->loop, conn);
}

void weir_conn_ask_begin(struct weir_conn *conn)
{
    conn->asks++;
}

void weir_conn_ask_end(struct weir_conn *conn)
{
    weir_assert(conn->asks > 0 && !conn->closed);
    conn->asks--;
    conn->gated = false;
    weir_loop_ready_add(conn->loop, conn);
}

/* ---- begin ---- */

int weir_conn_open(struct weir_loop *loop, const struct weir_listener *listener, int fd)
{
    const struct weir_setup *setup = loop->setup;
    const struct weir_config_server *server = &setup->config->server;
    struct weir_conn *conn = calloc(1, sizeof(*conn) + listener->protocol->state_size);
    if (!conn)
        return WEIR_ENOMEM;
    conn->loop = loop;
    conn->protocol = listener->protocol;
    conn->loop_state = listener->state;
    conn->fd = fd;
    conn->loopback = listener->loopback;
    refresh_rights(conn);
    conn->output_max = server->output_bytes_max;
    size_t input_max = listener->http ? (size_t)server->header_bytes_max + server->body_bytes_max
                                      : server->command_bytes_max;
    conn->input_max = input_max > WEIR_CHUNK_SIZE ? input_max : WEIR_CHUNK_SIZE;
    conn->active_ns = uv_hrtime();
    if (setup->tls) {
        conn->ssl = weir_tls_accept(setup->tls, fd);
        if (!conn->ssl) {
            free(conn);
            return WEIR_ENOMEM;
        }
    }
    if (uv_poll_init(&loop->uv, &conn->poll, fd)) {
        SSL_free(conn->ssl);
        free(conn);
        return WEIR_EIO;
    }
    conn->poll.data = conn;
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* a Unix socket refuses it, and needs none */
    list_insert(conn);
    weir_count(&loop->counters.connections_opened, 1);
    if (conn->protocol->on_open)
        conn->protocol->on_open(conn);
    settle(conn);
    return 0;
}

/* ---- time ---- */

static bool past(uint64_t now_ns, uint64_t since_ns, uint64_t bound_ns)
{
    return now_ns > since_ns && now_ns - since_ns > bound_ns;
}

void weir_conn_check_time(struct weir_conn *conn, uint64_t now_ns)
{
    const struct weir_config_server *bounds = &conn->loop->setup->config->server;
    if (conn->lingering) {
        if (past(now_ns, conn->partial_ns, LINGER_NS))
            end(conn);
        return;
    }
    bool shaking = conn->ssl && !SSL_is_init_finished(conn->ssl);
    if ((conn->stuck_ns && past(now_ns, conn->stuck_ns, bounds->idle_timeout_ns)) ||
        (shaking && past(now_ns, conn->active_ns, bounds->request_timeout_ns))) {
        weir_count(&conn->loop->counters.timeouts, 1);
        end(conn);
        return;
    }
    if (conn->held || conn->asks > 0 || weir_conn_pending(conn) > 0 || conn->finishing)
        return;
    bool slow = conn->partial_ns && past(now_ns, conn->partial_ns, bounds->request_timeout_ns);
    bool idle = past(now_ns, conn->active_ns, bounds->idle_timeout_ns);
    if (!slow && !idle)
        return;
    weir_count(&conn->loop->counters.timeouts, 1);
    if (slow)
        overdue(conn, false);
    else
        weir_conn_close_after_flush(conn);
    flush(conn);
    settle(conn);
}
