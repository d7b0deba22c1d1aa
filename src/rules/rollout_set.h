/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of rollout_text.h: a set of rules as values and as a tree, and what two of them say otherwise. */
#pragma once

#include "rules/yaml_node.h"

struct weir_rollout_item {
    const struct weir_config_limit *limit;
    const struct weir_yaml_node *node;
};

struct weir_rollout_set {
    struct weir_slice text;
    struct weir_config *config;
    struct weir_arena *arena;
    struct weir_rollout_item *items, *by_name; /* of the limits, in the order of the text; by name */
    size_t count;
};

/* Errors and faults of weir_config_with_rules. `text` must outlive it. */
int weir_rollout_set_init(struct weir_rollout_set *ret_set, const struct weir_config *config, struct weir_slice text,
                          struct weir_config_faults *ret_faults);
void weir_rollout_set_deinit(struct weir_rollout_set *set); /* zeroed is fine */

/* NULL: it has no limit of this name. */
const struct weir_rollout_item *weir_rollout_find(const struct weir_rollout_set *set, const char *name);

/* A key that two limits have otherwise, but for `rollout` and, with `settings`, rate, burst and mode; NULL: none. */
const char *weir_rollout_other_key(const struct weir_yaml_node *one, const struct weir_yaml_node *other, bool settings);

/* Whether two limits, or overrides, admit the same. */
bool weir_rollout_same_spec(const struct weir_limit_spec *one, const struct weir_limit_spec *other);

/* The settings of the limit's rollout; NULL: it has none. */
const struct weir_limit_spec *weir_rollout_spec(const struct weir_config_limit *limit);
