/* SPDX-License-Identifier: Apache-2.0
 *
 * One key of `sharing: leased`, stepped by hand. For one file of a program. */
#pragma once

#include "core/share/leased.h"
#include "fixture.h"

static const struct weir_leased_options options = {
    .capacity = 100, .ttl_ns = 2 * SECOND, .lost_ns = 20 * MS, .refused_ns = 50 * MS
};

static struct weir_leased key;

static inline struct weir_share_effects step(enum weir_share_event_kind kind, uint64_t units, uint64_t now_ns)
{
    struct weir_share_event event = { .kind = kind, .units = units, .seq = key.seq };
    struct weir_share_effects effects;
    weir_leased_step(&key, &options, &event, now_ns, &effects);
    return effects;
}

static inline struct weir_share_effects hear(uint64_t seq, uint64_t granted, uint64_t hold_ns, uint64_t used,
                                             uint64_t now_ns)
{
    struct weir_share_answer answer = { .stint = key.stint,
                                        .seq = seq,
                                        .granted = granted,
                                        .hold_ns = hold_ns,
                                        .capacity = 100,
                                        .used = used,
                                        .retry_after_ns = 30 * MS,
                                        .reset_after_ns = SECOND,
                                        .window = 77 };
    struct weir_share_event event = { .kind = WEIR_SHARE_HEARD, .seq = seq, .answer = &answer };
    struct weir_share_effects effects;
    weir_leased_step(&key, &options, &event, now_ns, &effects);
    return effects;
}

/* A key that got `units` at SECOND, by an ask sent then. */
static inline void begin_with(uint64_t units)
{
    weir_leased_init(&key, UINT64_C(1) << WEIR_SHARE_STINT_BITS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, SECOND).say, WEIR_SHARE_WAIT);
    hear(1, units, 2 * SECOND, units, SECOND + MS);
}
