/* SPDX-License-Identifier: Apache-2.0
 *
 * The turns of a connection: receive bytes, let the protocol take the requests that are whole (on_input), send what it
 * wrote, and last end_turn(), which says what to wait for next. When the server stops, a connection that is idle ends
 * with its turn (has_grace). Rights and timeouts are here too; sending and the end are in conn_socket.c. Called by the
 * event loop (loop.c) and by the protocols (resp*.c, http*.c). */
#include "serve/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/checked.h"
#include "serve/conn_inside.h"
#include "serve/hold.h"
#include "serve/loop.h"
#include "serve/takeover_channel.h"
#include "serve/tls.h"

const struct weir_setup *weir_conn_setup(const struct weir_conn *conn)
{
    return conn->loop->setup;
}

/* ---- rights and room ---- */

/* As the setup in force has it, which a reload may have changed. The room never shrinks: it may be in use. */
static void refresh(struct weir_conn *conn)
{
    const struct weir_setup *setup = conn->loop->setup;
    size_t input_max = weir_max_u64(conn->protocol->input_max(&setup->config->server), WEIR_PIECE_SIZE);
    conn->input_max = weir_max_u64(conn->input_max, input_max);
    conn->setup_number = conn->loop->setup_number;
    conn->rights = conn->has_token ? weir_auth_check_digest(&setup->auth, &conn->token)
                                   : weir_auth_anonymous(setup->config->auth_required, conn->loopback);
}

bool weir_conn_authenticate(struct weir_conn *conn, struct weir_slice token, const struct weir_time *time,
                            uint64_t *ret_wait_ns)
{
    struct weir_auth_digest digest;
    if (weir_guess(conn, token, time, &digest, ret_wait_ns) == 0) {
        if (++conn->wrong_tokens > WEIR_GUESSES_OF_CONN_MAX)
            weir_conn_close_after_flush(conn);
        return false;
    }
    conn->has_token = true;
    conn->token = digest;
    refresh(conn);
    return true;
}

