/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/locks: acquire, renew, release, show; and restored, by which an operator says that the store was put back from a
 * copy. A question becomes an ask (locks.h). What is decided at once is answered at once; else the call is left
 * (weir_http_call_leave), and on_decided() takes it up when the answer has come. Called by http.c. */
#include "serve/http_call.h"
#include "serve/locks.h"
#include "serve/loop.h"

#define MS_NS (WEIR_NS_PER_SECOND / 1000)

static struct weir_slice holder_of(const struct weir_lock_op *op)
{
    return (struct weir_slice){ op->holder, op->holder_size };
}

/* ---- answers ---- */

static void reply_held(const struct weir_http_call *call, struct weir_text *body, const struct weir_lock_op *op)
{
    char fields[48];
    uint64_t remaining_ms = weir_remaining_told_ms(op->lease_ns);
    uint64_t seconds = remaining_ms / 1000 + (remaining_ms % 1000 != 0);
    struct weir_text text = weir_text_init(fields, sizeof(fields) - 1);
    weir_text_lit(&text, "Retry-After: ");
    weir_text_u64(&text, seconds > 0 ? seconds : 1);
    weir_text_lit(&text, "\r\n");
    fields[text.size] = '\0';
    weir_lock_json_held(body, holder_of(op), remaining_ms);
    weir_http_reply_body(call, 409, WEIR_HTTP_PROBLEM, fields, body);
}

static void reply_lease(const struct weir_http_call *call, struct weir_text *body, const struct weir_lock_op *op)
{
    if (op->said == WEIR_LOCK_HELD) {
        reply_held(call, body, op);
        return;
    }
    bool granted = op->said == WEIR_LOCK_GRANTED;
    if (granted)
        weir_lock_json_granted(body, op->token, weir_lease_told_ms(op->lease_ns));
    else
        weir_lock_json_lost(body);
    weir_http_reply_body(call, granted ? 200 : 409, granted ? WEIR_HTTP_JSON : WEIR_HTTP_PROBLEM, "", body);
}

static void reply_shown(const struct weir_http_call *call, struct weir_text *body, const struct weir_lock_op *op,
                        size_t waiters)
{
    const struct weir_lock_shown shown = {
        .name = op->name,
        .held = op->said == WEIR_LOCK_GRANTED,
        .holder = holder_of(op),
        .token = op->token,
        .lease_ms = weir_lease_told_ms(op->lease_ns),
        .waiters = waiters,
    };
    weir_lock_json_shown(body, &shown);
    weir_http_reply_body(call, 200, WEIR_HTTP_JSON, "", body);
}

static void reply_decided(const struct weir_http_call *call, const struct weir_lock_op *op, size_t waiters)
{
    uint8_t room[WEIR_LOCK_JSON_MAX + 6 * (WEIR_LOCK_NAME_MAX + WEIR_LOCK_OWNER_MAX)];
    struct weir_text body = weir_text_init(room, sizeof(room));
    bool released = op->said == WEIR_LOCK_GRANTED;
    switch (op->verb) {
    case WEIR_LOCK_ACQUIRE:
    case WEIR_LOCK_RENEW:
        reply_lease(call, &body, op);
        break;
    case WEIR_LOCK_RELEASE:
        weir_lock_json_released(&body, released);
        weir_http_reply_body(call, released ? 200 : 404, released ? WEIR_HTTP_JSON : WEIR_HTTP_PROBLEM, "", &body);
        break;
    case WEIR_LOCK_SHOW:
        reply_shown(call, &body, op, waiters);
        break;
    case WEIR_LOCK_RAISE:
    default:
        weir_lock_json_raised(&body, op->token.incarnation);
        weir_http_reply_body(call, 200, WEIR_HTTP_JSON, "", &body);
    }
}

static void reply_unknown(const struct weir_http_call *call, enum weir_lock_verb verb)
{
    uint8_t room[WEIR_LOCK_JSON_MAX];
    struct weir_text body = weir_text_init(room, sizeof(room));
    bool granting = verb == WEIR_LOCK_ACQUIRE || verb == WEIR_LOCK_RENEW;
    weir_lock_json_unknown(&body, granting                    ? WEIR_LOCKS_UNKNOWN
                                  : verb == WEIR_LOCK_RELEASE ? WEIR_LOCKS_UNANSWERED "; it may have been released"
                                                              : WEIR_LOCKS_UNANSWERED);
    weir_http_reply_body(call, 504, WEIR_HTTP_PROBLEM, "", &body);
}

