/* SPDX-License-Identifier: Apache-2.0
 *
 * The database has a row for each held lock and one of meta, whose counter runs ahead of the grants. Inode, size and
 * time of change show whether somebody replaced or changed the files since the last write. Called by sqlite.c. */
#include "locks/sqlite_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/timing.h"
#include "core/lease/deadline.h"
#include "core/lease/incarnation.h"
#include "locks/sqlite_new.h"
#include "weir/error.h"

#define QUIET_NS UINT64_C(10000000)
#define NUMBERS_AHEAD 1000U /* a start skips as many at most; the page of the meta row is a third of a small commit */
#define COUNTER_MAX                                                                                                    \
    (UINT64_C(1) << 62)     /* no grants lead here: a number above it would soon pass 2^63, and be negative */
#define WAL_FRAMES_MAX 1000 /* of 4 KiB; then the log goes into the database and is written from its start again */

static const char *const STATEMENTS[WEIR_SQLITE_STATEMENTS] = {
    [WEIR_SQLITE_BEGIN] = "BEGIN IMMEDIATE",
    [WEIR_SQLITE_COMMIT] = "COMMIT",
    [WEIR_SQLITE_ROLLBACK] = "ROLLBACK",
    [WEIR_SQLITE_PUT] = ("INSERT OR REPLACE INTO held (name, owner, incarnation, number, ttl_ns) "
                         "VALUES (?1, ?2, ?3, ?4, ?5)"),
    [WEIR_SQLITE_DELETE] = "DELETE FROM held WHERE name = ?1",
    /* Touches no row if the counter is not the one that we wrote last: then this is not our database any more. */
    [WEIR_SQLITE_META] = "UPDATE meta SET incarnation = ?1, counter = ?2 WHERE incarnation = ?3 AND counter = ?4",
};

/* ---- errors ---- */

static int fail(struct weir_sqlite_store *store, int error, const char *what)
{
    snprintf(store->fault, sizeof store->fault, "%.90s: %.60s", store->path, what);
    return error;
}

/* An error of sqlite as one of ours, outside a commit. */
static int fail_sqlite(struct weir_sqlite_store *store)
{
    int code = sqlite3_errcode(store->db) & 0xff;
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return fail(store, WEIR_EBUSY, "another process has it open");
    bool corrupt = code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR || code == SQLITE_SCHEMA;
    return fail(store, corrupt ? WEIR_ECORRUPT : WEIR_EIO, sqlite3_errmsg(store->db));
}

static int execute(struct weir_sqlite_store *store, const char *sql)
{
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail_sqlite(store);
}

/* The first column of the first row. */
static int ask(struct weir_sqlite_store *store, const char *sql, int64_t *ret_number, char *ret_text, size_t text_size)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) != SQLITE_OK)
        return fail_sqlite(store);
    int error = 0;
    if (sqlite3_step(statement) != SQLITE_ROW) {
        error = fail_sqlite(store);
    } else {
        if (ret_number)
            *ret_number = sqlite3_column_int64(statement, 0);
        if (ret_text)
            snprintf(ret_text, text_size, "%s", (const char *)sqlite3_column_text(statement, 0));
    }
    sqlite3_finalize(statement);
    return error;
}

/* ---- life ---- */

/* sqlite goes through a link, and its log lies beside what the link leads to: that is the store's name until the next
 * start. NULL: there is no memory. */
static char *find_file(const char *path, bool *ret_made)
{
    struct stat file;
    if (lstat(path, &file) != 0 || !S_ISLNK(file.st_mode))
        return strdup(path);
    /* What is not there yet has no name to be found, and sqlite would make it for everybody's eyes (make_private). */
    int fd = stat(path, &file) == 0 ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    *ret_made = fd >= 0;
    char *found = realpath(path, NULL);
    return found ? found : strdup(path); /* to open it says what is wrong */
}

int weir_sqlite_store_init(struct weir_sqlite_store *store, const char *path)
{
    *store = (struct weir_sqlite_store){ .claim = -1 };
    store->path = find_file(path, &store->made);
    if (!store->path || asprintf(&store->wal_path, "%s-wal", store->path) < 0) {
        store->wal_path = NULL; /* what asprintf leaves there is nobody's */
        weir_sqlite_store_deinit(store);
        return WEIR_ENOMEM;
    }
    return 0;
}

