/* SPDX-License-Identifier: Apache-2.0
 *
 * Decimal digits into 64 bits: nothing else is a number, and what does not fit is WEIR_ERANGE. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "weir/error.h"

/* The digits at the cursor, which moves behind them. WEIR_EINVAL where there are none. */
int weir_number_scan(const char **cursor, uint64_t *ret_value);

/* All of `size` bytes, any bytes. WEIR_EINVAL, WEIR_ERANGE. */
int weir_number_parse(const char *text, size_t size, uint64_t *ret_value);
