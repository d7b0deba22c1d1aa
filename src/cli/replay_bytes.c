/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads in blocks and gives lines where they stand in the block; the rest of a block moves to its front before the next
 * is read. gzip is known by its first two bytes, and may have several members, as logs have that were appended to. Data
 * that ends within a member or is damaged ends the file, with the reason in `broken`: what came before it counts.
 * Called by replay_read.c. */
#include "cli/replay_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef WEIR_HAVE_ZLIB
#include <zlib.h>
#endif

#include "cli/plain.h"

#define ROOM ((size_t)256 << 10) /* of lines: four of the longest */
#define INPUT ((size_t)128 << 10)

/* ---- the file ---- */

static bool complain(const struct weir_replay_bytes *bytes, const char *what)
{
    weir_plain_line(stderr, "weir: %s: %s", bytes->name, what);
    return false;
}

/* At most `size` bytes; 0 at the end. False after a complaint. */
static bool file_read(struct weir_replay_bytes *bytes, void *data, size_t size, size_t *ret_size)
{
    ssize_t got;
    *ret_size = 0;
    if (bytes->read_max && size > bytes->read_max - bytes->read)
        size = (size_t)(bytes->read_max - bytes->read);
    if (size == 0)
        return true;
    do
        got = read(bytes->fd, data, size);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return complain(bytes, strerror(errno));
    if (bytes->spool && !bytes->read_max && fwrite(data, 1, (size_t)got, bytes->spool) != (size_t)got) {
        weir_plain_line(stderr, "weir: %s: cannot be kept for the second reading of --suggest: %s", bytes->name,
                        strerror(errno));
        return false;
    }
    bytes->read += (uint64_t)got;
    *ret_size = (size_t)got;
    return true;
}

/* ---- gzip ---- */

#ifdef WEIR_HAVE_ZLIB

struct weir_replay_inflater {
    z_stream stream;
    bool within; /* a member, whose end has not been seen */
    bool later;  /* not the first one */
    unsigned char input[INPUT];
};

static bool inflater_begin(struct weir_replay_bytes *bytes)
{
    struct weir_replay_inflater *inflater = calloc(1, sizeof(*inflater));
    if (!inflater || inflateInit2(&inflater->stream, 15 + 16) != Z_OK) {
        free(inflater);
        return complain(bytes, "out of memory");
    }
    bytes->inflater = inflater;
    memcpy(inflater->input, bytes->room, bytes->end);
    inflater->stream.next_in = inflater->input;
    inflater->stream.avail_in = (unsigned)bytes->end;
    bytes->end = 0;
    return true;
}

static void inflater_end(struct weir_replay_inflater *inflater)
{
    if (inflater)
        (void)inflateEnd(&inflater->stream);
    free(inflater);
}

/* Ends the data where it cannot be read further. */
static bool inflater_stop(struct weir_replay_bytes *bytes, const char *why)
{
    bytes->broken = why;
    bytes->broken_at = bytes->read - bytes->inflater->stream.avail_in;
    bytes->ended = true;
    return true;
}

/* Bytes where a member may begin. Zeros between members and after the last are passed over, as gzip itself does: what
 * was written in blocks has them. False: none begins here. */
static bool member_begin(struct weir_replay_inflater *inflater)
{
    z_stream *stream = &inflater->stream;
    while (inflater->later && stream->avail_in > 0 && *stream->next_in == 0) {
        stream->next_in++;
        stream->avail_in--;
    }
    inflater->within = stream->avail_in > 0;
    return stream->avail_in == 0 || *stream->next_in == 0x1f;
}

