/* SPDX-License-Identifier: Apache-2.0
 *
 * Hard streams of operations on one key: half refused, many within 1 ns of the time at which the answer changes, some
 * with stale clocks, some with clocks that jump forward and come back, some with a reload of the limit in between. The
 * generator listens to the verdicts: it steers towards refusing half, and aims at the times that they name. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "random.h"
#include "weir/limit.h"

enum op_kind {
    OP_CHARGE,
    OP_PEEK,
    OP_REFUND,
    OP_RECONFIGURE, /* to `spec`, at now_ns */
};

struct op {
    enum op_kind kind;
    uint64_t now_ns;
    uint64_t cost; /* units of a refund */
    bool stale;    /* behind the newest time, within skew */
    bool jump;     /* far ahead of the newest time, or the return from there */
    struct weir_limit_spec spec;
};

struct stream {
    struct test_random random;
    struct weir_limit_spec spec;
    uint64_t skew_max_ns;
    uint64_t newest_ns;
    bool honest;          /* half of the streams: the clock only goes forward */
    uint64_t return_ns;   /* the clock jumped from here and comes back next; 0 = it did not */
    uint64_t jump_max_ns; /* set by the host of the stream */
    int step_log2;        /* mean step: a unit's time * 2^this / 16 */
    uint64_t aims[4];     /* times at which the last verdict changes */
    uint64_t aim_cost;
    int aims_count;
};

/* A stream over limits of one algorithm. */
void stream_init(struct stream *stream, uint64_t seed, enum weir_algorithm algorithm, uint64_t skew_max_ns);

struct op stream_next(struct stream *stream);

/* What was answered to it. */
void stream_tell(struct stream *stream, const struct op *op, const struct weir_verdict *verdict);
