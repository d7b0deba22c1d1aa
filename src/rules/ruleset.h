/* SPDX-License-Identifier: Apache-2.0
 *
 * A configuration's rules without a server: loaded, checked and compiled as a server would, on the smallest table. */
#pragma once

#include "rules/rules.h"

struct weir_ruleset {
    struct weir_config *config;
    struct weir_limiter *limiter;
    struct weir_rules *rules;
};

/* `file` NULL: the embedded example. `node`: which of its nodes this is (weir_config_be); NULL: as the file says, and
 * where it does not, the first. Any error of weir_config_load_telling, weir_config_be and weir_rules_create. */
int weir_ruleset_init(struct weir_ruleset *ret_ruleset, const char *file, const char *node,
                      struct weir_config_faults *ret_faults);
/* The same of a configuration that was read; it is taken over, also on failure. */
int weir_ruleset_of(struct weir_config *config, struct weir_ruleset *ret_ruleset,
                    struct weir_config_faults *ret_faults);
void weir_ruleset_deinit(struct weir_ruleset *ruleset); /* zeroed is fine */
