/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two halves of gossip share: gossip.c (the node, its peers, the log) and gossip_key.c (one key). */
#ifndef WEIR_CORE_SHARE_GOSSIP_PARTS_H
#define WEIR_CORE_SHARE_GOSSIP_PARTS_H

#include "core/share/gossip.h"

/* The sum over the others of the time unheard beyond W, up to now. */
uint64_t weir_gossip_unheard(const struct weir_gossip *node, const struct weir_gossip_limit *limit, uint64_t now_ns);

/* Puts the key at the end of the log: it is news for everybody. */
void weir_gossip_touch(struct weir_gossip *node, struct weir_gossip_key *key);

/* Puts the key into the list of hot ones, or takes it out. */
void weir_gossip_heat(struct weir_gossip *node, struct weir_gossip_key *key, bool hot);

#endif
