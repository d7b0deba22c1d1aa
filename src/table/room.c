/* SPDX-License-Identifier: Apache-2.0
 *
 * Who goes where: finding, emptying and making places, all under a shard's lock. Called by table.c and grow.c. */
#include "table/internal.h"

/* Tries at a place that somebody changed under us: slots are only tried here, never waited for. */
#define PLACE_TRIES 16

/* Moves in a row for one newcomer. At 7 slots in 10 taken one move is nearly always enough, five practically always. */
#define DISPLACE_DEPTH 5

#define COST_EMPTY INT64_MIN
#define COST_HELD INT64_MAX
/* Added to the cost of an entry that must not be evicted, so that it is above every other. The rest of that cost is its
 * time until fresh, which is at most 366 days. */
#define COST_KEPT (INT64_MAX / 2 + 1)
#define KEPT_UNTIL_MAX (INT64_MAX / 4)

bool weir_place_clear(struct weir_table *table, struct weir_slot_at place, struct weir_pair seen, bool evicted,
                      uint64_t now_ns)
{
    struct weir_slot *main = &place.line->slot[place.index];
    weir_assert(place.line == &table->lines[place.number]);
    weir_assert(weir_tag_is_entry(seen.tag));
    if (weir_pair_locked(seen) || !weir_slot_swap(main, seen, weir_pair_lock(seen)))
        return false;
    struct weir_kind kind = weir_table_kind(table, seen);
    weir_assert(!evicted || !kind.kept);
    weir_assert(!kind.wide || place.index % 2 == 0);
    uint64_t a = 0, b = 0;
    if (kind.wide) {
        weir_continuation_get(main, &a, &b);
        weir_continuation_clear(main);
    }
    if (evicted)
        __atomic_fetch_add(&table->evicted, 1, __ATOMIC_RELAXED);
    else
        weir_table_forgets(table, now_ns);
    if (evicted || kind.notified)
        table->forgotten(table->context, weir_pair_limit(seen), a, b, evicted);
    weir_slot_set(main, WEIR_PAIR_EMPTY);
    weir_table_count(table, -1, kind.wide ? -2 : -1);
    return true;
}

/* The main slot of whatever stands at `index`, and what it shows. */
static struct weir_pair entry_over(const struct weir_line *line, unsigned index, unsigned *ret_main)
{
    *ret_main = weir_slot_tag(&line->slot[index]) & WEIR_TAG_CONTINUATION ? index - 1 : index;
    weir_assert(*ret_main == index || index % 2 == 1);
    return weir_slot_load(&line->slot[*ret_main]);
}

/* How places are compared. */
enum cost {
    COST_WAIT,     /* until all there are fresh */
    COST_FORGIVEN, /* what evicting them would forgive */
};

/* What emptying `width` slots from `index` would cost: the most of those who must go. */
static int64_t cost_of(const struct weir_table *table, const struct weir_line *line, unsigned index, unsigned width,
                       enum cost by, uint64_t now_ns)
{
    int64_t cost = COST_EMPTY;
    weir_assert(index % width == 0 && index + width <= WEIR_LINE_SLOTS);
    for (unsigned i = index; i < index + width; i++) {
        unsigned main;
        struct weir_pair pair = entry_over(line, i, &main);
        if (pair.tag == 0)
            continue;
        if (weir_pair_locked(pair))
            return COST_HELD;
        int64_t until = by == COST_WAIT ? weir_table_until_fresh_ns(table, pair, now_ns)
                                        : weir_table_forgiven_ns(table, line, main, pair, now_ns);
        if (by == COST_FORGIVEN && weir_table_kind(table, pair).kept && !weir_table_dead(table, pair, now_ns))
            until = COST_KEPT + (until < 0 ? 0 : until < KEPT_UNTIL_MAX ? until : KEPT_UNTIL_MAX);
        weir_assert(until > COST_EMPTY && until < COST_HELD);
        cost = until > cost ? until : cost;
    }
    return cost;
}

/* Empties what stands there; entries that are not dead only if `evict`. */
static bool empty_out(struct weir_table *table, struct weir_slot_at place, unsigned width, bool evict, uint64_t now_ns)
{
    for (unsigned i = place.index; i < place.index + width; i++) {
        struct weir_slot_at entry = place;
        struct weir_pair pair = entry_over(place.line, i, &entry.index);
        if (pair.tag == 0)
            continue;
        bool dead = weir_table_dead(table, pair, now_ns);
        weir_assert(entry.index <= i && i - entry.index <= 1);
        if ((!dead && (!evict || weir_table_kind(table, pair).kept)) ||
            !weir_place_clear(table, entry, pair, !dead, now_ns))
            return false;
    }
    return true;
}

/* The cheapest place for `width` slots in one line. Of empty ones a narrow entry takes one whose neighbour is taken,
 * and leaves pairs to wide ones. */
