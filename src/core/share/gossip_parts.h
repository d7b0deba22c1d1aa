/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of gossip share: gossip.c (the node, its peers, the log), gossip_key.c (one key) and gossip_word.c
 * (what is told of it). */
#pragma once

#include "core/limit/algorithm.h"
#include "core/limit/ticks.h"
#include "core/share/gossip.h"

/* The sum over the others of the time unheard beyond W, up to now. */
uint64_t weir_gossip_unheard(const struct weir_gossip *node, const struct weir_gossip_limit *limit, uint64_t now_ns);

/* Somebody knows a start of our name with a later epoch. */
void weir_gossip_met_later(struct weir_gossip *node, uint64_t epoch);

/* Puts the key at the end of the log: it is news for everybody. */
void weir_gossip_touch(struct weir_gossip *node, struct weir_gossip_key *key);

/* Puts the key into the list of hot ones, or takes it out. */
void weir_gossip_heat(struct weir_gossip *node, struct weir_gossip_key *key, bool hot);

/* Brings everything of the key that changes with time up to now. */
void weir_gossip_age(const struct weir_gossip *node, struct weir_gossip_key *key, const struct weir_event *event);

/* `units` of the key were admitted, here or elsewhere. */
void weir_gossip_charge(struct weir_gossip_key *key, const struct weir_event *event, uint64_t units);

/* Restores H by what is acknowledged. */
void weir_gossip_restore(struct weir_gossip *node, struct weir_gossip_key *key);

/* ---- a key's measures ---- */

static inline bool is_bucket(const struct weir_gossip_key *key)
{
    return weir_limit_is_bucket(&key->limit->limit);
}

static inline bool is_counter(const struct weir_gossip_key *key)
{
    return key->limit->limit.algorithm == WEIR_SLIDING_COUNTER;
}

static inline uint64_t *mine(const struct weir_gossip *node, const struct weir_gossip_key *key)
{
    return &key->about[node->self].entry.count;
}

/* One unit in the measure of `spent`: p * N. In a nanosecond n of these come back. */
static inline weir_u128 unit(const struct weir_gossip *node, const struct weir_gossip_key *key)
{
    weir_assert(key->limit->period_ns > 0 && node->nodes > 0);
    return (weir_u128)key->limit->period_ns * node->nodes;
}

static inline void add(const struct weir_gossip_key *key, struct weir_state *state, const struct weir_event *event,
                       uint64_t units)
{
    if (units > 0)
        weir_algorithm_of(&key->limit->limit)->add(&key->limit->limit, state, event, units);
}

/* What all nodes may admit in `ns` of one node's share: n * ns / (pN) units. */
static inline uint64_t share_units(const struct weir_gossip *node, const struct weir_gossip_key *key, uint64_t ns)
{
    weir_u128 product = (weir_u128)key->limit->count * ns;
    weir_u128 one = unit(node, key), units;
    weir_assert(one > 0);
    units = product / one + (product % one != 0);
    return (uint64_t)(units < WEIR_COST_MAX ? units : WEIR_COST_MAX);
}

/* The same as a bucket's ticks, not rounded to units. */
static inline uint64_t share_ticks(const struct weir_gossip *node, const struct weir_gossip_key *key, uint64_t ns)
{
    const struct weir_limit *limit = &key->limit->limit;
    weir_u128 product = (weir_u128)limit->emission * key->limit->count * ns; /* < 2^70 * 2^56 */
    weir_u128 one = unit(node, key), ticks;
    weir_assert(one > 0);
    ticks = product / one + (product % one != 0);
    return (uint64_t)(ticks < WEIR_TICKS_DEBT_MAX ? ticks : WEIR_TICKS_DEBT_MAX);
}
