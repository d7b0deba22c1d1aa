/* SPDX-License-Identifier: Apache-2.0
 *
 * Versions and notes in SQLite. Each call is one transaction; what writes takes the write lock before it looks, so that
 * what it found still holds when it writes. Called by store.c; store_sqlite_file.c has the connection. */
#include "rules/store_sqlite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/fault_format.h"

static int begin(struct weir_rule_sqlite *sqlite, bool writes, uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    int error = weir_rule_sqlite_ready(sqlite, deadline_ns, ret_fault);
    return error ? error : weir_rule_sqlite_begin(sqlite, writes, ret_fault);
}

/* Of a statement that gives no rows, which is finalized. */
static int finish(struct weir_rule_sqlite *sqlite, sqlite3_stmt *statement, struct weir_fault *ret_fault)
{
    int error = sqlite3_step(statement) == SQLITE_DONE ? 0 : weir_rule_sqlite_fault(sqlite, ret_fault);
    sqlite3_finalize(statement);
    return error;
}

static int damaged(const struct weir_rule_sqlite *sqlite, const char *what, struct weir_fault *ret_fault)
{
    return weir_rule_sqlite_say(sqlite, WEIR_ECORRUPT, what, ret_fault);
}

/* ---- rows ---- */

/* Exactly `size` bytes. */
static bool get_bytes(sqlite3_stmt *row, int column, uint8_t *ret_bytes, int size)
{
    if (sqlite3_column_bytes(row, column) != size)
        return false;
    memcpy(ret_bytes, sqlite3_column_blob(row, column), (size_t)size);
    return true;
}

/* A string of at most room - 1 bytes, without a NUL in it. */
static bool get_string(sqlite3_stmt *row, int column, char *ret_text, size_t room)
{
    const void *text = sqlite3_column_blob(row, column);
    size_t size = (size_t)sqlite3_column_bytes(row, column);
    if (size == 0 || size >= room || memchr(text, '\0', size))
        return false;
    memcpy(ret_text, text, size);
    ret_text[size] = '\0';
    return true;
}

#define COLUMNS "number, kind, of_version, wall_ns, change, author, comment, checksum, length(text)"

static bool get_version(sqlite3_stmt *row, struct weir_rule_version *ret_version)
{
    struct weir_rule_version *version = ret_version;
    version->number = (uint64_t)sqlite3_column_int64(row, 0);
    version->kind = (enum weir_rule_kind)sqlite3_column_int(row, 1);
    version->of = (uint64_t)sqlite3_column_int64(row, 2);
    version->wall_ns = (uint64_t)sqlite3_column_int64(row, 3);
    version->text_size = (uint64_t)sqlite3_column_int64(row, 8);
    return get_bytes(row, 4, version->change, sizeof version->change) &&
           get_string(row, 5, version->author, sizeof version->author) &&
           get_string(row, 6, version->comment, sizeof version->comment) &&
           get_bytes(row, 7, version->checksum, sizeof version->checksum) && weir_rule_version_valid(version);
}

/* In a transaction. */
static int get_head(struct weir_rule_sqlite *sqlite, struct weir_rule_head *ret_head, struct weir_fault *ret_fault)
{
    struct weir_rule_head head = { 0 };
    sqlite3_stmt *row;
    int error = weir_rule_sqlite_prepare(sqlite, "SELECT number, checksum FROM versions ORDER BY number DESC LIMIT 1",
                                         &row, ret_fault);
    if (error)
        return error;
    int step = sqlite3_step(row);
    if (step == SQLITE_ROW) {
        head.number = (uint64_t)sqlite3_column_int64(row, 0);
        if (head.number < 1 || head.number > WEIR_RULE_VERSIONS_MAX ||
            !get_bytes(row, 1, head.checksum, sizeof head.checksum))
            error = damaged(sqlite, "the row of its newest version is damaged", ret_fault);
    } else if (step != SQLITE_DONE) {
        error = weir_rule_sqlite_fault(sqlite, ret_fault);
    }
    sqlite3_finalize(row);
    memcpy(head.store, sqlite->id, sizeof head.store);
    if (!error)
        *ret_head = head;
    return error;
}

