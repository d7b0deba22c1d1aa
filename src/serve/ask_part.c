/* SPDX-License-Identifier: Apache-2.0
 *
 * One limit of a request that meets shared ones. */
#include "base/checked.h"
#include "core/share/split.h"
#include "limits/fallback.h"
#include "limits/gossip_host.h"
#include "serve/ask.h"
#include "serve/loop.h"
#include "serve/permit.h"

static struct weir_share_terms terms_of(const struct weir_loop *loop, const struct weir_rule *rule)
{
    return (struct weir_share_terms){
        .limit = rule->remote,
        .leased = rule->sharing == WEIR_SHARING_LEASED,
        .slack = rule->slack == 0
                     ? 0
                     : weir_split_units(rule->slack, (uint32_t)loop->shared->loop_count, (uint32_t)loop->number),
        .interval_ns = rule->interval_ns,
        .chunk_ttl_ns = rule->chunk_ttl_ns,
        .deadline_ns = rule->deadline_ns,
    };
}

/* A refused request charges the limits that count attempts, unless it can never pass. */
static bool stays(const struct weir_ask *ask, const struct weir_part *part)
{
    return !ask->refused || (part->rule->spec.count_mode == WEIR_COUNT_ATTEMPTS && !ask->never);
}

bool weir_part_charges(const struct weir_ask *ask, const struct weir_part *part)
{
    return !ask->peek && stays(ask, part);
}

void weir_part_told(struct weir_ask *ask, struct weir_part *part, const struct weir_time *time)
{
    part->answered = true;
    part->verdict.shadow = part->rule->spec.mode == WEIR_MODE_SHADOW;
    if (part->verdict.admitted || part->verdict.shadow)
        return;
    ask->never = ask->never || part->verdict.retry_after_ns == WEIR_NEVER;
    ask->refused = true;
    for (size_t i = 0; i < ask->count; i++) {
        if (!stays(ask, &ask->parts[i]))
            weir_part_undo(ask, &ask->parts[i], time);
    }
}

/* ---- hosted here ---- */

static int ask_host(struct weir_ask *ask, const struct weir_part *part, bool peek, const struct weir_time *time,
                    enum weir_share_say *say, struct weir_verdict *verdict)
{
    struct weir_loop *loop = ask->loop;
    const struct weir_rule *rule = part->rule;
    if (part->kind == WEIR_PART_GOSSIP && !loop->shared->gossip)
        return WEIR_EDOWN; /* a reload brought it to a node that listens to nobody */
    if (part->kind == WEIR_PART_GOSSIP)
        return weir_gossip_host_reserve(loop->shared->gossip, rule->remote, rule->slack, &part->key, part->charge.cost,
                                        peek, time, say, verdict);
    if (!loop->sharer.host)
        return WEIR_EDOWN; /* a reload brought the engine: it takes a restart */
    const struct weir_share_terms terms = terms_of(loop, rule);
    return weir_share_host_reserve(loop->sharer.host, &terms, &part->key, part->charge.cost, peek, time->now_ns, say,
                                   verdict);
}

