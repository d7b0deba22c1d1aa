/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream is an answer that goes on: its connection takes no other request, ends with it, and is not idle. The timer
 * runs while the loop has streams. Called by http.c. */
#include "serve/http_live.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "observe/hour.h"
#include "serve/http_hour.h"
#include "serve/loop.h"
#include "wire/query.h"

struct weir_live_stream {
    struct weir_conn *conn;
    struct weir_live_stream *next, *prev;
    uint64_t after;        /* the last row that it was sent */
    uint64_t setup_number; /* under which it was let in */
    uint64_t marks[3];     /* that it was told last */
};

/* An event, as it was written for the last stream. */
struct event {
    bool known;
    uint64_t after, newest;
    uint64_t marks[3];
    uint8_t *bytes; /* NULL: memory was out */
    size_t size;
};

/* ---- events ---- */

#define FRAME_MAX 256

static void read_marks(const struct weir_common *common, uint64_t marks[3])
{
    marks[0] = atomic_load_explicit(&common->marks.limits, memory_order_relaxed);
    marks[1] = atomic_load_explicit(&common->marks.nodes, memory_order_relaxed);
    marks[2] = atomic_load_explicit(&common->marks.state, memory_order_relaxed);
}

static void frame(struct event *event, const uint8_t *rows, size_t size)
{
    const size_t room = size + FRAME_MAX;
    event->bytes = malloc(room);
    if (!event->bytes)
        return;
    struct weir_text text = weir_text_init(event->bytes, room);
    weir_text_member_u64(&text, "id: ", event->newest);
    weir_text_member_u64(&text, "\ndata: {\"marks\":{\"limits\":", event->marks[0]);
    weir_text_member_u64(&text, ",\"nodes\":", event->marks[1]);
    weir_text_member_u64(&text, ",\"state\":", event->marks[2]);
    weir_text_lit(&text, "},\"hour\":");
    weir_text_bytes(&text, rows, size);
    weir_text_lit(&text, "}\n\n");
    weir_assert(!text.overflow);
    event->size = text.size;
}

/* What who has the rows up to `after` is sent now. Who is ahead of us read another process, and is told so. */
static void write_event(const struct weir_loop *loop, uint64_t after, struct event *event)
{
    struct weir_hour_row rows[WEIR_LIVE_ROWS_MAX];
    const size_t count = weir_hour_read(loop->common->hour, after, rows, WEIR_LIVE_ROWS_MAX);
    const uint64_t newest = weir_hour_newest(loop->common->hour);
    size_t size = 0;
    uint8_t *body = weir_hour_json(loop, rows, count, newest, &size);
    free(event->bytes);
    *event = (struct event){ .known = true, .after = after };
    event->newest = count > 0 ? rows[count - 1].number : after < newest ? after : newest;
    read_marks(loop->common, event->marks);
    if (body)
        frame(event, body, size);
    free(body);
}

/* ---- one stream ---- */

static void list(struct weir_loop *loop, struct weir_live_stream *stream)
{
    stream->next = loop->live;
    if (stream->next)
        stream->next->prev = stream;
    loop->live = stream;
}

/* Off the list; its memory goes. */
static void forget(struct weir_live_stream *stream)
{
    struct weir_loop *loop = stream->conn->loop;
    struct weir_http_session *session = weir_conn_state(stream->conn);
    if (stream->prev)
        stream->prev->next = stream->next;
    else
        loop->live = stream->next;
    if (stream->next)
        stream->next->prev = stream->prev;
    if (!loop->live)
        weir_timer_stop(&loop->timers, &loop->live_timer);
    atomic_fetch_sub(&loop->common->live_streams, 1);
    session->live = NULL;
    free(stream);
}

void weir_http_live_drop(struct weir_http_session *session)
{
    if (session->live)
        forget(session->live);
}

static void end(struct weir_live_stream *stream)
{
    struct weir_conn *conn = stream->conn;
    static const char last[] = "event: end\ndata: {}\n\n";
    weir_conn_write(conn, last, sizeof(last) - 1);
    forget(stream);
    weir_conn_close_after_flush(conn);
    weir_conn_wait_end(conn);
    weir_conn_ask_end(conn);
}

static void end_all(struct weir_loop *loop)
{
    for (struct weir_live_stream *stream = loop->live, *next; stream; stream = next) {
        next = stream->next;
        end(stream);
    }
}

static bool is_slow(const struct weir_conn *conn)
{
    const size_t unsent = weir_conn_pending(conn);
    return unsent > WEIR_LIVE_UNSENT_MAX || unsent > conn->loop->setup->config->server.output_bytes_max ||
           (unsent > 0 && weir_conn_is_crowded(conn));
}

