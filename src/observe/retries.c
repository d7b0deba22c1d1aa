/* SPDX-License-Identifier: Apache-2.0
 *
 * A place is 24 bits of the key's hash and 40 of the time told, in steps of 2^20 ns: 36 years of them. Called by
 * top.c. */
#include "observe/retries.h"

#include "base/checked.h"
#include "weir/limit.h"

#define STEP_SHIFT 20
#define TIME_BITS 40
#define TIME_MAX (((uint64_t)1 << TIME_BITS) - 1)

static size_t pair_of(uint64_t hash)
{
    return hash & (WEIR_RETRIES_PLACES - 1) & ~(size_t)1;
}

void weir_retries_prefetch(const struct weir_retries *retries, uint64_t hash)
{
    __builtin_prefetch(&retries->places[pair_of(hash)], 1);
}

bool weir_retries_note(struct weir_retries *retries, uint64_t hash, uint64_t now_ns, uint64_t retry_after_ns)
{
    _Atomic uint64_t *pair = &retries->places[pair_of(hash)];
    const uint64_t tag = hash & ~TIME_MAX;
    const uint64_t words[2] = { atomic_load_explicit(&pair[0], memory_order_relaxed),
                                atomic_load_explicit(&pair[1], memory_order_relaxed) };
    bool known = true;
    unsigned at;
    if ((words[0] & ~TIME_MAX) == tag) {
        at = 0;
    } else if ((words[1] & ~TIME_MAX) == tag) {
        at = 1;
    } else {
        known = false;
        at = (words[1] & TIME_MAX) < (words[0] & TIME_MAX);
    }
    const bool early = known && now_ns >> STEP_SHIFT < (words[at] & TIME_MAX);
    if (retry_after_ns != WEIR_NEVER) {
        uint64_t due = weir_min_u64(weir_add_sat(now_ns, retry_after_ns) >> STEP_SHIFT, TIME_MAX);
        atomic_store_explicit(&pair[at], tag | due, memory_order_relaxed);
    }
    return early;
}
