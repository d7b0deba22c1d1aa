/* SPDX-License-Identifier: Apache-2.0
 *
 * The set of limits, replacing it, and what is due in the background: a walk through the table when a set was replaced,
 * when logs are short of room, when the base of time is old, and each minute for permits that nobody gave back. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limits/memory.h"
#include "limits/reserve_marks.h"

/* A walk that brings the base of time along is due long before slots go out of reach. */
#define BASE_OLD_NS (WEIR_TABLE_AHEAD_NS / 4)

/* How often a walk looks for permits whose leases have ended, of keys that nobody asks for any more. */
#define PERMITS_OLD_NS (60 * WEIR_NS_PER_SECOND)

/* ---- records by name ---- */

static int compare_names(const char *name_a, const char *variant_a, const char *name_b, const char *variant_b)
{
    int order = strcmp(name_a, name_b);
    return order ? order : strcmp(variant_a, variant_b);
}

static int compare_records(const void *a, const void *b)
{
    const struct weir_record *x = *(struct weir_record *const *)a, *y = *(struct weir_record *const *)b;
    return compare_names(x->name, x->variant, y->name, y->variant);
}

static bool same_spec(const struct weir_record *a, const struct weir_record *b)
{
    const struct weir_limit_spec *x = &a->spec, *y = &b->spec;
    return x->algorithm == y->algorithm && x->count == y->count && x->period_ns == y->period_ns &&
           x->burst == y->burst && x->align == y->align && x->calendar == y->calendar &&
           x->calendar_count == y->calendar_count && strcmp(a->tz, b->tz) == 0 && x->spread_ns == y->spread_ns &&
           x->count_mode == y->count_mode && x->mode == y->mode && x->on_full == y->on_full &&
           x->on_change == y->on_change && x->reserves == y->reserves;
}

/* ---- the background ---- */

struct walk {
    struct weir_limiter *limiter;
    struct weir_time time;
    bool last; /* the retired limits' numbers are given away after this */
};

static bool walk_wants(void *context, uint32_t number)
{
    const struct weir_record *record = weir_record_at(((struct walk *)context)->limiter, number);
    return record && record->retired;
}

/* An entry of a retired limit: carried over to its successor, or forgotten with it. */
static void convert_visited(void *context, struct weir_held *held)
{
    static const struct weir_key no_key = { 0 };
    const struct walk *walk = context;
    const struct weir_record *from = weir_record_at(walk->limiter, weir_pair_limit(held->pair));
    const struct weir_record *to = from->next ? weir_record_at(walk->limiter, from->next) : NULL;
    struct weir_entry entry = { .held = *held };
    weir_entry_unpack(walk->limiter, &from->terms.limit, &entry);
    if (to) {
        struct weir_event event = weir_event_make(walk->limiter, &to->terms, &no_key, 0, &walk->time);
        if (weir_entry_convert(walk->limiter, &to->terms, &event, &entry)) {
            weir_entry_release(walk->limiter, &to->terms, &entry);
            return;
        }
        if (!walk->last) { /* no room for its log: it stays under the old number while it may */
            weir_entry_put_back(walk->limiter, &entry);
            return;
        }
        weir_count_evicted(walk->limiter, weir_pair_limit(entry.held.pair));
    }
    weir_entry_drop(walk->limiter, &entry);
}

/* Goes on with the walk that is due, or begins it. True while lines are left. */
static bool walk_on(struct weir_limiter *limiter, const struct weir_time *time, size_t lines_max, bool last)
{
    struct walk walk = { limiter, *time, last };
    if (limiter->walk_cursor == 0)
        limiter->walk_began_ns = time->now_ns;
    if (weir_table_walk(&limiter->table, &limiter->walk_cursor, lines_max, time->now_ns, walk_wants, convert_visited,
                        &walk))
        return true;
    __atomic_store_n(&limiter->table.base_ns, limiter->walk_began_ns, __ATOMIC_RELAXED);
    limiter->walk_due = false;
    return false;
}

void weir_limiter_walk_on(struct weir_limiter *limiter, const struct weir_time *time, size_t lines_max)
{
    (void)walk_on(limiter, time, lines_max, false);
}

/* Whether permits that nobody gave back may long have ended. A walk that began at a time still to come was before the
 * clock came back, unless only callers' clocks disagree. */
