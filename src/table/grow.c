/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes through the table in the order of its lines: growing, walking, rebasing. */
#include "table/internal.h"

/* Whether the entry must leave line `number` once there are `count` lines. */
static bool must_move(const struct weir_table *table, struct weir_pair pair, uint64_t number, uint64_t count)
{
    uint64_t hash = weir_table_hash_of(table, pair, number);
    return weir_table_home(table, hash, pair.tag & WEIR_TAG_SECOND, count) != number;
}

/* Locks every entry of `line` that must move; a bit each. False, with none locked, if somebody holds one. */
static bool lock_movers(struct weir_table *table, struct weir_slot_at place, uint64_t count, uint64_t now_ns,
                        unsigned *ret_movers)
{
    unsigned movers = 0;
    weir_assert(place.line == &table->lines[place.number] && place.number < count);
    for (unsigned i = 0; i < WEIR_LINE_SLOTS; i++) {
        struct weir_slot *slot = &place.line->slot[i];
        struct weir_pair pair = weir_slot_load(slot);
        place.index = i;
        if (!weir_tag_is_entry(pair.tag) || !must_move(table, pair, place.number, count))
            continue;
        if (!weir_pair_locked(pair) && weir_table_dead(table, pair, now_ns) &&
            weir_place_clear(table, place, pair, false, now_ns))
            continue;
        if (weir_pair_locked(pair) || !weir_slot_swap(slot, pair, weir_pair_lock(pair))) {
            for (unsigned j = 0; j < i; j++)
                if (movers >> j & 1)
                    weir_slot_set(&place.line->slot[j], weir_pair_unlock(weir_slot_load(&place.line->slot[j])));
            return false;
        }
        movers |= 1u << i;
    }
    *ret_movers = movers;
    return true;
}

/* Splits line count - 2^k into itself and line `count`, which nobody can see until the count says so. Until the old
 * copies are cleared they are locked, so a decision that still sees one waits and looks again. */
static bool split(struct weir_table *table, uint64_t now_ns)
{
    uint64_t count = __atomic_load_n(&table->count, __ATOMIC_ACQUIRE);
    uint64_t number = count & (UINT64_MAX >> __builtin_clzll(count)) >> 1;
    struct weir_line *line = &table->lines[number], *fresh = &table->lines[count];
    unsigned movers;
    weir_assert(count >= UINT64_C(4) << table->shard_bits && count < table->lines_max);
    weir_assert(number < count && ((number ^ count) & weir_table_shard_mask(table)) == 0); /* one lock for both */
    weir_shard_lock(table, number);
    bool locked = lock_movers(table, (struct weir_slot_at){ line, number, 0, false }, count + 1, now_ns, &movers);
    if (locked) {
        for (unsigned i = 0; i < WEIR_LINE_SLOTS; i++) {
            if (!(movers >> i & 1))
                continue;
            struct weir_pair pair = weir_pair_unlock(weir_slot_load(&line->slot[i]));
            weir_assert(weir_slot_tag(&fresh->slot[i]) == 0);
            weir_assert(!must_move(table, pair, count, count + 1)); /* there it is at home */
            if (weir_table_kind(table, pair).wide) {
                uint64_t a, b;
                weir_continuation_get(&line->slot[i], &a, &b);
                weir_continuation_set(&fresh->slot[i], a, b);
            }
            weir_slot_set(&fresh->slot[i], pair);
        }
        weir_assert(__atomic_load_n(&table->count, __ATOMIC_RELAXED) == count); /* nobody else grows */
        __atomic_store_n(&table->count, count + 1, __ATOMIC_RELEASE);
        __atomic_store_n(&table->mask, weir_table_mask_of(count + 1), __ATOMIC_RELEASE);
        for (unsigned i = 0; i < WEIR_LINE_SLOTS; i++) {
            if (!(movers >> i & 1))
                continue;
            if (weir_table_kind(table, weir_slot_load(&line->slot[i])).wide)
                weir_continuation_clear(&line->slot[i]);
            weir_slot_set(&line->slot[i], WEIR_PAIR_EMPTY);
        }
    }
    weir_shard_unlock(table, number);
    return locked;
}

unsigned weir_table_grow(struct weir_table *table, unsigned splits, uint64_t now_ns)
{
    unsigned done = 0;
    if (__atomic_exchange_n(&table->growing, 1, __ATOMIC_ACQUIRE))
        return 0;
    while (done < splits && __atomic_load_n(&table->count, __ATOMIC_RELAXED) < table->lines_max && split(table, now_ns))
        done++;
    weir_assert(done <= splits && __atomic_load_n(&table->growing, __ATOMIC_RELAXED) == 1);
    __atomic_store_n(&table->growing, 0, __ATOMIC_RELEASE);
    return done;
}

