/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and replaces the file. What was read is accepted if weir would write the same bytes for its numbers. A new
 * line is written to PATH.next, which then replaces the file. Called by the lock engines when they open and when they
 * raise the incarnation. Whether the store has gone back is decided elsewhere: for etcd by the witness, in
 * core/lease/incarnation.c; SQLite and PostgreSQL have marks of their own (sqlite_store.c, postgres_run.c). */
#include "locks/witness.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/siphash.h"
#include "base/whole.h"

#define LINE_MAX_SIZE 160

static const char HEAD[] = "weir-witness 1";

/* "weir-witness 1 SYSTEM TIMELINE POSITION INCARNATION CHECKSUM\n"; the checksum is against accidents, not against
 * people, so its key may be known. */
static size_t format(const struct weir_witness *witness, char line[LINE_MAX_SIZE])
{
    static const struct weir_sip_key KEY = { 0x776974, 0x6e657373 };
    int size = snprintf(line, LINE_MAX_SIZE, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, HEAD, witness->system,
                        witness->timeline, witness->position, witness->incarnation);
    uint64_t sum = weir_siphash(&KEY, line, (size_t)size);
    size_t used = (size_t)size;
    return used + (size_t)snprintf(line + used, LINE_MAX_SIZE - used, " %016" PRIx64 "\n", sum);
}

int weir_witness_load(const char *path, struct weir_witness *ret_witness)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO is not waited for: it holds no line of ours */
    if (fd < 0)
        return errno == ENOENT ? WEIR_ENOENT : WEIR_EIO;
    char line[LINE_MAX_SIZE + 1] = { 0 }, again[LINE_MAX_SIZE];
    ssize_t size = weir_whole_read(fd, line, LINE_MAX_SIZE);
    close(fd);
    if (size < 0)
        return WEIR_EIO;
    struct weir_witness witness = { 0 };
    uint64_t *const fields[] = { &witness.system, &witness.timeline, &witness.position, &witness.incarnation };
    char *at = line + strlen(HEAD);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        *fields[i] = strtoull(at, &at, 10);
    /* Only what we would have written ourselves is ours: spaces, signs, overflow and the checksum, all in one. */
    if (format(&witness, again) != (size_t)size || memcmp(line, again, (size_t)size) != 0)
        return WEIR_ECORRUPT;
    *ret_witness = witness;
    return 0;
}

static int write_synced(const char *path, const char *line, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0)
        return WEIR_EIO;
    int failed = !weir_whole_write(fd, line, size) || fsync(fd) != 0;
    failed |= close(fd) != 0;
    return failed ? WEIR_EIO : 0;
}

int weir_witness_save(const char *path, const struct weir_witness *witness)
{
    char line[LINE_MAX_SIZE], next[PATH_MAX];
    size_t size = format(witness, line);
    int length = snprintf(next, sizeof next, "%s" WEIR_WITNESS_NEXT, path);
    if ((size_t)length >= sizeof next)
        return WEIR_EIO;
    if (write_synced(next, line, size) != 0 || rename(next, path) != 0) {
        unlink(next);
        return WEIR_EIO;
    }
    return weir_folder_sync(path) ? WEIR_EIO : 0;
}
