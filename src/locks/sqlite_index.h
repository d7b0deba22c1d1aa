/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the sqlite engine: what is held, in memory. Every decision is made here; the database is where it survives.
 *
 * An entry whose state differs from its row is dirty: it is on the dirty list, or on the one taken off to be written.
 * Thread rule: the engine's mutex (sqlite.c). What is being written is left alone by all but the one who writes it. */
#pragma once

#include "base/siphash.h"
#include "core/lease/holders.h"
#include "locks/hash.h"
#include "weir/limiter.h"
#include "weir/lock.h"

struct weir_sqlite_entry {
    struct weir_hash_node node;
    struct weir_sqlite_entry *dirty_next;
    bool dirty;
    bool fresh; /* granted in the batch that is not durable yet */
    struct weir_holders holders;
    struct weir_lease_holder holder; /* the room of holders.out */
    uint64_t incarnation;            /* of the grant */
    uint64_t ttl_ns;                 /* as stored: the longest asked for since the grant */
    size_t name_size, owner_size;
    char owner[WEIR_LOCK_OWNER_MAX];
    char name[];
};

struct weir_sqlite_index {
    struct weir_hash table;
    struct weir_sip_key key;
    struct weir_sqlite_entry *dirty;
    size_t sweep; /* cursor of the search for leases that ended */
};

int weir_sqlite_index_init(struct weir_sqlite_index *index); /* WEIR_ENOMEM, WEIR_EIO (no random bytes) */
void weir_sqlite_index_deinit(struct weir_sqlite_index *index);

/* NULL: there is none. */
struct weir_sqlite_entry *weir_sqlite_index_find(const struct weir_sqlite_index *index, struct weir_slice name);
/* A new one, held by nobody; NULL: out of memory. The name must not be there. */
struct weir_sqlite_entry *weir_sqlite_index_add(struct weir_sqlite_index *index, struct weir_slice name);
void weir_sqlite_index_touch(struct weir_sqlite_index *index, struct weir_sqlite_entry *entry); /* dirty from now on */

/* Looks at a few entries, going round: those whose lease has ended become dirty, so that they go with the next write.
 * Each grant looks at more than it adds, so the table stays bounded by what is held. */
void weir_sqlite_index_sweep(struct weir_sqlite_index *index, uint64_t now_ns);

/* How many are held; where there are more than WEIR_SQLITE_COUNTED entries, at most so many: some may have ended. */
#define WEIR_SQLITE_COUNTED 1024
uint64_t weir_sqlite_index_held(const struct weir_sqlite_index *index, uint64_t now_ns);

/* Takes the dirty list off, to be written; its entries stay dirty until one of the two that follow. */
struct weir_sqlite_entry *weir_sqlite_index_take(struct weir_sqlite_index *index);
/* They were written: those held by nobody are freed. */
void weir_sqlite_index_clean(struct weir_sqlite_index *index, struct weir_sqlite_entry *taken);
void weir_sqlite_index_return(struct weir_sqlite_index *index, struct weir_sqlite_entry *taken); /* they were not */

/* Of those on the dirty list, none written, the ones held by nobody are freed. */
void weir_sqlite_index_forget(struct weir_sqlite_index *index);

/* The number of `owner` for core/lease/holders.h: equal to the holder's exactly if the bytes are. */
uint64_t weir_sqlite_entry_holder(const struct weir_sqlite_entry *entry, struct weir_slice owner);
