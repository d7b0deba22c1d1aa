/* SPDX-License-Identifier: Apache-2.0
 *
 * WEIR.CHECK, WEIR.PEEK, WEIR.REFUND, WEIR.RELEASE and WEIR.RENEW: the limits of the configuration. The arguments
 * become attributes, decide.c decides, and the outcome is written at once; if a limit that nodes share needs a round
 * trip, resp_later.c keeps the answer's place. Called by resp.c. */
#include <stdio.h>
#include <string.h>

#include "serve/excepted.h"
#include "serve/hold.h"
#include "serve/resp_call.h"
#include "serve/shared.h"
#include "wire/resp_write.h"

static void reply_misuse(const struct weir_resp_call *call, const char *number, const char *begin, const char *end)
{
    weir_resp_reply_error(call, "ERR %s%s Usage: %.*s <%s> [<attribute> <value> ...]", begin, end,
                          (int)call->args[0].size, (const char *)call->args[0].data, number);
}

/* `WEIR.X NUMBER attr value [attr value ...]` into call->work->attributes; false when it has been answered. */
static bool read_question(const struct weir_resp_call *call, const char *number, struct weir_question *ret_question)
{
    int64_t value;
    bool in_pairs = call->count % 2 == 0;
    if (!weir_resp_integer(call->args[1], &value) && !in_pairs) {
        reply_misuse(call, number, number, " is missing: it comes before the attributes.");
        return false;
    }
    if (!weir_resp_integer(call->args[1], &value) || value < 0) {
        reply_misuse(call, number, number, " must be an integer from 0 to 9223372036854775807.");
        return false;
    }
    if (!in_pairs) {
        reply_misuse(call, number, "the last attribute has no value.", "");
        return false;
    }
    size_t count = (call->count - 2) / 2;
    if (count > WEIR_ATTRIBUTES_MAX) {
        weir_resp_reply_error(call, "ERR a request has at most %d attributes", WEIR_ATTRIBUTES_MAX);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct weir_slice name = call->args[2 + 2 * i];
        /* As an attribute of that name no limit would see it: it would be admitted uncounted. */
        if (name.size > 0 && memchr(name.data, '=', name.size)) {
            reply_misuse(call, number, "an attribute and its value are two words: user ada, not user=ada.", "");
            return false;
        }
        call->work->attributes[i] = (struct weir_attribute){ .name = name, .value = call->args[3 + 2 * i] };
    }
    *ret_question =
        (struct weir_question){ .attributes = call->work->attributes, .count = count, .cost = (uint64_t)value };
    return true;
}

void weir_resp_reply_outcome(const struct weir_resp_call *call, const struct weir_outcome *outcome)
{
    const struct weir_rule *rule = weir_outcome_rule(outcome);
    const struct weir_verdict *verdict = weir_outcome_verdict(outcome);
    const char *name = rule ? rule->name : "";
    size_t name_size = strlen(name);
    struct weir_permit_told *permit = &call->work->permit;
    weir_permit_tell(call->conn->loop, outcome, call->time, permit);
    size_t room = 10 * WEIR_RESP_HEADER_MAX + name_size + 2 + permit->size + 2;
    uint8_t *start = weir_conn_reserve(call->conn, room), *at = start;
    if (!at)
        return;
    at = weir_resp_put_array(at, permit->asked ? 9 : 7);
    at = weir_resp_put_integer(at, outcome->decision.admitted);
    at = weir_resp_put_bulk(at, name, name_size);
    at = weir_resp_put_integer(at, verdict ? (int64_t)verdict->capacity : -1);
    at = weir_resp_put_integer(at, verdict ? (int64_t)verdict->remaining : -1);
    at = weir_resp_put_integer(at, weir_told_ms(outcome->decision.retry_after_ns));
    at = weir_resp_put_integer(at, verdict ? weir_told_ms(verdict->reset_after_ns) : 0);
    at = weir_resp_put_integer(at, weir_told_ms(outcome->decision.delay_ns));
    if (permit->asked) {
        at = weir_resp_put_bulk(at, permit->text, permit->size);
        at = weir_resp_put_integer(at, weir_permit_told_ms(permit->lease_ns));
    }
    weir_conn_commit(call->conn, (size_t)(at - start));
}

