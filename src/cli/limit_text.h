/* SPDX-License-Identifier: Apache-2.0
 *
 * How nodes share a limit, in words and as JSON, with what that is worth in units. */
#pragma once

#include <jansson.h>

#include "rules/rules.h"

/* "batched every 100ms, slack 10 on each of 3 nodes: overshoot at most N*slack = 30, ..."; empty for a limit that this
 * process alone keeps and no other node has. Cut to fit. */
void weir_sharing_format(const struct weir_rule *rule, const struct weir_config *config, char *buffer, size_t size);

/* {"mode":"batched","nodes":3,"node":"a","share":{"rate":"34/min","capacity":7},"slack":10,"overshoot_max":30,...};
 * overshoot_max is null where there is no bound. NULL without memory. */
json_t *weir_sharing_json(const struct weir_rule *rule, const struct weir_config *config);

/* Both of limit number `index`, where an override may have the larger number: then that is told, and of which line. */
void weir_limit_format(const struct weir_rules *rules, size_t index, const struct weir_config *config, char *buffer,
                       size_t size);
json_t *weir_limit_json(const struct weir_rules *rules, size_t index, const struct weir_config *config);

/* {"percent":12.5,"mode":"enforce","rate":"200/min","capacity":40} of a rollout. NULL without memory. */
json_t *weir_rollout_json(const struct weir_rule *rule);
