/* SPDX-License-Identifier: Apache-2.0
 *
 * Tries a set of rules on the last hour of this node (observe/past.h): what the same requests would have got. The real
 * limiter decides, by a rule set compiled from the text, at the times of the sample; beside it the rules that are in
 * force decide the same, which tells how far the sample can be trusted.
 *
 * What it decides: each limit by itself. What it does not know, it says: who would meet a limit that is new, or that
 * counts others than before.
 *
 * Bounds: the records of the sample, WEIR_REPLAY_TIME_NS, and two limiters of WEIR_REPLAY_MEMORY at most.
 *
 * Thread rule: any thread; blocks for as long as it takes. */
#pragma once

#include <jansson.h>
#include <stdatomic.h>

#include "observe/metrics.h"
#include "observe/past.h"
#include "rules/config.h"

#define WEIR_REPLAY_TIME_NS (5 * WEIR_NS_PER_SECOND)
#define WEIR_REPLAY_MEMORY ((size_t)32 << 20)

struct weir_replay_of {
    struct weir_past *past;
    struct weir_metrics *metrics;
    const struct weir_config *config; /* of the server, without rules */
    struct weir_slice in_force, text; /* two sets of rules */
    const atomic_bool *stop;          /* true: nobody waits for it any more */
    struct weir_time now;
};

/* The body of the answer. WEIR_EINVAL: the faults are of `text`. WEIR_ENOMEM. */
int weir_rules_replay(const struct weir_replay_of *of, json_t **ret_json, struct weir_config_faults *ret_faults);
