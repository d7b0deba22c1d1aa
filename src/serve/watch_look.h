/* SPDX-License-Identifier: Apache-2.0
 *
 * One look at all of a server, for the log: the engine and its servers, fallbacks, the other nodes, the store of locks,
 * the servers of sessions, the table. */
#pragma once

#include "serve/loop.h"
#include "serve/watch.h"

#define WEIR_WATCH_PERIOD_MS 250

/* Tells the watch what there is now. The server's own thread, while `setup` is in force. */
void weir_watch_server(struct weir_watch *watch, struct weir_common *common, const struct weir_setup *setup);
