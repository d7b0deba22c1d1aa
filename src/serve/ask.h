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
 * A request under way keeps its setup alive (weir_loop_moved). One loop's thread only. */
#ifndef WEIR_SERVE_ASK_H
#define WEIR_SERVE_ASK_H

#include "limits/share_host.h"
#include "serve/decide.h"

#define WEIR_ASKS_MAX 8192                         /* under way per loop; one more falls back at once */
#define WEIR_ASK_RETRY_NS (1 * WEIR_NS_PER_SECOND) /* what a refusal by on_failure tells: try again then */

enum weir_part_kind {
    WEIR_PART_HERE,   /* this process's limiter */
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
    const struct weir_rule *rule;
    uint32_t slot; /* in the metrics: its setup may be an old one when it is counted */
    struct weir_charge charge;
    struct weir_remote_key key;
    struct weir_verdict verdict;
    enum weir_part_kind kind;
    enum weir_part_charge charged;
    enum weir_fallback_policy fallback;
    bool answered;
    bool looks;        /* hosted, but it is the engine that can show the numbers */
    uint64_t refunded; /* WEIR.REFUND */
};

struct weir_ask {
    struct weir_loop *loop;
    uint64_t setup_number; /* whose rules the parts point to */
    uint64_t begun_ns, deadline_ns;
    bool peek, refund;
    bool forget;            /* a refund of all, as it were: the keys become fresh */
    bool refused, never;    /* by a limit that counts; for good */
    int error;              /* of the limiter: the answer is an error */
    struct weir_cell *cell; /* that the rule of a CL.THROTTLE is part of; goes with the ask. NULL */
    struct weir_timer timer;
    struct weir_share_waiter waiter;
    struct weir_remote_request request;
    struct weir_remote_op *ops;                        /* of the parts, where they are asked */
    void (*done)(struct weir_ask *ask, void *context); /* NULL: the caller has gone */
    void *context;
    size_t count;
    struct weir_part parts[];
};

/* Decides outcome->match, or begins to: *ret_ask is NULL and the outcome is whole, or the answer comes later. */
int weir_ask_decide(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                    struct weir_outcome *outcome, struct weir_ask **ret_ask);

/* As weir_refund where a limit of `match` is shared. Of what is leased or batched the engine gives back; gossip gives
 * nothing back. */
void weir_ask_refund(struct weir_loop *loop, const struct weir_match *match, const struct weir_time *time,
                     uint64_t *ret_units, struct weir_ask **ret_ask);

/* The keys become fresh, all of them at the engine; for each whether it was there. Without the engine's answer an
 * error, here or as the outcome: they may be fresh or not. */
int weir_ask_forget(struct weir_loop *loop, const struct weir_match *match, const struct weir_time *time,
                    uint64_t *ret_found, struct weir_ask **ret_ask);

/* Who is told, once, never from within a call of the caller's. */
static inline void weir_ask_then(struct weir_ask *ask, void (*done)(struct weir_ask *ask, void *context), void *context)
{
    ask->done = done;
    ask->context = context;
}

/* In `done` or later: what came of it. An error as weir_limiter_decide. */
int weir_ask_outcome(const struct weir_ask *ask, struct weir_outcome *ret_outcome);

/* The caller has its answer and no longer looks at its rules; or it goes before (then nobody is told). What is only
 * reserved is given back; what the engine is deciding stands as it decides. */
void weir_ask_end(struct weir_ask *ask);
void weir_ask_abandon(struct weir_ask *ask);

/* ---- one part: ask_part.c ---- */

enum weir_part_step { WEIR_PART_DONE, WEIR_PART_WAITS };

/* Whether a charge of this part would stand as things are. */
bool weir_part_charges(const struct weir_ask *ask, const struct weir_part *part);
enum weir_part_step weir_part_reserve(struct weir_ask *ask, struct weir_part *part, const struct weir_time *time);
/* The engine failed it: its on_failure answers. WEIR_EBUSY is no failure: refused, to be asked again. */
void weir_part_fail(struct weir_ask *ask, struct weir_part *part, int status, const struct weir_time *time);
/* What it says has come: a refusal that counts undoes the others. */
void weir_part_told(struct weir_ask *ask, struct weir_part *part, const struct weir_time *time);
void weir_part_commit(struct weir_ask *ask, struct weir_part *part, const struct weir_time *time);
void weir_part_undo(struct weir_ask *ask, struct weir_part *part, const struct weir_time *time);
/* All limits of this process that are not yet answered. */
void weir_parts_decide_here(struct weir_ask *ask, const struct weir_time *time);

#endif
