/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger: the engine's side of one shared key. Every engine that stores keys for many nodes does exactly this. In
 * Redis a script decides what is plain, tested against this code operation by operation. Asks, and keys of which
 * somebody holds units, are computed by this code on the node that asked, and stored if nobody was faster
 * (limits/redis/script_core.c). The simulator uses it as it is.
 *
 * A ledger is a key's state (core/limit) plus what nodes hold: chunks of units taken in advance. What is held counts as
 * used. Only a node's own word returns units. What is held beyond its time is forfeited: it is charged as of its
 * deadline, as if the holder had spent it in its last moment, so it occupies capacity until it has refilled. `spent` is
 * always charged, below zero if need be. Hence, for every algorithm, what nodes admit by what they hold never passes
 * the limit, and what they admit ahead of `spent` passes it by that and not once more (docs/sharing-protocol.md). Of a
 * leaky bucket asks keep the amount only: a turn (delay_ns) is told by decide alone.
 *
 *     weir_ledger_decide   one exact decision       (sharing: exact)
 *     weir_ledger_ask      a node's ask, answered   (leased, batched)
 *
 * Fixed windows count what is held as soon as it is granted: a grant may be a window's first hit. A window that closes
 * takes what is held in it along: a hold is cut to the end of its window, and what is told later is not charged. */
#pragma once

#include "core/limit/limit.h"
#include "core/share/share.h"

/* That one key remembers. One more takes the place of one that holds nothing; if all hold, it is granted nothing, and
 * what it spent is charged. */
#define WEIR_LEDGER_STINTS_MAX 256
/* How long a stint whose hold was forfeited is remembered, so that late and repeated asks are known as such. */
#define WEIR_LEDGER_MEMORY_NS (10 * WEIR_NS_PER_SECOND)

struct weir_ledger_stint {
    uint64_t stint;
    uint64_t seq;      /* the newest heard */
    uint64_t spent;    /* charged so far */
    uint64_t held;     /* granted and not given back */
    uint64_t granted;  /* by the newest ask: a repeated one gets the same answer */
    uint64_t until_ns; /* what is held is forfeited; if nothing is, the stint is forgotten */
};

struct weir_ledger {
    struct weir_state state;
    uint64_t debt; /* the most units by which `spent` has passed the capacity since it was last within: so
                      that a key far ahead by debt is not taken for one of a clock that jumped */
    struct weir_ledger_stint *stints; /* the caller's, room for `stints_max`, in the order of `stint` */
    uint32_t stints_count, stints_max;
};

/* A key of a clock that came back becomes empty as of now, and its debt stays: returns whether it was one. Expire does
 * it first, itself. A log needs room for its capacity. */
bool weir_ledger_settle(const struct weir_limit *limit, struct weir_ledger *ledger, const struct weir_event *event);

/* Forfeits what is overdue at event->now_ns. Decide and ask do it first, themselves. A log needs room for it. */
void weir_ledger_expire(const struct weir_limit *limit, struct weir_ledger *ledger, const struct weir_event *event);

/* Units held by all. */
uint64_t weir_ledger_held(const struct weir_ledger *ledger);

/* Entries that a sliding log needs before expire, decide or ask (weir_log_move); 0 for a limit without a log. `units`:
 * the decision's cost, or what an ask owes. */
uint32_t weir_ledger_room(const struct weir_limit *limit, const struct weir_ledger *ledger,
                          const struct weir_event *event, uint64_t units);

/* The most units that an ask will charge: what it spent and the ledger does not know of. */
uint64_t weir_ledger_owed(const struct weir_ledger *ledger, const struct weir_share_ask *ask);

/* One exact decision of event->cost: judge, and charge if admitted and not `peek`. While units are held elsewhere,
 * retry_after is the wait until the holders could make room at the earliest. */
bool weir_ledger_decide(const struct weir_limit *limit, struct weir_ledger *ledger, const struct weir_event *event,
                        bool peek, struct weir_verdict *ret_verdict);

/* A node's ask. event->cost is not looked at. */
void weir_ledger_ask(const struct weir_limit *limit, struct weir_ledger *ledger, const struct weir_event *event,
                     const struct weir_share_ask *ask, struct weir_share_answer *ret_answer);
