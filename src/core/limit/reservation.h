/* SPDX-License-Identifier: Apache-2.0
 *
 * core/limit/reservation: the life of one reservation. Work whose cost is known only afterwards reserves an amount;
 * when it is done it settles what it took, and what is due then is told: units to be given back, or to be charged
 * beyond. What that does to a key's state is core/limit/reserve.h. Pure: time is an argument.
 *
 * Each move is one of the table in reservation.c. What is charged in the end is always `charged`:
 *
 *     settled in time          actual
 *     cancelled                0
 *     ended by its ttl         0, or what was reserved (keep)
 *     settled after that       actual, or the larger of the two (keep)                                            */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "weir/error.h"

#define WEIR_RESERVATION_PARTS_MAX 8 /* the reserve itself and seven times extended */
#define WEIR_RESERVATION_AMOUNT_MAX ((uint64_t)INT64_MAX)

enum weir_reservation_state {
    WEIR_RESERVATION_NONE,
    WEIR_RESERVATION_OPEN,
    WEIR_RESERVATION_SETTLED,  /* or cancelled, which is settled with 0 */
    WEIR_RESERVATION_RELEASED, /* its ttl ended: all was given back */
    WEIR_RESERVATION_KEPT,     /* its ttl ended: all stays charged */
    WEIR_RESERVATION_STATES
};

struct weir_reservation_life {
    enum weir_reservation_state state;
    bool keep; /* what becomes of it when its ttl ends */
    uint32_t parts;
    uint64_t held;    /* all that was reserved */
    uint64_t charged; /* and what is charged by now; after the end what was taken */
    uint64_t ttl_ns, end_ns;
};

/* What is to be done to every limit of it. */
struct weir_reservation_due {
    uint64_t back, more;
    bool late;  /* it had ended before */
    bool again; /* it had been settled before: nothing is due */
};

/* After its limits admitted `amount`. */
void weir_reservation_begin(struct weir_reservation_life *life, uint64_t amount, uint64_t ttl_ns, bool keep,
                            uint64_t now_ns);

/* Whether `more` may be reserved now: WEIR_ELOST (it has ended), WEIR_ELIMIT (it has all its parts), WEIR_ERANGE (the
 * sum). */
int weir_reservation_extends(const struct weir_reservation_life *life, uint64_t more, uint64_t now_ns);
/* After its limits admitted that. */
void weir_reservation_extend(struct weir_reservation_life *life, uint64_t more, uint64_t ttl_ns, uint64_t now_ns);

/* Whether its ttl has ended, and nobody has seen to that yet. */
bool weir_reservation_is_over(const struct weir_reservation_life *life, uint64_t now_ns);
struct weir_reservation_due weir_reservation_expire(struct weir_reservation_life *life, uint64_t now_ns);

/* One that is over has been expired. */
struct weir_reservation_due weir_reservation_settle(struct weir_reservation_life *life, uint64_t actual,
                                                    uint64_t now_ns);

/* It is remembered no more. */
void weir_reservation_forget(struct weir_reservation_life *life);

/* ---- many together ---- */

/* reserved + more = outstanding + settled + back, at every moment: what was charged is held by an open one, was taken,
 * or was given back. In units that were asked for. */
struct weir_reservation_book {
    uint64_t reserved, more;
    uint64_t outstanding, settled, back;
    uint64_t open; /* reservations */
};

void weir_reservation_book_add(struct weir_reservation_book *book, uint64_t amount, bool begins);
/* After a settle or an expire. `held_before`: what it held while it was open; 0 if it was not any more. */
void weir_reservation_book_end(struct weir_reservation_book *book, uint64_t held_before, bool ends,
                               const struct weir_reservation_due *due);
