/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of a decision: match the rules, or find the match of the last request (recent.c); refuse for a missing
 * attribute; go by the exceptions of its keys (excepted.c), which may refuse it; apply `unmatched` where no limit
 * applies. Then shared.c decides where any limit is shared, else the limiter in one step, with hold.c before and after
 * it. Called by http_check.c and resp_check.c; CL.THROTTLE has a way of its own (resp_throttle.c). */
#include "serve/decide.h"

#include "serve/excepted.h"
#include "serve/hold.h"
#include "serve/past_note.h"
#include "serve/refused.h"
#include "serve/reserve.h"
#include "serve/shared.h"

static void count_decisions(const struct weir_loop *loop, const struct weir_outcome *outcome)
{
    struct weir_metrics *metrics = loop->common->metrics;
    for (size_t i = 0; i < outcome->match.count; i++) {
        const struct weir_rule *rule = outcome->match.rules[i];
        const uint32_t slot = weir_loop_slot(loop, rule->index);
        weir_metrics_decided(metrics, loop->number, slot, weir_metrics_verdict_of(&outcome->verdicts[i]), 1);
        if (rule->one_counter && outcome->decision.admitted)
            weir_metrics_units(metrics, loop->number, slot, WEIR_UNITS_ADMITTED, outcome->match.charges[i].cost);
    }
}

static void keep_past(const struct weir_loop *loop, const struct weir_outcome *outcome, uint64_t now_ns)
{
    for (size_t i = 0; i < outcome->match.count; i++) {
        const struct weir_charge *charge = &outcome->match.charges[i];
        const struct weir_rule *rule = outcome->match.rules[i];
        weir_past_of_limit(loop, rule, weir_loop_slot(loop, rule->index), charge->key.hash, charge,
                           &outcome->verdicts[i], outcome->decision.admitted, now_ns);
    }
}

void weir_decide_count(const struct weir_loop *loop, const struct weir_outcome *outcome, uint64_t now_ns)
{
    count_decisions(loop, outcome);
    keep_past(loop, outcome, now_ns);
}

/* Units are asked back. How many there were to be given back may be known later, or never. */
static void count_returned(const struct weir_loop *loop, const struct weir_match *match)
{
    for (size_t i = 0; i < match->count; i++) {
        const struct weir_rule *rule = match->rules[i];
        if (rule->one_counter)
            weir_metrics_units(loop->common->metrics, loop->number, weir_loop_slot(loop, rule->index),
                               WEIR_UNITS_RETURNED, match->charges[i].cost);
    }
}

/* Who is not counted must be seen. */
void weir_decide_count_lacks(const struct weir_loop *loop, const struct weir_match *match)
{
    for (size_t i = 0; i < match->lacks_count; i++) {
        const struct weir_match_lack *lack = &match->lacking[i];
        uint32_t slot = weir_loop_slot(loop, lack->rule->index);
        weir_metrics_lacked(loop->common->metrics, loop->number, slot, lack->lack);
        if (lack->lack == WEIR_LACK_SHADOWED)
            weir_metrics_decided(loop->common->metrics, loop->number, slot, WEIR_METRICS_SHADOW_REFUSED, 1);
    }
}

/* Refused by the one limit that misses an attribute; the others are not asked. */
static void refuse(const struct weir_loop *loop, bool peek, struct weir_outcome *outcome)
{
    const struct weir_rule *rule = outcome->match.refused_by;
    outcome->match.count = 1;
    outcome->match.rules[0] = rule;
    outcome->match.charges[0] = (struct weir_charge){ .limit = rule->id };
    outcome->verdicts[0] = (struct weir_verdict){ .capacity = weir_limit_capacity(&rule->limit.spec),
                                                  .retry_after_ns = WEIR_NEVER };
    outcome->decision = (struct weir_decision){ .admitted = false, .deciding = 0, .retry_after_ns = WEIR_NEVER };
    if (!peek)
        count_decisions(loop, outcome);
}

