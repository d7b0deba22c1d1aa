/* SPDX-License-Identifier: Apache-2.0
 *
 * The order: give back what is to be given back; look at the descriptors that only look, and at those with a limit of
 * their own; then decide the others, in one group or one by one; last, charge those with a limit of their own. Groups
 * that meet limits shared with other nodes may wait, and the last of them ends the question. Called by grpc_envoy.c and
 * http_envoy.c; the answer is made in envoy_tell.c. */
#include "serve/envoy.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/fault_format.h"
#include "serve/envoy_inside.h"
#include "serve/shared.h"

_Static_assert(WEIR_ENVOY_DESCRIPTORS_MAX <= WEIR_TOGETHER_MAX, "and together");

bool weir_envoy_refunds(const struct weir_envoy_request *request)
{
    for (size_t i = 0; i < request->count; i++)
        if (request->descriptors[i].negative && weir_envoy_hits(request, i) > 0)
            return true;
    return false;
}

/* ---- groups ---- */

/* After a wait the loop may have other rules. */
static uint32_t slot_of(const struct weir_envoy_group *group, const struct weir_rule *rule)
{
    struct weir_loop *loop = group->ask->loop;
    return group->pending ? weir_metrics_slot(loop->common->metrics, rule->name) : weir_loop_slot(loop, rule->index);
}

static int absorb(struct weir_envoy_ask *ask, const struct weir_envoy_group *group, const struct weir_outcome *outcome)
{
    const size_t base = ask->parts_count;
    size_t more = outcome->match.count;
    for (size_t i = 0; i < group->count; i++)
        more += group->each[i].barred_by != NULL;
    if (base + more > WEIR_CHARGES_MAX)
        return WEIR_ELIMIT;
    for (size_t i = 0; i < outcome->match.count; i++) {
        const struct weir_rule *rule = outcome->match.rules[i];
        ask->parts[ask->parts_count++] = (struct weir_envoy_part){ .name = rule->name,
                                                                   .level = rule->level,
                                                                   .spec = &rule->limit.spec,
                                                                   .verdict = outcome->verdicts[i],
                                                                   .fallback = weir_outcome_fallback(outcome, i),
                                                                   .slot = slot_of(group, rule) };
    }
    for (size_t i = 0; i < group->count; i++) {
        struct weir_envoy_each *each = &ask->each[group->members[i]];
        const struct weir_together *one = &group->each[i];
        each->met = one->met && !one->replaced;
        each->over = one->unmatched;
        each->parts |= base < WEIR_CHARGES_MAX ? one->charges << base : 0;
        if (!one->barred_by)
            continue;
        each->parts |= UINT64_C(1) << ask->parts_count;
        ask->parts[ask->parts_count++] =
            (struct weir_envoy_part){ .name = one->barred_by->name,
                                      .level = one->barred_by->level,
                                      .spec = &one->barred_by->limit.spec,
                                      .verdict = { .capacity = weir_limit_capacity(&one->barred_by->limit.spec),
                                                   .retry_after_ns = one->barred_ns },
                                      .slot = slot_of(group, one->barred_by) };
    }
    return 0;
}

static void on_done(struct weir_transaction *pending, void *context)
{
    struct weir_envoy_group *group = context;
    struct weir_envoy_ask *ask = group->ask;
    (void)pending;
    group->heard = true;
    if (--ask->waiting == 0)
        ask->done(ask, ask->context);
}

/* Moves the question to the heap, where it waits. */
static struct weir_envoy_ask *keep(struct weir_envoy_ask *ask, size_t groups)
{
    struct weir_envoy_ask *kept = malloc(sizeof(*kept));
    struct weir_envoy_group *all = kept ? calloc(groups, sizeof(*all)) : NULL;
    if (!all) {
        free(kept);
        return NULL;
    }
    *kept = *ask;
    kept->groups = all;
    return kept;
}

