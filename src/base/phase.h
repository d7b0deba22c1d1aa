/* SPDX-License-Identifier: Apache-2.0
 *
 * A lifecycle as a table: each phase's name, and to which phases it may move. Whoever moves says it here first, so that
 * a move which the table does not have stops the program and names both. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"

struct weir_phase {
    const char *name;
    uint32_t next; /* bits of WEIR_PHASE() */
};

#define WEIR_PHASE(phase) (UINT32_C(1) << (phase))

static inline bool weir_phase_may(const struct weir_phase *phases, unsigned from, unsigned to)
{
    return phases[from].next >> to & 1;
}

/* Stops the program unless the table has this move. */
void weir_phase_check(const struct weir_phase *phases, unsigned from, unsigned to);
