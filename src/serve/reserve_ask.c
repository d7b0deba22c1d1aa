/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserve and extend: decisions, and what the limits say of them beside: how much, for how long, or not at all where a
 * limit is kept elsewhere. Called by decide.c, http_reserve.c and resp_reserve.c. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/fault_format.h"
#include "serve/refused.h"
#include "serve/reserve_inside.h"

/* What all limits of a request that are charged the amount say together. */
struct wish {
    uint64_t amounts; /* bit i: charge i is of the amount */
    uint64_t most;    /* the least reserve_max; WEIR_NEVER: it is not cut */
    uint64_t ttl_max_ns;
    uint64_t estimate;
    bool keep;
};

static int read_wish(struct weir_loop *loop, const struct weir_match *match, struct wish *ret_wish,
                     struct weir_fault *fault)
{
    struct wish wish = { .most = WEIR_NEVER, .ttl_max_ns = WEIR_RESERVE_TTL_MAX_NS };
    for (size_t i = 0; i < match->count; i++) {
        const struct weir_rule *rule = match->rules[i];
        if (rule->limit.remote)
            return weir_fault_format(fault, WEIR_EINVAL, "attributes",
                                     "meet limit \"%.64s\", which nodes share (sharing: %.16s): reservations under it "
                                     "are not supported yet",
                                     rule->name, rule->terms.mode ? rule->terms.mode : "exact");
        if (!rule->of_amount)
            continue;
        wish.amounts |= UINT64_C(1) << i;
        const uint64_t share = weir_mul_div(weir_limit_capacity(&rule->limit.spec), rule->reserve.max_share,
                                            WEIR_RESERVE_SHARE_WHOLE);
        if (rule->reserve.max_share > 0)
            wish.most = weir_min_u64(wish.most, weir_max_u64(share, 1));
        wish.ttl_max_ns = weir_min_u64(wish.ttl_max_ns, rule->reserve.ttl_max_ns);
        wish.keep = wish.keep || rule->reserve.on_expiry == WEIR_ON_EXPIRY_KEEP;
        if (rule->reserve.estimate == 0)
            continue;
        const struct weir_reserve_limit *limit = weir_reserve_limit_of(loop->common->reservations,
                                                                       weir_loop_slot(loop, rule->index));
        const uint64_t estimate = limit ? weir_estimate_quantile(&limit->estimate, rule->reserve.estimate) : 0;
        wish.estimate = weir_max_u64(wish.estimate, estimate ? estimate : rule->reserve.estimate_first);
    }
    *ret_wish = wish;
    return 0;
}

static int ttl_of(const struct wish *wish, uint64_t asked_ns, uint64_t usual_ns, uint64_t *ret_ttl_ns,
                  struct weir_fault *fault)
{
    if (asked_ns > wish->ttl_max_ns)
        return weir_fault_format(fault, WEIR_ERANGE, "ttl_ms", "must be 1 to %llu (reserve_ttl_max)",
                                 (unsigned long long)(wish->ttl_max_ns / 1000000));
    *ret_ttl_ns = asked_ns > 0 ? asked_ns : weir_min_u64(usual_ns, wish->ttl_max_ns);
    return 0;
}

/* With the lock held. */
static int reserve(struct weir_loop *loop, struct weir_reserve_ask *ask, const struct wish *wish,
                   const struct weir_time *time, struct weir_outcome *outcome, struct weir_fault *fault)
{
    struct weir_reservations *r = loop->common->reservations;
    struct weir_match *match = &outcome->match;
    struct weir_reservation ticket;
    struct weir_reserve_options options = { .keep = wish->keep };
    uint32_t slots[WEIR_RESERVE_LIMITS_MAX];
    size_t count = 0;
    options.amount = weir_min_u64(ask->amount ? ask->amount : wish->estimate, wish->most);
    ask->cut = options.amount < ask->amount;
    int error = ttl_of(wish, ask->ttl_ns, WEIR_RESERVE_TTL_DEFAULT_NS, &options.ttl_ns, fault);
    if (!error && options.amount == 0)
        error = weir_fault_format(fault, WEIR_EINVAL, "amount",
                                  "\"auto\" needs a limit with estimate: none that applies has one");
    if (error)
        return error;
    for (size_t i = 0; i < match->count; i++) {
        if (!(wish->amounts >> i & 1))
            continue;
        match->charges[i].cost = options.amount;
        if (count < WEIR_RESERVE_LIMITS_MAX)
            slots[count++] = weir_loop_slot(loop, match->rules[i]->index);
    }
    struct weir_reserve_record *record = weir_reserve_place(r);
    if (!record) {
        r->ends.full++;
        return weir_fault_format(fault, WEIR_EBUSY, "full", "%d reservations are open: settle some, or wait",
                                 WEIR_RESERVATIONS_MAX);
    }
    error = weir_limiter_reserve(loop->limiter, match->charges, match->count, wish->amounts, &options, time, &ticket,
                                 &outcome->decision, outcome->verdicts, fault);
    if (error || !outcome->decision.admitted) {
        record->next_free = r->free;
        r->free = record->place + 1;
        r->ends.refused += !error;
        return error;
    }
    record->ttl_ns = options.ttl_ns;
    error = weir_reserve_keep(r, record, &ticket, slots, wish->keep);
    if (error) {
        struct weir_settled settled;
        (void)weir_limiter_settle(loop->limiter, &ticket, 0, time, &settled);
        return error;
    }
    r->ends.reserved++;
    for (size_t i = 0; i < count; i++) {
        struct weir_reserve_limit *limit = weir_reserve_limit_of(r, slots[i]);
        if (limit)
            weir_reservation_book_add(&limit->book, options.amount, true);
    }
    ask->held = options.amount;
    ask->ends_after_ns = options.ttl_ns;
    const struct weir_reservation_id id = { record->number, record->place };
    weir_reservation_write(&loop->common->permit_secret, &id, ask->id);
    return 0;
}

