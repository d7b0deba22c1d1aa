/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's reservations (docs/reservations.md): it keeps the tickets, ends those that nobody settles, and remembers
 * what has ended for a while. They are bounded: an open one is never dropped, one that has ended gives way.
 *
 * Thread rule: any loop; what is in here is under one mutex. */
#pragma once

#include "core/limit/reservation.h"
#include "serve/decide.h"
#include "weir/reserve.h"
#include "wire/reservation.h"

#define WEIR_RESERVATIONS_MAX 65536 /* open, and ended and remembered */
#define WEIR_RESERVE_TTL_DEFAULT_NS (60 * WEIR_NS_PER_SECOND)
#define WEIR_RESERVE_RATIOS 8

struct weir_reservations;

int weir_reservations_create(struct weir_reservations **ret_reservations); /* WEIR_ENOMEM, WEIR_EIO */
void weir_reservations_destroy(struct weir_reservations *reservations);    /* NULL is allowed */

/* Ends what is over, and forgets what was remembered for long enough: some of it, when there is much. */
void weir_reservations_sweep(struct weir_reservations *reservations, struct weir_limiter *limiter,
                             const struct weir_time *time);

/* A question of weir_decide that is a reserve; and what came of it. */
struct weir_reserve_ask {
    uint64_t amount; /* 0: auto */
    uint64_t ttl_ns; /* 0: a minute, or less where a limit says so */
    /* Admitted: */
    bool cut; /* a limit's reserve_max */
    uint64_t held, ends_after_ns;
    char id[WEIR_RESERVATION_TEXT];
};

/* The attribute `amount` of a question, which is one more than it has: `attributes`, of whom the question has some, has
 * room for WEIR_ATTRIBUTES_MAX. */
struct weir_reserve_amount {
    char text[24];
};
int weir_reserve_question(struct weir_question *question, struct weir_attribute *attributes,
                          struct weir_reserve_amount *amount, struct weir_fault *fault);

/* Called by weir_decide, in place of weir_limiter_decide. WEIR_EBUSY: there is no room for one more; WEIR_EINVAL: a
 * limit is kept elsewhere, or there is no estimate; WEIR_ERANGE: the ttl. The fault says so. */
int weir_reserve_decide(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                        struct weir_outcome *outcome, struct weir_fault *fault);

/* What is known of one, or became of it. */
struct weir_reserve_told {
    const char *state; /* "open", "settled", "released", "kept" */
    uint64_t held, ends_after_ns;
    uint64_t given_back, under_estimated, uncharged;
    bool late, again;
    size_t count; /* limits that were charged the amount */
    struct {
        const char *name;
        uint64_t given_back;
    } limits[WEIR_RESERVE_LIMITS_MAX];
};

/* WEIR_ENOENT: the id is none of ours, or is remembered no more. `cancels`: actual is 0, and is no word on how good the
 * estimate was. */
int weir_reserve_settle(struct weir_loop *loop, struct weir_slice id, uint64_t actual, bool cancels,
                        const struct weir_time *time, struct weir_reserve_told *ret_told);
int weir_reserve_show(struct weir_loop *loop, struct weir_slice id, const struct weir_time *time,
                      struct weir_reserve_told *ret_told);

/* Fills outcome's decision, verdicts and rules, and of `ask` what a reserve does. WEIR_ENOENT, WEIR_ELOST (it has
 * ended), WEIR_ELIMIT (it has all its parts), WEIR_ERANGE (the ttl, the sum), WEIR_ESTALE (its limits are gone). */
int weir_reserve_extend(struct weir_loop *loop, struct weir_slice id, uint64_t more, const struct weir_time *time,
                        struct weir_reserve_ask *ask, struct weir_outcome *outcome, struct weir_fault *fault);

/* ---- for GET /metrics ---- */

/* Ways in which reservations come and go. */
struct weir_reserve_ends {
    uint64_t reserved, refused, full;
    uint64_t settled, cancelled, released, kept, late, unknown;
};

struct weir_reserve_view {
    uint64_t open, remembered;
    struct weir_reserve_ends ends;
};

/* Of one limit. Ratios: of what was settled to what was reserved, cumulated up to weir_reserve_ratios[i]. */
struct weir_reserve_limit_view {
    struct weir_reservation_book book;
    uint64_t uncharged, estimate;
    uint64_t ratios[WEIR_RESERVE_RATIOS + 1];
};

extern const char *const weir_reserve_ratios[WEIR_RESERVE_RATIOS + 1];

void weir_reservations_view(struct weir_reservations *reservations, struct weir_reserve_view *ret_view);
/* False: there was none of the limit in this slot. `percent`: of its estimate; 0: it has none. */
bool weir_reservations_limit_view(struct weir_reservations *reservations, uint32_t slot, uint32_t percent,
                                  struct weir_reserve_limit_view *ret_view);
