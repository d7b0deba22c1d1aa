/* SPDX-License-Identifier: Apache-2.0
 *
 * How the file is read and written. A record is appended by pwrite and one fdatasync. To open the file is to read it
 * whole, hand on each record and cut off a torn end. A compaction writes PATH.new, syncs it, renames it over the file
 * and syncs the folder. Called by fence.c, which has the marks in memory and says when to compact. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/siphash.h"
#include "base/whole.h"
#include "locks/fence_log.h"

#define HEADER_SIZE 16
#define RECORD_SIZE_MAX (WEIR_FENCE_RECORD_HEAD + WEIR_FENCE_NAME_MAX)

static const uint8_t header[HEADER_SIZE] = "weir-fence 1\n";

/* Against tearing and rot, not against forgery: the key is no secret. */
static uint64_t sum_of(const uint8_t *record, size_t size)
{
    static const uint8_t plain[16] = "weir fence file";
    const struct weir_sip_key key = weir_sip_key_load(plain);
    return weir_siphash(&key, record + 8, size - 8);
}

static size_t record_make(uint8_t record[RECORD_SIZE_MAX], const void *name, size_t name_size, struct weir_token token)
{
    size_t size = WEIR_FENCE_RECORD_HEAD + name_size;
    weir_assert(name_size >= 1 && name_size <= WEIR_FENCE_NAME_MAX);
    weir_little_put(record + 8, token.incarnation, 8);
    weir_little_put(record + 16, token.number, 8);
    weir_little_put(record + 24, name_size, 2);
    memcpy(record + WEIR_FENCE_RECORD_HEAD, name, name_size);
    weir_little_put(record, sum_of(record, size), 8);
    return size;
}

/* The size of the record that begins here; 0: there is no whole one. */
static size_t record_read(const uint8_t *at, size_t left, struct weir_token *ret_token)
{
    if (left < WEIR_FENCE_RECORD_HEAD)
        return 0;
    size_t name_size = (size_t)weir_little_get(at + 24, 2), size = WEIR_FENCE_RECORD_HEAD + name_size;
    if (name_size < 1 || name_size > WEIR_FENCE_NAME_MAX || size > left || weir_little_get(at, 8) != sum_of(at, size))
        return 0;
    *ret_token = (struct weir_token){ weir_little_get(at + 8, 8), weir_little_get(at + 16, 8) };
    return weir_token_valid(*ret_token) ? size : 0;
}

