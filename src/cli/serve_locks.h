/* SPDX-License-Identifier: Apache-2.0
 *
 * Which locks `weir serve` keeps: what the configuration, --locks or, without either, the state directory says. */
#pragma once

#include "locks/engine.h"
#include "rules/arena.h"
#include "rules/config.h"

/* Puts --locks (PATH, "off" or NULL: not given) into the configuration, or where that is the built-in example and there
 * is no flag, the state directory's locks.db, whose folder is made. 0 or an exit code, and ret_said says why. */
int weir_cli_locks_choose(struct weir_config *config, const char *flag, bool is_example, char *ret_said, size_t size);

/* Opens what was chosen. *ret_engine is NULL where there are no locks: none were chosen, or, where they are only the
 * example's (is_example), they cannot be had, which is a warning. */
int weir_cli_locks_open(const struct weir_config_locks *locks, bool is_example, struct weir_lock_engine **ret_engine);

/* A copy whose texts are in `arena`: a reload may destroy the configuration. False: there was no memory. */
bool weir_cli_locks_copy(const struct weir_config_locks *locks, struct weir_arena *arena,
                         struct weir_config_locks *ret_copy);

/* "weir: locks in sqlite at PATH"; nothing where there are none. Without secrets. */
void weir_cli_locks_print(const struct weir_config *config, const struct weir_lock_engine *engine);
