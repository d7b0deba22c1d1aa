/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a share host: a bounded table of them, who goes first when it is full, and who wants to be woken when.
 * Only share_host.c and share_step.c look at it. One thread. */
#pragma once

#include "base/due.h"
#include "core/share/batched.h"
#include "core/share/leased.h"
#include "limits/share_host.h"

struct weir_share_key {
    struct weir_share_host *host;
    struct weir_remote_key key;
    const struct weir_remote_limit *limit; /* held */
    bool leased;
    bool idle;            /* nothing is held, owed or under way */
    bool gone;            /* no longer in the table: settles, then ends */
    bool unwanted;        /* goes as soon as nobody is in the middle of a request */
    bool asking;          /* `request` is under way */
    uint32_t users;       /* requests that have reserved and neither committed nor cancelled: it stays for them */
    uint64_t gone_ns;     /* ends at the latest then */
    uint64_t deadline_ns; /* of an ask: how long */
    union {
        struct {
            struct weir_leased machine;
            struct weir_leased_options options;
        } leased;
        struct {
            struct weir_batched machine;
            struct weir_batched_options options;
        } batched;
    } as;
    struct weir_share_waiter *waiting_first, *waiting_last;
    struct weir_remote_request request;
    struct weir_remote_op op;

    struct weir_share_key *chain;       /* in the table */
    struct weir_share_key *next, *prev; /* by last use */
    uint64_t wake_ns;                   /* when it wants to be woken; 0 = not */
    struct weir_due due;                /* never later than wake_ns */
};

struct weir_share_list {
    struct weir_share_key *first, *last;
};

struct weir_share_keys {
    struct weir_share_key **buckets;
    size_t buckets_mask;
    size_t count, count_max;             /* in the table */
    struct weir_share_list idle, active; /* longest unused first */
    struct weir_share_list gone;
    size_t gone_count;
    struct weir_due_heap due;
    struct weir_share_key *last; /* found: callers ask for it again */
};

/* Steps the key's machine; the host's sums follow what that changed. */
void weir_share_key_step(struct weir_share_key *key, struct weir_share_host_stats *stats,
                         const struct weir_share_event *event, uint64_t now_ns, struct weir_share_effects *ret_effects);

/* What a RESERVE of `units` would say now. */
void weir_share_key_look(const struct weir_share_key *key, uint64_t units, uint64_t now_ns,
                         struct weir_share_effects *ret_effects);

/* The terms it goes by. */
bool weir_share_key_follows(const struct weir_share_key *key, const struct weir_share_terms *terms);
void weir_share_key_follow(struct weir_share_key *key, const struct weir_share_terms *terms);

/* ---- the table ---- */

/* Room for `count_max` keys, and for `gone_max` that settle. WEIR_ENOMEM. */
int weir_share_keys_init(struct weir_share_keys *keys, size_t count_max, size_t gone_max);
void weir_share_keys_deinit(struct weir_share_keys *keys); /* all keys have gone */

/* The one in the table; NULL. And one of the same kind that has left the table and still settles; NULL. */
struct weir_share_key *weir_share_keys_find(struct weir_share_keys *keys, const struct weir_remote_key *key);
struct weir_share_key *weir_share_keys_find_gone(struct weir_share_keys *keys, const struct weir_remote_key *key,
                                                 bool leased);
void weir_share_keys_insert(struct weir_share_keys *keys, struct weir_share_key *key); /* there is room */

/* It was used now. */
void weir_share_keys_touch(struct weir_share_keys *keys, struct weir_share_key *key);
void weir_share_keys_set_idle(struct weir_share_keys *keys, struct weir_share_key *key, bool idle);

/* Out of the table, among those that are gone; back into it, where there is room; and out of both. */
void weir_share_keys_leave(struct weir_share_keys *keys, struct weir_share_key *key);
void weir_share_keys_return(struct weir_share_keys *keys, struct weir_share_key *key);
void weir_share_keys_remove(struct weir_share_keys *keys, struct weir_share_key *key);

/* The one to go when the table is full: an idle one, else the one longest unused; nobody is in the middle of a request
 * with it. NULL: none. */
struct weir_share_key *weir_share_keys_victim(const struct weir_share_keys *keys);

/* Unwanted are those whose limit's name is none of the names, which are sorted here; nobody else. */
void weir_share_keys_keep(struct weir_share_keys *keys, const char **names, size_t count);

/* key->wake_ns has changed. */
void weir_share_keys_wake(struct weir_share_keys *keys, struct weir_share_key *key);
/* One whose time has come, out of the heap; NULL. */
struct weir_share_key *weir_share_keys_due(struct weir_share_keys *keys, uint64_t now_ns);
uint64_t weir_share_keys_next_ns(const struct weir_share_keys *keys); /* WEIR_NEVER */
