/* SPDX-License-Identifier: Apache-2.0
 *
 * Durations counted in log-linear buckets: four to each power of two, from 256 ns to 17 s, so a bucket's bounds are at
 * most a quarter apart. One writer, any reader (observe/counter.h); histograms of several writers are added up. */
#pragma once

#include <stddef.h>

#include "observe/counter.h"

#define WEIR_HISTOGRAM_FIRST 8 /* the first bucket ends at 2^8 ns */
#define WEIR_HISTOGRAM_LAST 34 /* the last but one ends at 2^34 ns, the last has no end */
#define WEIR_HISTOGRAM_BUCKETS (4 * (WEIR_HISTOGRAM_LAST - WEIR_HISTOGRAM_FIRST) + 2)

struct weir_histogram {
    _Atomic uint64_t counts[WEIR_HISTOGRAM_BUCKETS];
    _Atomic uint64_t sum_ns;
};

/* The bucket that holds `value_ns`: the first whose bound is not below it. */
static inline size_t weir_histogram_bucket(uint64_t value_ns)
{
    if (value_ns <= (uint64_t)1 << WEIR_HISTOGRAM_FIRST)
        return 0;
    uint64_t below = value_ns - 1;
    unsigned power = 63 - (unsigned)__builtin_clzll(below);
    if (power >= WEIR_HISTOGRAM_LAST)
        return WEIR_HISTOGRAM_BUCKETS - 1;
    return 4 * (size_t)(power - WEIR_HISTOGRAM_FIRST) + (size_t)(below >> (power - 2) & 3) + 1;
}

/* The largest value that bucket holds; UINT64_MAX for the last. */
static inline uint64_t weir_histogram_bound_ns(size_t bucket)
{
    if (bucket + 1 >= WEIR_HISTOGRAM_BUCKETS)
        return UINT64_MAX;
    return (uint64_t)(4 + bucket % 4) << (WEIR_HISTOGRAM_FIRST - 2 + bucket / 4);
}

/* `count` events that took so long each. */
static inline void weir_histogram_add(struct weir_histogram *histogram, uint64_t value_ns, uint64_t count)
{
    weir_count(&histogram->counts[weir_histogram_bucket(value_ns)], count);
    weir_count(&histogram->sum_ns, value_ns * count);
}
