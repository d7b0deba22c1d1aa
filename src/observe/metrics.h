/* SPDX-License-Identifier: Apache-2.0
 *
 * What the loops count: decisions by limit and verdict, latencies, holds. Each loop writes its own counters with plain
 * stores; whoever reads adds them up. Labels come from the configuration, never from a request.
 *
 * A limit's counters are found by its name and outlive every reload, so that they only grow. WEIR_METRICS_LIMITS_MAX
 * names are told apart; those that come later count together as "(other)".
 *
 * Thread rule: what takes a loop's number only from that loop's thread; everything else from any. */
#pragma once

#include "observe/histogram.h"
#include "weir/limiter.h"

#define WEIR_METRICS_LIMITS_MAX ((size_t)65536)
#define WEIR_METRICS_OTHER 0    /* slot of names that came too late */
#define WEIR_METRICS_THROTTLE 1 /* slot of CL.THROTTLE, which has no name in the configuration */

#define WEIR_METRICS_VERDICT_LIST(X)                                                                                   \
    X(ADMITTED, "admitted")                                                                                            \
    X(REFUSED, "refused")                                                                                              \
    X(NEVER, "never")                   /* the cost is above the capacity */                                           \
    X(SHADOW_REFUSED, "shadow_refused") /* it would have been refused */                                               \
    X(SHED, "shed")                     /* it fitted, but would have had to wait for too long, or among too many */    \
    X(BANNED, "banned")                 /* the key is (docs/exceptions.md); the limit was not asked */

enum weir_metrics_verdict {
#define WEIR_METRICS_VERDICT_ENUM(name, text) WEIR_METRICS_##name,
    WEIR_METRICS_VERDICT_LIST(WEIR_METRICS_VERDICT_ENUM)
#undef WEIR_METRICS_VERDICT_ENUM
        WEIR_METRICS_VERDICTS
};

/* Who answered for an engine that failed: a limit's on_failure. */
#define WEIR_FALLBACK_POLICY_LIST(X)                                                                                   \
    X(NONE, "")                                                                                                        \
    X(LOCAL, "local")                                                                                                  \
    X(OPEN, "open")                                                                                                    \
    X(CLOSED, "closed")

enum weir_fallback_policy {
#define WEIR_FALLBACK_POLICY_ENUM(name, text) WEIR_FALLBACK_##name,
    WEIR_FALLBACK_POLICY_LIST(WEIR_FALLBACK_POLICY_ENUM)
#undef WEIR_FALLBACK_POLICY_ENUM
        WEIR_FALLBACK_POLICIES
};

/* What became of requests that a limit's match fits and that lack an attribute of its key. */
#define WEIR_LACK_LIST(X)                                                                                              \
    X(SKIPPED, "skipped") /* the limit was not met: missing: skip */                                                   \
    X(SHARED, "shared")   /* charged to the counter of those who lack it */                                            \
    X(REFUSED, "refused")                                                                                              \
    X(SHADOWED, "shadow_refused") /* would have been refused, if the limit were not in shadow: it was not met */

enum weir_lack {
#define WEIR_LACK_ENUM(name, text) WEIR_LACK_##name,
    WEIR_LACK_LIST(WEIR_LACK_ENUM)
#undef WEIR_LACK_ENUM
        WEIR_LACKS
};

/* Units of the limits that have one counter for all requests. */
enum weir_units {
    WEIR_UNITS_ADMITTED, /* to requests that all their limits admitted */
    WEIR_UNITS_RETURNED, /* asked back: at most so many were given back */
    WEIR_UNITS
};

/* Hits that Envoy asks of a limit, by the names that envoyproxy/ratelimit gives its statistics. */
#define WEIR_HITS_LIST(X)                                                                                              \
    X(TOTAL, "total_hits")                                                                                             \
    X(WITHIN, "within_limit") /* charged */                                                                            \
    X(NEAR, "near_limit")     /* of these: above four fifths of the limit */                                           \
    X(OVER, "over_limit")                                                                                              \
    X(SHADOW, "shadow_mode") /* of these: of a limit in shadow, which let them pass */

