/* SPDX-License-Identifier: Apache-2.0
 *
 * The handles of one libuv loop: a poll for each listener, an idle handle that runs while connections are ready, a
 * timer that finds overdue ones, and an async handle by which the server wakes it. Woken, it moves to the newest
 * setup, or drains: it takes no more connections, those that it has end when they are idle, sharer.c gives back what
 * it holds, and all handles close. Called by server.c; what a connection does is in conn.c. */
#include "serve/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "observe/refusals.h"
#include "serve/locks.h"
#include "serve/loop_inside.h"
#include "serve/refused.h"
#include "serve/sessions.h"
#include "serve/takeover_channel.h"

#define ACCEPTS_PER_TURN 64
#define ACCEPTS_AT_DRAIN 4096 /* more than wait at a listener */
#define CHECK_PERIOD_MS 250
#define CHECKS_PER_TURN 4096 /* connections looked at per period: 10,000 are through in under a second */

/* ---- connections that go on by themselves ---- */

static void on_ready(uv_idle_t *idle)
{
    struct weir_loop *loop = idle->data;
    /* Those that come back to the list wait for the next turn, after the sockets. */
    for (size_t left = loop->ready_count; left > 0 && loop->ready_first; left--) {
        struct weir_conn *conn = loop->ready_first;
        weir_loop_ready_remove(loop, conn);
        weir_conn_go_on(conn);
    }
}

void weir_loop_ready_add(struct weir_loop *loop, struct weir_conn *conn)
{
    if (conn->ready || conn->phase == WEIR_CONN_CLOSED)
        return;
    conn->ready = true;
    conn->ready_next = NULL;
    conn->ready_prev = loop->ready_last;
    if (loop->ready_last)
        loop->ready_last->ready_next = conn;
    else
        loop->ready_first = conn;
    loop->ready_last = conn;
    if (loop->ready_count++ == 0)
        uv_idle_start(&loop->ready, on_ready);
}

void weir_loop_ready_remove(struct weir_loop *loop, struct weir_conn *conn)
{
    if (!conn->ready)
        return;
    conn->ready = false;
    if (conn->ready_prev)
        conn->ready_prev->ready_next = conn->ready_next;
    else
        loop->ready_first = conn->ready_next;
    if (conn->ready_next)
        conn->ready_next->ready_prev = conn->ready_prev;
    else
        loop->ready_last = conn->ready_prev;
    if (--loop->ready_count == 0)
        uv_idle_stop(&loop->ready);
}

/* ---- time ---- */

static void check_times(struct weir_loop *loop, uint64_t now_ns)
{
    struct weir_conn *conn = loop->check_next ? loop->check_next : loop->conns;
    for (size_t i = 0; conn && i < CHECKS_PER_TURN; i++) {
        loop->check_next = conn->next;
        weir_conn_check_time(conn, now_ns);
        conn = loop->check_next; /* moved on if that one has just gone, too */
    }
    loop->check_next = conn;
}

static void on_check(uv_timer_t *timer)
{
    struct weir_loop *loop = timer->data;
    uint64_t now_ns = uv_hrtime();
    check_times(loop, now_ns);
    if (loop->draining && now_ns >= loop->drain_until_ns) {
        for (struct weir_conn *conn = loop->conns; conn; conn = conn->next)
            weir_conn_abort(conn);
    }
}

void weir_loop_checks_times(struct weir_loop *loop)
{
    if (!uv_is_active((uv_handle_t *)&loop->check))
        uv_timer_start(&loop->check, on_check, CHECK_PERIOD_MS, CHECK_PERIOD_MS);
}

/* ---- accepting ---- */

static void refuse(struct weir_listener *listener, int fd)
{
    const struct weir_slice *full = &listener->protocol->full;
    if (!listener->loop->setup->tls && full->size > 0)
        (void)!send(fd, full->data, full->size, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_WR);
    close(fd);
    weir_count(&listener->loop->counters.connections_refused, 1);
}

static void accepted(struct weir_listener *listener, int fd)
{
    struct weir_loop *loop = listener->loop;
    size_t others = atomic_fetch_add(&loop->common->connections, 1);
    if (others >= loop->setup->config->server.connections_max || others >= loop->common->connections_room) {
        atomic_fetch_sub(&loop->common->connections, 1);
        refuse(listener, fd);
        return;
    }
    if (weir_conn_open(loop, listener, fd)) {
        atomic_fetch_sub(&loop->common->connections, 1);
        close(fd);
        return;
    }
    weir_loop_checks_times(loop);
}

