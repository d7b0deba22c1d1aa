/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts in texts for people: "1 limit", "2 limits". */
#pragma once

#include <stdint.h>

/* What follows a word that is counted: "" for one, else "s". */
static inline const char *weir_s(uint64_t count)
{
    return count == 1 ? "" : "s";
}