static int64_t cheapest(const struct weir_table *table, uint64_t number, unsigned width, enum cost by, uint64_t now_ns,
                        struct weir_slot_at *ret_place)
{
    int64_t best = COST_HELD;
    weir_assert(number < __atomic_load_n(&table->count, __ATOMIC_ACQUIRE));
    weir_assert(width == 1 || width == 2);
    struct weir_line *line = &table->lines[number];
    for (unsigned i = 0; i < WEIR_LINE_SLOTS; i += width) {
        int64_t cost = cost_of(table, line, i, width, by, now_ns);
        bool fits_snugly = cost == COST_EMPTY && (width == 2 || weir_slot_tag(&line->slot[i ^ 1]) != 0);
        if (cost < best || fits_snugly) {
            best = cost;
            *ret_place = (struct weir_slot_at){ line, number, i, false };
        }
        if (fits_snugly)
            break;
    }
    return best;
}

static bool is_free(const struct weir_table *table, int64_t cost)
{
    return cost < -(int64_t)table->skew_max_ns;
}

/* Moves the entry `seen` at `from` to the empty place `to`, its other home. While it has two copies the old one is
 * locked, so a decision that still sees it waits and looks again. */
static bool move_entry(struct weir_table *table, struct weir_slot_at from, struct weir_pair seen,
                       struct weir_slot_at to)
{
    struct weir_slot *source = &from.line->slot[from.index], *target = &to.line->slot[to.index];
    weir_assert(from.number != to.number && weir_slot_tag(target) == 0);
    if (weir_pair_locked(seen) || !weir_slot_swap(source, seen, weir_pair_lock(seen)))
        return false;
    if (weir_table_kind(table, seen).wide) {
        uint64_t a, b;
        weir_continuation_get(source, &a, &b);
        weir_continuation_set(target, a, b);
        weir_continuation_clear(source);
    }
    weir_slot_set(target, weir_pair_at_home(seen, !(seen.tag & WEIR_TAG_SECOND)));
    weir_assert(weir_pair_locked(weir_slot_load(source))); /* until now: or somebody charged the old copy */
    weir_slot_set(source, WEIR_PAIR_EMPTY);
    return true;
}

/* Who makes room. */
struct search {
    struct weir_table *table;
    struct weir_shards *shards;
    uint64_t now_ns;
};

static bool displace_from(const struct search *s, uint64_t number, unsigned width, int depth,
                          struct weir_slot_at *ret_place);

/* Whether a reading might never show what moves from one line to the other: the line that it is at counts as shown for
 * who comes, and as not shown for who goes. Asked with the shard of `to` locked, which the reading takes once it has
 * said that it is there. */
static bool passes_reading(const struct weir_table *table, uint64_t from, uint64_t to)
{
    uint64_t read_to = __atomic_load_n(&table->read_to, __ATOMIC_RELAXED);
    return to < read_to && from + 1 >= read_to;
}

