/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of one request that meets shared limits. It runs in the loop's scratch memory and is copied to the heap
 * only when it must wait: for the host of a leased or batched key, or for the engine. Every reply, failure and deadline
 * leads back to proceed(), which goes on until each limit has answered, then commits or undoes. The work on one limit
 * is in transaction_part.c. Called by serve/shared.c. */
#include "limits/transaction.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/container.h"
#include "limits/combine.h"

#define BUSY_SPREAD_SHIFT 42 /* of 64 bits: up to 4.2 ms */

/* Where a request is when it cannot go on by itself. */
enum stage {
    STAGE_DONE,
    STAGE_WAITS,  /* for the host of a part */
    STAGE_ENGINE, /* for the engine's answer to a batch of parts */
};

/* ---- the engine's batches ---- */

/* A refund, or a forget. */
static bool gives_back(const struct weir_transaction *transaction)
{
    return transaction->verb == WEIR_TRANSACTION_REFUND || transaction->verb == WEIR_TRANSACTION_FORGET;
}

static bool is_unasked(const struct weir_transaction *transaction, const struct weir_part *part)
{
    if (part->answered)
        return false;
    return part->kind == WEIR_PART_ENGINE ||
           (part->kind == WEIR_PART_HOSTED && (part->looks || gives_back(transaction)));
}

/* Those that are charged are decided before the others are looked at. */
static bool is_decided(const struct weir_transaction *transaction, const struct weir_part *part)
{
    return is_unasked(transaction, part) && part->kind == WEIR_PART_ENGINE && weir_part_is_to_charge(transaction, part);
}

static bool any(const struct weir_transaction *transaction,
                bool (*is)(const struct weir_transaction *transaction, const struct weir_part *part))
{
    for (size_t i = 0; i < transaction->count; i++) {
        if (is(transaction, &transaction->parts[i]))
            return true;
    }
    return false;
}

/* The verb of the next batch, and whether a part belongs to it. */
static enum weir_remote_verb next_verb(const struct weir_transaction *transaction)
{
    if (gives_back(transaction))
        return transaction->verb == WEIR_TRANSACTION_FORGET ? WEIR_REMOTE_FORGET : WEIR_REMOTE_REFUND;
    return any(transaction, is_decided) ? WEIR_REMOTE_DECIDE : WEIR_REMOTE_PEEK;
}

static bool in_batch(const struct weir_transaction *transaction, const struct weir_part *part,
                     enum weir_remote_verb verb)
{
    return verb == WEIR_REMOTE_DECIDE ? is_decided(transaction, part) : is_unasked(transaction, part);
}

static void fail_batch(struct weir_transaction *transaction, enum weir_remote_verb verb, int status,
                       const struct weir_time *time)
{
    uint8_t batch[WEIR_CHARGES_MAX]; /* chosen first: one that refuses changes what the others are asked */
    size_t count = 0;
    for (size_t i = 0; i < transaction->count; i++) {
        if (in_batch(transaction, &transaction->parts[i], verb))
            batch[count++] = (uint8_t)i;
    }
    if (transaction->verb == WEIR_TRANSACTION_FORGET)
        transaction->error = status;
    for (size_t i = 0; i < count; i++) {
        if (gives_back(transaction))
            transaction->parts[batch[i]].answered = true;
        else
            weir_part_fail(transaction, &transaction->parts[batch[i]], status, time);
    }
}

/* ---- going on ---- */

/* The part whose host has to be asked next; count: none. */
static size_t next_hosted(const struct weir_transaction *transaction)
{
    size_t i = 0;
    while (i < transaction->count &&
           (transaction->parts[i].answered || transaction->parts[i].looks ||
            (transaction->parts[i].kind != WEIR_PART_HOSTED && transaction->parts[i].kind != WEIR_PART_GOSSIP)))
        i++;
    return i;
}

static enum stage go_on(struct weir_transaction *transaction, const struct weir_time *time)
{
    if (!gives_back(transaction)) {
        for (size_t i = 0; i < transaction->count; i++) {
            if (transaction->parts[i].limit->undecidable && !transaction->parts[i].answered)
                weir_part_fail(transaction, &transaction->parts[i], WEIR_EDOWN, time);
        }
        for (size_t i; (i = next_hosted(transaction)) < transaction->count;) {
            if (weir_part_reserve(transaction, &transaction->parts[i], time) == WEIR_PART_WAITS)
                return STAGE_WAITS;
        }
        if (!transaction->error)
            weir_parts_decide_here(transaction, time);
    }
    return !transaction->error && any(transaction, is_unasked) ? STAGE_ENGINE : STAGE_DONE;
}

