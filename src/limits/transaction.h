/* SPDX-License-Identifier: Apache-2.0
 *
 * One request that meets limits shared with other nodes: it may take round trips to the engine, and is admitted under
 * all its limits or charged under none.
 *
 * Reserve, then commit, in this order: what is held or known here (leased, batched, gossip), which may have to wait for
 * the engine; the limits of this process, in one step; and last, in one step, those that the engine decides. Whatever
 * refuses undoes what came before it, and the rest is only looked at, so that the answer has each limit's numbers.
 * Meanwhile what is reserved is not there for others: they may be refused for it, never admitted without a charge.
 *
 * When the engine fails a limit, that limit's on_failure decides: never because the engine said no.
 *
 * Thread rule: one loop's thread only, for all of its transactions. */
#pragma once

#include "limits/fallback.h"
#include "limits/gossip_host.h"
#include "limits/share_host.h"
#include "limits/shared_limit.h"
#include "limits/timer.h"
#include "weir/limiter.h"

#define WEIR_TRANSACTIONS_MAX 8192                         /* under way per loop; one more falls back at once */
#define WEIR_TRANSACTION_RETRY_NS (1 * WEIR_NS_PER_SECOND) /* what a refusal by on_failure tells: try again then */

struct weir_transaction;

/* ---- of one loop ---- */

struct weir_transactions_ops {
    struct weir_time (*now)(void *context);
    int (*timer_start)(void *context, struct weir_timer *timer, uint64_t due_ns); /* WEIR_ENOMEM */
    void (*timer_stop)(void *context, struct weir_timer *timer);
    /* All parts have answered, and what they charge is charged, at `time`: for the metrics. Not told of a refund. */
    void (*settled)(void *context, const struct weir_transaction *transaction, const struct weir_time *time);
    /* One that waited has ended, and its memory is about to go; under_way does not count it any more. */
    void (*ended)(void *context, struct weir_transaction *transaction);
};

struct weir_transactions {
    struct weir_limiter *limiter;
    struct weir_remote *remote;      /* NULL: no engine */
    struct weir_share_host *host;    /* NULL: no engine */
    struct weir_gossip_host *gossip; /* NULL: no limit is gossiped */
    struct weir_fallback *fallback;
    uint32_t loops, loop; /* of a node's slack each loop has its part */
    uint64_t reloads;     /* that this loop has heard of: limits of one that is under way live as long as it */
    const struct weir_transactions_ops *ops;
    void *context;
    struct weir_transaction *scratch; /* most end there */
    size_t under_way;
    size_t under_way_of[2]; /* begun after an even and an odd number of reloads */
};

/* The caller has filled in the rest, and sees to it that `gossip`, `loops` and `reloads` are right whenever one begins.
 * WEIR_ENOMEM. */
int weir_transactions_init(struct weir_transactions *transactions);
void weir_transactions_deinit(struct weir_transactions *transactions); /* none is under way */

/* ---- one of them ---- */

enum weir_part_kind {
    WEIR_PART_MEMORY, /* this process's limiter */
    WEIR_PART_HOSTED, /* leased, batched */
    WEIR_PART_GOSSIP,
    WEIR_PART_ENGINE, /* exact: each decision is the engine's */
};

enum weir_part_charge {
    WEIR_PART_NOTHING,
    WEIR_PART_RESERVED, /* hosted, gossip: until commit or cancel */
    WEIR_PART_CHARGED,
    WEIR_PART_LOCAL, /* by on_failure: local */
};

/* One limit of a request. */
struct weir_part {
    const struct weir_shared_limit *limit;
    size_t number; /* the limit's, for the fallback and the caller's metrics */
    struct weir_charge charge;
    struct weir_remote_key key;
    struct weir_verdict verdict;
    enum weir_part_kind kind;
    enum weir_part_charge charged;
    bool fell_back; /* its on_failure decided */
    bool answered;
    bool looks;        /* hosted, but it is the engine that can show the numbers */
    uint64_t refunded; /* by a refund; by a forget: 1 if the key was there */
};

