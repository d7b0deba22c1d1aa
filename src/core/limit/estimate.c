/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers below 16 have a bucket each; from there on 8 to 15 times a power of two do. */
#include "core/limit/estimate.h"

#include "base/checked.h"

/* By its four highest bits. */
static uint32_t bucket_of(uint64_t units)
{
    uint32_t shift = 0;
    while (units >> shift >= 2 * WEIR_ESTIMATE_STEPS)
        shift++;
    const uint32_t bucket = WEIR_ESTIMATE_STEPS * shift + (uint32_t)(units >> shift);
    weir_assert(bucket < WEIR_ESTIMATE_BUCKETS);
    return bucket;
}

/* The largest number in it. */
static uint64_t most_of(uint32_t bucket)
{
    const uint32_t shift = bucket < 2 * WEIR_ESTIMATE_STEPS ? 0 : bucket / WEIR_ESTIMATE_STEPS - 1;
    const uint64_t most = (((uint64_t)bucket - WEIR_ESTIMATE_STEPS * shift + 1) << shift) - 1;
    weir_assert(bucket_of(most) == bucket);
    return most;
}

static void halve(struct weir_estimate *estimate)
{
    estimate->sum = 0;
    for (uint32_t i = 0; i < WEIR_ESTIMATE_BUCKETS; i++) {
        estimate->counts[i] /= 2;
        estimate->sum += estimate->counts[i];
    }
    weir_assert(estimate->sum <= WEIR_ESTIMATE_FULL / 2);
}

void weir_estimate_tell(struct weir_estimate *estimate, uint64_t units)
{
    if (estimate->sum == WEIR_ESTIMATE_FULL)
        halve(estimate);
    estimate->counts[bucket_of(weir_min_u64(units, INT64_MAX))]++;
    estimate->sum++;
    estimate->told++;
    weir_assert(estimate->sum <= WEIR_ESTIMATE_FULL && estimate->told > 0);
}

uint64_t weir_estimate_quantile(const struct weir_estimate *estimate, uint32_t percent)
{
    uint64_t below = 0;
    uint32_t bucket = 0;
    weir_assert(percent >= 1 && percent <= 99);
    if (estimate->told < WEIR_ESTIMATE_KNOWN || estimate->sum == 0)
        return 0;
    for (; bucket < WEIR_ESTIMATE_BUCKETS; bucket++) {
        below += estimate->counts[bucket];
        if (100 * below >= (uint64_t)percent * estimate->sum)
            break;
    }
    weir_assert(below <= estimate->sum && bucket < WEIR_ESTIMATE_BUCKETS);
    return weir_max_u64(most_of(bucket), 1);
}
