/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the memory engine: what a limiter is made of. Between the files of limits/ only. */
#pragma once

#include <pthread.h>

#include "base/siphash.h"
#include "base/timing.h"
#include "core/limit/limit.h"
#include "limits/calendar.h"
#include "limits/clock.h"
#include "limits/fall.h"
#include "limits/wall.h"
#include "table/logs.h"
#include "table/table.h"
#include "weir/limiter.h"

/* Limit numbers in slots: 0 none; 1 to 17 buckets without a definition, one for each tick; the rest defined limits. */
#define WEIR_RAW_FIRST 1u
#define WEIR_RAW_COUNT ((uint32_t)(WEIR_TICKS_SHIFT_MAX - WEIR_TICKS_SHIFT_MIN + 1))
#define WEIR_DEFINED_FIRST (WEIR_RAW_FIRST + WEIR_RAW_COUNT)
#define WEIR_COUNT_STRIPES 8

/* What a decision goes by. */
struct weir_terms {
    weir_limit_id id; /* number | generation << 16; 0: of no set, or of one that is gone */
    struct weir_limit limit;
    uint8_t mode, count_mode, on_full, on_change; /* as in the spec */
    uint16_t owner;                               /* of permits' rings: one for each name */
    uint16_t level;                               /* which of its limit's: a hash of the variant; 0: it is none */
    uint64_t spread_ns;
    struct weir_calendar_rule rule;
};

/* What a key is made with. */
struct weir_naming {
    uint64_t uid;                    /* of the name: what keys begin with */
    struct weir_siphash_state phase; /* the cluster's secret and the name, behind which the values come */
};

/* A limit as defined. Nobody says when the last decision by a limit has ended, so a record is never freed: once its set
 * has been replaced twice it is used again for another limit. Whoever asks by an id therefore goes by a copy that was
 * whole while the id was good (weir_terms_of), and looks once more when it holds the key's entry (weir_terms_good). */
struct weir_record {
    struct weir_terms terms;   /* atomic, word by word */
    struct weir_naming naming; /* atomic, word by word */
    bool plain;                /* atomic: a bucket with ticks of at most 1 ns, enforced, counting what it admits, not
                                  retired, without reservations: the hot path */
    uint32_t next;             /* atomic: number of the successor once retired; 0 if the limit was removed */
    uint64_t evicted;          /* atomic */
    uint64_t refused_full;     /* atomic */
    /* define */
    struct weir_limit_spec spec;
    char *name, *variant, *tz;
    bool retired;
    struct weir_record *spare; /* the next one that is free */
};

struct weir_zone_entry {
    char *name;
    struct weir_zone *zone;
};

/* What became of the units of concurrency limits' permits, by owner: that is by the name, so that overrides count with
 * their limit and a reload changes nothing. */
struct weir_permit_counts {
    uint64_t given, released, ended; /* atomic */
    uint64_t out;                    /* atomic; of one stripe modulo 2^64: only the sum counts */
};

/* Of permits: a name of limits. By its number. */
struct weir_permit_owner {
    uint64_t uid;        /* of the name; 0: nobody's yet */
    uint64_t generation; /* of the newest set that has a concurrency limit of that name */
};

struct weir_reserve_marks; /* limits/reserve_marks.h */

struct weir_limiter {
    struct weir_table table;
    struct weir_record **records; /* by number; atomic */
    uint64_t *refused[WEIR_COUNT_STRIPES];
    struct weir_permit_counts *permit_counts[WEIR_COUNT_STRIPES];
    struct weir_permit_owner *owners; /* define: by number */
    uint64_t owner_tries;             /* define: how many places from its first a name may be */
    struct weir_logs logs;
    struct weir_wall wall;
    struct weir_fall fall;
    struct weir_sip_key key, cluster_key;
    struct weir_clock clock;
    uint64_t skew_max_ns;
    size_t memory_max, logs_bytes;
    uint64_t log_cursor;                           /* atomic: where the search for a log to forget goes on */
    bool logs_short;                               /* atomic: a walk should forget dead logs */
    uint64_t logs_barren;                          /* atomic: lines searched in a row without finding one */
    uint64_t logs_barren_since_ns;                 /* atomic: when that were all; 0: they were not */
    uint64_t converted, clock_jumps, refused_full; /* atomic */
    uint64_t permits;                              /* atomic: the number of the last one granted */
    struct weir_reserve_marks *marks;              /* atomic; NULL: no limit reserves so far */
    uint64_t reserved_keys_max;
    uint64_t widenings_begun, widenings_done; /* atomic: entries that move while they are held */
    /* define and maintain */
    pthread_mutex_t background;
    struct weir_record **current; /* sorted by name and variant */
    size_t current_count;
    uint32_t *retired; /* numbers, of the previous set */
    size_t retired_count;
    struct weir_record *spare; /* free to be used again */
    struct weir_zone_entry *zones;
    size_t zones_count;
    uint64_t generation; /* atomic: of the newest set */
    uint32_t number_hint;
    uint64_t walk_cursor, walk_began_ns;
    bool walk_due; /* retired limits may still have keys */
};

