/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains in shards, each under a mutex that is held for the arithmetic of one key. An entry lives while it has open
 * reservations; what callers never settle is given up when its place is needed and its end has passed. Called by
 * entry.c for each key that is found, by decide_long.c for what a reserve charges, and by reserve.c. */
#include "limits/reserve_marks.h"

#include <stdlib.h>
#include <string.h>

#include "limits/memory.h"

#define SEARCHED 64 /* entries, for one that has ended, each time that a place is missing */

static int create(uint64_t keys_max, struct weir_reserve_marks **ret_marks)
{
    struct weir_reserve_marks *marks = calloc(1, sizeof *marks);
    bool whole = marks != NULL;
    if (!marks)
        return WEIR_ENOMEM;
    marks->per_shard = 1;
    while ((uint64_t)marks->per_shard * WEIR_MARKS_SHARDS < keys_max)
        marks->per_shard *= 2;
    for (size_t i = 0; i < WEIR_MARKS_SHARDS; i++) {
        struct weir_reserve_marks_shard *shard = &marks->shards[i];
        pthread_mutex_init(&shard->lock, NULL);
        shard->pool = calloc(marks->per_shard, sizeof *shard->pool); /* pages come as they are needed */
        shard->heads = calloc(marks->per_shard, sizeof *shard->heads);
        whole = whole && shard->pool && shard->heads;
    }
    if (!whole) {
        weir_reserve_marks_destroy(marks);
        return WEIR_ENOMEM;
    }
    *ret_marks = marks;
    return 0;
}

void weir_reserve_marks_destroy(struct weir_reserve_marks *marks)
{
    if (!marks)
        return;
    for (size_t i = 0; i < WEIR_MARKS_SHARDS; i++) {
        pthread_mutex_destroy(&marks->shards[i].lock);
        free(marks->shards[i].pool);
        free(marks->shards[i].heads);
    }
    free(marks);
}

int weir_reserve_marks_make(struct weir_limiter *limiter, const struct weir_limit_def *defs, size_t count)
{
    struct weir_reserve_marks *marks;
    bool reserves = false;
    for (size_t i = 0; i < count; i++)
        reserves = reserves || defs[i].spec.reserves;
    if (!reserves || limiter->marks)
        return 0;
    int error = create(limiter->reserved_keys_max, &marks);
    if (!error)
        __atomic_store_n(&limiter->marks, marks, __ATOMIC_RELEASE);
    return error;
}

/* ---- finding ---- */

static struct weir_reserve_marks_shard *lock_shard(struct weir_reserve_marks *marks, uint64_t hash)
{
    struct weir_reserve_marks_shard *shard = &marks->shards[hash % WEIR_MARKS_SHARDS];
    pthread_mutex_lock(&shard->lock);
    return shard;
}

static uint32_t *head_of(const struct weir_reserve_marks *marks, struct weir_reserve_marks_shard *shard, uint64_t hash)
{
    return &shard->heads[hash / WEIR_MARKS_SHARDS & (marks->per_shard - 1)];
}

/* What points to the entry, or to the end of the chain that it would be in. */
static uint32_t *find(const struct weir_reserve_marks *marks, struct weir_reserve_marks_shard *shard, uint64_t hash)
{
    uint32_t *at = head_of(marks, shard, hash);
    while (*at != 0 && shard->pool[*at - 1].hash != hash)
        at = &shard->pool[*at - 1].next;
    return at;
}

static struct weir_mark_entry *entry_at(struct weir_reserve_marks_shard *shard, uint32_t number)
{
    return number > 0 ? &shard->pool[number - 1] : NULL;
}

static uint64_t next_epoch(struct weir_reserve_marks *marks)
{
    return __atomic_add_fetch(&marks->epochs, 1, __ATOMIC_RELAXED);
}

/* ---- coming and going ---- */

static void remove_at(struct weir_reserve_marks *marks, struct weir_reserve_marks_shard *shard, uint32_t *at)
{
    const uint32_t number = *at;
    struct weir_mark_entry *entry = entry_at(shard, number);
    *at = entry->next;
    *entry = (struct weir_mark_entry){ .next = shard->free };
    shard->free = number;
    __atomic_fetch_sub(&marks->count, 1, __ATOMIC_RELEASE);
}

