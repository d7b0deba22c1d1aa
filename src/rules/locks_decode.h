/* SPDX-License-Identifier: Apache-2.0
 *
 * The section `locks:`: a reader for a field (rules/decode.h) whose target is the struct weir_config. */
#pragma once

#include "rules/decode.h"

weir_field_reader weir_locks_decode;
