/* SPDX-License-Identifier: Apache-2.0
 *
 * The locks of shards, one byte each, taken where entries come or move: by table.c for a newcomer, by room.c for who
 * makes room, by grow.c for a line that is split. Who decides on an entry that is there takes none of them. */
#include "table/internal.h"

static uint8_t *shard_lock_of(struct weir_table *table, uint64_t line_number)
{
    return &table->shard_locks[line_number & ((UINT64_C(1) << table->shard_bits) - 1)];
}

void weir_shard_lock(struct weir_table *table, uint64_t line_number)
{
    unsigned spins = 0;
    while (__atomic_exchange_n(shard_lock_of(table, line_number), 1, __ATOMIC_ACQUIRE))
        weir_relax(&spins);
}

void weir_shard_unlock(struct weir_table *table, uint64_t line_number)
{
    weir_assert(__atomic_load_n(shard_lock_of(table, line_number), __ATOMIC_RELAXED) == 1);
    __atomic_store_n(shard_lock_of(table, line_number), 0, __ATOMIC_RELEASE);
}

void weir_shards_lock(struct weir_table *table, uint64_t hash, struct weir_shards *ret_shards)
{
    uint64_t first = weir_table_shard_of(table, hash), second = weir_table_shard_of(table, weir_table_second(hash));
    ret_shards->count = 0;
    ret_shards->shard[ret_shards->count++] = first < second ? first : second;
    if (first != second)
        ret_shards->shard[ret_shards->count++] = first < second ? second : first;
    /* In one order for all, or two would wait for each other. */
    weir_assert(ret_shards->count == 1 || ret_shards->shard[0] < ret_shards->shard[1]);
    for (unsigned i = 0; i < ret_shards->count; i++)
        weir_shard_lock(table, ret_shards->shard[i]);
}

bool weir_shards_try(struct weir_table *table, uint64_t line_number, struct weir_shards *shards)
{
    weir_assert(shards->count >= 1 && shards->count <= WEIR_SHARDS_MAX);
    uint64_t shard = line_number & weir_table_shard_mask(table);
    for (unsigned i = 0; i < shards->count; i++)
        if (shards->shard[i] == shard)
            return true;
    if (shards->count == WEIR_SHARDS_MAX || __atomic_exchange_n(shard_lock_of(table, shard), 1, __ATOMIC_ACQUIRE))
        return false;
    shards->shard[shards->count++] = shard;
    return true;
}

void weir_shards_unlock(struct weir_table *table, const struct weir_shards *shards)
{
    for (unsigned i = 0; i < shards->count; i++)
        weir_shard_unlock(table, shards->shard[i]);
}
