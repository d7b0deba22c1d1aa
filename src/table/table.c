/* SPDX-License-Identifier: Apache-2.0
 *
 * Creating the table, and holding its entries. */
#include "table/table.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "table/internal.h"

/* Grow when more than 7 slots in 10 are taken: above that too many keys live in their second line. */
#define LOAD_NUMERATOR 28
#define LOAD_DENOMINATOR 10
/* Splits for one newcomer: two, so that growth stays ahead; more where it found no place at all. */
#define GROW_USUAL 2
#define GROW_PRESSED 16
#define GROW_TRIES 32

int weir_table_init(struct weir_table *table, size_t bytes, uint64_t skew_max_ns, uint64_t now_ns,
                    weir_table_forgotten *forgotten, void *context)
{
    uint64_t lines_max = bytes / sizeof(struct weir_line);
    if (lines_max < 64)
        return WEIR_ERANGE;
    /* From the beginning there are four lines to a shard: with one, both homes of a key would be the same. */
    uint32_t bits = 63 - (uint32_t)__builtin_clzll(lines_max) - 2;
    if (bits > WEIR_TABLE_SHARD_BITS)
        bits = WEIR_TABLE_SHARD_BITS;
    weir_assert(skew_max_ns <= WEIR_TABLE_BACK_NS);
    weir_assert(bits >= 4 && UINT64_C(4) << bits <= lines_max);
    *table = (struct weir_table){
        .shard_bits = bits,
        .lines_max = lines_max,
        .count = UINT64_C(4) << bits,
        .mask = weir_table_mask_of(UINT64_C(4) << bits),
        .unused_bits = WEIR_TABLE_SHARD_BITS - bits,
        .base_ns = now_ns,
        .skew_max_ns = skew_max_ns,
        .mapped = lines_max * sizeof(struct weir_line),
        .forgotten = forgotten,
        .context = context,
        .kinds = calloc(WEIR_SLOT_LIMIT_MAX + 1, sizeof(struct weir_kind)),
        .unit_shares = calloc(WEIR_SLOT_LIMIT_MAX + 1, sizeof(uint64_t)),
        .shard_locks = calloc(UINT64_C(1) << bits, 1),
        .passed = calloc(WEIR_TABLE_PASSED, sizeof(uint64_t)),
    };
    void *memory = mmap(NULL, table->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                        0);
    if (memory == MAP_FAILED)
        memory = NULL;
    table->lines = memory;
    if (!table->lines || !table->kinds || !table->unit_shares || !table->shard_locks || !table->passed) {
        weir_table_deinit(table);
        return WEIR_ENOMEM;
    }
    /* Large pages halve the latency of a miss; it works without, too. The first 2 MB are small ones: to clear a large
     * page takes milliseconds, for which the first decision would wait. */
    if (table->mapped > WEIR_TABLE_PAGE)
        (void)madvise((char *)memory + WEIR_TABLE_PAGE, table->mapped - WEIR_TABLE_PAGE, MADV_HUGEPAGE);
    return 0;
}

void weir_table_deinit(struct weir_table *table)
{
#ifdef WEIR_DEBUG
    if (table->lines && table->kinds && table->unit_shares && table->shard_locks && table->passed)
        weir_table_check(table);
#endif
    if (table->lines)
        munmap(table->lines, table->mapped);
    free(table->kinds);
    free(table->unit_shares);
    free(table->shard_locks);
    free(table->passed);
    *table = (struct weir_table){ 0 };
}

/* Takes the lock bit of an entry that shows `seen`. */
static bool hold_seen(struct weir_table *table, struct weir_slot *slot, struct weir_pair seen,
                      struct weir_held *ret_held)
{
    if (weir_pair_locked(seen) || !weir_slot_swap(slot, seen, weir_pair_lock(seen)))
        return false;
    *ret_held = (struct weir_held){ .slot = slot, .pair = seen, .wide = weir_table_kind(table, seen).wide };
    if (ret_held->wide)
        weir_continuation_get(slot, &ret_held->a, &ret_held->b);
    weir_debug_assert(!ret_held->wide || (weir_slot_tag(&slot[1]) & WEIR_TAG_CONTINUATION));
    return true;
}

/* Puts a locked, fresh entry into an empty place, under the shard's lock. */
static void place_newcomer(struct weir_table *table, struct weir_slot_at place, uint64_t hash, uint32_t limit,
                           struct weir_kind kind, uint64_t now_ns, struct weir_held *ret_held)
{
    struct weir_slot *slot = &place.line->slot[place.index];
    weir_assert(weir_slot_tag(slot) == 0);
    weir_assert(!kind.wide || (place.index % 2 == 0 && weir_slot_tag(&slot[1]) == 0));
    weir_assert(place.number ==
                weir_table_home(table, hash, place.second, __atomic_load_n(&table->count, __ATOMIC_ACQUIRE)));
    struct weir_pair pair = weir_pair_make(hash, limit, weir_ticks_at(now_ns, kind.shift));
    pair = weir_pair_at_home(pair, place.second);
    *ret_held = (struct weir_held){ .slot = slot, .pair = pair, .wide = kind.wide, .newcomer = true };
    if (kind.wide)
        weir_continuation_set(slot, 0, 0);
    weir_slot_set(slot, weir_pair_lock(pair));
    weir_table_count(table, 1, kind.wide ? 2 : 1);
    __atomic_fetch_add(&table->inserted, 1, __ATOMIC_RELAXED);
}

