/* SPDX-License-Identifier: Apache-2.0
 *
 * A long random use of core/limit, the same wherever it runs: the seed alone decides every operation, and a 64-bit
 * digest of every verdict and every state tells whether two builds of the core ever differed. No libc, no
 * allocation. */
#pragma once

#include "core/limit/limit.h"

enum { STREAM_KEYS = 32, STREAM_LOG_ROOM = 4096 };

enum weir_stream_count {
    STREAM_ADMITTED,
    STREAM_REFUSED,
    STREAM_NEVER,   /* of the refused */
    STREAM_EDGE,    /* asked within 1 ns of when the last refusal said to come back */
    STREAM_DRAINED, /* refused attempts that were charged */
    STREAM_REFUNDED,
    STREAM_CONVERTED,
    STREAM_JUMPED, /* clocks that came back */
    STREAM_COUNTS,
};

struct weir_stream_key {
    struct weir_limit limit;
    struct weir_state state;
    uint64_t now_ns;     /* the key's own clock */
    uint64_t recover_ns; /* from empty to fresh, about */
    uint64_t back_at_ns; /* when the last refusal said to come back; 0 = none */
    bool other_buffer;   /* which of the two holds the log */
};

struct weir_stream {
    uint64_t random;
    uint64_t digest;
    uint64_t counts[STREAM_COUNTS];
    struct weir_stream_key keys[STREAM_KEYS];
    uint64_t times[STREAM_KEYS][2][STREAM_LOG_ROOM];
};

void weir_stream_init(struct weir_stream *stream, uint64_t seed);

/* Does so many operations more; returns the digest of all so far. */
uint64_t weir_stream_run(struct weir_stream *stream, uint64_t operations);