/* Of some entries, gives up one whose reservations are all past their end. */
static void give_up_one(struct weir_reserve_marks *marks, struct weir_reserve_marks_shard *shard, uint64_t now_ns)
{
    for (unsigned i = 0; i < SEARCHED && shard->free == 0; i++) {
        const struct weir_mark_entry *entry = &shard->pool[shard->cursor];
        shard->cursor = (shard->cursor + 1) % marks->per_shard;
        if (entry->open == 0 || entry->until_ns >= now_ns)
            continue;
        remove_at(marks, shard, find(marks, shard, entry->hash));
        __atomic_fetch_add(&marks->forgotten, 1, __ATOMIC_RELAXED);
    }
}

/* A free entry's number; 0: there is none. */
static uint32_t take(struct weir_reserve_marks *marks, struct weir_reserve_marks_shard *shard, uint64_t now_ns)
{
    if (shard->free == 0 && shard->used < marks->per_shard)
        return ++shard->used;
    if (shard->free == 0)
        give_up_one(marks, shard, now_ns);
    const uint32_t number = shard->free;
    if (number > 0)
        shard->free = shard->pool[number - 1].next;
    return number;
}

bool weir_reserve_marks_open(struct weir_reserve_marks *marks, uint64_t hash, uint64_t epoch, uint64_t end_ns,
                             uint64_t now_ns, bool *ret_opened)
{
    struct weir_reserve_marks_shard *shard = lock_shard(marks, hash);
    uint32_t number = *find(marks, shard, hash);
    *ret_opened = false;
    if (number == 0) {
        number = take(marks, shard, now_ns);
        if (number > 0) { /* take may have changed the chain */
            uint32_t *head = head_of(marks, shard, hash);
            *entry_at(shard,
                      number) = (struct weir_mark_entry){ .hash = hash, .serial = next_epoch(marks), .next = *head };
            *head = number;
            __atomic_fetch_add(&marks->count, 1, __ATOMIC_RELEASE);
        }
    }
    struct weir_mark_entry *entry = entry_at(shard, number);
    if (entry) {
        *ret_opened = epoch < entry->serial;
        entry->open += *ret_opened;
        entry->until_ns = weir_max_u64(entry->until_ns, end_ns);
    }
    pthread_mutex_unlock(&shard->lock);
    return entry != NULL;
}

void weir_reserve_marks_close(struct weir_reserve_marks *marks, uint64_t hash, uint64_t epoch)
{
    struct weir_reserve_marks_shard *shard = lock_shard(marks, hash);
    uint32_t *at = find(marks, shard, hash);
    struct weir_mark_entry *entry = entry_at(shard, *at);
    if (entry && (epoch == 0 || epoch >= entry->serial)) {
        weir_assert(entry->open > 0);
        if (--entry->open == 0)
            remove_at(marks, shard, at);
    }
    pthread_mutex_unlock(&shard->lock);
}

/* ---- what a key is found to be ---- */

/* Carries a mark over to the limit that the key is decided by now. False if it cannot be told how: the limit was
 * replaced twice since. */
static bool follow(const struct weir_limiter *limiter, const struct weir_terms *to, const struct weir_event *event,
                   struct weir_mark_entry *entry)
{
    const struct weir_record *record = weir_record_of(limiter, entry->id);
    struct weir_terms from;
    if (!record)
        return false;
    const uint32_t next = __atomic_load_n(&record->next, __ATOMIC_ACQUIRE);
    weir_words_load(&from, &record->terms, sizeof from);
    if (weir_record_id(record) != entry->id || (next != 0 && next != weir_id_number(to->id)))
        return false;
    const enum weir_on_change on_change = from.level != to->level ? WEIR_ON_CHANGE_LEVEL
                                                                  : (enum weir_on_change)to->on_change;
    return weir_reserve_convert(&entry->mark, &from.limit, &to->limit, on_change, event);
}

void weir_reserve_marks_see(struct weir_limiter *limiter, const struct weir_terms *terms, uint64_t hash,
                            const struct weir_event *event, const struct weir_state *state, bool broken)
{
    struct weir_reserve_marks *marks = __atomic_load_n(&limiter->marks, __ATOMIC_ACQUIRE);
    struct weir_reserve_marks_shard *shard = lock_shard(marks, hash);
    struct weir_mark_entry *entry = entry_at(shard, *find(marks, shard, hash));
    if (entry && entry->mark.epoch > 0) {
        if (!broken && entry->id != terms->id)
            broken = !follow(limiter, terms, event, entry);
        if (broken)
            weir_reserve_mark_init(&entry->mark, &terms->limit, state, event, next_epoch(marks));
        else
            weir_reserve_see(&entry->mark, &terms->limit, state, event);
        entry->id = terms->id;
    }
    pthread_mutex_unlock(&shard->lock);
}

