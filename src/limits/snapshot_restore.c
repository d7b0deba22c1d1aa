/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts what is in a snapshot (weir/snapshot.h) into a limiter that nobody else uses yet: first the limits, as they were
 * defined then, then the keys, each moved along to where the limiter's clock is. What the configuration says otherwise
 * comes after, as by any reload. A key that is there twice was met twice while it moved: the later one counts. Called
 * by serve/saver.c and by who embeds libweir. */
#include <stdlib.h>

#include "base/fault.h"
#include "limits/snapshot_inside.h"

/* Permits that were granted after the snapshot have numbers that it does not know: none of them is granted again. */
#define PERMITS_APART (UINT64_C(1) << 40)
/* No time in a snapshot is later than this after it: a permit's lease is at most 366 days, and so is a period. */
#define AHEAD_MAX_NS (2 * UINT64_C(366) * 24 * 3600 * WEIR_NS_PER_SECOND)
#define COUNT_MAX (UINT64_C(1) << 62) /* core/limit/window.c */
/* The clocks of a moment are read one after the other, so they may seem to have gone apart by a little. */
#define APART_NS UINT64_C(10000000)

/* The limiter that is filled, and how its clock lies to the snapshot's. */
struct restoring {
    struct weir_limiter *limiter;
    struct weir_time time;
    uint64_t then_ns; /* what the snapshot's clock would show now */
    weir_limit_id *ids;
    size_t ids_count;
    struct weir_snapshot_stats stats;
};

/* ---- clocks ---- */

/* How much time has passed since. Without a boot id in both, or in another boot, the wall clock tells. */
static uint64_t passed_ns(const struct weir_moment *since, const struct weir_moment *moment)
{
    static const uint8_t none[sizeof since->boot_id] = { 0 };
    bool same_boot = memcmp(since->boot_id, none, sizeof none) != 0 &&
                     memcmp(since->boot_id, moment->boot_id, sizeof none) == 0;
    return same_boot ? weir_sub_sat(moment->boot_ns, since->boot_ns) : weir_sub_sat(moment->wall_ns, since->wall_ns);
}

/* Where the limiter's clock has gone on with the snapshot's, times stay as they are, to the ns. */
static uint64_t then_ns(const struct weir_moment *since, const struct weir_moment *moment)
{
    uint64_t then = weir_add_sat(since->now_ns, passed_ns(since, moment));
    uint64_t apart = then > moment->now_ns ? then - moment->now_ns : moment->now_ns - then;
    return apart < APART_NS ? moment->now_ns : then;
}

/* A time of the snapshot's clock on the limiter's, which has none before 0. */
static uint64_t moved_ns(const struct restoring *r, uint64_t at_ns)
{
    return at_ns >= r->then_ns ? weir_add_sat(r->time.now_ns, at_ns - r->then_ns)
                               : weir_sub_sat(r->time.now_ns, r->then_ns - at_ns);
}

/* The same in ticks, rounded up. False: it has passed. */
static bool moved_ticks(const struct restoring *r, uint64_t fresh_at, int32_t shift, uint64_t *ret_fresh_at)
{
    int64_t ahead = weir_ticks_ahead(fresh_at, weir_ticks_at(r->then_ns, shift));
    if (ahead <= 0)
        return false;
    if (shift < 0 && (r->then_ns ^ r->time.now_ns) & ((UINT64_C(1) << -shift) - 1))
        ahead++;
    *ret_fresh_at = weir_ticks_add(weir_ticks_at(r->time.now_ns, shift),
                                   weir_min_u64((uint64_t)ahead, WEIR_TICKS_DEBT_MAX));
    return true;
}

/* ---- keys ---- */

/* A new entry for a key, held. False: there is no place for it. */
static bool hold_anew(struct restoring *r, uint64_t hash, uint32_t number, struct weir_entry *ret_entry)
{
    struct weir_table *table = &r->limiter->table;
    uint64_t wait_ns;
    *ret_entry = (struct weir_entry){ 0 };
    while (weir_table_hold(table, hash, number, WEIR_ABSENT_INSERT, r->time.now_ns, &ret_entry->held, &wait_ns) ==
           WEIR_HOLD_OK) {
        if (ret_entry->held.newcomer)
            return true;
        const struct weir_record *record = weir_record_at(r->limiter, weir_pair_limit(ret_entry->held.pair));
        if (record)
            weir_entry_unpack(r->limiter, &record->terms.limit, ret_entry);
        weir_entry_drop(r->limiter, ret_entry);
        *ret_entry = (struct weir_entry){ 0 };
        r->stats.keys--;
    }
    r->stats.lost++;
    return false;
}

