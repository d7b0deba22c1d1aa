/* SPDX-License-Identifier: Apache-2.0
 *
 * The moves of a lifecycle's table, all of them, against a list: " from>to from>to ". */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/phase.h"

static inline void assert_moves(const struct weir_phase *phases, unsigned count, const char *may)
{
    for (unsigned from = 0; from < count; from++) {
        for (unsigned to = 0; to < count; to++) {
            char move[64];
            snprintf(move, sizeof move, " %s>%s ", phases[from].name, phases[to].name);
            if (weir_phase_may(phases, from, to) != (strstr(may, move) != NULL))
                fail_msg("the table and the list differ in%s", move);
        }
    }
}
