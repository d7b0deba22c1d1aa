/* SPDX-License-Identifier: Apache-2.0
 *
 * Cluster: who has which slot. The map is read with CLUSTER SLOTS from a node that is ready, at the start and whenever
 * something says that it is old (MOVED, a node that broke), at most ten times a second; a MOVED is followed at once. */
#pragma once

#include "limits/redis/server.h"

void weir_redis_cluster_tick(struct weir_redis_engine *engine, uint64_t now_ns);
bool weir_redis_cluster_whole(const struct weir_redis_engine *engine); /* each slot has a primary that answers */

/* Takes "SLOT HOST:PORT" of a MOVED or ASK error of `from`: the server it names; NULL if it names none. */
struct weir_redis_server *weir_redis_cluster_named(struct weir_redis_server *from, const redisReply *reply,
                                                   uint16_t *ret_slot);
void weir_redis_cluster_moved(struct weir_redis_server *to, uint16_t slot);