/* Before such an entry moves: the reading (read.c) will look for it by its hash. False: it must stay, so many moved. */
static bool note_passing(struct weir_table *table, uint64_t hash)
{
    uint64_t head = __atomic_load_n(&table->passed_head, __ATOMIC_RELAXED);
    do {
        if (head - __atomic_load_n(&table->passed_tail, __ATOMIC_ACQUIRE) >= WEIR_TABLE_PASSED)
            return false;
    } while (
        !__atomic_compare_exchange_n(&table->passed_head, &head, head + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    uint64_t *slot = &table->passed[head % WEIR_TABLE_PASSED];
    weir_assert(__atomic_load_n(slot, __ATOMIC_RELAXED) == 0); /* it was taken out before its place came again */
    __atomic_store_n(slot, hash | WEIR_PASSED_NOTED, __ATOMIC_RELEASE);
    return true;
}

/* Moves the entry `seen` at `from` (whose shard is ours) to its other home; if that is full too, makes room there
 * first, up to `depth` moves deep. */
static bool vacate(const struct search *s, struct weir_slot_at from, struct weir_pair seen, int depth)
{
    struct weir_table *table = s->table;
    struct weir_slot_at to;
    unsigned width = weir_table_kind(table, seen).wide ? 2 : 1, held_before = s->shards->count;
    bool second = !(seen.tag & WEIR_TAG_SECOND);
    weir_assert(held_before >= 1 && depth >= 1 && depth <= DISPLACE_DEPTH);
    uint64_t hash = weir_table_hash_of(table, seen, from.number);
    uint64_t other = weir_table_home(table, hash, second, __atomic_load_n(&table->count, __ATOMIC_ACQUIRE));
    if (other == from.number || !weir_shards_try(table, other, s->shards))
        return false;
    /* A walk that began meanwhile may have been at `other`; and while its shard was not ours it may have been split. */
    bool stands = !__atomic_load_n(&table->walking, __ATOMIC_RELAXED) &&
                  weir_table_home(table, hash, second, __atomic_load_n(&table->count, __ATOMIC_ACQUIRE)) == other;
    if (stands && passes_reading(table, from.number, other))
        stands = note_passing(table, hash);
    bool room = stands && (is_free(table, cheapest(table, other, width, COST_WAIT, s->now_ns, &to))
                               ? empty_out(table, to, width, false, s->now_ns)
                               : depth > 1 && displace_from(s, other, width, depth - 1, &to));
    weir_assert(!room || to.number == other);
    bool moved = room && move_entry(table, from, seen, to);
    while (s->shards->count > held_before)
        weir_shard_unlock(table, s->shards->shard[--s->shards->count]);
    weir_assert(s->shards->count == held_before);
    return moved;
}

/* Makes `width` slots of line `number` empty by moving who stands there. (Cuckoo hashing: Pagh and Rodler, 2001.) */
static bool displace_from(const struct search *s, uint64_t number, unsigned width, int depth,
                          struct weir_slot_at *ret_place)
{
    for (unsigned i = 0; i < WEIR_LINE_SLOTS; i += width) {
        struct weir_slot_at place = { &s->table->lines[number], number, i, false };
        bool empty = true;
        for (unsigned k = i; k < i + width && empty; k++) {
            struct weir_slot_at entry = place;
            struct weir_pair seen = entry_over(place.line, k, &entry.index);
            empty = seen.tag == 0 || vacate(s, entry, seen, depth);
        }
        /* Room for the second may have been made by moving somebody to where the first was. */
        if (empty && cost_of(s->table, place.line, i, width, COST_WAIT, s->now_ns) == COST_EMPTY) {
            *ret_place = place;
            return true;
        }
    }
    return false;
}

static bool free_place(const struct search *s, const uint64_t homes[2], unsigned width, struct weir_slot_at *ret_place)
{
    struct weir_table *table = s->table;
    for (int h = 0; h < 2; h++)
        if (is_free(table, cheapest(table, homes[h], width, COST_WAIT, s->now_ns, ret_place)) &&
            empty_out(table, *ret_place, width, false, s->now_ns)) {
            ret_place->second = h;
            return true;
        }
    if (__atomic_load_n(&table->walking, __ATOMIC_RELAXED))
        return false;
    /* A table that has all its lines is full anyway: one move is tried, no more, for a flood of newcomers. */
    bool grown = __atomic_load_n(&table->count, __ATOMIC_RELAXED) >= table->lines_max;
    for (int depth = 1; depth <= (grown ? 1 : DISPLACE_DEPTH); depth++)
        for (int h = 0; h < 2; h++)
            if (displace_from(s, homes[h], width, depth, ret_place)) {
                ret_place->second = h;
                return true;
            }
    return false;
}

/* The cheapest of both homes. */
static int64_t cheapest_of(const struct search *s, const uint64_t homes[2], unsigned width, enum cost by,
                           struct weir_slot_at *ret_place)
{
    struct weir_slot_at second;
    weir_assert(by == COST_WAIT || by == COST_FORGIVEN);
    int64_t cost = cheapest(s->table, homes[0], width, by, s->now_ns, ret_place);
    int64_t cost_second = cheapest(s->table, homes[1], width, by, s->now_ns, &second);
    if (cost_second >= cost)
        return cost;
    *ret_place = second;
    ret_place->second = true;
    return cost_second;
}

enum weir_hold weir_table_make_place(struct weir_table *table, struct weir_shards *shards, uint64_t hash,
                                     unsigned width, bool evict, uint64_t now_ns, struct weir_slot_at *ret_place,
                                     uint64_t *ret_wait_ns)
{
    const struct search search = { table, shards, now_ns };
    uint64_t count = __atomic_load_n(&table->count, __ATOMIC_ACQUIRE);
    uint64_t homes[2] = { weir_table_home(table, hash, false, count), weir_table_home(table, hash, true, count) };
    int64_t cost = COST_HELD;
    weir_assert(shards->count >= 1 && shards->count <= 2); /* those of both homes */
    for (int tries = 0; tries < PLACE_TRIES; tries++) {
        if (free_place(&search, homes, width, ret_place))
            return WEIR_HOLD_OK;
        cost = cheapest_of(&search, homes, width, evict ? COST_FORGIVEN : COST_WAIT, ret_place);
        if (!evict)
            break;
        if (cost < COST_KEPT && empty_out(table, *ret_place, width, true, now_ns))
            return WEIR_HOLD_OK;
    }
    /* All held: nobody can say how long; the next try may find a place. */
    if (cost != COST_HELD && cost >= COST_KEPT)
        cost -= COST_KEPT;
    weir_assert(cost == COST_HELD || cost < COST_KEPT);
    *ret_wait_ns = cost == COST_HELD ? 1 : weir_add_sat(cost > 0 ? (uint64_t)cost : 0, table->skew_max_ns + 1);
    return WEIR_HOLD_FULL;
}
