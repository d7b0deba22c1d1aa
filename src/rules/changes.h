/* SPDX-License-Identifier: Apache-2.0
 *
 * What a reload did to the limits, for people: which changed and how, which came and went. */
#pragma once

#include "rules/config.h"

#define WEIR_CHANGES_NAMED_MAX 10 /* in one text; of the others the number */

struct weir_changes {
    size_t count;    /* limits that changed, came or went */
    char text[480];  /* "api 100/min -> 200/min, uploads came (90/hour) and 12 more"; "" if none did */
    char alone[200]; /* those of them that nodes do not tell each other of; "" without other nodes, or where
                        all follow one store */
};

/* Compares two configurations limit by limit, as they decide (after weir_config_revise), and tells `now` since when
 * each limit has been as it is: a limit that is as before, since then. `since_wall_ns` of those of `before` that do not
 * know: `before_wall_ns`. The texts have names of limits and numbers, never a key. WEIR_ENOMEM: ret_changes says
 * nothing, and all of `now` is new. */
int weir_config_changes(const struct weir_config *before, uint64_t before_wall_ns, struct weir_config *now,
                        uint64_t now_wall_ns, struct weir_changes *ret_changes);
