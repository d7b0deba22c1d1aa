/* SPDX-License-Identifier: Apache-2.0
 *
 * One limit of a request that meets shared ones: reserving its units where they are (memory, host, engine), then
 * committing or undoing that, and what on_failure says where the engine did not answer. Called by transaction.c. */
#include "base/checked.h"
#include "core/share/split.h"
#include "limits/transaction.h"

static struct weir_share_terms terms_of(const struct weir_transactions *of, const struct weir_shared_limit *limit)
{
    return (struct weir_share_terms){
        .limit = limit->remote,
        .leased = limit->sharing == WEIR_SHARING_LEASED,
        .slack = limit->slack == 0 ? 0 : weir_split_units(limit->slack, of->loops, of->loop),
        .interval_ns = limit->interval_ns,
        .chunk_ttl_ns = limit->chunk_ttl_ns,
        .deadline_ns = limit->deadline_ns,
    };
}

/* A refused request charges the limits that count attempts, unless it can never pass. */
static bool stays(const struct weir_transaction *transaction, const struct weir_part *part)
{
    return !transaction->refused || (part->limit->spec.count_mode == WEIR_COUNT_ATTEMPTS && !transaction->never);
}

bool weir_part_is_to_charge(const struct weir_transaction *transaction, const struct weir_part *part)
{
    return transaction->verb == WEIR_TRANSACTION_DECIDE && stays(transaction, part);
}

void weir_part_heard(struct weir_transaction *transaction, struct weir_part *part, const struct weir_time *time)
{
    part->answered = true;
    part->verdict.shadow = part->limit->spec.mode == WEIR_MODE_SHADOW;
    if (part->verdict.admitted || part->verdict.shadow)
        return;
    transaction->never = transaction->never || part->verdict.retry_after_ns == WEIR_NEVER;
    transaction->refused = true;
    for (size_t i = 0; i < transaction->count; i++) {
        if (!stays(transaction, &transaction->parts[i]))
            weir_part_undo(transaction, &transaction->parts[i], time);
    }
}

/* ---- hosted here ---- */

static int ask_host(struct weir_transaction *transaction, const struct weir_part *part, bool peek,
                    const struct weir_time *time, enum weir_share_say *say, struct weir_verdict *verdict)
{
    const struct weir_shared_limit *limit = part->limit;
    if (part->kind == WEIR_PART_GOSSIP && !transaction->of->gossip)
        return WEIR_EDOWN; /* a reload brought it to a node that listens to nobody */
    if (part->kind == WEIR_PART_GOSSIP)
        return weir_gossip_host_reserve(transaction->of->gossip, limit->remote, limit->slack, &part->key,
                                        part->charge.cost, peek, time, say, verdict);
    if (!transaction->of->host)
        return WEIR_EDOWN; /* a reload brought the engine: it takes a restart */
    const struct weir_share_terms terms = terms_of(transaction->of, limit);
    return weir_share_host_reserve(transaction->of->host, &terms, &part->key, part->charge.cost, peek, time->now_ns,
                                   say, verdict);
}

enum weir_part_step weir_part_reserve(struct weir_transaction *transaction, struct weir_part *part,
                                      const struct weir_time *time)
{
    enum weir_share_say say = WEIR_SHARE_NOTHING;
    bool peek = part->charge.cost == 0 || !weir_part_is_to_charge(transaction, part);
    int error = ask_host(transaction, part, peek, time, &say, &part->verdict);
    if (error) {
        weir_part_fail(transaction, part, error, time);
        return WEIR_PART_DONE;
    }
    if (say == WEIR_SHARE_WAIT && !peek)
        return WEIR_PART_WAITS;
    if (say == WEIR_SHARE_WAIT) {
        part->looks = true;
        return WEIR_PART_DONE;
    }
    if (say == WEIR_SHARE_YES && !peek)
        part->charged = WEIR_PART_RESERVED;
    weir_part_heard(transaction, part, time);
    return WEIR_PART_DONE;
}

static bool commit_hosted(struct weir_transaction *transaction, const struct weir_part *part,
                          const struct weir_time *time)
{
    if (part->kind == WEIR_PART_HOSTED)
        return weir_share_host_commit(transaction->of->host, &part->key, part->charge.cost, time->now_ns);
    weir_gossip_host_commit(transaction->of->gossip, &part->key, part->charge.cost, time);
    return true;
}

