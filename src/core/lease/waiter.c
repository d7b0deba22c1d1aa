/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of moves, and questions about a phase as masks of phases. Called by waiting.c and by the lock manager
 * (locks/manager*.c). The order of those who wait is waiting.c. */
#include "core/lease/waiter.h"

#define MAY(phase) WEIR_PHASE(WEIR_WAITER_##phase)
#define IS(waiter, phases) ((WEIR_PHASE((waiter)->phase) & (phases)) != 0)

const struct weir_phase weir_waiter_phases[WEIR_WAITER_PHASES] = {
    [WEIR_WAITER_COME] = { "come", MAY(ASKED) | MAY(NEW) | MAY(ANSWERED) | MAY(DONE) },
    [WEIR_WAITER_ASKED] = { "asked", MAY(COME) | MAY(PUT_OFF) | MAY(ANSWERED) },
    [WEIR_WAITER_PUT_OFF] = { "put-off", MAY(COME) },
    [WEIR_WAITER_NEW] = { "new", MAY(NEW_ASKED) | MAY(WAITING) | MAY(PUT_OFF) | MAY(ANSWERED) },
    [WEIR_WAITER_NEW_ASKED] = { "new-asked", MAY(NEW) },
    [WEIR_WAITER_WAITING] = { "waiting", MAY(WAITING_ASKED) | MAY(OVERDUE) | MAY(NEW) | MAY(ANSWERED) },
    [WEIR_WAITER_WAITING_ASKED] = { "waiting-asked", MAY(WAITING) | MAY(OVERDUE) },
    [WEIR_WAITER_OVERDUE] = { "overdue", MAY(WAITING) },
    [WEIR_WAITER_ANSWERED] = { "answered", MAY(RETURNING) | MAY(DONE) },
    [WEIR_WAITER_RETURNING] = { "returning", MAY(ANSWERED) },
    [WEIR_WAITER_DONE] = { "done", MAY(RETURNING) },
};

bool weir_owner_equal(struct weir_owner a, struct weir_owner b)
{
    const char *left = a.bytes, *right = b.bytes;
    size_t at = 0;
    if (a.size != b.size)
        return false;
    while (at < a.size && left[at] == right[at])
        at++;
    return at == a.size;
}

void weir_waiter_move(struct weir_waiter *waiter, enum weir_waiter_phase to)
{
    weir_phase_check(weir_waiter_phases, waiter->phase, to);
    waiter->phase = to;
}

bool weir_waiter_is_queued(const struct weir_waiter *waiter)
{
    return IS(waiter, MAY(NEW) | MAY(NEW_ASKED) | MAY(WAITING) | MAY(WAITING_ASKED) | MAY(OVERDUE));
}

bool weir_waiter_is_new(const struct weir_waiter *waiter)
{
    return IS(waiter, MAY(NEW) | MAY(NEW_ASKED));
}

bool weir_waiter_is_asked(const struct weir_waiter *waiter)
{
    return IS(waiter, MAY(ASKED) | MAY(NEW_ASKED) | MAY(WAITING_ASKED) | MAY(OVERDUE) | MAY(RETURNING));
}

void weir_waiter_ask(struct weir_waiter *waiter)
{
    if (!weir_waiter_is_asked(waiter))
        weir_waiter_move(waiter, !weir_waiter_is_queued(waiter) ? WEIR_WAITER_ASKED
                                 : weir_waiter_is_new(waiter)   ? WEIR_WAITER_NEW_ASKED
                                                                : WEIR_WAITER_WAITING_ASKED);
}

void weir_waiter_hear(struct weir_waiter *waiter)
{
    weir_assert(weir_waiter_is_asked(waiter) && weir_waiter_is_queued(waiter));
    weir_waiter_move(waiter, weir_waiter_is_new(waiter) ? WEIR_WAITER_NEW : WEIR_WAITER_WAITING);
}
