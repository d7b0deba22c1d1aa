/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of a rollout as a text: the rules as they stand, and beside the settings of each limit that changes the new
 * ones for a share of its keys (rules/rollout.h). The text stays the one that people wrote, but for the lines that
 * this puts in, changes and takes out; what came of it is read again and compared, so that no other limit is touched.
 *
 * Thread rule: pure functions. */
#pragma once

#include "rules/config.h"

/* `base`: the rules as they stand, perhaps with rollouts that an earlier step put in. `target`: as they are to be at
 * last; it differs from base in rate, burst and mode of limits alone, and has no rollouts. With WEIR_ROLLOUT_ALL the
 * text is the target itself. `config` names the store. *ret_text is from malloc, with a NUL behind it. WEIR_EINVAL and
 * others of weir_config_with_rules: the faults say why not, with places in the target's text. WEIR_ENOMEM. */
int weir_rollout_text(const struct weir_config *config, struct weir_slice base, struct weir_slice target,
                      uint32_t share, char **ret_text, size_t *ret_size, struct weir_config_faults *ret_faults);

/* Whether two texts say the same but for rollouts, layout and comments. */
bool weir_rollout_same_base(const struct weir_config *config, struct weir_slice one, struct weir_slice other);

/* Whether the rollouts in `text` are steps to `target`: they give what it gives to all. True where one of them is no
 * set of rules, which weir_rollout_text says. */
bool weir_rollout_leads_to(const struct weir_config *config, struct weir_slice text, struct weir_slice target);