static void cancel_hosted(struct weir_transaction *transaction, const struct weir_part *part,
                          const struct weir_time *time)
{
    if (part->kind == WEIR_PART_GOSSIP)
        weir_gossip_host_cancel(transaction->of->gossip, &part->key, part->charge.cost, time);
    else
        weir_share_host_cancel(transaction->of->host, &part->key, part->charge.cost, time->now_ns);
}

/* ---- commit and undo ---- */

/* What was set aside was given up while this process stood still: ask again, anew. */
#define AGAIN_NS (WEIR_NS_PER_SECOND / 1000)

void weir_part_commit(struct weir_transaction *transaction, struct weir_part *part, const struct weir_time *time)
{
    if (part->charged != WEIR_PART_RESERVED)
        return;
    part->charged = WEIR_PART_CHARGED;
    if (commit_hosted(transaction, part, time))
        return;
    part->verdict.admitted = false;
    part->verdict.retry_after_ns = AGAIN_NS;
    transaction->refused = transaction->refused || !part->verdict.shadow;
}

/* The numbers after what was charged has been given back. */
static void show_again(struct weir_transaction *transaction, struct weir_part *part, const struct weir_time *time)
{
    struct weir_verdict verdict;
    struct weir_decision decision;
    enum weir_share_say say = WEIR_SHARE_WAIT;
    bool known = false;
    if (part->kind == WEIR_PART_MEMORY)
        known = weir_limiter_decide(transaction->of->limiter, &part->charge, 1, time, WEIR_PEEK, &decision, &verdict) ==
                0;
    else if (!part->fell_back && part->kind != WEIR_PART_ENGINE)
        known = ask_host(transaction, part, true, time, &say, &verdict) == 0 && say != WEIR_SHARE_WAIT;
    bool admitted = part->verdict.admitted, shadow = part->verdict.shadow;
    if (known)
        part->verdict = verdict;
    else
        part->verdict.remaining = part->verdict.capacity - part->verdict.remaining > part->charge.cost
                                      ? part->verdict.remaining + part->charge.cost
                                      : part->verdict.capacity;
    part->verdict.admitted = admitted;
    part->verdict.shadow = shadow;
    if (admitted)
        part->verdict.retry_after_ns = 0;
}

void weir_charge_undo(struct weir_limiter *limiter, enum weir_algorithm algorithm, const struct weir_charge *charge,
                      uint64_t ticket, const struct weir_time *time)
{
    uint64_t units = 0;
    if (algorithm == WEIR_CONCURRENCY)
        (void)weir_limiter_release(limiter, &charge->key, 1, ticket, time, &units);
    else
        (void)weir_limiter_refund(limiter, charge, charge->cost, time, &units);
}

void weir_part_undo(struct weir_transaction *transaction, struct weir_part *part, const struct weir_time *time)
{
    const enum weir_part_charge charged = part->charged;
    part->charged = WEIR_PART_NOTHING;
    switch (charged) {
    case WEIR_PART_NOTHING:
        return;
    case WEIR_PART_RESERVED:
        cancel_hosted(transaction, part, time);
        break;
    case WEIR_PART_LOCAL:
        weir_fallback_refund(transaction->of->fallback, &part->limit->share, transaction->reloads, &part->key,
                             part->charge.cost, time->now_ns);
        break;
    case WEIR_PART_CHARGED: /* of a host: a commit came too late, its own or another part's; its units are gone */
        if (part->kind != WEIR_PART_MEMORY)
            return;
        weir_charge_undo(transaction->of->limiter, part->limit->spec.algorithm, &part->charge, part->verdict.ticket,
                         time);
        break;
    }
    show_again(transaction, part, time);
}

/* ---- on_failure ---- */

/* By this node's share. The engine may be back any moment, and admit what the share refuses: no wait told is longer
 * than where on_failure is closed, and only what the whole limit can never hold waits in vain. */
