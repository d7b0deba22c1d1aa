/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes HTTP replies straight into the connection's output: reserves the most that a reply may take, writes, commits
 * what was used. For a reply that comes later it keeps what is needed of the request; a long one it writes in parts, as
 * the client takes them. Called by http.c and the handlers (http_*.c); wire/http_answer.c has the text of the head. */
#include <stdlib.h>

#include "base/assert.h"
#include "serve/http_call.h"
#include "serve/loop.h"

struct weir_http_call weir_http_call_on(struct weir_conn *conn, const struct weir_time *time)
{
    return (struct weir_http_call){
        .conn = conn, .session = weir_conn_state(conn), .work = weir_conn_loop_state(conn), .time = time
    };
}

void weir_http_call_leave(const struct weir_http_call *call, bool waits)
{
    call->session->method = call->request->method;
    call->session->keep_alive = call->request->keep_alive;
    call->session->version_10 = call->request->version_10;
    weir_conn_ask_begin(call->conn);
    if (waits)
        weir_conn_wait_begin(call->conn);
    weir_conn_gate(call->conn);
}

struct weir_http_call weir_http_call_resume(struct weir_conn *conn, const struct weir_time *time)
{
    struct weir_http_call call = weir_http_call_on(conn, time);
    call.request = &call.work->request;
    call.work->request.method = call.session->method;
    call.work->request.keep_alive = call.session->keep_alive;
    call.work->request.version_10 = call.session->version_10;
    return call;
}

void weir_http_call_end(const struct weir_http_call *call, bool waits)
{
    if (waits)
        weir_conn_wait_end(call->conn);
    weir_conn_ask_end(call->conn);
}

static bool head_only(const struct weir_http_call *call)
{
    return call->request && call->request->method == WEIR_HTTP_HEAD;
}

static void write_head_of(const struct weir_http_call *call, struct weir_text *text, int status, const char *type,
                          size_t body_size, bool streams)
{
    const struct weir_http_request *request = call->request;
    enum weir_http_status counted = weir_http_status_of(status);
    weir_assert(counted < WEIR_HTTP_STATUSES);
    weir_count(&call->conn->loop->counters.http_answers[counted], 1);
    call->session->closes = streams || !request || !request->keep_alive || weir_conn_is_last(call->conn);
    weir_http_answer_head(text, &(struct weir_http_answer){
                                    .status = status,
                                    .content_type = type,
                                    .content_length = body_size,
                                    .max_age_s = call->max_age_s,
                                    .streams = streams,
                                    .keep_alive = !call->session->closes,
                                    .version_10 = request && request->version_10,
                                    .wall_ns = call->time->wall_ns + call->wait_ns,
                                });
}

static void write_head(const struct weir_http_call *call, struct weir_text *text, int status, const char *type,
                       size_t body_size)
{
    write_head_of(call, text, status, type, body_size, false);
}

static void end_answer(const struct weir_http_call *call, const struct weir_text *text)
{
    weir_assert(!text->overflow);
    weir_conn_commit(call->conn, text->size);
    if (call->session->closes)
        weir_conn_close_after_flush(call->conn);
}

void weir_http_reply_body(const struct weir_http_call *call, int status, const char *type, const char *fields,
                          const struct weir_text *body)
{
    weir_assert(!body->overflow);
    size_t room = WEIR_HTTP_ANSWER_HEAD_MAX + strlen(fields) + 2 + body->size;
    struct weir_text text = weir_text_init(weir_conn_reserve(call->conn, room), room);
    if (!text.data)
        return;
    write_head(call, &text, status, type, body->size);
    weir_text_str(&text, fields);
    weir_text_lit(&text, "\r\n");
    if (!head_only(call))
        weir_text_bytes(&text, body->data, body->size);
    end_answer(call, &text);
}

void weir_http_reply(const struct weir_http_call *call, int status, const char *type, const char *fields,
                     const char *body)
{
    char copy[64];
    struct weir_text text = weir_text_init(copy, sizeof(copy));
    weir_text_str(&text, body);
    weir_assert(!text.overflow);
    weir_http_reply_body(call, status, type, fields, &text);
}

#define DETAIL_MAX 256

void weir_http_reply_problem(const struct weir_http_call *call, int status, const char *fields, const char *detail)
{
    char body[WEIR_HTTP_PROBLEM_MAX + 6 * DETAIL_MAX];
    struct weir_text text = weir_text_init(body, sizeof(body));
    weir_http_problem(&text, status, detail);
    weir_assert(!text.overflow);
    weir_http_reply_body(call, status, WEIR_HTTP_PROBLEM, fields, &text);
}

void weir_http_reply_fault(const struct weir_http_call *call, int error, const struct weir_fault *fault)
{
    char detail[sizeof(fault->field) + sizeof(fault->text) + 2];
    struct weir_text text = weir_text_init(detail, sizeof(detail) - 1);
    if (fault->field[0]) {
        weir_text_str(&text, fault->field);
        weir_text_lit(&text, ": ");
    }
    weir_text_str(&text, fault->text[0] ? fault->text : weir_error_text(error));
    detail[text.size] = '\0';
    weir_http_reply_problem(call, error == WEIR_ENOMEM ? 503 : 400, "", detail);
}