/* By the limiter's own clock. For limits that are not on the calendar: half the cost of weir_limiter_time. */
static inline struct weir_time weir_limiter_time_monotonic(struct weir_limiter *limiter)
{
    return (struct weir_time){ weir_clock_now(&limiter->clock), 0 };
}

/* The wall's is wanted after all. */
static inline struct weir_time weir_time_with_wall(struct weir_time now)
{
    return (struct weir_time){ .now_ns = now.now_ns, .wall_ns = weir_timing_now(CLOCK_REALTIME) };
}

static inline struct weir_time weir_limiter_time(struct weir_limiter *limiter)
{
    return weir_time_with_wall(weir_limiter_time_monotonic(limiter));
}

static inline uint32_t weir_id_number(weir_limit_id id)
{
    return (uint32_t)(id & 0xffff);
}

static inline struct weir_record *weir_record_at(const struct weir_limiter *limiter, uint32_t number)
{
    return __atomic_load_n(&limiter->records[number], __ATOMIC_ACQUIRE);
}

/* ---- what others may be writing: words as they were at some time, in ascending order ---- */

typedef uint64_t __attribute__((may_alias)) weir_word;

static inline __attribute__((always_inline)) void weir_words_load(void *to, const void *from, size_t bytes)
{
#pragma GCC unroll 32
    for (size_t i = 0; i < bytes / sizeof(weir_word); i++)
        ((weir_word *)to)[i] = __atomic_load_n((const weir_word *)from + i, __ATOMIC_ACQUIRE);
}

static inline void weir_words_store(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(weir_word); i++)
        __atomic_store_n((weir_word *)to + i, ((const weir_word *)from)[i], __ATOMIC_RELEASE);
}

static inline weir_limit_id weir_record_id(const struct weir_record *record)
{
    return __atomic_load_n(&record->terms.id, __ATOMIC_SEQ_CST);
}

/* The record of an id. What is read from it counts if it is still the record of that id afterwards. */
static inline struct weir_record *weir_record_of(const struct weir_limiter *limiter, weir_limit_id id)
{
    struct weir_record *record = weir_record_at(limiter, weir_id_number(id));
    return record && weir_record_id(record) == id ? record : NULL;
}

/* Why an id has no record: WEIR_ESTALE, or it never was one: WEIR_ENOENT. */
int weir_id_error(const struct weir_limiter *limiter, weir_limit_id id);

/* A retired limit decides by its successor at once: nothing is ever converted back. */
static inline const struct weir_record *weir_record_now(const struct weir_limiter *limiter,
                                                        const struct weir_record *record)
{
    uint32_t next = __atomic_load_n(&record->next, __ATOMIC_ACQUIRE);
    return next ? weir_record_at(limiter, next) : record;
}

/* What to decide by now for an id. False: the id is not good (any more). While an id is good its limit's successor is
 * of the newest set, so it is enough to look at the id again in the end. */
static inline bool weir_terms_of(const struct weir_limiter *limiter, weir_limit_id id, struct weir_terms *ret_terms)
{
    const struct weir_record *record = weir_record_of(limiter, id);
    const struct weir_record *now = record ? weir_record_now(limiter, record) : NULL;
    if (!now)
        return false;
    weir_words_load(ret_terms, &now->terms, sizeof *ret_terms);
    return weir_record_id(now) == ret_terms->id && ret_terms->id != 0 && weir_record_id(record) == id;
}

/* Whether a limit may still be decided by, and nothing has taken its place since its terms were copied: an entry that
 * somebody has carried over meanwhile would be carried back. Asked while an entry is held. The record is not used again
 * until it is let go: before that a walk waits for whoever holds an entry (finish_retired). */
static inline bool weir_terms_good(const struct weir_limiter *limiter, const struct weir_terms *terms)
{
    const struct weir_record *record = weir_record_of(limiter, terms->id);
    return record && __atomic_load_n(&record->next, __ATOMIC_ACQUIRE) == 0;
}

static inline bool weir_record_plain(const struct weir_record *record)
{
    return __atomic_load_n(&record->plain, __ATOMIC_RELAXED);
}

/* Threads spread over the stripes, each by where its stack is. */
static inline unsigned weir_count_stripe(void)
{
    char here;
    uintptr_t thread = (uintptr_t)&here;
    return (thread >> 12 ^ thread >> 20) % WEIR_COUNT_STRIPES;
}

static inline void weir_count_refused(struct weir_limiter *limiter, uint32_t number)
{
    __atomic_fetch_add(&limiter->refused[weir_count_stripe()][number], 1, __ATOMIC_RELAXED);
}

/* How many units a log of permits has, of whom some may have ended: each takes two words. */
static inline uint64_t weir_permits_in(const struct weir_log *log)
{
    return log->used / 2;
}