static void decide(const struct weir_resp_call *call, bool peek)
{
    struct weir_question question;
    struct weir_fault fault;
    struct weir_outcome *outcome = &call->work->outcome;
    struct weir_transaction *transaction = NULL;
    size_t pending = weir_conn_pending(call->conn);
    int error = 0;
    outcome->waiter = NULL;
    if (read_question(call, "cost", &question)) {
        question.peek = peek;
        question.can_wait = !call->in_exec;
        error = weir_decide(call->conn->loop, &question, call->time, outcome, &fault, &transaction);
        if (transaction) {
            weir_resp_later_transaction(call, transaction);
            return;
        }
        if (error)
            weir_resp_reply_fault(call, error, &fault);
        else
            weir_resp_reply_outcome(call, outcome);
    }
    if (call->session->later_count > 0)
        weir_resp_later_written(call, pending, outcome->waiter);
    else if (outcome->waiter)
        weir_hold_begin(outcome->waiter, call->conn, pending);
}

void weir_resp_check(const struct weir_resp_call *call)
{
    decide(call, false);
}

void weir_resp_release(const struct weir_resp_call *call)
{
    weir_resp_reply_integer(call, weir_permit_release(call->conn->loop, call->args[1], call->time));
}

/* -1: lost. */
void weir_resp_renew(const struct weir_resp_call *call)
{
    uint64_t lease_ns = weir_permit_renew(call->conn->loop, call->args[1], call->time);
    weir_resp_reply_integer(call, lease_ns > 0 ? weir_permit_told_ms(lease_ns) : -1);
}

void weir_resp_peek(const struct weir_resp_call *call)
{
    decide(call, true);
}

void weir_resp_reply_refunds(const struct weir_resp_call *call, const struct weir_match *match, const uint64_t *units)
{
    weir_resp_reply_array(call, match->count);
    for (size_t i = 0; i < match->count; i++) {
        weir_resp_reply_array(call, 2);
        weir_resp_reply_text(call, match->rules[i]->name);
        weir_resp_reply_integer(call, (int64_t)units[i]);
    }
}

/* Answers unless the engine has to be asked. */
static struct weir_transaction *refund(const struct weir_resp_call *call)
{
    struct weir_question question;
    struct weir_fault fault = { 0 };
    struct weir_loop *loop = call->conn->loop;
    struct weir_match *match = &call->work->outcome.match;
    struct weir_transaction *pending = NULL;
    uint64_t units[WEIR_CHARGES_MAX] = { 0 };
    if (!read_question(call, "units", &question))
        return NULL;
    int error = weir_rules_match(loop->setup->rules, question.attributes, question.count, question.cost, match, &fault);
    if (!error && weir_excepted_any(loop) &&
        !match->refused_by) { /* under what it was charged by; or was banned since */
        size_t banned;
        uint64_t left_ns;
        error = weir_excepted_match(loop, &question, call->time->wall_ns, match, &banned, &left_ns, &fault);
    }
    if (error) {
        weir_resp_reply_fault(call, error, &fault);
        return NULL;
    }
    weir_refund(loop, match, call->time, units, &pending);
    if (!pending)
        weir_resp_reply_refunds(call, match, units);
    return pending;
}

void weir_resp_refund(const struct weir_resp_call *call)
{
    size_t pending = weir_conn_pending(call->conn);
    struct weir_transaction *transaction = refund(call);
    if (transaction)
        weir_resp_later_transaction(call, transaction);
    else if (call->session->later_count > 0)
        weir_resp_later_written(call, pending, NULL);
}