/* The body is written first, where the head cannot reach it, because the head tells its length. */
void weir_http_reply_verdict(const struct weir_http_call *call, int status, const struct weir_answer *answer,
                             bool with_body)
{
    const struct weir_config *config = call->conn->loop->setup->config;
    const struct weir_ratelimit_options options = { config->headers_ratelimit, config->headers_x_ratelimit };
    size_t head_max = WEIR_HTTP_ANSWER_HEAD_MAX + weir_ratelimit_fields_max(answer) + 2;
    size_t body_max = with_body ? weir_check_answer_max(answer) : 0;
    uint8_t *room = weir_conn_reserve(call->conn, head_max + body_max);
    if (!room)
        return;
    struct weir_text body = weir_text_init(room + head_max, body_max);
    if (with_body)
        weir_check_answer(&body, answer);
    weir_assert(!body.overflow);
    const char *type = !with_body ? NULL : status == 200 ? WEIR_HTTP_JSON : WEIR_HTTP_PROBLEM;
    struct weir_text head = weir_text_init(room, head_max);
    write_head(call, &head, status, type, body.size);
    weir_ratelimit_fields(&head, answer, &options);
    weir_text_lit(&head, "\r\n");
    if (!head_only(call)) {
        memmove(room + head.size, body.data, body.size);
        head.size += body.size;
    }
    end_answer(call, &head);
}

/* ---- long answers ---- */

/* `owned` is `body`, or NULL. */
static void reply_in_parts(const struct weir_http_call *call, const char *type, const char *fields, const uint8_t *body,
                           size_t size, uint8_t *owned)
{
    struct weir_http_session *session = call->session;
    weir_assert(!session->rest);
    const size_t head_max = WEIR_HTTP_ANSWER_HEAD_MAX + strlen(fields) + 2;
    uint8_t *room = weir_conn_reserve(call->conn, head_max);
    if (!room) {
        free(owned);
        return;
    }
    struct weir_text text = weir_text_init(room, head_max);
    write_head(call, &text, 200, type, size);
    weir_text_str(&text, fields);
    weir_text_lit(&text, "\r\n");
    bool keep = !call->session->closes;
    weir_conn_commit(call->conn, text.size);
    session->rest_closes = !keep;
    if (head_only(call)) {
        free(owned);
        if (!keep)
            weir_conn_close_after_flush(call->conn);
        return;
    }
    session->rest = body;
    session->rest_owned = owned;
    session->rest_size = size;
    session->rest_sent = 0;
    weir_http_send_rest(call->conn);
}

void weir_http_reply_long(const struct weir_http_call *call, const char *type, const char *fields, uint8_t *body,
                          size_t size)
{
    reply_in_parts(call, type, fields, body, size, body);
}

void weir_http_reply_shared(const struct weir_http_call *call, const char *type, const char *fields,
                            const uint8_t *body, size_t size)
{
    reply_in_parts(call, type, fields, body, size, NULL);
}

void weir_http_send_rest(struct weir_conn *conn)
{
    struct weir_http_session *session = weir_conn_state(conn);
    while (session->rest && !weir_conn_is_full(conn)) {
        size_t left = session->rest_size - session->rest_sent;
        size_t part = left < WEIR_PIECE_SIZE ? left : WEIR_PIECE_SIZE;
        weir_conn_write(conn, session->rest + session->rest_sent, part);
        session->rest_sent += part;
        if (session->rest_sent < session->rest_size)
            continue;
        free(session->rest_owned);
        session->rest = session->rest_owned = NULL;
        if (session->rest_closes)
            weir_conn_close_after_flush(conn);
    }
}

static struct weir_slice trim(struct weir_slice text)
{
    const char *at = text.data;
    size_t size = text.size;
    for (; size > 0 && (*at == ' ' || *at == '\t'); size--)
        at++;
    while (size > 0 && (at[size - 1] == ' ' || at[size - 1] == '\t'))
        size--;
    return (struct weir_slice){ at, size };
}

bool weir_http_takes_gzip(const struct weir_http_request *request)
{
    const struct weir_http_header *field = weir_http_find(request, "accept-encoding");
    const char *at = field ? field->value.data : "", *end = at + (field ? field->value.size : 0);
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        if (weir_http_is(trim((struct weir_slice){ at, (size_t)(stop - at) }), "gzip"))
            return true;
        at = stop + (comma ? 1 : 0);
    }
    return false;
}

void weir_http_reply_stream(const struct weir_http_call *call, const char *type, const char *fields)
{
    const size_t room = WEIR_HTTP_ANSWER_HEAD_MAX + strlen(fields) + 2;
    struct weir_text text = weir_text_init(weir_conn_reserve(call->conn, room), room);
    if (!text.data)
        return;
    write_head_of(call, &text, 200, type, 0, true);
    weir_text_str(&text, fields);
    weir_text_lit(&text, "\r\n");
    weir_assert(!text.overflow);
    weir_conn_commit(call->conn, text.size);
}
