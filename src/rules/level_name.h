/* SPDX-License-Identifier: Apache-2.0
 *
 * The name of a level (docs/rules.md): in rules, in the log of exceptions, and in what nodes keep. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define WEIR_LEVELS_MAX 16 /* of one limit */
#define WEIR_LEVEL_NAME_MAX 32

static inline bool weir_level_name_valid(const char *name, size_t size)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (size < 1 || size > WEIR_LEVEL_NAME_MAX)
        return false;
    for (size_t i = 0; i < size; i++)
        if (name[i] == '\0' || !strchr(legal, name[i]))
            return false;
    return true;
}
