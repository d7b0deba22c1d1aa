/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the memory engine: what a limiter is made of. Between the files of engine/ only. */
#ifndef WEIR_ENGINE_MEMORY_H
#define WEIR_ENGINE_MEMORY_H

#include <pthread.h>

#include "base/siphash.h"
#include "core/limit/limit.h"
#include "engine/calendar.h"
#include "engine/wall.h"
#include "table/logs.h"
#include "table/table.h"
#include "weir/limiter.h"

/* Limit numbers in slots: 0 none; 1 to 17 buckets without a definition, one for each tick; the rest defined limits. */
#define WEIR_RAW_FIRST 1u
#define WEIR_RAW_COUNT ((uint32_t)(WEIR_TICKS_SHIFT_MAX - WEIR_TICKS_SHIFT_MIN + 1))
#define WEIR_DEFINED_FIRST (WEIR_RAW_FIRST + WEIR_RAW_COUNT)
#define WEIR_REFUSED_STRIPES 8

/* A limit as defined. Never changes after it is published, but for what is marked. */
struct weir_record {
    struct weir_limit limit;
    weir_limit_id id; /* number | generation << 16 */
    bool plain;       /* atomic: a bucket, enforced, counting what it admits, not retired: the hot path */
    enum weir_mode mode;
    enum weir_count count_mode;
    enum weir_on_full on_full;
    uint64_t spread_ns;
    struct weir_calendar_rule rule;
    uint64_t uid; /* of the name: what keys begin with */
    struct weir_limit_spec spec;
    char *name, *variant, *tz;
    uint32_t next;    /* atomic: number of the successor once retired; 0 if the limit was removed */
    bool retired;     /* define */
    uint64_t evicted; /* atomic */
    uint64_t refused_full;
};

struct weir_zone_entry {
    char *name;
    struct weir_zone *zone;
};

struct weir_limiter {
    struct weir_table table;
    struct weir_record **records; /* by number; atomic */
    uint64_t *refused[WEIR_REFUSED_STRIPES];
    struct weir_logs logs;
    struct weir_wall wall;
    struct weir_sip_key key, cluster_key;
    uint64_t skew_max_ns;
    size_t memory_max;
    uint64_t log_cursor;                           /* atomic: where the search for a log to forget goes on */
    bool logs_short;                               /* atomic: a walk should forget dead logs */
    uint64_t converted, clock_jumps, refused_full; /* atomic */
    uint64_t permits;                              /* atomic: the number of the last one granted */
    /* define and maintain */
    pthread_mutex_t background;
    struct weir_record **current; /* sorted by name and variant */
    size_t current_count;
    uint32_t *retired; /* numbers, of the previous set */
    size_t retired_count;
    struct weir_record **buried; /* of the set before that: their numbers are given away */
    size_t buried_count;
    struct weir_zone_entry *zones;
    size_t zones_count;
    uint32_t generation, number_hint;
    uint64_t walk_cursor, walk_began_ns;
    bool walk_due; /* retired limits may still have keys */
};

/* For limits that are not on the calendar: half the cost of weir_time_read. */
struct weir_time weir_time_read_monotonic(void);

static inline uint32_t weir_id_number(weir_limit_id id)
{
    return id & 0xffff;
}

static inline struct weir_record *weir_record_at(const struct weir_limiter *limiter, uint32_t number)
{
    return __atomic_load_n(&limiter->records[number], __ATOMIC_ACQUIRE);
}

static inline struct weir_record *weir_record_of(const struct weir_limiter *limiter, weir_limit_id id)
{
    struct weir_record *record = weir_record_at(limiter, weir_id_number(id));
    return record && record->id == id ? record : NULL;
}

/* A retired limit decides by its successor at once: nothing is ever converted back. */
static inline const struct weir_record *weir_record_now(const struct weir_limiter *limiter,
                                                        const struct weir_record *record)
{
    uint32_t next = __atomic_load_n(&record->next, __ATOMIC_ACQUIRE);
    return next ? weir_record_at(limiter, next) : record;
}

static inline bool weir_record_plain(const struct weir_record *record)
{
    return __atomic_load_n(&record->plain, __ATOMIC_RELAXED);
}

/* Counts a refusal; threads spread over the stripes. */
static inline void weir_count_refused(struct weir_limiter *limiter, uint32_t number)
{
    uintptr_t thread = (uintptr_t)pthread_self();
    uint64_t *stripe = limiter->refused[(thread >> 12 ^ thread >> 20) % WEIR_REFUSED_STRIPES];
    __atomic_fetch_add(&stripe[number], 1, __ATOMIC_RELAXED);
}

/* Counts a newcomer that found no place. */
static inline void weir_count_full(struct weir_limiter *limiter, uint32_t number)
{
    struct weir_record *record = weir_record_at(limiter, number);
    __atomic_fetch_add(&limiter->refused_full, 1, __ATOMIC_RELAXED);
    if (record)
        __atomic_fetch_add(&record->refused_full, 1, __ATOMIC_RELAXED);
}

/* Counts a resident that lost its place other than through the table. */
static inline void weir_count_evicted(struct weir_limiter *limiter, uint32_t number)
{
    struct weir_record *record = weir_record_at(limiter, number);
    __atomic_fetch_add(&limiter->table.evicted, 1, __ATOMIC_RELAXED);
    if (record)
        __atomic_fetch_add(&record->evicted, 1, __ATOMIC_RELAXED);
}

/* ---- entry.c: an entry of the table as a state of the core ---- */

struct weir_entry {
    struct weir_held held;
    struct weir_state state;
};

/* The event of a charge on a record now. */
struct weir_event weir_event_make(struct weir_limiter *limiter, const struct weir_record *record,
                                  const struct weir_key *key, uint64_t cost, const struct weir_time *time);

/* Holds the key's entry as a state of `record`, converting and settling it first. */
enum weir_hold weir_entry_hold(struct weir_limiter *limiter, const struct weir_record *record, uint64_t hash,
                               enum weir_absent absent, const struct weir_event *event, struct weir_entry *ret_entry,
                               uint64_t *ret_wait_ns);
void weir_entry_release(struct weir_limiter *limiter, const struct weir_record *record, struct weir_entry *entry);
void weir_entry_drop(struct weir_limiter *limiter, struct weir_entry *entry);

/* The state of an entry that is held, and was written under `limit`. */
void weir_entry_unpack(const struct weir_limiter *limiter, const struct weir_limit *limit, struct weir_entry *entry);

/* Carries a held entry over from the limit it was written under. False if it needs room that there is not. */
bool weir_entry_convert(struct weir_limiter *limiter, const struct weir_record *to, const struct weir_event *event,
                        struct weir_entry *entry);

/* Puts a held entry back as it was found: a conversion that found no room. */
void weir_entry_put_back(struct weir_limiter *limiter, struct weir_entry *entry);

/* Room in a log for `units` more. False if there is none, not even by forgetting dead logs or, by on_full, evicting a
 * live one; ret_wait_ns, if not NULL: until another log met on the way is dead. */
bool weir_entry_room(struct weir_limiter *limiter, const struct weir_record *record, const struct weir_event *event,
                     uint64_t units, struct weir_entry *entry, uint64_t *ret_wait_ns);

/* The table's word that an entry is gone. */
weir_table_forgotten weir_entry_forgotten;

/* ---- define.c ---- */

/* Brings the table within reach of a time far from all before. */
void weir_limiter_reach(struct weir_limiter *limiter, uint64_t now_ns);
void weir_limiter_undefine_all(struct weir_limiter *limiter);

#endif