/* Unpacks what there is of the input. */
static bool inflate_input(struct weir_replay_bytes *bytes)
{
    struct weir_replay_inflater *inflater = bytes->inflater;
    z_stream *stream = &inflater->stream;
    if (!inflater->within && !member_begin(inflater))
        return inflater_stop(bytes, "something that is no gzip follows the gzip data");
    if (stream->avail_in == 0)
        return true;
    stream->next_out = (unsigned char *)bytes->room + bytes->end;
    stream->avail_out = (unsigned)(ROOM - bytes->end);
    int status = inflate(stream, Z_NO_FLUSH);
    bytes->end = ROOM - stream->avail_out;
    if (status == Z_MEM_ERROR)
        return complain(bytes, "out of memory");
    if (status == Z_STREAM_END) {
        inflater->within = false;
        inflater->later = true;
        (void)inflateReset(stream);
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
        return inflater_stop(bytes, "the gzip data is damaged");
    }
    return true;
}

static bool inflate_more(struct weir_replay_bytes *bytes)
{
    struct weir_replay_inflater *inflater = bytes->inflater;
    z_stream *stream = &inflater->stream;
    size_t had = bytes->end;
    while (bytes->end == had && !bytes->ended) {
        size_t got = 0;
        if (stream->avail_in == 0) {
            if (!file_read(bytes, inflater->input, sizeof(inflater->input), &got))
                return false;
            stream->next_in = inflater->input;
            stream->avail_in = (unsigned)got;
        }
        if (stream->avail_in == 0 && inflater->within)
            return inflater_stop(bytes, "the gzip data ends too soon");
        if (stream->avail_in == 0)
            bytes->ended = true;
        else if (!inflate_input(bytes))
            return false;
    }
    return true;
}

/* Whether the data ended within a member, and so perhaps within a line. */
static bool inflater_cut(const struct weir_replay_bytes *bytes)
{
    const struct weir_replay_inflater *inflater = bytes->inflater;
    return bytes->broken && inflater && inflater->within && inflater->stream.total_out > 0;
}

#else

static bool inflater_begin(struct weir_replay_bytes *bytes)
{
    return complain(bytes, "is gzip, and this program was built without zlib: zcat FILE | weir replay ... -");
}

static void inflater_end(struct weir_replay_inflater *inflater)
{
    (void)inflater;
}

static bool inflate_more(struct weir_replay_bytes *bytes)
{
    bytes->ended = true;
    return true;
}

static bool inflater_cut(const struct weir_replay_bytes *bytes)
{
    return bytes->broken;
}

#endif

/* ---- lines ---- */

/* Of a file that was to become gzip: the disk was full, say. */
static bool is_gzip_by_name(const char *name)
{
    size_t size = strlen(name);
    return size > 3 && strcmp(name + size - 3, ".gz") == 0;
}

/* The first bytes say whether it is gzip. */
static bool begin(struct weir_replay_bytes *bytes)
{
    size_t got = 1;
    bytes->begun = true;
    while (bytes->end < 2 && got > 0) { /* no more than the inflater takes at once */
        if (!file_read(bytes, bytes->room + bytes->end, INPUT - bytes->end, &got))
            return false;
        bytes->end += got;
    }
    bytes->ended = got == 0;
    if (bytes->end < 2 && is_gzip_by_name(bytes->name)) {
        bytes->broken = "the gzip data ends too soon";
        bytes->broken_at = bytes->end;
        bytes->end = 0;
    }
    bool gzip = bytes->end >= 2 && memcmp(bytes->room, "\x1f\x8b", 2) == 0;
    if (!gzip)
        return true;
    bytes->ended = false;
    return inflater_begin(bytes);
}

/* Adds to what was read, unless the room is full. */
static bool more(struct weir_replay_bytes *bytes)
{
    size_t got = 0;
    if (!bytes->begun)
        return begin(bytes);
    memmove(bytes->room, bytes->room + bytes->begin, bytes->end - bytes->begin);
    bytes->end -= bytes->begin;
    bytes->begin = 0;
    if (bytes->inflater)
        return inflate_more(bytes);
    if (!file_read(bytes, bytes->room + bytes->end, ROOM - bytes->end, &got))
        return false;
    bytes->ended = got == 0;
    bytes->end += got;
    return true;
}