/* A bucket without a definition. */
static int place_raw(struct restoring *r, const struct weir_snapshot_entry *entry)
{
    struct weir_entry placed;
    uint64_t fresh_at;
    int32_t shift = (int32_t)(entry->number - WEIR_RAW_FIRST) + WEIR_TICKS_SHIFT_MIN;
    if (entry->number < WEIR_RAW_FIRST || entry->number >= WEIR_RAW_FIRST + WEIR_RAW_COUNT ||
        entry->shape != WEIR_SNAPSHOT_NARROW || entry->fresh_at > WEIR_TICKS_MASK ||
        (entry->hash & WEIR_TAG_KEY_MASK) == 0) /* which no place could show */
        return WEIR_ECORRUPT;
    if (!moved_ticks(r, entry->fresh_at, shift, &fresh_at)) {
        r->stats.fresh++;
        return 0;
    }
    if (!hold_anew(r, entry->hash, entry->number, &placed))
        return 0;
    weir_table_release(&placed.held, entry->number, fresh_at);
    r->stats.keys++;
    return 0;
}

/* How many words of a log count no more; -1: they are not what a log of this limit can be. */
static int64_t words_gone(const struct restoring *r, const struct weir_limit *limit,
                          const struct weir_snapshot_entry *entry)
{
    uint32_t width = limit->algorithm == WEIR_CONCURRENCY ? 2 : 1, gone = 0;
    uint64_t last = 0, lasts_ns = width == 1 ? limit->period_ns : 0;
    if (entry->words_count % width != 0)
        return -1;
    for (uint32_t i = 0; i < entry->words_count; i += width) {
        uint64_t at_ns = weir_snapshot_word(entry, i);
        if (at_ns < last || at_ns > weir_add_sat(r->then_ns, AHEAD_MAX_NS))
            return -1;
        last = at_ns;
        if (weir_add_sat(at_ns, lasts_ns) <= r->then_ns)
            gone = i + width;
    }
    return gone;
}

static int place_log(struct restoring *r, const struct weir_terms *terms, const struct weir_snapshot_entry *entry)
{
    static const struct weir_key no_key = { 0 };
    const struct weir_limit *limit = &terms->limit;
    const uint32_t width = limit->algorithm == WEIR_CONCURRENCY ? 2 : 1;
    const int64_t gone = words_gone(r, limit, entry);
    struct weir_entry placed;
    if (gone < 0)
        return WEIR_ECORRUPT;
    const uint32_t kept = entry->words_count - (uint32_t)gone;
    if (kept == 0) {
        r->stats.fresh++;
        return 0;
    }
    if (!hold_anew(r, entry->hash, weir_id_number(terms->id), &placed))
        return 0;
    const struct weir_event event = weir_event_make(r->limiter, terms, &no_key, 0, &r->time);
    placed.state = weir_state_fresh(limit, r->time.now_ns);
    if (!weir_entry_room(r->limiter, terms, &event, kept / width, &placed, NULL)) {
        weir_entry_drop(r->limiter, &placed);
        r->stats.lost++;
        return 0;
    }
    struct weir_log *log = &placed.state.log;
    weir_assert(kept <= log->room && log->head == 0);
    for (uint32_t i = 0; i < kept; i++) {
        uint64_t word = weir_snapshot_word(entry, (uint32_t)gone + i);
        log->times[i] = i % width == 0 ? moved_ns(r, word) : word;
    }
    log->used = kept;
    placed.state.fresh_at = weir_ticks_at(log->times[kept - width], limit->shift);
    if (width == 1)
        placed.state.fresh_at = weir_ticks_add(placed.state.fresh_at, limit->span);
    weir_entry_release(r->limiter, terms, &placed);
    r->stats.keys++;
    return 0;
}