static bool permits_old(struct weir_limiter *limiter, uint64_t now_ns)
{
    bool old = weir_sub_sat(now_ns, limiter->walk_began_ns) > PERMITS_OLD_NS ||
               weir_sub_sat(limiter->walk_began_ns, now_ns) > limiter->skew_max_ns;
    return old && weir_logs_kept(&limiter->logs) > 0;
}

bool weir_limiter_maintain(struct weir_limiter *limiter, const struct weir_time *time, size_t lines_max)
{
    struct weir_time now = time ? *time : weir_limiter_time(limiter);
    if (!weir_table_in_reach(&limiter->table, now.now_ns))
        weir_limiter_reach(limiter, now.now_ns);
    (void)weir_fall_until(&limiter->fall, &limiter->table, now.now_ns, 0); /* a fall is seen as soon as may be */
    weir_clock_check(&limiter->clock);
    if (pthread_mutex_trylock(&limiter->background) != 0)
        return true;
    weir_table_prefault(&limiter->table);
    uint64_t base = __atomic_load_n(&limiter->table.base_ns, __ATOMIC_RELAXED);
    bool due = __atomic_exchange_n(&limiter->logs_short, false, __ATOMIC_RELAXED) || limiter->walk_due ||
               limiter->walk_cursor > 0 || (now.now_ns > base && now.now_ns - base > BASE_OLD_NS) ||
               permits_old(limiter, now.now_ns);
    if (due)
        due = walk_on(limiter, &now, lines_max, false);
    pthread_mutex_unlock(&limiter->background);
    return due;
}

void weir_limiter_reach(struct weir_limiter *limiter, uint64_t now_ns)
{
    pthread_mutex_lock(&limiter->background);
    if (!weir_table_in_reach(&limiter->table, now_ns)) {
        weir_table_rebase(&limiter->table, now_ns);
        if (limiter->walk_cursor > 0) { /* a walk under way began at a time that is no longer a base: again */
            limiter->walk_cursor = 0;
            limiter->walk_due = true;
        }
    }
    pthread_mutex_unlock(&limiter->background);
}

/* Walks until no entry of a retired limit is left. Whoever holds an entry is waited for at the place where it is; if
 * one was being moved meanwhile, to where more room is, it may have passed the walk: once more. */
static void walk_retired(struct weir_limiter *limiter, const struct weir_time *time)
{
    uint64_t begun;
    unsigned spins = 0;
    do {
        begun = __atomic_load_n(&limiter->widenings_begun, __ATOMIC_SEQ_CST);
        for (; __atomic_load_n(&limiter->widenings_done, __ATOMIC_SEQ_CST) != begun; weir_relax(&spins))
            begun = __atomic_load_n(&limiter->widenings_begun, __ATOMIC_SEQ_CST);
        limiter->walk_cursor = 0;
        while (walk_on(limiter, time, SIZE_MAX, true)) {
        }
    } while (__atomic_load_n(&limiter->widenings_begun, __ATOMIC_SEQ_CST) != begun);
}

/* The previous set ends: its ids are no good any more, then no entry is of it, then its records are used again.
 * Whoever decides by one either holds an entry, and the walk waits for it; or looks at the id once it does, and begins
 * again. */
static void finish_retired(struct weir_limiter *limiter, const struct weir_time *time)
{
    if (limiter->retired_count == 0)
        return;
    for (size_t i = 0; i < limiter->retired_count; i++)
        __atomic_store_n(&limiter->records[limiter->retired[i]]->terms.id, 0, __ATOMIC_SEQ_CST);
    walk_retired(limiter, time);
    for (size_t i = 0; i < limiter->retired_count; i++) {
        struct weir_record *record = limiter->records[limiter->retired[i]];
        __atomic_store_n(&limiter->records[limiter->retired[i]], NULL, __ATOMIC_RELEASE);
        weir_record_spare(limiter, record);
    }
    limiter->retired_count = 0;
}

int weir_id_error(const struct weir_limiter *limiter, weir_limit_id id)
{
    uint64_t generation = id >> 16;
    bool was = weir_id_number(id) >= WEIR_DEFINED_FIRST && generation > 0 &&
               generation <= __atomic_load_n(&limiter->generation, __ATOMIC_RELAXED);
    return was ? WEIR_ESTALE : WEIR_ENOENT;
}

/* ---- replacing the set ---- */

struct replacement {
    struct weir_record **records; /* by definition: new, or the one that stays */
    struct weir_record **sorted;
    uint32_t *retired;
    uint16_t *owners; /* of permits' records: by name, so that overrides have that of their limit */
    size_t count, retired_count, owners_count;
};

