/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of one request that meets shared limits. It runs in the loop's scratch memory and is copied to the heap
 * only when it must wait: for the host of a leased or batched key, or for the engine. Every reply, failure and deadline
 * leads back to proceed(), which goes on until each limit has answered, then commits or undoes. The work on one limit
 * is in ask_part.c. Called by decide.c and resp_cell.c. */
#include "serve/ask.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/checked.h"
#include "limits/fallback.h"
#include "observe/metrics.h"
#include "serve/cell.h"
#include "serve/loop.h"

#define BUSY_SPREAD_SHIFT 42 /* of 64 bits: up to 4.2 ms */

/* Where a request is when it cannot go on by itself. */
enum stage {
    STAGE_DONE,
    STAGE_WAITS,  /* for the host of a part */
    STAGE_ENGINE, /* for the engine's answer to a batch of parts */
};

/* ---- the engine's batches ---- */

static bool is_unasked(const struct weir_ask *ask, const struct weir_part *part)
{
    if (part->answered)
        return false;
    return part->kind == WEIR_PART_ENGINE || (part->kind == WEIR_PART_HOSTED && (part->looks || ask->refund));
}

/* Those that are charged are decided before the others are looked at. */
static bool is_decided(const struct weir_ask *ask, const struct weir_part *part)
{
    return is_unasked(ask, part) && part->kind == WEIR_PART_ENGINE && weir_part_charges(ask, part);
}

static bool any(const struct weir_ask *ask, bool (*is)(const struct weir_ask *ask, const struct weir_part *part))
{
    for (size_t i = 0; i < ask->count; i++) {
        if (is(ask, &ask->parts[i]))
            return true;
    }
    return false;
}

/* The verb of the next batch, and whether a part belongs to it. */
static enum weir_remote_verb next_verb(const struct weir_ask *ask)
{
    if (ask->refund)
        return ask->forget ? WEIR_REMOTE_FORGET : WEIR_REMOTE_REFUND;
    return any(ask, is_decided) ? WEIR_REMOTE_DECIDE : WEIR_REMOTE_PEEK;
}

static bool in_batch(const struct weir_ask *ask, const struct weir_part *part, enum weir_remote_verb verb)
{
    return verb == WEIR_REMOTE_DECIDE ? is_decided(ask, part) : is_unasked(ask, part);
}

static void fail_batch(struct weir_ask *ask, enum weir_remote_verb verb, int status, const struct weir_time *time)
{
    uint8_t batch[WEIR_CHARGES_MAX]; /* chosen first: one that refuses changes what the others are asked */
    size_t count = 0;
    for (size_t i = 0; i < ask->count; i++) {
        if (in_batch(ask, &ask->parts[i], verb))
            batch[count++] = (uint8_t)i;
    }
    if (ask->forget)
        ask->error = status;
    for (size_t i = 0; i < count; i++) {
        if (ask->refund)
            ask->parts[batch[i]].answered = true;
        else
            weir_part_fail(ask, &ask->parts[batch[i]], status, time);
    }
}

/* ---- going on ---- */

/* The part whose host has to be asked next; count: none. */
static size_t next_hosted(const struct weir_ask *ask)
{
    size_t i = 0;
    while (i < ask->count && (ask->parts[i].answered || ask->parts[i].looks ||
                              (ask->parts[i].kind != WEIR_PART_HOSTED && ask->parts[i].kind != WEIR_PART_GOSSIP)))
        i++;
    return i;
}

static enum stage go_on(struct weir_ask *ask, const struct weir_time *time)
{
    if (!ask->refund) {
        for (size_t i = 0; i < ask->count; i++) {
            if (ask->parts[i].rule->undecidable && !ask->parts[i].answered)
                weir_part_fail(ask, &ask->parts[i], WEIR_EDOWN, time);
        }
        for (size_t i; (i = next_hosted(ask)) < ask->count;) {
            if (weir_part_reserve(ask, &ask->parts[i], time) == WEIR_PART_WAITS)
                return STAGE_WAITS;
        }
        if (!ask->error)
            weir_parts_decide_here(ask, time);
    }
    return !ask->error && any(ask, is_unasked) ? STAGE_ENGINE : STAGE_DONE;
}

/* It may not wait: on_failure answers, at once. */
static enum stage give_up(struct weir_ask *ask, enum stage stage, const struct weir_time *time)
{
    while (stage != STAGE_DONE) {
        if (stage == STAGE_WAITS)
            weir_part_fail(ask, &ask->parts[next_hosted(ask)], WEIR_EDOWN, time);
        else
            fail_batch(ask, next_verb(ask), WEIR_EDOWN, time);
        stage = go_on(ask, time);
    }
    return stage;
}

/* ---- the end ---- */

