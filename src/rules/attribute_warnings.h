/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of attributes that are hardly meant: a limit on what nobody sends never refuses. */
#pragma once

#include "rules/decode.h"

/* Of the whole configuration: names that differ only in case or in - and _; where /v1/auth is served, names that it
 * does not use or cannot make. WEIR_ENOMEM. */
int weir_attributes_check(struct weir_decode *decode);
