/* SPDX-License-Identifier: Apache-2.0
 *
 * The concurrent, bounded, keyed memory under the memory engine.
 *
 * Shape: lines of four 16-byte slots. A key has two lines to live in, both decided by its hash. The table grows by
 * linear hashing (Litwin, 1980), one line at a time: line N - 2^k is split into itself and line N. So there is no
 * pause,
 * no second copy and no wasted half: a constant number of bytes a key from the first to the last. Address space is
 * reserved once, pages are touched as the table grows.
 *
 * Shards: the low bits of a line's number come from the hash and never change as the table grows. They name the lock
 * under which entries come to the line, leave it and move: a newcomer needs those of both its lines, so none is ever
 * inserted twice. A decision on a resident takes no such lock: it swaps the slot, or holds the slot's own lock bit.
 * A slot's tag and its line's number together give back the key's hash, so that the key itself is not kept.
 *
 * Locks, in order: slot locks in ascending order of hash; under them shards' locks in ascending order; under those,
 * slots and further shards are only tried.
 *
 * A slot is dead, free for reuse without notice, once it has been fresh for skew_max. When all slots that could take a
 * newcomer are live, one is moved to its other line if that has room; else the table grows; else the resident goes of
 * whom least would be forgiven (weir_table_forgiven_ns). Entries of a `kept` limit never do: where only they stand a
 * newcomer is refused.
 *
 * Time: slots compare with `now` only within WEIR_TABLE_BACK_NS and WEIR_TABLE_AHEAD_NS of the table's base, which
 * weir_table_walk moves along; outside, weir_table_rebase must run first. */
#pragma once

#include <stddef.h>

#include "base/assert.h"
#include "table/slot.h"
#include "weir/error.h"

#define WEIR_TABLE_SHARD_BITS 12
#define WEIR_TABLE_PASSED 4096 /* a power of two */
#define WEIR_TABLE_REACH_SHIFT 46
#define WEIR_TABLE_BACK_NS (UINT64_C(1) << WEIR_TABLE_REACH_SHIFT)  /* 19 hours */
#define WEIR_TABLE_AHEAD_NS (UINT64_C(2) << WEIR_TABLE_REACH_SHIFT) /* 39 hours */

/* Where an entry shows how many units its key has used, as of its last charge. */
enum weir_units {
    WEIR_UNITS_BY_TIME, /* nowhere but in the time until it is fresh, which grows with them */
    WEIR_UNITS_B,       /* b of its continuation */
    WEIR_UNITS_A_AND_B, /* a + b */
    WEIR_UNITS_B_LOW,   /* the low half of b */
};

/* What the table must know of a limit by its number, to judge a slot from the slot alone. Read and written whole. */
struct weir_kind {
    _Alignas(8) int8_t shift; /* a tick of its fresh_at is 2^-shift ns */
    bool wide;                /* its entries have a continuation */
    bool notified;            /* `forgotten` is called for dead entries too, not only for evicted ones */
    bool kept;                /* its entries are never evicted: they go when they are dead */
    uint8_t units;            /* enum weir_units */
    uint8_t reserved[3];
};

/* An entry leaves: dead, or evicted before it was fresh. a and b are its continuation. Called with locks held: must not
 * call the table. */
typedef void weir_table_forgotten(void *context, uint32_t limit, uint64_t a, uint64_t b, bool evicted);

struct weir_table {
    struct weir_line *lines;
    _Alignas(64) uint64_t count; /* atomic: lines in use, 4 * 2^shard_bits to lines_max */
    uint64_t mask;    /* atomic: of the bits that number them; grows just after `count` (weir_table_glimpse) */
    uint64_t base_ns; /* atomic */
    uint64_t skew_max_ns;
    uint64_t lines_max;
    uint32_t shard_bits;
    uint32_t unused_bits;    /* of the hash, below those of a line's number */
    struct weir_kind *kinds; /* by limit number; atomic */
    uint64_t *unit_shares;   /* by limit number; atomic: of 2^64, the share of its capacity that one unit is */
    uint8_t *shard_locks;
    size_t mapped; /* bytes at `lines` */
    weir_table_forgotten *forgotten;
    void *context;
    _Alignas(64) uint64_t slots_used; /* atomic, as all below */
    uint64_t entries, inserted, evicted;
    uint64_t forgotten_ns;             /* the latest `now` at which a dead entry was forgotten; 0: none was */
    uint8_t growing;                   /* one grower at a time */
    uint8_t walking;                   /* entries must not move to where the walk has been */
    uint64_t read_to;                  /* atomic: before this line a reading has been */
    uint64_t *passed;                  /* atomic: a ring of those that moved there from where it has not (read.c) */
    uint64_t passed_head, passed_tail; /* atomic: how many were put into it, and taken out */
};

