/* SPDX-License-Identifier: Apache-2.0
 *
 * sqlite makes a file durable by a journal, which nobody needs for one that nobody sees yet: it costs eight syncs, half
 * of what a first start waits for the disk. So the database is filled in memory, written beside its place, synced once
 * and renamed. Called by sqlite_store.c. */
#include "locks/sqlite_new.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/whole.h"

/* Of the file's header (sqlite.org/fileformat2.html): who reads and who writes it has to know write-ahead logs. */
#define HEADER_WRITE_VERSION 18
#define HEADER_READ_VERSION 19
#define VERSION_WAL 2

static const char CREATE[] = "BEGIN EXCLUSIVE;"
                             "CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), system INTEGER NOT NULL,"
                             " incarnation INTEGER NOT NULL, counter INTEGER NOT NULL);"
                             "CREATE TABLE held (name BLOB PRIMARY KEY NOT NULL, owner BLOB NOT NULL,"
                             " incarnation INTEGER NOT NULL, number INTEGER NOT NULL, ttl_ns INTEGER NOT NULL)"
                             " WITHOUT ROWID;"
                             "INSERT INTO meta VALUES (1, %lld, 0, 0);"
                             "PRAGMA application_id = %d;"
                             "PRAGMA user_version = %d;"
                             "COMMIT";

int weir_sqlite_new_fill(sqlite3 *db)
{
    uint64_t system;
    if (getrandom(&system, sizeof system, 0) != sizeof system)
        return SQLITE_IOERR;
    char sql[sizeof CREATE + 64];
    snprintf(sql, sizeof sql, CREATE, (long long)(system >> 1), WEIR_SQLITE_APPLICATION_ID, WEIR_SQLITE_FORMAT);
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* The bytes of a filled database, for sqlite3_free; NULL: there is no memory. */
static unsigned char *make_image(size_t *ret_size)
{
    sqlite3 *db = NULL;
    sqlite3_int64 size = 0;
    unsigned char *image = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(":memory:", &db, flags, NULL) == SQLITE_OK && weir_sqlite_new_fill(db) == SQLITE_OK)
        image = sqlite3_serialize(db, "main", &size, 0);
    sqlite3_close_v2(db);
    if (image) {
        image[HEADER_WRITE_VERSION] = image[HEADER_READ_VERSION] = VERSION_WAL;
        *ret_size = (size_t)size;
    }
    return image;
}

/* Whether it is called `path` now. Else nothing of ours is left at `next`. */
static bool write_and_rename(const char *next, const char *path, const unsigned char *image, size_t size)
{
    /* Only a new file has our mode, and is where its name says. One that is called so already stays: it may be a backup
     * that waits there, or another's store, as well as of one who died before the rename. */
    int fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool done = weir_whole_write(fd, image, size) && fsync(fd) == 0;
    done = close(fd) == 0 && done;
    /* A file that another has put there meanwhile, a backup, stays: it is opened as it is. */
    done = done && renameat2(AT_FDCWD, next, AT_FDCWD, path, RENAME_NOREPLACE) == 0;
    if (!done)
        unlink(next);
    return done;
}

/* Nothing at all, not even a link that leads nowhere. */
static bool is_free(const char *path, const char *ending)
{
    char name[PATH_MAX];
    struct stat file;
    int size = snprintf(name, sizeof name, "%s%s", path, ending);
    return (size_t)size < sizeof name && lstat(name, &file) != 0 && errno == ENOENT;
}

bool weir_sqlite_new_put(const char *path)
{
    /* A log or a journal that was left of an older database would be played into ours. sqlite, which finds it beside an
     * empty file, removes it. */
    if (!is_free(path, "") || !is_free(path, "-wal") || !is_free(path, "-journal"))
        return false;
    char next[PATH_MAX];
    int length = snprintf(next, sizeof next, "%s.new", path);
    size_t size = 0;
    unsigned char *image = (size_t)length < sizeof next ? make_image(&size) : NULL;
    if (!image)
        return false;
    bool done = write_and_rename(next, path, image, size);
    sqlite3_free(image);
    /* Should this fail, a whole store is there all the same: sqlite syncs the folder again before the first commit. */
    return done && weir_folder_sync(path) == 0;
}