static void replacement_deinit(struct weir_limiter *limiter, struct replacement *r, bool records_too)
{
    for (size_t i = 0; records_too && r->records && i < r->count; i++)
        if (r->records[i])
            weir_record_spare(limiter, r->records[i]);
    free(r->records);
    free(r->owners);
    if (records_too) {
        free(r->sorted);
        free(r->retired);
    }
}

/* Everything that can fail, nothing that can be seen. */
static int prepare(struct weir_limiter *limiter, const struct weir_limit_def *defs, size_t count, struct replacement *r,
                   struct weir_fault *ret_fault)
{
    r->count = count;
    r->records = calloc(count + 1, sizeof *r->records);
    r->sorted = calloc(count + 1, sizeof *r->sorted);
    r->retired = calloc(limiter->current_count + 1, sizeof *r->retired);
    r->owners = calloc(count + 1, sizeof *r->owners);
    if (!r->records || !r->sorted || !r->retired || !r->owners)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        int error = weir_def_check(&defs[i], ret_fault);
        if (!error)
            error = weir_record_create(limiter, &defs[i], &r->records[i], ret_fault);
        if (error)
            return error;
        r->sorted[i] = r->records[i];
    }
    qsort(r->sorted, count, sizeof(void *), compare_records);
    for (size_t i = 1; i < count; i++)
        if (compare_records(&r->sorted[i - 1], &r->sorted[i]) == 0) {
            struct weir_limit_def def = { .name = r->sorted[i]->name };
            return weir_def_fault(ret_fault, WEIR_EEXIST, &def, "name", "this name and variant is defined twice");
        }
    return weir_reserve_marks_make(limiter, defs, count);
}

/* How many concurrency limits share what permits may take, overrides not counted. */
static size_t owners_among(const struct replacement *r)
{
    const char *last = NULL;
    size_t owners = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (r->sorted[i]->spec.algorithm != WEIR_CONCURRENCY || (last && strcmp(last, r->sorted[i]->name) == 0))
            continue;
        last = r->sorted[i]->name;
        owners++;
    }
    return owners;
}

/* Tells of the first limit that one key can never use up, for want of room for its log or its permits. It is no error:
 * whoever replaces a set cannot replace the memory, and would be left with the old set. */
static int tell_short(const struct weir_limiter *limiter, const struct weir_limit_def *defs,
                      const struct replacement *r, struct weir_fault *ret_fault)
{
    const size_t owners = owners_among(r);
    uint32_t longest[2] = { 0, 0 }; /* of logs, of permits */
    bool known[2] = { false, false };
    for (size_t i = 0; i < r->count; i++) {
        const bool permits = defs[i].spec.algorithm == WEIR_CONCURRENCY;
        if (!permits && defs[i].spec.algorithm != WEIR_SLIDING_LOG)
            continue;
        if (!known[permits] && weir_logs_longest(limiter->logs_bytes, permits ? owners : 0, &longest[permits]) != 0)
            return WEIR_ENOMEM;
        known[permits] = true;
        const uint32_t room = permits ? longest[permits] / 2 : longest[permits]; /* a permit takes two words */
        if (defs[i].spec.count <= room)
            continue;
        char text[128];
        (void)snprintf(text, sizeof text, "is never reached: log_memory_max has room for %" PRIu32 " of one key", room);
        (void)weir_def_fault(ret_fault, 0, &defs[i], "count", text);
        return 0;
    }
    return 0;
}

/* A number that no slot carries. There are more than twice as many as limits: the set before may still use half. */
static uint32_t number_take(struct weir_limiter *limiter)
{
    for (;;) {
        uint32_t number = limiter->number_hint++;
        if (limiter->number_hint > WEIR_SLOT_LIMIT_MAX)
            limiter->number_hint = WEIR_DEFINED_FIRST;
        if (!limiter->records[number])
            return number;
    }
}

/* From now on `old` decides by its successor. */
static void succeed(struct weir_record *old, uint32_t number)
{
    __atomic_store_n(&old->next, number, __ATOMIC_RELEASE);
    __atomic_store_n(&old->plain, false, __ATOMIC_RELAXED);
}

/* `record`, which is not published yet, takes the place of `old`. */
static void follow(struct weir_record *record, const struct weir_record *old, uint64_t now_ns)
{
    struct weir_terms terms = record->terms;
    weir_limit_follow(&terms.limit, &old->terms.limit, now_ns);
    weir_record_set_terms(record, &terms);
}