/* It may not wait: on_failure answers, at once. */
static enum stage give_up(struct weir_transaction *transaction, enum stage stage, const struct weir_time *time)
{
    while (stage != STAGE_DONE) {
        if (stage == STAGE_WAITS)
            weir_part_fail(transaction, &transaction->parts[next_hosted(transaction)], WEIR_EDOWN, time);
        else
            fail_batch(transaction, next_verb(transaction), WEIR_EDOWN, time);
        stage = go_on(transaction, time);
    }
    return stage;
}

/* ---- the end ---- */

/* All parts have answered: what is reserved is charged, or goes back. A commit may come too late, and refuses. */
static void conclude(struct weir_transaction *transaction, const struct weir_time *time)
{
    if (gives_back(transaction))
        return;
    for (size_t i = 0; i < transaction->count; i++) {
        if (weir_part_is_to_charge(transaction, &transaction->parts[i]))
            weir_part_commit(transaction, &transaction->parts[i], time);
    }
    for (size_t i = 0; i < transaction->count; i++) {
        if (!weir_part_is_to_charge(transaction, &transaction->parts[i]))
            weir_part_undo(transaction, &transaction->parts[i], time);
    }
    transaction->of->ops->settled(transaction->of->context, transaction, time);
}

struct weir_decision weir_transaction_decision(const struct weir_transaction *transaction)
{
    struct weir_combining combining = weir_combine_begin(transaction->count);
    for (size_t i = 0; i < transaction->count; i++)
        weir_combine(&combining, i, &transaction->parts[i].verdict);
    return weir_combine_end(&combining);
}

void weir_transaction_end(struct weir_transaction *transaction)
{
    struct weir_transactions *of = transaction->of;
    weir_assert(of->under_way > 0 && of->under_way_of[transaction->reloads % 2] > 0);
    of->under_way--;
    of->under_way_of[transaction->reloads % 2]--;
    of->ops->ended(of->context, transaction);
    free(transaction->ops);
    free(transaction);
}

static void finish(struct weir_transaction *transaction, const struct weir_time *time)
{
    conclude(transaction, time);
    if (transaction->done)
        transaction->done(transaction, transaction->context);
    else
        weir_transaction_end(transaction);
}

/* ---- waiting ---- */

static struct weir_time now(const struct weir_transaction *transaction)
{
    return transaction->of->ops->now(transaction->of->context);
}

static int timer_start(struct weir_transaction *transaction, uint64_t due_ns)
{
    return transaction->of->ops->timer_start(transaction->of->context, &transaction->timer, due_ns);
}

static void proceed(struct weir_transaction *transaction, const struct weir_time *time);

static void on_ready(struct weir_share_waiter *waiter, int status)
{
    struct weir_transaction *transaction = weir_container(waiter, struct weir_transaction, waiter);
    const struct weir_time time = now(transaction);
    transaction->of->ops->timer_stop(transaction->of->context, &transaction->timer);
    if (status)
        weir_part_fail(transaction, &transaction->parts[next_hosted(transaction)], status, &time);
    proceed(transaction, &time);
}

static void on_deadline(struct weir_timer *timer, const struct weir_time *time)
{
    struct weir_transaction *transaction = weir_container(timer, struct weir_transaction, timer);
    int status = weir_share_waiter_leave(&transaction->waiter);
    weir_part_fail(transaction, &transaction->parts[next_hosted(transaction)], status, time);
    proceed(transaction, time);
}

/* False: it cannot wait. */
static bool wait_for_host(struct weir_transaction *transaction, const struct weir_time *time)
{
    transaction->waiter.ready = on_ready;
    transaction->timer.on_due = on_deadline;
    if (time->now_ns >= transaction->deadline_ns || timer_start(transaction, transaction->deadline_ns))
        return false;
    weir_share_host_wait(transaction->of->host, &transaction->parts[next_hosted(transaction)].key,
                         &transaction->waiter);
    transaction->round_trips++;
    return true;
}

