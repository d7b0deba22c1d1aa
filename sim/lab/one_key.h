/* SPDX-License-Identifier: Apache-2.0
 *
 * One key of one limit, straight on core/limit. Time begins at LAB_BEGIN_NS, a multiple of every period used here, so
 * that aligned windows begin at 0 of the experiment. */
#pragma once

#include "base/assert.h"
#include "core/limit/limit.h"

#define LAB_BEGIN_NS (3600 * WEIR_NS_PER_SECOND)
#define LAB_LOG_ROOM 1024

struct lab_key {
    struct weir_limit limit;
    struct weir_state state;
    uint64_t times[LAB_LOG_ROOM];
};

static inline void lab_key_init(struct lab_key *key, const struct weir_limit_spec *spec)
{
    struct weir_fault fault;
    int error = weir_limit_init(&key->limit, spec, 0, &fault);
    weir_assert(error == 0 && spec->count <= LAB_LOG_ROOM / 2);
    key->state = weir_state_fresh(&key->limit, LAB_BEGIN_NS);
    key->state.log = (struct weir_log){ .times = key->times, .room = LAB_LOG_ROOM };
}

/* A request of one unit, `at_ns` after the beginning. */
static inline struct weir_verdict lab_key_ask(struct lab_key *key, uint64_t at_ns)
{
    struct weir_event event = { .now_ns = LAB_BEGIN_NS + at_ns, .cost = 1 };
    struct weir_verdict verdict;
    if (weir_limit_judge(&key->limit, &key->state, &event, &verdict))
        weir_limit_charge(&key->limit, &key->state, &event, &verdict);
    return verdict;
}

static inline uint64_t lab_key_used(const struct lab_key *key, uint64_t at_ns)
{
    struct weir_event event = { .now_ns = LAB_BEGIN_NS + at_ns };
    return weir_limit_used(&key->limit, &key->state, &event);
}
