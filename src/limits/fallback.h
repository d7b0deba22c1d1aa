/* SPDX-License-Identifier: Apache-2.0
 *
 * `on_failure: local`: what a node decides by its share of a limit while the engine behind it cannot answer.
 *
 * A share is a token bucket of the share's rate and capacity, whatever the limit's algorithm: an outage adds at most
 * the sum of the nodes' capacities plus their refill. An outage of a limit begins with its first fallback and ends when
 * the engine has answered since and no fallback was needed for WEIR_FALLBACK_CALM_NS. If the node had fallen back, or
 * was started, within the time that the share takes to fill, an outage begins with every key's share empty: so outages
 * that come and go, and processes that do, never add up.
 *
 * A reload may change a share during an outage: what a key has used stays used (WEIR_ON_CHANGE_KEEP), but more than the
 * capacity is not owed. Of what came back since the key was last charged the less counts, by the old share or the new.
 * Loops hear of a reload one after the other: `reloads` counts those that the asker has heard of, and where the key has
 * met a newer share than the asker's, that one decides.
 *
 * Bounds: `keys_max` keys; where a newcomer finds no place, the key that is fresh soonest of its set goes, which
 * forgives at most one share. Thread rule: any thread. */
#pragma once

#include <stddef.h>

#include "limits/remote.h"

#define WEIR_FALLBACK_CALM_NS WEIR_NS_PER_SECOND

struct weir_fallback;

/* `limits`: how many numbers of limits there are. `start_ns`: when the process started, as good as a fallback of each.
 * WEIR_ENOMEM. */
int weir_fallback_create(size_t limits, size_t keys_max, uint64_t start_ns, struct weir_fallback **ret_fallback);
void weir_fallback_destroy(struct weir_fallback *fallback); /* NULL is allowed */

/* The engine has answered for limit number `limit`. Cheap: called for every answer. */
void weir_fallback_answered(struct weir_fallback *fallback, size_t limit);

/* One decision by `share`; it is charged if admitted and not `peek`. `reloads`: how many the caller has heard of; where
 * the key has met a later one, its own share decides. WEIR_ERANGE: `share` is no limit. */
int weir_fallback_decide(struct weir_fallback *fallback, size_t limit, const struct weir_limit_spec *share,
                         uint64_t reloads, const struct weir_remote_key *key, uint64_t cost, bool peek, uint64_t now_ns,
                         struct weir_verdict *ret_verdict);

/* `on_failure: open` admitted a request: until the limit has filled once without, it has no bound. */
void weir_fallback_opened(struct weir_fallback *fallback, size_t limit, uint64_t now_ns);

/* Units by which fallbacks may have passed the limit `whole` within the last time in which it fills: what the shares
 * of all nodes hold, and what came back from the first of these fallbacks here to the last. WEIR_NEVER: no bound. */
uint64_t weir_fallback_overshoot(struct weir_fallback *fallback, size_t limit, const struct weir_limit_spec *whole,
                                 uint64_t now_ns);

/* Gives back what was charged for a request that was refused after all. */
void weir_fallback_refund(struct weir_fallback *fallback, const struct weir_limit_spec *share, uint64_t reloads,
                          const struct weir_remote_key *key, uint64_t units, uint64_t now_ns);