static void hear_batch(struct weir_transaction *transaction, enum weir_remote_verb verb, const struct weir_time *time)
{
    uint8_t batch[WEIR_CHARGES_MAX];
    size_t count = 0;
    bool charged = verb == WEIR_REMOTE_DECIDE && transaction->request.decision.admitted;
    for (size_t i = 0; i < transaction->count; i++) {
        if (!in_batch(transaction, &transaction->parts[i], verb))
            continue;
        transaction->parts[i].verdict = transaction->ops[count].verdict;
        transaction->parts[i].refunded = gives_back(transaction) ? transaction->ops[count].units : 0;
        batch[count++] = (uint8_t)i;
    }
    for (size_t i = 0; i < count; i++) {
        struct weir_part *part = &transaction->parts[batch[i]];
        part->answered = true;
        weir_fallback_answered(transaction->of->fallback, part->number);
        weir_assert(!charged || part->charged == WEIR_PART_NOTHING);
        if (!gives_back(transaction))
            weir_part_heard(transaction, part, time);
    }
}

static void on_another_try(struct weir_timer *timer, const struct weir_time *time)
{
    proceed(weir_container(timer, struct weir_transaction, timer), time);
}

/* Others change the key all the time: once more, a little later than they. False: no time is left. */
static bool try_again(struct weir_transaction *transaction, const struct weir_time *time)
{
    uint64_t spread_ns = time->now_ns * UINT64_C(0x9e3779b97f4a7c15) >> BUSY_SPREAD_SHIFT;
    transaction->timer.on_due = on_another_try;
    return time->now_ns + spread_ns < transaction->deadline_ns &&
           timer_start(transaction, time->now_ns + spread_ns) == 0;
}

static void on_answer(struct weir_remote_request *request)
{
    struct weir_transaction *transaction = request->context;
    const struct weir_time time = now(transaction);
    const enum weir_remote_verb verb = request->verb;
    if (request->status == WEIR_EBUSY && try_again(transaction, &time))
        return;
    transaction->unknown = transaction->unknown || (request->status == WEIR_EUNKNOWN && verb == WEIR_REMOTE_DECIDE);
    if (request->status)
        fail_batch(transaction, verb, request->status, &time);
    else
        hear_batch(transaction, verb, &time);
    proceed(transaction, &time);
}

/* False: the engine cannot be asked. */
static bool ask_engine(struct weir_transaction *transaction, const struct weir_time *time)
{
    struct weir_remote *remote = transaction->of->remote;
    if (!transaction->ops)
        transaction->ops = calloc(transaction->count, sizeof(transaction->ops[0]));
    if (!remote || !transaction->ops || time->now_ns >= transaction->deadline_ns)
        return false;
    transaction->request = (struct weir_remote_request){ .verb = next_verb(transaction),
                                                         .ops = transaction->ops,
                                                         .deadline_ns = transaction->deadline_ns,
                                                         .done = on_answer,
                                                         .context = transaction };
    for (size_t i = 0; i < transaction->count; i++) {
        const struct weir_part *part = &transaction->parts[i];
        if (in_batch(transaction, part, transaction->request.verb))
            transaction->ops[transaction->request.count++] =
                (struct weir_remote_op){ .limit = part->limit->remote, .key = part->key, .units = part->charge.cost };
    }
    if (remote->ops->submit(remote, &transaction->request))
        return false;
    transaction->round_trips++;
    return true;
}

/* Begins to wait where it has to. */
static bool wait(struct weir_transaction *transaction, enum stage stage, const struct weir_time *time)
{
    return stage == STAGE_WAITS ? wait_for_host(transaction, time) : ask_engine(transaction, time);
}

static void proceed(struct weir_transaction *transaction, const struct weir_time *time)
{
    enum stage stage = go_on(transaction, time);
    if (stage != STAGE_DONE && wait(transaction, stage, time))
        return;
    (void)give_up(transaction, stage, time);
    finish(transaction, time);
}

void weir_transaction_abandon(struct weir_transaction *transaction)
{
    transaction->done = NULL;
    if (!transaction->waiter.queue)
        return; /* the engine is deciding, and will be heard */
    const struct weir_time time = now(transaction);
    (void)weir_share_waiter_leave(&transaction->waiter);
    transaction->of->ops->timer_stop(transaction->of->context, &transaction->timer);
    for (size_t i = 0; i < transaction->count; i++)
        weir_part_undo(transaction, &transaction->parts[i], &time);
    weir_transaction_end(transaction);
}

