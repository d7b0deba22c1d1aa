/* SPDX-License-Identifier: Apache-2.0
 *
 * The log of exceptions in SQLite, a table that the first change makes. It has no triggers: an older weir refuses a
 * file with triggers that it does not know. `held` of a row is how many exceptions hold after it, so that nobody counts
 * a million; it is counted anew where it says that the bound is reached, for some may have expired. Called by store.c,
 * by way of the ops in store_sqlite.c. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/fault.h"
#include "rules/store_sqlite.h"

/* All that COUNT_HOLDING reads, in its order. Tables of before it have an index of (digest, number) alone, by which it
 * takes six times as long: they get this one when they are counted first. */
#define NEWEST_INDEX "CREATE INDEX IF NOT EXISTS exceptions_newest ON exceptions (digest, number, kind, until_ns)"
#define TABLE                                                                                                          \
    "CREATE TABLE exceptions (number INTEGER PRIMARY KEY, kind INTEGER NOT NULL, wall_ns INTEGER NOT NULL,"            \
    " until_ns INTEGER NOT NULL, change BLOB NOT NULL UNIQUE, digest BLOB NOT NULL, limit_name TEXT NOT NULL,"         \
    " key BLOB NOT NULL, author TEXT NOT NULL, comment TEXT NOT NULL, held INTEGER NOT NULL);" NEWEST_INDEX
/* Made by the first change that has a level, as a store may have been made before there were any. */
#define LEVEL_COLUMN                                                                                                   \
    "ALTER TABLE exceptions ADD COLUMN level_name TEXT NOT NULL DEFAULT '';"                                           \
    "CREATE INDEX exceptions_level ON exceptions (level_name) WHERE level_name <> ''"
#define COLUMNS "number, kind, wall_ns, until_ns, change, limit_name, key, author, comment"
#define NO_LEVEL ", ''"
#define LEVEL ", level_name"
/* One step through the index for each name. */
#define COUNT_OTHER_LEVELS                                                                                             \
    "WITH RECURSIVE names (name) AS (SELECT min(level_name) FROM exceptions WHERE level_name <> '' UNION ALL SELECT "  \
    "(SELECT min(level_name) FROM exceptions WHERE level_name <> '' AND level_name > name) FROM names WHERE name IS "  \
    "NOT NULL) SELECT count(*) FROM names WHERE name <> ?1"
#define INSERT                                                                                                         \
    "INSERT INTO exceptions (number, kind, wall_ns, until_ns, change, digest, limit_name, key, author, comment, held"
#define VALUES ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11"
/* ?1: the moment. Whatever a later weir wrote holds as long as it says. */
#define HOLDS "kind <> 2 AND (until_ns = 0 OR until_ns > ?1)"
#define IS_NEWEST                                                                                                      \
    "NOT EXISTS (SELECT 1 FROM exceptions AS later WHERE later.digest = e.digest AND later.number > e.number)"

/* SQLite takes the other columns from the row that has the maximum (sqlite.org/lang_select.html, "bare columns"). */
#define COUNT_HOLDING                                                                                                  \
    "SELECT count(*) FROM (SELECT kind, until_ns, max(number) FROM exceptions GROUP BY digest) WHERE " HOLDS

/* The row's first column, or `none` where there is no row; finalizes it. */
static int take_number(struct weir_rule_sqlite *sqlite, sqlite3_stmt *row, uint64_t none, uint64_t *ret_number,
                       struct weir_fault *ret_fault)
{
    int step = sqlite3_step(row), error = 0;
    if (step == SQLITE_ROW)
        *ret_number = (uint64_t)sqlite3_column_int64(row, 0);
    else if (step == SQLITE_DONE)
        *ret_number = none;
    else
        error = weir_rule_sqlite_fault(sqlite, ret_fault);
    sqlite3_finalize(row);
    return error;
}

/* ?1: a moment, ?2: a digest, as far as the statement names them. */
static int ask_number(struct weir_rule_sqlite *sqlite, const char *sql, uint64_t at_ns, const uint8_t *digest,
                      uint64_t *ret_number, struct weir_fault *ret_fault)
{
    sqlite3_stmt *row = NULL;
    int error = weir_rule_sqlite_prepare(sqlite, sql, &row, ret_fault);
    if (error)
        return error;
    (void)sqlite3_bind_int64(row, 1, (int64_t)at_ns);
    (void)sqlite3_bind_blob(row, 2, digest, WEIR_EXCEPTION_DIGEST_SIZE, SQLITE_STATIC);
    return take_number(sqlite, row, 0, ret_number, ret_fault);
}

