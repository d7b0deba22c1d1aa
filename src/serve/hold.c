/* SPDX-License-Identifier: Apache-2.0
 *
 * Before the decision a request takes a place (an atomic count per limit, undone where it passes hold_max), and the
 * limiter is told how long the delay may be. After it the delay is read from the verdicts, a place that is not needed
 * is freed, and the numbers become those of the turn. Called by decide.c; the waiting itself is in hold_wait.c. */
#include "serve/hold.h"

#include <stdlib.h>

#include "base/checked.h"
#include "observe/metrics.h"
#include "serve/hold_inside.h"

int weir_holds_create(struct weir_holds **ret_holds)
{
    struct weir_holds *holds = calloc(1, sizeof(*holds));
    if (!holds)
        return WEIR_ENOMEM;
    pthread_mutex_init(&holds->lock, NULL);
    *ret_holds = holds;
    return 0;
}

void weir_holds_destroy(struct weir_holds *holds)
{
    if (!holds)
        return;
    for (struct weir_hold_waiter *waiter = holds->gone, *next; waiter; waiter = next) {
        next = waiter->gone_next;
        free(waiter);
    }
    pthread_mutex_destroy(&holds->lock);
    free(holds);
}

uint32_t weir_holds_waiting(struct weir_holds *holds, uint32_t slot)
{
    return atomic_load_explicit(&holds->waiting[slot], memory_order_relaxed);
}

size_t weir_holds_bytes(struct weir_holds *holds)
{
    return atomic_load_explicit(&holds->bytes, memory_order_relaxed);
}

/* ---- before the decision ---- */

static bool is_shaped(const struct weir_outcome *outcome, size_t i)
{
    const struct weir_rule *rule = outcome->match.rules[i];
    return rule->throttle == WEIR_THROTTLE_HOLD && rule->limit.spec.algorithm == WEIR_LEAKY_BUCKET &&
           outcome->match.charges[i].cost > 0;
}

/* Limits in shadow hold nobody: they only say that they would have. */
static bool holds_here(const struct weir_outcome *outcome, size_t i)
{
    return is_shaped(outcome, i) && outcome->match.rules[i]->limit.spec.mode == WEIR_MODE_ENFORCE;
}

/* How long the answer may be held: for every hold_timeout, and while the leases of its permits last. WEIR_NEVER: no
 * limit holds it. */
static uint64_t patience_of(const struct weir_outcome *outcome)
{
    uint64_t timeout_ns = WEIR_NEVER, lease_ns = WEIR_NEVER;
    for (size_t i = 0; i < outcome->match.count; i++) {
        const struct weir_rule *rule = outcome->match.rules[i];
        if (holds_here(outcome, i))
            timeout_ns = weir_min_u64(timeout_ns, rule->hold_timeout_ns);
        if (rule->limit.spec.algorithm == WEIR_CONCURRENCY && rule->limit.spec.mode == WEIR_MODE_ENFORCE)
            lease_ns = weir_min_u64(lease_ns, rule->limit.spec.period_ns - 1);
    }
    return timeout_ns == WEIR_NEVER ? WEIR_NEVER : weir_min_u64(timeout_ns, lease_ns);
}

static size_t waiter_bytes(const struct weir_outcome *outcome)
{
    return sizeof(struct weir_hold_waiter) + outcome->match.count * sizeof(struct weir_hold_part);
}

static struct weir_hold_waiter *make_waiter(struct weir_loop *loop, const struct weir_outcome *outcome)
{
    struct weir_hold_waiter *waiter = calloc(1, waiter_bytes(outcome));
    if (!waiter)
        return NULL;
    waiter->loop = loop;
    waiter->bytes = waiter_bytes(outcome);
    atomic_fetch_add(&loop->common->holds->bytes, waiter->bytes);
    for (size_t i = 0; i < outcome->match.count; i++)
        waiter->parts[i] = (struct weir_hold_part){ .charge = outcome->match.charges[i],
                                                    .waiter = waiter,
                                                    .slot = weir_loop_slot(loop, outcome->match.rules[i]->index),
                                                    .algorithm = outcome->match.rules[i]->limit.spec.algorithm };
    return waiter;
}

/* A place in every limit that holds, and room in memory; NULL: there is none. */
static struct weir_hold_waiter *take_place(struct weir_loop *loop, const struct weir_outcome *outcome)
{
    struct weir_holds *holds = loop->common->holds;
    struct weir_hold_waiter *waiter = make_waiter(loop, outcome);
    bool room = waiter && weir_holds_bytes(holds) <= loop->setup->config->server.hold_bytes_max;
    for (size_t i = 0; room && i < outcome->match.count; i++) {
        if (!holds_here(outcome, i))
            continue;
        waiter->parts[i].holds = true;
        waiter->count = i + 1;
        room = atomic_fetch_add(&holds->waiting[waiter->parts[i].slot], 1) < outcome->match.rules[i]->hold_max;
    }
    if (!room) {
        weir_hold_free(waiter);
        return NULL;
    }
    waiter->count = outcome->match.count;
    return waiter;
}

