/* SPDX-License-Identifier: Apache-2.0
 *
 * The highest time is one word, which threads raise by compare-and-swap, and only by more than a millisecond. A fall is
 * written under the mutex, the new highest time last: whoever reads that time sees the rest of the fall. Called by
 * entry.c for limits in memory and by gossip_host.c for gossiped ones. The windows are in calendar.c.
 * Also the clock itself, which callers read. */
#include "limits/wall.h"

#include "base/timing.h"
#include "limits/memory.h"

struct weir_time weir_time_read(void)
{
    return (struct weir_time){ weir_timing_now(CLOCK_MONOTONIC), weir_timing_now(CLOCK_REALTIME) };
}

/* The highest is written at most so often: every key's own window id guards the rest. */
#define WALL_STEP_NS UINT64_C(1000000)

void weir_wall_init(struct weir_wall *wall, uint64_t skew_max_ns)
{
    *wall = (struct weir_wall){ .skew_max_ns = skew_max_ns };
    pthread_mutex_init(&wall->mutex, NULL);
}

void weir_wall_deinit(struct weir_wall *wall)
{
    pthread_mutex_destroy(&wall->mutex);
}

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void fall(struct weir_wall *wall, uint64_t now_ns, uint64_t wall_ns)
{
    pthread_mutex_lock(&wall->mutex);
    uint64_t high = load(&wall->high_ns);
    if (high > wall_ns && high - wall_ns > wall->skew_max_ns) { /* nobody else saw it first */
        uint64_t from = load(&wall->fallen_from_ns);
        __atomic_store_n(&wall->fallen_from_ns, from > high ? from : high, __ATOMIC_RELEASE);
        __atomic_store_n(&wall->fallen_at_ns, now_ns, __ATOMIC_RELEASE);
        __atomic_store_n(&wall->high_ns, wall_ns, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&wall->mutex);
}

/* The highest seen, this reading included. */
static uint64_t highest(struct weir_wall *wall, uint64_t now_ns, uint64_t wall_ns)
{
    uint64_t high = load(&wall->high_ns);
    while (wall_ns > high && wall_ns - high > WALL_STEP_NS &&
           !__atomic_compare_exchange_n(&wall->high_ns, &high, wall_ns, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
    }
    if (wall_ns >= high)
        return wall_ns;
    if (high - wall_ns <= wall->skew_max_ns)
        return high;
    fall(wall, now_ns, wall_ns);
    return wall_ns;
}

struct weir_window weir_wall_window(struct weir_wall *wall, const struct weir_calendar_rule *rule, uint64_t period_ns,
                                    uint64_t phase_ns, uint64_t now_ns, uint64_t wall_ns)
{
    uint64_t seen = highest(wall, now_ns, wall_ns), from = load(&wall->fallen_from_ns);
    if (seen < from) {
        uint64_t at = load(&wall->fallen_at_ns), passed = now_ns > at ? now_ns - at : 0;
        if (passed < period_ns) {
            uint64_t catches_up = from - seen, period_over = period_ns - passed;
            return (struct weir_window){ .id = weir_calendar_at(rule, phase_ns, from).id,
                                         .end_after_ns = catches_up < period_over ? catches_up : period_over,
                                         .closed = true };
        }
    }
    struct weir_calendar_window window = weir_calendar_at(rule, phase_ns, seen);
    return (struct weir_window){ .id = window.id,
                                 .end_after_ns = window.end_wall_ns > seen ? window.end_wall_ns - seen : 1 };
}
