/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring with one writer and one reader: each moves an index of its own, and reads the other's. Places count by limit;
 * their memory is that of the limits that there are, for the kernel gives it when it is touched. Called by
 * serve/refused.c, which puts, and serve/refusal_lines.c, which takes. */
#include "observe/refusals.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/assert.h"
#include "observe/metrics.h"

struct place {
    uint64_t second;
    uint64_t left_out;
    uint32_t taken; /* in that second */
};

struct weir_refusals {
    uint32_t per_second;
    struct place *places; /* WEIR_METRICS_LIMITS_MAX of them */
    _Alignas(64) _Atomic uint32_t put;
    _Alignas(64) _Atomic uint32_t taken;
    struct weir_refusal ring[WEIR_REFUSALS_ROOM];
};

int weir_refusals_create(struct weir_refusals **ret_refusals)
{
    struct weir_refusals *refusals = aligned_alloc(64, sizeof(*refusals));
    struct place *places = calloc(WEIR_METRICS_LIMITS_MAX, sizeof(places[0]));
    if (!refusals || !places) {
        free(refusals);
        free(places);
        return WEIR_ENOMEM;
    }
    refusals->per_second = 0;
    refusals->places = places;
    atomic_init(&refusals->put, 0);
    atomic_init(&refusals->taken, 0);
    *ret_refusals = refusals;
    return 0;
}

void weir_refusals_destroy(struct weir_refusals *refusals)
{
    if (refusals)
        free(refusals->places);
    free(refusals);
}

void weir_refusals_rate(struct weir_refusals *refusals, uint32_t per_second)
{
    weir_assert(per_second <= WEIR_REFUSALS_RATE_MAX);
    refusals->per_second = per_second;
}

bool weir_refusals_wants(struct weir_refusals *refusals, uint32_t slot, uint64_t now_ns)
{
    weir_assert(slot < WEIR_METRICS_LIMITS_MAX);
    struct place *place = &refusals->places[slot];
    const uint64_t second = now_ns / WEIR_NS_PER_SECOND;
    const uint32_t waiting = atomic_load_explicit(&refusals->put, memory_order_relaxed) -
                             atomic_load_explicit(&refusals->taken, memory_order_acquire);
    if (refusals->per_second == 0)
        return false;
    if (place->second != second) {
        place->second = second;
        place->taken = 0;
    }
    if (place->taken >= refusals->per_second || waiting >= WEIR_REFUSALS_ROOM) {
        place->left_out++;
        return false;
    }
    place->taken++;
    return true;
}

void weir_refusals_left_out(struct weir_refusals *refusals, uint32_t slot, uint64_t count)
{
    weir_assert(slot < WEIR_METRICS_LIMITS_MAX);
    if (refusals->per_second > 0)
        refusals->places[slot].left_out += count;
}

void weir_refusals_put(struct weir_refusals *refusals, const struct weir_refusal *refusal)
{
    const uint32_t put = atomic_load_explicit(&refusals->put, memory_order_relaxed);
    struct weir_refusal *room = &refusals->ring[put % WEIR_REFUSALS_ROOM];
    weir_assert(put - atomic_load_explicit(&refusals->taken, memory_order_acquire) < WEIR_REFUSALS_ROOM);
    *room = *refusal;
    room->left_out = refusals->places[refusal->slot].left_out;
    refusals->places[refusal->slot].left_out = 0;
    atomic_store_explicit(&refusals->put, put + 1, memory_order_release);
}

bool weir_refusals_take(struct weir_refusals *refusals, struct weir_refusal *ret_refusal)
{
    const uint32_t taken = atomic_load_explicit(&refusals->taken, memory_order_relaxed);
    if (atomic_load_explicit(&refusals->put, memory_order_acquire) == taken)
        return false;
    *ret_refusal = refusals->ring[taken % WEIR_REFUSALS_ROOM];
    atomic_store_explicit(&refusals->taken, taken + 1, memory_order_release);
    return true;
}
