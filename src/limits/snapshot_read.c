/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the file of a snapshot (weir/snapshot.h) and looks through all of it, before anything of it is used: so a
 * damaged one changes nothing. What is in it is put into a limiter by snapshot_restore.c; the bytes are
 * wire/snapshot.c's. Called by serve/saver.c and by who embeds libweir. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/fault.h"
#include "base/whole.h"
#include "limits/snapshot_fd.h"
#include "limits/snapshot_inside.h"

/* ---- the file ---- */

int weir_snapshot_corrupt(const struct weir_snapshot_reader *reader, struct weir_fault *ret_fault)
{
    return weir_fault_format(ret_fault, WEIR_ECORRUPT, "path", "%.100s is damaged or cut off at byte %" PRIu64,
                             reader->path, reader->at);
}

/* Up to `size` bytes; fewer where the file ends. */
static int read_up_to(struct weir_snapshot_reader *reader, uint8_t *bytes, size_t size, size_t *ret_got,
                      struct weir_fault *ret_fault)
{
    ssize_t got = weir_whole_read(reader->fd, bytes, size);
    *ret_got = got > 0 ? (size_t)got : 0;
    reader->at += *ret_got;
    return got < 0 ? weir_snapshot_io_fault("read", reader->path, errno, ret_fault) : 0;
}

static int read_bytes(struct weir_snapshot_reader *reader, uint8_t *bytes, size_t size, struct weir_fault *ret_fault)
{
    size_t got;
    int error = read_up_to(reader, bytes, size, &got, ret_fault);
    return error || got == size ? error : weir_snapshot_corrupt(reader, ret_fault);
}

int weir_snapshot_read_block(struct weir_snapshot_reader *reader, enum weir_snapshot_kind *ret_kind,
                             struct weir_fault *ret_fault)
{
    uint8_t *bytes = reader->block.bytes;
    uint64_t begun = reader->at;
    int error = read_bytes(reader, bytes, WEIR_SNAPSHOT_FRAME_BYTES, ret_fault);
    if (!error && !weir_snapshot_frame_read(bytes, ret_kind, &reader->block.size))
        error = weir_snapshot_corrupt(reader, ret_fault);
    if (!error)
        error = read_bytes(reader, bytes + WEIR_SNAPSHOT_FRAME_BYTES, reader->block.size + WEIR_SNAPSHOT_DIGEST_BYTES,
                           ret_fault);
    if (!error && !weir_snapshot_block_is_sound(&reader->block, reader->place++, &reader->key)) {
        reader->at = begun;
        error = weir_snapshot_corrupt(reader, ret_fault);
    }
    return error;
}

int weir_snapshot_rewind(struct weir_snapshot_reader *reader, struct weir_fault *ret_fault)
{
    reader->place = 0;
    reader->at = WEIR_SNAPSHOT_HEAD_BYTES;
    if (lseek(reader->fd, WEIR_SNAPSHOT_HEAD_BYTES, SEEK_SET) != WEIR_SNAPSHOT_HEAD_BYTES)
        return weir_snapshot_io_fault("read", reader->path, errno, ret_fault);
    return 0;
}

/* Every block is sound, definitions come before entries, the end comes last and says how many there are. */
static int look_through(struct weir_snapshot_reader *reader, struct weir_fault *ret_fault)
{
    uint64_t definitions = 0, entries = 0;
    enum weir_snapshot_kind kind = WEIR_SNAPSHOT_DEFINITIONS, before = WEIR_SNAPSHOT_DEFINITIONS;
    int error = 0;
    for (; !error && kind != WEIR_SNAPSHOT_END; before = kind) {
        error = weir_snapshot_read_block(reader, &kind, ret_fault);
        if (error)
            return error;
        struct weir_snapshot_rest rest = weir_snapshot_records(reader);
        struct weir_snapshot_definition definition;
        struct weir_snapshot_entry entry;
        int taken = 1;
        while (kind == WEIR_SNAPSHOT_DEFINITIONS && (taken = weir_snapshot_take_definition(&rest, &definition)) == 1)
            definitions++;
        while (kind == WEIR_SNAPSHOT_ENTRIES && (taken = weir_snapshot_take_entry(&rest, &entry)) == 1)
            entries++;
        if (kind == WEIR_SNAPSHOT_END)
            taken = weir_snapshot_take_end(&rest, &reader->definitions, &reader->entries);
        if (taken < 0 || kind < before)
            error = weir_snapshot_corrupt(reader, ret_fault);
    }
    uint8_t more;
    if (!error && (definitions != reader->definitions || entries != reader->entries || definitions > WEIR_LIMITS_MAX ||
                   read(reader->fd, &more, 1) != 0))
        error = weir_snapshot_corrupt(reader, ret_fault);
    return error ? error : weir_snapshot_rewind(reader, ret_fault);
}