void weir_conn_forget_token(struct weir_conn *conn)
{
    conn->has_token = false;
    refresh(conn);
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

/* Once the last request of a client that sends no more has been taken, the connection ends with its answer. */
static void finish_input(struct weir_conn *conn)
{
    if (!conn->input_ended || conn->stalled || conn->phase != WEIR_CONN_OPEN)
        return;
    if (weir_conn_pending(conn) == 0 && conn->asks == 0)
        weir_conn_end(conn);
    else
        weir_conn_close_after_flush(conn);
}

bool weir_conn_is_crowded(const struct weir_conn *conn)
{
    size_t buffered = atomic_load_explicit(&conn->loop->common->buffered, memory_order_relaxed);
    return buffered >= conn->loop->setup->config->server.buffer_bytes_max;
}

/* How much a client may leave unread before no more is taken from it. Where all leave too much: nothing. */
static size_t output_bound(const struct weir_conn *conn)
{
    size_t wanted = conn->loop->setup->config->server.output_bytes_max;
    if (weir_conn_is_crowded(conn))
        return 1;
    return conn->rights == 0 ? weir_min_u64(wanted, WEIR_STRANGER_OUTPUT_MAX) : wanted;
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
        refresh(conn);
    conn->output_max = output_bound(conn);
    size_t used = conn->protocol->on_input(conn, conn->in.data, conn->in.size, time);
    if (conn->phase == WEIR_CONN_CLOSED)
        return;
    weir_assert(used <= conn->in.size);
    weir_buffer_consume(&conn->in, &conn->loop->pool, used);
    conn->in_taken = 0;
    if (used > 0)
        conn->active_ns = time->now_ns;
    conn->served = conn->served || used > 0;
    if (conn->asks > 0 && conn->in.size >= conn->input_max)
        conn->gated = true; /* too large or not: it is answered after those before it */
    conn->stalled = weir_conn_blocked(conn) || conn->yielded;
    note_partial(conn, used > 0, time->now_ns);
    if (!conn->stalled && conn->in.size >= conn->input_max)
        overdue(conn, true);
    finish_input(conn);
}

static void drop_input(struct weir_conn *conn)
{
    uint8_t dropped[4096];
    ssize_t got = recv(conn->fd, dropped, sizeof(dropped), 0);
    bool bounded = got < 0 || (size_t)got < conn->linger_bytes;
    if (got == 0 || (got < 0 && !weir_conn_must_wait(errno)) || !bounded)
        weir_conn_end(conn);
    else if (got > 0)
        conn->linger_bytes -= (size_t)got;
}

/* What it waits for is of use to nobody when the client has gone. */
static bool loses_caller(const struct weir_conn *conn)
{
    return conn->held || conn->waits > 0;
}

/* The client will send no more. If it still reads, what it has sent is answered, at its turn. */
static void shut(struct weir_conn *conn)
{
    conn->peer_shut = true;
    weir_hold_probe(conn);
}

/* A small input buffer is filled up before it grows, and it never grows past its bound. */
static bool make_input_room(struct weir_conn *conn)
{
    if (conn->in.size < conn->in.capacity)
        return true;
    if (conn->in.capacity > 0 && weir_conn_is_crowded(conn)) {
        weir_count(&conn->loop->counters.connections_shed, 1);
        return false;
    }
    size_t more = conn->input_max - conn->in.size;
    more = more < WEIR_PIECE_SIZE ? more : WEIR_PIECE_SIZE;
    return weir_buffer_reserve(&conn->in, &conn->loop->pool, more, conn->input_max);
}

static bool has_grace(const struct weir_conn *conn)
{
    const struct weir_loop *loop = conn->loop;
    uint64_t grace_ns = weir_min_u64(WEIR_DRAIN_GRACE_NS, (loop->drain_until_ns - loop->drain_began_ns) / 2);
    uint64_t since_ns = weir_max_u64(conn->active_ns, loop->drain_began_ns);
    bool may_ask = !conn->served || conn->protocol->says_close;
    return may_ask && !conn->input_ended && uv_hrtime() < since_ns + grace_ns;
}

bool weir_conn_is_last(const struct weir_conn *conn)
{
    int unread = 0;
    return weir_conn_drains(conn) && conn->in.size == conn->in_taken && !conn->tls_more &&
           (ioctl(conn->fd, FIONREAD, &unread) || unread == 0);
}

/* The client is told of it, where the protocol has words for that. */
static void leave(struct weir_conn *conn)
{
    if (conn->protocol->on_leave && conn->phase == WEIR_CONN_OPEN)
        conn->protocol->on_leave(conn, true);
    weir_conn_close_after_flush(conn);
}

static void receive(struct weir_conn *conn)
{
    if (conn->phase == WEIR_CONN_LINGERING) {
        drop_input(conn);
        return;
    }
    if (!make_input_room(conn)) {
        weir_conn_end(conn);
        return;
    }
    struct weir_piece_pool *pool = &conn->loop->pool;
    size_t room = conn->in.capacity - conn->in.size;
    ssize_t got = weir_conn_recv(conn, conn->in.data + conn->in.size, room < WEIR_PIECE_SIZE ? room : WEIR_PIECE_SIZE);
    conn->tls_more = conn->ssl && got > 0 && SSL_has_pending(conn->ssl);
    if (got > 0) {
        conn->in.size += (size_t)got;
        weir_count(&conn->loop->counters.bytes_in, (uint64_t)got);
        struct weir_time time = weir_time_read();
        take_input(conn, &time);
        return;
    }
    bool wait = got < 0 && weir_conn_must_wait(errno);
    if (conn->in.size == 0)
        weir_buffer_release(&conn->in, pool);
    if (got == 0) {
        conn->input_ended = true;
        shut(conn);
        finish_input(conn);
    } else if (!wait)
        weir_conn_end(conn);
    else if (weir_conn_drains(conn) && !has_grace(conn))
        leave(conn);
}

/* ---- turns ---- */

/* May bytes be taken from the socket? One that waits is read on for one piece, so that its end is noticed. */
static bool wants_input(const struct weir_conn *conn)
{
    if (conn->phase == WEIR_CONN_LINGERING)
        return true;
    if (conn->input_ended)
        return false;
    if (loses_caller(conn) || (conn->stalled && conn->in.size >= WEIR_PIECE_SIZE))
        return conn->in.size < WEIR_PIECE_SIZE; /* what it has sent is enough for a while */
    return !weir_conn_blocked(conn) && conn->in.size < conn->input_max;
}

static void on_poll(uv_poll_t *poll, int status, int events);

/* Whether the client has gone is asked where no input is read. Of one that sends no more only the reset is news. */
static int watch(const struct weir_conn *conn, bool reads)
{
    if (!loses_caller(conn) || reads)
        return 0;
    return conn->peer_shut ? UV_PRIORITIZED : UV_DISCONNECT;
}

/* Most have nothing buffered between two turns, and never have. */
static void count_buffers(struct weir_conn *conn)
{
    size_t bytes = conn->in.capacity + conn->out.capacity;
    bytes += conn->protocol->kept ? conn->protocol->kept(conn) : 0;
    if (bytes == conn->buffered)
        return;
    atomic_fetch_add(&conn->loop->common->buffered, bytes - conn->buffered); /* modulo: may be less */
    conn->buffered = bytes;
}

/* At the end of each turn: what to wait for. Costs a system call only when it changes. */
static void end_turn(struct weir_conn *conn)
{
    if (conn->loop->handing == WEIR_HANDING_GONE)
        weir_conn_leave(conn);
    if (conn->phase == WEIR_CONN_CLOSED)
        return;
    if (conn->peer_shut && conn->waits > 0) { /* what waits for other clients is granted to nobody who may have gone */
        weir_conn_end(conn);
        return;
    }
    count_buffers(conn);
    bool reads = wants_input(conn);
    bool open = !weir_conn_blocked(conn);
    if ((conn->stalled && open) || (reads && conn->tls_more) || (open && weir_conn_drains(conn) && !has_grace(conn)))
        weir_loop_ready_add(conn->loop, conn);

    int events = (reads ? UV_READABLE : 0) | watch(conn, reads);
    if (weir_conn_pending(conn) > 0 || conn->tls_wants_write)
        events |= UV_WRITABLE;
    if (events == conn->events)
        return;
    conn->events = events;
    if (events == 0)
        uv_poll_stop(&conn->poll);
    else if (uv_poll_start(&conn->poll, events, on_poll))
        weir_conn_end(conn);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct weir_conn *conn = poll->data;
    if (status < 0) {
        weir_conn_end(conn);
        return;
    }
    if (events & UV_PRIORITIZED) {
        weir_conn_end(conn); /* reset */
        return;
    }
    if (events & UV_DISCONNECT)
        shut(conn);
    bool reads = (events & UV_READABLE) || (conn->tls_wants_write && (events & UV_WRITABLE));
    if (reads && wants_input(conn))
        receive(conn);
    if (conn->phase != WEIR_CONN_CLOSED && (weir_conn_pending(conn) > 0 || conn->phase != WEIR_CONN_OPEN))
        weir_conn_flush(conn);
    end_turn(conn);
}

void weir_conn_go_on(struct weir_conn *conn)
{
    if (conn->protocol->on_leave && conn->phase == WEIR_CONN_OPEN && weir_conn_drains(conn))
        conn->protocol->on_leave(conn, false);
    if (conn->stalled && !weir_conn_blocked(conn)) {
        struct weir_time time = weir_time_read();
        take_input(conn, &time);
    } else if ((conn->tls_more || (weir_conn_drains(conn) && !loses_caller(conn))) && wants_input(conn)) {
        receive(conn);
    }
    if (conn->phase != WEIR_CONN_CLOSED)
        weir_conn_flush(conn);
    end_turn(conn);
}

void weir_conn_hold(struct weir_conn *conn)
{
    weir_assert(!conn->held);
    conn->held = true;
    conn->stalled = true;
}

void weir_conn_resume(struct weir_conn *conn)
{
    weir_assert(conn->held && conn->phase != WEIR_CONN_CLOSED);
    conn->held = false;
    conn->active_ns = uv_hrtime(); /* it was not idle while it waited */
    weir_loop_ready_add(conn->loop, conn);
}

void weir_conn_ask_begin(struct weir_conn *conn)
{
    conn->asks++;
}

void weir_conn_ask_end(struct weir_conn *conn)
{
    weir_assert(conn->asks > 0 && conn->phase != WEIR_CONN_CLOSED);
    conn->asks--;
    conn->gated = false;
    conn->active_ns = uv_hrtime(); /* nor while it was asked for */
    weir_loop_ready_add(conn->loop, conn);
}

/* ---- begin ---- */

/* Takes over the descriptor on success. */
static int make(struct weir_loop *loop, const struct weir_listener *listener, int fd, SSL_CTX *tls,
                struct weir_conn **ret_conn)
{
    struct weir_conn *conn = calloc(1, sizeof(*conn) + listener->protocol->state_size);
    if (!conn)
        return WEIR_ENOMEM;
    conn->loop = loop;
    conn->protocol = listener->protocol;
    conn->loop_state = listener->state;
    conn->fd = fd;
    conn->loopback = listener->loopback;
    refresh(conn);
    conn->output_max = output_bound(conn);
    conn->active_ns = uv_hrtime();
    if (tls) {
        conn->ssl = weir_tls_accept(tls, fd, conn->protocol->alpn);
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
    weir_conn_list(conn);
    weir_count(&loop->counters.connections_opened, 1);
    if (conn->protocol->on_open)
        conn->protocol->on_open(conn);
    *ret_conn = conn;
    return 0;
}

int weir_conn_open(struct weir_loop *loop, const struct weir_listener *listener, int fd)
{
    struct weir_conn *conn;
    int error = make(loop, listener, fd, listener->tcp ? loop->setup->tls : NULL, &conn);
    if (!error)
        end_turn(conn);
    return error;
}

int weir_conn_adopt(struct weir_loop *loop, const struct weir_listener *listener, struct weir_takeover_taken *taken)
{
    struct weir_conn *conn;
    int error = make(loop, listener, taken->fd, NULL, &conn);
    if (error)
        return error;
    taken->fd = -1;
    error = weir_conn_restore(conn, taken);
    refresh(conn);
    if (error) {
        weir_conn_end(conn);
        return 0;
    }
    conn->stalled = true; /* what it had sent is looked at again */
    weir_loop_ready_add(loop, conn);
    end_turn(conn);
    return 0;
}

void weir_conn_freeze(struct weir_conn *conn, bool frozen)
{
    conn->frozen = frozen;
    if (!frozen) {
        conn->handed = false;
        conn->stalled = conn->stalled || conn->in.size > 0;
        weir_loop_ready_add(conn->loop, conn);
    }
    end_turn(conn);
}

/* ---- time ---- */

static bool past(uint64_t now_ns, uint64_t since_ns, uint64_t bound_ns)
{
    return now_ns > since_ns && now_ns - since_ns > bound_ns;
}

void weir_conn_check_time(struct weir_conn *conn, uint64_t now_ns)
{
    const struct weir_config_server *bounds = &conn->loop->setup->config->server;
    if (conn->phase == WEIR_CONN_LINGERING) {
        if (past(now_ns, conn->partial_ns, WEIR_LINGER_NS))
            weir_conn_end(conn);
        return;
    }
    bool shaking = conn->ssl && !SSL_is_init_finished(conn->ssl);
    if ((conn->stuck_ns && past(now_ns, conn->stuck_ns, bounds->idle_timeout_ns)) ||
        (shaking && past(now_ns, conn->active_ns, bounds->request_timeout_ns))) {
        weir_count(&conn->loop->counters.timeouts, 1);
        weir_conn_end(conn);
        return;
    }
    if (conn->held || conn->asks > 0 || weir_conn_pending(conn) > 0 || conn->phase != WEIR_CONN_OPEN || conn->frozen)
        return;
    if (weir_conn_drains(conn) && !has_grace(conn))
        weir_loop_ready_add(conn->loop, conn);
    bool slow = conn->partial_ns && past(now_ns, conn->partial_ns, bounds->request_timeout_ns);
    bool idle = past(now_ns, conn->active_ns, bounds->idle_timeout_ns);
    if (!slow && !idle)
        return;
    weir_count(&conn->loop->counters.timeouts, 1);
    if (slow)
        overdue(conn, false);
    else
        leave(conn);
    weir_conn_flush(conn);
    end_turn(conn);
}