/* `bytes` for the lines. WEIR_ERANGE (less than one page), WEIR_ENOMEM. */
int weir_table_init(struct weir_table *table, size_t bytes, uint64_t skew_max_ns, uint64_t now_ns,
                    weir_table_forgotten *forgotten, void *context);
void weir_table_deinit(struct weir_table *table);

static inline struct weir_kind weir_table_kind_of(const struct weir_table *table, uint32_t limit)
{
    weir_debug_assert(limit <= WEIR_SLOT_LIMIT_MAX);
    struct weir_kind kind;
    __atomic_load(&table->kinds[limit], &kind, __ATOMIC_RELAXED);
    return kind;
}

/* Before the first entry of `limit`. `capacity` units are the most that count. */
static inline void weir_table_set_kind(struct weir_table *table, uint32_t limit, struct weir_kind kind,
                                       uint64_t capacity)
{
    weir_assert(limit > 0 && limit <= WEIR_SLOT_LIMIT_MAX);
    weir_assert(kind.shift >= WEIR_TICKS_SHIFT_MIN && kind.shift <= WEIR_TICKS_SHIFT_MAX);
    weir_assert(kind.units <= WEIR_UNITS_B_LOW);
    weir_assert(kind.wide || kind.units == WEIR_UNITS_BY_TIME); /* they stand in the continuation */
    weir_assert(kind.wide || !kind.notified);
    weir_assert(kind.notified || !kind.kept);
    uint64_t share = capacity > 1 ? UINT64_MAX / capacity + 1 : 0; /* rounded up: `capacity` units are all of it */
    __atomic_store(&table->kinds[limit], &kind, __ATOMIC_RELAXED);
    __atomic_store_n(&table->unit_shares[limit], share, __ATOMIC_RELAXED);
}

/* Before a dead entry goes: so whoever finds it gone finds this. */
static inline void weir_table_forgets(struct weir_table *table, uint64_t now_ns)
{
    uint64_t last = __atomic_load_n(&table->forgotten_ns, __ATOMIC_RELAXED);
    while (now_ns > last && !__atomic_compare_exchange_n(&table->forgotten_ns, &last, now_ns, false, __ATOMIC_RELEASE,
                                                         __ATOMIC_RELAXED)) {
    }
}

/* ---- finding ---- */

/* The number of a line ends in the last bits of the hash: of its 12 lowest those that name a shard. */
static inline uint64_t weir_table_shard_mask(const struct weir_table *table)
{
    return (UINT64_C(1) << table->shard_bits) - 1;
}

static inline uint64_t weir_table_shard_of(const struct weir_table *table, uint64_t hash)
{
    return (hash & WEIR_TAG_LIMIT_MASK) >> (WEIR_TABLE_SHARD_BITS - table->shard_bits);
}

/* The hash that decides the second home: other bits above, and a shard that differs by some of the fingerprint's. */
static inline uint64_t weir_table_second(uint64_t hash)
{
    uint64_t mixed = (hash & WEIR_TAG_KEY_MASK) * UINT64_C(0x9e3779b97f4a7c15);
    return (mixed >> 8 & ~WEIR_TAG_LIMIT_MASK) | ((hash ^ mixed >> 52) & WEIR_TAG_LIMIT_MASK);
}

/* Of the bits that number `count` lines. */
static inline uint64_t weir_table_mask_of(uint64_t count)
{
    return (UINT64_C(2) << (63 - __builtin_clzll(count))) - 1;
}

