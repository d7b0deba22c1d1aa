/* SPDX-License-Identifier: Apache-2.0
 *
 * What is counted of sessions over replicas, and its text for Prometheus. Labels are names of the configuration and
 * words of ours. */
#pragma once

#include "observe/prometheus.h"

#define WEIR_SESSIONS_SERVERS_MAX 64

#define WEIR_SESSIONS_REFUSED_LIST(X)                                                                                  \
    X(LOST, "lost")           /* a failover or a crash cut off what was seen */                                        \
    X(BEHIND, "behind")       /* no server showed enough in time */                                                    \
    X(FOREIGN, "foreign")     /* a token or place of another system */                                                 \
    X(FORGED, "forged")       /* a token that none of the keys has signed */                                           \
    X(MALFORMED, "malformed") /* no token, no place */                                                                 \
    X(UNPROVEN, "unproven")   /* a place whose timeline could not be told */                                           \
    X(DOWN, "down")           /* no server, or no store of users, answered */                                          \
    X(FULL, "full")           /* too many waited already */

enum weir_sessions_refused {
#define WEIR_SESSIONS_REFUSED_ENUM(name, text) WEIR_SESSIONS_##name,
    WEIR_SESSIONS_REFUSED_LIST(WEIR_SESSIONS_REFUSED_ENUM)
#undef WEIR_SESSIONS_REFUSED_ENUM
        WEIR_SESSIONS_REFUSED
};

/* Counters that several threads add to. */
struct weir_sessions_counters {
    _Atomic uint64_t refused[WEIR_SESSIONS_REFUSED];
    _Atomic uint64_t waits, waited_ns; /* routes that were not decided at once, and how long they took in all */
    _Atomic uint64_t seen, accepted;
};

static inline void weir_sessions_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

struct weir_sessions_server {
    const char *name;
    uint64_t ok, stale; /* routes there */
    uint64_t lag_ns;
    bool lag_known, usable, primary;
    const char *role;
    char fault[256]; /* why it is not usable, or what is wrong though it is; "" */
};

struct weir_sessions_view {
    const struct weir_sessions_counters *counters;
    struct weir_sessions_server servers[WEIR_SESSIONS_SERVERS_MAX];
    size_t servers_count;
    uint64_t waiting;
    uint64_t users_found, users_not_found, users_losses, users_failures, users_evicted;
    char users_fault[160]; /* of where they are kept: what was wrong last; "" */
};

void weir_sessions_metrics(struct weir_prometheus *out, const struct weir_sessions_view *view);