static void cut(struct weir_live_stream *stream)
{
    struct weir_conn *conn = stream->conn;
    weir_count(&conn->loop->counters.live_cut, 1);
    forget(stream);
    weir_conn_abort(conn);
}

static bool has_news(const struct weir_live_stream *stream, uint64_t newest, const uint64_t marks[3])
{
    return stream->after != newest || memcmp(stream->marks, marks, sizeof(stream->marks)) != 0;
}

static void send_event(struct weir_live_stream *stream, struct event *event)
{
    if (!event->known || event->after != stream->after)
        write_event(stream->conn->loop, stream->after, event);
    if (!event->bytes)
        return; /* the next tick tries again */
    weir_conn_write(stream->conn, event->bytes, event->size);
    stream->after = event->newest;
    memcpy(stream->marks, event->marks, sizeof(stream->marks));
    weir_loop_ready_add(stream->conn->loop, stream->conn);
}

/* ---- the timer ---- */

static bool is_over(const struct weir_loop *loop, const struct weir_live_stream *stream)
{
    return loop->draining || loop->handing != WEIR_HANDING_NONE || stream->setup_number != loop->setup_number;
}

static void on_tick(struct weir_timer *timer, const struct weir_time *time)
{
    struct weir_loop *loop = (struct weir_loop *)((uint8_t *)timer - offsetof(struct weir_loop, live_timer));
    const uint64_t newest = weir_hour_newest(loop->common->hour);
    struct event event = { .known = false };
    uint64_t marks[3];
    read_marks(loop->common, marks);
    for (struct weir_live_stream *stream = loop->live, *next; stream; stream = next) {
        next = stream->next;
        if (is_over(loop, stream))
            end(stream);
        else if (is_slow(stream->conn))
            cut(stream);
        else if (has_news(stream, newest, marks))
            send_event(stream, &event);
    }
    free(event.bytes);
    if (loop->live && weir_timer_start(&loop->timers, &loop->live_timer, time->now_ns + WEIR_LIVE_TICK_NS))
        end_all(loop); /* without memory for a timer there are no streams */
}

/* ---- the call ---- */

static int read_after(const struct weir_http_call *call, uint64_t *ret_after, struct weir_fault *fault)
{
    char value[24] = "";
    struct weir_query_field after = { .name = "after", .value = value, .room = sizeof(value) };
    *ret_after = weir_hour_newest(call->conn->loop->common->hour);
    int error = weir_query_read(call->request->query, &after, 1, fault);
    return error || !after.given ? error : weir_query_number(&after, 0, 999999999999999999, ret_after, fault);
}

static bool may_begin(struct weir_loop *loop)
{
    if (loop->draining || loop->handing != WEIR_HANDING_NONE)
        return false;
    if (atomic_fetch_add(&loop->common->live_streams, 1) < WEIR_LIVE_STREAMS_MAX)
        return true;
    atomic_fetch_sub(&loop->common->live_streams, 1);
    return false;
}

/* So much the kernel keeps for one who does not read. */
static void bound_socket(const struct weir_conn *conn)
{
    const int size = WEIR_LIVE_SOCKET_MAX;
    (void)setsockopt(conn->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

static void start(struct weir_http_call *call, uint64_t after)
{
    struct weir_loop *loop = call->conn->loop;
    struct weir_live_stream *stream = calloc(1, sizeof(*stream));
    struct event event = { .known = false };
    loop->live_timer.on_due = on_tick;
    if (!stream ||
        (!loop->live && weir_timer_start(&loop->timers, &loop->live_timer, call->time->now_ns + WEIR_LIVE_TICK_NS))) {
        atomic_fetch_sub(&loop->common->live_streams, 1);
        free(stream);
        weir_http_reply_problem(call, 503, "", "out of memory");
        return;
    }
    *stream = (struct weir_live_stream){ .conn = call->conn, .after = after, .setup_number = loop->setup_number };
    call->session->live = stream;
    list(loop, stream);
    bound_socket(call->conn);
    weir_http_reply_stream(call, "text/event-stream", "X-Accel-Buffering: no\r\nX-Content-Type-Options: nosniff\r\n");
    weir_http_call_leave(call, true);
    send_event(stream, &event);
    free(event.bytes);
}

void weir_http_live(struct weir_http_call *call)
{
    struct weir_fault fault = { 0 };
    uint64_t after = 0;
    int error = read_after(call, &after, &fault);
    if (error)
        weir_http_reply_fault(call, error, &fault);
    else if (call->request->method == WEIR_HTTP_HEAD)
        weir_http_reply(call, 200, "text/event-stream", "", "");
    else if (!may_begin(call->conn->loop))
        weir_http_reply_problem(call, 503, "Retry-After: 10\r\n", "too many streams, or the server ends: ask /v1/hour");
    else
        start(call, after);
}