static void count_part(const struct weir_ask *ask, const struct weir_part *part)
{
    const struct weir_loop *loop = ask->loop;
    if (part->fallback)
        weir_count(&ask->loop->counters.fallbacks[part->fallback], 1);
    if (part->fallback)
        weir_metrics_fell_back(loop->shared->metrics, loop->number, part->slot, part->fallback);
    if (!ask->peek)
        weir_metrics_decided(loop->shared->metrics, loop->number, part->slot, weir_metrics_verdict_of(&part->verdict),
                             1);
}

/* All parts have answered: what is reserved is charged, or goes back. A commit may come too late, and refuses. */
static void settle(struct weir_ask *ask, const struct weir_time *time)
{
    for (size_t i = 0; i < ask->count && !ask->refund; i++) {
        if (weir_part_charges(ask, &ask->parts[i]))
            weir_part_commit(ask, &ask->parts[i], time);
    }
    for (size_t i = 0; i < ask->count && !ask->refund; i++) {
        struct weir_part *part = &ask->parts[i];
        if (!weir_part_charges(ask, part))
            weir_part_undo(ask, part, time);
        if (!ask->error)
            count_part(ask, part);
    }
}

/* As weir_limiter_decide has it: never first, then the longest wait; or, admitted, the least that remains. */
static void combine(const struct weir_ask *ask, struct weir_decision *d)
{
    const struct weir_verdict *chosen = NULL;
    *d = (struct weir_decision){ .admitted = true, .deciding = ask->count };
    for (size_t i = 0; i < ask->count; i++) {
        const struct weir_verdict *v = &ask->parts[i].verdict;
        if (v->shadow)
            continue;
        bool worse = !v->admitted && (d->admitted || v->retry_after_ns > chosen->retry_after_ns);
        bool scarcer = d->admitted && v->admitted && (!chosen || v->remaining < chosen->remaining);
        if (worse || scarcer) {
            d->deciding = i;
            chosen = v;
        }
        d->admitted = d->admitted && v->admitted;
        d->delay_ns = weir_max_u64(d->delay_ns, v->delay_ns);
        d->retry_after_ns = weir_max_u64(d->retry_after_ns, v->retry_after_ns);
    }
    if (!d->admitted)
        d->delay_ns = 0;
}

int weir_ask_outcome(const struct weir_ask *ask, struct weir_outcome *ret_outcome)
{
    if (ask->error)
        return ask->error;
    ret_outcome->waiter = NULL;
    ret_outcome->wait_ns = 0;
    ret_outcome->match.count = ask->count;
    ret_outcome->match.remote_count = ask->count;
    ret_outcome->match.refused_by = NULL;
    ret_outcome->match.lacks = NULL;
    for (size_t i = 0; i < ask->count; i++) {
        ret_outcome->match.rules[i] = ask->parts[i].rule;
        ret_outcome->match.charges[i] = ask->parts[i].charge;
        ret_outcome->verdicts[i] = ask->parts[i].verdict;
        ret_outcome->fallbacks[i] = (uint8_t)ask->parts[i].fallback;
        ret_outcome->slots[i] = ask->parts[i].slot;
    }
    combine(ask, &ret_outcome->decision);
    return 0;
}

void weir_ask_end(struct weir_ask *ask)
{
    struct weir_loop *loop = ask->loop;
    uint64_t number = ask->setup_number;
    weir_cell_destroy(ask->cell);
    free(ask->ops);
    free(ask);
    loop->sharer.asks--;
    loop->sharer.asks_of[number % 2]--;
    weir_loop_moved(loop);
}

static void finish(struct weir_ask *ask, const struct weir_time *time)
{
    settle(ask, time);
    if (ask->done)
        ask->done(ask, ask->context);
    else
        weir_ask_end(ask);
}

/* ---- waiting ---- */

static void proceed(struct weir_ask *ask, const struct weir_time *time);

static void on_ready(struct weir_share_waiter *waiter, int status)
{
    struct weir_ask *ask = (struct weir_ask *)((uint8_t *)waiter - offsetof(struct weir_ask, waiter));
    const struct weir_time time = weir_time_read();
    weir_timer_stop(&ask->loop->timers, &ask->timer);
    if (status)
        weir_part_fail(ask, &ask->parts[next_hosted(ask)], status, &time);
    proceed(ask, &time);
}

static void on_deadline(struct weir_timer *timer, const struct weir_time *time)
{
    struct weir_ask *ask = (struct weir_ask *)((uint8_t *)timer - offsetof(struct weir_ask, timer));
    weir_share_waiter_leave(&ask->waiter);
    weir_part_fail(ask, &ask->parts[next_hosted(ask)], WEIR_EUNKNOWN, time);
    proceed(ask, time);
}

