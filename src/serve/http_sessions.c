/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/sessions: where to read, what was seen, a loss accepted, and the servers. A question becomes an ask (sessions.h).
 * What can be answered at once is; else the call is left (weir_http_call_leave) and taken up when the answer has come.
 * Called by http.c. */
#include <stdio.h>
#include <string.h>

#include "serve/http_call.h"
#include "serve/loop.h"
#include "serve/sessions.h"
#include "sessions/shown.h"

#define RETRY "Retry-After: 1\r\n"
#define DETAIL_MAX 352

/* ---- answers ---- */

static void reply_route(const struct weir_http_call *call, const struct weir_session_answer *answer)
{
    const char *place = weir_shown_statement();
    uint8_t room[WEIR_SESSION_JSON_MAX + WEIR_CHECK_TEXT_MAX + WEIR_SESSION_STATEMENT_MAX + WEIR_SESSION_TOKEN_MAX];
    struct weir_text body = weir_text_init(room, sizeof(room));
    weir_session_json_route(&body, &(struct weir_session_told){
                                       .server = answer->name,
                                       .primary = answer->primary,
                                       .stale = answer->stale,
                                       .says_proven = answer->says_proven,
                                       .proven = answer->proven,
                                       .lag_known = answer->lag_known,
                                       .lag_ms = answer->lag_ms,
                                       .holds_ms = answer->holds_ms,
                                       .check = { answer->check, answer->check_size },
                                       .place = { place, strlen(place) },
                                       .token = { answer->token, answer->token_size },
                                   });
    weir_http_reply_body(call, 200, WEIR_HTTP_JSON, "", &body);
}

static const struct refusal {
    enum weir_session_said said;
    int status;
    const char *verdict;
    const char *detail;
} refusals[] = {
    { WEIR_SESSION_LOST, 409, "lost",
      "a failover or a crash cut off what this session has seen: no server can show it any more. POST "
      "/v1/sessions/accept goes on from what there is" },
    { WEIR_SESSION_BEHIND, 503, "behind", "no server shows yet what this session has seen" },
    { WEIR_SESSION_DOWN, 503, "down", "no server that could answer this can be asked" },
    { WEIR_SESSION_FOREIGN, 400, "foreign", "that is of another database system than these servers" },
    { WEIR_SESSION_FORGED, 400, "forged", "this token is not signed by one of the keys here" },
    { WEIR_SESSION_MALFORMED, 400, "malformed", "this is no token" },
    { WEIR_SESSION_NO_PLACE, 400, "malformed", "place: is not what the place statement answers" },
    { WEIR_SESSION_UNPROVEN, 409, "unproven",
      "the place has no timeline: the role lacks pg_read_all_stats, or the standby receives nothing at the moment. Say "
      "\"server\", so that it can be asked. Or nobody knows its branch: its server was started anew, or a weir of "
      "before "
      "w2 made the place statement" },
    { WEIR_SESSION_STORE_DOWN, 503, "down",
      "where users are kept cannot be asked; or this user was not seen before, and the primary cannot be asked where a "
      "new user begins. With \"token\":\"\" instead of a user a read is still routed, to what may be stale" },
    { WEIR_SESSION_NOMEM, 503, "down", "out of memory" },
};

/* Where nobody could be named: who was left out, and where to see how the others are. */
static void explain(const struct refusal *refusal, const struct weir_session_answer *answer, char *detail, size_t size)
{
    bool routes = refusal->said == WEIR_SESSION_BEHIND || refusal->said == WEIR_SESSION_DOWN;
    const char *avoided = routes ? answer->avoided : "", *mute = routes ? answer->mute : "";
    const char *stale = routes ? answer->stale_reads : "";
    (void)snprintf(
        detail, size, "%s%s%s%s%s%s%s%s%s", refusal->detail, avoided[0] ? ", but for those to avoid: " : "", avoided,
        mute[0] ? ". These answer, and cannot prove what this session has seen, since they receive nothing: " : "",
        mute,
        !stale[0] ? ""
        : mute[0] ? " (\"behind\":\"stale\" would read "
                  : ". \"behind\":\"stale\" would read ",
        stale, stale[0] && mute[0] ? ")" : "", routes ? ". GET /v1/sessions/servers shows each" : "");
}