/* Line number of the first or second home of `hash`, with `count` lines. */
static inline uint64_t weir_table_home(const struct weir_table *table, uint64_t hash, bool second, uint64_t count)
{
    uint64_t bits = (second ? weir_table_second(hash) : hash) >> table->unused_bits;
    uint64_t mask = weir_table_mask_of(count);
    uint64_t at = bits & mask;
    weir_debug_assert(count >= UINT64_C(4) << table->shard_bits && count <= table->lines_max);
    weir_debug_assert(mask >= count - 1 && (mask >> 1) < count);
    weir_debug_assert((bits & weir_table_shard_mask(table)) ==
                      weir_table_shard_of(table, second ? weir_table_second(hash) : hash));
    return at < count ? at : at & mask >> 1;
}

/* The first or second home of `hash` now, by less arithmetic. The mask is read first, so it is that of the count or
 * of one before: either names a line that is there. In the moment in which the table begins to double that may be
 * another than the home; the key is then not found, and whoever holds it looks better. */
static inline __attribute__((always_inline)) struct weir_line *weir_table_glimpse(const struct weir_table *table,
                                                                                  uint64_t hash, bool second)
{
    uint64_t mask = __atomic_load_n(&table->mask, __ATOMIC_ACQUIRE);
    uint64_t count = __atomic_load_n(&table->count, __ATOMIC_ACQUIRE);
    uint64_t at = (second ? weir_table_second(hash) : hash) >> table->unused_bits & mask;
    uint64_t number = at < count ? at : at & mask >> 1;
    weir_debug_assert(number < count);
    return &table->lines[number];
}

/* The slot of `key`, a tag without its limit, in one line. */
static inline struct weir_slot *weir_line_find(struct weir_line *line, uint64_t key, struct weir_pair *ret_seen)
{
    weir_debug_assert((key & ~(WEIR_TAG_KEY_MASK | WEIR_TAG_SECOND)) == 0);
    for (unsigned i = 0; i < WEIR_LINE_SLOTS; i++) {
        uint64_t tag = weir_slot_tag(&line->slot[i]);
        if ((tag ^ key) >> WEIR_TAG_LIMIT_BITS != 0 || tag == 0)
            continue;
        *ret_seen = weir_slot_load(&line->slot[i]);
        if ((ret_seen->tag ^ key) >> WEIR_TAG_LIMIT_BITS == 0 && ret_seen->tag != 0)
            return &line->slot[i];
    }
    return NULL;
}

/* The slot of a tag, which says the high bits of its limit, and what it shows: each half as of an instant of its own.
 * A swap of it proves both; who does not swap loads it once more. */
static inline __attribute__((always_inline)) struct weir_slot *weir_line_glimpse(struct weir_line *line, uint64_t tag,
                                                                                 struct weir_pair *ret_seen)
{
    weir_debug_assert(tag != 0 && !(tag & WEIR_TAG_CONTINUATION));
#pragma GCC unroll 4
    for (unsigned i = 0; i < WEIR_LINE_SLOTS; i++) {
        struct weir_slot *slot = &line->slot[i];
        if (weir_slot_tag(slot) != tag)
            continue;
        *ret_seen = (struct weir_pair){ tag, __atomic_load_n(&slot->word, __ATOMIC_ACQUIRE) };
        if (!slot)
            __builtin_unreachable(); /* callers need not ask */
        return slot;
    }
    return NULL;
}

static inline struct weir_slot *weir_table_find_in(const struct weir_table *table, uint64_t hash, bool second,
                                                   struct weir_pair *ret_seen)
{
    uint64_t count = __atomic_load_n(&table->count, __ATOMIC_ACQUIRE);
    uint64_t key = (hash & WEIR_TAG_KEY_MASK) | (second ? WEIR_TAG_SECOND : 0);
    return weir_line_find(&table->lines[weir_table_home(table, hash, second, count)], key, ret_seen);
}

/* The slot of a key and what it shows, locked or not; NULL if it has none (or is being moved this instant: only
 * weir_table_hold knows for sure). */
static inline struct weir_slot *weir_table_find(const struct weir_table *table, uint64_t hash,
                                                struct weir_pair *ret_seen)
{
    struct weir_slot *slot = weir_table_find_in(table, hash, false, ret_seen);
    return slot ? slot : weir_table_find_in(table, hash, true, ret_seen);
}