/* False: it cannot wait. */
static bool wait_for_host(struct weir_ask *ask, const struct weir_time *time)
{
    ask->waiter.ready = on_ready;
    ask->timer.on_due = on_deadline;
    if (time->now_ns >= ask->deadline_ns || weir_timer_start(&ask->loop->timers, &ask->timer, ask->deadline_ns))
        return false;
    weir_share_host_wait(ask->loop->sharer.host, &ask->parts[next_hosted(ask)].key, &ask->waiter);
    return true;
}

static void hear_batch(struct weir_ask *ask, enum weir_remote_verb verb, const struct weir_time *time)
{
    uint8_t batch[WEIR_CHARGES_MAX];
    size_t count = 0;
    bool charged = verb == WEIR_REMOTE_DECIDE && ask->request.decision.admitted;
    for (size_t i = 0; i < ask->count; i++) {
        if (!in_batch(ask, &ask->parts[i], verb))
            continue;
        ask->parts[i].verdict = ask->ops[count].verdict;
        ask->parts[i].refunded = ask->refund ? ask->ops[count].units : 0;
        batch[count++] = (uint8_t)i;
    }
    for (size_t i = 0; i < count; i++) {
        struct weir_part *part = &ask->parts[batch[i]];
        part->answered = true;
        weir_fallback_answered(ask->loop->shared->fallback, part->slot);
        weir_assert(!charged || part->charged == WEIR_PART_NOTHING);
        if (!ask->refund)
            weir_part_told(ask, part, time);
    }
}

static void on_another_try(struct weir_timer *timer, const struct weir_time *time)
{
    proceed((struct weir_ask *)((uint8_t *)timer - offsetof(struct weir_ask, timer)), time);
}

/* Others change the key all the time: once more, a little later than they. False: no time is left. */
static bool try_again(struct weir_ask *ask, const struct weir_time *time)
{
    uint64_t spread_ns = time->now_ns * UINT64_C(0x9e3779b97f4a7c15) >> BUSY_SPREAD_SHIFT;
    ask->timer.on_due = on_another_try;
    return time->now_ns + spread_ns < ask->deadline_ns &&
           weir_timer_start(&ask->loop->timers, &ask->timer, time->now_ns + spread_ns) == 0;
}

static void on_answer(struct weir_remote_request *request)
{
    struct weir_ask *ask = request->context;
    const struct weir_time time = weir_time_read();
    const enum weir_remote_verb verb = request->verb;
    if (request->status == WEIR_EBUSY && try_again(ask, &time))
        return;
    if (request->status == WEIR_EUNKNOWN && verb == WEIR_REMOTE_DECIDE)
        weir_count(&ask->loop->counters.unknown_charges, 1);
    if (request->status)
        fail_batch(ask, verb, request->status, &time);
    else
        hear_batch(ask, verb, &time);
    proceed(ask, &time);
}

/* False: the engine cannot be asked. */
static bool ask_engine(struct weir_ask *ask, const struct weir_time *time)
{
    struct weir_remote *remote = ask->loop->sharer.remote;
    if (!ask->ops)
        ask->ops = calloc(ask->count, sizeof(ask->ops[0]));
    if (!remote || !ask->ops || time->now_ns >= ask->deadline_ns)
        return false;
    ask->request = (struct weir_remote_request){
        .verb = next_verb(ask), .ops = ask->ops, .deadline_ns = ask->deadline_ns, .done = on_answer, .context = ask
    };
    for (size_t i = 0; i < ask->count; i++) {
        const struct weir_part *part = &ask->parts[i];
        if (in_batch(ask, part, ask->request.verb))
            ask->ops[ask->request.count++] =
                (struct weir_remote_op){ .limit = part->rule->remote, .key = part->key, .units = part->charge.cost };
    }
    return remote->ops->submit(remote, &ask->request) == 0;
}

/* Begins to wait where it has to. */
static bool wait(struct weir_ask *ask, enum stage stage, const struct weir_time *time)
{
    return stage == STAGE_WAITS ? wait_for_host(ask, time) : ask_engine(ask, time);
}

static void proceed(struct weir_ask *ask, const struct weir_time *time)
{
    enum stage stage = go_on(ask, time);
    if (stage != STAGE_DONE && wait(ask, stage, time))
        return;
    (void)give_up(ask, stage, time);
    finish(ask, time);
}

void weir_ask_abandon(struct weir_ask *ask)
{
    ask->done = NULL;
    if (!ask->waiter.queue)
        return; /* the engine is deciding, and will be heard */
    const struct weir_time time = weir_time_read();
    weir_share_waiter_leave(&ask->waiter);
    weir_timer_stop(&ask->loop->timers, &ask->timer);
    ask->refused = ask->never = true;
    for (size_t i = 0; i < ask->count; i++)
        weir_part_undo(ask, &ask->parts[i], &time);
    weir_ask_end(ask);
}

/* ---- the beginning ---- */