/* A bucket, or a window. */
static int place_state(struct restoring *r, const struct weir_terms *terms, const struct weir_snapshot_entry *entry)
{
    const struct weir_limit *limit = &terms->limit;
    const enum weir_snapshot_shape shape = weir_limit_is_bucket(limit) ? WEIR_SNAPSHOT_NARROW : WEIR_SNAPSHOT_WIDE;
    struct weir_entry placed;
    struct weir_state state = { .count = entry->b };
    if (entry->shape != shape || entry->fresh_at > WEIR_TICKS_MASK || entry->a >> 63 != 0 ||
        (limit->algorithm == WEIR_SLIDING_COUNTER && (entry->a > COUNT_MAX || entry->b > COUNT_MAX)))
        return WEIR_ECORRUPT;
    if (!moved_ticks(r, entry->fresh_at, limit->shift, &state.fresh_at)) {
        r->stats.fresh++;
        return 0;
    }
    if (limit->algorithm == WEIR_FIXED_WINDOW)
        state.window = entry->a;
    else
        state.previous = entry->a;
    if (!hold_anew(r, entry->hash, weir_id_number(terms->id), &placed))
        return 0;
    placed.state = state;
    weir_entry_release(r->limiter, terms, &placed);
    r->stats.keys++;
    return 0;
}

static int place(struct restoring *r, const struct weir_snapshot_entry *entry)
{
    if (entry->number < WEIR_SNAPSHOT_FIRST)
        return place_raw(r, entry);
    if (entry->number - WEIR_SNAPSHOT_FIRST >= r->ids_count)
        return WEIR_ECORRUPT;
    struct weir_terms terms;
    bool good = weir_terms_of(r->limiter, r->ids[entry->number - WEIR_SNAPSHOT_FIRST], &terms);
    weir_assert(good); /* it was defined a moment ago, and nobody else defines */
    if (!weir_limit_keeps_log(&terms.limit))
        return place_state(r, &terms, entry);
    return entry->shape == WEIR_SNAPSHOT_LOG ? place_log(r, &terms, entry) : WEIR_ECORRUPT;
}

/* ---- limits ---- */

/* All definitions of a file, and the blocks that their texts are in. */
struct defined {
    struct weir_limit_def *defs;
    uint64_t *debts; /* two for each: units, and until when */
    size_t count;
    uint8_t **blocks;
    size_t blocks_count;
};

static void defined_deinit(struct defined *defined)
{
    for (size_t i = 0; i < defined->blocks_count; i++)
        free(defined->blocks[i]);
    free(defined->blocks);
    free(defined->debts);
    free(defined->defs);
}

static int keep_block(struct weir_snapshot_reader *reader, struct defined *defined)
{
    uint8_t *records = malloc(reader->block.size);
    if (!records)
        return WEIR_ENOMEM;
    memcpy(records, weir_snapshot_records(reader).at, reader->block.size);
    defined->blocks[defined->blocks_count++] = records;
    struct weir_snapshot_rest rest = { records, reader->block.size };
    struct weir_snapshot_definition definition;
    int taken;
    while ((taken = weir_snapshot_take_definition(&rest, &definition)) == 1 && defined->count < reader->definitions) {
        defined->defs[defined->count] = definition.def;
        defined->debts[2 * defined->count] = definition.debt_units;
        defined->debts[2 * defined->count++ + 1] = definition.debt_until_ns;
    }
    return taken == 0 ? 0 : WEIR_ECORRUPT;
}

/* Keys may owe more than a limit's capacity for as long as they might before. */
static void restore_debts(struct restoring *r, const struct defined *defined)
{
    for (size_t i = 0; i < defined->count; i++) {
        struct weir_record *record = weir_record_of(r->limiter, r->ids[i]);
        struct weir_terms terms = record->terms;
        if (defined->debts[2 * i + 1] <= r->then_ns)
            continue;
        terms.limit.debt_units = weir_max_u64(defined->debts[2 * i], terms.limit.capacity);
        terms.limit.debt_until_ns = moved_ns(r, defined->debts[2 * i + 1]);
        weir_record_set_terms(record, &terms);
    }
}

static int define(struct restoring *r, const struct defined *defined, struct weir_fault *ret_fault)
{
    r->ids = calloc(defined->count + 1, sizeof *r->ids);
    if (!r->ids)
        return WEIR_ENOMEM;
    r->ids_count = defined->count;
    int error = weir_limiter_define(r->limiter, defined->defs, defined->count, &r->time, r->ids, ret_fault);
    if (!error)
        restore_debts(r, defined);
    return error;
}

/* ---- the file ---- */

