/* SPDX-License-Identifier: Apache-2.0
 *
 * `sharing: batched`, a node's side of one key: decide here by what the engine said last and what was admitted here
 * since, and settle every interval.
 *
 * Bound: overshoot <= (N + crashes within p*b/n) * slack, once, not per period: units admitted here that the engine has
 * not confirmed, those under way included, never pass `slack`; settled ones are always charged. A request that does not
 * fit into the slack is decided by the engine (WAIT), which grants units to hold, as to a leased key. */
#pragma once

#include "core/limit/limit.h"
#include "core/share/share.h"

/* The longest that the engine holds what it grants: the pocket of a node that has died lies idle for so long. */
#define WEIR_BATCHED_HOLD_NS (2 * WEIR_NS_PER_SECOND)

struct weir_batched_options {
    struct weir_limit limit;
    uint64_t slack; /* of this node (a server gives each of its loops a part); 0 = every decision is the engine's */
    uint64_t interval_ns; /* 100 ms */
    uint64_t ttl_ns;      /* how long the engine remembers a stint that holds nothing: 60 s */
    uint64_t lost_ns; /* an ask not answered for so long is lost (the host may say so sooner: WEIR_SHARE_UNANSWERED) */
};

struct weir_batched {
    uint64_t stint, seq;
    uint64_t spent;       /* of this stint, settled or not */
    uint64_t known;       /* of it, what the engine has confirmed */
    uint64_t unsettled;   /* spent ahead of the engine, not confirmed; with `ahead` at most `slack` */
    uint64_t ahead;       /* set aside, to be spent ahead of the engine */
    uint64_t pocket;      /* granted by the engine, not spent */
    uint64_t reserved;    /* set aside out of the pocket */
    uint64_t dead;        /* of it, before a deadline that has passed: charged by the engine, never spent again */
    uint64_t deadline_ns; /* the pocket is worth nothing from here on */
    uint64_t sent_ns;     /* of the ask under way; 0 = none */
    uint64_t sent_spent, sent_unsettled, sent_want, sent_least;
    uint64_t waiting;                         /* units of those who came while the ask was under way, so far */
    uint64_t again;                           /* as many, when it was answered: they ask again */
    uint64_t refused_units, refused_until_ns; /* until then the engine is not asked for so many or more */
    uint64_t heard_ns;  /* when `last` was heard; 0 = never: nothing is known, the engine is asked */
    uint64_t valid_ns;  /* `last` says nothing from here on: its window may have ended */
    uint64_t settle_ns; /* when the next ask is due; 0 = nothing to say */
    uint64_t retry_ns;  /* an ask was lost: not before then, but then; 0 = none */
    uint64_t window;    /* as the last answer said */
    struct weir_share_answer last;
    bool leaving;
};

/* `stint`: WEIR_SHARE_STINT_BITS. */
void weir_batched_init(struct weir_batched *key, uint64_t stint);

/* The options' limit is another one now: what the engine last said of the old one says nothing, and it is asked. */
void weir_batched_follow(struct weir_batched *key);

void weir_batched_step(struct weir_batched *key, const struct weir_batched_options *options,
                       const struct weir_share_event *event, uint64_t now_ns, struct weir_share_effects *ret_effects);
