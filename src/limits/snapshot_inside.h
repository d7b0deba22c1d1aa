/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of limits/ that write, read and restore snapshots only. */
#pragma once

#include <string.h>

#include "base/fault_format.h"
#include "limits/memory.h"
#include "wire/snapshot.h"

#define WEIR_SNAPSHOT_PATH_MAX 4000

struct weir_snapshot_reader {
    char path[WEIR_SNAPSHOT_PATH_MAX + 1];
    int fd;
    uint64_t at; /* bytes read */
    struct weir_snapshot_head head;
    struct weir_sip_key key;
    uint64_t place;                   /* of the next block */
    struct weir_snapshot_block block; /* the last one read */
    uint64_t definitions, entries;    /* as the end of the file says */
};

/* "cannot WHAT PATH: why". Returns WEIR_EIO. `number`: errno. */
static inline int weir_snapshot_io_fault(const char *what, const char *path, int number, struct weir_fault *ret_fault)
{
    return weir_fault_format(ret_fault, WEIR_EIO, "path", "cannot %s %.100s: %s", what, path, strerror(number));
}

/* Returns WEIR_ECORRUPT, and says where. */
int weir_snapshot_corrupt(const struct weir_snapshot_reader *reader, struct weir_fault *ret_fault);

/* Back to the first block. WEIR_EIO. */
int weir_snapshot_rewind(struct weir_snapshot_reader *reader, struct weir_fault *ret_fault);

/* The next block. WEIR_EIO, WEIR_ECORRUPT. */
int weir_snapshot_read_block(struct weir_snapshot_reader *reader, enum weir_snapshot_kind *ret_kind,
                             struct weir_fault *ret_fault);

/* Those of the block that was read last. */
static inline struct weir_snapshot_rest weir_snapshot_records(const struct weir_snapshot_reader *reader)
{
    return (struct weir_snapshot_rest){ reader->block.bytes + WEIR_SNAPSHOT_FRAME_BYTES, reader->block.size };
}
