/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of rules in a store may say for which nodes it is (`nodes: [a, b]`); without that it is for all. A node follows
 * the newest version that is for it. docs/rule-stores.md, "Some nodes first".
 *
 * Thread rule: values only. */
#pragma once

#include "rules/config.h"

/* Whether the text is for the node of this name. A text that is no set of rules is for everybody: who loads it finds
 * out what is wrong. WEIR_ENOMEM. */
int weir_rule_text_is_for(struct weir_slice text, const char *node, bool *ret_is);

/* What a version for some nodes alone must not do: change a limit that nodes share, for these decide it by one
 * definition. WEIR_EINVAL: the fault names the first such limit. */
int weir_rule_nodes_check(const struct weir_config *before, const struct weir_config *now,
                          struct weir_config_fault *ret_fault);