/* Decides one group; `*ask` moves to the heap when it is the first that waits. */
static int decide_group(struct weir_envoy_work *work, struct weir_envoy_ask **ask, struct weir_envoy_group *group,
                        bool peek, size_t groups, const struct weir_time *time, struct weir_fault *fault)
{
    struct weir_question questions[WEIR_TOGETHER_MAX];
    struct weir_transaction *pending = NULL;
    for (size_t i = 0; i < group->count; i++) {
        questions[i] = work->questions[group->members[i]];
        questions[i].peek = questions[i].peek || peek;
    }
    int error = weir_decide_together((*ask)->loop, questions, group->count, time, &work->scratch, &work->outcome,
                                     group->each, fault, &pending);
    if (error || !pending)
        return error ? error : absorb(*ask, group, &work->outcome);
    struct weir_envoy_ask *kept = (*ask)->groups ? *ask : keep(*ask, groups);
    if (!kept) {
        weir_transaction_abandon(pending);
        return WEIR_ENOMEM;
    }
    *ask = kept;
    struct weir_envoy_group *waits = &kept->groups[kept->groups_count++];
    *waits = *group;
    waits->ask = kept;
    waits->pending = pending;
    kept->waiting++;
    weir_transaction_then(pending, on_done, waits);
    return 0;
}

/* ---- a question ---- */

static void give_back(struct weir_envoy_ask *ask, struct weir_envoy_work *work, const struct weir_time *time)
{
    for (size_t i = 0; i < work->request.count; i++) {
        const struct weir_envoy_descriptor *one = &work->request.descriptors[i];
        const uint64_t hits = weir_envoy_hits(&work->request, i);
        struct weir_transaction *pending = NULL;
        struct weir_fault fault;
        uint64_t units[WEIR_CHARGES_MAX];
        if (!one->negative || one->has_limit || hits == 0 ||
            weir_rules_match(ask->loop->setup->rules, work->questions[i].attributes, work->questions[i].count, hits,
                             &work->scratch, &fault))
            continue;
        (void)weir_match_replace(ask->loop->setup->rules, &work->scratch, work->replacing, work->replacing_count);
        weir_refund(ask->loop, &work->scratch, time, units, &pending);
        if (pending) /* the engine does it, and nobody waits for its word */
            weir_transaction_abandon(pending);
    }
}

/* One by one, and so may be all; in any case those that only look. */
static int decide_each(struct weir_envoy_work *work, struct weir_envoy_ask **ask, bool all,
                       const struct weir_time *time, struct weir_fault *fault)
{
    int error = 0;
    for (size_t i = 0; i < work->request.count && !error; i++) {
        struct weir_envoy_group group = { .ask = *ask, .count = 1, .members = { (uint8_t)i } };
        if (!work->request.descriptors[i].has_limit && (all || work->questions[i].peek))
            error = decide_group(work, ask, &group, false, work->request.count, time, fault);
    }
    return error;
}

static int decide_rest(struct weir_envoy_work *work, struct weir_envoy_ask **ask, const struct weir_time *time,
                       struct weir_fault *fault)
{
    struct weir_envoy_group group = { .ask = *ask, .count = 0 };
    for (size_t i = 0; i < work->request.count; i++)
        if (!work->request.descriptors[i].has_limit && !work->questions[i].peek)
            group.members[group.count++] = (uint8_t)i;
    if (group.count == 0)
        return 0;
    return decide_group(work, ask, &group, weir_envoy_refused_any(*ask), work->request.count, time, fault);
}

static void end_question(struct weir_envoy_ask *ask, struct weir_envoy_work *work, const struct weir_time *time)
{
    weir_envoy_overrides_charge(ask, time);
    weir_envoy_hits_count(ask);
    weir_envoy_tell(ask, work);
}

/* Which limits replace others, whatever the other descriptors meet; those with a limit of their own meet none. */
static void gather_replacing(struct weir_envoy_work *work, const struct weir_envoy_descriptor *one)
{
    for (size_t i = 0; !one->has_limit && i < work->scratch.replacing_count; i++)
        work->replacing[work->replacing_count++] = work->scratch.replacing[i];
}

