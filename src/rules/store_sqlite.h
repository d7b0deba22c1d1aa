/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the SQLite store: the connection, and whose the file is. Any number of processes and handles may have one file
 * open; SQLite's own locks keep writers apart. Thread rule: one thread. */
#pragma once

#include <sqlite3.h>

#include "rules/store_inside.h"

struct weir_rule_sqlite {
    struct weir_rule_store store;
    char *path;
    sqlite3 *db;                       /* NULL: closed */
    bool met;                          /* it was open once: what is gone since is not made anew */
    uint8_t id[WEIR_RULE_CHANGE_SIZE]; /* of the store that is open */
};

static inline struct weir_rule_sqlite *weir_rule_sqlite_of(struct weir_rule_store *store)
{
    return (struct weir_rule_sqlite *)store;
}

/* Opens it if it is not, or if another file is at its path by now; from here on nothing waits longer for a lock. Errors
 * as in store.h. */
int weir_rule_sqlite_ready(struct weir_rule_sqlite *sqlite, uint64_t deadline_ns, struct weir_fault *ret_fault);
void weir_rule_sqlite_drop(struct weir_rule_sqlite *sqlite); /* closes it */

/* A transaction in which the schema is ours, brought up to it where that was asked for. After an error there is none.
 * */
int weir_rule_sqlite_begin(struct weir_rule_sqlite *sqlite, bool writes, struct weir_fault *ret_fault);
void weir_rule_sqlite_rollback(struct weir_rule_sqlite *sqlite); /* of no consequence if it fails */
/* WEIR_EUNKNOWN, and the connection is closed; WEIR_EDOWN: a full disk. */
int weir_rule_sqlite_commit(struct weir_rule_sqlite *sqlite, struct weir_fault *ret_fault);

/* What an earlier call stored, if not with success, is on the disk by now. WEIR_EUNKNOWN. */
int weir_rule_sqlite_lasting(struct weir_rule_sqlite *sqlite, struct weir_fault *ret_fault);

/* To schema `to`, whichever it has. In one transaction. */
int weir_rule_sqlite_move(struct weir_rule_sqlite *sqlite, unsigned to, struct weir_fault *ret_fault);

int weir_rule_sqlite_prepare(struct weir_rule_sqlite *sqlite, const char *sql, sqlite3_stmt **ret_statement,
                             struct weir_fault *ret_fault);

/* What SQLite said last, as one of our errors. */
int weir_rule_sqlite_fault(const struct weir_rule_sqlite *sqlite, struct weir_fault *ret_fault);
/* "PATH: what". Returns `error`. */
int weir_rule_sqlite_say(const struct weir_rule_sqlite *sqlite, int error, const char *what,
                         struct weir_fault *ret_fault);

/* ---- store_sqlite_exceptions.c: as struct weir_rule_store_ops ---- */

int weir_rule_sqlite_except(struct weir_rule_store *store, const struct weir_exception_change *change,
                            const uint8_t *digest, uint64_t deadline_ns, uint64_t *ret_number,
                            struct weir_fault *ret_fault);
int weir_rule_sqlite_exceptions(struct weir_rule_store *store, const struct weir_exception_select *select,
                                uint64_t deadline_ns, struct weir_fault *ret_fault);
