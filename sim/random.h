/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers of a run: SplitMix64 (Steele, Lea and Flood, 2014), the same stream for the same seed everywhere. */
#pragma once

#include <stdint.h>

#include "base/checked.h"

struct weir_sim_random {
    uint64_t state;
};

static inline uint64_t weir_sim_random_u64(struct weir_sim_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 to bound - 1; 0 for a bound of 0. */
static inline uint64_t weir_sim_random_below(struct weir_sim_random *random, uint64_t bound)
{
    return (uint64_t)((weir_u128)weir_sim_random_u64(random) * bound >> 64);
}

/* low to high, both included. */
static inline uint64_t weir_sim_random_in(struct weir_sim_random *random, uint64_t low, uint64_t high)
{
    return low + weir_sim_random_below(random, high - low + 1);
}

/* With a chance of so many in a million. */
static inline int weir_sim_random_chance(struct weir_sim_random *random, uint32_t ppm)
{
    return weir_sim_random_below(random, 1000000) < ppm;
}
