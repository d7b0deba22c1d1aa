/* SPDX-License-Identifier: Apache-2.0
 *
 * An array in the order of the ends: what has ended is at its front, and a holder whose lease is extended is taken out
 * and put in again. Take, renew and release first drop what has ended. Called by the sqlite lock engine with n = 1
 * (locks/sqlite.c) and by sim/locks_store.c; the limits that give out permits are core/limit/concurrency.c. */
#include "core/lease/holders.h"

#include <string.h>

#include "base/checked.h"

static uint64_t see(struct weir_holders *holders, uint64_t now_ns)
{
    holders->seen_ns = weir_max_u64(holders->seen_ns, now_ns);
    return holders->seen_ns;
}

static size_t find(const struct weir_holders *holders, uint64_t id)
{
    size_t i = 0;
    while (i < holders->count && holders->out[i].id != id)
        i++;
    return i;
}

static void take_out(struct weir_holders *holders, size_t i)
{
    weir_assert(i < holders->count);
    holders->count--;
    memmove(&holders->out[i], &holders->out[i + 1], (holders->count - i) * sizeof holders->out[0]);
}

/* Behind those that end sooner or at the same time. */
static void put_in(struct weir_holders *holders, struct weir_lease_holder holder)
{
    weir_assert(holders->count < holders->max);
    weir_assert(holder.id > 0 && holder.number > 0);
    size_t i = holders->count++;
    for (; i > 0 && holders->out[i - 1].end_ns > holder.end_ns; i--)
        holders->out[i] = holders->out[i - 1];
    holders->out[i] = holder;
    weir_assert(i == 0 || holders->out[i - 1].end_ns <= holder.end_ns);
    weir_assert(i + 1 == holders->count || holders->out[i + 1].end_ns > holder.end_ns);
}

/* A lease never becomes shorter: its holder goes by what it was told before. */
static void extend(struct weir_holders *holders, size_t i, uint64_t end_ns, struct weir_lease_holder *ret_holder)
{
    struct weir_lease_holder holder = holders->out[i];
    holder.end_ns = weir_max_u64(holder.end_ns, end_ns);
    take_out(holders, i);
    put_in(holders, holder);
    *ret_holder = holder;
    weir_assert(ret_holder->end_ns >= end_ns && ret_holder->number > 0);
}

size_t weir_holders_expire(struct weir_holders *holders, uint64_t now_ns)
{
    uint64_t now = see(holders, now_ns);
    size_t ended = 0;
    while (ended < holders->count && holders->out[ended].end_ns <= now)
        ended++;
    holders->count -= ended;
    memmove(holders->out, holders->out + ended, holders->count * sizeof holders->out[0]);
    weir_assert(holders->count == 0 || holders->out[0].end_ns > now);
    return holders->count;
}

enum weir_holders_answer weir_holders_take(struct weir_holders *holders, uint64_t id, uint64_t next_number,
                                           uint64_t ttl_ns, uint64_t now_ns, struct weir_lease_holder *ret_holder)
{
    weir_assert(id > 0 && next_number > 0);
    weir_holders_expire(holders, now_ns);
    weir_assert(holders->seen_ns >= now_ns && holders->count <= holders->max);
    uint64_t end_ns = weir_add_sat(holders->seen_ns, ttl_ns);
    size_t i = find(holders, id);
    if (i < holders->count) {
        extend(holders, i, end_ns, ret_holder);
        return WEIR_HOLDERS_KEPT;
    }
    if (holders->count >= holders->max) {
        *ret_holder = holders->count > 0 ? holders->out[0] : (struct weir_lease_holder){ 0 };
        return WEIR_HOLDERS_HELD;
    }
    *ret_holder = (struct weir_lease_holder){ .id = id, .number = next_number, .end_ns = end_ns };
    put_in(holders, *ret_holder);
    return WEIR_HOLDERS_GRANTED;
}

bool weir_holders_renew(struct weir_holders *holders, uint64_t id, uint64_t ttl_ns, uint64_t now_ns,
                        struct weir_lease_holder *ret_holder)
{
    weir_holders_expire(holders, now_ns);
    size_t i = find(holders, id);
    if (i == holders->count)
        return false;
    extend(holders, i, weir_add_sat(holders->seen_ns, ttl_ns), ret_holder);
    return true;
}

bool weir_holders_release(struct weir_holders *holders, uint64_t id, uint64_t now_ns)
{
    weir_holders_expire(holders, now_ns);
    size_t i = find(holders, id);
    if (i == holders->count)
        return false;
    take_out(holders, i);
    return true;
}

const struct weir_lease_holder *weir_holders_of(const struct weir_holders *holders, uint64_t id)
{
    size_t i = find(holders, id);
    return i < holders->count ? &holders->out[i] : NULL;
}
