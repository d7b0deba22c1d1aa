/* SPDX-License-Identifier: Apache-2.0
 *
 * One decision, as a span of a trace tells it: who asked (by ids that came with the request), when, and what came of
 * it. Of fixed size, so that a loop can write it down without asking for memory. It holds no key and no attribute's
 * value.
 *
 * Thread rule: plain values. */
#pragma once

#include "core/breaker/breaker.h"
#include "observe/metrics.h"
#include "wire/otlp.h"

enum weir_trace_call {
    WEIR_TRACE_CHECK, /* POST /v1/check */
    WEIR_TRACE_AUTH,  /* GET /v1/auth */
};

struct weir_trace {
    struct weir_traceparent parent; /* trace_id, flags; parent_id where has_parent */
    uint8_t span_id[WEIR_SPAN_ID_SIZE];
    bool has_parent;
    bool peek;
    bool unmatched;   /* it met no limit, and none that is off */
    bool shared;      /* a limit that nodes share decided, too */
    bool has_breaker; /* there is an engine elsewhere */
    enum weir_trace_call call;
    enum weir_metrics_verdict verdict;
    enum weir_algorithm algorithm;
    enum weir_fallback_policy fallback; /* of the limit that decides; else of the first one that fell back */
    enum weir_breaker_state breaker;    /* the worst, of the engine's servers */
    int status;                         /* of the HTTP answer */
    uint64_t start_wall_ns, took_ns;
    char limit[WEIR_LIMIT_NAME_MAX + 1]; /* that decides; "": none does, and the rest says nothing of one */
    uint32_t limits;                     /* that it met */
    uint32_t shadow_refused;             /* of them, in shadow, that would have refused it */
    uint32_t round_trips;                /* to the engine, that it waited for */
    uint64_t cost;                       /* as the limit that decides charges it */
    uint64_t capacity, remaining;        /* of that limit */
    uint64_t retry_after_ns;             /* WEIR_NEVER */
    uint64_t wait_ns;                    /* for which its answer is held after that */
    uint64_t rules_version;              /* 0: the rules stand in the file */
    uint64_t rules_checksum;
};

/* Adds its span. False: it does not fit any more. */
bool weir_trace_encode(const struct weir_trace *trace, struct weir_otlp *otlp);

/* The most that a span takes, whatever is in it. */
#define WEIR_TRACE_ENCODED_MAX 1024
