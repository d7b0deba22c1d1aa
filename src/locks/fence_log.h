/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a durable fence: marks in the order in which they were installed, the last of a name counts.
 *
 *     16 bytes  "weir-fence 1\n", zeros
 *     records   sum 8, incarnation 8, number 8, name's size 2 (little endian), the name; the sum is over the rest
 *
 * Each record is synced before the next one is begun, so at most the last can be torn: it is dropped when the file is
 * opened, and was never acknowledged. A bad record further in is WEIR_ECORRUPT. One process has it open: a file of
 * the same name with ".lock" is locked, because compaction puts a new file in place of the old one.
 * Thread rule: one call at a time. */
#pragma once

#include <stdbool.h>

#include "weir/fence.h"

#define WEIR_FENCE_RECORD_HEAD 26

struct weir_fence_log {
    char *path;
    int folder, file, lock; /* descriptors, -1: none */
    uint64_t size;
    bool broken; /* a sync failed: what is on the disk is not known; nothing more is written */
};

/* Of one record; not 0 stops, and is returned. */
typedef int weir_fence_each(void *context, const void *name, size_t name_size, struct weir_token token);

/* Calls `each` for what is there, oldest first. WEIR_EIO, WEIR_ECORRUPT, WEIR_EBUSY, WEIR_ENOMEM. */
int weir_fence_log_open(struct weir_fence_log *log, const char *path, weir_fence_each *each, void *context);
void weir_fence_log_close(struct weir_fence_log *log);

/* Durable before it returns 0. WEIR_EIO: it may be there or not. */
int weir_fence_log_append(struct weir_fence_log *log, const void *name, size_t name_size, struct weir_token token);

/* A new file with what `list` hands to `each`, in place of the old one, which stays if this fails. */
int weir_fence_log_compact(struct weir_fence_log *log,
                           int (*list)(void *context, weir_fence_each *each, void *each_context), void *context);
