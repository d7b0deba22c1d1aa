/* SPDX-License-Identifier: Apache-2.0
 *
 * One file of `weir replay` as lines: plain or gzip, a regular file, a pipe or standard input. What is no regular file
 * is copied to a temporary file while it is read, if it will be read once more. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct weir_replay_inflater;

struct weir_replay_bytes {
    const char *name; /* for people */
    int fd;
    uint64_t read, size; /* bytes of the file: so far, and all; size 0: it is no regular file */
    uint64_t read_max;   /* the second time no more than the first: a log may grow */
    FILE *spool;         /* NULL: none */
    int64_t start;       /* where in the file it begins: standard input may have been read before */
    bool begun, ended;   /* the file's end was read */
    const char *broken;  /* why nothing after `broken_at` bytes can be read; NULL: it was read */
    uint64_t broken_at;
    bool skipping;                         /* until the end of a line that is too long */
    struct weir_replay_inflater *inflater; /* NULL: it is not gzip */
    char *room;                            /* of lines */
    size_t begin, end;                     /* of what was read and not yet given */
};

enum weir_replay_got {
    WEIR_REPLAY_LINE,
    WEIR_REPLAY_LONG, /* a line of more than the bytes that were asked for, which was passed over */
    WEIR_REPLAY_END,
    WEIR_REPLAY_FAILED, /* after a complaint */
};

/* "-" is standard input. False after a complaint. */
bool weir_replay_bytes_open(struct weir_replay_bytes *bytes, const char *name, bool spool);
/* The next line, without its end, of at most `size_max` bytes; it stays until the next call. The last one need not have
 * an end, unless gzip data breaks off within it: half a line is none. */
enum weir_replay_got weir_replay_bytes_line(struct weir_replay_bytes *bytes, size_t size_max, const char **ret_line,
                                            size_t *ret_size);
bool weir_replay_bytes_rewind(struct weir_replay_bytes *bytes);
void weir_replay_bytes_close(struct weir_replay_bytes *bytes); /* zeroed is fine */
