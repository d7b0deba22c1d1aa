/* SPDX-License-Identifier: Apache-2.0
 *
 * Log-linear buckets: values below 2 * STEPS have their own, then each power of two is cut into STEPS. */
#include "histogram.h"

#define STEPS_LOG2 5

void histogram_add(struct histogram *histogram, uint64_t value)
{
    unsigned shift = 0;
    if (value >= 2 * HISTOGRAM_STEPS) {
        shift = 63 - STEPS_LOG2 - (unsigned)__builtin_clzll(value);
    }
    histogram->counts[shift * HISTOGRAM_STEPS + (value >> shift)]++;
    histogram->total++;
}

uint64_t histogram_percentile(const struct histogram *histogram, unsigned permyriad)
{
    uint64_t wanted = (histogram->total * permyriad + 9999) / 10000;
    uint64_t seen = 0;
    for (uint64_t i = 0; i < HISTOGRAM_BUCKETS && wanted > 0; i++) {
        seen += histogram->counts[i];
        if (seen >= wanted) {
            uint64_t shift = i < 2 * HISTOGRAM_STEPS ? 0 : i / HISTOGRAM_STEPS - 1;
            return ((i - shift * HISTOGRAM_STEPS + 1) << shift) - 1;
        }
    }
    return 0;
}
