/* SPDX-License-Identifier: Apache-2.0
 *
 * One mapping, in blocks of 64 bytes. A byte for each block says what begins there: a free ring, one in use, or
 * nothing. Free rings of a size are a doubly linked list through their own first words. Called by the limiter
 * (limits/entry.c, define.c, limiter.c); what is in a ring is core/limit/log.c and concurrency.c. */
#include "table/logs.h"

#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"

/* What is said of a block: of a ring's first one its state and order, of all others nothing, as fresh memory says. So
 * rings that nobody asks for cost no page. */
#define LOGS_FREE 0x80
#define LOGS_USED 0x40
#define LOGS_INSIDE 0
#define LARGEST_BLOCKS (1u << (WEIR_LOGS_ORDERS - 1))
#define BLOCK_BYTES (WEIR_LOGS_ENTRIES_MIN * sizeof(uint64_t))

static uint64_t link_make(uint32_t previous, uint32_t next)
{
    return (uint64_t)previous << 32 | next;
}

/* The first word of a free ring links it to its neighbours in the list. */
static void list_add(struct weir_logs *logs, uint32_t block, unsigned order)
{
    weir_assert(block % (1u << order) == 0 && logs->blocks - block >= 1u << order);
    weir_assert(logs->states[block] == LOGS_INSIDE);
    uint32_t next = logs->free_head[order];
    *weir_logs_times(logs, block) = link_make(WEIR_LOGS_NONE, next);
    if (next != WEIR_LOGS_NONE) {
        uint64_t *link = weir_logs_times(logs, next);
        weir_assert(*link >> 32 == WEIR_LOGS_NONE); /* it was the first */
        *link = link_make(block, (uint32_t)*link);
    }
    logs->free_head[order] = block;
    logs->states[block] = (uint8_t)(LOGS_FREE | order);
}

static void list_remove(struct weir_logs *logs, uint32_t block, unsigned order)
{
    weir_assert(logs->states[block] == (LOGS_FREE | order));
    uint64_t link = *weir_logs_times(logs, block);
    uint32_t previous = (uint32_t)(link >> 32), next = (uint32_t)link;
    if (next != WEIR_LOGS_NONE) {
        uint64_t *next_link = weir_logs_times(logs, next);
        weir_assert(*next_link >> 32 == block);
        *next_link = link_make(previous, (uint32_t)*next_link);
    }
    if (previous != WEIR_LOGS_NONE) {
        uint64_t *previous_link = weir_logs_times(logs, previous);
        weir_assert((uint32_t)*previous_link == block);
        *previous_link = link_make((uint32_t)(*previous_link >> 32), next);
    } else {
        weir_assert(logs->free_head[order] == block);
        logs->free_head[order] = next;
    }
    logs->states[block] = LOGS_INSIDE;
}

/* One more of the largest rings is free, if there is one that was in use by nobody yet. */
static bool cut_off(struct weir_logs *logs)
{
    if (logs->fresh == 0)
        return false;
    weir_assert(logs->fresh % LARGEST_BLOCKS == 0);
    logs->fresh -= LARGEST_BLOCKS;
    list_add(logs, logs->fresh, WEIR_LOGS_ORDERS - 1);
    return true;
}

static size_t mapping_bytes(size_t blocks)
{
    return blocks * (BLOCK_BYTES + sizeof(uint16_t) + sizeof(uint8_t)) +
           (WEIR_LOGS_OWNERS + 1) * (sizeof(uint32_t) + sizeof(bool));
}

