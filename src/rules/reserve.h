/* SPDX-License-Identifier: Apache-2.0
 *
 * What a limit with `cost: amount` says of reservations (docs/reservations.md). Thread rule: plain values. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_RESERVE_ATTRIBUTE "amount" /* whose value a reserve's amount is */
#define WEIR_RESERVE_SHARE_WHOLE 1000u  /* a share of it all */

enum weir_on_expiry {
    WEIR_ON_EXPIRY_RELEASE, /* what nobody settled is given back */
    WEIR_ON_EXPIRY_KEEP,    /* it stays charged */
};

struct weir_config_reserve {
    uint32_t max_share; /* an amount is cut to that many thousandths of the capacity; 0 = it is not cut */
    enum weir_on_expiry on_expiry;
    uint64_t ttl_max_ns;     /* 10 min; 1 s to 1 day */
    uint32_t estimate;       /* percent: the quantile that `amount: auto` is; 0 = there is none */
    uint64_t estimate_first; /* what it is while little is known */
};
