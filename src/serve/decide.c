/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/decide.h"

int weir_decide(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                struct weir_outcome *ret_outcome, struct weir_fault *ret_fault)
{
    *ret_fault = (struct weir_fault){ 0 };
    int error = weir_rules_match(loop->setup->rules, question->attributes, question->count, question->cost,
                                 &ret_outcome->match, ret_fault);
    if (error)
        return error;
    if (ret_outcome->match.count == 0) {
        ret_outcome->decision = (struct weir_decision){ .admitted = true };
        return 0;
    }
    return weir_limiter_decide(loop->limiter, ret_outcome->match.charges, ret_outcome->match.count, time,
                               question->peek ? WEIR_PEEK : 0, &ret_outcome->decision, ret_outcome->verdicts);
}