static int read_head(struct weir_snapshot_reader *reader, struct weir_fault *ret_fault)
{
    uint8_t bytes[WEIR_SNAPSHOT_HEAD_BYTES];
    struct stat status;
    if (fstat(reader->fd, &status))
        return weir_snapshot_io_fault("read", reader->path, errno, ret_fault);
    if (!S_ISREG(status.st_mode))
        return weir_fault_format(ret_fault, WEIR_EPROTO, "path", "%.100s is no file", reader->path);
    size_t got;
    int error = read_up_to(reader, bytes, sizeof bytes, &got, ret_fault);
    if (error)
        return error;
    bool ours = weir_snapshot_may_begin(bytes, got); /* a short one may be somebody else's as well */
    if (ours && got < sizeof bytes)
        return weir_snapshot_corrupt(reader, ret_fault);
    error = ours ? weir_snapshot_head_read(bytes, &reader->head) : WEIR_EPROTO;
    if (error == WEIR_EPROTO)
        return weir_fault_format(ret_fault, error, "path", "%.100s is no snapshot of weir", reader->path);
    if (error == WEIR_ERANGE)
        return weir_fault_format(ret_fault, error, "path",
                                 "%.100s was written by a later weir; this one reads version %d", reader->path,
                                 WEIR_SNAPSHOT_VERSION);
    if (error)
        return weir_snapshot_corrupt(reader, ret_fault);
    reader->key = weir_sip_key_load(reader->head.secret);
    return 0;
}

/* Takes over the descriptor; -1: errno says why there is none. */
static int open_on(int fd, const char *path, struct weir_snapshot_reader **ret_reader, struct weir_fault *ret_fault)
{
    const int number = errno;
    struct weir_snapshot_reader *reader = calloc(1, sizeof *reader);
    if (!reader) {
        if (fd >= 0)
            close(fd);
        return weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    }
    strcpy(reader->path, path);
    reader->fd = fd;
    reader->block.bytes = malloc(WEIR_SNAPSHOT_FRAME_BYTES + WEIR_SNAPSHOT_BLOCK_MAX + WEIR_SNAPSHOT_DIGEST_BYTES);
    int error = 0;
    if (!reader->block.bytes)
        error = weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    else if (reader->fd < 0 && number == ENOENT)
        error = weir_fault_format(ret_fault, WEIR_ENOENT, "path", "there is no %.100s", path);
    else if (reader->fd < 0)
        error = weir_snapshot_io_fault("read", path, number, ret_fault);
    if (!error)
        error = read_head(reader, ret_fault);
    if (!error)
        error = look_through(reader, ret_fault);
    if (error) {
        weir_snapshot_close(reader);
        return error;
    }
    *ret_reader = reader;
    return 0;
}

int weir_snapshot_open(const char *path, struct weir_snapshot_reader **ret_reader, struct weir_fault *ret_fault)
{
    if (strlen(path) == 0 || strlen(path) > WEIR_SNAPSHOT_PATH_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "path", "must be 1 to 4000 bytes");
    /* a FIFO is not waited for */
    return open_on(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), path, ret_reader, ret_fault);
}

int weir_snapshot_open_fd(int fd, struct weir_snapshot_reader **ret_reader, struct weir_fault *ret_fault)
{
    weir_assert(fd >= 0);
    return open_on(fd, "what was handed over", ret_reader, ret_fault);
}

void weir_snapshot_close(struct weir_snapshot_reader *reader)
{
    if (!reader)
        return;
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader->block.bytes);
    free(reader);
}

const uint8_t *weir_snapshot_secret(const struct weir_snapshot_reader *reader)
{
    return reader->head.secret;
}

const uint8_t *weir_snapshot_note(const struct weir_snapshot_reader *reader)
{
    return reader->head.note;
}
