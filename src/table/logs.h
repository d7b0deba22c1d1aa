/* SPDX-License-Identifier: Apache-2.0
 *
 * Side storage of sliding logs: rings of 8 to 65,536 times, in a bounded piece of memory. A buddy allocator (Knuth, The
 * Art of Computer Programming, vol. 1, 2.5): rings are powers of two, neighbours of equal size join again when both are
 * free. Thread rule: any thread; one mutex. Pages are touched as rings are taken. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/error.h"

#define WEIR_LOGS_ENTRIES_MIN 8 /* times in the smallest ring: 64 bytes, a block */
#define WEIR_LOGS_ORDERS 14     /* 8 << 13 = 65,536 */
#define WEIR_LOGS_NONE UINT32_MAX

struct weir_logs {
    uint64_t *memory;
    uint8_t *states;   /* a block each: the order of the ring that begins here, with its state; 0: none does */
    uint16_t *owners;  /* a block each: whose kept ring begins here, 0: nobody's */
    uint32_t *kept_by; /* of each owner: blocks in its rings */
    uint32_t blocks;
    uint32_t fresh; /* so many at the front were in no ring yet: a start touches no page of them */
    uint32_t free_head[WEIR_LOGS_ORDERS]; /* doubly linked through the free blocks themselves */
    uint64_t blocks_used;
    uint64_t blocks_kept; /* of those: in rings that nobody may be made to give up */
    bool *shares;         /* of each owner: it has a floor */
    uint64_t floor;       /* blocks */
    uint64_t floors_open; /* the sum, over those that have a floor, of what is missing to it */
    pthread_mutex_t mutex;
    bool begun; /* the mutex is */
};

/* Kept rings: nobody may be made to give them up. Together they take at most half of the memory. Each of the n owners
 * that share it has a floor, half of an n-th of that half: up to its floor an owner takes what is free; beyond, only
 * what leaves the others what is missing to theirs. */
#define WEIR_LOGS_OWNERS 65535 /* 1 to this */

/* WEIR_ENOMEM. `bytes` may be 0: then there is never room. */
int weir_logs_init(struct weir_logs *logs, size_t bytes);
void weir_logs_deinit(struct weir_logs *logs);

/* A ring for `entries` times (a power of two, 8 to 65,536): the number of its first block, or WEIR_LOGS_NONE. owner 0:
 * it is not kept. */
uint32_t weir_logs_take(struct weir_logs *logs, uint32_t entries, uint16_t owner);
/* Whether a ring of this owner would be beyond what it may have. */
bool weir_logs_kept_full(struct weir_logs *logs, uint32_t entries, uint16_t owner);
/* Who has a floor from now on; the same owner twice is one. */
void weir_logs_share(struct weir_logs *logs, const uint16_t *owners, size_t count);
void weir_logs_give(struct weir_logs *logs, uint32_t block, uint32_t entries);

static inline uint64_t *weir_logs_times(const struct weir_logs *logs, uint32_t block)
{
    return logs->memory + (size_t)block * WEIR_LOGS_ENTRIES_MIN;
}

/* How many times one log may grow to, doubling, alone in `bytes`; with owners > 0 a kept one, where so many share.
 * WEIR_ENOMEM. */
int weir_logs_longest(size_t bytes, size_t owners, uint32_t *ret_entries);

/* Stops the program where the memory is not sound: rings that overlap or leave room between them, neighbours that have
 * not joined, lists or counts that say something else. weir_logs_deinit calls it in debug builds. */
void weir_logs_check(struct weir_logs *logs);

/* Bytes taken now. */
uint64_t weir_logs_used(struct weir_logs *logs);
uint64_t weir_logs_kept(struct weir_logs *logs); /* of those: in kept rings */
