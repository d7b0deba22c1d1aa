/* SPDX-License-Identifier: Apache-2.0
 *
 * `sharing: leased`, a node's side of one key: units are taken in chunks in advance and spent here without asking.
 *
 * Bound: overshoot 0. Under-use: what is held and not spent, and what was forfeited.
 * A chunk is spent only before sent + hold_ns - margin, by this node's clock, where `sent` is when the ask was sent
 * whose answer was heard last: the engine, which counts from later, still holds it for us then. After that a new stint
 * begins: the engine charges what it held for the old one.
 * An ask whose answer is lost, or comes too late to spend what it grants, is followed by another that gives back what
 * is not in the pocket. What may have been charged by then is counted as forfeited, even if it came back after all.
 * How much is asked for follows demand: about what is spent in a third of the ttl, at most a quarter of what remains;
 * and at least what those who wait need. A chunk is renewed in the background before it runs out. A renewal gives back
 * what a burst left beyond twice what is spent in a third of the ttl. When nobody asks for half a ttl, all of it is
 * given back. */
#pragma once

#include "core/share/share.h"

struct weir_leased_options {
    uint64_t capacity; /* of the limit: what costs more is never */
    uint64_t ttl_ns;   /* of a chunk: chunk_ttl, default 2 s; the margin is a tenth of what the engine grants of it */
    uint64_t lost_ns;  /* an ask not answered for so long is lost (the host may say so sooner: WEIR_SHARE_UNANSWERED) */
    uint64_t refused_ns; /* after a refusal the engine is not asked again before min(retry_after, this): 50 ms */
};

struct weir_leased {
    uint64_t stint, seq;
    uint64_t pocket;      /* may be spent here, reserved ones not included */
    uint64_t reserved;    /* set aside, neither spent nor in the pocket */
    uint64_t dead;        /* set aside before a deadline that has passed: charged by the engine, never spent again */
    uint64_t spent;       /* of this stint */
    uint64_t known;       /* of it, what the engine has confirmed */
    uint64_t deadline_ns; /* the pocket is worth nothing from here on; 0 = nothing is held */
    uint64_t sent_ns;     /* of the ask under way; 0 = none */
    uint64_t sent_spent, sent_want, sent_least;
    uint64_t sent_stint, sent_owed, sent_back; /* what it gave back out of the pocket */
    uint64_t sent_until_ns; /* until then the engine surely holds what this ask granted or, if it did not hear it, what
                               this ask gave back */
    uint64_t doubt, doubt_ns; /* units that it may hold and we do not, since an ask was lost; until then at least */
    uint64_t forfeited;       /* units in all that the engine charged though they were not spent, at most */
    uint64_t renew_ns;        /* when the chunk should be renewed */
    uint64_t retry_ns; /* an ask was lost: the engine may hold units that we do not know of; say so then. 0 = none */
    uint64_t waiting;  /* units that requests were told to wait for since the last ask */
    uint64_t again;    /* of them, those that waited when the last answer came: they ask again */
    uint64_t least;    /* what the first of them lacks beyond the pocket */
    uint64_t demand;   /* units asked for in the running interval */
    uint64_t rate;     /* units per interval, smoothed */
    uint64_t begun_ns; /* when the running interval began */
    uint64_t used_ns;  /* when a unit was last asked for */
    uint64_t refused_units, refused_until_ns; /* until then the engine is not asked for so many or more */
    uint64_t window;                          /* as the last answer said */
    struct weir_share_answer last;            /* numbers to show */
    uint64_t last_ns;
    bool leaving;
};

/* `stint`: WEIR_SHARE_STINT_BITS. */
void weir_leased_init(struct weir_leased *key, uint64_t stint);

void weir_leased_step(struct weir_leased *key, const struct weir_leased_options *options,
                      const struct weir_share_event *event, uint64_t now_ns, struct weir_share_effects *ret_effects);
