/* SPDX-License-Identifier: Apache-2.0
 *
 * Durations in ns, counted in buckets at most 1/32 of their value wide: percentiles of any number of samples in 16
 * KB. */
#pragma once

#include <stdint.h>

#define HISTOGRAM_STEPS 32
#define HISTOGRAM_BUCKETS (HISTOGRAM_STEPS * 60)

struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS]; /* zero-initialise */
    uint64_t total;
};

void histogram_add(struct histogram *histogram, uint64_t value);

/* The upper end of the bucket in which a share of `permyriad` / 10000 of all samples is reached; 0 if there is none. */
uint64_t histogram_percentile(const struct histogram *histogram, unsigned permyriad);