/* Counts units that became permits, were given back, or whose permits have ended. */
static inline void weir_count_permits(struct weir_limiter *limiter, const struct weir_terms *terms, uint64_t given,
                                      uint64_t released, uint64_t ended)
{
    struct weir_permit_counts *counts = &limiter->permit_counts[weir_count_stripe()][terms->owner];
    if (given > 0)
        __atomic_fetch_add(&counts->given, given, __ATOMIC_RELAXED);
    if (released > 0)
        __atomic_fetch_add(&counts->released, released, __ATOMIC_RELAXED);
    if (ended > 0)
        __atomic_fetch_add(&counts->ended, ended, __ATOMIC_RELAXED);
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
    bool widened; /* one of widenings_begun, until it is let go */
};

/* A key that something is given back to. */
struct weir_grip {
    bool held; /* else nothing is there */
    struct weir_terms terms;
    struct weir_event event;
    struct weir_entry entry;
};

/* The event of a charge under a limit now. */
struct weir_event weir_event_make(struct weir_limiter *limiter, const struct weir_terms *terms,
                                  const struct weir_key *key, uint64_t cost, const struct weir_time *time);

/* The state of a key of `limit` that has no entry, as far as that can be told: fresh, unless the clock fell. What is no
 * bucket is then refused whatever it asks (weir_entry_bar): returns how long, 0 if it is not. */
uint64_t weir_entry_newcomer(struct weir_limiter *limiter, const struct weir_limit *limit, uint64_t now_ns,
                             struct weir_state *ret_state);
void weir_entry_bar(const struct weir_limit *limit, uint64_t cost, uint64_t wait_ns, struct weir_verdict *v);

/* Holds the key's entry as a state of a limit, converting and settling it first. WEIR_HOLD_ABSENT though it should have
 * been made: it is refused for ret_wait_ns, as above. WEIR_HOLD_STALE: the limit is gone. */
enum weir_hold weir_entry_hold(struct weir_limiter *limiter, const struct weir_terms *terms, uint64_t hash,
                               enum weir_absent absent, const struct weir_event *event, struct weir_entry *ret_entry,
                               uint64_t *ret_wait_ns);
/* Holds what a key has, by the limit that it is of, or that has taken its place; false: there is nothing, or nobody can
 * tell. For terms that are to outlive any number of changes. */
bool weir_entry_hold_own(struct weir_limiter *limiter, const struct weir_key *key, const struct weir_time *time,
                         struct weir_grip *ret_grip);
void weir_entry_release(struct weir_limiter *limiter, const struct weir_terms *terms, struct weir_entry *entry);
void weir_entry_drop(struct weir_limiter *limiter, struct weir_entry *entry);

/* The state of an entry that is held, and was written under `limit`. */
void weir_entry_unpack(const struct weir_limiter *limiter, const struct weir_limit *limit, struct weir_entry *entry);

/* Carries a held entry over from the limit it was written under. False if it needs room that there is not. */
bool weir_entry_convert(struct weir_limiter *limiter, const struct weir_terms *to, const struct weir_event *event,
                        struct weir_entry *entry);

/* Puts a held entry back as it was found: a conversion that found no room. */
void weir_entry_put_back(struct weir_limiter *limiter, struct weir_entry *entry);

/* Room in a log for `units` more. False if there is none, not even by forgetting dead logs or, by on_full, evicting a
 * live one; ret_wait_ns, if not NULL: until another log met on the way is dead. */
bool weir_entry_room(struct weir_limiter *limiter, const struct weir_terms *terms, const struct weir_event *event,
                     uint64_t units, struct weir_entry *entry, uint64_t *ret_wait_ns);

/* The table's word that an entry is gone. */
weir_table_forgotten weir_entry_forgotten;

/* ---- record.c: for define.c, under `background` ---- */

/* Errors: as weir_limit_check, WEIR_ERANGE for the name. */
int weir_def_check(const struct weir_limit_def *def, struct weir_fault *ret_fault);
/* Fills in the fault, if it is wanted, as "NAME.FIELD", the name cut to fit. Returns `error`. */
int weir_def_fault(struct weir_fault *ret_fault, int error, const struct weir_limit_def *def, const char *field,
                   const char *text);
/* A record of no set yet, of a definition that was checked. WEIR_EINVAL (the time zone), WEIR_ENOMEM. */
int weir_record_create(struct weir_limiter *limiter, const struct weir_limit_def *def, struct weir_record **ret_record,
                       struct weir_fault *ret_fault);
void weir_record_set_terms(struct weir_record *record, const struct weir_terms *terms);
/* Puts a record aside, to be used again: whoever asks by its old id may still look at it. */
void weir_record_spare(struct weir_limiter *limiter, struct weir_record *record);
/* One that was put aside, or a new one; NULL without memory. */
struct weir_record *weir_record_take(struct weir_limiter *limiter);
void weir_record_destroy(struct weir_record *record);
/* The owner of a name, for the set that is being committed. */
uint16_t weir_permit_owner_of(struct weir_limiter *limiter, uint64_t uid);

/* ---- define.c ---- */

/* Goes on with the walk that is due, or begins it, under `background`. */
void weir_limiter_walk_on(struct weir_limiter *limiter, const struct weir_time *time, size_t lines_max);
/* Brings the table within reach of a time far from all before. */
void weir_limiter_reach(struct weir_limiter *limiter, uint64_t now_ns);
void weir_limiter_undefine_all(struct weir_limiter *limiter);
