/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns a match into a transaction and its parts into an outcome, lends it the loop's timers, and counts what it
 * decided. Called by decide.c, resp_cell.c and those whose replies come later. The steps are in
 * limits/transaction.c. */
#include "serve/shared.h"

#include <stdlib.h>

#include "serve/cell.h"
#include "serve/loop.h"
#include "serve/past_note.h"
#include "serve/refused.h"

/* ---- what a transaction needs ---- */

static struct weir_time now(void *context)
{
    (void)context;
    return weir_time_read();
}

static int timer_start(void *context, struct weir_timer *timer, uint64_t due_ns)
{
    struct weir_loop *loop = context;
    return weir_timer_start(&loop->timers, timer, due_ns);
}

static void timer_stop(void *context, struct weir_timer *timer)
{
    struct weir_loop *loop = context;
    weir_timer_stop(&loop->timers, timer);
}

static enum weir_fallback_policy fallback_of(const struct weir_part *part)
{
    static const enum weir_fallback_policy policies[] = {
        [WEIR_ON_FAILURE_LOCAL] = WEIR_FALLBACK_LOCAL,
        [WEIR_ON_FAILURE_OPEN] = WEIR_FALLBACK_OPEN,
        [WEIR_ON_FAILURE_CLOSED] = WEIR_FALLBACK_CLOSED,
    };
    return part->fell_back ? policies[part->limit->on_failure] : WEIR_FALLBACK_NONE;
}

/* What one limit decided. */
static void count_part(struct weir_loop *loop, const struct weir_part *part, bool admitted, uint64_t now_ns)
{
    struct weir_metrics *metrics = loop->common->metrics;
    const uint32_t slot = (uint32_t)part->number;
    const uint64_t hash = part->limit->remote ? part->key.id[0] : part->charge.key.hash;
    weir_past_of_limit(loop, weir_rule_of(part->limit), slot, hash, &part->charge, &part->verdict, admitted, now_ns);
    weir_metrics_decided(metrics, loop->number, slot, weir_metrics_verdict_of(&part->verdict), 1);
    if (admitted && weir_rule_of(part->limit)->one_counter)
        weir_metrics_units(metrics, loop->number, slot, WEIR_UNITS_ADMITTED, part->charge.cost);
}

static void settled(void *context, const struct weir_transaction *transaction, const struct weir_time *time)
{
    struct weir_loop *loop = context;
    struct weir_metrics *metrics = loop->common->metrics;
    const bool admitted = weir_transaction_decision(transaction).admitted;
    if (transaction->unknown)
        weir_count(&loop->counters.unknown_charges, 1);
    for (size_t i = 0; i < transaction->count && !transaction->error; i++) {
        const struct weir_part *part = &transaction->parts[i];
        const enum weir_fallback_policy fallback = fallback_of(part);
        const uint32_t slot = (uint32_t)part->number;
        if (fallback) {
            weir_count(&loop->counters.fallbacks[fallback], 1);
            weir_metrics_fell_back(metrics, loop->number, slot, fallback);
        }
        if (transaction->verb == WEIR_TRANSACTION_DECIDE)
            count_part(loop, part, admitted, time->now_ns);
    }
    /* Of one that did not wait, the caller still has the request (weir_shared_decide). */
    if (transaction->verb == WEIR_TRANSACTION_DECIDE && !transaction->error && transaction != transaction->of->scratch)
        weir_refused_settled(loop, transaction, time->now_ns);
}

static void ended(void *context, struct weir_transaction *transaction)
{
    weir_cell_destroy(transaction->attached);
    free(transaction->labels);
    weir_loop_request_ended(context);
}

const struct weir_transactions_ops weir_shared_ops = { now, timer_start, timer_stop, settled, ended };

/* ---- to and fro ---- */

static struct weir_transaction *begin(struct weir_loop *loop, enum weir_transaction_verb verb,
                                      const struct weir_match *match, const struct weir_time *time)
{
    struct weir_transactions *transactions = &loop->sharer.transactions;
    transactions->gossip = loop->common->gossip;
    transactions->loops = (uint32_t)loop->common->loop_count;
    transactions->reloads = loop->setup_number;
    struct weir_transaction *transaction = weir_transaction_begin(transactions, verb);
    for (size_t i = 0; i < match->count; i++) {
        const struct weir_rule *rule = match->rules[i];
        weir_transaction_add(transaction, &rule->limit, weir_loop_slot(loop, rule->index), &match->charges[i],
                             &match->remote_keys[i], time);
    }
    return transaction;
}

int weir_shared_outcome(const struct weir_transaction *transaction, struct weir_outcome *ret_outcome)
{
    if (transaction->error)
        return transaction->error;
    ret_outcome->waiter = NULL;
    ret_outcome->wait_ns = 0;
    ret_outcome->round_trips = transaction->round_trips;
    ret_outcome->match.count = transaction->count;
    ret_outcome->match.remote_count = transaction->count;
    ret_outcome->match.refused_by = NULL;
    ret_outcome->banned = false;
    ret_outcome->match.lacks = NULL;
    for (size_t i = 0; i < transaction->count; i++) {
        const struct weir_part *part = &transaction->parts[i];
        ret_outcome->match.rules[i] = weir_rule_of(part->limit);
        ret_outcome->match.charges[i] = part->charge;
        ret_outcome->verdicts[i] = part->verdict;
        ret_outcome->fallbacks[i] = (uint8_t)fallback_of(part);
        ret_outcome->slots[i] = (uint32_t)part->number;
    }
    ret_outcome->decision = weir_transaction_decision(transaction);
    return 0;
}

int weir_shared_decide(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                       struct weir_outcome *outcome, struct weir_transaction **ret_pending)
{
    /* Not the batch's time: a process that stood still since must not spend what it no longer holds. */
    const struct weir_time now = { .now_ns = uv_hrtime(), .wall_ns = time->wall_ns };
    const enum weir_transaction_verb verb = question->peek ? WEIR_TRANSACTION_PEEK : WEIR_TRANSACTION_DECIDE;
    struct weir_transaction *transaction = begin(loop, verb, &outcome->match, &now);
    *ret_pending = weir_transaction_run(transaction, &now);
    return *ret_pending ? 0 : weir_shared_outcome(transaction, outcome);
}

void weir_shared_refund(struct weir_loop *loop, const struct weir_match *match, const struct weir_time *time,
                        uint64_t *ret_units, struct weir_transaction **ret_pending)
{
    struct weir_transaction *transaction = begin(loop, WEIR_TRANSACTION_REFUND, match, time);
    *ret_pending = weir_transaction_run(transaction, time);
    for (size_t i = 0; i < match->count && !*ret_pending; i++)
        ret_units[i] = transaction->parts[i].refunded;
}

int weir_shared_forget(struct weir_loop *loop, const struct weir_match *match, const struct weir_time *time,
                       uint64_t *ret_found, struct weir_transaction **ret_pending)
{
    struct weir_transaction *transaction = begin(loop, WEIR_TRANSACTION_FORGET, match, time);
    *ret_pending = weir_transaction_run(transaction, time);
    for (size_t i = 0; i < match->count && !*ret_pending; i++)
        ret_found[i] = transaction->parts[i].refunded;
    return *ret_pending ? 0 : transaction->error;
}