/* What several groups decide, one after the other, is known to have room before the first is charged. */
static int look_ahead(struct weir_envoy_work *work, const struct weir_loop *loop, struct weir_fault *fault)
{
    const struct weir_rules *rules = loop->setup->rules;
    size_t charges = 0;
    int error = 0;
    work->replacing_count = 0;
    if (work->request.count == 1 && !weir_rules_replace(rules))
        return 0;
    for (size_t i = 0; i < work->request.count && !error; i++) {
        error = weir_rules_match(rules, work->questions[i].attributes, work->questions[i].count, 1, &work->scratch,
                                 fault);
        charges += work->scratch.count + (work->scratch.refused_by != NULL) + work->request.descriptors[i].has_limit;
        gather_replacing(work, &work->request.descriptors[i]);
    }
    for (size_t i = 0; i < work->request.count; i++) {
        work->questions[i].replacing = work->replacing;
        work->questions[i].replacing_count = work->replacing_count;
    }
    if (!error && charges > WEIR_CHARGES_MAX)
        error = weir_fault_format(fault, WEIR_ELIMIT, "descriptors", "meet more than %d limits", WEIR_CHARGES_MAX);
    return error;
}

int weir_envoy_decide(struct weir_loop *loop, struct weir_envoy_work *work, const struct weir_time *time,
                      void (*done)(struct weir_envoy_ask *ask, void *context), void *context,
                      struct weir_envoy_ask **ret_later, struct weir_fault *ret_fault)
{
    const bool all = loop->setup->config->envoy_count_all;
    struct weir_envoy_ask *ask = &work->ask;
    ask->loop = loop;
    ask->count = work->request.count;
    ask->parts_count = ask->waiting = ask->groups_count = 0;
    ask->groups = NULL;
    ask->done = done;
    ask->context = context;
    memset(ask->each, 0, ask->count * sizeof(ask->each[0]));
    for (size_t i = 0; i < ask->count; i++)
        ask->each[i].hits = work->request.descriptors[i].negative ? 0 : weir_envoy_hits(&work->request, i);
    *ret_later = NULL;
    weir_envoy_questions_make(work, loop->setup->rules);
    int error = look_ahead(work, loop, ret_fault);
    if (!error)
        error = weir_envoy_overrides_look(ask, work, time, ret_fault);
    if (!error)
        give_back(ask, work, time);
    if (!error)
        error = decide_each(work, &ask, all, time, ret_fault);
    if (!error && !all)
        error = decide_rest(work, &ask, time, ret_fault);
    if (error) {
        weir_envoy_end(ask == &work->ask ? NULL : ask);
        return error;
    }
    if (ask->waiting > 0) {
        *ret_later = ask;
        return 0;
    }
    end_question(ask, work, time);
    return 0;
}

int weir_envoy_hear(struct weir_envoy_ask *ask, struct weir_envoy_work *work)
{
    const struct weir_time time = weir_time_read();
    int error = 0;
    for (size_t i = 0; i < ask->groups_count && !error; i++) {
        struct weir_envoy_group *group = &ask->groups[i];
        weir_assert(ask->waiting == 0 && group->pending);
        error = weir_shared_outcome(group->pending, &work->outcome);
        if (!error)
            error = absorb(ask, group, &work->outcome);
    }
    if (error)
        return error;
    end_question(ask, work, &time);
    return 0;
}

void weir_envoy_end(struct weir_envoy_ask *ask)
{
    if (!ask)
        return;
    for (size_t i = 0; i < ask->groups_count; i++) {
        if (ask->groups[i].heard)
            weir_transaction_end(ask->groups[i].pending);
        else
            weir_transaction_abandon(ask->groups[i].pending);
    }
    free(ask->groups);
    free(ask);
}
