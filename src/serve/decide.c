/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/decide.h"

#include "serve/ask.h"
#include "serve/hold.h"

static void count_decisions(const struct weir_loop *loop, const struct weir_outcome *outcome)
{
    for (size_t i = 0; i < outcome->match.count; i++) {
        bool shed = outcome->shed && i == outcome->decision.deciding;
        weir_metrics_decided(loop->shared->metrics, loop->number, weir_loop_slot(loop, outcome->match.rules[i]->index),
                             shed ? WEIR_METRICS_SHED : weir_metrics_verdict_of(&outcome->verdicts[i]), 1);
    }
}

static int match(struct weir_loop *loop, const struct weir_question *question, struct weir_match *ret_match,
                 struct weir_fault *ret_fault)
{
    const struct weir_attribute *attributes = question->attributes;
    if (weir_recent_match(&loop->recent, loop->setup_number, attributes, question->count, question->cost, ret_match))
        return 0;
    int error = weir_rules_match(loop->setup->rules, attributes, question->count, question->cost, ret_match, ret_fault);
    if (!error)
        weir_recent_remember(&loop->recent, loop->setup_number, attributes, question->count, question->cost, ret_match);
    return error;
}

int weir_decide(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                struct weir_outcome *ret_outcome, struct weir_fault *ret_fault, struct weir_ask **ret_ask)
{
    *ret_fault = (struct weir_fault){ 0 };
    *ret_ask = NULL;
    ret_outcome->waiter = NULL;
    ret_outcome->wait_ns = 0;
    ret_outcome->shed = false;
    int error = match(loop, question, &ret_outcome->match, ret_fault);
    if (error)
        return error;
    if (ret_outcome->match.count == 0) {
        ret_outcome->decision = (struct weir_decision){ .admitted = true };
        return 0;
    }
    if (ret_outcome->match.remote_count > 0)
        return weir_ask_decide(loop, question, time, ret_outcome, ret_ask);
    error = weir_limiter_decide(loop->limiter, ret_outcome->match.charges, ret_outcome->match.count, time,
                                question->peek ? WEIR_PEEK : 0, &ret_outcome->decision, ret_outcome->verdicts);
    if (error || question->peek)
        return error;
    if (question->can_wait && ret_outcome->decision.admitted)
        weir_hold_judge(loop, time, ret_outcome);
    count_decisions(loop, ret_outcome);
    return 0;
}

void weir_refund(struct weir_loop *loop, const struct weir_match *match, const struct weir_time *time,
                 uint64_t *ret_units, struct weir_ask **ret_ask)
{
    *ret_ask = NULL;
    if (match->remote_count > 0) {
        weir_ask_refund(loop, match, time, ret_units, ret_ask);
        return;
    }
    for (size_t i = 0; i < match->count; i++) {
        ret_units[i] = 0;
        /* The ids are of the rules in force: what is left to go wrong is nothing. */
        (void)weir_limiter_refund(loop->limiter, &match->charges[i], match->charges[i].cost, time, &ret_units[i]);
    }
}
