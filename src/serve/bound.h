/* SPDX-License-Identifier: Apache-2.0
 *
 * The bound in force of a limit that nodes share: what its mode promises in calm, and what failures that this node saw
 * have added. They count for as long as the limit takes to fill. What only other nodes saw (their fallbacks; their
 * crashes, but with gossip) is not known here. */
#pragma once

#include "rules/rules.h"
#include "serve/loop.h"

/* Units to add to rule->terms.overshoot_max; WEIR_NEVER: there is no bound. `slot` is the rule's in the metrics; it is
 * looked at only where an engine or gossip keeps the limit. The loop's thread. */
uint64_t weir_bound_added(const struct weir_loop *loop, const struct weir_rule *rule, uint32_t slot, uint64_t now_ns);

/* The largest bound of limit number `index`, be it its own or an override's: units; WEIR_NEVER: there is none. */
uint64_t weir_bound_largest(const struct weir_loop *loop, size_t index, uint64_t now_ns, bool *ret_override);
