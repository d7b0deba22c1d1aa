/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the whole table while others decide: each line in its turn, without a lock on what one look tells whole. An
 * entry that moves meanwhile from where the reading has not been to where it has is noted by who moves it (room.c),
 * and looked for by its hash. Called by limits/snapshot_write.c. */
#include "table/internal.h"

/* Shows those that have been noted so far, wherever they are by now. False: not all, for want of room. */
static bool read_passed(struct weir_table *table, weir_table_reader *reader, void *context)
{
    uint64_t head = __atomic_load_n(&table->passed_head, __ATOMIC_ACQUIRE);
    unsigned spins = 0;
    bool room = true;
    while (room && table->passed_tail != head) {
        uint64_t *slot = &table->passed[table->passed_tail % WEIR_TABLE_PASSED], noted, wait_ns;
        struct weir_held held;
        while ((noted = __atomic_load_n(slot, __ATOMIC_ACQUIRE)) == 0) /* its place is taken, it comes at once */
            weir_relax(&spins);
        __atomic_store_n(slot, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&table->passed_tail, table->passed_tail + 1, __ATOMIC_RELEASE);
        if (weir_table_hold(table, noted & ~WEIR_PASSED_NOTED, 0, WEIR_ABSENT_LEAVE, 0, &held, &wait_ns) !=
            WEIR_HOLD_OK)
            continue;
        room = reader(context, noted & ~WEIR_PASSED_NOTED, &held);
        weir_table_release(&held, weir_pair_limit(held.pair), weir_pair_fresh_at(held.pair));
    }
    return room;
}

/* Shows the entry at a place, once nobody holds it. */
static bool read_slot(struct weir_table *table, struct weir_slot_at place, weir_table_reader *reader, void *context)
{
    struct weir_slot *slot = &place.line->slot[place.index];
    unsigned spins = 0;
    for (;; weir_relax(&spins)) {
        struct weir_pair pair = weir_slot_load(slot);
        if (!weir_tag_is_entry(pair.tag))
            return true;
        if (weir_pair_locked(pair)) /* nobody knows what it will be */
            continue;
        struct weir_held seen = { .slot = slot, .pair = pair, .wide = weir_table_kind(table, pair).wide };
        uint64_t hash = weir_table_hash_of(table, pair, place.number);
        if (!seen.wide)
            return reader(context, hash, &seen);
        if (!weir_slot_swap(slot, pair, weir_pair_lock(pair)))
            continue;
        weir_assert(place.index % 2 == 0);
        weir_continuation_get(slot, &seen.a, &seen.b);
        bool room = reader(context, hash, &seen);
        weir_slot_set(slot, pair);
        return room;
    }
}

bool weir_table_read(struct weir_table *table, uint64_t *cursor, size_t lines_max, weir_table_reader *reader,
                     void *context)
{
    weir_assert(*cursor <= table->lines_max);
    weir_assert(*cursor == __atomic_load_n(&table->read_to, __ATOMIC_RELAXED)); /* one at a time */
    bool room = true;
    while (room && lines_max-- > 0) {
        if (*cursor >= __atomic_load_n(&table->count, __ATOMIC_ACQUIRE)) {
            if (!read_passed(table, reader, context))
                return true;
            weir_table_read_end(table, cursor);
            return false;
        }
        struct weir_slot_at place = { &table->lines[*cursor], *cursor, 0, false };
        __atomic_store_n(&table->read_to, ++*cursor, __ATOMIC_RELAXED);
        /* Whoever was moving an entry here and knew nothing of that is done after this. */
        weir_shard_lock(table, place.number);
        weir_shard_unlock(table, place.number);
        for (; place.index < WEIR_LINE_SLOTS; place.index++)
            room = read_slot(table, place, reader, context) && room;
    }
    if (room)
        (void)read_passed(table, reader, context);
    return true;
}

static bool show_nobody(void *context, uint64_t hash, const struct weir_held *seen)
{
    (void)context, (void)hash, (void)seen;
    return true;
}

void weir_table_read_end(struct weir_table *table, uint64_t *cursor)
{
    __atomic_store_n(&table->read_to, 0, __ATOMIC_RELAXED);
    (void)read_passed(table, show_nobody, NULL);
    *cursor = 0;
}
