/* SPDX-License-Identifier: Apache-2.0
 *
 * `tokens:` of the section `auth:`. A secret is never part of a message. */
#pragma once

#include "rules/decode.h"

/* A reader for a field whose target is the struct weir_config. */
int weir_tokens_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target);