/* The slot of a key of `limit`, in either home, as weir_line_glimpse has it. NULL: it is nowhere, under another
 * limit, or on the move. */
static inline __attribute__((always_inline)) struct weir_slot *weir_table_find_of(const struct weir_table *table,
                                                                                  uint64_t hash, uint32_t limit,
                                                                                  struct weir_pair *ret_seen)
{
    const uint64_t tag = (hash & WEIR_TAG_KEY_MASK) | limit >> 4;
    struct weir_slot *slot = weir_line_glimpse(weir_table_glimpse(table, hash, false), tag, ret_seen);
    if (!slot)
        slot = weir_line_glimpse(weir_table_glimpse(table, hash, true), tag | WEIR_TAG_SECOND, ret_seen);
    return slot;
}

/* ---- finding many ----
 *
 * weir_table_send for each, then weir_table_look for each, then weir_table_see for each. Which slot of a line it is
 * cannot be guessed, and a wrong guess costs more than every comparison: so there is no branch on it. That it is the
 * first line mostly can. */

/* Where a key is, as far as is known. */
struct weir_look {
    struct weir_slot *slot; /* its own, or the first of its line */
    uint64_t tag;           /* which it shows */
};

/* Sends for the first line of a key of `limit`. */
static inline __attribute__((always_inline)) struct weir_look weir_table_send(const struct weir_table *table,
                                                                              uint64_t hash, uint32_t limit)
{
    struct weir_line *line = weir_table_glimpse(table, hash, false);
    __builtin_prefetch(line, 1, 3);
    return (struct weir_look){ line->slot, (hash & WEIR_TAG_KEY_MASK) | limit >> 4 };
}

/* Its slot if the first line has it; else the second line, which is sent for. */
static inline __attribute__((always_inline)) void weir_table_look(const struct weir_table *table, uint64_t hash,
                                                                  struct weir_look *look)
{
    struct weir_slot *first = look->slot;
    const uint64_t tag = look->tag;
    const unsigned at = (unsigned)(weir_slot_tag(&first[1]) == tag) + 2 * (unsigned)(weir_slot_tag(&first[2]) == tag) +
                        3 * (unsigned)(weir_slot_tag(&first[3]) == tag);
    look->slot = &first[at % WEIR_LINE_SLOTS]; /* no line has one tag twice for long */
    if (__builtin_expect(weir_slot_tag(look->slot) == tag, true))
        return;
    look->slot = weir_table_glimpse(table, hash, true)->slot;
    look->tag = tag | WEIR_TAG_SECOND;
    __builtin_prefetch(look->slot, 1, 3);
}

/* As weir_table_find_of, by what is known. */
static inline __attribute__((always_inline)) struct weir_slot *weir_table_see(struct weir_look look,
                                                                              struct weir_pair *ret_seen)
{
    *ret_seen = (struct weir_pair){ look.tag, __atomic_load_n(&look.slot->word, __ATOMIC_ACQUIRE) };
    if (__builtin_expect(weir_slot_tag(look.slot) == look.tag, true)) {
        if (!look.slot)
            __builtin_unreachable();
        return look.slot;
    }
    struct weir_line *line = (struct weir_line *)((uintptr_t)look.slot & ~(uintptr_t)(sizeof(struct weir_line) - 1));
    return weir_line_glimpse(line, look.tag, ret_seen);
}

/* ---- holding ---- */

/* A slot whose lock bit is ours: nobody else changes, moves or forgets it. */
struct weir_held {
    struct weir_slot *slot;
    struct weir_pair pair; /* as found, unlocked; for a newcomer: fresh */
    uint64_t a, b;         /* the continuation of a wide entry */
    bool wide;
    bool newcomer;
};

enum weir_hold {
    WEIR_HOLD_OK,
    WEIR_HOLD_ABSENT, /* WEIR_ABSENT_LEAVE, and the key has no entry */
    WEIR_HOLD_FULL,   /* no place for a newcomer */
    WEIR_HOLD_STALE,  /* limits/entry.c: the limit is of a set that is gone */
};

enum weir_absent {
    WEIR_ABSENT_LEAVE,
    WEIR_ABSENT_INSERT,      /* evicting if need be */
    WEIR_ABSENT_INSERT_FREE, /* only where that evicts nobody */
};

