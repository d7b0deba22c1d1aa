/* SPDX-License-Identifier: Apache-2.0
 *
 * How a node keeps or shares one limit: what a request that meets it goes by (transaction.h). Compiled from a
 * configuration by rules/, or made for one request (CL.THROTTLE). */
#pragma once

#include "limits/remote.h"

enum weir_sharing {
    WEIR_SHARING_EXACT,   /* one atomic step at the engine; without an engine: in this process's memory */
    WEIR_SHARING_LEASED,  /* units taken in chunks in advance */
    WEIR_SHARING_BATCHED, /* decided here, settled every interval */
    WEIR_SHARING_SPLIT,   /* n / N for each node */
    WEIR_SHARING_GOSSIP,  /* nodes tell each other */
};

/* Who decides where the engine fails. */
enum weir_on_failure {
    WEIR_ON_FAILURE_LOCAL,  /* by this node's share of the limit */
    WEIR_ON_FAILURE_OPEN,   /* admitted */
    WEIR_ON_FAILURE_CLOSED, /* refused */
};

struct weir_shared_limit {
    const struct weir_remote_limit *remote; /* NULL: this process's limiter keeps it, for itself or as its share */
    struct weir_limit_spec spec;            /* that decides; split: this node's share */
    struct weir_limit_spec share; /* this node's, by which on_failure: local decides; all of it where N is 1 */
    enum weir_sharing sharing;
    enum weir_on_failure on_failure;
    bool undecidable; /* its newest definition is not understood here: on_failure decides */
    uint64_t slack;   /* batched, gossip: units of this node; else 0 */
    uint64_t interval_ns, chunk_ttl_ns, deadline_ns;
};