static void reply_error(const struct weir_http_call *call, int error)
{
    switch (error) {
    case WEIR_ENOENT:
        weir_http_reply_problem(call, 404, "", WEIR_LOCKS_ABSENT);
        break;
    case WEIR_EDOWN:
        weir_http_reply_problem(call, 503, "Retry-After: 1\r\n", WEIR_LOCKS_DOWN);
        break;
    case WEIR_ELIMIT:
        weir_http_reply_problem(call, 503, "Retry-After: 1\r\n", WEIR_LOCKS_FULL);
        break;
    case WEIR_ERANGE:
        weir_http_reply_problem(call, 400, "", "seen: " WEIR_LOCKS_SEEN_FAR);
        break;
    default:
        weir_http_reply_problem(call, error == WEIR_ENOMEM ? 503 : 500, "", weir_error_text(error));
    }
}

static void reply_ask(struct weir_http_call *call, const struct weir_lock_ask *ask)
{
    const struct weir_lock_op *op = weir_lock_ask_op(ask);
    if (op->status == WEIR_EUNKNOWN)
        reply_unknown(call, op->verb);
    else if (op->status == WEIR_ERANGE) /* the engine's word, whatever rights the caller has */
        weir_http_reply_problem(call, 400, "", "seen: " WEIR_LOCKS_SEEN_MADE_UP);
    else if (op->status)
        reply_error(call, op->status);
    else
        reply_decided(call, op, weir_lock_ask_waiters(ask));
}

static void on_decided(struct weir_lock_ask *ask, void *context)
{
    const struct weir_time time = weir_time_read();
    struct weir_http_call call = weir_http_call_resume(context, &time);
    reply_ask(&call, ask);
    bool waits = weir_lock_ask_waits(ask);
    call.session->lock = NULL;
    weir_lock_ask_end(ask);
    weir_http_call_end(&call, waits);
}

void weir_http_locks_drop(struct weir_http_session *session)
{
    if (session->lock)
        weir_lock_ask_abandon(session->lock);
    session->lock = NULL;
}

/* ---- questions ---- */

static void ask(struct weir_http_call *call, const struct weir_lock_wish *wish)
{
    struct weir_http_session *session = call->session;
    int error = weir_lock_ask_create(call->conn->loop, wish, on_decided, call->conn, &session->lock);
    if (error) {
        reply_error(call, error);
        return;
    }
    if (weir_lock_ask_decided_at_once(session->lock)) {
        reply_ask(call, session->lock);
        weir_lock_ask_end(session->lock);
        session->lock = NULL;
        return;
    }
    weir_http_call_leave(call, weir_lock_ask_waits(session->lock));
}

static enum weir_lock_verb verb_of(enum weir_lock_call call)
{
    switch (call) {
    case WEIR_LOCK_CALL_ACQUIRE:
        return WEIR_LOCK_ACQUIRE;
    case WEIR_LOCK_CALL_RENEW:
        return WEIR_LOCK_RENEW;
    case WEIR_LOCK_CALL_RELEASE:
        return WEIR_LOCK_RELEASE;
    case WEIR_LOCK_CALL_RESTORED:
        return WEIR_LOCK_RAISE;
    case WEIR_LOCK_CALL_SHOW:
    default:
        return WEIR_LOCK_SHOW;
    }
}

bool weir_http_locks_path(struct weir_http_call *call, int *ret_error, struct weir_fault *ret_fault)
{
    bool post = call->request->method == WEIR_HTTP_POST;
    *ret_error = weir_lock_path_read(call->request->path, post, &call->work->lock_path, ret_fault);
    return *ret_error != WEIR_ENOENT;
}

bool weir_http_locks_reads(const struct weir_http_call *call)
{
    return call->work->lock_path.call == WEIR_LOCK_CALL_SHOW;
}

unsigned weir_http_locks_right(const struct weir_http_call *call)
{
    return call->work->lock_path.call == WEIR_LOCK_CALL_RESTORED ? WEIR_RIGHT_RESET : WEIR_RIGHT_LOCK;
}

void weir_http_locks(struct weir_http_call *call)
{
    const struct weir_lock_path *path = &call->work->lock_path;
    struct weir_lock_question *question = &call->work->lock_question;
    const struct weir_slice body = call->request->body;
    struct weir_fault fault = { 0 };
    struct weir_lock_wish wish = { .verb = verb_of(path->call), .name = { path->name, path->name_size } };
    if (path->call == WEIR_LOCK_CALL_SHOW) {
        ask(call, &wish);
        return;
    }
    int error = weir_lock_question_parse(path->call, body.data, body.size, question, &fault);
    if (error) {
        weir_http_reply_fault(call, error, &fault);
        return;
    }
    wish.owner = question->owner;
    wish.ttl_ns = question->ttl_ms * MS_NS;
    wish.wait_ns = question->wait_ms * MS_NS;
    wish.seen = question->seen;
    wish.has_reset = (call->rights & WEIR_RIGHT_RESET) != 0;
    ask(call, &wish);
    weir_lock_question_deinit(question);
}