enum weir_hits {
#define WEIR_HITS_ENUM(name, text) WEIR_HITS_##name,
    WEIR_HITS_LIST(WEIR_HITS_ENUM)
#undef WEIR_HITS_ENUM
        WEIR_HITS
};

enum weir_metrics_protocol { WEIR_METRICS_RESP, WEIR_METRICS_HTTP, WEIR_METRICS_GRPC, WEIR_METRICS_PROTOCOLS };

/* Of one loop. */
struct weir_metrics_loop {
    struct weir_histogram
        turn_ns[WEIR_METRICS_PROTOCOLS]; /* from reading the clock for a batch of input to its answers */
    struct weir_histogram hold_ns;       /* how long answers were held */
    _Atomic uint64_t hold_late_ns;       /* by how much, in all, they came after their turn */
    _Atomic uint64_t holds_begun, holds_ended, holds_left; /* left: the client went first */
    _Atomic uint64_t holds_lost;                           /* the permit that the answer told of was over */
};

struct weir_metrics;

int weir_metrics_create(size_t loops, struct weir_metrics **ret_metrics); /* WEIR_ENOMEM */
void weir_metrics_destroy(struct weir_metrics *metrics);                  /* NULL is allowed */

/* The slot of a limit's name, the same for ever. */
uint32_t weir_metrics_slot(struct weir_metrics *metrics, const char *name);

struct weir_metrics_loop *weir_metrics_of_loop(struct weir_metrics *metrics, size_t loop);

/* Counts `count` decisions of one limit. Loses them if memory is out. */
void weir_metrics_decided(struct weir_metrics *metrics, size_t loop, uint32_t slot, enum weir_metrics_verdict verdict,
                          uint64_t count);

/* Counts one verdict of a limit that the engine behind it did not give. */
void weir_metrics_fell_back(struct weir_metrics *metrics, size_t loop, uint32_t slot, enum weir_fallback_policy policy);

/* Counts one request that lacks an attribute of a limit's key. */
void weir_metrics_lacked(struct weir_metrics *metrics, size_t loop, uint32_t slot, enum weir_lack lack);

/* Counts units of one limit. */
void weir_metrics_units(struct weir_metrics *metrics, size_t loop, uint32_t slot, enum weir_units units,
                        uint64_t count);

/* Counts hits of one limit. */
void weir_metrics_hit(struct weir_metrics *metrics, size_t loop, uint32_t slot, enum weir_hits hits, uint64_t count);

/* What a limit's verdict counts as. */
enum weir_metrics_verdict weir_metrics_verdict_of(const struct weir_verdict *verdict);

/* ---- reading ---- */

size_t weir_metrics_loops(const struct weir_metrics *metrics);
size_t weir_metrics_slots(struct weir_metrics *metrics); /* in use: 0 to this - 1 */
const char *weir_metrics_name(struct weir_metrics *metrics, uint32_t slot);
const char *weir_metrics_verdict_name(enum weir_metrics_verdict verdict);
const char *weir_fallback_policy_name(enum weir_fallback_policy policy);
void weir_metrics_fallbacks(struct weir_metrics *metrics, uint32_t slot, uint64_t ret_counts[WEIR_FALLBACK_POLICIES]);
void weir_metrics_decisions(struct weir_metrics *metrics, uint32_t slot, uint64_t ret_counts[WEIR_METRICS_VERDICTS]);
const char *weir_metrics_lack_name(enum weir_lack lack);
void weir_metrics_lacks(struct weir_metrics *metrics, uint32_t slot, uint64_t ret_counts[WEIR_LACKS]);
void weir_metrics_units_of(struct weir_metrics *metrics, uint32_t slot, uint64_t ret_counts[WEIR_UNITS]);
const char *weir_hits_name(enum weir_hits hits);
void weir_metrics_hits_of(struct weir_metrics *metrics, uint32_t slot, uint64_t ret_counts[WEIR_HITS]);