/* ---- the beginning ---- */

int weir_transactions_init(struct weir_transactions *transactions)
{
    weir_assert(transactions->ops && transactions->under_way == 0);
    size_t parts_size = WEIR_CHARGES_MAX * sizeof(transactions->scratch->parts[0]);
    transactions->scratch = malloc(sizeof(*transactions->scratch) + parts_size);
    return transactions->scratch ? 0 : WEIR_ENOMEM;
}

void weir_transactions_deinit(struct weir_transactions *transactions)
{
    weir_assert(transactions->under_way == 0);
    free(transactions->scratch);
}

struct weir_transaction *weir_transaction_begin(struct weir_transactions *transactions, enum weir_transaction_verb verb)
{
    struct weir_transaction *transaction = transactions->scratch;
    weir_assert(transactions->loop < transactions->loops);
    *transaction = (struct weir_transaction){
        .of = transactions, .reloads = transactions->reloads, .deadline_ns = WEIR_NEVER, .verb = verb
    };
    return transaction;
}

static enum weir_part_kind kind_of(const struct weir_shared_limit *limit)
{
    if (!limit->remote)
        return WEIR_PART_MEMORY;
    switch (limit->sharing) {
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

void weir_transaction_add(struct weir_transaction *transaction, const struct weir_shared_limit *limit, size_t number,
                          const struct weir_charge *charge, const struct weir_remote_key *key,
                          const struct weir_time *time)
{
    weir_assert(transaction->count < WEIR_CHARGES_MAX);
    struct weir_part *part = &transaction->parts[transaction->count++];
    part->limit = limit;
    part->number = number;
    part->charge = *charge;
    part->kind = kind_of(limit);
    part->charged = WEIR_PART_NOTHING;
    part->fell_back = part->answered = part->looks = false;
    part->refunded = 0;
    if (part->kind == WEIR_PART_MEMORY)
        return;
    part->key = *key;
    if (part->kind != WEIR_PART_GOSSIP)
        transaction->deadline_ns = weir_min_u64(transaction->deadline_ns,
                                                weir_add_sat(time->now_ns, limit->deadline_ns));
}

/* What is not at the engine is given back at once; gossip gives nothing back. */
static void give_back_here(struct weir_transaction *transaction, const struct weir_time *time)
{
    for (size_t i = 0; i < transaction->count; i++) {
        struct weir_part *part = &transaction->parts[i];
        part->verdict = (struct weir_verdict){ 0 };
        if (part->kind == WEIR_PART_MEMORY)
            (void)weir_limiter_refund(transaction->of->limiter, &part->charge, part->charge.cost, time,
                                      &part->refunded);
        part->answered = part->kind == WEIR_PART_MEMORY || part->kind == WEIR_PART_GOSSIP || part->limit->undecidable;
    }
}

/* Out of the loop's own memory; NULL: too many wait. */
static struct weir_transaction *keep(const struct weir_transaction *scratch)
{
    struct weir_transactions *of = scratch->of;
    size_t size = sizeof(*scratch) + scratch->count * sizeof(scratch->parts[0]);
    struct weir_transaction *transaction = of->under_way < WEIR_TRANSACTIONS_MAX ? malloc(size) : NULL;
    if (!transaction)
        return NULL;
    memcpy(transaction, scratch, size);
    of->under_way++;
    of->under_way_of[transaction->reloads % 2]++;
    return transaction;
}

struct weir_transaction *weir_transaction_run(struct weir_transaction *transaction, const struct weir_time *time)
{
    weir_assert(transaction == transaction->of->scratch);
    if (transaction->verb == WEIR_TRANSACTION_REFUND)
        give_back_here(transaction, time);
    enum stage stage = go_on(transaction, time);
    if (stage != STAGE_DONE) {
        struct weir_transaction *kept = keep(transaction);
        if (kept && wait(kept, stage, time))
            return kept;
        if (kept)
            weir_transaction_end(kept);
        (void)give_up(transaction, stage, time);
    }
    conclude(transaction, time);
    return NULL;
}
