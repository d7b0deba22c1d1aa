/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentinel: who is the primary. The sentinels are asked again and again; the answer of the latest failover
 * (its epoch) counts, and the server it names must itself say that it is a primary. */
#ifndef WEIR_ENGINE_REDIS_SENTINEL_H
#define WEIR_ENGINE_REDIS_SENTINEL_H

#include "engine/redis/server.h"

void weir_redis_sentinel_ask_soon(struct weir_redis_engine *engine, uint64_t in_ns);
void weir_redis_sentinel_tick(struct weir_redis_engine *engine, uint64_t now_ns);

#endif
