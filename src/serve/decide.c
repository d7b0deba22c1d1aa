/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/decide.h"

#include "observe/metrics.h"
#include "serve/hold.h"

static void count_decisions(const struct weir_loop *loop, const struct weir_outcome *outcome)
{
    for (size_t i = 0; i < outcome->match.count; i++) {
        bool shed = outcome->shed && i == outcome->decision.deciding;
        weir_metrics_decided(loop->shared->metrics, loop->number, weir_loop_slot(loop, outcome->match.rules[i]->index),
                             shed ? WEIR_METRICS_SHED : weir_metrics_verdict_of(&outcome->verdicts[i]), 1);
    }
}

int weir_decide(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                struct weir_outcome *ret_outcome, struct weir_fault *ret_fault)
{
    *ret_fault = (struct weir_fault){ 0 };
    ret_outcome->waiter = NULL;
    ret_outcome->wait_ns = 0;
    ret_outcome->shed = false;
    int error = weir_rules_match(loop->setup->rules, question->attributes, question->count, question->cost,
                                 &ret_outcome->match, ret_fault);
    if (error)
        return error;
    if (ret_outcome->match.count == 0) {
        ret_outcome->decision = (struct weir_decision){ .admitted = true };
        return 0;
    }
    error = weir_limiter_decide(loop->limiter, ret_outcome->match.charges, ret_outcome->match.count, time,
                                question->peek ? WEIR_PEEK : 0, &ret_outcome->decision, ret_outcome->verdicts);
    if (error || question->peek)
        return error;
    if (question->can_wait && ret_outcome->decision.admitted)
        weir_hold_judge(loop, time, ret_outcome);
    count_decisions(loop, ret_outcome);
    return 0;
}