/* The blocks of definitions, and the first block behind them. */
static int read_definitions(struct restoring *r, struct weir_snapshot_reader *reader, enum weir_snapshot_kind *ret_kind,
                            struct weir_fault *ret_fault)
{
    struct defined defined = { .defs = calloc(reader->definitions + 1, sizeof *defined.defs),
                               .debts = calloc(2 * reader->definitions + 2, sizeof *defined.debts),
                               .blocks = calloc(reader->definitions + 1, sizeof *defined.blocks) };
    int error = defined.defs && defined.debts && defined.blocks ? 0 : WEIR_ENOMEM;
    while (!error) {
        error = weir_snapshot_read_block(reader, ret_kind, ret_fault);
        if (error || *ret_kind != WEIR_SNAPSHOT_DEFINITIONS)
            break;
        error = defined.blocks_count <= reader->definitions ? keep_block(reader, &defined) : WEIR_ECORRUPT;
    }
    if (!error)
        error = define(r, &defined, ret_fault);
    defined_deinit(&defined);
    return error;
}

static int read_entries(struct restoring *r, struct weir_snapshot_reader *reader, enum weir_snapshot_kind kind,
                        struct weir_fault *ret_fault)
{
    int error = 0;
    while (!error && kind == WEIR_SNAPSHOT_ENTRIES) {
        struct weir_snapshot_rest rest = weir_snapshot_records(reader);
        struct weir_snapshot_entry entry;
        int taken;
        while (!error && (taken = weir_snapshot_take_entry(&rest, &entry)) != 0)
            error = taken < 0 ? taken : place(r, &entry);
        if (error == WEIR_ECORRUPT)
            return weir_snapshot_corrupt(reader, ret_fault);
        if (!error)
            error = weir_snapshot_read_block(reader, &kind, ret_fault);
    }
    return error;
}

static int check_fit(const struct weir_snapshot_reader *reader, const struct weir_limiter *limiter,
                     struct weir_fault *ret_fault)
{
    if (reader->key.k0 != limiter->key.k0 || reader->key.k1 != limiter->key.k1)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "secret", "must be the snapshot's");
    if (limiter->generation != 0)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "limiter", "has limits already");
    if (reader->head.shard_bits < WEIR_TABLE_SHARD_BITS && limiter->table.shard_bits > reader->head.shard_bits)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "memory_max",
                              "is more than it was, which was below 1 MiB: keys of so small a table cannot be placed");
    return 0;
}

int weir_snapshot_restore(struct weir_snapshot_reader *reader, struct weir_limiter *limiter,
                          const struct weir_moment *moment, struct weir_snapshot_stats *ret_stats,
                          struct weir_fault *ret_fault)
{
    struct restoring r = { .limiter = limiter,
                           .time = { moment->now_ns, moment->wall_ns },
                           .then_ns = then_ns(&reader->head.moment, moment) };
    enum weir_snapshot_kind kind = WEIR_SNAPSHOT_END;
    int error = check_fit(reader, limiter, ret_fault);
    if (!error)
        error = weir_snapshot_rewind(reader, ret_fault);
    if (error)
        return error;
    limiter->permits = weir_add_sat(reader->head.permits, PERMITS_APART);
    __atomic_store_n(&limiter->wall.fallen_from_ns, reader->head.fallen_from_ns, __ATOMIC_RELEASE);
    __atomic_store_n(&limiter->wall.fallen_at_ns, moved_ns(&r, reader->head.fallen_at_ns), __ATOMIC_RELEASE);
    __atomic_store_n(&limiter->wall.high_ns, reader->head.wall_high_ns, __ATOMIC_RELEASE);
    error = read_definitions(&r, reader, &kind, ret_fault);
    if (!error)
        error = read_entries(&r, reader, kind, ret_fault);
    free(r.ids);
    if (error == WEIR_ENOMEM)
        return weir_fault_set(ret_fault, error, "", "out of memory");
    if (error)
        return error;
    uint64_t evicted = __atomic_load_n(&limiter->table.evicted, __ATOMIC_RELAXED); /* by those that came after them */
    r.stats.keys -= evicted;
    r.stats.lost += evicted;
    r.stats.bytes = reader->at;
    r.stats.away_ns = passed_ns(&reader->head.moment, moment);
    *ret_stats = r.stats;
    return 0;
}