static void reply_refusal(const struct weir_http_call *call, const struct weir_session_answer *answer)
{
    char detail[DETAIL_MAX + WEIR_SESSION_AVOIDED_MAX + WEIR_SESSION_MUTE_MAX];
    char room[WEIR_HTTP_PROBLEM_MAX + 6 * sizeof(detail)]; /* at worst every character is escaped */
    struct weir_text body = weir_text_init(room, sizeof(room));
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *refusal = &refusals[i];
        if (refusal->said != answer->said)
            continue;
        explain(refusal, answer, detail, sizeof(detail));
        weir_session_json_problem(&body, refusal->status, refusal->verdict, detail);
        weir_http_reply_body(call, refusal->status, WEIR_HTTP_PROBLEM, refusal->status == 503 ? RETRY : "", &body);
        return;
    }
}

static void reply(const struct weir_http_call *call, const struct weir_session_answer *answer)
{
    char room[WEIR_SESSION_TOKEN_MAX + 32];
    struct weir_text body = weir_text_init(room, sizeof(room));
    if (answer->said == WEIR_SESSION_ROUTED) {
        reply_route(call, answer);
    } else if (answer->said == WEIR_SESSION_MOVED) {
        weir_session_json_token(&body, (struct weir_slice){ answer->token, answer->token_size });
        weir_http_reply_body(call, 200, WEIR_HTTP_JSON, "", &body);
    } else {
        reply_refusal(call, answer);
    }
}

static void reply_error(const struct weir_http_call *call, int error)
{
    if (error == WEIR_ENOENT)
        weir_http_reply_problem(call, 404, "", WEIR_SESSIONS_ABSENT_TEXT);
    else
        weir_http_reply_problem(call, 503, RETRY,
                                error == WEIR_ELIMIT ? WEIR_SESSIONS_FULL_TEXT : weir_error_text(error));
}

static void on_answer(struct weir_session_ask *ask, void *context)
{
    const struct weir_time time = weir_time_read();
    const struct weir_http_call call = weir_http_call_resume(context, &time);
    reply(&call, weir_session_ask_answer(ask));
    bool waits = weir_session_ask_waits(ask);
    call.session->sessions = NULL;
    weir_session_ask_end(ask);
    weir_http_call_end(&call, waits);
}

void weir_http_sessions_drop(struct weir_http_session *session)
{
    if (session->sessions)
        weir_session_ask_abandon(session->sessions);
    session->sessions = NULL;
}

/* ---- questions ---- */

static void ask(struct weir_http_call *call, enum weir_session_call what)
{
    struct weir_http_session *session = call->session;
    const struct weir_slice body = call->request->body;
    struct weir_session_question question;
    struct weir_session_answer answer;
    struct weir_fault fault = { 0 };
    if (!call->conn->loop->common->sessions) {
        reply_error(call, WEIR_ENOENT);
        return;
    }
    int error = weir_session_question_parse(what, body.data, body.size, &question, &fault);
    if (error) {
        weir_http_reply_fault(call, error, &fault);
        return;
    }
    error = weir_session_ask_create(call->conn->loop, what, &question, on_answer, call->conn, &answer,
                                    &session->sessions);
    weir_session_question_deinit(&question);
    if (error) {
        reply_error(call, error);
        return;
    }
    if (!session->sessions) {
        reply(call, &answer);
        return;
    }
    weir_http_call_leave(call, weir_session_ask_waits(session->sessions));
}

void weir_http_sessions_route(struct weir_http_call *call)
{
    ask(call, WEIR_SESSION_CALL_ROUTE);
}

void weir_http_sessions_seen(struct weir_http_call *call)
{
    ask(call, WEIR_SESSION_CALL_SEEN);
}

void weir_http_sessions_accept(struct weir_http_call *call)
{
    ask(call, WEIR_SESSION_CALL_ACCEPT);
}

void weir_http_sessions_servers(struct weir_http_call *call)
{
    struct weir_session_service *service = call->conn->loop->common->sessions;
    size_t size = 0;
    if (!service) {
        reply_error(call, WEIR_ENOENT);
        return;
    }
    uint8_t *body = weir_session_service_servers(service, &size);
    if (body)
        weir_http_reply_long(call, WEIR_HTTP_JSON, "", body, size);
    else
        reply_error(call, WEIR_ENOMEM);
}
