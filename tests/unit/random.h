/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers for tests: SplitMix64 (Steele, Lea and Flood, 2014), the same stream for the same seed everywhere. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct test_random {
    uint64_t state;
};

static inline uint64_t test_random_u64(struct test_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 to bound - 1; 0 for a bound of 0 or 1. The bias is below 2^-64 * bound: nothing a test could see. */
static inline uint64_t test_random_below(struct test_random *random, uint64_t bound)
{
    __extension__ typedef unsigned __int128 u128;
    return (uint64_t)((u128)test_random_u64(random) * bound >> 64);
}

/* The seed of WEIR_SEED, or a fresh one; printed, so that a failure can be run again. */
static inline uint64_t test_random_seed(void)
{
    const char *asked = getenv("WEIR_SEED");
    uint64_t seed = asked ? strtoull(asked, NULL, 0) : (uint64_t)time(NULL) * UINT64_C(1000003) ^ (uint64_t)clock();
    printf("WEIR_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/* How often, by WEIR_TEST_EFFORT: a slice (under a sanitizer), as usual, or the full count. */
static inline uint64_t test_effort(uint64_t slice, uint64_t usual, uint64_t full)
{
    const char *effort = getenv("WEIR_TEST_EFFORT");
    if (!effort)
        return usual;
    return strcmp(effort, "short") == 0 ? slice : strcmp(effort, "soak") == 0 ? full : usual;
}