/* Where its entries show what was used: entry.c packs it there. */
static struct weir_kind kind_of(const struct weir_limit *limit)
{
    static const uint8_t units[] = {
        [WEIR_TOKEN_BUCKET] = WEIR_UNITS_BY_TIME,    [WEIR_LEAKY_BUCKET] = WEIR_UNITS_BY_TIME,
        [WEIR_FIXED_WINDOW] = WEIR_UNITS_B,          [WEIR_SLIDING_LOG] = WEIR_UNITS_B_LOW,
        [WEIR_SLIDING_COUNTER] = WEIR_UNITS_A_AND_B, [WEIR_CONCURRENCY] = WEIR_UNITS_BY_TIME,
    };
    return (struct weir_kind){
        .shift = (int8_t)limit->shift,
        .wide = !weir_limit_is_bucket(limit),
        .notified = weir_limit_keeps_log(limit),
        .kept = limit->algorithm == WEIR_CONCURRENCY,
        .units = units[limit->algorithm],
    };
}

static void publish(struct weir_limiter *limiter, struct weir_record *record, struct weir_record *old, uint64_t now_ns)
{
    uint32_t number = number_take(limiter);
    if (old)
        follow(record, old, now_ns);
    for (unsigned i = 0; i < WEIR_COUNT_STRIPES; i++) { /* counters go on under the new number */
        uint64_t *refused = limiter->refused[i];
        uint64_t count = old ? __atomic_load_n(&refused[weir_id_number(old->terms.id)], __ATOMIC_RELAXED) : 0;
        __atomic_store_n(&refused[number], count, __ATOMIC_RELAXED);
    }
    if (old) {
        __atomic_store_n(&record->evicted, __atomic_load_n(&old->evicted, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
        __atomic_store_n(&record->refused_full, __atomic_load_n(&old->refused_full, __ATOMIC_RELAXED),
                         __ATOMIC_RELAXED);
    }
    weir_table_set_kind(&limiter->table, number, kind_of(&record->terms.limit), record->terms.limit.capacity);
    __atomic_store_n(&record->terms.id, number | limiter->generation << 16, __ATOMIC_RELEASE);
    __atomic_store_n(&limiter->records[number], record, __ATOMIC_RELEASE);
    if (old)
        succeed(old, number);
}

static struct weir_record *find_record(struct weir_record *const *sorted, size_t count, char *name, char *variant)
{
    struct weir_record like = { .name = name, .variant = variant }, *key = &like;
    struct weir_record **found = count > 0 ? bsearch(&key, sorted, count, sizeof(void *), compare_records) : NULL;
    return found ? *found : NULL;
}

/* The keys of a variant that is no more go on under the limit itself, perhaps in debt: which therefore gets a new
 * number, as if it had changed. Before anything of the new set is published. */
static void follow_removed_variants(struct weir_limiter *limiter, const struct replacement *r, uint64_t now_ns)
{
    char none[] = "";
    for (size_t i = 0; i < limiter->current_count; i++) {
        struct weir_record *old = limiter->current[i], *base;
        if (old->variant[0] == '\0' || find_record(r->sorted, r->count, old->name, old->variant))
            continue;
        base = find_record(r->sorted, r->count, old->name, none);
        if (base)
            follow(base, old, now_ns);
    }
}

/* ... and are sent there. After all of the new set is published. */
static void send_removed_variants(struct weir_limiter *limiter)
{
    char none[] = "";
    for (size_t i = 0; i < limiter->retired_count; i++) {
        struct weir_record *old = limiter->records[limiter->retired[i]];
        struct weir_record *base = find_record(limiter->current, limiter->current_count, old->name, none);
        if (old->next == 0 && base)
            succeed(old, weir_id_number(base->terms.id));
    }
}

/* Who has permits, has a part of the memory for them. */
static void give_owners(struct weir_limiter *limiter, struct replacement *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct weir_terms terms = r->records[i]->terms;
        if (terms.limit.algorithm != WEIR_CONCURRENCY)
            continue;
        terms.owner = weir_permit_owner_of(limiter, r->records[i]->naming.uid);
        weir_record_set_terms(r->records[i], &terms);
        r->owners[r->owners_count++] = terms.owner;
    }
    weir_logs_share(&limiter->logs, r->owners, r->owners_count);
}

/* Where a name has levels, a key may come from one with more used than another has. */
static void give_debts(const struct replacement *r)
{
    for (size_t i = 0, end; i < r->count; i = end) {
        uint64_t most = 0;
        bool levels = false;
        for (end = i; end < r->count && strcmp(r->sorted[i]->name, r->sorted[end]->name) == 0; end++) {
            most = weir_max_u64(most, r->sorted[end]->terms.limit.capacity);
            levels = levels || r->sorted[end]->terms.level > 0;
        }
        for (size_t j = i; levels && j < end; j++) {
            struct weir_terms terms = r->sorted[j]->terms;
            weir_limit_owes(&terms.limit, most);
            weir_record_set_terms(r->sorted[j], &terms);
        }
    }
}

/* Keeps what is unchanged, gives the new their numbers, retires the rest. */
static void commit(struct weir_limiter *limiter, struct replacement *r, uint64_t now_ns)
{
    __atomic_fetch_add(&limiter->generation, 1, __ATOMIC_RELAXED);
    give_owners(limiter, r);
    give_debts(r);
    follow_removed_variants(limiter, r, now_ns);
    for (size_t i = 0; i < limiter->current_count; i++)
        limiter->current[i]->retired = true;
    for (size_t i = 0; i < r->count; i++) {
        struct weir_record *old = find_record(limiter->current, limiter->current_count, r->records[i]->name,
                                              r->records[i]->variant);
        const struct weir_limit *limit = &r->records[i]->terms.limit;
        if (old && same_spec(old, r->records[i]) && limit->debt_until_ns == 0 &&
            limit->ahead_max == old->terms.limit.ahead_max) {
            old->retired = false;
            weir_record_spare(limiter, r->records[i]);
            r->records[i] = old;
        } else {
            publish(limiter, r->records[i], old, now_ns);
        }
    }
    for (size_t i = 0; i < limiter->current_count; i++)
        if (limiter->current[i]->retired)
            r->retired[r->retired_count++] = weir_id_number(limiter->current[i]->terms.id);
    free(limiter->current);
    free(limiter->retired);
    memcpy(r->sorted, r->records, r->count * sizeof(void *));
    qsort(r->sorted, r->count, sizeof(void *), compare_records);
    limiter->current = r->sorted;
    limiter->current_count = r->count;
    limiter->retired = r->retired;
    limiter->retired_count = r->retired_count;
    send_removed_variants(limiter);
    if (r->retired_count > 0) {
        limiter->walk_due = true;
        limiter->walk_cursor = 0;
    }
}

int weir_limiter_define(struct weir_limiter *limiter, const struct weir_limit_def *defs, size_t count,
                        const struct weir_time *time, weir_limit_id *ret_ids, struct weir_fault *ret_fault)
{
    struct weir_time now = time ? *time : weir_limiter_time(limiter);
    struct replacement r = { 0 };
    if (ret_fault)
        memset(ret_fault, 0, sizeof *ret_fault);
    if (count > WEIR_LIMITS_MAX) {
        struct weir_limit_def none = { .name = "limits" };
        return weir_def_fault(ret_fault, WEIR_ELIMIT, &none, "count", "must be at most 32000, overrides included");
    }
    if (!weir_table_in_reach(&limiter->table, now.now_ns))
        weir_limiter_reach(limiter, now.now_ns);
    pthread_mutex_lock(&limiter->background);
    int error = prepare(limiter, defs, count, &r, ret_fault);
    if (!error && ret_fault)
        error = tell_short(limiter, defs, &r, ret_fault);
    if (!error) {
        weir_reserve_marks_follow(limiter, now.now_ns); /* while the ids of the retired are good */
        finish_retired(limiter, &now);
        commit(limiter, &r, now.now_ns);
        for (size_t i = 0; i < count; i++)
            ret_ids[i] = r.records[i]->terms.id;
    }
    replacement_deinit(limiter, &r, error != 0);
    pthread_mutex_unlock(&limiter->background);
    return error;
}

void weir_limiter_undefine_all(struct weir_limiter *limiter)
{
    for (uint32_t i = 0; limiter->records && i <= WEIR_SLOT_LIMIT_MAX; i++)
        weir_record_destroy(limiter->records[i]);
    for (size_t i = 0; i < limiter->zones_count; i++) {
        weir_zone_destroy(limiter->zones[i].zone);
        free(limiter->zones[i].name);
    }
    while (limiter->spare)
        weir_record_destroy(weir_record_take(limiter));
    free(limiter->zones);
    free(limiter->current);
    free(limiter->retired);
}