/* ---- reading ---- */

static int head(struct weir_rule_store *store, uint64_t deadline_ns, struct weir_rule_head *ret_head,
                struct weir_fault *ret_fault)
{
    struct weir_rule_sqlite *sqlite = weir_rule_sqlite_of(store);
    int error = begin(sqlite, false, deadline_ns, ret_fault);
    if (error)
        return error;
    error = get_head(sqlite, ret_head, ret_fault);
    weir_rule_sqlite_rollback(sqlite);
    return error;
}

/* Of a number that has no row. */
static int missing(struct weir_rule_sqlite *sqlite, uint64_t number, struct weir_fault *ret_fault)
{
    struct weir_rule_head newest;
    int error = get_head(sqlite, &newest, ret_fault);
    if (error)
        return error;
    if (number <= newest.number)
        return damaged(sqlite, "a version is missing among others", ret_fault);
    return weir_fault_format(ret_fault, WEIR_ENOENT, "version", "there is no version %llu; the newest is %llu",
                             (unsigned long long)number, (unsigned long long)newest.number);
}

static int read_row(struct weir_rule_sqlite *sqlite, sqlite3_stmt *row, struct weir_rule_version *ret_version,
                    char **ret_text, struct weir_fault *ret_fault)
{
    if (!get_version(row, ret_version) || (uint64_t)sqlite3_column_bytes(row, 9) != ret_version->text_size)
        return damaged(sqlite, "the row of a version is damaged", ret_fault);
    size_t size = (size_t)ret_version->text_size;
    const void *bytes = sqlite3_column_blob(row, 9);
    char *text = bytes ? malloc(size + 1) : NULL;
    if (!text)
        return weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    memcpy(text, bytes, size);
    text[size] = '\0';
    *ret_text = text;
    return 0;
}

static int read_version(struct weir_rule_store *store, uint64_t number, uint64_t deadline_ns,
                        struct weir_rule_version *ret_version, char **ret_text, struct weir_fault *ret_fault)
{
    struct weir_rule_sqlite *sqlite = weir_rule_sqlite_of(store);
    sqlite3_stmt *row = NULL;
    int error = begin(sqlite, false, deadline_ns, ret_fault);
    if (error)
        return error;
    error = weir_rule_sqlite_prepare(sqlite, "SELECT " COLUMNS ", text FROM versions WHERE number = ?1", &row,
                                     ret_fault);
    if (!error) {
        sqlite3_bind_int64(row, 1, (int64_t)number);
        int step = sqlite3_step(row);
        error = step == SQLITE_ROW    ? read_row(sqlite, row, ret_version, ret_text, ret_fault)
                : step == SQLITE_DONE ? missing(sqlite, number, ret_fault)
                                      : weir_rule_sqlite_fault(sqlite, ret_fault);
    }
    sqlite3_finalize(row);
    weir_rule_sqlite_rollback(sqlite);
    return error;
}

static int list(struct weir_rule_store *store, uint64_t from, uint64_t deadline_ns, struct weir_rule_versions *versions,
                struct weir_fault *ret_fault)
{
    struct weir_rule_sqlite *sqlite = weir_rule_sqlite_of(store);
    sqlite3_stmt *row = NULL;
    int error = begin(sqlite, false, deadline_ns, ret_fault), step = SQLITE_DONE;
    if (error)
        return error;
    error = weir_rule_sqlite_prepare(
        sqlite, "SELECT " COLUMNS " FROM versions WHERE number <= ?1 ORDER BY number DESC LIMIT ?2", &row, ret_fault);
    if (!error) {
        sqlite3_bind_int64(row, 1, (int64_t)from);
        sqlite3_bind_int64(row, 2, (int64_t)versions->room);
        while (!error && versions->count < versions->room && (step = sqlite3_step(row)) == SQLITE_ROW)
            if (!get_version(row, &versions->list[versions->count++]))
                error = damaged(sqlite, "the row of a version is damaged", ret_fault);
        if (!error && step != SQLITE_DONE && step != SQLITE_ROW)
            error = weir_rule_sqlite_fault(sqlite, ret_fault);
    }
    sqlite3_finalize(row);
    weir_rule_sqlite_rollback(sqlite);
    return error;
}