static void accept_some(struct weir_listener *listener, int most)
{
    for (int i = 0; i < most; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            accepted(listener, fd);
        else if (errno != EINTR && errno != ECONNABORTED)
            break; /* EAGAIN: no more now. EMFILE: the descriptor bound was checked at the start */
    }
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    accept_some(poll->data, ACCEPTS_PER_TURN);
}

/* ---- drain, end ---- */

static void close_listener(struct weir_listener *listener)
{
    if (listener->fd < 0)
        return;
    uv_close((uv_handle_t *)&listener->poll, NULL);
    close(listener->fd);
    listener->fd = -1;
}

void weir_loop_close_listeners(struct weir_loop *loop)
{
    for (size_t i = 0; i < loop->listener_count; i++)
        close_listener(loop->listeners[i]);
}

/* All handles closed, uv_run returns and the thread ends. */
static void close_loop(struct weir_loop *loop)
{
    weir_assert(loop->conn_count == 0);
    if (uv_is_closing((uv_handle_t *)&loop->wake))
        return;
    weir_loop_close_listeners(loop);
    weir_timers_stop(&loop->timers);
    weir_lock_inbox_close(loop);
    weir_session_inbox_close(loop);
    uv_close((uv_handle_t *)&loop->ready, NULL);
    uv_close((uv_handle_t *)&loop->check, NULL);
    uv_close((uv_handle_t *)&loop->wake, NULL);
}

void weir_loop_conn_closed(struct weir_loop *loop)
{
    atomic_fetch_sub(&loop->common->connections, 1);
    if (loop->conn_count > 0)
        return;
    uv_timer_stop(&loop->check);
    if (loop->draining)
        weir_sharer_close(loop);
}

void weir_loop_shared_closed(struct weir_loop *loop)
{
    close_loop(loop);
}

void weir_loop_drain_begins(struct weir_loop *loop, uint64_t longest_ns)
{
    loop->drain_began_ns = uv_hrtime();
    loop->drain_until_ns = loop->drain_began_ns + longest_ns;
}

static void drain(struct weir_loop *loop)
{
    loop->draining = true;
    weir_loop_drain_begins(loop, loop->setup->config->server.drain_timeout_ns);
    for (size_t i = 0; i < loop->listener_count; i++) {
        accept_some(loop->listeners[i], ACCEPTS_AT_DRAIN); /* whom it has not accepted it would reset */
        close_listener(loop->listeners[i]);
    }
    for (struct weir_conn *conn = loop->conns; conn; conn = conn->next)
        weir_loop_ready_add(loop, conn);
    weir_lock_inbox_drain(loop);
    weir_session_inbox_drain(loop);
    if (loop->conn_count == 0)
        weir_sharer_close(loop);
}

/* ---- for loop_hand.c ---- */

void weir_loop_accepts(struct weir_loop *loop, bool again)
{
    for (size_t i = 0; i < loop->listener_count; i++) {
        if (again && loop->listeners[i]->fd >= 0)
            (void)uv_poll_start(&loop->listeners[i]->poll, UV_READABLE, on_connection);
        else if (loop->listeners[i]->fd >= 0)
            uv_poll_stop(&loop->listeners[i]->poll);
    }
}

uint64_t weir_loops_counted(const struct weir_common *common, size_t offset)
{
    uint64_t total = 0;
    for (size_t i = 0; i < common->loop_count; i++)
        total += weir_counted((const _Atomic uint64_t *)((const uint8_t *)&common->loops[i].counters + offset));
    return total;
}

/* ---- setups ---- */

/* Where the limits of the setup in force are counted. Without memory they count as "(other)" until the next reload. */
static void map_slots(struct weir_loop *loop)
{
    size_t count = weir_rules_count(loop->setup->rules);
    free(loop->slots);
    loop->slots = calloc(count + 1, sizeof(loop->slots[0]));
    for (size_t i = 0; loop->slots && i < count; i++)
        loop->slots[i] = weir_metrics_slot(loop->common->metrics, weir_rules_limit(loop->setup->rules, i)->name);
}

/* Tells the server once no request of the old setup is under way here. */
void weir_loop_request_ended(struct weir_loop *loop)
{
    struct weir_common *common = loop->common;
    if (loop->moving && loop->sharer.transactions.under_way_of[(loop->setup_number - 1) % 2] == 0) {
        loop->moving = false;
        if (atomic_fetch_sub(&common->setup_pending, 1) == 1)
            uv_async_send(common->moved);
    }
    if (loop->sharer.closing && loop->sharer.transactions.under_way == 0)
        weir_sharer_close(loop);
}

