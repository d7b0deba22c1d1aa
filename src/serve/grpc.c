/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls over HTTP/2: finds the method, asks for the right that it needs, gives it its message, and sees to it that each
 * call ends: with its answer, its timeout, or its connection. All answers of a batch of input are written when the
 * batch has been taken. Called by conn.c through weir_grpc_protocol, which cli/serve_listens.c gives to the server;
 * HTTP/2 is in wire/h2.h. */
#include "serve/grpc.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/container.h"
#include "observe/metrics.h"
#include "serve/grpc_call.h"

/* Of one connection: unfinished messages, and answers that the client does not take. */
#define KEPT_MAX ((size_t)1 << 20)
/* While the buffers of all connections take what they may, together. */
#define KEPT_CROWDED_MAX ((size_t)16 << 10)

static const struct weir_grpc_method methods[] = {
    { "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", WEIR_RIGHT_CHECK, false,
      weir_grpc_should_rate_limit, NULL, NULL },
    { "/grpc.health.v1.Health/Check", 0, false, weir_grpc_health_check, NULL, NULL },
    { "/grpc.health.v1.Health/Watch", 0, true, weir_grpc_health_watch, weir_grpc_health_half, weir_grpc_health_leave },
    { "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", 0, true, weir_grpc_reflection, NULL, NULL },
    { "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", 0, true, weir_grpc_reflection, NULL, NULL },
};

static const struct weir_grpc_method *find(struct weir_slice path)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (strlen(methods[i].path) == path.size && memcmp(methods[i].path, path.data, path.size) == 0)
            return &methods[i];
    return NULL;
}

/* ---- timeouts ---- */

static void on_due(struct weir_timer *timer, const struct weir_time *time)
{
    struct weir_grpc_call *call = weir_container(timer, struct weir_grpc_call, timer);
    const bool own = time->now_ns >= call->due_ns;
    weir_grpc_finish(call, WEIR_GRPC_DEADLINE_EXCEEDED,
                     own ? "the call's own timeout is over" : "its message did not come within server.request_timeout");
}

/* A call that was not answered with the batch of input in which it came. It waits for its message no longer than a
 * request may, and for its answer no longer than it has said. */
static void settle(struct weir_grpc_call *call)
{
    struct weir_loop *loop = call->conn->loop;
    call->settled = true;
    if (call->h2->finished)
        return;
    const uint64_t message_ns = weir_add_sat(uv_hrtime(), loop->setup->config->server.request_timeout_ns);
    const uint64_t due_ns = call->run || call->method->streams ? call->due_ns : weir_min_u64(call->due_ns, message_ns);
    if (due_ns == WEIR_NEVER)
        return;
    call->timer.on_due = on_due;
    if (weir_timer_start(&loop->timers, &call->timer, due_ns))
        weir_grpc_finish(call, WEIR_GRPC_RESOURCE_EXHAUSTED, "out of memory");
}

static void settle_all(struct weir_grpc_session *session)
{
    struct weir_grpc_call *call = session->calls;
    for (; call && session->unsettled > 0; call = call->next) {
        if (call->settled)
            continue;
        session->unsettled--;
        settle(call);
    }
    session->unsettled = 0;
}

/* ---- what HTTP/2 tells ---- */

/* Who shows a token has its rights; a call without one has those of its connection. */
static bool is_allowed(struct weir_grpc_call *call)
{
    struct weir_conn *conn = call->conn;
    const struct weir_grpc_session *session = weir_conn_state(conn);
    const unsigned right = call->method->right;
    struct weir_auth_digest digest;
    uint64_t wait_ns = 0;
    call->rights = conn->rights;
    if (right == 0)
        return true;
    const bool shows = call->h2->token.size > 0 && conn->loop->setup->auth.count > 0;
    if (shows)
        call->rights = weir_guess(conn, call->h2->token, session->time, &digest, &wait_ns);
    if ((call->rights & right) == right)
        return true;
    if (wait_ns > 0)
        weir_grpc_finish(call, WEIR_GRPC_UNAUTHENTICATED, "too many wrong tokens came from this address");
    else if (call->rights == 0)
        weir_grpc_finish(call, WEIR_GRPC_UNAUTHENTICATED,
                         shows ? "this token is not known here"
                               : "a token is needed: send it as metadata, authorization: Bearer TOKEN");
    else
        weir_grpc_finish(call, WEIR_GRPC_PERMISSION_DENIED, "this token lacks the right to that");
    return false;
}