static void decide_by_share(struct weir_transaction *transaction, struct weir_part *part, const struct weir_time *time)
{
    const struct weir_shared_limit *limit = part->limit;
    uint64_t whole = weir_limit_capacity(&limit->spec);
    bool charges = weir_part_is_to_charge(transaction, part);
    int error = weir_fallback_decide(transaction->of->fallback, part->number, &limit->share, transaction->reloads,
                                     &part->key, part->charge.cost, !charges, time->now_ns, &part->verdict);
    if (error)
        part->verdict = (struct weir_verdict){ .capacity = whole, .retry_after_ns = WEIR_NEVER };
    else if (part->verdict.admitted && charges)
        part->charged = WEIR_PART_LOCAL;
    if (part->verdict.admitted || part->charge.cost > whole)
        return;
    part->verdict.retry_after_ns = weir_min_u64(part->verdict.retry_after_ns, WEIR_TRANSACTION_RETRY_NS);
    part->verdict.next_after_ns = weir_min_u64(part->verdict.next_after_ns, WEIR_TRANSACTION_RETRY_NS);
}

/* The engine is well, and others were faster at this key: no failure, so on_failure has no say. */
static void refuse_busy(struct weir_transaction *transaction, struct weir_part *part, const struct weir_time *time)
{
    bool admitted = part->charge.cost == 0;
    part->verdict = (struct weir_verdict){ .admitted = admitted,
                                           .capacity = weir_limit_capacity(&part->limit->spec),
                                           .retry_after_ns = admitted ? 0 : AGAIN_NS,
                                           .next_after_ns = AGAIN_NS };
    weir_part_heard(transaction, part, time);
}

void weir_part_fail(struct weir_transaction *transaction, struct weir_part *part, int status,
                    const struct weir_time *time)
{
    const struct weir_shared_limit *limit = part->limit;
    uint64_t capacity = weir_limit_capacity(&limit->spec);
    bool never = part->charge.cost > capacity;
    if (status == WEIR_EBUSY && !never) {
        refuse_busy(transaction, part, time);
        return;
    }
    part->fell_back = true;
    switch (limit->on_failure) {
    case WEIR_ON_FAILURE_OPEN: /* what can never pass needs no engine to be refused */
        if (part->charge.cost > 0 && !never && transaction->verb == WEIR_TRANSACTION_DECIDE)
            weir_fallback_opened(transaction->of->fallback, part->number, time->now_ns);
        part->verdict = (struct weir_verdict){ .admitted = !never, .capacity = capacity, .remaining = capacity };
        if (never)
            part->verdict.retry_after_ns = WEIR_NEVER;
        break;
    case WEIR_ON_FAILURE_CLOSED:
        part->verdict = (struct weir_verdict){ .admitted = part->charge.cost == 0, .capacity = capacity };
        if (!part->verdict.admitted)
            part->verdict.retry_after_ns = part->verdict.next_after_ns = never ? WEIR_NEVER : WEIR_TRANSACTION_RETRY_NS;
        break;
    case WEIR_ON_FAILURE_LOCAL:
        decide_by_share(transaction, part, time);
        break;
    }
    weir_part_heard(transaction, part, time);
}

/* ---- this process's limits ---- */

static void decide_group(struct weir_transaction *transaction, bool charges, const struct weir_time *time)
{
    struct weir_charge list[WEIR_CHARGES_MAX];
    struct weir_verdict verdicts[WEIR_CHARGES_MAX];
    struct weir_decision decision;
    size_t places[WEIR_CHARGES_MAX], count = 0;
    for (size_t i = 0; i < transaction->count; i++) {
        if (transaction->parts[i].kind != WEIR_PART_MEMORY || transaction->parts[i].answered ||
            weir_part_is_to_charge(transaction, &transaction->parts[i]) != charges)
            continue;
        list[count] = transaction->parts[i].charge;
        places[count++] = i;
    }
    if (count == 0)
        return;
    int error = weir_limiter_decide(transaction->of->limiter, list, count, time, charges ? 0 : WEIR_PEEK, &decision,
                                    verdicts);
    if (error) {
        transaction->error = error;
        transaction->refused = transaction->never = true;
        return;
    }
    /* All of them are charged before any of them is heard: a refusal undoes what it finds. */
    for (size_t i = 0; i < count; i++) {
        transaction->parts[places[i]].verdict = verdicts[i];
        if (charges && decision.admitted && verdicts[i].admitted && list[i].cost > 0)
            transaction->parts[places[i]].charged = WEIR_PART_CHARGED;
    }
    for (size_t i = 0; i < count; i++)
        weir_part_heard(transaction, &transaction->parts[places[i]], time);
}

void weir_parts_decide_here(struct weir_transaction *transaction, const struct weir_time *time)
{
    decide_group(transaction, true, time);
    if (!transaction->error)
        decide_group(transaction, false, time);
}
