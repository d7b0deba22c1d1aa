/* SPDX-License-Identifier: Apache-2.0
 *
 * The section `sessions:`: a reader for a field (rules/decode.h) whose target is the struct weir_config. */
#pragma once

#include "rules/decode.h"

int weir_sessions_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                         void *target);
