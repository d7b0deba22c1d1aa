/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentinel: who is the primary. All sentinels are asked again and again, each for the failover it knows of (its
 * configuration epoch) and for the address it names, and the server that is named must itself say that it is a primary.
 *
 * - A higher epoch is followed at once, whoever tells of it: Redis gives each failover an epoch of its own.
 * - At one epoch the first address stays. The leader of a failover shows the new epoch beside the old address, in
 *   SENTINEL MASTER, until the last replica has been told, minutes maybe; only GET-MASTER-ADDR-BY-NAME is right then.
 *   It is asked for after the epoch, so that what is put together is never a new epoch and an old address.
 * - A lower epoch is that of a sentinel that has not heard; it will within seconds. Only if for UNBACKED_NS no sentinel
 *   has named our primary and epoch, and most of the sentinels that the settings name agree on another, then they are
 *   believed: they were made anew, or the failover came to nothing.
 * - The first time, all are heard first that answer within FIRST_NS. */
#pragma once

#include "limits/redis/server.h"

void weir_redis_sentinel_tick(struct weir_redis_engine *engine, uint64_t now_ns);
