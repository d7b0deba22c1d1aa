/* SPDX-License-Identifier: Apache-2.0
 *
 * A number that another program has written. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Digits only, to the end: strtoull takes more. One that is too long reads as UINT64_MAX. */
static inline bool weir_decimal_read(const char *text, uint64_t *ret_number)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    *ret_number = strtoull(text, &end, 10);
    return *end == '\0';
}
