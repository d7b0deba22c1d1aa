/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree as text again, in one form whatever the layout and comments it was read from. Read anew it gives the same
 * tree, all its scalars in quotes. */
#pragma once

#include "rules/yaml_node.h"

/* In `arena`, with a NUL behind it. WEIR_ENOMEM. */
int weir_yaml_text(struct weir_arena *arena, const struct weir_yaml_node *node, struct weir_slice *ret_text);

/* A hash of that text: of two trees that differ only in layout and comments the same. */
uint64_t weir_yaml_hash(const struct weir_yaml_node *node);
