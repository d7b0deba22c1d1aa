/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic that cannot wrap: saturating where a bound is the right answer, 128 bits where a product needs them. */
#pragma once

#include <stdint.h>

#include "base/assert.h"

__extension__ typedef unsigned __int128 weir_u128;

static inline uint64_t weir_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t weir_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* a + b, at most UINT64_MAX. */
static inline uint64_t weir_add_sat(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* a - b, at least 0. */
static inline uint64_t weir_sub_sat(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* a * b, at most UINT64_MAX. */
static inline uint64_t weir_mul_sat(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* a / b, rounded up. */
static inline uint64_t weir_div_ceil(uint64_t a, uint64_t b)
{
    weir_assert(b > 0);
    return a / b + (a % b != 0);
}

/* floor(a * b / c), at most UINT64_MAX. */
static inline uint64_t weir_mul_div(uint64_t a, uint64_t b, uint64_t c)
{
    weir_assert(c > 0);
    weir_u128 q = (weir_u128)a * b / c;
    return q > UINT64_MAX ? UINT64_MAX : (uint64_t)q;
}

/* ceil(a * b / c), at most UINT64_MAX. */
static inline uint64_t weir_mul_div_ceil(uint64_t a, uint64_t b, uint64_t c)
{
    weir_assert(c > 0);
    weir_u128 product = (weir_u128)a * b;
    weir_u128 q = product / c + (product % c != 0);
    return q > UINT64_MAX ? UINT64_MAX : (uint64_t)q;
}
