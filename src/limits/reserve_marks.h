/* SPDX-License-Identifier: Apache-2.0
 *
 * The marks of keys that have open reservations (core/limit/reserve.h): a bounded hash table beside the limiter's own,
 * made when the first limit that reserves is defined.
 *
 * Thread rule: any thread. What looks at the state of a key is called while its entry is held; the locks in here come
 * after those of entries. */
#pragma once

#include <pthread.h>

#include "core/limit/reserve.h"
#include "weir/reserve.h"

#define WEIR_MARKS_SHARDS 16

struct weir_limiter;
struct weir_terms;

struct weir_mark_entry {
    uint64_t hash;
    uint64_t until_ns; /* when the last of its reservations ends */
    uint64_t serial;   /* no epoch before it is of this entry */
    weir_limit_id id;  /* by which its mark goes */
    struct weir_reserve_mark mark;
    uint32_t open; /* reservations */
    uint32_t next; /* in its chain, or of the free ones: 1 + a number; 0: the last */
};

struct weir_reserve_marks_shard {
    pthread_mutex_t lock;
    struct weir_mark_entry *pool;
    uint32_t *heads; /* as many as there are entries: 1 + a number; 0: none */
    uint32_t used;   /* of the pool: what is behind was never touched */
    uint32_t free;
    uint32_t cursor; /* where the search for what has ended goes on */
};

struct weir_reserve_marks {
    uint64_t count;     /* atomic */
    uint64_t epochs;    /* atomic: the newest */
    uint64_t forgotten; /* atomic: marks that gave way */
    uint32_t per_shard; /* a power of two */
    struct weir_reserve_marks_shard shards[WEIR_MARKS_SHARDS];
};

/* Before the first limit that reserves is defined: the limiter's. They stay. WEIR_ENOMEM. */
int weir_reserve_marks_make(struct weir_limiter *limiter, const struct weir_limit_def *defs, size_t count);
void weir_reserve_marks_destroy(struct weir_reserve_marks *marks); /* NULL is allowed */

static inline bool weir_reserve_marks_any(const struct weir_reserve_marks *marks)
{
    return marks && __atomic_load_n(&marks->count, __ATOMIC_ACQUIRE) > 0;
}

/* One more open reservation of the key, whose units of `epoch` it may have already (0: none). False: there is no place
 * for its mark. *ret_opened: weir_reserve_marks_close is due. */
bool weir_reserve_marks_open(struct weir_reserve_marks *marks, uint64_t hash, uint64_t epoch, uint64_t end_ns,
                             uint64_t now_ns, bool *ret_opened);
/* One fewer, that was of `epoch`; 0: it was opened just now. */
void weir_reserve_marks_close(struct weir_reserve_marks *marks, uint64_t hash, uint64_t epoch);

/* A key is found so, before anything is done to it. `broken`: what was known of it is void. */
void weir_reserve_marks_see(struct weir_limiter *limiter, const struct weir_terms *terms, uint64_t hash,
                            const struct weir_event *event, const struct weir_state *state, bool broken);

/* Before another set of limits: every mark goes by one of the set in force. Under `background`. */
void weir_reserve_marks_follow(struct weir_limiter *limiter, uint64_t now_ns);

/* `units` have been charged to a key for whom weir_reserve_marks_open said yes, as part number `part` of `reserved`. */
void weir_reserve_marks_charged(struct weir_reserve_marks *marks, const struct weir_limit *limit, weir_limit_id id,
                                const struct weir_event *event, const struct weir_state *state, uint64_t units,
                                uint32_t part, struct weir_reserved *reserved);

/* Gives back up to `units` of what `reserved` has in its first `parts` parts, the latest first. */
uint64_t weir_reserve_marks_back(struct weir_reserve_marks *marks, const struct weir_limit *limit,
                                 const struct weir_event *event, struct weir_state *state,
                                 const struct weir_reserved *reserved, uint32_t parts, uint64_t units);
