/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/check and GET /v1/auth: from attributes to the answer. */
#include "serve/hold.h"
#include "serve/http_call.h"
#include "serve/loop.h"

/* Decides on the first `count` of work->attributes and answers: 200, or `refused` where a limit refuses. */
static void decide(struct weir_http_call *call, size_t count, uint64_t cost, bool peek, int refused, bool with_body)
{
    struct weir_http_work *work = call->work;
    const struct weir_question question = {
        .attributes = work->attributes, .count = count, .cost = cost, .peek = peek, .can_wait = true
    };
    struct weir_outcome *outcome = &work->outcome;
    struct weir_fault fault = { 0 };
    int error = weir_decide(call->conn->loop, &question, call->time, outcome, &fault);
    if (error) {
        weir_http_reply_fault(call, error, &fault);
        return;
    }
    for (size_t i = 0; i < outcome->match.count; i++) {
        const struct weir_rule *rule = outcome->match.rules[i];
        work->told[i] = (struct weir_told){ rule->name, &rule->spec, &outcome->verdicts[i] };
    }
    const struct weir_answer answer = { &outcome->decision, work->told, outcome->match.count };
    call->wait_ns = outcome->wait_ns;
    size_t pending = weir_conn_pending(call->conn);
    weir_http_reply_verdict(call, outcome->decision.admitted ? 200 : refused, &answer, with_body);
    if (outcome->waiter)
        weir_hold_begin(outcome->waiter, call->conn, pending);
}

void weir_http_check(struct weir_http_call *call)
{
    struct weir_http_work *work = call->work;
    struct weir_check_request *check = &work->check;
    struct weir_fault fault = { 0 };
    _Static_assert(WEIR_CHECK_ATTRIBUTES_MAX == WEIR_ATTRIBUTES_MAX, "what is parsed can be asked");
    int error = weir_check_parse(call->request->body.data, call->request->body.size, check, &fault);
    if (error) {
        weir_http_reply_fault(call, error, &fault);
        return;
    }
    for (size_t i = 0; i < check->count; i++)
        work->attributes[i] = (struct weir_attribute){ check->attributes[i].name, check->attributes[i].value };
    decide(call, check->count, check->cost, check->peek, 429, true);
    weir_check_deinit(check);
}

void weir_http_auth(struct weir_http_call *call)
{
    struct weir_http_work *work = call->work;
    struct weir_forwarded *forwarded = &work->forwarded;
    struct weir_http_refusal refusal;
    _Static_assert(WEIR_FORWARDED_MAX == WEIR_ATTRIBUTES_MAX, "what is read can be asked");
    if (!weir_forwarded_read(call->request, call->authorization_used, forwarded, &refusal)) {
        weir_http_reply_problem(call, refusal.status, "", refusal.text);
        return;
    }
    for (size_t i = 0; i < forwarded->count; i++)
        work->attributes[i] = (struct weir_attribute){ forwarded->attributes[i].name, forwarded->attributes[i].value };
    decide(call, forwarded->count, 1, false, forwarded->refused, false);
}
