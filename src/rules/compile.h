/* SPDX-License-Identifier: Apache-2.0
 *
 * From a configuration to the index of it: attributes and conditions get numbers, limits and overrides become entries
 * on the paths of their conditions. Touches no limiter. */
#pragma once

#include "rules/compiled.h"

/* `rules` is zeroed but for its arena, names and exacts, and is fit for weir_rules_destroy whatever comes back.
 * WEIR_ELIMIT, WEIR_ENOMEM. */
int weir_rules_compile(struct weir_rules *rules, const struct weir_config *config, struct weir_config_fault *ret_fault);