static void list(struct weir_grpc_session *session, struct weir_grpc_call *call)
{
    call->next = session->calls;
    if (call->next)
        call->next->prev = call;
    session->calls = call;
    session->unsettled++;
}

static void on_call(void *context, struct weir_h2_call *h2)
{
    struct weir_conn *conn = context;
    struct weir_grpc_session *session = weir_conn_state(conn);
    struct weir_grpc_call *call = calloc(1, sizeof(*call));
    if (!call) {
        weir_grpc_library_of(conn)->h2_finish(h2, WEIR_GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    *call = (struct weir_grpc_call){
        .conn = conn, .h2 = h2, .method = find(h2->path), .due_ns = weir_add_sat(session->time->now_ns, h2->timeout_ns)
    };
    h2->state = call;
    list(session, call);
    if (!call->method)
        weir_grpc_finish(call, WEIR_GRPC_UNIMPLEMENTED, "no such method: server reflection lists those that there are");
    else
        (void)is_allowed(call);
}

static void on_message(void *context, struct weir_h2_call *h2, const uint8_t *message, size_t size)
{
    struct weir_conn *conn = context;
    struct weir_grpc_session *session = weir_conn_state(conn);
    struct weir_grpc_call *call = h2->state;
    if (!call->method->streams && call->run) {
        weir_grpc_finish(call, WEIR_GRPC_INTERNAL, "this method takes one message");
        return;
    }
    weir_timer_stop(&conn->loop->timers, &call->timer); /* it has come, and its answer is waited for now */
    session->unsettled += call->settled;
    call->settled = false;
    call->run = true;
    session->taken++;
    if (call->due_ns <= session->time->now_ns)
        weir_grpc_finish(call, WEIR_GRPC_DEADLINE_EXCEEDED, "the call's own timeout is over");
    else
        call->method->run(call, message, size, session->time);
}

static void on_half(void *context, struct weir_h2_call *h2)
{
    struct weir_grpc_call *call = h2->state;
    (void)context;
    if (call->method->streams && call->method->on_half)
        call->method->on_half(call);
    else if (call->method->streams)
        weir_grpc_finish(call, WEIR_GRPC_OK, NULL);
    else if (!call->run)
        weir_grpc_finish(call, WEIR_GRPC_INTERNAL, "the call ends without a message");
}

static void on_gone(void *context, struct weir_h2_call *h2)
{
    struct weir_conn *conn = context;
    struct weir_grpc_session *session = weir_conn_state(conn);
    struct weir_grpc_call *call = h2->state;
    if (!call)
        return;
    if (call->prev)
        call->prev->next = call->next;
    else
        session->calls = call->next;
    if (call->next)
        call->next->prev = call->prev;
    session->unsettled -= !call->settled && session->unsettled > 0;
    weir_timer_stop(&conn->loop->timers, &call->timer);
    if (call->on_gone)
        call->on_gone(call);
    free(call);
}

/* ---- the protocol ---- */

static int create(struct weir_conn *conn, struct weir_grpc_session *session)
{
    static const struct weir_h2_owner owner = { on_call, on_message, on_half, on_gone };
    const struct weir_config_server *server = &conn->loop->setup->config->server;
    const struct weir_h2_bounds bounds = { .streams_max = WEIR_H2_STREAMS_MAX,
                                           .headers_max = server->headers_max,
                                           .header_bytes_max = server->header_bytes_max,
                                           .message_max = server->body_bytes_max,
                                           .kept_max = KEPT_MAX };
    return weir_grpc_library_of(conn)->h2_create(&bounds, &owner, conn, &session->h2);
}

/* The first bytes. False: they are no HTTP/2; of what begins as HTTP/1 does that is said in its words. */
static bool begins(struct weir_conn *conn, const uint8_t *data, size_t size)
{
    static const char other[] = "HTTP/1.1 505 HTTP Version Not Supported\r\nConnection: close\r\n"
                                "Content-Type: text/plain\r\nContent-Length: 45\r\n\r\n"
                                "this is the port of gRPC, which needs HTTP/2\n";
    const size_t preface_size = sizeof(WEIR_H2_PREFACE) - 1;
    if (memcmp(data, WEIR_H2_PREFACE, weir_min_u64(size, preface_size)) == 0)
        return true;
    if (data[0] >= 'A' && data[0] <= 'Z')
        weir_conn_write(conn, other, sizeof(other) - 1);
    weir_count(&conn->loop->counters.protocol_errors, 1);
    weir_conn_close_after_flush(conn);
    return false;
}

static void count_taken(const struct weir_conn *conn, const struct weir_grpc_session *session,
                        const struct weir_time *time)
{
    struct weir_metrics_loop *metrics = weir_metrics_of_loop(conn->loop->common->metrics, conn->loop->number);
    if (session->taken == 0)
        return;
    weir_count(&conn->loop->counters.calls, session->taken);
    weir_histogram_add(&metrics->turn_ns[WEIR_METRICS_GRPC], uv_hrtime() - time->now_ns, session->taken);
}

/* All that has come is taken, and what is not a whole frame is kept by HTTP/2. */
static size_t on_input(struct weir_conn *conn, const uint8_t *data, size_t size, const struct weir_time *time)
{
    struct weir_grpc_session *session = weir_conn_state(conn);
    if (!session->h2) {
        if (size == 0 || !begins(conn, data, size))
            return size;
        if (size < sizeof(WEIR_H2_PREFACE) - 1)
            return 0;
        if (create(conn, session)) {
            weir_conn_abort(conn);
            return size;
        }
    }
    session->time = time;
    session->taken = 0;
    const int error = size > 0 ? weir_grpc_library_of(conn)->h2_take(session->h2, data, size, time->now_ns) : 0;
    settle_all(session);
    session->time = NULL;
    weir_grpc_put_output(conn);
    count_taken(conn, session, time);
    if (error)
        weir_count(&conn->loop->counters.protocol_errors, 1);
    if (error || weir_grpc_library_of(conn)->h2_is_over(session->h2))
        weir_conn_close_after_flush(conn);
    if (weir_conn_is_crowded(conn) && weir_grpc_library_of(conn)->h2_kept(session->h2) > KEPT_CROWDED_MAX) {
        weir_count(&conn->loop->counters.connections_shed, 1);
        weir_conn_abort(conn);
    }
    return size;
}

static void on_leave(struct weir_conn *conn, bool last)
{
    struct weir_grpc_session *session = weir_conn_state(conn);
    if (!session->h2 || session->left || (session->leaves && !last))
        return;
    session->leaves = true;
    session->left = last;
    weir_grpc_library_of(conn)->h2_leave(session->h2, last);
    session->quiet = true;
    for (struct weir_grpc_call *call = session->calls; last && call; call = call->next) {
        if (call->method && call->method->on_leave)
            call->method->on_leave(call);
        else if (!call->run)
            weir_grpc_finish(call, WEIR_GRPC_UNAVAILABLE, "this connection ends: connect again");
    }
    session->quiet = false;
    weir_grpc_push(conn);
}

static size_t kept(struct weir_conn *conn)
{
    const struct weir_grpc_session *session = weir_conn_state(conn);
    return session->h2 ? weir_grpc_library_of(conn)->h2_kept(session->h2) : 0;
}

static void on_close(struct weir_conn *conn)
{
    struct weir_grpc_session *session = weir_conn_state(conn);
    weir_grpc_library_of(conn)->h2_destroy(session->h2);
    session->h2 = NULL;
}

static size_t input_max(const struct weir_config_server *server)
{
    (void)server;
    return WEIR_PIECE_SIZE;
}

const struct weir_protocol weir_grpc_protocol = {
    .name = "grpc",
    .alpn = "\x02h2",
    .state_size = sizeof(struct weir_grpc_session),
    .loop_state_size = sizeof(struct weir_grpc_work),
    .says_close = true,
    .stays = true,
    .input_max = input_max,
    .on_input = on_input,
    .on_leave = on_leave,
    .kept = kept,
    .on_close = on_close,
};
