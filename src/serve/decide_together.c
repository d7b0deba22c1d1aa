/* SPDX-License-Identifier: Apache-2.0
 *
 * Each question is matched as decide.c does it; the charges of all are put into one match, which is then decided in one
 * step, by the limiter or as one transaction. Called by envoy.c, whose questions have several descriptors. */
#include "serve/decide_together.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/fault_format.h"
#include "serve/excepted.h"
#include "serve/refused.h"
#include "serve/shared.h"

/* The match of one, or why it needs none: it is barred. */
static int match_one(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                     struct weir_match *match, struct weir_together *one, struct weir_fault *fault)
{
    size_t banned = SIZE_MAX;
    int error = weir_rules_match(loop->setup->rules, question->attributes, question->count, question->cost, match,
                                 fault);
    if (error)
        return error;
    one->met = match->met;
    if (question->replacing_count > 0)
        one->replaced = weir_match_replace(loop->setup->rules, match, question->replacing, question->replacing_count) >
                            0 &&
                        match->count == 0;
    if (!question->peek)
        weir_decide_count_lacks(loop, match);
    if (match->refused_by) {
        one->barred_by = match->refused_by;
        one->barred_ns = WEIR_NEVER;
    } else if (weir_excepted_any(loop)) {
        error = weir_excepted_match(loop, question, time->wall_ns, match, &banned, &one->barred_ns, fault);
        one->banned = !error && banned < match->count;
        one->barred_by = one->banned ? match->rules[banned] : NULL;
    }
    one->unmatched = !error && !one->met && question->cost > 0 &&
                     loop->setup->config->unmatched == WEIR_UNMATCHED_REFUSE;
    if (one->barred_by)
        match->count = 0;
    return error;
}

static void count_barred(struct weir_loop *loop, const struct weir_question *question, const struct weir_together *one)
{
    if (question->peek)
        return;
    if (one->barred_by)
        weir_metrics_decided(loop->common->metrics, loop->number, weir_loop_slot(loop, one->barred_by->index),
                             one->banned ? WEIR_METRICS_BANNED : WEIR_METRICS_REFUSED, 1);
    else if (!one->met)
        weir_count(one->unmatched ? &loop->counters.unmatched_refused : &loop->counters.unmatched_admitted, 1);
}

static bool is_same_counter(const struct weir_match *whole, size_t at, const struct weir_match *match, size_t i)
{
    const struct weir_rule *rule = match->rules[i];
    if (whole->rules[at] != rule)
        return false;
    if (rule->limit.remote)
        return memcmp(whole->remote_keys[at].id, match->remote_keys[i].id, sizeof(match->remote_keys[i].id)) == 0;
    return whole->charges[at].key.hash == match->charges[i].key.hash;
}

/* Adds the charges of one to those of all. */
static int add(struct weir_match *whole, const struct weir_match *match, struct weir_together *one,
               struct weir_fault *fault)
{
    for (size_t i = 0; i < match->count; i++) {
        size_t at = 0;
        while (at < whole->count && !is_same_counter(whole, at, match, i))
            at++;
        if (at == WEIR_CHARGES_MAX)
            return weir_fault_format(fault, WEIR_ELIMIT, "descriptors", "meet more than %d limits", WEIR_CHARGES_MAX);
        one->charges |= UINT64_C(1) << at;
        if (at < whole->count) {
            whole->charges[at].cost = weir_min_u64(weir_add_sat(whole->charges[at].cost, match->charges[i].cost),
                                                   WEIR_COST_MAX);
            continue;
        }
        whole->rules[at] = match->rules[i];
        whole->charges[at] = match->charges[i];
        if (match->rules[i]->limit.remote) {
            whole->remote_keys[at] = match->remote_keys[i];
            whole->remote_count++;
        }
        whole->count++;
    }
    return 0;
}

static void begin(struct weir_outcome *outcome)
{
    struct weir_match *whole = &outcome->match;
    whole->count = whole->remote_count = whole->lacks_count = whole->offs_count = 0;
    whole->refused_by = NULL;
    whole->lacks = NULL;
    outcome->waiter = NULL;
    outcome->wait_ns = 0;
    outcome->round_trips = 0;
    outcome->banned = false;
    outcome->decision = (struct weir_decision){ .admitted = true };
}

/* Whose key a charge has: the first question that makes it. */
static const struct weir_question *owner_of(const struct weir_question *questions, const struct weir_together *each,
                                            size_t count, size_t charge)
{
    for (size_t i = 0; i < count; i++)
        if (each[i].charges >> charge & 1)
            return &questions[i];
    weir_assert(false);
    return NULL;
}

static int decide_shared(struct weir_loop *loop, const struct weir_question *questions, size_t count, bool peek,
                         const struct weir_time *time, struct weir_outcome *outcome, const struct weir_together *each,
                         struct weir_transaction **ret_pending)
{
    const struct weir_question whole = { .peek = peek };
    const struct weir_question *owners[WEIR_CHARGES_MAX] = { NULL };
    for (size_t i = 0; i < outcome->match.count; i++)
        owners[i] = owner_of(questions, each, count, i);
    int error = weir_shared_decide(loop, &whole, time, outcome, ret_pending);
    if (*ret_pending && !peek)
        (*ret_pending)->labels = weir_refused_keep_each(loop, owners, &outcome->match);
    for (size_t i = 0; !*ret_pending && !error && !peek && i < outcome->match.count; i++)
        if (!outcome->decision.admitted)
            weir_refused_charge(loop, owners[i], outcome, i, time->now_ns);
    return error;
}

static int decide_here(struct weir_loop *loop, const struct weir_question *questions, size_t count, bool peek,
                       const struct weir_time *time, struct weir_outcome *outcome, const struct weir_together *each)
{
    const struct weir_match *whole = &outcome->match;
    int error = weir_limiter_decide(loop->limiter, whole->charges, whole->count, time, peek ? WEIR_PEEK : 0,
                                    &outcome->decision, outcome->verdicts);
    if (error || peek)
        return error;
    weir_decide_count(loop, outcome, time->now_ns);
    for (size_t i = 0; !outcome->decision.admitted && i < whole->count; i++)
        weir_refused_charge(loop, owner_of(questions, each, count, i), outcome, i, time->now_ns);
    return 0;
}

int weir_decide_together(struct weir_loop *loop, const struct weir_question *questions, size_t count,
                         const struct weir_time *time, struct weir_match *scratch, struct weir_outcome *ret_outcome,
                         struct weir_together *ret_each, struct weir_fault *ret_fault,
                         struct weir_transaction **ret_pending)
{
    bool peek = questions[0].peek;
    int error = 0;
    weir_assert(count > 0 && count <= WEIR_TOGETHER_MAX);
    *ret_fault = (struct weir_fault){ 0 };
    *ret_pending = NULL;
    begin(ret_outcome);
    for (size_t i = 0; i < count && !error; i++) {
        ret_each[i] = (struct weir_together){ 0 };
        error = match_one(loop, &questions[i], time, scratch, &ret_each[i], ret_fault);
        if (!error)
            error = add(&ret_outcome->match, scratch, &ret_each[i], ret_fault);
    }
    if (error)
        return error;
    for (size_t i = 0; i < count; i++) {
        count_barred(loop, &questions[i], &ret_each[i]);
        peek = peek || weir_together_is_barred(&ret_each[i]);
    }
    if (ret_outcome->match.count == 0)
        return 0;
    return ret_outcome->match.remote_count > 0
               ? decide_shared(loop, questions, count, peek, time, ret_outcome, ret_each, ret_pending)
               : decide_here(loop, questions, count, peek, time, ret_outcome, ret_each);
}
