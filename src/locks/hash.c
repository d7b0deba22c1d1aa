/* SPDX-License-Identifier: Apache-2.0
 *
 * The table is an array of buckets with chains. It has 64 buckets at first, doubles when there are more members than
 * buckets, and never shrinks. A node keeps its member's hash, so growing needs no key. Used by the manager (manager.c,
 * manager_queue.c, manager_claim.c) and by the sqlite engine (sqlite_index.c). */
#include "locks/hash.h"

#include <stdlib.h>

#include "base/assert.h"
#include "weir/error.h"

#define BUCKETS_FIRST 64

int weir_hash_init(struct weir_hash *table)
{
    struct weir_hash_node **buckets = calloc(BUCKETS_FIRST, sizeof *buckets);
    if (!buckets)
        return WEIR_ENOMEM;
    *table = (struct weir_hash){ .buckets = buckets, .mask = BUCKETS_FIRST - 1 };
    return 0;
}

void weir_hash_deinit(struct weir_hash *table)
{
    free(table->buckets);
    *table = (struct weir_hash){ 0 };
}

static void grow(struct weir_hash *table)
{
    size_t mask = 2 * table->mask + 1;
    struct weir_hash_node **buckets = calloc(mask + 1, sizeof *buckets);
    if (!buckets)
        return;
    for (size_t i = 0; i <= table->mask; i++)
        for (struct weir_hash_node *node = table->buckets[i], *next; node; node = next) {
            next = node->next;
            node->next = buckets[node->hash & mask];
            buckets[node->hash & mask] = node;
        }
    free(table->buckets);
    table->buckets = buckets;
    table->mask = mask;
}

void weir_hash_add(struct weir_hash *table, struct weir_hash_node *node, uint64_t hash)
{
    if (table->count > table->mask)
        grow(table);
    struct weir_hash_node **bucket = &table->buckets[hash & table->mask];
    *node = (struct weir_hash_node){ .next = *bucket, .hash = hash };
    *bucket = node;
    table->count++;
}

void weir_hash_remove(struct weir_hash *table, struct weir_hash_node *node)
{
    struct weir_hash_node **at = &table->buckets[node->hash & table->mask];
    while (*at != node) {
        weir_assert(*at);
        at = &(*at)->next;
    }
    *at = node->next;
    table->count--;
}

static struct weir_hash_node *skip(struct weir_hash_node *node, uint64_t hash)
{
    while (node && node->hash != hash)
        node = node->next;
    return node;
}

struct weir_hash_node *weir_hash_first(const struct weir_hash *table, uint64_t hash)
{
    return skip(table->buckets[hash & table->mask], hash);
}

struct weir_hash_node *weir_hash_next(const struct weir_hash_node *node)
{
    return skip(node->next, node->hash);
}
