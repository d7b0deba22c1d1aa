/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/check and GET /v1/auth: from attributes to the answer. decide.c decides, and reply() writes the answer at
 * once; if a limit that nodes share needs a round trip, the call is left (weir_http_call_leave), and on_done() takes it
 * up. http_trace.c writes down what is traced. Called by http.c. */
#include "serve/bound.h"
#include "serve/hold.h"
#include "serve/http_call.h"
#include "serve/loop.h"
#include "serve/shared.h"

/* Of a refusal. 200 may have been asked for, by a program that reads the answer anyway; 403, by a proxy that passes
 * nothing else on. Of what no waiting mends, a proxy's client is told what no client tries again; who asks with
 * /v1/check himself knows 429 as the one refusal. */
static int status_of(const struct weir_answer *answer, int refused, bool with_body)
{
    if (refused == 200)
        return refused;
    if (weir_ratelimit_barred(answer))
        return with_body ? 429 : 403;
    return refused == 429 && weir_ratelimit_failed(answer) ? 503 : refused;
}

struct weir_answer weir_http_told(struct weir_http_call *call)
{
    struct weir_http_work *work = call->work;
    const struct weir_outcome *outcome = &work->outcome;
    for (size_t i = 0; i < outcome->match.count; i++) {
        const struct weir_rule *rule = outcome->match.rules[i];
        const enum weir_fallback_policy fallback = weir_outcome_fallback(outcome, i);
        work->told[i] = (struct weir_told){
            .name = rule->name,
            .level = rule->level,
            .spec = &rule->limit.spec,
            .verdict = &outcome->verdicts[i],
            .sharing = rule->terms.mode ? &rule->terms : NULL,
            .overshoot_added = weir_bound_added(call->conn->loop, rule, rule->limit.remote ? outcome->slots[i] : 0,
                                                call->time->now_ns),
            .fallback = fallback ? weir_fallback_policy_name(fallback) : NULL,
        };
    }
    return (struct weir_answer){ .decision = &outcome->decision,
                                 .limits = work->told,
                                 .count = outcome->match.count,
                                 .missing = outcome->match.lacks,
                                 .banned = outcome->banned };
}

static void reply(struct weir_http_call *call, int refused, bool with_body)
{
    struct weir_http_work *work = call->work;
    struct weir_outcome *outcome = &work->outcome;
    struct weir_answer answer = weir_http_told(call);
    weir_permit_tell(call->conn->loop, outcome, call->time, &work->permit);
    answer.permit = (struct weir_slice){ work->permit.text, work->permit.size };
    answer.lease_ns = work->permit.lease_ns;
    int status = outcome->decision.admitted ? 200 : status_of(&answer, refused, with_body);
    call->wait_ns = outcome->wait_ns;
    size_t pending = weir_conn_pending(call->conn);
    weir_http_reply_verdict(call, status, &answer, with_body);
    if (call->session->trace.wanted)
        weir_http_trace_end(call, status);
    if (outcome->waiter)
        weir_hold_begin(outcome->waiter, call->conn, pending);
}

static void on_done(struct weir_transaction *pending, void *context)
{
    const struct weir_time time = weir_time_read();
    struct weir_http_call call = weir_http_call_resume(context, &time);
    call.session->pending = NULL;
    int error = weir_shared_outcome(pending, &call.work->outcome);
    if (error)
        weir_http_reply_fault(&call, error, &(struct weir_fault){ 0 });
    else
        reply(&call, call.session->refused, call.session->with_body);
    weir_transaction_end(pending);
    weir_http_call_end(&call, false);
}

static void reply_later(struct weir_http_call *call, struct weir_transaction *pending, int refused, bool with_body)
{
    struct weir_http_session *session = call->session;
    session->pending = pending;
    session->refused = refused;
    session->with_body = with_body;
    weir_transaction_then(pending, on_done, call->conn);
    weir_http_call_leave(call, false);
}

void weir_http_check_drop(struct weir_http_session *session)
{
    if (session->pending)
        weir_transaction_abandon(session->pending);
    session->pending = NULL;
}

/* Decides on the first `count` of work->attributes and answers: 200, or `refused` where a limit refuses. */
static void decide(struct weir_http_call *call, size_t count, uint64_t cost, bool peek, int refused, bool with_body)
{
    struct weir_http_work *work = call->work;
    const struct weir_question question = {
        .attributes = work->attributes, .count = count, .cost = cost, .peek = peek, .can_wait = true
    };
    struct weir_fault fault = { 0 };
    struct weir_transaction *pending = NULL;
    weir_http_trace_begin(call, with_body ? WEIR_TRACE_CHECK : WEIR_TRACE_AUTH, peek);
    int error = weir_decide(call->conn->loop, &question, call->time, &work->outcome, &fault, &pending);
    if (error)
        weir_http_reply_fault(call, error, &fault);
    else if (pending)
        reply_later(call, pending, refused, with_body);
    else
        reply(call, refused, with_body);
}

/* ?deny=200: browsers write a line to the console for each answer that is an error. Other queries say nothing. */
static bool denies_by_200(struct weir_slice query)
{
    static const char quiet[] = "deny=200";
    return query.size == sizeof(quiet) - 1 && memcmp(query.data, quiet, query.size) == 0;
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
    decide(call, check->count, check->cost, check->peek, denies_by_200(call->request->query) ? 200 : 429, true);
    weir_check_deinit(check);
}

void weir_http_auth(struct weir_http_call *call)
{
    struct weir_http_work *work = call->work;
    struct weir_forwarded *forwarded = &work->forwarded;
    struct weir_http_refusal refusal;
    const struct weir_config_http *rules = &call->conn->loop->setup->config->http_rules;
    const struct weir_forwarded_options options = { rules->forwarded, rules->path, call->authorization_used };
    if (options.source == WEIR_FORWARDED_NONE) {
        weir_count(&call->conn->loop->counters.auth_unserved, 1);
        weir_http_reply_problem(call, 404, "",
                                "/v1/auth is not served: say whose fields state route, method and ip, "
                                "listen: { http: { forwarded: nginx } } (or traefik, caddy, haproxy)");
        return;
    }
    _Static_assert(WEIR_FORWARDED_MAX == WEIR_ATTRIBUTES_MAX, "what is read can be asked");
    if (!weir_forwarded_read(call->request, &options, forwarded, &refusal)) {
        _Atomic(const char *) *why = &call->conn->loop->common->auth_refused_why;
        if (atomic_load_explicit(why, memory_order_relaxed) != refusal.text)
            atomic_store_explicit(why, refusal.text, memory_order_relaxed);
        weir_count(&call->conn->loop->counters.auth_refused, 1);
        weir_http_reply_problem(call, refusal.status, "", refusal.text);
        return;
    }
    weir_count(&call->conn->loop->counters.claims_ignored, forwarded->ignored);
    for (size_t i = 0; i < forwarded->count; i++)
        work->attributes[i] = (struct weir_attribute){ forwarded->attributes[i].name, forwarded->attributes[i].value };
    decide(call, forwarded->count, 1, false, forwarded->refused, false);
}
