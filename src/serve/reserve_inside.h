/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the server's reservations: between reserve.c, which keeps them, and reserve_ask.c, which decides. */
#pragma once

#include <pthread.h>

#include "base/due.h"
#include "core/limit/estimate.h"
#include "serve/reserve.h"

/* One of them, in its place; in one of the two heaps, or free. */
struct weir_reserve_record {
    struct weir_due due; /* its end; once that has come, when it is forgotten */
    uint64_t number;     /* 0: the place is free */
    uint64_t ttl_ns;
    uint32_t place, next_free;
    uint8_t count;
    bool keep;
    struct weir_reservation *ticket;         /* of it as much as has limits */
    uint32_t slots[WEIR_RESERVE_LIMITS_MAX]; /* in the metrics, of its limits */
    struct weir_settled settled;             /* what it was answered, to be answered again */
};

/* What is counted of one limit. */
struct weir_reserve_limit {
    struct weir_reservation_book book;
    uint64_t uncharged;
    uint64_t ratios[WEIR_RESERVE_RATIOS + 1];
    struct weir_estimate estimate;
};

struct weir_reservations {
    pthread_mutex_t lock;
    struct weir_reserve_record *records;
    uint32_t used, free; /* records never used begin at `used`; free: 1 + a place */
    uint64_t newest;     /* number */
    struct weir_due_heap open, ended;
    struct weir_reserve_ends ends;
    struct weir_reserve_limit **limits; /* by slot; NULL: none yet */
};

/* All of these with the lock held. */

/* A free place, or that of the one which has been ended for longest; NULL: all are open. */
struct weir_reserve_record *weir_reserve_place(struct weir_reservations *r);
/* A ticket for it that was admitted. WEIR_ENOMEM: nothing was kept. */
int weir_reserve_keep(struct weir_reservations *r, struct weir_reserve_record *record,
                      const struct weir_reservation *ticket, const uint32_t *slots, bool keep);
struct weir_reserve_record *weir_reserve_find(struct weir_loop *loop, struct weir_slice text);
/* What the record has, as a whole ticket, and back. */
void weir_reserve_load(const struct weir_reserve_record *record, struct weir_reservation *ret_ticket);
void weir_reserve_store(struct weir_reservations *r, struct weir_reserve_record *record,
                        const struct weir_reservation *ticket);
/* If its ttl has ended. */
void weir_reserve_end_one(struct weir_reservations *r, struct weir_limiter *limiter, struct weir_reserve_record *record,
                          const struct weir_time *time);
/* NULL: no memory. */
struct weir_reserve_limit *weir_reserve_limit_of(struct weir_reservations *r, uint32_t slot);