static void on_wake(uv_async_t *wake)
{
    struct weir_loop *loop = wake->data;
    struct weir_common *common = loop->common;
    const struct weir_setup *newest = atomic_load(&common->setup);
    atomic_store(&loop->pulse, atomic_load(&common->pulse));
    if (loop->setup != newest) {
        loop->setup = newest;
        loop->setup_number++;
        map_slots(loop);
        weir_refused_configure(loop, uv_hrtime());
        weir_sharer_retire(loop);
        loop->moving = true;
        weir_loop_request_ended(loop);
    }
    if (atomic_load(&common->hurry))
        loop->drain_until_ns = 0;
    weir_loop_take_arrivals(loop);
    weir_loop_follow(loop);
    if (atomic_load(&common->draining) && !loop->draining && loop->handing == WEIR_HANDING_NONE)
        drain(loop);
}

/* ---- life ---- */

/* A loop that could not get all its descriptors. */
static int give_up(struct weir_loop *loop, int error)
{
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
    return error;
}

int weir_loop_init(struct weir_loop *loop, struct weir_common *common, struct weir_fault *ret_fault)
{
    *loop = (struct weir_loop){ .common = common, .limiter = common->limiter };
    loop->setup = atomic_load(&common->setup);
    loop->number = (size_t)(loop - common->loops);
    if (uv_loop_init(&loop->uv))
        return WEIR_ENOMEM;
    int error = weir_timers_init(&loop->timers, &loop->uv);
    if (error)
        return give_up(loop, error);
    if (uv_async_init(&loop->uv, &loop->wake, on_wake)) {
        weir_timers_stop(&loop->timers);
        error = give_up(loop, WEIR_EIO);
        weir_timers_deinit(&loop->timers);
        return error;
    }
    map_slots(loop);
    weir_refused_configure(loop, uv_hrtime());
    uv_idle_init(&loop->uv, &loop->ready);
    uv_timer_init(&loop->uv, &loop->check);
    loop->wake.data = loop->ready.data = loop->check.data = loop;
    error = weir_lock_inbox_open(loop);
    if (!error)
        error = weir_session_inbox_open(loop);
    if (!error)
        error = weir_sharer_init(loop, loop->setup->config, ret_fault);
    if (error)
        weir_loop_deinit(loop);
    return error;
}

int weir_loop_listen(struct weir_loop *loop, const struct weir_listener *like, int fd)
{
    weir_assert(loop->listener_count < WEIR_LOOP_LISTENERS_MAX);
    struct weir_listener *listener = malloc(sizeof(*listener));
    if (!listener)
        return WEIR_ENOMEM;
    *listener = *like;
    listener->loop = loop;
    listener->fd = fd;
    listener->state = calloc(1, like->protocol->loop_state_size + 1); /* never 0: NULL is out of memory */
    if (!listener->state || uv_poll_init(&loop->uv, &listener->poll, fd)) {
        int error = listener->state ? WEIR_EIO : WEIR_ENOMEM;
        free(listener->state);
        free(listener);
        return error;
    }
    listener->poll.data = listener;
    loop->listeners[loop->listener_count++] = listener;
    return uv_poll_start(&listener->poll, UV_READABLE, on_connection) ? WEIR_EIO : 0;
}

static void *run(void *argument)
{
    struct weir_loop *loop = argument;
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    atomic_store(&loop->pulse, UINT64_MAX);
    atomic_fetch_sub(&loop->common->running, 1);
    uv_async_send(loop->common->moved);
    return NULL;
}

int weir_loop_start(struct weir_loop *loop)
{
    /* Signals are the server's thread's business. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_fetch_add(&loop->common->running, 1);
    int error = pthread_create(&loop->thread, NULL, run, loop);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        atomic_fetch_sub(&loop->common->running, 1);
        return WEIR_ENOMEM;
    }
    return 0;
}

void weir_loop_join(struct weir_loop *loop)
{
    pthread_join(loop->thread, NULL);
}

void weir_loop_deinit(struct weir_loop *loop)
{
    weir_sharer_close(loop);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    int closed = uv_loop_close(&loop->uv);
    weir_assert(closed == 0);
    for (size_t i = 0; i < loop->listener_count; i++) {
        free(loop->listeners[i]->state);
        free(loop->listeners[i]);
    }
    for (struct weir_takeover_taken *first = atomic_load(&loop->arrivals), *next; first; first = next) {
        next = first->next;
        weir_takeover_taken_free(first);
    }
    weir_sharer_deinit(loop);
    weir_refusals_destroy(atomic_load(&loop->refusals));
    weir_timers_deinit(&loop->timers);
    weir_piece_pool_deinit(&loop->pool);
    free(loop->slots);
}