/* As far ahead as the table is large, and a large page at most. */
void weir_table_prefault(struct weir_table *table)
{
    const uint64_t count = __atomic_load_n(&table->count, __ATOMIC_RELAXED);
    const uint64_t page_lines = WEIR_TABLE_PAGE / sizeof(struct weir_line);
    const uint64_t ahead = count + (count < page_lines ? count : page_lines);
    if (ahead >= table->lines_max)
        return;
    /* Writing the nothing that is there, in one step, is harmless whoever uses the line. */
    for (uint64_t i = count; i < ahead; i += 64) {
        weir_assert(i < table->lines_max);
        if (weir_slot_tag(&table->lines[i].slot[0]) == 0)
            (void)weir_slot_swap(&table->lines[i].slot[0], WEIR_PAIR_EMPTY, WEIR_PAIR_EMPTY);
    }
}

/* Holds the entry at a place for the walk, waiting for whoever holds it, also where it then need not be. False if there
 * is none, or it need not be. */
static bool hold_wanted(struct weir_table *table, struct weir_slot_at place, uint64_t now_ns,
                        bool (*wanted)(void *, uint32_t), void *context, struct weir_held *ret_held)
{
    struct weir_slot *slot = &place.line->slot[place.index];
    unsigned spins = 0;
    for (;; weir_relax(&spins)) {
        struct weir_pair pair = weir_slot_load(slot);
        if (!weir_tag_is_entry(pair.tag))
            return false;
        if (weir_pair_locked(pair)) /* nobody knows what it will be */
            continue;
        bool dead = weir_table_dead(table, pair, now_ns), show = wanted && wanted(context, weir_pair_limit(pair));
        if (!dead && !show)
            return false;
        weir_shard_lock(table, place.number);
        bool ours = dead && !show ? weir_place_clear(table, place, pair, false, now_ns)
                                  : weir_slot_swap(slot, pair, weir_pair_lock(pair));
        weir_shard_unlock(table, place.number);
        if (!ours)
            continue;
        if (dead && !show)
            return false;
        weir_assert(!weir_table_kind(table, pair).wide || place.index % 2 == 0);
        *ret_held = (struct weir_held){ .slot = slot, .pair = pair, .wide = weir_table_kind(table, pair).wide };
        if (ret_held->wide)
            weir_continuation_get(slot, &ret_held->a, &ret_held->b);
        return true;
    }
}

bool weir_table_walk(struct weir_table *table, uint64_t *cursor, size_t lines_max, uint64_t now_ns,
                     bool (*wanted)(void *context, uint32_t limit), weir_table_visitor *visitor, void *context)
{
    weir_assert(*cursor <= table->lines_max);
    weir_assert(*cursor == 0 || __atomic_load_n(&table->walking, __ATOMIC_RELAXED)); /* it goes on, it was not ended */
    if (*cursor == 0)
        __atomic_store_n(&table->walking, 1, __ATOMIC_RELAXED);
    while (lines_max-- > 0) {
        if (*cursor >= __atomic_load_n(&table->count, __ATOMIC_ACQUIRE)) {
            __atomic_store_n(&table->walking, 0, __ATOMIC_RELAXED);
            *cursor = 0;
            return false;
        }
        struct weir_slot_at place = { &table->lines[*cursor], *cursor, 0, false };
        /* Whoever was moving an entry here when the walk began is done after this. */
        weir_shard_lock(table, place.number);
        weir_shard_unlock(table, place.number);
        for (; place.index < WEIR_LINE_SLOTS; place.index++) {
            struct weir_held held;
            if (hold_wanted(table, place, now_ns, wanted, context, &held))
                visitor(context, &held);
        }
        ++*cursor;
    }
    return true;
}

