/* SPDX-License-Identifier: Apache-2.0
 *
 * Some refusals on their way from a loop to the log, or to who looks at the dashboard: the loop picks at most so many
 * of each limit in a second, and puts them into a ring, from which the server's own thread takes them. Neither waits
 * for the other, and there is no lock.
 *
 * Bounds: WEIR_REFUSALS_ROOM of a loop between two looks of the taker. What does not fit, and what is above the rate,
 * is left out, and counted: the limit's next one says how many.
 *
 * Thread rule: one thread puts (wants, left_out, put, rate), one takes. */
#pragma once

#include "observe/top.h"

#define WEIR_REFUSALS_RATE_MAX 20 /* of a limit, in a second */
#define WEIR_REFUSALS_ROOM 256    /* a power of two */

struct weir_refusal {
    uint64_t hash; /* of the limit and the key; not to be told as it is (weir_top_shown) */
    uint64_t now_ns;
    uint64_t cost;
    uint64_t retry_after_ns; /* WEIR_NEVER */
    uint64_t left_out;       /* of its limit, before it, by this loop */
    uint32_t slot;           /* of the limit, in the metrics */
    bool banned;             /* not what was used refuses it, but a ban of the key */
    struct weir_top_label label;
};

struct weir_refusals;

int weir_refusals_create(struct weir_refusals **ret_refusals); /* WEIR_ENOMEM */
void weir_refusals_destroy(struct weir_refusals *refusals);    /* NULL is allowed */

/* ---- the loop ---- */

/* So many of each limit in a second, at most WEIR_REFUSALS_RATE_MAX; 0, as at first: none. */
void weir_refusals_rate(struct weir_refusals *refusals, uint32_t per_second);
/* One of this limit happened. True: it is to be put, now. */
bool weir_refusals_wants(struct weir_refusals *refusals, uint32_t slot, uint64_t now_ns);
/* None is wanted any more at that moment: so many more of this limit happened. */
void weir_refusals_left_out(struct weir_refusals *refusals, uint32_t slot, uint64_t count);
/* The one just wanted; its left_out is filled in. */
void weir_refusals_put(struct weir_refusals *refusals, const struct weir_refusal *refusal);

/* ---- whoever writes them down ---- */

/* The oldest; false: there is none. */
bool weir_refusals_take(struct weir_refusals *refusals, struct weir_refusal *ret_refusal);
