/* SPDX-License-Identifier: Apache-2.0
 *
 * CL.THROTTLE and DEL where the counters are at the engine: asked there, answered later. */
#include "serve/cell.h"
#include "serve/loop.h"
#include "serve/refused.h"
#include "serve/resp_call.h"
#include "serve/shared.h"

bool weir_resp_cell_is_shared(const struct weir_resp_call *call)
{
    return call->conn->loop->setup->config->cl_throttle.engine == WEIR_THROTTLE_REDIS;
}

static void match_one(struct weir_match *match, const struct weir_cell *cell)
{
    match->count = match->remote_count = 0;
    match->met = true;
    match->refused_by = NULL;
    match->lacks = NULL;
    match->lacks_count = 0;
    match->rules[0] = &cell->rule;
}

static void add(struct weir_match *match, const struct weir_cell *cell, const struct weir_remote_key *key,
                uint64_t cost)
{
    match->rules[match->count] = &cell->rule;
    match->charges[match->count] = (struct weir_charge){ .cost = cost };
    match->remote_keys[match->count] = *key;
    match->remote_count = ++match->count;
}

static int make_cell(const struct weir_resp_call *call, const struct weir_limit_spec *spec, struct weir_cell **ret_cell)
{
    struct weir_fault fault = { 0 };
    int error = weir_cell_create(call->conn->loop->setup->config, spec, ret_cell, &fault);
    if (error)
        weir_resp_reply_fault(call, error, &fault);
    return error;
}

bool weir_resp_cell_throttle(const struct weir_resp_call *call, const struct weir_limit_spec *spec, uint64_t quantity)
{
    struct weir_outcome *outcome = &call->work->outcome;
    const struct weir_question question = { .cost = quantity };
    struct weir_remote_key key;
    struct weir_cell *cell;
    struct weir_transaction *pending = NULL;
    if (weir_cell_key(call->conn->loop->setup->config, call->args[1], &key)) {
        weir_resp_reply_error(call, "ERR key must be at most 4096 bytes long");
        return false;
    }
    if (quantity > WEIR_COST_MAX) {
        weir_resp_reply_fault(call, WEIR_ERANGE, NULL);
        return false;
    }
    if (make_cell(call, spec, &cell))
        return false;
    match_one(&outcome->match, cell);
    add(&outcome->match, cell, &key, quantity);
    int error = weir_shared_decide(call->conn->loop, &question, call->time, outcome, &pending);
    if (pending) {
        pending->attached = cell;
        pending->labels = weir_refused_keep_cell(call->conn->loop, call->args[1]);
        weir_resp_later_transaction(call, pending);
        return true;
    }
    if (error) {
        weir_resp_reply_fault(call, error, NULL);
    } else {
        const struct weir_refused_cell refused = { key.id[0], call->args[1], quantity,
                                                   outcome->verdicts[0].retry_after_ns };
        if (!outcome->verdicts[0].admitted)
            weir_refused_cells(call->conn->loop, &refused, 1, call->time->now_ns);
        weir_resp_reply_throttle(call, &outcome->verdicts[0]);
    }
    weir_cell_destroy(cell);
    return false;
}

static bool has(const struct weir_match *match, const struct weir_remote_key *key)
{
    for (size_t i = 0; i < match->count; i++) {
        if (memcmp(match->remote_keys[i].id, key->id, sizeof(key->id)) == 0)
            return true;
    }
    return false;
}

/* The keys of the call; false when it has been refused. */
static bool match_keys(const struct weir_resp_call *call, const struct weir_cell *cell, struct weir_match *match)
{
    match_one(match, cell);
    for (size_t i = 1; i < call->count; i++) {
        struct weir_remote_key key;
        if (weir_cell_key(call->conn->loop->setup->config, call->args[i], &key) || has(match, &key))
            continue; /* no counter has such a key; or it is there already */
        if (match->count == WEIR_CHARGES_MAX) {
            weir_resp_reply_error(call, "ERR DEL takes at most %d keys of counters that nodes share", WEIR_CHARGES_MAX);
            return false;
        }
        add(match, cell, &key, 0);
    }
    return true;
}

static void reply_forgotten(const struct weir_resp_call *call, int error, const uint64_t *forgotten, size_t count)
{
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (int64_t)forgotten[i];
    if (error)
        weir_resp_reply_error(call, "ERR the engine did not answer: the counters may stand");
    else
        weir_resp_reply_integer(call, sum);
}

bool weir_resp_cell_del(const struct weir_resp_call *call)
{
    static const struct weir_limit_spec any = { .count = 1, .period_ns = WEIR_NS_PER_SECOND, .burst = 1 };
    struct weir_match *match = &call->work->outcome.match;
    uint64_t forgotten[WEIR_CHARGES_MAX] = { 0 };
    struct weir_cell *cell;
    struct weir_transaction *pending = NULL;
    if (make_cell(call, &any, &cell))
        return false;
    if (match_keys(call, cell, match)) {
        int error = weir_shared_forget(call->conn->loop, match, call->time, forgotten, &pending);
        if (pending) {
            pending->attached = cell;
            weir_resp_later_transaction(call, pending);
            return true;
        }
        reply_forgotten(call, error, forgotten, match->count);
    }
    weir_cell_destroy(cell);
    return false;
}

void weir_resp_reply_cell(const struct weir_resp_call *call, const struct weir_transaction *pending)
{
    uint64_t forgotten[WEIR_CHARGES_MAX];
    for (size_t i = 0; i < pending->count; i++)
        forgotten[i] = pending->parts[i].refunded;
    if (pending->verb == WEIR_TRANSACTION_FORGET)
        reply_forgotten(call, pending->error, forgotten, pending->count);
    else if (pending->error)
        weir_resp_reply_fault(call, pending->error, NULL);
    else
        weir_resp_reply_throttle(call, &pending->parts[0].verdict);
}