struct there {
    bool table, level; /* the column */
};

static int is_there(struct weir_rule_sqlite *sqlite, struct there *ret_there, struct weir_fault *ret_fault)
{
    uint64_t columns = 0, levels = 0;
    int error = ask_number(sqlite, "SELECT count(*) FROM pragma_table_info('exceptions')", 0, NULL, &columns,
                           ret_fault);
    if (!error)
        error = ask_number(sqlite, "SELECT count(*) FROM pragma_table_info('exceptions') WHERE name = 'level_name'", 0,
                           NULL, &levels, ret_fault);
    *ret_there = (struct there){ columns > 0, levels > 0 };
    return error;
}

/* ---- rows ---- */

/* Its pointers are the statement's. */
static void get_row(sqlite3_stmt *row, struct weir_exception *ret_exception)
{
    const struct weir_exception exception = {
        .number = (uint64_t)sqlite3_column_int64(row, 0),
        .kind = sqlite3_column_int(row, 1),
        .wall_ns = (uint64_t)sqlite3_column_int64(row, 2),
        .until_ns = (uint64_t)sqlite3_column_int64(row, 3),
        .limit = (const char *)sqlite3_column_text(row, 5),
        .key = { sqlite3_column_blob(row, 6), (size_t)sqlite3_column_bytes(row, 6) },
        .author = (const char *)sqlite3_column_text(row, 7),
        .comment = (const char *)sqlite3_column_text(row, 8),
        .level = (const char *)sqlite3_column_text(row, 9),
    };
    *ret_exception = exception;
    const bool whole = sqlite3_column_bytes(row, 4) == WEIR_RULE_CHANGE_SIZE && exception.limit && exception.author &&
                       exception.comment && exception.level && weir_exception_valid(&exception);
    if (whole) {
        memcpy(ret_exception->change, sqlite3_column_blob(row, 4), WEIR_RULE_CHANGE_SIZE);
        if (exception.key.size == 0)
            ret_exception->key.data = "";
    } else {
        *ret_exception = (struct weir_exception){ .number = exception.number, .damaged = true };
    }
}

/* ---- reading ---- */

