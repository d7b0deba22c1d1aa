/* SPDX-License-Identifier: Apache-2.0
 *
 * WEIR.RESERVE, WEIR.SETTLE and WEIR.EXTEND: the reservations of http_reserve.c for Redis clients. Called by resp.c. */
#include <string.h>

#include "serve/reserve.h"
#include "serve/resp_call.h"
#include "wire/resp_write.h"

static void reply_error(const struct weir_resp_call *call, int error, const struct weir_fault *fault)
{
    if (error == WEIR_ENOENT)
        weir_resp_reply_error(call, "ERR this reservation is not one of ours, or is remembered no more");
    else if (error == WEIR_ELOST)
        weir_resp_reply_error(call, "ERR this reservation has ended: reserve anew");
    else if (error == WEIR_ELIMIT && !fault->text[0])
        weir_resp_reply_error(call, "ERR full: this reservation was extended seven times: settle it, and reserve anew");
    else if (error == WEIR_ESTALE)
        weir_resp_reply_error(call, "ERR the limits of this reservation were replaced: settle it");
    else if (error == WEIR_EBUSY)
        weir_resp_reply_error(call, "ERR full: too many reservations are open");
    else
        weir_resp_reply_fault(call, error, fault);
}

/* As WEIR.CHECK without a permit, then the id and the units held; refused: an empty id, and 0. */
static void reply_reserved(const struct weir_resp_call *call, const struct weir_reserve_ask *ask)
{
    const struct weir_outcome *outcome = &call->work->outcome;
    const struct weir_rule *rule = weir_outcome_rule(outcome);
    const struct weir_verdict *verdict = weir_outcome_verdict(outcome);
    const bool admitted = outcome->decision.admitted;
    const char *name = rule ? rule->name : "";
    const size_t name_size = strlen(name);
    uint8_t *start = weir_conn_reserve(call->conn, 11 * WEIR_RESP_HEADER_MAX + name_size + 4 + sizeof(ask->id));
    uint8_t *at = start;
    if (!at)
        return;
    at = weir_resp_put_array(at, 9);
    at = weir_resp_put_integer(at, admitted);
    at = weir_resp_put_bulk(at, name, name_size);
    at = weir_resp_put_integer(at, verdict ? (int64_t)verdict->capacity : -1);
    at = weir_resp_put_integer(at, verdict ? (int64_t)verdict->remaining : -1);
    at = weir_resp_put_integer(at, weir_told_ms(outcome->decision.retry_after_ns));
    at = weir_resp_put_integer(at, verdict ? weir_told_ms(verdict->reset_after_ns) : 0);
    at = weir_resp_put_integer(at, weir_told_ms(outcome->decision.delay_ns));
    at = weir_resp_put_bulk(at, ask->id, admitted ? sizeof(ask->id) : 0);
    at = weir_resp_put_integer(at, admitted ? (int64_t)ask->held : 0);
    weir_conn_commit(call->conn, (size_t)(at - start));
}

/* 1 to WEIR_COST_MAX, or from `min` on; false when it has been answered. */
static bool read_number(const struct weir_resp_call *call, size_t at, const char *what, int64_t min, uint64_t *ret)
{
    int64_t value;
    if (!weir_resp_integer(call->args[at], &value) || value < min) {
        weir_resp_reply_error(call, "ERR %s must be an integer from %d to 9223372036854775807", what, (int)min);
        return false;
    }
    *ret = (uint64_t)value;
    return true;
}

static uint64_t ns_of(uint64_t ms)
{
    return ms > UINT64_MAX / 1000000 ? UINT64_MAX : ms * 1000000;
}

/* WEIR.RESERVE amount ttl_ms attr value [attr value ...] */
void weir_resp_reserve(const struct weir_resp_call *call)
{
    struct weir_attribute *attributes = call->work->attributes;
    struct weir_reserve_ask ask = { 0 };
    struct weir_fault fault = { 0 };
    struct weir_transaction *pending = NULL;
    struct weir_reserve_amount amount;
    const size_t count = (call->count - 3) / 2;
    uint64_t ttl_ms;
    if (!weir_resp_is(call->args[1], "auto") && !read_number(call, 1, "amount (or auto)", 1, &ask.amount))
        return;
    if (!read_number(call, 2, "ttl_ms", 1, &ttl_ms))
        return;
    if (call->count % 2 == 0 || count > WEIR_ATTRIBUTES_MAX) {
        weir_resp_reply_error(call, "ERR Usage: WEIR.RESERVE <amount> <ttl_ms> [<attribute> <value> ...], at most %d",
                              WEIR_ATTRIBUTES_MAX);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct weir_slice name = call->args[3 + 2 * i];
        /* As an attribute of that name no limit would see it: it would be admitted uncounted. */
        if (name.size > 0 && memchr(name.data, '=', name.size)) {
            weir_resp_reply_error(call, "ERR an attribute and its value are two words: user ada, not user=ada");
            return;
        }
        attributes[i] = (struct weir_attribute){ name, call->args[4 + 2 * i] };
    }
    ask.ttl_ns = ns_of(ttl_ms);
    struct weir_question question = { .attributes = attributes, .count = count, .cost = 1, .reserve = &ask };
    int error = weir_reserve_question(&question, attributes, &amount, &fault);
    if (!error)
        error = weir_decide(call->conn->loop, &question, call->time, &call->work->outcome, &fault, &pending);
    if (error)
        reply_error(call, error, &fault);
    else
        reply_reserved(call, &ask);
}

/* WEIR.SETTLE id actual */
void weir_resp_settle(const struct weir_resp_call *call)
{
    struct weir_reserve_told told;
    uint64_t actual;
    if (!read_number(call, 2, "actual", 0, &actual))
        return;
    int error = weir_reserve_settle(call->conn->loop, call->args[1], actual, false, call->time, &told);
    if (error) {
        reply_error(call, error, &(struct weir_fault){ 0 });
        return;
    }
    weir_resp_reply_array(call, 3);
    weir_resp_reply_integer(call, (int64_t)told.given_back);
    weir_resp_reply_integer(call, (int64_t)told.under_estimated);
    weir_resp_reply_integer(call, told.late);
}

/* WEIR.EXTEND id more [ttl_ms] */
void weir_resp_extend(const struct weir_resp_call *call)
{
    struct weir_reserve_ask ask = { 0 };
    struct weir_fault fault;
    uint64_t more;
    uint64_t ttl_ms = 0;
    if (!read_number(call, 2, "more", 1, &more) || (call->count > 3 && !read_number(call, 3, "ttl_ms", 1, &ttl_ms)))
        return;
    ask.ttl_ns = ns_of(ttl_ms);
    call->work->outcome.banned = false;
    int error = weir_reserve_extend(call->conn->loop, call->args[1], more, call->time, &ask, &call->work->outcome,
                                    &fault);
    if (error)
        reply_error(call, error, &fault);
    else
        reply_reserved(call, &ask);
}