void weir_sqlite_store_deinit(struct weir_sqlite_store *store)
{
    weir_sqlite_store_close(store);
    if (store->claim >= 0)
        close(store->claim);
    free(store->path);
    free(store->wal_path);
    *store = (struct weir_sqlite_store){ .claim = -1 };
}

/* A file of its own: the database may be replaced, and to close any descriptor of it would drop sqlite's own locks. It
 * stays: to remove it would let two processes lock two files of one name. */
int weir_sqlite_store_claim(struct weir_sqlite_store *store)
{
    char *path = NULL;
    if (asprintf(&path, "%s.lock", store->path) < 0)
        return fail(store, WEIR_ENOMEM, "out of memory");
    store->claim = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    char why[96];
    snprintf(why, sizeof why, "its lock file: %s", strerror(errno));
    free(path);
    if (store->claim < 0)
        return fail(store, WEIR_EIO, why);
    return flock(store->claim, LOCK_EX | LOCK_NB) == 0 ? 0 : fail(store, WEIR_EBUSY, "another process has it open");
}

void weir_sqlite_store_close(struct weir_sqlite_store *store)
{
    for (int i = 0; i < WEIR_SQLITE_STATEMENTS; i++) {
        sqlite3_finalize(store->statements[i]);
        store->statements[i] = NULL;
    }
    sqlite3_close_v2(store->db);
    store->db = NULL;
}

static int same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static int untouched(const struct stat *a, const struct stat *b)
{
    return same_file(a, b) && a->st_size == b->st_size && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Its time of change is 0 if not asked for. To ask gives the file's next write a time of its own (Linux 6.13,
 * "multigrain timestamps") instead of one for a whole tick, so that its inode changes each time, and is written with
 * each fsync where the file system has no journal: a third write beside the data and the flush. */
static int stat_log(const struct weir_sqlite_store *store, bool dated, struct stat *ret_log)
{
    struct statx log;
    if (dated)
        return stat(store->wal_path, ret_log);
    if (statx(AT_FDCWD, store->wal_path, 0, STATX_INO | STATX_SIZE, &log) != 0)
        return -1;
    *ret_log = (struct stat){ .st_dev = makedev(log.stx_dev_major, log.stx_dev_minor),
                              .st_ino = log.stx_ino,
                              .st_size = (off_t)log.stx_size };
    return 0;
}

/* A log of ours beside a database that is not: sqlite would play it into that one. */
static void remove_stray_log(const struct weir_sqlite_store *store)
{
    struct stat now, wal_now;
    if (store->seen.st_ino == 0 || stat(store->wal_path, &wal_now) != 0 || !same_file(&wal_now, &store->wal_seen))
        return;
    if (stat(store->path, &now) != 0 || !same_file(&now, &store->seen))
        unlink(store->wal_path);
}

/* Owners' names are what locks are given back by: not for everybody's eyes. A file that is there keeps its mode, and is
 * not even opened: to close it would drop the locks of a connection that this process has to it. */
