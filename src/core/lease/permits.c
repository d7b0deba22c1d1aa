/* SPDX-License-Identifier: Apache-2.0
 *
 * An array in the order of the ends: what has ended is at its front, and a permit that is extended is taken out and put
 * in again. Take, renew and release first drop what has ended. Called by the sqlite lock engine with n = 1
 * (locks/sqlite.c) and by sim/locks_store.c; the limits that give out permits are core/limit/concurrency.c. */
#include "core/lease/permits.h"

#include <string.h>

#include "base/checked.h"

static uint64_t see(struct weir_permits *permits, uint64_t now_ns)
{
    permits->seen_ns = weir_max_u64(permits->seen_ns, now_ns);
    return permits->seen_ns;
}

static size_t find(const struct weir_permits *permits, uint64_t holder)
{
    size_t i = 0;
    while (i < permits->count && permits->out[i].holder != holder)
        i++;
    return i;
}

static void take_out(struct weir_permits *permits, size_t i)
{
    weir_assert(i < permits->count);
    permits->count--;
    memmove(&permits->out[i], &permits->out[i + 1], (permits->count - i) * sizeof permits->out[0]);
}

/* Behind those that end sooner or at the same time. */
static void put_in(struct weir_permits *permits, struct weir_permit permit)
{
    weir_assert(permits->count < permits->max);
    weir_assert(permit.holder > 0 && permit.number > 0);
    size_t i = permits->count++;
    for (; i > 0 && permits->out[i - 1].end_ns > permit.end_ns; i--)
        permits->out[i] = permits->out[i - 1];
    permits->out[i] = permit;
    weir_assert(i == 0 || permits->out[i - 1].end_ns <= permit.end_ns);
    weir_assert(i + 1 == permits->count || permits->out[i + 1].end_ns > permit.end_ns);
}

/* A lease never becomes shorter: its holder goes by what it was told before. */
static void extend(struct weir_permits *permits, size_t i, uint64_t end_ns, struct weir_permit *ret_permit)
{
    struct weir_permit permit = permits->out[i];
    permit.end_ns = weir_max_u64(permit.end_ns, end_ns);
    take_out(permits, i);
    put_in(permits, permit);
    *ret_permit = permit;
    weir_assert(ret_permit->end_ns >= end_ns && ret_permit->number > 0);
}

size_t weir_permits_expire(struct weir_permits *permits, uint64_t now_ns)
{
    uint64_t now = see(permits, now_ns);
    size_t ended = 0;
    while (ended < permits->count && permits->out[ended].end_ns <= now)
        ended++;
    permits->count -= ended;
    memmove(permits->out, permits->out + ended, permits->count * sizeof permits->out[0]);
    weir_assert(permits->count == 0 || permits->out[0].end_ns > now);
    return permits->count;
}

enum weir_permits_answer weir_permits_take(struct weir_permits *permits, uint64_t holder, uint64_t next_number,
                                           uint64_t ttl_ns, uint64_t now_ns, struct weir_permit *ret_permit)
{
    weir_assert(holder > 0 && next_number > 0);
    weir_permits_expire(permits, now_ns);
    weir_assert(permits->seen_ns >= now_ns && permits->count <= permits->max);
    uint64_t end_ns = weir_add_sat(permits->seen_ns, ttl_ns);
    size_t i = find(permits, holder);
    if (i < permits->count) {
        extend(permits, i, end_ns, ret_permit);
        return WEIR_PERMITS_KEPT;
    }
    if (permits->count >= permits->max) {
        *ret_permit = permits->count > 0 ? permits->out[0] : (struct weir_permit){ 0 };
        return WEIR_PERMITS_HELD;
    }
    *ret_permit = (struct weir_permit){ .holder = holder, .number = next_number, .end_ns = end_ns };
    put_in(permits, *ret_permit);
    return WEIR_PERMITS_GRANTED;
}

bool weir_permits_renew(struct weir_permits *permits, uint64_t holder, uint64_t ttl_ns, uint64_t now_ns,
                        struct weir_permit *ret_permit)
{
    weir_permits_expire(permits, now_ns);
    size_t i = find(permits, holder);
    if (i == permits->count)
        return false;
    extend(permits, i, weir_add_sat(permits->seen_ns, ttl_ns), ret_permit);
    return true;
}

bool weir_permits_release(struct weir_permits *permits, uint64_t holder, uint64_t now_ns)
{
    weir_permits_expire(permits, now_ns);
    size_t i = find(permits, holder);
    if (i == permits->count)
        return false;
    take_out(permits, i);
    return true;
}

const struct weir_permit *weir_permits_of(const struct weir_permits *permits, uint64_t holder)
{
    size_t i = find(permits, holder);
    return i < permits->count ? &permits->out[i] : NULL;
}
