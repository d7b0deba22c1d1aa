/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps this node's knowledge of the newest definitions of limits (limits/revisions.h) and the engine's alike: asks
 * the engine for the heads of WEIR_REVISOR_BATCH of them every WEIR_REVISOR_PERIOD_NS, gets what is newer there, and
 * writes what is newer here. So up to 2,000 limits are looked at within a second; of more, each 2,000 take another.
 * Those of which the newest definition was never seen there come first.
 *
 * Thread rule: turn on the thread of the loop whose connection it uses; the counters from any. */
#pragma once

#include <stdatomic.h>

#include "limits/remote.h"
#include "limits/revisions.h"

#define WEIR_REVISOR_BATCH 512
#define WEIR_REVISOR_PERIOD_NS (WEIR_NS_PER_SECOND / 5)

struct weir_revisor {
    struct weir_revisions *revisions;
    size_t next;     /* which limit is looked at next */
    size_t met_next; /* of the rules, whose keys' numbers are looked at */
    size_t end_next; /* at the end: which may be told next */
    size_t asking;   /* under way */
    uint64_t due_ns; /* of the next turn that asks */
    uint64_t (*wall_ns)(void *context);
    void *context;
    _Atomic uint64_t corrupt; /* what stood in the engine was not ours, and was left alone */
    _Atomic uint64_t beyond;  /* numbers that keys say, and that are not passed */
};

/* What is due is done. */
void weir_revisor_turn(struct weir_revisor *revisor, struct weir_remote *remote, uint64_t now_ns);

/* At the end: what is newer here is written, if the engine can be asked; each is tried once. False: that is done. Else
 * it is to be called again, until the caller has no time left. */
bool weir_revisor_ends(struct weir_revisor *revisor, struct weir_remote *remote);

/* What the keys of the limit say is known to `revisions` from now on. */
void weir_revisor_met(struct weir_revisor *revisor, const struct weir_remote_limit *limit);