/* Whether take_place would have found one. */
static bool has_place(const struct weir_loop *loop, const struct weir_outcome *outcome)
{
    struct weir_holds *holds = loop->common->holds;
    for (size_t i = 0; i < outcome->match.count; i++) {
        const struct weir_rule *rule = outcome->match.rules[i];
        if (holds_here(outcome, i) && weir_holds_waiting(holds, weir_loop_slot(loop, rule->index)) >= rule->hold_max)
            return false;
    }
    return weir_holds_bytes(holds) + waiter_bytes(outcome) <= loop->setup->config->server.hold_bytes_max;
}

void weir_hold_prepare(struct weir_loop *loop, bool peek, struct weir_outcome *outcome)
{
    uint64_t patience_ns = patience_of(outcome);
    bool room = true;
    if (patience_ns != WEIR_NEVER && peek)
        room = has_place(loop, outcome);
    else if (patience_ns != WEIR_NEVER)
        room = (outcome->waiter = take_place(loop, outcome)) != NULL;
    for (size_t i = 0; i < outcome->match.count; i++) {
        if (holds_here(outcome, i))
            outcome->match.charges[i].delay_max_ns = room ? patience_ns : WEIR_DELAY_NONE;
        else if (is_shaped(outcome, i))
            outcome->match.charges[i].delay_max_ns = outcome->match.rules[i]->hold_timeout_ns;
    }
}

/* ---- after it ---- */

/* Nobody may wait, so the delay is the time to come back; but a place is free again when the next one has had its turn,
 * about one cost from now. */
static uint64_t retry_for_place(const struct weir_outcome *outcome, size_t i)
{
    const struct weir_limit_spec *spec = &outcome->match.rules[i]->limit.spec;
    uint64_t gap_ns = weir_mul_div_ceil(outcome->match.charges[i].cost, spec->period_ns, weir_max_u64(spec->count, 1));
    uint64_t delay_ns = outcome->verdicts[i].retry_after_ns;
    return weir_max_u64(weir_sub_sat(delay_ns, patience_of(outcome)), weir_min_u64(delay_ns, gap_ns));
}

/* What could have waited, had there been a place, may come back sooner than its delay. */
static void show_place(struct weir_outcome *outcome)
{
    struct weir_decision *decision = &outcome->decision;
    uint64_t longest_ns = 0;
    decision->retry_after_ns = 0;
    for (size_t i = 0; i < outcome->match.count; i++) {
        struct weir_verdict *verdict = &outcome->verdicts[i];
        if (verdict->late && outcome->match.charges[i].delay_max_ns == WEIR_DELAY_NONE)
            verdict->retry_after_ns = retry_for_place(outcome, i);
        if (verdict->shadow)
            continue;
        if (!verdict->admitted && verdict->retry_after_ns > longest_ns) {
            longest_ns = verdict->retry_after_ns;
            decision->deciding = i;
        }
        decision->retry_after_ns = weir_max_u64(decision->retry_after_ns, verdict->retry_after_ns);
    }
}

/* The numbers as they will be when the answer goes, if nobody else comes. */
static void show_turn(struct weir_outcome *outcome, uint64_t wait_ns)
{
    outcome->decision.delay_ns = 0;
    for (size_t i = 0; i < outcome->match.count; i++) {
        struct weir_verdict *verdict = &outcome->verdicts[i];
        verdict->reset_after_ns = weir_sub_sat(verdict->reset_after_ns, wait_ns);
        verdict->next_after_ns = weir_sub_sat(verdict->next_after_ns, wait_ns);
        verdict->delay_ns = weir_sub_sat(verdict->delay_ns, wait_ns);
        outcome->decision.delay_ns = weir_max_u64(outcome->decision.delay_ns, verdict->shadow ? 0 : verdict->delay_ns);
    }
    outcome->wait_ns = wait_ns;
}

static uint64_t wait_of(const struct weir_outcome *outcome)
{
    uint64_t wait_ns = 0;
    for (size_t i = 0; i < outcome->match.count; i++) {
        if (holds_here(outcome, i) && !outcome->verdicts[i].shadow)
            wait_ns = weir_max_u64(wait_ns, outcome->verdicts[i].delay_ns);
    }
    return wait_ns;
}

void weir_hold_judge(const struct weir_time *time, struct weir_outcome *outcome)
{
    struct weir_hold_waiter *waiter = outcome->waiter;
    uint64_t wait_ns = outcome->decision.admitted ? wait_of(outcome) : 0;
    if (!outcome->decision.admitted && !waiter)
        show_place(outcome);
    if (!waiter || wait_ns == 0) {
        outcome->waiter = NULL;
        weir_hold_free(waiter);
        return;
    }
    for (size_t i = 0; i < waiter->count; i++) {
        waiter->parts[i].ticket = outcome->verdicts[i].ticket;
        waiter->parts[i].shadow = outcome->verdicts[i].shadow;
    }
    waiter->begun_ns = time->now_ns;
    waiter->due_ns = time->now_ns + wait_ns;
    show_turn(outcome, wait_ns);
}