static enum weir_part_kind kind_of(const struct weir_rule *rule)
{
    if (!rule->remote)
        return WEIR_PART_HERE;
    switch (rule->sharing) {
    case WEIR_SHARING_LEASED:
    case WEIR_SHARING_BATCHED:
        return WEIR_PART_HOSTED;
    case WEIR_SHARING_GOSSIP:
        return WEIR_PART_GOSSIP;
    case WEIR_SHARING_EXACT:
    case WEIR_SHARING_SPLIT:
        break;
    }
    return WEIR_PART_ENGINE;
}

/* In the loop's own memory: most requests end there. */
static struct weir_ask *begin(struct weir_loop *loop, const struct weir_match *match, const struct weir_time *time)
{
    struct weir_ask *ask = loop->sharer.scratch;
    *ask = (struct weir_ask){ .loop = loop,
                              .setup_number = loop->setup_number,
                              .begun_ns = time->now_ns,
                              .deadline_ns = WEIR_NEVER,
                              .count = match->count };
    for (size_t i = 0; i < match->count; i++) {
        const struct weir_rule *rule = match->rules[i];
        struct weir_part *part = &ask->parts[i];
        part->rule = rule;
        part->slot = weir_loop_slot(loop, rule->index);
        part->charge = match->charges[i];
        part->kind = kind_of(rule);
        part->charged = WEIR_PART_NOTHING;
        part->fallback = WEIR_FALLBACK_NONE;
        part->answered = part->looks = false;
        part->refunded = 0;
        if (part->kind == WEIR_PART_HERE)
            continue;
        part->key = match->remote_keys[i];
        if (part->kind != WEIR_PART_GOSSIP)
            ask->deadline_ns = weir_min_u64(ask->deadline_ns, weir_add_sat(time->now_ns, rule->deadline_ns));
    }
    return ask;
}

/* Out of the loop's own memory; NULL: too many wait. */
static struct weir_ask *keep(const struct weir_ask *scratch)
{
    struct weir_sharer *sharer = &scratch->loop->sharer;
    size_t size = sizeof(*scratch) + scratch->count * sizeof(scratch->parts[0]);
    struct weir_ask *ask = sharer->asks < WEIR_ASKS_MAX ? malloc(size) : NULL;
    if (!ask)
        return NULL;
    memcpy(ask, scratch, size);
    sharer->asks++;
    sharer->asks_of[ask->setup_number % 2]++;
    return ask;
}

/* NULL: it is done, in the scratch. */
static struct weir_ask *run(struct weir_ask *scratch, const struct weir_time *time)
{
    enum stage stage = go_on(scratch, time);
    if (stage != STAGE_DONE) {
        struct weir_ask *ask = keep(scratch);
        if (ask && wait(ask, stage, time))
            return ask;
        if (ask)
            weir_ask_end(ask);
        (void)give_up(scratch, stage, time);
    }
    settle(scratch, time);
    return NULL;
}

int weir_ask_decide(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                    struct weir_outcome *outcome, struct weir_ask **ret_ask)
{
    /* Not the batch's time: a process that stood still since must not spend what it no longer holds. */
    const struct weir_time now = { .now_ns = uv_hrtime(), .wall_ns = time->wall_ns };
    struct weir_ask *ask = begin(loop, &outcome->match, &now);
    ask->peek = question->peek;
    *ret_ask = run(ask, &now);
    return *ret_ask ? 0 : weir_ask_outcome(ask, outcome);
}

void weir_ask_refund(struct weir_loop *loop, const struct weir_match *match, const struct weir_time *time,
                     uint64_t *ret_units, struct weir_ask **ret_ask)
{
    struct weir_ask *ask = begin(loop, match, time);
    ask->refund = true;
    for (size_t i = 0; i < ask->count; i++) {
        struct weir_part *part = &ask->parts[i];
        part->verdict = (struct weir_verdict){ 0 };
        if (part->kind == WEIR_PART_HERE)
            (void)weir_limiter_refund(loop->limiter, &part->charge, part->charge.cost, time, &part->refunded);
        part->answered = part->kind == WEIR_PART_HERE || part->kind == WEIR_PART_GOSSIP || part->rule->undecidable;
    }
    *ret_ask = run(ask, time);
    for (size_t i = 0; i < ask->count && !*ret_ask; i++)
        ret_units[i] = ask->parts[i].refunded;
}

int weir_ask_forget(struct weir_loop *loop, const struct weir_match *match, const struct weir_time *time,
                    uint64_t *ret_found, struct weir_ask **ret_ask)
{
    struct weir_ask *ask = begin(loop, match, time);
    ask->refund = ask->forget = true;
    *ret_ask = run(ask, time);
    for (size_t i = 0; i < ask->count && !*ret_ask; i++)
        ret_found[i] = ask->parts[i].refunded;
    return *ret_ask ? 0 : ask->error;
}