enum weir_part_step weir_part_reserve(struct weir_ask *ask, struct weir_part *part, const struct weir_time *time)
{
    enum weir_share_say say = WEIR_SHARE_NOTHING;
    bool peek = part->charge.cost == 0 || !weir_part_charges(ask, part);
    int error = ask_host(ask, part, peek, time, &say, &part->verdict);
    if (error) {
        weir_part_fail(ask, part, error, time);
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
    weir_part_told(ask, part, time);
    return WEIR_PART_DONE;
}

static bool commit_hosted(struct weir_ask *ask, const struct weir_part *part, const struct weir_time *time)
{
    if (part->kind == WEIR_PART_HOSTED)
        return weir_share_host_commit(ask->loop->sharer.host, &part->key, part->charge.cost, time->now_ns);
    weir_gossip_host_commit(ask->loop->shared->gossip, &part->key, part->charge.cost, time);
    return true;
}

static void cancel_hosted(struct weir_ask *ask, const struct weir_part *part, const struct weir_time *time)
{
    if (part->kind == WEIR_PART_GOSSIP)
        weir_gossip_host_cancel(ask->loop->shared->gossip, &part->key, part->charge.cost, time);
    else
        weir_share_host_cancel(ask->loop->sharer.host, &part->key, part->charge.cost, time->now_ns);
}

/* ---- commit and undo ---- */

/* What was set aside was given up while this process stood still: ask again, anew. */
#define AGAIN_NS (WEIR_NS_PER_SECOND / 1000)

void weir_part_commit(struct weir_ask *ask, struct weir_part *part, const struct weir_time *time)
{
    if (part->charged != WEIR_PART_RESERVED)
        return;
    part->charged = WEIR_PART_CHARGED;
    if (commit_hosted(ask, part, time))
        return;
    part->verdict.admitted = false;
    part->verdict.retry_after_ns = AGAIN_NS;
    ask->refused = ask->refused || !part->verdict.shadow;
}

/* The numbers after what was charged has been given back. */
static void show_again(struct weir_ask *ask, struct weir_part *part, const struct weir_time *time)
{
    struct weir_verdict verdict;
    struct weir_decision decision;
    enum weir_share_say say = WEIR_SHARE_WAIT;
    bool known = false;
    if (part->kind == WEIR_PART_HERE)
        known = weir_limiter_decide(ask->loop->limiter, &part->charge, 1, time, WEIR_PEEK, &decision, &verdict) == 0;
    else if (!part->fallback && part->kind != WEIR_PART_ENGINE)
        known = ask_host(ask, part, true, time, &say, &verdict) == 0 && say != WEIR_SHARE_WAIT;
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

void weir_part_undo(struct weir_ask *ask, struct weir_part *part, const struct weir_time *time)
{
    const enum weir_part_charge charged = part->charged;
    part->charged = WEIR_PART_NOTHING;
    switch (charged) {
    case WEIR_PART_NOTHING:
        return;
    case WEIR_PART_RESERVED:
        cancel_hosted(ask, part, time);
        break;
    case WEIR_PART_LOCAL:
        weir_fallback_refund(ask->loop->shared->fallback, &part->rule->share, ask->setup_number, &part->key,
                             part->charge.cost, time->now_ns);
        break;
    case WEIR_PART_CHARGED: /* elsewhere: only a commit that came too late undoes it, and the units are lost */
        if (part->kind != WEIR_PART_HERE)
            return;
        weir_charge_undo(ask->loop->limiter, part->rule->spec.algorithm, &part->charge, part->verdict.ticket, time);
        break;
    }
    show_again(ask, part, time);
}

/* ---- on_failure ---- */

/* By this node's share. The engine may be back any moment, and admit what the share refuses: no wait told is longer
 * than where on_failure is closed, and only what the whole limit can never hold waits in vain. */
static void decide_by_share(struct weir_ask *ask, struct weir_part *part, const struct weir_time *time)
{
    const struct weir_rule *rule = part->rule;
    uint64_t whole = weir_limit_capacity(&rule->spec);
    bool charges = part->charge.cost > 0 && weir_part_charges(ask, part);
    int error = weir_fallback_decide(ask->loop->shared->fallback, part->slot, &rule->share, ask->setup_number,
                                     &part->key, part->charge.cost, !charges, time->now_ns, &part->verdict);
    if (error)
        part->verdict = (struct weir_verdict){ .capacity = whole, .retry_after_ns = WEIR_NEVER };
    else if (part->verdict.admitted && charges)
        part->charged = WEIR_PART_LOCAL;
    if (part->verdict.admitted || part->charge.cost > whole)
        return;
    part->verdict.retry_after_ns = weir_min_u64(part->verdict.retry_after_ns, WEIR_ASK_RETRY_NS);
    part->verdict.next_after_ns = weir_min_u64(part->verdict.next_after_ns, WEIR_ASK_RETRY_NS);
}

/* The engine is well, and others were faster at this key: no failure, so on_failure has no say. */
static void refuse_busy(struct weir_ask *ask, struct weir_part *part, const struct weir_time *time)
{
    bool admitted = part->charge.cost == 0;
    part->verdict = (struct weir_verdict){ .admitted = admitted,
                                           .capacity = weir_limit_capacity(&part->rule->spec),
                                           .retry_after_ns = admitted ? 0 : AGAIN_NS,
                                           .next_after_ns = AGAIN_NS };
    weir_part_told(ask, part, time);
}

void weir_part_fail(struct weir_ask *ask, struct weir_part *part, int status, const struct weir_time *time)
{
    const struct weir_rule *rule = part->rule;
    uint64_t capacity = weir_limit_capacity(&rule->spec);
    bool never = part->charge.cost > capacity;
    if (status == WEIR_EBUSY && !never) {
        refuse_busy(ask, part, time);
        return;
    }
    switch (rule->on_failure) {
    case WEIR_ON_FAILURE_OPEN: /* what can never pass needs no engine to be refused */
        part->fallback = WEIR_FALLBACK_OPEN;
        if (part->charge.cost > 0 && !never && !ask->peek)
            weir_fallback_opened(ask->loop->shared->fallback, part->slot, time->now_ns);
        part->verdict = (struct weir_verdict){ .admitted = !never, .capacity = capacity, .remaining = capacity };
        if (never)
            part->verdict.retry_after_ns = WEIR_NEVER;
        break;
    case WEIR_ON_FAILURE_CLOSED:
        part->fallback = WEIR_FALLBACK_CLOSED;
        part->verdict = (struct weir_verdict){ .admitted = part->charge.cost == 0, .capacity = capacity };
        if (!part->verdict.admitted)
            part->verdict.retry_after_ns = part->verdict.next_after_ns = never ? WEIR_NEVER : WEIR_ASK_RETRY_NS;
        break;
    case WEIR_ON_FAILURE_LOCAL:
        part->fallback = WEIR_FALLBACK_LOCAL;
        decide_by_share(ask, part, time);
        break;
    }
    weir_part_told(ask, part, time);
}

/* ---- this process's limits ---- */

static void decide_group(struct weir_ask *ask, bool charges, const struct weir_time *time)
{
    struct weir_charge list[WEIR_CHARGES_MAX];
    struct weir_verdict verdicts[WEIR_CHARGES_MAX];
    struct weir_decision decision;
    size_t places[WEIR_CHARGES_MAX], count = 0;
    for (size_t i = 0; i < ask->count; i++) {
        if (ask->parts[i].kind != WEIR_PART_HERE || ask->parts[i].answered ||
            weir_part_charges(ask, &ask->parts[i]) != charges)
            continue;
        list[count] = ask->parts[i].charge;
        places[count++] = i;
    }
    if (count == 0)
        return;
    int error = weir_limiter_decide(ask->loop->limiter, list, count, time, charges ? 0 : WEIR_PEEK, &decision,
                                    verdicts);
    if (error) {
        ask->error = error;
        ask->refused = ask->never = true;
        return;
    }
    /* All of them are charged before any of them is heard: a refusal undoes what it finds. */
    for (size_t i = 0; i < count; i++) {
        ask->parts[places[i]].verdict = verdicts[i];
        if (charges && decision.admitted && verdicts[i].admitted && list[i].cost > 0)
            ask->parts[places[i]].charged = WEIR_PART_CHARGED;
    }
    for (size_t i = 0; i < count; i++)
        weir_part_told(ask, &ask->parts[places[i]], time);
}

void weir_parts_decide_here(struct weir_ask *ask, const struct weir_time *time)
{
    decide_group(ask, true, time);
    if (!ask->error)
        decide_group(ask, false, time);
}