bool weir_table_hold_any(struct weir_table *table, uint64_t *cursor, size_t lines, uint64_t now_ns,
                         struct weir_held *ret_held)
{
    struct weir_slot *best = NULL;
    struct weir_pair best_pair = WEIR_PAIR_EMPTY;
    int64_t best_forgiven = INT64_MAX;
    uint64_t count = __atomic_load_n(&table->count, __ATOMIC_ACQUIRE);
    for (size_t n = 0; n < lines && n < count; n++, ++*cursor) {
        struct weir_line *line = &table->lines[*cursor % count];
        for (unsigned i = 0; i < WEIR_LINE_SLOTS; i++) {
            struct weir_pair pair = weir_slot_load(&line->slot[i]);
            if (!weir_tag_is_entry(pair.tag) || weir_pair_locked(pair) || !weir_table_kind(table, pair).notified)
                continue;
            if (weir_table_kind(table, pair).kept && !weir_table_dead(table, pair, now_ns))
                continue;
            weir_assert(weir_table_kind(table, pair).wide && i % 2 == 0);
            int64_t forgiven = weir_table_forgiven_ns(table, line, i, pair, now_ns);
            if (forgiven < best_forgiven) {
                best_forgiven = forgiven;
                best = &line->slot[i];
                best_pair = pair;
            }
        }
    }
    if (!best || !weir_slot_swap(best, best_pair, weir_pair_lock(best_pair)))
        return false;
    *ret_held = (struct weir_held){ .slot = best, .pair = best_pair, .wide = true };
    weir_continuation_get(best, &ret_held->a, &ret_held->b);
    return true;
}

/* The same point in time for a table whose base moves from `base` to `now`, or dead. */
static bool rebased(const struct weir_table *table, struct weir_pair pair, uint64_t base_ns, uint64_t now_ns,
                    struct weir_pair *ret_pair)
{
    __extension__ typedef __int128 wide;
    int32_t shift = weir_table_kind(table, pair).shift;
    wide passed = shift >= 0 ? ((wide)now_ns - (wide)base_ns) * ((wide)1 << shift)
                             : (wide)(now_ns >> -shift) - (wide)(base_ns >> -shift);
    wide ahead = weir_ticks_ahead(weir_pair_fresh_at(pair), weir_ticks_at(base_ns, shift)) - passed;
    if (ahead < -(wide)weir_ticks_of(table->skew_max_ns, shift, WEIR_TICKS_SPAN_MAX))
        return false;
    if (ahead > (wide)WEIR_TICKS_DEBT_MAX)
        ahead = (wide)WEIR_TICKS_DEBT_MAX;
    weir_assert(ahead >= -(wide)WEIR_TICKS_SPAN_MAX && ahead <= (wide)WEIR_TICKS_DEBT_MAX);
    uint64_t fresh_at = weir_ticks_at(now_ns, shift) + (uint64_t)(int64_t)ahead;
    *ret_pair = weir_pair_with(pair, weir_pair_limit(pair), fresh_at);
    return true;
}

static void rebase_slot(struct weir_table *table, struct weir_slot_at place, uint64_t base_ns, uint64_t now_ns)
{
    struct weir_slot *slot = &place.line->slot[place.index];
    unsigned spins = 0;
    for (;; weir_relax(&spins)) {
        struct weir_pair pair = weir_slot_load(slot), next;
        if (!weir_tag_is_entry(pair.tag))
            return;
        if (weir_pair_locked(pair))
            continue;
        weir_shard_lock(table, place.number);
        bool done = rebased(table, pair, base_ns, now_ns, &next) ? weir_slot_swap(slot, pair, next)
                                                                 : weir_place_clear(table, place, pair, false, now_ns);
        weir_shard_unlock(table, place.number);
        if (done)
            return;
    }
}

void weir_table_rebase(struct weir_table *table, uint64_t now_ns)
{
    uint64_t base_ns = __atomic_load_n(&table->base_ns, __ATOMIC_RELAXED);
    unsigned spins = 0;
    /* No entry may move meanwhile, or it might be met twice. */
    while (__atomic_exchange_n(&table->growing, 1, __ATOMIC_ACQUIRE))
        weir_relax(&spins);
    uint8_t walking = __atomic_exchange_n(&table->walking, 1, __ATOMIC_RELAXED);
    for (uint64_t shard = 0; shard <= weir_table_shard_mask(table); shard++) {
        weir_shard_lock(table, shard); /* whoever was moving an entry is done after this */
        weir_shard_unlock(table, shard);
    }
    uint64_t count = __atomic_load_n(&table->count, __ATOMIC_ACQUIRE);
    for (uint64_t n = 0; n < count; n++)
        for (unsigned i = 0; i < WEIR_LINE_SLOTS; i++)
            rebase_slot(table, (struct weir_slot_at){ &table->lines[n], n, i, false }, base_ns, now_ns);
    weir_assert(__atomic_load_n(&table->count, __ATOMIC_ACQUIRE) == count); /* or lines were left behind */
    weir_assert(__atomic_load_n(&table->base_ns, __ATOMIC_RELAXED) == base_ns);
    __atomic_store_n(&table->base_ns, now_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&table->walking, walking, __ATOMIC_RELAXED);
    __atomic_store_n(&table->growing, 0, __ATOMIC_RELEASE);
}
