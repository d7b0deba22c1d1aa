/* SPDX-License-Identifier: Apache-2.0
 *
 * core/limit/estimate: a quantile of what was told lately, in constant space: a histogram with eight steps to each
 * power of two, so that what it says is at most an eighth too high and never too low. All that is in it is halved from
 * time to time, so that what was told long ago fades. Thread rule: plain values. */
#pragma once

#include <stdint.h>

#define WEIR_ESTIMATE_STEPS 8
#define WEIR_ESTIMATE_BUCKETS (WEIR_ESTIMATE_STEPS * 62)
#define WEIR_ESTIMATE_KNOWN 20   /* so many have been told: before, little is known */
#define WEIR_ESTIMATE_FULL 2048u /* then all is halved */

/* Zero-initialise. */
struct weir_estimate {
    uint64_t told;
    uint32_t sum;
    uint16_t counts[WEIR_ESTIMATE_BUCKETS];
};

void weir_estimate_tell(struct weir_estimate *estimate, uint64_t units);

/* At least so many hundredths of what was told lately is no more; 0: little is known. `percent` is 1 to 99. */
uint64_t weir_estimate_quantile(const struct weir_estimate *estimate, uint32_t percent);