/* ---- appending ---- */

/* The version that a change became; WEIR_ENOENT: none. */
static int find_change(struct weir_rule_sqlite *sqlite, const uint8_t *change, struct weir_rule_version *ret_version,
                       struct weir_fault *ret_fault)
{
    sqlite3_stmt *row;
    int error = weir_rule_sqlite_prepare(sqlite, "SELECT " COLUMNS " FROM versions WHERE change = ?1", &row, ret_fault);
    if (error)
        return error;
    sqlite3_bind_blob(row, 1, change, WEIR_RULE_CHANGE_SIZE, SQLITE_STATIC);
    int step = sqlite3_step(row);
    if (step == SQLITE_DONE)
        error = WEIR_ENOENT;
    else if (step != SQLITE_ROW)
        error = weir_rule_sqlite_fault(sqlite, ret_fault);
    else if (!get_version(row, ret_version))
        error = damaged(sqlite, "the row of a version is damaged", ret_fault);
    sqlite3_finalize(row);
    return error;
}

/* In a transaction, which holds the write lock. */
static int insert(struct weir_rule_sqlite *sqlite, const struct weir_rule_change *change, const uint8_t *checksum,
                  struct weir_fault *ret_fault)
{
    const bool copies = weir_rule_kind_copies(change->kind);
    sqlite3_stmt *row;
    int error = weir_rule_sqlite_prepare(sqlite,
                                         copies
                                             ? "INSERT INTO versions SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, checksum, text "
                                               "FROM versions WHERE number = ?3"
                                             : "INSERT INTO versions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                                         &row, ret_fault);
    if (error)
        return error;
    sqlite3_bind_int64(row, 1, (int64_t)change->expected + 1);
    sqlite3_bind_int(row, 2, (int)change->kind);
    sqlite3_bind_int64(row, 3, (int64_t)change->of);
    sqlite3_bind_int64(row, 4, (int64_t)change->wall_ns);
    sqlite3_bind_blob(row, 5, change->change, WEIR_RULE_CHANGE_SIZE, SQLITE_STATIC);
    sqlite3_bind_text(row, 6, change->author, -1, SQLITE_STATIC);
    sqlite3_bind_text(row, 7, change->comment, -1, SQLITE_STATIC);
    if (!copies) {
        sqlite3_bind_blob(row, 8, checksum, WEIR_RULE_CHECKSUM_SIZE, SQLITE_STATIC);
        sqlite3_bind_blob(row, 9, change->text.data, (int)change->text.size, SQLITE_STATIC);
    }
    error = finish(sqlite, row, ret_fault);
    return !error && sqlite3_changes(sqlite->db) != 1 ? missing(sqlite, change->of, ret_fault) : error;
}

/* In a transaction; *ret_commit: something was written. */
static int append_inside(struct weir_rule_sqlite *sqlite, const struct weir_rule_change *change,
                         const uint8_t *checksum, struct weir_rule_appended *appended, bool *ret_commit,
                         struct weir_fault *ret_fault)
{
    struct weir_rule_version known = { 0 };
    int error = get_head(sqlite, &appended->head, ret_fault);
    if (error)
        return error;
    error = find_change(sqlite, change->change, &known, ret_fault);
    if (error == 0 && !weir_rule_is_of(&known, change, checksum))
        return weir_fault_format(ret_fault, WEIR_EINVAL, "change", "the id is that of version %llu, another change",
                                 (unsigned long long)known.number);
    appended->again = error == 0;
    if (error != WEIR_ENOENT) {
        appended->number = known.number;
        return error;
    }
    appended->said = change->expected == appended->head.number ? WEIR_RULE_APPENDED : WEIR_RULE_CONFLICT;
    if (appended->said == WEIR_RULE_CONFLICT)
        return 0;
    if (appended->head.number >= WEIR_RULE_VERSIONS_MAX)
        return weir_fault_format(ret_fault, WEIR_ELIMIT, "store", "has %d versions, which is the most",
                                 WEIR_RULE_VERSIONS_MAX);
    *ret_commit = true;
    error = insert(sqlite, change, checksum, ret_fault);
    return error ? error : get_head(sqlite, &appended->head, ret_fault);
}

static int append(struct weir_rule_store *store, const struct weir_rule_change *change, const uint8_t *checksum,
                  uint64_t deadline_ns, struct weir_rule_appended *ret_appended, struct weir_fault *ret_fault)
{
    struct weir_rule_sqlite *sqlite = weir_rule_sqlite_of(store);
    struct weir_rule_appended appended = { .said = WEIR_RULE_APPENDED };
    bool commits = false;
    int error = begin(sqlite, true, deadline_ns, ret_fault);
    if (error)
        return error;
    error = append_inside(sqlite, change, checksum, &appended, &commits, ret_fault);
    if (!error && commits) {
        appended.number = appended.head.number;
        error = weir_rule_sqlite_commit(sqlite, ret_fault);
    } else {
        weir_rule_sqlite_rollback(sqlite);
    }
    if (!error && appended.again)
        error = weir_rule_sqlite_lasting(sqlite, ret_fault);
    if (!error)
        *ret_appended = appended;
    return error;
}

/* ---- notes ---- */

/* In a transaction. ?1 node, ?2 version, ?3 since, ?4 and ?5 the bounds. */
static int note(struct weir_rule_sqlite *sqlite, const struct weir_rule_told *told, struct weir_fault *ret_fault)
{
    static const char *const STATEMENTS[] = {
        "INSERT INTO told (node, version, since_ns) SELECT ?1, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM told WHERE id = "
        "(SELECT max(id) FROM told WHERE node = ?1) AND version = ?2 AND since_ns = ?3)",
        "DELETE FROM told WHERE node = ?1 AND id <= (SELECT id FROM told WHERE node = ?1 ORDER BY id DESC LIMIT 1 "
        "OFFSET ?4)",
        "DELETE FROM told WHERE node IN (SELECT node FROM told GROUP BY node ORDER BY max(id) DESC LIMIT -1 OFFSET ?5)",
    };
    int error = 0;
    for (size_t i = 0; !error && i < sizeof STATEMENTS / sizeof STATEMENTS[0]; i++) {
        sqlite3_stmt *statement;
        error = weir_rule_sqlite_prepare(sqlite, STATEMENTS[i], &statement, ret_fault);
        if (error)
            break;
        /* What a statement does not name cannot be bound: that is no matter. */
        (void)sqlite3_bind_text(statement, 1, told->node, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int64(statement, 2, (int64_t)told->version);
        (void)sqlite3_bind_int64(statement, 3, (int64_t)told->since_ns);
        (void)sqlite3_bind_int64(statement, 4, WEIR_RULE_TOLD_MAX);
        (void)sqlite3_bind_int64(statement, 5, WEIR_RULE_NODES_MAX);
        error = finish(sqlite, statement, ret_fault);
    }
    return error;
}

static int tell(struct weir_rule_store *store, const struct weir_rule_told *told, uint64_t deadline_ns,
                struct weir_fault *ret_fault)
{
    struct weir_rule_sqlite *sqlite = weir_rule_sqlite_of(store);
    int error = begin(sqlite, true, deadline_ns, ret_fault);
    if (error)
        return error;
    error = note(sqlite, told, ret_fault);
    if (!error)
        return weir_rule_sqlite_commit(sqlite, ret_fault);
    weir_rule_sqlite_rollback(sqlite);
    return error;
}

static int get_told(sqlite3_stmt *row, struct weir_rule_notes *notes)
{
    struct weir_rule_told told = { .version = (uint64_t)sqlite3_column_int64(row, 1),
                                   .since_ns = (uint64_t)sqlite3_column_int64(row, 2) };
    if (!get_string(row, 0, told.node, sizeof told.node) || !weir_rule_told_valid(&told))
        return WEIR_ECORRUPT;
    return weir_rule_notes_add(notes, &told);
}

static int told(struct weir_rule_store *store, bool newest_only, uint64_t deadline_ns, struct weir_rule_notes *notes,
                struct weir_fault *ret_fault)
{
    struct weir_rule_sqlite *sqlite = weir_rule_sqlite_of(store);
    sqlite3_stmt *row = NULL;
    int error = begin(sqlite, false, deadline_ns, ret_fault), step = SQLITE_DONE;
    if (error)
        return error;
    error = weir_rule_sqlite_prepare(sqlite,
                                     newest_only ? "SELECT node, version, since_ns FROM told WHERE id IN "
                                                   "(SELECT max(id) FROM told GROUP BY node) ORDER BY node"
                                                 : "SELECT node, version, since_ns FROM told ORDER BY node, id DESC",
                                     &row, ret_fault);
    while (!error && (step = sqlite3_step(row)) == SQLITE_ROW)
        error = get_told(row, notes);
    if (error == WEIR_ECORRUPT)
        (void)damaged(sqlite, "the note of a node is damaged", ret_fault);
    else if (!error && step != SQLITE_DONE)
        error = weir_rule_sqlite_fault(sqlite, ret_fault);
    sqlite3_finalize(row);
    weir_rule_sqlite_rollback(sqlite);
    return error;
}

/* ---- the interface ---- */

static int migrate(struct weir_rule_store *store, unsigned to, uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    int error = weir_rule_sqlite_ready(weir_rule_sqlite_of(store), deadline_ns, ret_fault);
    return error ? error : weir_rule_sqlite_move(weir_rule_sqlite_of(store), to, ret_fault);
}

static bool rest(struct weir_rule_store *store, uint64_t until_ns)
{
    (void)store;
    weir_rule_sleep_until(until_ns);
    return false;
}

static void destroy(struct weir_rule_store *store)
{
    struct weir_rule_sqlite *sqlite = weir_rule_sqlite_of(store);
    weir_rule_sqlite_drop(sqlite);
    free(sqlite->path);
    free(sqlite);
}

static const struct weir_rule_store_ops sqlite_ops = { .head = head,
                                                       .read = read_version,
                                                       .list = list,
                                                       .append = append,
                                                       .tell = tell,
                                                       .told = told,
                                                       .except = weir_rule_sqlite_except,
                                                       .exceptions = weir_rule_sqlite_exceptions,
                                                       .migrate = migrate,
                                                       .pause = rest,
                                                       .close = destroy };

int weir_rule_sqlite_open(const char *path, struct weir_rule_store **ret_store, struct weir_fault *ret_fault)
{
    size_t size = strlen(path);
    if (size < 1 || size > WEIR_RULE_PATH_MAX)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "spec", "the path must be 1 to %d bytes", WEIR_RULE_PATH_MAX);
    struct weir_rule_sqlite *sqlite = calloc(1, sizeof *sqlite);
    /* ":memory:", "file:…?…": to SQLite these are no paths. */
    if (!sqlite || asprintf(&sqlite->path, "%s%s", path[0] == '/' ? "" : "./", path) < 0) {
        free(sqlite);
        return weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    }
    sqlite->store.ops = &sqlite_ops;
    (void)snprintf(sqlite->store.name, sizeof sqlite->store.name, "sqlite:%s", path);
    *ret_store = &sqlite->store;
    return 0;
}
