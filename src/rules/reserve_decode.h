/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a limit that are about reservations, from the tree to the value. */
#pragma once

#include "rules/decode.h"

weir_field_reader weir_reserve_share_decode;    /* uint32_t: thousandths */
weir_field_reader weir_reserve_expiry_decode;   /* enum weir_on_expiry */
weir_field_reader weir_reserve_estimate_decode; /* uint32_t: percent */

/* Whether the limit is one of which an amount is reserved. */
bool weir_reserve_is_of(const struct weir_config_limit *limit);

/* Of a limit that is complete but for its overrides; `node` has the keys that were written. */
int weir_reserve_check(struct weir_decode *decode, const struct weir_yaml_node *node,
                       const struct weir_config_limit *limit);