/* WEIR_HOLD_ABSENT means "somebody else put it there meanwhile: look again". */
static enum weir_hold insert(struct weir_table *table, uint64_t hash, uint32_t limit, bool evict, uint64_t now_ns,
                             struct weir_held *ret_held, uint64_t *ret_wait_ns)
{
    struct weir_pair seen;
    struct weir_slot_at place;
    struct weir_shards shards;
    enum weir_hold result = WEIR_HOLD_ABSENT;
    weir_shards_lock(table, hash, &shards);
    if (!weir_table_find(table, hash, &seen)) {
        struct weir_kind kind = weir_table_kind_of(table, limit);
        result = weir_table_make_place(table, &shards, hash, kind.wide ? 2 : 1, evict, now_ns, &place, ret_wait_ns);
        if (result == WEIR_HOLD_OK)
            place_newcomer(table, place, hash, limit, kind, now_ns, ret_held);
    }
    weir_shards_unlock(table, &shards);
    weir_assert(result != WEIR_HOLD_OK || (ret_held->newcomer && weir_pair_limit(ret_held->pair) == limit));
    weir_assert(result != WEIR_HOLD_FULL || *ret_wait_ns > 0);
    return result;
}

static bool can_grow(const struct weir_table *table)
{
    return __atomic_load_n(&table->count, __ATOMIC_ACQUIRE) < table->lines_max;
}

enum weir_hold weir_table_hold(struct weir_table *table, uint64_t hash, uint32_t limit, enum weir_absent absent,
                               uint64_t now_ns, struct weir_held *ret_held, uint64_t *ret_wait_ns)
{
    unsigned spins = 0, grown = 0;
    weir_assert(absent == WEIR_ABSENT_LEAVE || (limit > 0 && limit <= WEIR_SLOT_LIMIT_MAX));
    for (;;) {
        struct weir_pair seen;
        struct weir_slot *slot = weir_table_find(table, hash, &seen);
        if (!slot && absent == WEIR_ABSENT_LEAVE) { /* on the move? only under the shards' locks is "none" sure */
            struct weir_shards shards;
            weir_shards_lock(table, hash, &shards);
            slot = weir_table_find(table, hash, &seen);
            weir_shards_unlock(table, &shards);
            if (!slot)
                return WEIR_HOLD_ABSENT;
        }
        if (slot) {
            if (hold_seen(table, slot, seen, ret_held))
                return WEIR_HOLD_OK;
            weir_relax(&spins);
            continue;
        }
        bool last_resort = !can_grow(table) || grown >= GROW_TRIES;
        enum weir_hold result = insert(table, hash, limit, absent == WEIR_ABSENT_INSERT && last_resort, now_ns,
                                       ret_held, ret_wait_ns);
        if (result == WEIR_HOLD_FULL && !last_resort) {
            grown++;
            weir_assert(grown <= GROW_TRIES);
            weir_table_grow(table, GROW_PRESSED, now_ns);
            sched_yield(); /* what filled the lines may be held by threads that were put aside */
            continue;
        }
        if (result == WEIR_HOLD_ABSENT)
            continue;
        if (result == WEIR_HOLD_OK && __atomic_load_n(&table->slots_used, __ATOMIC_RELAXED) * LOAD_DENOMINATOR >
                                          __atomic_load_n(&table->count, __ATOMIC_RELAXED) * LOAD_NUMERATOR)
            weir_table_grow(table, GROW_USUAL, now_ns);
        return result;
    }
}

void weir_table_release(struct weir_held *held, uint32_t limit, uint64_t fresh_at)
{
    weir_assert(fresh_at <= WEIR_TICKS_MASK);
    weir_debug_assert(weir_pair_locked(weir_slot_load(held->slot)));
    weir_debug_assert((weir_slot_tag(held->slot) ^ held->pair.tag) >> WEIR_TAG_LIMIT_BITS == 0);
    if (held->wide)
        weir_continuation_set(held->slot, held->a, held->b);
    weir_slot_set(held->slot, weir_pair_with(held->pair, limit, fresh_at));
}

void weir_table_drop(struct weir_table *table, struct weir_held *held)
{
    if (held->wide)
        weir_continuation_clear(held->slot);
    weir_assert(held->slot >= table->lines->slot && held->slot < table->lines[table->lines_max].slot);
    weir_assert(weir_pair_locked(weir_slot_load(held->slot))); /* it is ours to drop */
    weir_slot_set(held->slot, WEIR_PAIR_EMPTY);
    weir_table_count(table, -1, held->wide ? -2 : -1);
}

bool weir_table_widen(struct weir_table *table, struct weir_held *held, uint64_t now_ns)
{
    weir_assert(!held->wide);
    uint64_t number = (uint64_t)(held->slot - table->lines->slot) / WEIR_LINE_SLOTS, wait_ns;
    uint64_t hash = weir_table_hash_of(table, held->pair, number);
    weir_assert(number < __atomic_load_n(&table->count, __ATOMIC_ACQUIRE));
    struct weir_slot_at place;
    struct weir_shards shards;
    weir_shards_lock(table, hash, &shards);
    bool placed = weir_table_make_place(table, &shards, hash, 2, true, now_ns, &place, &wait_ns) == WEIR_HOLD_OK;
    if (placed) {
        struct weir_slot *slot = &place.line->slot[place.index];
        weir_assert(place.index % 2 == 0);
        weir_assert(slot != held->slot);
        weir_continuation_set(slot, 0, 0);
        held->pair = weir_pair_at_home(held->pair, place.second);
        weir_slot_set(slot, weir_pair_lock(held->pair));
        weir_slot_set(held->slot, WEIR_PAIR_EMPTY);
        weir_table_count(table, 0, 1);
        held->slot = slot;
        held->wide = true;
        held->a = held->b = 0;
    }
    weir_shards_unlock(table, &shards);
    return placed;
}

void weir_table_narrow(struct weir_table *table, struct weir_held *held)
{
    weir_assert(held->wide);
    weir_continuation_clear(held->slot);
    weir_table_count(table, 0, -1);
    held->wide = false;
}