static void make_private(const struct weir_sqlite_store *store)
{
    struct stat now;
    int fd = stat(store->path, &now) == 0 ? -1 : open(store->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
}

/* Reads only, so that a file that is not ours is left as it is. */
static int check_format(struct weir_sqlite_store *store, bool *ret_empty)
{
    int64_t tables = 0, application = 0, format = 0;
    int error = ask(store, "SELECT count(*) FROM sqlite_schema", &tables, NULL, 0);
    if (!error)
        error = ask(store, "PRAGMA application_id", &application, NULL, 0);
    if (!error)
        error = ask(store, "PRAGMA user_version", &format, NULL, 0);
    if (error)
        return error;
    *ret_empty = tables == 0 && application == 0 && format == 0;
    if (*ret_empty)
        return 0;
    if (application != WEIR_SQLITE_APPLICATION_ID)
        return fail(store, WEIR_ECORRUPT, "a database, but not one of weir's locks");
    if (format != WEIR_SQLITE_FORMAT)
        return fail(store, WEIR_ECORRUPT, "written by another version of weir");
    char verdict[64];
    error = ask(store, "PRAGMA quick_check(1)", NULL, verdict, sizeof verdict);
    if (error)
        return error;
    return strcmp(verdict, "ok") == 0 ? 0 : fail(store, WEIR_ECORRUPT, "the database is damaged");
}

static int set_up(struct weir_sqlite_store *store)
{
    /* A connection that is closed leaves the files alone: they may be another's by then. */
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_extended_result_codes(store->db, 1);
    bool empty = false;
    int error = execute(store, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = FULL;");
    if (!error)
        error = check_format(store, &empty);
    if (!error && empty && weir_sqlite_new_fill(store->db) != SQLITE_OK)
        error = fail_sqlite(store);
    char mode[16] = "";
    if (!error)
        error = ask(store, "PRAGMA journal_mode = WAL", NULL, mode, sizeof mode);
    if (!error && strcmp(mode, "wal") != 0)
        error = fail(store, WEIR_EIO, "no write-ahead log can be had here");
    if (!error)
        error = execute(store, "PRAGMA wal_autocheckpoint = 0");
    return error;
}

static int read_meta(struct weir_sqlite_store *store)
{
    int64_t system = 0, incarnation = 0, counter = 0;
    int error = ask(store, "SELECT system FROM meta", &system, NULL, 0);
    if (!error)
        error = ask(store, "SELECT incarnation FROM meta", &incarnation, NULL, 0);
    if (!error)
        error = ask(store, "SELECT counter FROM meta", &counter, NULL, 0);
    if (error)
        return error;
    if (incarnation < 0 || (uint64_t)incarnation > WEIR_INCARNATION_MAX || counter < 0 ||
        (uint64_t)counter > COUNTER_MAX)
        return fail(store, WEIR_ECORRUPT, "the meta row is out of range");
    store->meta = (struct weir_sqlite_meta){ (uint64_t)system, (uint64_t)incarnation, (uint64_t)counter };
    return 0;
}

static int count_frames(void *context, sqlite3 *db, const char *name, int frames)
{
    (void)db, (void)name;
    ((struct weir_sqlite_store *)context)->wal_frames = frames;
    return SQLITE_OK;
}

static void look(struct weir_sqlite_store *store)
{
    int moved = 0; /* another is in its place: what we know stays what was ours, so that the next look finds it gone */
    store->wal_dated = true;
    sqlite3_file_control(store->db, NULL, SQLITE_FCNTL_HAS_MOVED, &moved);
    if (stat_log(store, true, &store->wal_seen) != 0 || (!moved && stat(store->path, &store->seen) != 0))
        store->seen.st_ino = store->wal_seen.st_ino = 0;
}

static void look_at_log(struct weir_sqlite_store *store)
{
    uint64_t now_ns = weir_timing_now(CLOCK_MONOTONIC);
    store->wal_dated = now_ns - store->written_ns >= QUIET_NS;
    store->written_ns = now_ns;
    struct stat log;
    if (stat_log(store, store->wal_dated, &log) != 0)
        store->seen.st_ino = 0; /* what is durable stays so; the next look finds a changed store, and opens it anew */
    else if (same_file(&log, &store->wal_seen))
        store->wal_seen = log;
}

void weir_sqlite_store_settle(struct weir_sqlite_store *store)
{
    struct stat log;
    if (store->wal_dated || weir_sqlite_store_changed(store) || stat_log(store, true, &log) != 0)
        return;
    store->wal_dated = true;
    store->wal_seen = log;
}

int weir_sqlite_store_open(struct weir_sqlite_store *store)
{
    remove_stray_log(store);
    if (!weir_sqlite_new_put(store->path))
        make_private(store);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    if (sqlite3_open_v2(store->path, &store->db, flags, NULL) != SQLITE_OK) {
        int error = store->db ? fail(store, WEIR_EIO, sqlite3_errmsg(store->db)) : WEIR_ENOMEM;
        weir_sqlite_store_close(store);
        return error;
    }
    int error = set_up(store);
    if (!error)
        error = read_meta(store);
    for (int i = 0; !error && i < WEIR_SQLITE_STATEMENTS; i++)
        if (sqlite3_prepare_v3(store->db, STATEMENTS[i], -1, SQLITE_PREPARE_PERSISTENT, &store->statements[i], NULL) !=
            SQLITE_OK)
            error = fail_sqlite(store);
    /* What a log from before holds goes into the database by new writes: those of a failed fsync count for nothing. */
    if (!error)
        error = weir_sqlite_store_checkpoint(store);
    if (error) {
        weir_sqlite_store_close(store);
        return error;
    }
    sqlite3_wal_hook(store->db, count_frames, store);
    return 0;
}

bool weir_sqlite_store_changed(const struct weir_sqlite_store *store)
{
    struct stat now, wal_now;
    if (stat(store->path, &now) != 0 || stat_log(store, store->wal_dated, &wal_now) != 0)
        return true;
    /* Between our batches nobody writes to the log, between our checkpoints nobody to the database itself. */
    return !untouched(&now, &store->seen) || !untouched(&wal_now, &store->wal_seen);
}

static int checkpoint(struct weir_sqlite_store *store, int mode)
{
    store->wal_frames = 0;
    if (sqlite3_wal_checkpoint_v2(store->db, NULL, mode, NULL, NULL) != SQLITE_OK)
        return fail_sqlite(store);
    look(store);
    return 0;
}

int weir_sqlite_store_checkpoint(struct weir_sqlite_store *store)
{
    return checkpoint(store, SQLITE_CHECKPOINT_FULL);
}

int weir_sqlite_store_finish(struct weir_sqlite_store *store)
{
    return checkpoint(store, SQLITE_CHECKPOINT_TRUNCATE);
}

/* ---- rows ---- */

static int load_row(struct weir_sqlite_store *store, sqlite3_stmt *row, struct weir_sqlite_index *index,
                    uint64_t now_ns)
{
    struct weir_slice name = { sqlite3_column_blob(row, 0), (size_t)sqlite3_column_bytes(row, 0) };
    struct weir_slice owner = { sqlite3_column_blob(row, 1), (size_t)sqlite3_column_bytes(row, 1) };
    uint64_t incarnation = (uint64_t)sqlite3_column_int64(row, 2), number = (uint64_t)sqlite3_column_int64(row, 3);
    uint64_t ttl_ns = (uint64_t)sqlite3_column_int64(row, 4);
    if (name.size < 1 || name.size > WEIR_LOCK_NAME_MAX || owner.size < 1 || owner.size > WEIR_LOCK_OWNER_MAX ||
        incarnation > store->meta.incarnation || number < 1 || number > store->meta.counter || ttl_ns < 1 ||
        ttl_ns > WEIR_LEASE_TTL_MAX_NS)
        return fail(store, WEIR_ECORRUPT, "a row of a lock is out of range");
    struct weir_sqlite_entry *entry = weir_sqlite_index_add(index, name);
    if (!entry)
        return fail(store, WEIR_ENOMEM, "out of memory");
    entry->incarnation = incarnation;
    entry->ttl_ns = ttl_ns;
    entry->owner_size = owner.size;
    memcpy(entry->owner, owner.data, owner.size);
    struct weir_lease_holder held_by;
    weir_holders_take(&entry->holders, 1, number, ttl_ns, now_ns, &held_by);
    return 0;
}

int weir_sqlite_store_load(struct weir_sqlite_store *store, struct weir_sqlite_index *index, uint64_t now_ns)
{
    sqlite3_stmt *row = NULL;
    if (sqlite3_prepare_v2(store->db, "SELECT name, owner, incarnation, number, ttl_ns FROM held", -1, &row, NULL) !=
        SQLITE_OK)
        return fail_sqlite(store);
    int error = 0, step;
    while ((step = sqlite3_step(row)) == SQLITE_ROW && !error)
        error = load_row(store, row, index, now_ns);
    if (!error && step != SQLITE_DONE)
        error = fail_sqlite(store);
    sqlite3_finalize(row);
    return error;
}

static bool step(struct weir_sqlite_store *store, enum weir_sqlite_statement which)
{
    bool done = sqlite3_step(store->statements[which]) == SQLITE_DONE;
    if (!done)
        fail_sqlite(store);
    sqlite3_reset(store->statements[which]);
    return done;
}

static bool write_entry(struct weir_sqlite_store *store, const struct weir_sqlite_entry *entry)
{
    if (entry->holders.count == 0) {
        sqlite3_bind_blob(store->statements[WEIR_SQLITE_DELETE], 1, entry->name, (int)entry->name_size, SQLITE_STATIC);
        return step(store, WEIR_SQLITE_DELETE);
    }
    sqlite3_stmt *put = store->statements[WEIR_SQLITE_PUT];
    sqlite3_bind_blob(put, 1, entry->name, (int)entry->name_size, SQLITE_STATIC);
    sqlite3_bind_blob(put, 2, entry->owner, (int)entry->owner_size, SQLITE_STATIC);
    sqlite3_bind_int64(put, 3, (int64_t)entry->incarnation);
    sqlite3_bind_int64(put, 4, (int64_t)entry->holder.number);
    sqlite3_bind_int64(put, 5, (int64_t)entry->ttl_ns);
    return step(store, WEIR_SQLITE_PUT);
}

/* The counter that was there must be the one that we left there. */
static bool write_meta(struct weir_sqlite_store *store, struct weir_sqlite_meta *meta)
{
    sqlite3_stmt *update = store->statements[WEIR_SQLITE_META];
    if (meta->incarnation == store->meta.incarnation && meta->counter <= store->meta.counter) {
        meta->counter = store->meta.counter;
        return true;
    }
    meta->counter += NUMBERS_AHEAD;
    sqlite3_bind_int64(update, 1, (int64_t)meta->incarnation);
    sqlite3_bind_int64(update, 2, (int64_t)meta->counter);
    sqlite3_bind_int64(update, 3, (int64_t)store->meta.incarnation);
    sqlite3_bind_int64(update, 4, (int64_t)store->meta.counter);
    if (!step(store, WEIR_SQLITE_META))
        return false;
    if (sqlite3_changes(store->db) == 1)
        return true;
    fail(store, WEIR_ECORRUPT, "it is not the database that was here before");
    return false;
}

static int commit(struct weir_sqlite_store *store, const struct weir_sqlite_meta *meta)
{
    if (!step(store, WEIR_SQLITE_COMMIT)) {
        /* A full disk stops before the frame that commits. After any other failure nobody knows. */
        return (sqlite3_errcode(store->db) & 0xff) == SQLITE_FULL ? WEIR_EDOWN : WEIR_EUNKNOWN;
    }
    store->meta.incarnation = meta->incarnation;
    store->meta.counter = meta->counter;
    return 0;
}

/* All that the index has, or, where that is NULL, the entries of a list. */
static int write_transaction(struct weir_sqlite_store *store, const struct weir_sqlite_index *all,
                             const struct weir_sqlite_entry *entries, struct weir_sqlite_meta meta)
{
    bool done = step(store, WEIR_SQLITE_BEGIN);
    if (done && all)
        done = execute(store, "DELETE FROM held") == 0;
    for (size_t i = 0; done && all && i <= all->table.mask; i++)
        for (struct weir_hash_node *node = weir_hash_chain(&all->table, i); done && node; node = node->next)
            done = write_entry(store, (struct weir_sqlite_entry *)node);
    for (; done && entries; entries = entries->dirty_next)
        done = write_entry(store, entries);
    if (done)
        done = write_meta(store, &meta);
    if (done)
        return commit(store, &meta);
    char fault[sizeof store->fault];
    memcpy(fault, store->fault, sizeof fault);
    step(store, WEIR_SQLITE_ROLLBACK); /* if it fails too: without its commit the log counts for nothing */
    memcpy(store->fault, fault, sizeof fault);
    return WEIR_EDOWN;
}

int weir_sqlite_store_write(struct weir_sqlite_store *store, const struct weir_sqlite_entry *entries,
                            const struct weir_sqlite_meta *meta)
{
    int error = write_transaction(store, NULL, entries, *meta);
    if (error)
        return error;
    if (store->wal_frames < WAL_FRAMES_MAX)
        look_at_log(store);
    else if (weir_sqlite_store_checkpoint(store) != 0)
        store->seen.st_ino = 0; /* as in look_at_log */
    return 0;
}

int weir_sqlite_store_rewrite(struct weir_sqlite_store *store, const struct weir_sqlite_index *index,
                              const struct weir_sqlite_meta *meta)
{
    int error = write_transaction(store, index, NULL, *meta);
    if (!error && weir_sqlite_store_checkpoint(store) != 0)
        return WEIR_EDOWN;
    return error;
}
