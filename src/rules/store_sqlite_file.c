/* SPDX-License-Identifier: Apache-2.0
 *
 * The database file: made, known again, brought from schema to schema. Its schema is the header's user_version, which
 * changes with the tables in one transaction and needs no table that might lack; whose file it is says its
 * application_id. That is read from the file's first bytes before SQLite looks at any other, for SQLite may write to a
 * database that it reads (a log left behind, a lock); somebody else's stays as it is. Called by store_sqlite.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fault.h"
#include "base/fault_format.h"
#include "base/hex.h"
#include "base/long_path.h"
#include "rules/store_sqlite.h"

#define APPLICATION_ID UINT32_C(0x77727573)       /* "wrus" */
#define APPLICATION_ID_LOCKS UINT32_C(0x77656972) /* of locks/sqlite_store.c */
#define HEADER_SIZE 100                           /* of an SQLite database: sqlite.org/fileformat.html, 1.3 */
#define HEADER_APPLICATION_AT 68

/* Schema 1. A note's id grows for ever: it is the order in which nodes told. */
static const char CREATE[] =
    "CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), store BLOB NOT NULL);"
    "CREATE TABLE versions (number INTEGER PRIMARY KEY, kind INTEGER NOT NULL, of_version INTEGER NOT NULL,"
    " wall_ns INTEGER NOT NULL, change BLOB NOT NULL UNIQUE, author TEXT NOT NULL, comment TEXT NOT NULL,"
    " checksum BLOB NOT NULL, text BLOB NOT NULL);"
    "CREATE TRIGGER versions_never_change BEFORE UPDATE ON versions"
    " BEGIN SELECT RAISE(ABORT, 'a version never changes'); END;"
    "CREATE TRIGGER versions_never_go BEFORE DELETE ON versions"
    " BEGIN SELECT RAISE(ABORT, 'a version is never removed'); END;"
    "CREATE TABLE told (id INTEGER PRIMARY KEY AUTOINCREMENT, node TEXT NOT NULL, version INTEGER NOT NULL,"
    " since_ns INTEGER NOT NULL);"
    "CREATE INDEX told_of_node ON told (node, id);";

/* ---- errors ---- */

int weir_rule_sqlite_say(const struct weir_rule_sqlite *sqlite, int error, const char *what,
                         struct weir_fault *ret_fault)
{
    return weir_fault_format(ret_fault, error, "store", "%.80s: %.75s", sqlite->path, what);
}

int weir_rule_sqlite_fault(const struct weir_rule_sqlite *sqlite, struct weir_fault *ret_fault)
{
    switch (sqlite->db ? sqlite3_errcode(sqlite->db) & 0xff : SQLITE_NOMEM) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return weir_rule_sqlite_say(sqlite, WEIR_EDOWN, "another process keeps it locked", ret_fault);
    case SQLITE_NOMEM:
        return weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: /* no such table or column */
    case SQLITE_SCHEMA:
        return weir_rule_sqlite_say(sqlite, WEIR_ECORRUPT, sqlite3_errmsg(sqlite->db), ret_fault);
    default: /* a full disk, no rights, read only, a disk that fails */
        return weir_rule_sqlite_say(sqlite, WEIR_EDOWN, sqlite3_errmsg(sqlite->db), ret_fault);
    }
}

int weir_rule_sqlite_prepare(struct weir_rule_sqlite *sqlite, const char *sql, sqlite3_stmt **ret_statement,
                             struct weir_fault *ret_fault)
{
    return sqlite3_prepare_v2(sqlite->db, sql, -1, ret_statement, NULL) == SQLITE_OK
               ? 0
               : weir_rule_sqlite_fault(sqlite, ret_fault);
}