enum weir_transaction_verb {
    WEIR_TRANSACTION_DECIDE,
    WEIR_TRANSACTION_PEEK,
    WEIR_TRANSACTION_REFUND,
    WEIR_TRANSACTION_FORGET
};

struct weir_transaction {
    struct weir_transactions *of;
    uint64_t reloads; /* heard of when it began */
    uint64_t deadline_ns;
    enum weir_transaction_verb verb;
    bool refused, never;  /* by a limit that counts; for good */
    bool unknown;         /* the engine may have charged without our hearing of it */
    uint32_t round_trips; /* to the engine, that it has waited for */
    int error;            /* of the limiter, or of a forget */
    void *attached;       /* the caller's, who sees it again in ops->ended */
    void *labels;         /* the same: what its keys are called */
    struct weir_timer timer;
    struct weir_share_waiter waiter;
    struct weir_remote_request request;
    struct weir_remote_op *ops;                                        /* of the parts, where the engine is asked */
    void (*done)(struct weir_transaction *transaction, void *context); /* NULL: the caller has gone */
    void *context;
    size_t count;
    struct weir_part parts[];
};

/* In the loop's scratch: add its limits, then run it. */
struct weir_transaction *weir_transaction_begin(struct weir_transactions *transactions,
                                                enum weir_transaction_verb verb);
/* `charge` is the limiter's where limit->remote is NULL, else `key` says whose. At most WEIR_CHARGES_MAX. */
void weir_transaction_add(struct weir_transaction *transaction, const struct weir_shared_limit *limit, size_t number,
                          const struct weir_charge *charge, const struct weir_remote_key *key,
                          const struct weir_time *time);
/* NULL: it has ended, and the scratch shows what came of it until the next one begins. Else it is under way, elsewhere
 * in memory: weir_transaction_then, and end or abandon. */
struct weir_transaction *weir_transaction_run(struct weir_transaction *transaction, const struct weir_time *time);

/* Who is told, once, never from within a call of the caller's. */
static inline void weir_transaction_then(struct weir_transaction *transaction,
                                         void (*done)(struct weir_transaction *transaction, void *context),
                                         void *context)
{
    transaction->done = done;
    transaction->context = context;
}

/* As weir_limiter_decide says it, of parts[]. */
struct weir_decision weir_transaction_decision(const struct weir_transaction *transaction);

/* The caller has its answer and no longer looks at the limits; or it goes before (then nobody is told). What is only
 * reserved is given back; what the engine is deciding stands as it decides. */
void weir_transaction_end(struct weir_transaction *transaction);
void weir_transaction_abandon(struct weir_transaction *transaction);

/* Gives back what a charge of this process's limiter took, whose answer will never be heard. */
void weir_charge_undo(struct weir_limiter *limiter, enum weir_algorithm algorithm, const struct weir_charge *charge,
                      uint64_t ticket, const struct weir_time *time);

/* ---- one part: transaction_part.c ---- */

enum weir_part_step { WEIR_PART_DONE, WEIR_PART_WAITS };

/* Whether a charge of this part would stand as things are. */
bool weir_part_is_to_charge(const struct weir_transaction *transaction, const struct weir_part *part);
enum weir_part_step weir_part_reserve(struct weir_transaction *transaction, struct weir_part *part,
                                      const struct weir_time *time);
/* The engine failed it: its on_failure answers. WEIR_EBUSY is no failure: refused, to be asked again. */
void weir_part_fail(struct weir_transaction *transaction, struct weir_part *part, int status,
                    const struct weir_time *time);
/* What it says has come: a refusal that counts undoes the others. */
void weir_part_heard(struct weir_transaction *transaction, struct weir_part *part, const struct weir_time *time);
void weir_part_commit(struct weir_transaction *transaction, struct weir_part *part, const struct weir_time *time);
void weir_part_undo(struct weir_transaction *transaction, struct weir_part *part, const struct weir_time *time);
/* All limits of this process that are not yet answered. */
void weir_parts_decide_here(struct weir_transaction *transaction, const struct weir_time *time);
