/* SPDX-License-Identifier: Apache-2.0
 *
 * `sharing: split`: whole units n/N for each node, the remainder to the lowest node numbers; the burst likewise. Also
 * what `on_failure: local` decides by. Bound: overshoot 0 while N is right. */
#pragma once

#include "weir/limit.h"

/* The share of node `index` of `nodes` (1 to 10,000). A share of nothing (count 0) admits nothing: the caller warns. */
struct weir_limit_spec weir_split_spec(const struct weir_limit_spec *spec, uint32_t nodes, uint32_t index);

/* ceil or floor of units / nodes, the remainder to the lowest. */
uint64_t weir_split_units(uint64_t units, uint32_t nodes, uint32_t index);

/* The default slack: max(1, n / (10 N)). */
uint64_t weir_split_slack(uint64_t count, uint32_t nodes);
