/* SPDX-License-Identifier: Apache-2.0
 *
 * How one limit is shared over nodes: whether its mode can keep what the limit promises, with the engine and the nodes
 * that there are, and what about it is legal and yet hardly meant. */
#pragma once

#include "rules/decode.h"

extern const char *const weir_sharing_words[]; /* by enum weir_sharing */
extern const char *const weir_on_failure_words[];

/* Checks a limit that is complete, overrides included; `node` has the keys that were written. The sections engine,
 * cluster and cluster_secret were read before. Errors and warnings have their places. */
int weir_sharing_check(struct weir_decode *decode, const struct weir_yaml_node *node,
                       const struct weir_config_limit *limit);

/* What is to be said of the sections themselves, once all limits are there. */
int weir_sharing_warn(struct weir_decode *decode);
