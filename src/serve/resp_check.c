/* SPDX-License-Identifier: Apache-2.0
 *
 * WEIR.CHECK, WEIR.PEEK and WEIR.REFUND: the limits of the configuration. */
#include <stdio.h>

#include "serve/hold.h"
#include "serve/resp_call.h"

/* `WEIR.X NUMBER attr value [attr value ...]` into call->work->attributes; false when it has been answered. */
static bool read_question(const struct weir_resp_call *call, const char *number, struct weir_question *ret_question)
{
    int64_t value;
    if (call->count % 2 != 0) {
        weir_resp_reply_error(call, "ERR Usage: %.*s <%s> [<attribute> <value> ...]", (int)call->args[0].size,
                              (const char *)call->args[0].data, number);
        return false;
    }
    if (!weir_resp_integer(call->args[1], &value) || value < 0) {
        weir_resp_reply_error(call, "ERR %s must be an integer from 0 to 9223372036854775807", number);
        return false;
    }
    size_t count = (call->count - 2) / 2;
    if (count > WEIR_ATTRIBUTES_MAX) {
        weir_resp_reply_error(call, "ERR a request has at most %d attributes", WEIR_ATTRIBUTES_MAX);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        call->work->attributes[i].name = call->args[2 + 2 * i];
        call->work->attributes[i].value = call->args[3 + 2 * i];
    }
    *ret_question =
        (struct weir_question){ .attributes = call->work->attributes, .count = count, .cost = (uint64_t)value };
    return true;
}

static void reply_outcome(const struct weir_resp_call *call, const struct weir_outcome *outcome)
{
    const struct weir_rule *rule = weir_outcome_rule(outcome);
    const struct weir_verdict *verdict = weir_outcome_verdict(outcome);
    weir_resp_reply_array(call, 7);
    weir_resp_reply_integer(call, outcome->decision.admitted);
    weir_resp_reply_text(call, rule ? rule->name : "");
    weir_resp_reply_integer(call, verdict ? (int64_t)verdict->capacity : -1);
    weir_resp_reply_integer(call, verdict ? (int64_t)verdict->remaining : -1);
    weir_resp_reply_integer(call, weir_told_ms(outcome->decision.retry_after_ns));
    weir_resp_reply_integer(call, verdict ? weir_told_ms(verdict->reset_after_ns) : 0);
    weir_resp_reply_integer(call, weir_told_ms(outcome->decision.delay_ns));
}

static void decide(const struct weir_resp_call *call, bool peek)
{
    struct weir_question question;
    struct weir_fault fault;
    if (!read_question(call, "cost", &question))
        return;
    question.peek = peek;
    question.can_wait = !call->in_exec;
    struct weir_outcome *outcome = &call->work->outcome;
    size_t pending = weir_conn_pending(call->conn);
    int error = weir_decide(call->conn->loop, &question, call->time, outcome, &fault);
    if (error)
        weir_resp_reply_fault(call, error, &fault);
    else
        reply_outcome(call, outcome);
    if (!error && outcome->waiter)
        weir_hold_begin(outcome->waiter, call->conn, pending);
}

void weir_resp_check(const struct weir_resp_call *call)
{
    decide(call, false);
}

void weir_resp_peek(const struct weir_resp_call *call)
{
    decide(call, true);
}

void weir_resp_refund(const struct weir_resp_call *call)
{
    struct weir_question question;
    struct weir_fault fault = { 0 };
    struct weir_loop *loop = call->conn->loop;
    struct weir_match *match = &call->work->outcome.match;
    if (!read_question(call, "units", &question))
        return;
    int error = weir_rules_match(loop->setup->rules, question.attributes, question.count, question.cost, match, &fault);
    if (error) {
        weir_resp_reply_fault(call, error, &fault);
        return;
    }
    weir_resp_reply_array(call, match->count);
    for (size_t i = 0; i < match->count; i++) {
        uint64_t units = 0;
        /* The ids are of the rules in force: what is left to go wrong is nothing. */
        error = weir_limiter_refund(loop->limiter, &match->charges[i], match->charges[i].cost, call->time, &units);
        weir_resp_reply_array(call, 2);
        weir_resp_reply_text(call, match->rules[i]->name);
        weir_resp_reply_integer(call, error ? 0 : (int64_t)units);
    }
}