/* Passes over what was read of a line that is too long. True: its end was there. */
static bool skip(struct weir_replay_bytes *bytes, const char *stop)
{
    bytes->skipping = !stop;
    bytes->begin = stop ? (size_t)(stop - bytes->room) + 1 : bytes->end;
    return stop;
}

enum weir_replay_got weir_replay_bytes_line(struct weir_replay_bytes *bytes, size_t size_max, const char **ret_line,
                                            size_t *ret_size)
{
    for (size_t seen = 0;;) { /* of the bytes there are, in how many no end was found */
        size_t left = bytes->end - bytes->begin;
        const char *line = bytes->room + bytes->begin;
        const char *stop = left > seen ? memchr(line + seen, '\n', left - seen) : NULL;
        size_t size = stop ? (size_t)(stop - line) : left;
        if (bytes->skipping || size > size_max) {
            seen = 0;
            if (skip(bytes, stop) || (bytes->skipping && bytes->ended)) {
                bytes->skipping = false;
                return WEIR_REPLAY_LONG;
            }
        } else if (stop || (bytes->ended && left > 0 && !inflater_cut(bytes))) {
            bytes->begin += size + (stop != NULL);
            *ret_line = line;
            *ret_size = size;
            return WEIR_REPLAY_LINE;
        } else if (bytes->ended) {
            return WEIR_REPLAY_END;
        } else {
            seen = left;
        }
        if (!bytes->ended && !more(bytes))
            return WEIR_REPLAY_FAILED;
    }
}

/* ---- open, again, close ---- */

bool weir_replay_bytes_open(struct weir_replay_bytes *bytes, const char *name, bool spool)
{
    struct stat status;
    bool standard = strcmp(name, "-") == 0;
    *bytes = (struct weir_replay_bytes){ .name = standard ? "standard input" : name, .fd = -1 };
    bytes->fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(name, O_RDONLY | O_CLOEXEC);
    if (bytes->fd < 0 || fstat(bytes->fd, &status) != 0)
        return complain(bytes, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return complain(bytes, strerror(EISDIR));
    if (S_ISREG(status.st_mode)) {
        bytes->start = lseek(bytes->fd, 0, SEEK_CUR);
        bytes->start = bytes->start > 0 && bytes->start <= status.st_size ? bytes->start : 0;
        bytes->size = (uint64_t)(status.st_size - bytes->start);
    }
    bytes->room = malloc(ROOM);
    if (!bytes->room)
        return complain(bytes, "out of memory");
    if (spool && !S_ISREG(status.st_mode)) {
        bytes->spool = tmpfile();
        if (!bytes->spool)
            return complain(bytes, strerror(errno));
    }
    (void)posix_fadvise(bytes->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return true;
}

bool weir_replay_bytes_rewind(struct weir_replay_bytes *bytes)
{
    if (bytes->spool) {
        if (fflush(bytes->spool) != 0)
            return complain(bytes, strerror(errno));
        int fd = fcntl(fileno(bytes->spool), F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
            return complain(bytes, strerror(errno));
        close(bytes->fd);
        bytes->fd = fd;
    }
    if (lseek(bytes->fd, bytes->start, SEEK_SET) != bytes->start)
        return complain(bytes, strerror(errno));
    inflater_end(bytes->inflater);
    bytes->inflater = NULL;
    bytes->read_max = bytes->read;
    bytes->read = bytes->begin = bytes->end = 0;
    bytes->begun = bytes->skipping = false;
    bytes->broken = NULL;
    bytes->ended = bytes->read_max == 0;
    return true;
}

void weir_replay_bytes_close(struct weir_replay_bytes *bytes)
{
    inflater_end(bytes->inflater);
    free(bytes->room);
    if (bytes->spool)
        fclose(bytes->spool);
    if (bytes->room || bytes->fd > 0)
        close(bytes->fd);
}
