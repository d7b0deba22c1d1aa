/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions in `weir serve`: what is said of them at the start, and whether a reload has changed them. */
#pragma once

#include "base/siphash.h"
#include "rules/config.h"

/* "weir: sessions over 3 servers, users in memory", and a warning where tokens end with the process; nothing where
 * there are none. Without secrets. */
void weir_cli_sessions_print(const struct weir_config *config);

/* What a reload cannot change: all of it. */
void weir_cli_sessions_add(struct weir_siphash_state *state, const struct weir_config_sessions *sessions);
