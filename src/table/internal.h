/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of table/ only. */
#pragma once

#include "table/table.h"

#define WEIR_TABLE_PAGE ((size_t)2 << 20) /* a large one */

/* An entry where it stands, or could. */
struct weir_slot_at {
    struct weir_line *line;
    uint64_t number; /* of the line */
    unsigned index;  /* of the slot, or of the main slot */
    bool second;     /* make_place: the line is the newcomer's second home */
};

static inline bool weir_tag_is_entry(uint64_t tag)
{
    return tag != 0 && !(tag & WEIR_TAG_CONTINUATION);
}

static inline struct weir_kind weir_table_kind(const struct weir_table *table, struct weir_pair pair)
{
    return weir_table_kind_of(table, weir_pair_limit(pair));
}

/* ns until fresh, negative since it was. Saturates. */
int64_t weir_table_until_fresh_ns(const struct weir_table *table, struct weir_pair pair, uint64_t now_ns);

/* What evicting the entry that shows `pair` in slot `index` would forgive, as a time: until it is fresh, times the
 * share of its capacity that its key has used; of a bucket just until it is fresh, for that grows with what was used.
 * Never more than the time until fresh, and as much for a key that has used up its limit. A guess if the entry changes
 * meanwhile. */
int64_t weir_table_forgiven_ns(const struct weir_table *table, const struct weir_line *line, unsigned index,
                               struct weir_pair pair, uint64_t now_ns);

static inline bool weir_table_dead(const struct weir_table *table, struct weir_pair pair, uint64_t now_ns)
{
    return weir_table_until_fresh_ns(table, pair, now_ns) < -(int64_t)table->skew_max_ns;
}

/* ---- shards' locks ---- */

#define WEIR_SHARDS_MAX 8 /* both homes of a newcomer, and one for each move that makes room for it */

/* The shards that we have locked. */
struct weir_shards {
    uint64_t shard[WEIR_SHARDS_MAX];
    unsigned count;
};

/* Locks the shards of both homes of `hash`. */
void weir_shards_lock(struct weir_table *table, uint64_t hash, struct weir_shards *ret_shards);
/* Tries to lock the shard of a line too, unless it is ours already. */
bool weir_shards_try(struct weir_table *table, uint64_t line_number, struct weir_shards *shards);
void weir_shards_unlock(struct weir_table *table, const struct weir_shards *shards);

/* The shard of one line alone. */
void weir_shard_lock(struct weir_table *table, uint64_t line_number);
void weir_shard_unlock(struct weir_table *table, uint64_t line_number);

/* The hash of an entry that stands in line `number`, as far as the table uses it. */
static inline uint64_t weir_table_hash_of(const struct weir_table *table, struct weir_pair pair, uint64_t number)
{
    weir_debug_assert(number < table->lines_max && weir_tag_is_entry(pair.tag));
    uint64_t shard = number & weir_table_shard_mask(table);
    uint64_t hash = (pair.tag & WEIR_TAG_KEY_MASK) | shard << (WEIR_TABLE_SHARD_BITS - table->shard_bits);
    /* The second's shard differs from the first's by the same bits that the first's does from the second's. */
    return pair.tag & WEIR_TAG_SECOND ? (hash & ~WEIR_TAG_LIMIT_MASK) | (weir_table_second(hash) & WEIR_TAG_LIMIT_MASK)
                                      : hash;
}

/* Slots become entries only under their shard's lock, so an empty one that its holder sees stays empty. */
#define WEIR_PAIR_EMPTY ((struct weir_pair){ 0, 0 })

/* Sets a slot that only we may change: locked by us, or empty under our shard's lock. */
static inline void weir_slot_set(struct weir_slot *slot, struct weir_pair next)
{
    weir_debug_assert(next.tag == 0 || weir_pair_limit(next) > 0);
    bool swapped = weir_slot_swap(slot, weir_slot_load(slot), next);
    weir_assert(swapped);
}

/* The continuation behind a main slot, which belongs to the holder of that. */
static inline void weir_continuation_get(const struct weir_slot *main, uint64_t *ret_a, uint64_t *ret_b)
{
    weir_debug_assert((uintptr_t)main % (2 * sizeof *main) == 0); /* at an even place: the next is of the same line */
    *ret_a = __atomic_load_n(&main[1].tag, __ATOMIC_RELAXED) & ~WEIR_TAG_CONTINUATION;
    *ret_b = __atomic_load_n(&main[1].word, __ATOMIC_RELAXED);
}

static inline void weir_continuation_set(struct weir_slot *main, uint64_t a, uint64_t b)
{
    weir_assert(!(a & WEIR_TAG_CONTINUATION)); /* 63 bits are all that there is room for */
    weir_assert(weir_slot_tag(&main[1]) == 0 || (weir_slot_tag(&main[1]) & WEIR_TAG_CONTINUATION));
    __atomic_store_n(&main[1].word, b, __ATOMIC_RELAXED);
    __atomic_store_n(&main[1].tag, a | WEIR_TAG_CONTINUATION, __ATOMIC_RELEASE);
}

static inline void weir_continuation_clear(struct weir_slot *main)
{
    weir_assert(weir_slot_tag(&main[1]) & WEIR_TAG_CONTINUATION);
    __atomic_store_n(&main[1].word, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&main[1].tag, 0, __ATOMIC_RELEASE);
}

/* Entries come (1, and -1 as they go) with their slots. */
static inline void weir_table_count(struct weir_table *table, int64_t entries, int64_t slots)
{
    uint64_t entries_now = __atomic_add_fetch(&table->entries, (uint64_t)entries, __ATOMIC_RELAXED);
    uint64_t slots_now = __atomic_add_fetch(&table->slots_used, (uint64_t)slots, __ATOMIC_RELAXED);
    weir_assert((int64_t)entries_now >= 0); /* each came before it went */
    weir_assert((int64_t)slots_now >= 0);
}

/* Takes an entry out, dead or evicted, if it still shows `seen` and nobody holds it. Tells `forgotten`. */
bool weir_place_clear(struct weir_table *table, struct weir_slot_at place, struct weir_pair seen, bool evicted,
                      uint64_t now_ns);

/* With the shards of both homes of `hash` locked: finds `width` slots for a newcomer there and empties them. */
enum weir_hold weir_table_make_place(struct weir_table *table, struct weir_shards *shards, uint64_t hash,
                                     unsigned width, bool evict, uint64_t now_ns, struct weir_slot_at *ret_place,
                                     uint64_t *ret_wait_ns);

/* In the ring `passed` beside a hash, which has 62 bits: there is one. */
#define WEIR_PASSED_NOTED (UINT64_C(1) << 63)

/* Splits up to `splits` lines. Without a shard's lock held. Returns how many were. */
unsigned weir_table_grow(struct weir_table *table, unsigned splits, uint64_t now_ns);
