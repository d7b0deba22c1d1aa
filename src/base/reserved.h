/* SPDX-License-Identifier: Apache-2.0
 *
 * The words that public structs keep for later releases (docs/abi.md). A program that sets one was written for a later
 * weir, and means something that this one would not do. Asked by each function that takes such a struct. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_RESERVED_TEXT "must be 0: only a later release knows what it means"

static inline bool weir_reserved_used(const uint64_t *reserved, size_t size)
{
    uint64_t any = 0;
    for (size_t i = 0; i < size / sizeof *reserved; i++)
        any |= reserved[i];
    return any != 0;
}