static int write_all(int file, const void *data, size_t size, uint64_t offset)
{
    const uint8_t *at = data;
    while (size > 0) {
        ssize_t put = pwrite(file, at, size, (off_t)offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return WEIR_EIO;
        at += put;
        offset += (uint64_t)put;
        size -= (size_t)put;
    }
    return 0;
}

/* Cuts the file where the last whole record ends, durably, so that the next one does not follow a torn one. */
static int cut(struct weir_fence_log *log, uint64_t size)
{
    if (ftruncate(log->file, (off_t)size) != 0 || fsync(log->file) != 0)
        return WEIR_EIO;
    log->size = size;
    return 0;
}

static int header_make(struct weir_fence_log *log)
{
    if (write_all(log->file, header, HEADER_SIZE, 0) != 0 || cut(log, HEADER_SIZE) != 0 || fsync(log->folder) != 0)
        return WEIR_EIO;
    return 0;
}

static int load_from(struct weir_fence_log *log, const uint8_t *data, size_t size, weir_fence_each *each, void *context)
{
    size_t at = HEADER_SIZE, record;
    struct weir_token token;
    if (size < HEADER_SIZE) /* killed while it was made */
        return memcmp(data, header, size) == 0 ? header_make(log) : WEIR_ECORRUPT;
    if (memcmp(data, header, HEADER_SIZE) != 0)
        return WEIR_ECORRUPT;
    for (; (record = record_read(data + at, size - at, &token)) > 0; at += record) {
        int error = each(context, data + at + WEIR_FENCE_RECORD_HEAD, record - WEIR_FENCE_RECORD_HEAD, token);
        if (error)
            return error;
    }
    if (size - at > RECORD_SIZE_MAX)
        return WEIR_ECORRUPT; /* more than one torn record */
    /* Synced too if nothing was torn: what was written before a kill may not have been. */
    return cut(log, at);
}

static int load(struct weir_fence_log *log, weir_fence_each *each, void *context)
{
    struct stat stat;
    if (fstat(log->file, &stat) != 0)
        return WEIR_EIO;
    if (!S_ISREG(stat.st_mode))
        return WEIR_ECORRUPT;
    size_t size = (size_t)stat.st_size;
    if (size == 0)
        return header_make(log);
    uint8_t *data = malloc(size);
    if (!data)
        return WEIR_ENOMEM;
    int error = weir_whole_read(log->file, data, size) == (ssize_t)size ? 0 : WEIR_EIO;
    if (!error)
        error = load_from(log, data, size, each, context);
    free(data);
    return error;
}

static char *path_with(const char *path, const char *end)
{
    size_t size = strlen(path) + strlen(end) + 1;
    char *joined = malloc(size);
    if (joined)
        (void)snprintf(joined, size, "%s%s", path, end);
    return joined;
}

/* 0: nobody else has it open, until log->lock is closed. */
static int lock_take(struct weir_fence_log *log)
{
    char *path = path_with(log->path, ".lock");
    if (!path)
        return WEIR_ENOMEM;
    log->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    free(path);
    if (log->lock < 0)
        return WEIR_EIO;
    if (flock(log->lock, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? WEIR_EBUSY : WEIR_EIO;
    return 0;
}

static int folder_take(struct weir_fence_log *log)
{
    char *slash = strrchr(log->path, '/');
    char *folder = slash ? strndup(log->path, (size_t)(slash - log->path) + 1) : strdup(".");
    if (!folder)
        return WEIR_ENOMEM;
    log->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    return log->folder >= 0 ? 0 : WEIR_EIO;
}

/* Where the file is: through a symbolic link the lock would be another one, and a compaction would replace the link. */
static char *path_of(const char *path)
{
    char *real = realpath(path, NULL);
    return real || errno != ENOENT ? real : strdup(path); /* to be made; not through a link that leads nowhere */
}

int weir_fence_log_open(struct weir_fence_log *log, const char *path, weir_fence_each *each, void *context)
{
    *log = (struct weir_fence_log){ .path = path_of(path), .folder = -1, .file = -1, .lock = -1 };
    int error = log->path ? folder_take(log) : errno == ENOMEM ? WEIR_ENOMEM : WEIR_EIO;
    if (!error)
        error = lock_take(log);
    if (!error) {
        log->file = open(log->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        error = log->file >= 0 ? load(log, each, context) : WEIR_EIO;
    }
    if (error)
        weir_fence_log_close(log);
    return error;
}

void weir_fence_log_close(struct weir_fence_log *log)
{
    const int files[] = { log->file, log->folder, log->lock };
    for (size_t i = 0; i < 3; i++) {
        if (files[i] >= 0)
            close(files[i]);
    }
    free(log->path);
    *log = (struct weir_fence_log){ .folder = -1, .file = -1, .lock = -1 };
}

int weir_fence_log_append(struct weir_fence_log *log, const void *name, size_t name_size, struct weir_token token)
{
    uint8_t record[RECORD_SIZE_MAX];
    if (log->broken)
        return WEIR_EIO;
    size_t size = record_make(record, name, name_size, token);
    if (write_all(log->file, record, size, log->size) != 0) {
        log->broken = cut(log, log->size) != 0;
        return WEIR_EIO;
    }
    /* After a sync that failed, a second one may say 0 for what was dropped: it is not asked again. */
    if (fdatasync(log->file) != 0) {
        log->broken = true;
        return WEIR_EIO;
    }
    log->size += size;
    return 0;
}

struct compaction {
    FILE *file;
    uint64_t size;
};

static int compaction_add(void *context, const void *name, size_t name_size, struct weir_token token)
{
    struct compaction *compaction = context;
    uint8_t record[RECORD_SIZE_MAX];
    size_t size = record_make(record, name, name_size, token);
    compaction->size += size;
    return fwrite(record, 1, size, compaction->file) == size ? 0 : WEIR_EIO;
}

/* In place of the old file: from here on only the new one counts. */
static int compaction_end(struct weir_fence_log *log, const char *path, struct compaction *compaction)
{
    if (fflush(compaction->file) != 0 || fsync(fileno(compaction->file)) != 0)
        return WEIR_EIO;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return WEIR_EIO;
    if (rename(path, log->path) != 0) {
        close(file);
        return WEIR_EIO;
    }
    close(log->file);
    log->file = file;
    log->size = compaction->size;
    log->broken = fsync(log->folder) != 0;
    return log->broken ? WEIR_EIO : 0;
}

int weir_fence_log_compact(struct weir_fence_log *log,
                           int (*list)(void *context, weir_fence_each *each, void *each_context), void *context)
{
    struct compaction compaction = { .size = HEADER_SIZE };
    char *path = path_with(log->path, ".new");
    if (!path || log->broken) {
        free(path);
        return log->broken ? WEIR_EIO : WEIR_ENOMEM;
    }
    compaction.file = fopen(path, "we");
    int error = compaction.file && fwrite(header, 1, HEADER_SIZE, compaction.file) == HEADER_SIZE ? 0 : WEIR_EIO;
    if (!error)
        error = list(context, compaction_add, &compaction);
    if (!error)
        error = compaction_end(log, path, &compaction);
    if (compaction.file)
        (void)fclose(compaction.file);
    free(path);
    return error;
}
