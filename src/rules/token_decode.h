/* SPDX-License-Identifier: Apache-2.0
 *
 * `tokens:` of the section `auth:`. A secret is never part of a message. */
#pragma once

#include "rules/decode.h"

/* A reader for a field whose target is the struct weir_config. */
weir_field_reader weir_tokens_decode;
