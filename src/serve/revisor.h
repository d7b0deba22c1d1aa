/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps this node's knowledge of the newest definitions of limits (engine/revisions.h) and the engine's alike: asks
 * the engine for the heads of WEIR_REVISOR_BATCH of them every WEIR_REVISOR_PERIOD_NS, gets what is newer there, and
 * writes what is newer here. So up to 2,000 limits are looked at within a second; of more, each 2,000 take another.
 *
 * Thread rule: turn on the thread of the first loop, whose connection it uses; own on the server's; the counters from
 * any. */
#ifndef WEIR_SERVE_REVISOR_H
#define WEIR_SERVE_REVISOR_H

#include <stdatomic.h>

#include "engine/remote.h"
#include "engine/revisions.h"
#include "rules/config.h"

#define WEIR_REVISOR_BATCH 512
#define WEIR_REVISOR_PERIOD_NS (WEIR_NS_PER_SECOND / 5)

struct weir_revisor {
    struct weir_revisions *revisions;
    size_t next;              /* which limit is looked at next */
    size_t asking;            /* under way */
    uint64_t due_ns;          /* uv_hrtime */
    _Atomic uint64_t corrupt; /* what stood in the engine was not ours, and was left alone */
};

/* With the limits of the file that the node starts with. WEIR_ENOMEM. */
int weir_revisor_init(struct weir_revisor *revisor, const struct weir_config *config);
void weir_revisor_deinit(struct weir_revisor *revisor);

/* The limits of a file that was reloaded, which may be the newest now. Without memory for it those before count. */
void weir_revisor_own(struct weir_revisor *revisor, const struct weir_config *config);

void weir_revisor_turn(struct weir_revisor *revisor, struct weir_remote *remote, uint64_t now_ns);

#endif