/* Holds the key's entry, or a new one of `limit`, fresh as of now. ret_wait_ns (FULL only): until a place is free if
 * nobody comes. FULL with WEIR_ABSENT_INSERT: all who could go are held or `kept`. */
enum weir_hold weir_table_hold(struct weir_table *table, uint64_t hash, uint32_t limit, enum weir_absent absent,
                               uint64_t now_ns, struct weir_held *ret_held, uint64_t *ret_wait_ns);

/* Lets go: the entry shows `limit`, `fresh_at` and held->a and b. */
void weir_table_release(struct weir_held *held, uint32_t limit, uint64_t fresh_at);

/* Lets go, the entry is no more. */
void weir_table_drop(struct weir_table *table, struct weir_held *held);

/* Makes a held entry wide, or narrow. False if there is no place for it: it stays as it was, held. */
bool weir_table_widen(struct weir_table *table, struct weir_held *held, uint64_t now_ns);
void weir_table_narrow(struct weir_table *table, struct weir_held *held);

/* Tries to hold an entry of a `notified` limit other than the caller's: the one of whom least would be forgiven among
 * those in `lines` lines from *cursor on; none that is `kept` and not dead. False if it met none. */
bool weir_table_hold_any(struct weir_table *table, uint64_t *cursor, size_t lines, uint64_t now_ns,
                         struct weir_held *ret_held);

/* How long until the entry is dead; 0 if it is. */
uint64_t weir_table_dead_after_ns(const struct weir_table *table, struct weir_pair pair, uint64_t now_ns);

/* ---- the background ---- */

/* Called with an entry held, to be changed in place (weir_table_widen included) and released or dropped. */
typedef void weir_table_visitor(void *context, struct weir_held *held);

/* Walks `lines_max` lines on from *cursor (0 to begin), waits for whoever holds an entry there, forgets dead entries,
 * and shows those whose limit `wanted` says yes to. Returns true while lines are left; the pass is complete when it
 * returns false. Entries do not move past the walk from begin to end. One walk at a time. */
bool weir_table_walk(struct weir_table *table, uint64_t *cursor, size_t lines_max, uint64_t now_ns,
                     bool (*wanted)(void *context, uint32_t limit), weir_table_visitor *visitor, void *context);

/* An entry as it stands, which stays as it is while it is shown only if it is wide: for no longer than a copy takes.
 * Returns whether there is room for another line's. */
typedef bool weir_table_reader(void *context, uint64_t hash, const struct weir_held *seen);

/* Shows every entry of up to `lines_max` lines on from *cursor (0 to begin): each that is there from begin to end at
 * least once, as it was at some time in between, and last as it was last shown. A wide one is held while it is shown.
 * Ends early where the reader has no more room. Returns true while lines are left; what is given up before the end is
 * ended by weir_table_read_end. One reading at a time, and no weir_table_widen meanwhile: who reads looks whether there
 * was one. */
bool weir_table_read(struct weir_table *table, uint64_t *cursor, size_t lines_max, weir_table_reader *reader,
                     void *context);
void weir_table_read_end(struct weir_table *table, uint64_t *cursor);

/* Whether slots compare with now_ns. */
static inline bool weir_table_in_reach(const struct weir_table *table, uint64_t now_ns)
{
    const uint64_t base = __atomic_load_n(&table->base_ns, __ATOMIC_RELAXED);
    const int64_t steps = (int64_t)(now_ns - base) >> WEIR_TABLE_REACH_SHIFT;
    return (uint64_t)(steps + 1) <= 2;
}

/* Brings every slot within reach of now_ns, however far that is: what is dead is forgotten, what lies too far ahead is
 * kept as far ahead as can be told. One at a time, not during a walk. */
void weir_table_rebase(struct weir_table *table, uint64_t now_ns);

/* Touches the next page that growth will need, so that no decision has to. */
void weir_table_prefault(struct weir_table *table);

/* Walks the whole table and stops the program where it is not sound: every entry in a home of its own and nowhere else,
 * every continuation behind its entry, the counts those of what stands there, all locks open. Nobody else may use the
 * table meanwhile. weir_table_deinit calls it in debug builds. */
void weir_table_check(const struct weir_table *table);
