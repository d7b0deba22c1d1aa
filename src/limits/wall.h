/* SPDX-License-Identifier: Apache-2.0
 *
 * Wall time for calendar windows: judged by the highest seen. If it falls back by more than skew_max, every open window
 * counts as full until it has caught up, or for one period of the limit: no window is opened twice. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "core/limit/limit.h"
#include "limits/calendar.h"

struct weir_wall {
    uint64_t skew_max_ns;
    uint64_t high_ns;        /* atomic: the highest wall time, to the millisecond */
    uint64_t fallen_from_ns; /* atomic: the highest before the last fall; 0 if there was none */
    uint64_t fallen_at_ns;   /* atomic: engine time of that fall */
    pthread_mutex_t mutex;   /* of falls */
};

void weir_wall_init(struct weir_wall *wall, uint64_t skew_max_ns);
void weir_wall_deinit(struct weir_wall *wall);

/* The window of a limit with `rule` and `period_ns` that now falls into, for a key of phase `phase_ns`. */
struct weir_window weir_wall_window(struct weir_wall *wall, const struct weir_calendar_rule *rule, uint64_t period_ns,
                                    uint64_t phase_ns, uint64_t now_ns, uint64_t wall_ns);