static int execute(struct weir_rule_sqlite *sqlite, const char *sql, struct weir_fault *ret_fault)
{
    return sqlite3_exec(sqlite->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : weir_rule_sqlite_fault(sqlite, ret_fault);
}

/* The first column of the first row. */
static int ask(struct weir_rule_sqlite *sqlite, const char *sql, int64_t *ret_number, struct weir_fault *ret_fault)
{
    sqlite3_stmt *statement = NULL;
    int error = 0;
    if (sqlite3_prepare_v2(sqlite->db, sql, -1, &statement, NULL) != SQLITE_OK)
        return weir_rule_sqlite_fault(sqlite, ret_fault);
    if (sqlite3_step(statement) == SQLITE_ROW)
        *ret_number = sqlite3_column_int64(statement, 0);
    else
        error = weir_rule_sqlite_fault(sqlite, ret_fault);
    sqlite3_finalize(statement);
    return error;
}

/* ---- whose it is ---- */

/* At its path is a file of its own, or nothing and it may be made. Links are refused: whoever can make one beside the
 * store would choose what is written to. */
static int look_at_path(struct weir_rule_sqlite *sqlite, struct weir_fault *ret_fault)
{
    struct stat there;
    char why[WEIR_LONG_PATH_TEXT];
    const size_t journal = strlen("-journal");
    if (weir_long_path(sqlite->path, (size_t)sqlite3_vfs_find(NULL)->mxPathname - journal, journal, why)) /* 504 */
        return weir_rule_sqlite_say(sqlite, WEIR_EINVAL, why, ret_fault);
    const bool may_make = sqlite->store.create && !sqlite->met;
    if (lstat(sqlite->path, &there) != 0) {
        if (errno != ENOENT)
            return weir_rule_sqlite_say(sqlite, WEIR_EDOWN, strerror(errno), ret_fault);
        if (!may_make)
            return sqlite->met ? weir_rule_sqlite_say(sqlite, WEIR_EDOWN, "the file is gone", ret_fault)
                               : weir_rule_sqlite_say(sqlite, WEIR_ENOENT, "there is no store of rules", ret_fault);
        /* Not for everybody's eyes. Another process may make it at the same time. */
        int fd = open(sqlite->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            return weir_rule_sqlite_say(sqlite, WEIR_EDOWN, strerror(errno), ret_fault);
        if (fd >= 0)
            close(fd);
        return 0;
    }
    if (S_ISLNK(there.st_mode))
        return weir_rule_sqlite_say(sqlite, WEIR_ECORRUPT, "is a link: name the file itself", ret_fault);
    if (!S_ISREG(there.st_mode))
        return weir_rule_sqlite_say(sqlite, WEIR_ECORRUPT, "is no file", ret_fault);
    if (access(sqlite->path, R_OK) != 0 && errno == EACCES) /* SQLite does not say why */
        return weir_rule_sqlite_say(sqlite, WEIR_EDOWN, "Permission denied: it is its owner's alone", ret_fault);
    if (there.st_size == 0 && !may_make)
        return weir_rule_sqlite_say(sqlite, WEIR_ENOENT, "is empty", ret_fault);
    /* Here, for SQLite takes a file of one byte to be empty. */
    if (there.st_size > 0 && there.st_size < HEADER_SIZE)
        return weir_rule_sqlite_say(sqlite, WEIR_ECORRUPT, "is no SQLite database", ret_fault);
    return 0;
}

/* Through SQLite's own descriptor: to close another one of the same file would drop this process's locks on it. */
static int look_at_header(struct weir_rule_sqlite *sqlite, bool *ret_empty, struct weir_fault *ret_fault)
{
    static const char MAGIC[] = "SQLite format 3";
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;
    uint8_t header[HEADER_SIZE];
    if (sqlite3_file_control(sqlite->db, NULL, SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK || !file->pMethods ||
        file->pMethods->xFileSize(file, &size) != SQLITE_OK)
        return weir_rule_sqlite_say(sqlite, WEIR_EDOWN, "cannot be read", ret_fault);
    *ret_empty = size == 0;
    if (size == 0)
        return 0;
    if (file->pMethods->xRead(file, header, HEADER_SIZE, 0) != SQLITE_OK)
        return weir_rule_sqlite_say(sqlite, WEIR_EDOWN, "cannot be read", ret_fault);
    if (memcmp(header, MAGIC, sizeof MAGIC) != 0)
        return weir_rule_sqlite_say(sqlite, WEIR_ECORRUPT, "is no SQLite database", ret_fault);
    const uint8_t *at = header + HEADER_APPLICATION_AT;
    uint32_t application = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    if (application == APPLICATION_ID)
        return 0;
    return weir_rule_sqlite_say(sqlite, WEIR_ECORRUPT,
                                application == APPLICATION_ID_LOCKS ? "has weir's locks: rules need a file of their own"
                                                                    : "a database, but not one of weir's rules",
                                ret_fault);
}

/* ---- the schema ---- */

void weir_rule_sqlite_rollback(struct weir_rule_sqlite *sqlite)
{
    if (sqlite->db && !sqlite3_get_autocommit(sqlite->db))
        (void)sqlite3_exec(sqlite->db, "ROLLBACK", NULL, NULL, NULL);
}

int weir_rule_sqlite_commit(struct weir_rule_sqlite *sqlite, struct weir_fault *ret_fault)
{
    if (sqlite3_exec(sqlite->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    /* A full disk stops before the frame that commits, and a lock before anything. After any other failure nobody
     * knows, and what an fsync that failed leaves in memory is not to be believed. */
    int code = sqlite3_errcode(sqlite->db) & 0xff;
    int error = weir_rule_sqlite_fault(sqlite, ret_fault);
    weir_rule_sqlite_rollback(sqlite);
    weir_rule_sqlite_drop(sqlite);
    return code == SQLITE_FULL || code == SQLITE_BUSY ? error : WEIR_EUNKNOWN;
}

/* It is there from an earlier call, which may have failed at its fsync: then the log in memory says more than the disk
 * has. What goes from the log into the database is written anew, and synced. */
int weir_rule_sqlite_lasting(struct weir_rule_sqlite *sqlite, struct weir_fault *ret_fault)
{
    if (sqlite3_wal_checkpoint_v2(sqlite->db, NULL, SQLITE_CHECKPOINT_FULL, NULL, NULL) == SQLITE_OK)
        return 0;
    (void)weir_rule_sqlite_fault(sqlite, ret_fault);
    return WEIR_EUNKNOWN;
}

/* Makes the tables, unless another process was faster. In rollback mode, so that the header is in the file itself; and
 * under EXTRA that is as lasting as the log is under FULL. */
static int make(struct weir_rule_sqlite *sqlite, struct weir_fault *ret_fault)
{
    uint8_t id[WEIR_RULE_CHANGE_SIZE];
    char hex[2 * WEIR_RULE_CHANGE_SIZE + 1] = "", sql[256];
    int64_t tables = 0;
    if (weir_rule_change_id(id) != 0)
        return weir_rule_sqlite_say(sqlite, WEIR_EDOWN, "no random bytes", ret_fault);
    *weir_hex_write(hex, id, sizeof id) = '\0';
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO meta VALUES (1, x'%s'); PRAGMA application_id = %u; PRAGMA user_version = 1; COMMIT",
                   hex, (unsigned)APPLICATION_ID);
    int error = execute(sqlite, "BEGIN EXCLUSIVE", ret_fault);
    if (!error)
        error = ask(sqlite, "SELECT count(*) FROM sqlite_schema", &tables, ret_fault);
    if (!error && tables == 0)
        error = execute(sqlite, CREATE, ret_fault);
    if (!error && tables == 0)
        error = execute(sqlite, sql, ret_fault);
    weir_rule_sqlite_rollback(sqlite);
    return error;
}

/* A later weir's tables are not looked at. Else: what is run without being asked for, triggers that are none of ours;
 * and `id`. */
static int look_inside(struct weir_rule_sqlite *sqlite, struct weir_fault *ret_fault)
{
    int64_t schema = 0, triggers = 0;
    sqlite3_stmt *row = NULL;
    int error = ask(sqlite, "PRAGMA user_version", &schema, ret_fault);
    if (!error && (schema < 1 || schema > UINT16_MAX))
        error = weir_rule_sqlite_say(sqlite, WEIR_ECORRUPT, "the number of its schema is damaged", ret_fault);
    if (!error && schema > sqlite->store.schema)
        error = weir_rule_schema_fault((unsigned)schema, sqlite->store.schema, ret_fault);
    if (!error)
        error = ask(sqlite,
                    "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND name NOT IN "
                    "('versions_never_change', 'versions_never_go')",
                    &triggers, ret_fault);
    if (!error && triggers > 0)
        error = weir_rule_sqlite_say(sqlite, WEIR_ECORRUPT, "has triggers that are none of weir's", ret_fault);
    if (error)
        return error;
    if (sqlite3_prepare_v2(sqlite->db, "SELECT store FROM meta", -1, &row, NULL) != SQLITE_OK)
        return weir_rule_sqlite_fault(sqlite, ret_fault);
    int step = sqlite3_step(row);
    if (step == SQLITE_ROW && sqlite3_column_bytes(row, 0) == sizeof sqlite->id)
        memcpy(sqlite->id, sqlite3_column_blob(row, 0), sizeof sqlite->id);
    else
        error = step == SQLITE_ROW || step == SQLITE_DONE
                    ? weir_rule_sqlite_say(sqlite, WEIR_ECORRUPT, "its meta row is damaged", ret_fault)
                    : weir_rule_sqlite_fault(sqlite, ret_fault);
    sqlite3_finalize(row);
    return error;
}

/* In a transaction. */
static int step_through(struct weir_rule_sqlite *sqlite, unsigned from, unsigned to, struct weir_fault *ret_fault)
{
    char pragma[64];
    int error = 0;
    for (unsigned at = from; !error && at < to; at++)
        error = execute(sqlite, sqlite->store.steps[at - 1].up, ret_fault);
    for (unsigned at = from; !error && at > to; at--)
        error = execute(sqlite, sqlite->store.steps[at - 2].down, ret_fault);
    (void)snprintf(pragma, sizeof pragma, "PRAGMA user_version = %u", to);
    return error ? error : execute(sqlite, pragma, ret_fault);
}

int weir_rule_sqlite_move(struct weir_rule_sqlite *sqlite, unsigned to, struct weir_fault *ret_fault)
{
    int64_t found = 0;
    int error = execute(sqlite, "BEGIN IMMEDIATE", ret_fault);
    if (!error)
        error = ask(sqlite, "PRAGMA user_version", &found, ret_fault);
    if (!error && (found < 1 || found > sqlite->store.schema))
        error = weir_rule_schema_fault((unsigned)found, sqlite->store.schema, ret_fault);
    if (!error && found != to)
        error = step_through(sqlite, (unsigned)found, to, ret_fault);
    if (!error)
        return weir_rule_sqlite_commit(sqlite, ret_fault);
    weir_rule_sqlite_rollback(sqlite);
    return error;
}

int weir_rule_sqlite_begin(struct weir_rule_sqlite *sqlite, bool writes, struct weir_fault *ret_fault)
{
    for (int i = 0;; i++) {
        int64_t found = 0;
        int error = execute(sqlite, writes ? "BEGIN IMMEDIATE" : "BEGIN", ret_fault);
        if (!error)
            error = ask(sqlite, "PRAGMA user_version", &found, ret_fault);
        if (!error && found == sqlite->store.schema)
            return 0;
        weir_rule_sqlite_rollback(sqlite);
        if (error)
            return error;
        if (i > 0 || !sqlite->store.create || found < 1 || found > sqlite->store.schema)
            return weir_rule_schema_fault((unsigned)found, sqlite->store.schema, ret_fault);
        error = weir_rule_sqlite_move(sqlite, sqlite->store.schema, ret_fault);
        if (error)
            return error;
    }
}

/* ---- opening ---- */

void weir_rule_sqlite_drop(struct weir_rule_sqlite *sqlite)
{
    sqlite3_close_v2(sqlite->db);
    sqlite->db = NULL;
}

static void wait_until(struct weir_rule_sqlite *sqlite, uint64_t deadline_ns)
{
    uint64_t left_ns = weir_sub_sat(deadline_ns, weir_rule_now_ns());
    sqlite3_busy_timeout(sqlite->db, (int)weir_min_u64(left_ns / 1000000, INT32_MAX / 2));
}

static int set_up(struct weir_rule_sqlite *sqlite, uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    bool empty = false;
    sqlite3_extended_result_codes(sqlite->db, 1);
    sqlite3_db_config(sqlite->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    wait_until(sqlite, deadline_ns);
    int error = look_at_header(sqlite, &empty, ret_fault);
    if (!error)
        error = execute(sqlite, "PRAGMA synchronous = EXTRA", ret_fault);
    if (!error && empty)
        error = make(sqlite, ret_fault);
    if (!error)
        error = look_inside(sqlite, ret_fault);
    /* While another process is in it, it stays as it is, and as lasting; the next who opens it tries again. A log that
     * a large text has blown up is cut again. */
    if (!error)
        (void)sqlite3_exec(sqlite->db, "PRAGMA journal_mode = WAL; PRAGMA journal_size_limit = 4194304", NULL, NULL,
                           NULL);
    return error;
}

int weir_rule_sqlite_ready(struct weir_rule_sqlite *sqlite, uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    int moved = 0;
    if (sqlite->db && (sqlite3_file_control(sqlite->db, NULL, SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK || moved))
        weir_rule_sqlite_drop(sqlite);
    if (sqlite->db) {
        wait_until(sqlite, deadline_ns);
        return 0;
    }
    int error = look_at_path(sqlite, ret_fault);
    if (error)
        return error;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    if (sqlite3_open_v2(sqlite->path, &sqlite->db, flags, NULL) != SQLITE_OK)
        error = weir_rule_sqlite_fault(sqlite, ret_fault);
    if (!error)
        error = set_up(sqlite, deadline_ns, ret_fault);
    if (error)
        weir_rule_sqlite_drop(sqlite);
    else
        sqlite->met = true;
    return error;
}
