/* SPDX-License-Identifier: Apache-2.0
 *
 * Is there an order of the operations of one lock, each taking effect between its start and its end, that the model
 * allows? Depth first, with what was tried remembered: (operations done, state after them).
 *
 * Sources: Wing and Gong, "Testing and verifying concurrent objects", 1993; Lowe, "Testing for linearizability", 2017.
 * Deciding it is NP-complete: memory is bounded, and where the bound is reached the answer is "gave up". */
#pragma once

#include "model.h"

enum search_verdict {
    SEARCH_ACCEPTED,
    SEARCH_REFUSED,
    SEARCH_GAVE_UP, /* neither: the memory was used up */
};

struct search_result {
    size_t operations; /* of this lock that the model is about */
    size_t tried;      /* states that were reached */
    unsigned
        stuck; /* refused: the line of the operation for which no order left a place, in the order that came furthest */
};

#define SEARCH_MEMORY_DEFAULT ((size_t)256 << 20)

/* Of lock `lock` (1 to locks.count), with at most memory_max bytes. */
enum search_verdict search_lock(const struct history *history, size_t lock, const struct model *model,
                                size_t memory_max, struct search_result *ret_result);

/* Every lock by itself: linearizability is local. The worst verdict of all, and the lock and result it is of. */
enum search_verdict search_all(const struct history *history, const struct model *model, size_t memory_max,
                               size_t *ret_lock, struct search_result *ret_result);