int weir_logs_init(struct weir_logs *logs, size_t bytes)
{
    size_t blocks = bytes / (BLOCK_BYTES + sizeof(uint8_t) + sizeof(uint16_t));
    if (blocks >= WEIR_LOGS_NONE)
        blocks = WEIR_LOGS_NONE - 1;
    *logs = (struct weir_logs){ .blocks = (uint32_t)blocks };
    for (unsigned order = 0; order < WEIR_LOGS_ORDERS; order++)
        logs->free_head[order] = WEIR_LOGS_NONE;
    if (blocks > 0) {
        /* One mapping: fresh memory is 0, and what is not written costs nothing. */
        void *memory = mmap(NULL, mapping_bytes(blocks), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            return WEIR_ENOMEM;
        logs->memory = memory;
        logs->kept_by = (uint32_t *)(void *)weir_logs_times(logs, logs->blocks);
        logs->owners = (uint16_t *)(logs->kept_by + WEIR_LOGS_OWNERS + 1);
        logs->states = (uint8_t *)(logs->owners + blocks);
        logs->shares = (bool *)(logs->states + blocks);
    }
    pthread_mutex_init(&logs->mutex, NULL);
    logs->begun = true;
    /* What is left behind the largest rings: the largest aligned ones that fit. */
    logs->fresh = logs->blocks - logs->blocks % LARGEST_BLOCKS;
    unsigned order = WEIR_LOGS_ORDERS - 1;
    for (uint32_t block = logs->fresh; block < logs->blocks; block += 1u << order) {
        while (logs->blocks - block < 1u << order)
            order--;
        list_add(logs, block, order);
    }
    return 0;
}

void weir_logs_deinit(struct weir_logs *logs)
{
#ifdef WEIR_DEBUG
    if (logs->memory)
        weir_logs_check(logs);
#endif
    if (logs->memory)
        munmap(logs->memory, mapping_bytes(logs->blocks));
    if (logs->begun)
        pthread_mutex_destroy(&logs->mutex);
    *logs = (struct weir_logs){ 0 };
}

static unsigned order_of(uint32_t entries)
{
    weir_assert(entries >= WEIR_LOGS_ENTRIES_MIN && (entries & (entries - 1)) == 0);
    unsigned order = (unsigned)__builtin_ctz(entries / WEIR_LOGS_ENTRIES_MIN);
    weir_assert(order < WEIR_LOGS_ORDERS);
    return order;
}

/* What is missing to an owner's floor. */
static uint64_t floor_open(const struct weir_logs *logs, uint16_t owner)
{
    uint64_t floor = logs->shares[owner] ? logs->floor : 0;
    return floor > logs->kept_by[owner] ? floor - logs->kept_by[owner] : 0;
}

/* Whether `blocks` more of an owner's would be too much. */
static bool kept_full(const struct weir_logs *logs, uint64_t blocks, uint16_t owner)
{
    uint64_t half = logs->blocks / 2, kept = logs->blocks_kept + blocks;
    if (kept > half)
        return true;
    uint64_t open = floor_open(logs, owner);
    return blocks > open && kept + (logs->floors_open - open) > half;
}

bool weir_logs_kept_full(struct weir_logs *logs, uint32_t entries, uint16_t owner)
{
    uint64_t blocks = UINT64_C(1) << order_of(entries);
    pthread_mutex_lock(&logs->mutex);
    bool full = kept_full(logs, blocks, owner);
    pthread_mutex_unlock(&logs->mutex);
    return full;
}

void weir_logs_share(struct weir_logs *logs, const uint16_t *owners, size_t count)
{
    size_t sharers = 0;
    if (logs->blocks == 0)
        return;
    pthread_mutex_lock(&logs->mutex);
    memset(logs->shares, 0, (WEIR_LOGS_OWNERS + 1) * sizeof *logs->shares);
    for (size_t i = 0; i < count; i++) {
        sharers += !logs->shares[owners[i]];
        logs->shares[owners[i]] = true;
    }
    logs->floor = sharers > 0 ? logs->blocks / 2 / (2 * sharers) : 0;
    weir_assert(sharers <= count);
    logs->floors_open = 0;
    for (uint32_t owner = 1; owner <= WEIR_LOGS_OWNERS; owner++)
        logs->floors_open += floor_open(logs, (uint16_t)owner);
    weir_assert(logs->floors_open <= sharers * logs->floor);
    weir_assert(logs->floors_open <= logs->blocks / 4); /* half of what may be kept at all */
    pthread_mutex_unlock(&logs->mutex);
}

/* An owner gets a ring (1) or gives it back (-1). */
static void count_kept(struct weir_logs *logs, uint16_t owner, unsigned order, int sign)
{
    int64_t blocks = sign * (INT64_C(1) << order);
    weir_assert(owner != 0 && (sign == 1 || sign == -1));
    weir_assert(sign > 0 || (logs->kept_by[owner] >> order != 0 && logs->blocks_kept >> order != 0));
    weir_assert(logs->floors_open >= floor_open(logs, owner));
    logs->floors_open -= floor_open(logs, owner);
    logs->blocks_kept += (uint64_t)blocks;
    logs->kept_by[owner] += (uint32_t)blocks;
    logs->floors_open += floor_open(logs, owner);
    weir_assert(logs->kept_by[owner] <= logs->blocks_kept && logs->blocks_kept <= logs->blocks / 2);
}

uint32_t weir_logs_take(struct weir_logs *logs, uint32_t entries, uint16_t owner)
{
    unsigned want = order_of(entries), order = want;
    pthread_mutex_lock(&logs->mutex);
    if (owner && kept_full(logs, UINT64_C(1) << want, owner))
        order = WEIR_LOGS_ORDERS;
    while (order < WEIR_LOGS_ORDERS && logs->free_head[order] == WEIR_LOGS_NONE)
        if (++order == WEIR_LOGS_ORDERS && cut_off(logs))
            order = want;
    uint32_t block = order < WEIR_LOGS_ORDERS ? logs->free_head[order] : WEIR_LOGS_NONE;
    if (block != WEIR_LOGS_NONE) {
        list_remove(logs, block, order);
        while (order > want) /* the upper half stays free */
        {
            order--;
            list_add(logs, block + (1u << order), order);
        }
        logs->states[block] = (uint8_t)(LOGS_USED | want);
        logs->owners[block] = owner;
        logs->blocks_used += UINT64_C(1) << want;
        if (owner)
            count_kept(logs, owner, want, 1);
        weir_assert(order == want && logs->blocks_used <= logs->blocks);
        weir_assert(logs->blocks_kept <= logs->blocks_used);
    }
    pthread_mutex_unlock(&logs->mutex);
    return block;
}

void weir_logs_give(struct weir_logs *logs, uint32_t block, uint32_t entries)
{
    unsigned order = order_of(entries);
    pthread_mutex_lock(&logs->mutex);
    weir_assert(block < logs->blocks && logs->states[block] == (LOGS_USED | order));
    weir_assert(logs->blocks_used >= UINT64_C(1) << order);
    logs->blocks_used -= UINT64_C(1) << order;
    if (logs->owners[block])
        count_kept(logs, logs->owners[block], order, -1);
    logs->states[block] = LOGS_INSIDE;
    while (order + 1 < WEIR_LOGS_ORDERS) {
        uint32_t buddy = block ^ (1u << order);
        if (buddy >= logs->blocks || logs->states[buddy] != (LOGS_FREE | order))
            break;
        list_remove(logs, buddy, order);
        block &= ~(1u << order);
        order++;
    }
    weir_assert(logs->blocks_kept <= logs->blocks_used); /* of a kept ring both counts fell */
    list_add(logs, block, order);
    pthread_mutex_unlock(&logs->mutex);
}

static unsigned order_at(const struct weir_logs *logs, uint32_t block)
{
    return logs->states[block] & ~(unsigned)(LOGS_FREE | LOGS_USED);
}

/* What the rings say, one by one. */
struct counted {
    uint64_t used, kept;
    uint64_t kept_by; /* blocks times owner: that no ring is counted for another owner */
    uint64_t free[WEIR_LOGS_ORDERS];
};

static void check_ring(const struct weir_logs *logs, uint32_t block, struct counted *counted)
{
    unsigned state = logs->states[block], order = order_at(logs, block);
    weir_assert(state != LOGS_INSIDE);
    weir_assert(order < WEIR_LOGS_ORDERS);
    uint32_t size = 1u << order, buddy = block ^ size;
    weir_assert(block % size == 0 && size <= logs->blocks - block);
    for (uint32_t i = 1; i < size; i++)
        weir_assert(logs->states[block + i] == LOGS_INSIDE);
    if (state & LOGS_FREE) {
        counted->free[order]++;
        weir_assert(order + 1 == WEIR_LOGS_ORDERS || buddy >= logs->blocks || logs->states[buddy] != state);
        return;
    }
    counted->used += size;
    counted->kept += logs->owners[block] ? size : 0;
    counted->kept_by += (uint64_t)size * logs->owners[block];
}

/* Each list has all the free rings of its order, linked both ways. */
static void check_list(const struct weir_logs *logs, unsigned order, uint64_t free)
{
    uint32_t previous = WEIR_LOGS_NONE;
    for (uint32_t block = logs->free_head[order]; block != WEIR_LOGS_NONE; free--) {
        uint64_t link = *weir_logs_times(logs, block);
        weir_assert(free > 0 && block < logs->blocks);
        weir_assert(logs->states[block] == (LOGS_FREE | order) && link >> 32 == previous);
        previous = block;
        block = (uint32_t)link;
    }
    weir_assert(free == 0);
}

void weir_logs_check(struct weir_logs *logs)
{
    struct counted counted = { 0 };
    uint64_t kept_by = 0, floors_open = 0;
    pthread_mutex_lock(&logs->mutex);
    for (uint32_t block = logs->fresh; block < logs->blocks; block += 1u << order_at(logs, block))
        check_ring(logs, block, &counted);
    for (unsigned order = 0; order < WEIR_LOGS_ORDERS; order++)
        check_list(logs, order, counted.free[order]);
    for (uint32_t owner = 1; owner <= WEIR_LOGS_OWNERS && logs->blocks > 0; owner++) {
        kept_by += (uint64_t)logs->kept_by[owner] * owner;
        floors_open += floor_open(logs, (uint16_t)owner);
    }
    weir_assert(logs->blocks_used == counted.used);
    weir_assert(logs->blocks_kept == counted.kept);
    weir_assert(counted.kept_by == kept_by);
    weir_assert(logs->floors_open == floors_open);
    pthread_mutex_unlock(&logs->mutex);
}

uint64_t weir_logs_used(struct weir_logs *logs)
{
    pthread_mutex_lock(&logs->mutex);
    uint64_t bytes = logs->blocks_used * BLOCK_BYTES;
    pthread_mutex_unlock(&logs->mutex);
    return bytes;
}

uint64_t weir_logs_kept(struct weir_logs *logs)
{
    pthread_mutex_lock(&logs->mutex);
    uint64_t bytes = logs->blocks_kept * BLOCK_BYTES;
    pthread_mutex_unlock(&logs->mutex);
    return bytes;
}

/* Above this there is room for the largest ring beside the one that it replaces. */
#define LONGEST_BYTES_MAX ((size_t)4 << 20)

int weir_logs_longest(size_t bytes, size_t owners, uint32_t *ret_entries)
{
    struct weir_logs logs;
    uint32_t held = WEIR_LOGS_NONE, entries = 0;
    int error = weir_logs_init(&logs, bytes < LONGEST_BYTES_MAX ? bytes : LONGEST_BYTES_MAX);
    if (error)
        return error;
    if (owners > 1)
        logs.floors_open = logs.blocks / 2 / (2 * owners) * (owners - 1); /* the others' */
    for (uint32_t next = WEIR_LOGS_ENTRIES_MIN; next <= WEIR_LOGS_ENTRIES_MIN << (WEIR_LOGS_ORDERS - 1); next *= 2) {
        uint32_t block = weir_logs_take(&logs, next, owners > 0 ? 1 : 0);
        if (block == WEIR_LOGS_NONE)
            break;
        if (held != WEIR_LOGS_NONE)
            weir_logs_give(&logs, held, entries);
        held = block;
        entries = next;
    }
    weir_assert(held == WEIR_LOGS_NONE || entries >= WEIR_LOGS_ENTRIES_MIN);
    logs.floors_open = 0;
    weir_logs_deinit(&logs);
    *ret_entries = entries;
    return 0;
}
