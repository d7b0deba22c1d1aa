/* SPDX-License-Identifier: Apache-2.0
 *
 * `tokens:` of the section `auth:`. A secret is never part of a message. */
#ifndef WEIR_RULES_TOKEN_DECODE_H
#define WEIR_RULES_TOKEN_DECODE_H

#include "rules/decode.h"

/* A reader for a field whose target is the struct weir_config. */
int weir_tokens_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target);

#endif
