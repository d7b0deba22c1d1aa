/* SPDX-License-Identifier: Apache-2.0
 *
 * The last refusals, for people who look: what the loops picked (observe/refusals.h) and the server's own thread took
 * (serve/refusal_lines.c). A new one takes the place of the oldest.
 *
 * Memory: WEIR_LAST_ROOM of some 150 bytes.
 *
 * Thread rule: any; a mutex that is held for one copy. */
#pragma once

#include "observe/refusals.h"

#define WEIR_LAST_ROOM 32

struct weir_last_refusal {
    uint64_t wall_ns;            /* when it was refused */
    struct weir_refusal refusal; /* its label is known only where it may be told */
};

struct weir_last;

int weir_last_create(struct weir_last **ret_last); /* WEIR_ENOMEM */
void weir_last_destroy(struct weir_last *last);    /* NULL is allowed */

void weir_last_put(struct weir_last *last, const struct weir_last_refusal *refusal);
/* The newest first; returns how many. */
size_t weir_last_read(struct weir_last *last, struct weir_last_refusal ret_refusals[WEIR_LAST_ROOM]);
/* How many were put so far: whether there are new ones. */
uint64_t weir_last_number(struct weir_last *last);
