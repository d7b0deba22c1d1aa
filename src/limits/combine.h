/* SPDX-License-Identifier: Apache-2.0
 *
 * One decision of several verdicts: whether every limit that counts admits, and which one decides. Never comes first,
 * then the longest wait; or, where all admit, the least that remains. */
#pragma once

#include "base/checked.h"
#include "weir/limiter.h"

struct weir_combining {
    struct weir_decision decision;
    const struct weir_verdict *chosen; /* NULL: none counts so far */
};

static inline struct weir_combining weir_combine_begin(size_t count)
{
    return (struct weir_combining){ .decision = { .admitted = true, .deciding = count } };
}

static inline void weir_combine(struct weir_combining *combining, size_t i, const struct weir_verdict *v)
{
    struct weir_decision *d = &combining->decision;
    const struct weir_verdict *chosen = combining->chosen;
    if (v->shadow)
        return;
    bool worse = !v->admitted && (!chosen || d->admitted || v->retry_after_ns > chosen->retry_after_ns);
    bool scarcer = d->admitted && v->admitted && (!chosen || v->remaining < chosen->remaining);
    if (worse || scarcer) {
        d->deciding = i;
        combining->chosen = v;
    }
    d->admitted = d->admitted && v->admitted;
    d->delay_ns = weir_max_u64(d->delay_ns, v->delay_ns);
    /* Those that admit wait too, if the refused attempt was charged to them. */
    d->retry_after_ns = weir_max_u64(d->retry_after_ns, v->retry_after_ns);
}

static inline struct weir_decision weir_combine_end(const struct weir_combining *combining)
{
    struct weir_decision decision = combining->decision;
    if (!decision.admitted)
        decision.delay_ns = 0;
    return decision;
}
