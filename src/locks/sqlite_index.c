/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash table (hash.c) finds the entry of a lock by its name, and a list links the dirty entries. A sweep looks at
 * four buckets, and the next one goes on behind them. Called by sqlite.c, which decides; sqlite_store.c adds the rows
 * that it reads, and walks the table to write all of it anew. */
#include "locks/sqlite_index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "weir/error.h"

#define SWEEP_BUCKETS 4

static struct weir_sqlite_entry *entry_of(struct weir_hash_node *node)
{
    return (struct weir_sqlite_entry *)node; /* its first member */
}

int weir_sqlite_index_init(struct weir_sqlite_index *index)
{
    uint8_t secret[16];
    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
        return WEIR_EIO;
    *index = (struct weir_sqlite_index){ .key = weir_sip_key_load(secret) };
    return weir_hash_init(&index->table);
}

void weir_sqlite_index_deinit(struct weir_sqlite_index *index)
{
    for (size_t i = 0; index->table.buckets && i <= index->table.mask; i++)
        for (struct weir_hash_node *node = weir_hash_chain(&index->table, i), *next; node; node = next) {
            next = node->next;
            free(entry_of(node));
        }
    weir_hash_deinit(&index->table);
}

struct weir_sqlite_entry *weir_sqlite_index_find(const struct weir_sqlite_index *index, struct weir_slice name)
{
    uint64_t hash = weir_siphash(&index->key, name.data, name.size);
    struct weir_hash_node *node = weir_hash_first(&index->table, hash);
    for (; node; node = weir_hash_next(node)) {
        struct weir_sqlite_entry *entry = entry_of(node);
        if (entry->name_size == name.size && memcmp(entry->name, name.data, name.size) == 0)
            return entry;
    }
    return NULL;
}

struct weir_sqlite_entry *weir_sqlite_index_add(struct weir_sqlite_index *index, struct weir_slice name)
{
    struct weir_sqlite_entry *entry = malloc(sizeof *entry + name.size);
    if (!entry)
        return NULL;
    memset(entry, 0, sizeof *entry);
    entry->holders = (struct weir_holders){ .out = &entry->holder, .max = 1 };
    entry->name_size = name.size;
    memcpy(entry->name, name.data, name.size);
    weir_hash_add(&index->table, &entry->node, weir_siphash(&index->key, name.data, name.size));
    return entry;
}

void weir_sqlite_index_touch(struct weir_sqlite_index *index, struct weir_sqlite_entry *entry)
{
    if (entry->dirty)
        return;
    entry->dirty = true;
    entry->dirty_next = index->dirty;
    index->dirty = entry;
}

void weir_sqlite_index_sweep(struct weir_sqlite_index *index, uint64_t now_ns)
{
    for (size_t i = 0; i < SWEEP_BUCKETS; i++)
        for (struct weir_hash_node *node = weir_hash_chain(&index->table, index->sweep++); node; node = node->next)
            if (weir_holders_expire(&entry_of(node)->holders, now_ns) == 0)
                weir_sqlite_index_touch(index, entry_of(node));
}

uint64_t weir_sqlite_index_held(const struct weir_sqlite_index *index, uint64_t now_ns)
{
    uint64_t held = 0;
    if (index->table.count > WEIR_SQLITE_COUNTED)
        return index->table.count;
    for (size_t i = 0; i <= index->table.mask; i++)
        for (const struct weir_hash_node *node = weir_hash_chain(&index->table, i); node; node = node->next) {
            const struct weir_sqlite_entry *entry = (const struct weir_sqlite_entry *)node;
            held += entry->holders.count > 0 && now_ns < entry->holder.end_ns;
        }
    return held;
}

/* Off the dirty list already. */
static void free_entry(struct weir_sqlite_index *index, struct weir_sqlite_entry *entry)
{
    weir_hash_remove(&index->table, &entry->node);
    free(entry);
}

struct weir_sqlite_entry *weir_sqlite_index_take(struct weir_sqlite_index *index)
{
    struct weir_sqlite_entry *taken = index->dirty;
    index->dirty = NULL;
    return taken;
}

void weir_sqlite_index_return(struct weir_sqlite_index *index, struct weir_sqlite_entry *taken)
{
    struct weir_sqlite_entry **end = &index->dirty;
    while (*end)
        end = &(*end)->dirty_next;
    *end = taken;
}

void weir_sqlite_index_clean(struct weir_sqlite_index *index, struct weir_sqlite_entry *taken)
{
    while (taken) {
        struct weir_sqlite_entry *entry = taken;
        taken = entry->dirty_next;
        entry->dirty = entry->fresh = false;
        if (entry->holders.count == 0)
            free_entry(index, entry);
    }
}

void weir_sqlite_index_forget(struct weir_sqlite_index *index)
{
    for (struct weir_sqlite_entry **at = &index->dirty, *entry; (entry = *at);) {
        if (entry->holders.count > 0) {
            at = &entry->dirty_next;
            continue;
        }
        *at = entry->dirty_next;
        free_entry(index, entry);
    }
}

uint64_t weir_sqlite_entry_holder(const struct weir_sqlite_entry *entry, struct weir_slice owner)
{
    bool same = entry->owner_size == owner.size && memcmp(entry->owner, owner.data, owner.size) == 0;
    return same ? 1 : 2;
}
