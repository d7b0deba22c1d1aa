/* SPDX-License-Identifier: Apache-2.0 */
#include "table/logs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"

#define LOGS_FREE 0x80
#define LOGS_KEPT 0x40
#define LOGS_INSIDE 0x7f /* not the first block of anything */
#define BLOCK_BYTES (WEIR_LOGS_ENTRIES_MIN * sizeof(uint64_t))

static uint64_t link_make(uint32_t previous, uint32_t next)
{
    return (uint64_t)previous << 32 | next;
}

/* The first word of a free ring links it to its neighbours in the list. */
static void list_add(struct weir_logs *logs, uint32_t block, unsigned order)
{
    uint32_t next = logs->free_head[order];
    *weir_logs_times(logs, block) = link_make(WEIR_LOGS_NONE, next);
    if (next != WEIR_LOGS_NONE) {
        uint64_t *link = weir_logs_times(logs, next);
        *link = link_make(block, (uint32_t)*link);
    }
    logs->free_head[order] = block;
    logs->states[block] = (uint8_t)(LOGS_FREE | order);
}

static void list_remove(struct weir_logs *logs, uint32_t block, unsigned order)
{
    uint64_t link = *weir_logs_times(logs, block);
    uint32_t previous = (uint32_t)(link >> 32), next = (uint32_t)link;
    if (next != WEIR_LOGS_NONE) {
        uint64_t *next_link = weir_logs_times(logs, next);
        *next_link = link_make(previous, (uint32_t)*next_link);
    }
    if (previous != WEIR_LOGS_NONE) {
        uint64_t *previous_link = weir_logs_times(logs, previous);
        *previous_link = link_make((uint32_t)(*previous_link >> 32), next);
    } else {
        logs->free_head[order] = next;
    }
    logs->states[block] = LOGS_INSIDE;
}

int weir_logs_init(struct weir_logs *logs, size_t bytes)
{
    size_t blocks = bytes / (BLOCK_BYTES + 1);
    if (blocks >= WEIR_LOGS_NONE)
        blocks = WEIR_LOGS_NONE - 1;
    *logs = (struct weir_logs){ .blocks = (uint32_t)blocks };
    for (unsigned order = 0; order < WEIR_LOGS_ORDERS; order++)
        logs->free_head[order] = WEIR_LOGS_NONE;
    if (blocks > 0) {
        void *memory = mmap(NULL, blocks * BLOCK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        logs->memory = memory == MAP_FAILED ? NULL : memory;
        logs->states = malloc(blocks);
        if (!logs->memory || !logs->states) {
            weir_logs_deinit(logs);
            return WEIR_ENOMEM;
        }
        memset(logs->states, LOGS_INSIDE, blocks);
    }
    pthread_mutex_init(&logs->mutex, NULL);
    /* The largest aligned rings that fit, from the front. */
    for (uint32_t block = 0; block < logs->blocks;) {
        unsigned order = WEIR_LOGS_ORDERS - 1;
        while (block % (1u << order) != 0 || logs->blocks - block < 1u << order)
            order--;
        list_add(logs, block, order);
        block += 1u << order;
    }
    return 0;
}

void weir_logs_deinit(struct weir_logs *logs)
{
    if (logs->memory)
        munmap(logs->memory, logs->blocks * BLOCK_BYTES);
    free(logs->states);
    logs->memory = NULL;
    logs->states = NULL;
}

static unsigned order_of(uint32_t entries)
{
    weir_assert(entries >= WEIR_LOGS_ENTRIES_MIN && (entries & (entries - 1)) == 0);
    unsigned order = (unsigned)__builtin_ctz(entries / WEIR_LOGS_ENTRIES_MIN);
    weir_assert(order < WEIR_LOGS_ORDERS);
    return order;
}

static bool kept_full(const struct weir_logs *logs, unsigned order)
{
    return logs->blocks_kept + (UINT64_C(1) << order) > logs->blocks / 2;
}

bool weir_logs_kept_full(struct weir_logs *logs, uint32_t entries)
{
    pthread_mutex_lock(&logs->mutex);
    bool full = kept_full(logs, order_of(entries));
    pthread_mutex_unlock(&logs->mutex);
    return full;
}

uint32_t weir_logs_take(struct weir_logs *logs, uint32_t entries, bool kept)
{
    unsigned want = order_of(entries), order = want;
    pthread_mutex_lock(&logs->mutex);
    if (kept && kept_full(logs, want))
        order = WEIR_LOGS_ORDERS;
    while (order < WEIR_LOGS_ORDERS && logs->free_head[order] == WEIR_LOGS_NONE)
        order++;
    uint32_t block = order < WEIR_LOGS_ORDERS ? logs->free_head[order] : WEIR_LOGS_NONE;
    if (block != WEIR_LOGS_NONE) {
        list_remove(logs, block, order);
        while (order > want) /* the upper half stays free */
        {
            order--;
            list_add(logs, block + (1u << order), order);
        }
        logs->states[block] = (uint8_t)(want | (kept ? LOGS_KEPT : 0));
        logs->blocks_used += UINT64_C(1) << want;
        logs->blocks_kept += kept ? UINT64_C(1) << want : 0;
    }
    pthread_mutex_unlock(&logs->mutex);
    return block;
}

void weir_logs_give(struct weir_logs *logs, uint32_t block, uint32_t entries)
{
    unsigned order = order_of(entries);
    pthread_mutex_lock(&logs->mutex);
    weir_assert(block < logs->blocks && (logs->states[block] & ~LOGS_KEPT) == order);
    logs->blocks_used -= UINT64_C(1) << order;
    logs->blocks_kept -= logs->states[block] & LOGS_KEPT ? UINT64_C(1) << order : 0;
    logs->states[block] = LOGS_INSIDE;
    while (order + 1 < WEIR_LOGS_ORDERS) {
        uint32_t buddy = block ^ (1u << order);
        if (buddy >= logs->blocks || logs->states[buddy] != (LOGS_FREE | order))
            break;
        list_remove(logs, buddy, order);
        block &= ~(1u << order);
        order++;
    }
    list_add(logs, block, order);
    pthread_mutex_unlock(&logs->mutex);
}

uint64_t weir_logs_used(struct weir_logs *logs)
{
    pthread_mutex_lock(&logs->mutex);
    uint64_t bytes = logs->blocks_used * BLOCK_BYTES;
    pthread_mutex_unlock(&logs->mutex);
    return bytes;
}

/* Above this there is room for the largest ring beside the one that it replaces. */
#define LONGEST_BYTES_MAX ((size_t)4 << 20)

int weir_logs_longest(size_t bytes, bool kept, uint32_t *ret_entries)
{
    struct weir_logs logs;
    uint32_t held = WEIR_LOGS_NONE, entries = 0;
    int error = weir_logs_init(&logs, bytes < LONGEST_BYTES_MAX ? bytes : LONGEST_BYTES_MAX);
    if (error)
        return error;
    for (uint32_t next = WEIR_LOGS_ENTRIES_MIN; next <= WEIR_LOGS_ENTRIES_MIN << (WEIR_LOGS_ORDERS - 1); next *= 2) {
        uint32_t block = weir_logs_take(&logs, next, kept);
        if (block == WEIR_LOGS_NONE)
            break;
        if (held != WEIR_LOGS_NONE)
            weir_logs_give(&logs, held, entries);
        held = block;
        entries = next;
    }
    weir_logs_deinit(&logs);
    *ret_entries = entries;
    return 0;
}
