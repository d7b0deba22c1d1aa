/* SPDX-License-Identifier: Apache-2.0
 *
 * One element of `limits:` and its overrides, from the tree to the value. Everything about a limit that can be wrong is
 * said here, with the place of the key at fault. */
#pragma once

#include "rules/decode.h"

int weir_limit_decode(struct weir_decode *decode, const struct weir_yaml_node *node,
                      struct weir_config_limit *ret_limit);

/* Of `node`, the value of `overrides:`, for a limit that is complete but for them. */
int weir_overrides_decode(struct weir_decode *decode, const struct weir_yaml_node *node,
                          struct weir_config_limit *limit);

/* Of `node`, the value of `rollout:`, for a limit that is complete but for it: an override more. */
int weir_rollout_decode(struct weir_decode *decode, const struct weir_yaml_node *node, struct weir_config_limit *limit);

/* Of `node`, the value of `levels:`, for a limit that is complete but for these and a rollout: overrides more. */
int weir_levels_decode(struct weir_decode *decode, const struct weir_yaml_node *node, struct weir_config_limit *limit);

/* The conditions of `match:`, for a struct weir_config_limit. */
weir_field_reader weir_match_decode;

int weir_attribute_decode(struct weir_decode *decode, const struct weir_yaml_node *node, const char **ret_attribute);

/* An attribute and its value, pattern, block or list of these, folded and canonical, from a key of a mapping and its
 * value. */
int weir_condition_decode(struct weir_decode *decode, const struct weir_yaml_node *key,
                          struct weir_condition *ret_condition);

/* Drops the calendar where nothing is aligned to it, gives a concurrency limit its lease, and checks what holds for a
 * limit and for an override of it alike: `node` has the keys that were written. */
int weir_spec_decode_finish(struct weir_decode *decode, const struct weir_yaml_node *node, uint64_t lease_ns,
                            struct weir_limit_spec *spec);

/* COUNT/PERIOD, or a COUNT alone: its period is 0 until weir_spec_decode_finish. */
weir_field_reader weir_rate_decode; /* struct weir_limit_spec */

/* A key that makes sense with some settings only. */
struct weir_key_need {
    const char *key;
    bool fits;
    const char *needs; /* those settings, for people */
};

/* Refuses the first key that is written in `node` and does not fit. */
int weir_keys_need(struct weir_decode *decode, const struct weir_yaml_node *node, const struct weir_key_need *needs,
                   size_t count);

extern const char *const weir_mode_words[];
extern const char *const weir_missing_words[];
