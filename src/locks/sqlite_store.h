/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the sqlite engine: the database file. One connection that has the file to itself, one transaction per batch,
 * one fsync per transaction (of the write-ahead log). Of locks it decides nothing.
 *
 * After any error the connection is of no use any more: close it, and open it again. What an open one has synced is not
 * to be trusted after an fsync that failed, because the kernel drops pages it could not write; so the engine writes all
 * anew from its memory (weir_sqlite_store_rewrite).
 *
 * Thread rule: one thread. */
#pragma once

#include <sqlite3.h>
#include <sys/stat.h>

#include "locks/sqlite_index.h"

struct weir_sqlite_meta {
    uint64_t system; /* random, of this database */
    uint64_t incarnation;
    uint64_t counter; /* no grant of any lock has a greater number */
};

enum weir_sqlite_statement {
    WEIR_SQLITE_BEGIN,
    WEIR_SQLITE_COMMIT,
    WEIR_SQLITE_ROLLBACK,
    WEIR_SQLITE_PUT,
    WEIR_SQLITE_DELETE,
    WEIR_SQLITE_META,
    WEIR_SQLITE_STATEMENTS,
};

struct weir_sqlite_store {
    sqlite3 *db; /* NULL: closed */
    sqlite3_stmt *statements[WEIR_SQLITE_STATEMENTS];
    char *path, *wal_path;
    bool made;                    /* the file was, to find its name; it is empty */
    int claim;                    /* descriptor of PATH.lock; -1 */
    struct weir_sqlite_meta meta; /* as it is durable */
    struct stat seen, wal_seen;   /* the files as we left them */
    bool wal_dated;               /* the log's time of change, too */
    uint64_t written_ns;          /* when it was written last */
    int wal_frames;
    char fault[160]; /* of the last error */
};

int weir_sqlite_store_init(struct weir_sqlite_store *store, const char *path); /* WEIR_ENOMEM */
void weir_sqlite_store_deinit(struct weir_sqlite_store *store);

/* Once, before all else: keeps other processes out until deinit, while the database is closed between two attempts to
 * open it, too. What is answered from memory meanwhile holds. WEIR_EBUSY: another has it; WEIR_EIO, WEIR_ENOMEM. */
int weir_sqlite_store_claim(struct weir_sqlite_store *store);

/* Opens or creates. WEIR_EBUSY: another process has it; WEIR_ECORRUPT: not a database of ours, nothing was written to
 * it; WEIR_EIO. */
int weir_sqlite_store_open(struct weir_sqlite_store *store);
void weir_sqlite_store_close(struct weir_sqlite_store *store); /* without a checkpoint: the files stay as they are */

/* Reads the rows into an empty index; each gets a full lease from now. WEIR_ECORRUPT, WEIR_EIO, WEIR_ENOMEM. */
int weir_sqlite_store_load(struct weir_sqlite_store *store, struct weir_sqlite_index *index, uint64_t now_ns);

/* Makes these entries durable, under a meta row that covers `meta`: its counter runs ahead, so that it need not be
 * written each time. WEIR_EDOWN: certainly not done; WEIR_EUNKNOWN. */
int weir_sqlite_store_write(struct weir_sqlite_store *store, const struct weir_sqlite_entry *entries,
                            const struct weir_sqlite_meta *meta);
/* The same of all there are: whatever rows there are give way to the index. */
int weir_sqlite_store_rewrite(struct weir_sqlite_store *store, const struct weir_sqlite_index *index,
                              const struct weir_sqlite_meta *meta);

/* Whether a file is another than the one that we left: replaced, restored over, cut short, removed. */
bool weir_sqlite_store_changed(const struct weir_sqlite_store *store);

/* Nothing was written for a while: from now on the log's time of change counts as well. Under load it does not, because
 * to ask for it makes each write dearer (sqlite_store.c). */
void weir_sqlite_store_settle(struct weir_sqlite_store *store);

/* All of the write-ahead log into the database. WEIR_EIO. */
int weir_sqlite_store_checkpoint(struct weir_sqlite_store *store);
/* The same, and an empty log: a backup put in the database's place meets no changes that were made to another. */
int weir_sqlite_store_finish(struct weir_sqlite_store *store);
