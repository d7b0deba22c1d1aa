/* SPDX-License-Identifier: Apache-2.0
 *
 * One key of `sharing: batched`, stepped by hand. For one file of a program. */
#pragma once

#include "core/share/batched.h"
#include "fixture.h"

static const struct weir_limit_spec hourly = { .algorithm = WEIR_FIXED_WINDOW,
                                               .count = 100,
                                               .period_ns = 3600 * SECOND };
static struct weir_batched key;
static struct weir_batched_options options;

static inline struct weir_share_effects step(enum weir_share_event_kind kind, uint64_t units, uint64_t now_ns)
{
    struct weir_share_event event = { .kind = kind, .units = units, .seq = key.seq };
    struct weir_share_effects effects;
    weir_batched_step(&key, &options, &event, now_ns, &effects);
    return effects;
}

static inline struct weir_share_effects hear_by(bool newer, uint64_t granted, uint64_t used, uint64_t now_ns)
{
    struct weir_share_answer answer = { .stint = key.stint,
                                        .seq = key.seq,
                                        .granted = granted,
                                        .hold_ns = 60 * SECOND,
                                        .capacity = 100,
                                        .used = used,
                                        .retry_after_ns = granted < key.sent_want ? 30 * MS : 0,
                                        .reset_after_ns = SECOND,
                                        .window = 77,
                                        .newer = newer };
    struct weir_share_event event = { .kind = WEIR_SHARE_HEARD, .seq = key.seq, .answer = &answer };
    struct weir_share_effects effects;
    weir_batched_step(&key, &options, &event, now_ns, &effects);
    return effects;
}

static inline struct weir_share_effects hear(uint64_t granted, uint64_t used, uint64_t now_ns)
{
    return hear_by(false, granted, used, now_ns);
}

static inline struct weir_share_effects hear_of_newer(uint64_t granted, uint64_t used, uint64_t now_ns)
{
    return hear_by(true, granted, used, now_ns);
}

/* A key that heard at SECOND + MS that `used` are used, with a slack of 10. */
static inline void begin_with(const struct weir_limit_spec *spec, uint64_t used)
{
    options = (struct weir_batched_options){
        .slack = 10, .interval_ns = 100 * MS, .ttl_ns = 60 * SECOND, .lost_ns = 20 * MS
    };
    assert_int_equal(weir_limit_init(&options.limit, spec, 0, NULL), 0);
    weir_batched_init(&key, UINT64_C(1) << WEIR_SHARE_STINT_BITS);
    assert_int_equal(step(WEIR_SHARE_RESERVE, 1, SECOND).say,
                     WEIR_SHARE_WAIT); /* nothing is known: the engine is asked */
    hear(1, used, SECOND + MS);
    step(WEIR_SHARE_RESERVE, 1, SECOND + MS);
    step(WEIR_SHARE_COMMIT, 1, SECOND + MS);
}

static inline bool take(uint64_t units, uint64_t now_ns, struct weir_share_effects *ret_effects)
{
    *ret_effects = step(WEIR_SHARE_RESERVE, units, now_ns);
    if (ret_effects->say != WEIR_SHARE_YES)
        return false;
    *ret_effects = step(WEIR_SHARE_COMMIT, units, now_ns);
    return true;
}
