/* SPDX-License-Identifier: Apache-2.0
 *
 * `replaces` of a limit: where one of Envoy's questions meets it, with whichever of its descriptors, the limits that it
 * names are left out of the whole question. So an exception may be higher than what it excepts from. */
#pragma once

#include "rules/compiled.h"
#include "rules/decode.h"

/* The names, for a struct weir_config_limit. */
weir_field_reader weir_replaces_decode;

/* When all limits are there: each name is one of another limit. */
int weir_replaces_check(struct weir_decode *decode);

/* When all limits are compiled. What is named and is not there, for other nodes have newer definitions, is left out. */
int weir_replaces_compile(struct weir_rules *rules, const struct weir_config *config,
                          struct weir_config_fault *ret_fault);
