/* SPDX-License-Identifier: Apache-2.0
 *
 * What a server waits for before it listens. Who came before the engine can be asked would be decided by on_failure,
 * though nothing has failed; who came before the other nodes were heard, as if every gossiped key were used up. So
 * nobody comes, for as long as those who are there take to answer. */
#pragma once

#include "serve/loop.h"

/* Until the engine has answered each loop, for its connect_timeout at most, and gossip is synced, for a second at most;
 * or until the server drains. `frozen`: in a take-over nobody decides meanwhile, and on_failure decided before: then an
 * engine that does not answer is not waited for longer than 250 ms. The loops have no threads yet: they, and the
 * server's own, run here, in turn. */
void weir_await_others(struct weir_common *common, uv_loop_t *server, const struct weir_setup *setup, bool frozen);
