/* SPDX-License-Identifier: Apache-2.0
 *
 * What one condition says of one value, by itself: for those who explain and warn. A request finds all conditions that
 * it satisfies at once (rules/match.c). Thread rule: pure functions. */
#pragma once

#include "rules/config.h"

/* `value` is NULL where the request lacks the attribute. A condition of one pattern has no terms. */
bool weir_condition_holds(struct weir_slice pattern, const struct weir_condition_values *terms,
                          const struct weir_slice *value);

/* Whether the condition, if it holds, names the value itself: an override for it is for exact values. */
bool weir_condition_is_exact(struct weir_slice pattern, const struct weir_condition_values *terms);

/* How closely a condition that is not exact looks: bytes that are not `*`; blocks above all patterns, the longer the
 * more. Of a list the least of its values that are not exact. */
uint64_t weir_condition_closeness(struct weir_slice pattern, const struct weir_condition_values *terms);

/* Whether no value satisfies both, as far as can be told; where it cannot, false. */
bool weir_conditions_conflict(const struct weir_condition *a, const struct weir_condition *b);
