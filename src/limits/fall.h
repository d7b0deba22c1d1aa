/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's clock where callers give it: one that jumps far ahead takes with it what is fresh at the far time, for
 * there it is forgotten. When it has come back, a key that has no entry may be one of those. So a newcomer more than
 * skew_max behind the latest time at which something was forgotten is taken for a key that was used up when the fall
 * was first seen: until that time has come again, or until such a key would be fresh. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "table/table.h"

struct weir_fall {
    uint64_t from_ns;      /* atomic: the latest time at which a key was forgotten, before any fall; 0: none was seen */
    uint64_t at_ns;        /* atomic: the first time seen after the last fall */
    uint64_t count;        /* atomic: of falls */
    pthread_mutex_t mutex; /* of falls */
};

void weir_fall_init(struct weir_fall *fall);
void weir_fall_deinit(struct weir_fall *fall);

/* Until when a newcomer may be a key that was forgotten, and is used up, of a limit whose keys are fresh fill_ns after
 * they were; 0: it may not. */
uint64_t weir_fall_until(struct weir_fall *fall, struct weir_table *table, uint64_t now_ns, uint64_t fill_ns);