int weir_reserve_decide(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                        struct weir_outcome *outcome, struct weir_fault *fault)
{
    struct weir_reservations *r = loop->common->reservations;
    struct wish wish = { 0 };
    pthread_mutex_lock(&r->lock);
    int error = read_wish(loop, &outcome->match, &wish, fault);
    if (!error)
        error = reserve(loop, question->reserve, &wish, time, outcome, fault);
    pthread_mutex_unlock(&r->lock);
    return error;
}

/* Of "auto" nobody knows yet: 1. What is reserved in the end is put into the charges. */
int weir_reserve_question(struct weir_question *question, struct weir_attribute *attributes,
                          struct weir_reserve_amount *amount, struct weir_fault *fault)
{
    static const char name[] = WEIR_RESERVE_ATTRIBUTE;
    if (question->count == WEIR_ATTRIBUTES_MAX)
        return weir_fault_format(fault, WEIR_ELIMIT, "attributes", "must be at most %d: amount is one more",
                                 WEIR_ATTRIBUTES_MAX - 1);
    const uint64_t units = question->reserve->amount ? question->reserve->amount : 1;
    const int size = snprintf(amount->text, sizeof(amount->text), "%llu", (unsigned long long)units);
    attributes[question->count++] = (struct weir_attribute){ { name, sizeof(name) - 1 },
                                                             { amount->text, (size_t)size } };
    return 0;
}

/* ---- extend ---- */

/* The limits of a record as those in force are called; false: one of them is not any more. */
static bool find_rules(const struct weir_loop *loop, const struct weir_reserve_record *record, struct weir_match *match)
{
    match->count = 0;
    match->remote_count = match->lacks_count = 0;
    match->refused_by = NULL;
    match->lacks = NULL;
    for (uint32_t i = 0; i < record->count; i++) {
        size_t at = 0;
        while (at < weir_rules_count(loop->setup->rules) && weir_loop_slot(loop, (uint32_t)at) != record->slots[i])
            at++;
        if (at == weir_rules_count(loop->setup->rules))
            return false;
        match->rules[match->count++] = weir_rules_limit(loop->setup->rules, at);
    }
    return true;
}

static int extend(struct weir_loop *loop, struct weir_reserve_record *record, uint64_t more,
                  const struct weir_time *time, struct weir_reserve_ask *ask, struct weir_outcome *outcome,
                  struct weir_fault *fault)
{
    struct weir_reservations *r = loop->common->reservations;
    struct weir_reservation ticket;
    struct wish wish = { 0 };
    uint64_t ttl_ns = 0;
    if (!find_rules(loop, record, &outcome->match))
        return WEIR_ESTALE;
    int error = read_wish(loop, &outcome->match, &wish, fault);
    if (!error)
        error = ttl_of(&wish, ask->ttl_ns, record->ttl_ns, &ttl_ns, fault);
    if (error)
        return error;
    weir_reserve_end_one(r, loop->limiter, record, time);
    weir_reserve_load(record, &ticket);
    error = weir_limiter_extend(loop->limiter, &ticket, more, ttl_ns, time, &outcome->decision, outcome->verdicts);
    if (error || !outcome->decision.admitted) {
        r->ends.refused += !error;
        return error;
    }
    record->ttl_ns = ttl_ns;
    weir_reserve_store(r, record, &ticket);
    for (uint32_t i = 0; i < record->count; i++) {
        struct weir_reserve_limit *limit = weir_reserve_limit_of(r, record->slots[i]);
        if (limit && limit->book.open > 0)
            weir_reservation_book_add(&limit->book, more, false);
    }
    ask->held = ticket.held;
    ask->ends_after_ns = ttl_ns;
    return 0;
}

int weir_reserve_extend(struct weir_loop *loop, struct weir_slice id, uint64_t more, const struct weir_time *time,
                        struct weir_reserve_ask *ask, struct weir_outcome *outcome, struct weir_fault *fault)
{
    struct weir_reservations *r = loop->common->reservations;
    *fault = (struct weir_fault){ 0 };
    pthread_mutex_lock(&r->lock);
    struct weir_reserve_record *record = weir_reserve_find(loop, id);
    int error = record ? extend(loop, record, more, time, ask, outcome, fault) : WEIR_ENOENT;
    pthread_mutex_unlock(&r->lock);
    if (!error)
        memcpy(ask->id, id.data, sizeof(ask->id));
    return error;
}
