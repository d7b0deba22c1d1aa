/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock engine that says on standard error when its store cannot be asked any more, and why, and when it can again.
 * Who asks for a lock is told DOWN without a reason. */
#ifndef WEIR_CLI_SERVE_WATCH_H
#define WEIR_CLI_SERVE_WATCH_H

#include "engine/lock/engine.h"

/* Takes over the engine and puts one before it that does the same. Out of memory: nothing is watched. */
void weir_cli_locks_watch(struct weir_lock_engine **engine);

#endif
