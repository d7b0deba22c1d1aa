/* SPDX-License-Identifier: Apache-2.0
 *
 * One request, from its attributes to its verdict: the way down and back that RESP and HTTP share. */
#pragma once

#include "observe/metrics.h"
#include "rules/rules.h"
#include "serve/loop.h"

struct weir_question {
    const struct weir_attribute *attributes;
    size_t count;
    uint64_t cost;
    bool peek;
    bool can_wait; /* the answer may be held: see outcome->waiter */
    /* Limits that replace others in this question; only of weir_decide_together. */
    const struct weir_rule *const *replacing;
    size_t replacing_count;
    struct weir_reserve_ask
        *reserve; /* not NULL: it is a reserve (serve/reserve.h), which never waits and never peeks */
};

struct weir_hold_waiter;
struct weir_reserve_ask;
struct weir_transaction;

/* About 8 KiB: keep one per loop, not one per request. The rules it points to live as long as loop->setup: look at
 * them within the turn only. */
struct weir_outcome {
    struct weir_match match; /* count 0: no limit applies */
    struct weir_decision decision;
    struct weir_verdict verdicts[WEIR_CHARGES_MAX];
    uint8_t fallbacks[WEIR_CHARGES_MAX]; /* enum weir_fallback_policy; only where match.remote_count > 0 */
    uint32_t slots[WEIR_CHARGES_MAX];    /* of the rules, in the metrics; there, too */
    struct weir_hold_waiter
        *waiter;          /* not NULL: once the answer is written, the caller calls weir_hold_begin (hold.h) */
    uint64_t wait_ns;     /* how long that will take */
    uint32_t round_trips; /* to the engine, that it took */
    bool banned;          /* refused because the key is (serve/excepted.h) */
};

/* Errors: of weir_rules_match and weir_limiter_decide; nothing is charged then.
 * *ret_pending is NULL, or the request meets limits shared with other nodes and the outcome comes later
 * (limits/transaction.h, serve/shared.h); such a request is never held: `throttle: hold` is `delay` for it. */
int weir_decide(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                struct weir_outcome *ret_outcome, struct weir_fault *ret_fault, struct weir_transaction **ret_pending);

/* What is counted of a decision, and kept for those who look at the last hour. For decide.c and decide_together.c. */
void weir_decide_count(const struct weir_loop *loop, const struct weir_outcome *outcome, uint64_t now_ns);
void weir_decide_count_lacks(const struct weir_loop *loop, const struct weir_match *match);

/* Gives back up to each charge's cost; ret_units[i] is of charge i. *ret_pending as above, and then that has the
 * units. */
void weir_refund(struct weir_loop *loop, const struct weir_match *match, const struct weir_time *time,
                 uint64_t *ret_units, struct weir_transaction **ret_pending);

/* The rule that decided; NULL when none applies. */
static inline const struct weir_rule *weir_outcome_rule(const struct weir_outcome *outcome)
{
    return outcome->decision.deciding < outcome->match.count ? outcome->match.rules[outcome->decision.deciding] : NULL;
}

static inline const struct weir_verdict *weir_outcome_verdict(const struct weir_outcome *outcome)
{
    return outcome->decision.deciding < outcome->match.count ? &outcome->verdicts[outcome->decision.deciding] : NULL;
}

static inline enum weir_fallback_policy weir_outcome_fallback(const struct weir_outcome *outcome, size_t i)
{
    return outcome->match.remote_count > 0 ? (enum weir_fallback_policy)outcome->fallbacks[i] : WEIR_FALLBACK_NONE;
}

/* ns as whole ms, rounded up; WEIR_NEVER as -1. */
static inline int64_t weir_told_ms(uint64_t ns)
{
    return ns == WEIR_NEVER ? -1 : (int64_t)(ns / 1000000 + (ns % 1000000 != 0));
}
