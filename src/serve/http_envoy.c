/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /json, as envoyproxy/ratelimit has it: Envoy's question and answer in JSON, 200, or 429 with the same body.
 * Called by http.c; envoy.c decides. */
#include <stdlib.h>

#include "serve/envoy.h"
#include "serve/http_call.h"
#include "serve/loop.h"

static void reply(struct weir_http_call *call, const struct weir_envoy_answer *answer)
{
    const size_t room = weir_envoy_json_max(answer);
    uint8_t *bytes = malloc(room);
    if (!bytes) {
        weir_http_reply_fault(call, WEIR_ENOMEM, &(struct weir_fault){ 0 });
        return;
    }
    struct weir_text body = weir_text_init(bytes, room);
    weir_envoy_json_write(&body, answer);
    weir_http_reply_body(call, answer->code == WEIR_ENVOY_OVER_LIMIT ? 429 : 200, WEIR_HTTP_JSON, "", &body);
    free(bytes);
}

static void on_done(struct weir_envoy_ask *ask, void *context)
{
    const struct weir_time time = weir_time_read();
    struct weir_http_call call = weir_http_call_resume(context, &time);
    struct weir_envoy_work *work = &call.work->envoy;
    call.session->envoy = NULL;
    int error = weir_envoy_hear(ask, work);
    if (error)
        weir_http_reply_fault(&call, error, &(struct weir_fault){ 0 });
    else
        reply(&call, &work->answer);
    weir_envoy_end(ask);
    weir_http_call_end(&call, false);
}

void weir_http_envoy_drop(struct weir_http_session *session)
{
    weir_envoy_end(session->envoy);
    session->envoy = NULL;
}

void weir_http_envoy(struct weir_http_call *call)
{
    struct weir_envoy_work *work = &call->work->envoy;
    struct weir_envoy_ask *later = NULL;
    struct weir_fault fault = { 0 };
    void *json = NULL;
    int error = weir_envoy_json_read(call->request->body.data, call->request->body.size, &json, &work->request, &fault);
    if (!error && weir_envoy_refunds(&work->request) && !(call->rights & WEIR_RIGHT_REFUND)) {
        weir_http_reply_problem(call, 403, "", "this token lacks the right to give units back: refund");
        weir_envoy_json_free(json);
        return;
    }
    if (!error)
        error = weir_envoy_decide(call->conn->loop, work, call->time, on_done, call->conn, &later, &fault);
    weir_envoy_json_free(json);
    if (error) {
        weir_http_reply_fault(call, error, &fault);
    } else if (later) {
        call->session->envoy = later;
        weir_http_call_leave(call, false);
    } else {
        reply(call, &work->answer);
    }
}