/* No limit was met: `unmatched` decides. What costs nothing, and what meets a limit that is off, is not refused. */
static void decide_unmatched(struct weir_loop *loop, const struct weir_question *question, struct weir_outcome *outcome)
{
    bool refused = !outcome->match.met && question->cost > 0 && loop->setup->config->unmatched == WEIR_UNMATCHED_REFUSE;
    outcome->decision = (struct weir_decision){ .admitted = !refused, .retry_after_ns = refused ? WEIR_NEVER : 0 };
    if (!outcome->match.met && !question->peek)
        weir_count(refused ? &loop->counters.unmatched_refused : &loop->counters.unmatched_admitted, 1);
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

static int decide_shared(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                         struct weir_outcome *outcome, struct weir_transaction **ret_pending)
{
    int error = weir_shared_decide(loop, question, time, outcome, ret_pending);
    if (*ret_pending)
        (*ret_pending)->labels = weir_refused_keep(loop, question, &outcome->match);
    else if (!error && !question->peek && !outcome->decision.admitted)
        weir_refused_outcome(loop, question, outcome, time->now_ns);
    return error;
}

static int reserve(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                   struct weir_outcome *outcome, struct weir_fault *fault)
{
    int error = weir_reserve_decide(loop, question, time, outcome, fault);
    if (error)
        return error;
    weir_decide_count(loop, outcome, time->now_ns);
    if (!outcome->decision.admitted)
        weir_refused_outcome(loop, question, outcome, time->now_ns);
    return 0;
}

int weir_decide(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                struct weir_outcome *ret_outcome, struct weir_fault *ret_fault, struct weir_transaction **ret_pending)
{
    *ret_fault = (struct weir_fault){ 0 };
    *ret_pending = NULL;
    ret_outcome->waiter = NULL;
    ret_outcome->wait_ns = 0;
    ret_outcome->round_trips = 0;
    ret_outcome->banned = false;
    int error = match(loop, question, &ret_outcome->match, ret_fault);
    if (error)
        return error;
    if (!question->peek)
        weir_decide_count_lacks(loop, &ret_outcome->match);
    if (ret_outcome->match.refused_by) {
        refuse(loop, question->peek, ret_outcome);
        return 0;
    }
    if (weir_excepted_any(loop)) {
        error = weir_excepted_decide(loop, question, time, ret_outcome, &ret_outcome->banned, ret_fault);
        if (error || ret_outcome->banned)
            return error;
    }
    if (ret_outcome->match.count == 0)
        decide_unmatched(loop, question, ret_outcome);
    if (ret_outcome->match.count == 0 && !(question->reserve && ret_outcome->decision.admitted))
        return 0;
    if (question->reserve)
        return reserve(loop, question, time, ret_outcome, ret_fault);
    if (ret_outcome->match.remote_count > 0)
        return decide_shared(loop, question, time, ret_outcome, ret_pending);
    if (question->can_wait)
        weir_hold_prepare(loop, question->peek, ret_outcome);
    error = weir_limiter_decide(loop->limiter, ret_outcome->match.charges, ret_outcome->match.count, time,
                                question->peek ? WEIR_PEEK : 0, &ret_outcome->decision, ret_outcome->verdicts);
    if (error) {
        weir_hold_free(ret_outcome->waiter);
        ret_outcome->waiter = NULL;
        return error;
    }
    if (question->can_wait)
        weir_hold_judge(time, ret_outcome);
    if (!question->peek) {
        weir_decide_count(loop, ret_outcome, time->now_ns);
        if (!ret_outcome->decision.admitted)
            weir_refused_outcome(loop, question, ret_outcome, time->now_ns);
    }
    return 0;
}

void weir_refund(struct weir_loop *loop, const struct weir_match *match, const struct weir_time *time,
                 uint64_t *ret_units, struct weir_transaction **ret_pending)
{
    *ret_pending = NULL;
    count_returned(loop, match);
    if (match->remote_count > 0) {
        weir_shared_refund(loop, match, time, ret_units, ret_pending);
        return;
    }
    for (size_t i = 0; i < match->count; i++) {
        ret_units[i] = 0;
        /* The ids are of the rules in force: what is left to go wrong is nothing. */
        (void)weir_limiter_refund(loop->limiter, &match->charges[i], match->charges[i].cost, time, &ret_units[i]);
    }
}
