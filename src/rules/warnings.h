/* SPDX-License-Identifier: Apache-2.0
 *
 * What in one limit is legal and yet hardly meant: a burst that lets more than a second's worth through at once, a
 * limit or an override that can never apply, a setting without effect. */
#pragma once

#include "rules/decode.h"

/* Adds the warnings and brings all that there are into the order of their place. WEIR_ENOMEM. */
int weir_warnings_find(struct weir_decode *decode);
