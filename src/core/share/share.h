/* SPDX-License-Identifier: Apache-2.0
 *
 * One limit over many nodes: the words that the sharing modes have in common. A node's side of one key is a state
 * machine (leased.h, batched.h); the engine's side of one key is the ledger (ledger.h). They talk in asks and answers.
 *
 *     weir_leased_step(&key, &options, &event, now_ns, &effects);
 *
 * Pure: no clock, no memory, no I/O. The host (the server, or the simulator) carries asks to the engine and answers
 * back, keeps the requests that wait, and calls step again when effects say so.
 *
 * A node's word about one key is idempotent. `stint` names one lifetime of the node's state for the key and is never
 * used again by anybody (a restart, or a second node of the same name, has other stints); within a stint `spent` is
 * cumulative and `seq` grows with each ask, so what is late, lost or repeated neither invents nor loses a unit. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "weir/limit.h"

/* A key's stints in one process: the host gives each key a number of which the lowest bits are 0, and the machine
 * counts them up. Whoever numbers keys must never give the same number twice, to no node. */
#define WEIR_SHARE_STINT_BITS 20

/* The longest ttl of an ask: a longer one counts as this. */
#define WEIR_SHARE_TTL_MAX_NS (60 * WEIR_NS_PER_SECOND)

/* Node to engine, about one key. */
struct weir_share_ask {
    uint64_t stint;  /* > 0 */
    uint64_t seq;    /* > 0; grows by at least one from ask to ask of a stint */
    uint64_t spent;  /* all units admitted in this stint up to now, which the engine must charge */
    uint64_t known;  /* of them, what answers have confirmed: an engine that has forgotten the stint charges the rest */
    uint64_t hold;   /* units the node keeps and may still spend; whatever else it was granted is given back */
    uint64_t want;   /* units more, to hold */
    uint64_t least;  /* of `want`: fewer are of no use (what the first request that waits lacks); 0 or 1: any */
    uint64_t ttl_ns; /* what is held is forfeited after so long, and the stint forgotten */
    uint64_t window; /* as the last answer said, 0 if none: what was spent in a window that has closed is not charged */
};

/* Engine to node. */
struct weir_share_answer {
    uint64_t stint;
    uint64_t seq;      /* of the ask */
    bool stale;        /* a later ask of this stint was heard before: nothing was done, the rest says nothing */
    uint64_t granted;  /* of `want`: held for the node from now on */
    uint64_t hold_ns;  /* what is held is forfeited after so long, and what this answer says is out of date: ttl_ns, or
                          less where a window ends before */
    uint64_t window;   /* > 0: names the fixed window that was open */
    uint64_t capacity; /* as the engine has it */
    uint64_t used;     /* units used or held by anybody, after this ask; above the capacity for a key in debt */
    uint64_t retry_after_ns; /* until `least` (or 1) more could be granted if nobody came; 0 if `want` was met */
    uint64_t reset_after_ns; /* until the state equals a fresh one */
    bool newer; /* the key goes by a newer definition of the limit than the node's, and what is granted and told here is
                   of that one. Leased: the node spends what it was granted. Batched: the engine decides, until the
                   node has that definition */
};

enum weir_share_event_kind {
    WEIR_SHARE_RESERVE, /* may `units` be spent? On YES they are set aside until COMMIT or CANCEL */
    WEIR_SHARE_COMMIT, /* `units` set aside are spent. NO: their deadline has passed, the request must not go on (a host
                           that commits within a tenth of the ttl, with clocks that go on, never hears it) */
    WEIR_SHARE_CANCEL, /* `units` set aside are not spent after all */
    WEIR_SHARE_HEARD,  /* `answer` has come, perhaps late or again */
    WEIR_SHARE_UNANSWERED, /* the ask `seq` will not be answered (deadline, connection, breaker) */
    WEIR_SHARE_TICK,       /* effects->wake_ns has come */
    WEIR_SHARE_LEAVE,      /* the node shuts down, or must forget this key: say what is owed, give back what is held */
};

struct weir_share_event {
    enum weir_share_event_kind kind;
    uint64_t units;
    uint64_t seq;
    bool undone; /* UNANSWERED: it is known that the engine has done nothing */
    const struct weir_share_answer *answer;
};

enum weir_share_say {
    WEIR_SHARE_NOTHING, /* not an answer to RESERVE or COMMIT */
    WEIR_SHARE_YES,
    WEIR_SHARE_NO,
    WEIR_SHARE_WAIT, /* the engine must say: RESERVE again after the next HEARD or UNANSWERED of this key */
};

struct weir_share_effects {
    enum weir_share_say say;
    /* With YES and NO: the numbers as this node knows them. NO: retry_after_ns > 0, or WEIR_NEVER. */
    struct weir_verdict verdict;
    bool send; /* carry `ask` to the engine now; at most one ask of a key is under way at a time */
    struct weir_share_ask ask;
    uint64_t wake_ns; /* TICK at this time (of now_ns) if nothing happens before; 0 = no need */
    bool idle;        /* nothing is held, owed or under way: the host may forget this key */
};