/* An entry whose limit was replaced; what cannot follow gives nothing back. */
static void follow_successor(struct weir_limiter *limiter, const struct weir_event *event,
                             struct weir_mark_entry *entry)
{
    struct weir_terms to = { 0 };
    const struct weir_record *record = weir_record_of(limiter, entry->id);
    const struct weir_record *now = record ? weir_record_now(limiter, record) : NULL;
    if (now == record && record)
        return;
    if (now)
        weir_words_load(&to, &now->terms, sizeof to);
    if (!now || !follow(limiter, &to, event, entry))
        entry->mark = (struct weir_reserve_mark){ .scale = WEIR_RESERVE_SCALE, .epoch = next_epoch(limiter->marks) };
    entry->id = to.id;
}

void weir_reserve_marks_follow(struct weir_limiter *limiter, uint64_t now_ns)
{
    const struct weir_event event = { .now_ns = now_ns };
    struct weir_reserve_marks *marks = limiter->marks;
    for (size_t i = 0; i < WEIR_MARKS_SHARDS && weir_reserve_marks_any(marks); i++) {
        struct weir_reserve_marks_shard *shard = lock_shard(marks, i);
        for (uint32_t j = 0; j < shard->used; j++)
            if (shard->pool[j].open > 0 && shard->pool[j].mark.epoch > 0)
                follow_successor(limiter, &event, &shard->pool[j]);
        pthread_mutex_unlock(&shard->lock);
    }
}

/* ---- charging, and giving back ---- */

void weir_reserve_marks_charged(struct weir_reserve_marks *marks, const struct weir_limit *limit, weir_limit_id id,
                                const struct weir_event *event, const struct weir_state *state, uint64_t units,
                                uint32_t part, struct weir_reserved *reserved)
{
    struct weir_reserve_marks_shard *shard = lock_shard(marks, reserved->key.hash);
    struct weir_mark_entry *entry = entry_at(shard, *find(marks, shard, reserved->key.hash));
    weir_assert(part < WEIR_RESERVE_PARTS_MAX);
    reserved->parts[part] = (struct weir_reserved_part){ .units = units, .scale = WEIR_RESERVE_SCALE };
    if (entry) { /* else it gave way to another since: nothing will come back */
        const struct weir_reserve_part charged = weir_reserve_part_of(limit, state, units);
        if (entry->mark.epoch == 0) {
            weir_reserve_mark_init(&entry->mark, limit, state, event, next_epoch(marks));
            entry->id = id;
        }
        if (reserved->epoch != entry->mark.epoch) /* what it had before is gone */
            memset(reserved->parts, 0, sizeof reserved->parts);
        reserved->epoch = entry->mark.epoch;
        reserved->parts[part].units = units;
        reserved->parts[part].at = charged.at;
        reserved->parts[part].scale = entry->mark.scale;
    }
    pthread_mutex_unlock(&shard->lock);
}

uint64_t weir_reserve_marks_back(struct weir_reserve_marks *marks, const struct weir_limit *limit,
                                 const struct weir_event *event, struct weir_state *state,
                                 const struct weir_reserved *reserved, uint32_t parts, uint64_t units)
{
    struct weir_reserve_marks_shard *shard = lock_shard(marks, reserved->key.hash);
    struct weir_mark_entry *entry = entry_at(shard, *find(marks, shard, reserved->key.hash));
    uint64_t back = 0;
    weir_assert(parts <= WEIR_RESERVE_PARTS_MAX);
    if (entry && entry->mark.epoch == reserved->epoch && reserved->epoch > 0) {
        for (uint32_t i = parts; i > 0 && units > 0; i--) {
            const uint64_t of_part = weir_min_u64(units, reserved->parts[i - 1].units);
            units -= of_part;
            if (of_part == 0)
                continue;
            const uint64_t scaled = weir_reserve_rescale(of_part, reserved->parts[i - 1].scale, entry->mark.scale);
            back += weir_reserve_back(&entry->mark, limit, state, event, reserved->parts[i - 1].at, scaled);
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return back;
}
