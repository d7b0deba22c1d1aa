/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside `throttle: hold`: between hold.c, which decides who waits, and hold_wait.c, which lets them wait. */
#pragma once

#include <pthread.h>

#include "serve/hold.h"

#define WEIR_HOLD_ROWS 4096

/* One charge of a request that waits. */
struct weir_hold_part {
    struct weir_charge charge;
    uint64_t ticket;
    struct weir_hold_part *next; /* in its row of struct weir_holds */
    struct weir_hold_waiter *waiter;
    uint32_t slot;
    enum weir_algorithm algorithm;
    bool shadow;
    bool holds; /* its limit holds answers; else it was charged together with one that does */
    bool back;  /* what it charged has been given back */
};

struct weir_hold_waiter {
    struct weir_timer timer;
    struct weir_loop *loop;
    struct weir_conn *conn; /* NULL: not yet begun, or the client has gone */
    uint64_t begun_ns, due_ns;
    uint64_t lease_ns; /* that the answer tells of its permit; 0: none */
    uint8_t *answer;
    size_t answer_size;
    size_t answer_sent; /* weir_hold_probe */
    size_t bytes;       /* what it counts in weir_holds.bytes */
    struct weir_hold_waiter *gone_next, *gone_prev;
    size_t count;
    struct weir_hold_part parts[];
};

struct weir_holds {
    _Atomic uint32_t waiting[WEIR_METRICS_LIMITS_MAX]; /* by the limit's slot in the metrics */
    _Atomic size_t bytes;
    pthread_mutex_t lock;                        /* of what follows */
    struct weir_hold_waiter *gone;               /* whose clients left before their turn, which others queued behind */
    struct weir_hold_part *rows[WEIR_HOLD_ROWS]; /* their parts, by key and ticket */
};
