/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the primary was, and when: so that it can be said how long ago it was where a standby is now, by one clock.
 * Bounded: what is older is kept more sparsely, so that a lag of hours is told by minutes. Pure. */
#pragma once

#include <stdint.h>

#define WEIR_LAG_SAMPLES_MAX 512

struct weir_lag {
    unsigned count;
    struct {
        uint64_t position;
        uint64_t first_ns, last_ns;  /* it was seen there from, to */
    } samples[WEIR_LAG_SAMPLES_MAX]; /* positions and times ascend */
};

/* The primary was at `position`. Times never fall; a position may, after a failover: what was beyond goes. */
void weir_lag_add(struct weir_lag *lag, uint64_t position, uint64_t at_ns);

/* How long before at_ns the primary was seen last where it had not passed `position` yet: at most one poll too long.
 * 0: it is not beyond. UINT64_MAX: so far back nothing is known. */
uint64_t weir_lag_of(const struct weir_lag *lag, uint64_t position, uint64_t at_ns);

/* Since when the primary has been seen beyond `position`; 0: never. */
uint64_t weir_lag_beyond_since(const struct weir_lag *lag, uint64_t position);