static int select_rows(struct weir_rule_sqlite *sqlite, const struct weir_exception_select *select, bool level,
                       struct weir_fault *ret_fault)
{
    const struct weir_exception_query *query = &select->query;
    sqlite3_stmt *row = NULL;
    char sql[640];
    (void)snprintf(
        sql, sizeof sql, "SELECT " COLUMNS "%s FROM exceptions AS e WHERE number %s ?3%s%s%s%s LIMIT ?5",
        level ? LEVEL : NO_LEVEL, query->newest_first ? "<=" : ">=", select->one_key ? " AND digest IN (?2, ?6)" : "",
        query->limit ? " AND limit_name = ?4" : "", query->holding_at_ns > 0 ? " AND " HOLDS " AND " IS_NEWEST : "",
        query->newest_first ? " ORDER BY number DESC" : " ORDER BY number");
    int error = weir_rule_sqlite_prepare(sqlite, sql, &row, ret_fault), step = SQLITE_DONE;
    if (error)
        return error;
    (void)sqlite3_bind_int64(row, 1, (int64_t)query->holding_at_ns);
    (void)sqlite3_bind_blob(row, 2, select->digest, sizeof select->digest, SQLITE_STATIC);
    (void)sqlite3_bind_int64(row, 3, (int64_t)query->from);
    (void)sqlite3_bind_text(row, 4, query->limit, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(row, 5, (int64_t)query->count_max);
    (void)sqlite3_bind_blob(row, 6, select->reset_digest, sizeof select->reset_digest, SQLITE_STATIC);
    bool more = true;
    while (more && (step = sqlite3_step(row)) == SQLITE_ROW) {
        struct weir_exception exception;
        get_row(row, &exception);
        more = select->take(select->context, &exception);
    }
    if (more && step != SQLITE_DONE)
        error = weir_rule_sqlite_fault(sqlite, ret_fault);
    sqlite3_finalize(row);
    return error;
}

int weir_rule_sqlite_exceptions(struct weir_rule_store *store, const struct weir_exception_select *select,
                                uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    struct weir_rule_sqlite *sqlite = weir_rule_sqlite_of(store);
    struct there there = { false };
    int error = weir_rule_sqlite_ready(sqlite, deadline_ns, ret_fault);
    if (!error)
        error = weir_rule_sqlite_begin(sqlite, false, ret_fault);
    if (error)
        return error;
    error = is_there(sqlite, &there, ret_fault);
    if (!error && there.table)
        error = select_rows(sqlite, select, there.level, ret_fault);
    weir_rule_sqlite_rollback(sqlite);
    return error;
}

/* ---- changing; in a transaction, which holds the write lock ---- */

static int count_levels(struct weir_rule_sqlite *sqlite, const struct weir_exception_change *change,
                        uint64_t *ret_levels, struct weir_fault *ret_fault)
{
    sqlite3_stmt *row = NULL;
    int error = weir_rule_sqlite_prepare(sqlite, COUNT_OTHER_LEVELS, &row, ret_fault);
    if (error)
        return error;
    (void)sqlite3_bind_text(row, 1, change->level, -1, SQLITE_STATIC);
    return take_number(sqlite, row, 0, ret_levels, ret_fault);
}

static int get_state(struct weir_rule_sqlite *sqlite, const struct weir_exception_change *change, const uint8_t *digest,
                     struct weir_exception_state *ret_state, struct weir_fault *ret_fault)
{
    uint64_t held_before = 0;
    *ret_state = (struct weir_exception_state){ 0 };
    int error = ask_number(sqlite, "SELECT max(number) FROM exceptions", 0, NULL, &ret_state->newest, ret_fault);
    if (!error)
        error = ask_number(sqlite, "SELECT held FROM exceptions ORDER BY number DESC LIMIT 1", 0, NULL,
                           &ret_state->holding, ret_fault);
    if (!error)
        error = ask_number(sqlite, "SELECT " HOLDS " FROM exceptions WHERE digest = ?2 ORDER BY number DESC LIMIT 1",
                           change->wall_ns, digest, &held_before, ret_fault);
    ret_state->held_before = held_before != 0;
    if (!error && change->kind == WEIR_EXCEPTION_LEVEL)
        error = count_levels(sqlite, change, &ret_state->levels, ret_fault);
    if (error || !weir_exception_is_full(&sqlite->store, change, ret_state))
        return error;
    if (sqlite3_exec(sqlite->db, NEWEST_INDEX, NULL, NULL, NULL) != SQLITE_OK)
        return weir_rule_sqlite_fault(sqlite, ret_fault);
    return ask_number(sqlite, COUNT_HOLDING, change->wall_ns, NULL, &ret_state->holding, ret_fault); /* some expired? */
}

/* The number that the change got before; 0: none. */
static int find_change(struct weir_rule_sqlite *sqlite, const struct weir_exception_change *change, bool level,
                       uint64_t *ret_number, struct weir_fault *ret_fault)
{
    sqlite3_stmt *row = NULL;
    int error = weir_rule_sqlite_prepare(sqlite,
                                         level ? "SELECT " COLUMNS LEVEL " FROM exceptions WHERE change = ?1"
                                               : "SELECT " COLUMNS NO_LEVEL " FROM exceptions WHERE change = ?1",
                                         &row, ret_fault);
    if (error)
        return error;
    (void)sqlite3_bind_blob(row, 1, change->change, WEIR_RULE_CHANGE_SIZE, SQLITE_STATIC);
    int step = sqlite3_step(row);
    if (step == SQLITE_ROW) {
        struct weir_exception known;
        get_row(row, &known);
        *ret_number = known.number;
        if (!weir_exception_is_of(&known, change))
            error = weir_fault_set(ret_fault, WEIR_EINVAL, "change", "the id is that of another change");
    } else if (step != SQLITE_DONE) {
        error = weir_rule_sqlite_fault(sqlite, ret_fault);
    }
    sqlite3_finalize(row);
    return error;
}

static int insert(struct weir_rule_sqlite *sqlite, const struct weir_exception_change *change, const uint8_t *digest,
                  const struct weir_exception_state *state, struct weir_fault *ret_fault)
{
    sqlite3_stmt *row = NULL;
    const bool ends = change->kind == WEIR_EXCEPTION_UNBAN;
    uint64_t holding = state->holding + (!ends && !state->held_before);
    int error = weir_rule_sqlite_prepare(sqlite, change->level ? INSERT LEVEL VALUES ", ?12)" : INSERT VALUES ")", &row,
                                         ret_fault);
    if (error)
        return error;
    (void)sqlite3_bind_int64(row, 1, (int64_t)state->newest + 1);
    (void)sqlite3_bind_int(row, 2, (int)change->kind);
    (void)sqlite3_bind_int64(row, 3, (int64_t)change->wall_ns);
    (void)sqlite3_bind_int64(row, 4, (int64_t)change->until_ns);
    (void)sqlite3_bind_blob(row, 5, change->change, WEIR_RULE_CHANGE_SIZE, SQLITE_STATIC);
    (void)sqlite3_bind_blob(row, 6, digest, WEIR_EXCEPTION_DIGEST_SIZE, SQLITE_STATIC);
    (void)sqlite3_bind_text(row, 7, change->limit, -1, SQLITE_STATIC);
    (void)sqlite3_bind_blob(row, 8, change->key.size > 0 ? change->key.data : "", (int)change->key.size, SQLITE_STATIC);
    (void)sqlite3_bind_text(row, 9, change->author, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(row, 10, change->comment, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(row, 11, (int64_t)weir_sub_sat(holding, ends));
    if (change->level)
        (void)sqlite3_bind_text(row, 12, change->level, -1, SQLITE_STATIC);
    if (sqlite3_step(row) != SQLITE_DONE)
        error = weir_rule_sqlite_fault(sqlite, ret_fault);
    sqlite3_finalize(row);
    return error;
}

/* What is not there yet, and the change needs. */
static int make_room(struct weir_rule_sqlite *sqlite, const struct weir_exception_change *change, struct there *there,
                     struct weir_fault *ret_fault)
{
    const bool level = change->kind == WEIR_EXCEPTION_LEVEL;
    if (!there->table && sqlite3_exec(sqlite->db, TABLE, NULL, NULL, NULL) != SQLITE_OK)
        return weir_rule_sqlite_fault(sqlite, ret_fault);
    if (level && !there->level && sqlite3_exec(sqlite->db, LEVEL_COLUMN, NULL, NULL, NULL) != SQLITE_OK)
        return weir_rule_sqlite_fault(sqlite, ret_fault);
    *there = (struct there){ true, there->level || level };
    return 0;
}

/* *ret_number: what an earlier call stored, or 0: it is stored now. */
static int change_inside(struct weir_rule_sqlite *sqlite, const struct weir_exception_change *change,
                         const uint8_t *digest, uint64_t *ret_known, uint64_t *ret_number, struct weir_fault *ret_fault)
{
    struct weir_exception_state state;
    struct there there = { false };
    int error = is_there(sqlite, &there, ret_fault);
    if (!error)
        error = make_room(sqlite, change, &there, ret_fault);
    if (!error)
        error = find_change(sqlite, change, there.level, ret_known, ret_fault);
    if (error || *ret_known > 0)
        return error;
    error = get_state(sqlite, change, digest, &state, ret_fault);
    if (!error)
        error = weir_exception_bound(&sqlite->store, change, &state, ret_fault);
    *ret_number = state.newest + 1;
    return error ? error : insert(sqlite, change, digest, &state, ret_fault);
}

int weir_rule_sqlite_except(struct weir_rule_store *store, const struct weir_exception_change *change,
                            const uint8_t *digest, uint64_t deadline_ns, uint64_t *ret_number,
                            struct weir_fault *ret_fault)
{
    struct weir_rule_sqlite *sqlite = weir_rule_sqlite_of(store);
    uint64_t known = 0, number = 0;
    int error = weir_rule_sqlite_ready(sqlite, deadline_ns, ret_fault);
    if (!error)
        error = weir_rule_sqlite_begin(sqlite, true, ret_fault);
    if (error)
        return error;
    error = change_inside(sqlite, change, digest, &known, &number, ret_fault);
    if (error == WEIR_ELIMIT) /* nothing was changed; the index by which it was counted is to stay */
        (void)sqlite3_exec(sqlite->db, "COMMIT", NULL, NULL, NULL);
    if (!error && known == 0) {
        error = weir_rule_sqlite_commit(sqlite, ret_fault);
    } else {
        weir_rule_sqlite_rollback(sqlite);
        if (!error) /* its fsync may have failed then */
            error = weir_rule_sqlite_lasting(sqlite, ret_fault);
    }
    if (!error)
        *ret_number = known > 0 ? known : number;
    return error;
}
