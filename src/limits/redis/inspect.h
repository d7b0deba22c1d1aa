/* SPDX-License-Identifier: Apache-2.0
 *
 * What a server's operator should mend before a request meets it: rights that its user lacks, and keys that it evicts.
 *
 * Looked at once per connection and every few seconds. Each command that the engine uses anywhere is sent once for a
 * key that is never there, so that nothing changes, and what is answered with NOPERM is not allowed: a sliding log that
 * is asked for on Sunday is not the first to find out. INFO tells of the memory: each key that was evicted is a loss,
 * for it comes back as a fresh one. Keys of others that share the server cannot be told from ours, and count too. */
#pragma once

#include "limits/redis/server.h"

void weir_redis_inspect(struct weir_redis_server *server); /* when it is ready */
void weir_redis_inspect_tick(struct weir_redis_server *server, uint64_t now_ns);
bool weir_redis_may_decide(const struct weir_redis_server *server); /* as far as was seen: it has the rights */
