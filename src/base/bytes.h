/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as bytes, the biggest or the smallest first. */
#pragma once

#include <stdint.h>

/* Writes the lowest `size` bytes of the value; returns the end. */
static inline uint8_t *weir_big_put(uint8_t *at, uint64_t value, unsigned size)
{
    for (unsigned i = size; i-- > 0; value >>= 8)
        at[i] = (uint8_t)value;
    return at + size;
}

static inline uint64_t weir_big_get(const uint8_t *at, unsigned size)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++)
        value = value << 8 | at[i];
    return value;
}

static inline uint8_t *weir_little_put(uint8_t *at, uint64_t value, unsigned size)
{
    for (unsigned i = 0; i < size; i++, value >>= 8)
        at[i] = (uint8_t)value;
    return at + size;
}

static inline uint64_t weir_little_get(const uint8_t *at, unsigned size)
{
    uint64_t value = 0;
    while (size-- > 0)
        value = value << 8 | at[size];
    return value;
}
