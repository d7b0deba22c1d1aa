/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash table of what lies elsewhere: links live in its members. It knows hashes only; whether a member is the one
 * sought is the caller's to say, by its bytes. Thread rule: one thread.
 * */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct weir_hash_node {
    struct weir_hash_node *next;
    uint64_t hash;
};

struct weir_hash {
    struct weir_hash_node **buckets;
    size_t mask; /* buckets - 1 */
    size_t count;
};

int weir_hash_init(struct weir_hash *table); /* WEIR_ENOMEM */
void weir_hash_deinit(struct weir_hash *table);

/* Never fails: when there is no memory to grow, chains become longer. */
void weir_hash_add(struct weir_hash *table, struct weir_hash_node *node, uint64_t hash);
void weir_hash_remove(struct weir_hash *table, struct weir_hash_node *node);

/* The members with this hash, one after the other; NULL at the end. */
struct weir_hash_node *weir_hash_first(const struct weir_hash *table, uint64_t hash);
struct weir_hash_node *weir_hash_next(const struct weir_hash_node *node);

/* The chain of a bucket, for walks: `cursor` is taken modulo their number. */
static inline struct weir_hash_node *weir_hash_chain(const struct weir_hash *table, size_t cursor)
{
    return table->buckets[cursor & table->mask];
}
