/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys with one count hang together in a group, and the groups in a list by count, so that the least is at hand and the
 * next count is next door. A chained table finds a key by its hash. All links are numbers of places, 4 bytes each: an
 * event touches a few lines of 96 KiB at a room of 2,048. Called by
 * top.c. */
#include "observe/sketch.h"

#include <string.h>

#include "base/assert.h"

#define NONE UINT32_MAX

struct entry {
    uint64_t hash;
    uint64_t error;
    uint32_t group;
    uint32_t next, previous; /* in the group */
    uint32_t chained;        /* the next with the same head */
};

/* Those that were given back hang together by `next`. */
struct group {
    uint64_t count;
    uint32_t first;
    uint32_t next, previous; /* by count, the least first */
};

struct weir_sketch {
    uint64_t total;
    uint32_t room, used;
    uint32_t heads_mask;
    uint32_t least; /* the first group */
    uint32_t free;
    uint32_t untouched; /* from here on no group was used since the last clear: a sketch touches what it needs */
    struct entry *entries;
    struct group *groups;
    uint32_t *heads;
};

/* ---- memory ---- */

/* Two to an entry and a power of two. */
static uint32_t heads_of(uint32_t room)
{
    uint32_t heads = 2;
    while (heads < 2 * room)
        heads *= 2;
    return heads;
}

static size_t aligned(size_t size)
{
    return (size + 63) & ~(size_t)63;
}

size_t weir_sketch_bytes(uint32_t room)
{
    weir_assert(room >= 1 && room <= WEIR_SKETCH_ROOM_MAX);
    return aligned(sizeof(struct weir_sketch)) + aligned(room * sizeof(struct entry)) +
           aligned(room * sizeof(struct group)) + aligned(heads_of(room) * sizeof(uint32_t));
}

struct weir_sketch *weir_sketch_init(void *memory, uint32_t room)
{
    weir_assert(memory && ((uintptr_t)memory & 63) == 0);
    uint8_t *at = memory;
    struct weir_sketch *sketch = memory;
    sketch->room = room;
    sketch->heads_mask = heads_of(room) - 1;
    sketch->entries = (void *)(at += aligned(sizeof(*sketch)));
    sketch->groups = (void *)(at += aligned(room * sizeof(struct entry)));
    sketch->heads = (void *)(at + aligned(room * sizeof(struct group)));
    weir_sketch_clear(sketch);
    return sketch;
}

void weir_sketch_clear(struct weir_sketch *sketch)
{
    sketch->total = 0;
    sketch->used = 0;
    sketch->least = NONE;
    sketch->free = NONE;
    sketch->untouched = 0;
    memset(sketch->heads, 0xFF, ((size_t)sketch->heads_mask + 1) * sizeof(sketch->heads[0]));
}

/* ---- groups ---- */

/* A new one behind `previous`; NONE: at the front. There is always one free: no more are in use than entries. */
static uint32_t group_insert(struct weir_sketch *sketch, uint32_t previous, uint64_t count)
{
    bool again = sketch->free != NONE;
    uint32_t number = again ? sketch->free : sketch->untouched++;
    weir_assert(number < sketch->room);
    struct group *group = &sketch->groups[number];
    if (again)
        sketch->free = group->next;
    uint32_t next = previous == NONE ? sketch->least : sketch->groups[previous].next;
    *group = (struct group){ .count = count, .first = NONE, .next = next, .previous = previous };
    if (next != NONE)
        sketch->groups[next].previous = number;
    if (previous == NONE)
        sketch->least = number;
    else
        sketch->groups[previous].next = number;
    return number;
}

static void group_remove(struct weir_sketch *sketch, uint32_t number)
{
    struct group *group = &sketch->groups[number];
    if (group->next != NONE)
        sketch->groups[group->next].previous = group->previous;
    if (group->previous == NONE)
        sketch->least = group->next;
    else
        sketch->groups[group->previous].next = group->next;
    group->next = sketch->free;
    sketch->free = number;
}

static void join(struct weir_sketch *sketch, uint32_t place, uint32_t number)
{
    struct entry *entry = &sketch->entries[place];
    struct group *group = &sketch->groups[number];
    entry->group = number;
    entry->previous = NONE;
    entry->next = group->first;
    if (group->first != NONE)
        sketch->entries[group->first].previous = place;
    group->first = place;
}

/* The last one out takes the group with it. */
static void leave(struct weir_sketch *sketch, uint32_t place)
{
    struct entry *entry = &sketch->entries[place];
    struct group *group = &sketch->groups[entry->group];
    if (entry->next != NONE)
        sketch->entries[entry->next].previous = entry->previous;
    if (entry->previous != NONE)
        sketch->entries[entry->previous].next = entry->next;
    else
        group->first = entry->next;
    if (group->first == NONE)
        group_remove(sketch, entry->group);
}

/* The last group from `from` on (NONE: from the front) whose count is below `count`. All counts differ, so of an event
 * that counts n at most n groups are passed. */
static uint32_t last_below(const struct weir_sketch *sketch, uint32_t from, uint64_t count)
{
    uint32_t next = from == NONE ? sketch->least : sketch->groups[from].next;
    while (next != NONE && sketch->groups[next].count < count) {
        from = next;
        next = sketch->groups[next].next;
    }
    return from;
}

/* Into the group with that count, behind the last that is below it. */
static void join_behind(struct weir_sketch *sketch, uint32_t place, uint32_t below, uint64_t count)
{
    uint32_t next = below == NONE ? sketch->least : sketch->groups[below].next;
    bool is_there = next != NONE && sketch->groups[next].count == count;
    join(sketch, place, is_there ? next : group_insert(sketch, below, count));
}

static void raise(struct weir_sketch *sketch, uint32_t place, uint32_t weight)
{
    const uint32_t own = sketch->entries[place].group;
    struct group *group = &sketch->groups[own];
    const uint64_t count = group->count + weight;
    const uint32_t below = last_below(sketch, own, count), next = sketch->groups[below].next;
    bool alone = group->first == place && sketch->entries[place].next == NONE;
    if (alone && below == own && (next == NONE || sketch->groups[next].count != count)) {
        group->count = count;
        return;
    }
    if (alone && below == own) { /* its group goes with it */
        leave(sketch, place);
        join(sketch, place, next);
        return;
    }
    leave(sketch, place);
    join_behind(sketch, place, below, count);
}

/* ---- events ---- */

static void chain(struct weir_sketch *sketch, uint32_t place, uint64_t hash)
{
    struct entry *entry = &sketch->entries[place];
    uint32_t *head = &sketch->heads[hash & sketch->heads_mask];
    entry->hash = hash;
    entry->chained = *head;
    *head = place;
}

static void unchain(struct weir_sketch *sketch, uint32_t place)
{
    const struct entry *entry = &sketch->entries[place];
    uint32_t *at = &sketch->heads[entry->hash & sketch->heads_mask];
    while (*at != place)
        at = &sketch->entries[*at].chained;
    *at = entry->chained;
}

static uint32_t find(const struct weir_sketch *sketch, uint64_t hash)
{
    uint32_t place = sketch->heads[hash & sketch->heads_mask];
    while (place != NONE && sketch->entries[place].hash != hash)
        place = sketch->entries[place].chained;
    return place;
}

static uint32_t take_free_place(struct weir_sketch *sketch, uint64_t hash, uint32_t weight)
{
    const uint32_t place = sketch->used++;
    chain(sketch, place, hash);
    sketch->entries[place].error = 0;
    join_behind(sketch, place, last_below(sketch, NONE, weight), weight);
    return place;
}

static uint32_t take_least_place(struct weir_sketch *sketch, uint64_t hash, uint32_t weight)
{
    const struct group *least = &sketch->groups[sketch->least];
    const uint32_t place = least->first;
    unchain(sketch, place);
    chain(sketch, place, hash);
    sketch->entries[place].error = least->count;
    raise(sketch, place, weight);
    return place;
}

uint32_t weir_sketch_add(struct weir_sketch *sketch, uint64_t hash, uint32_t weight, bool *ret_fresh)
{
    weir_assert(weight >= 1 && weight <= WEIR_SKETCH_WEIGHT_MAX);
    uint32_t place = find(sketch, hash);
    sketch->total += weight;
    *ret_fresh = place == NONE;
    if (place != NONE)
        raise(sketch, place, weight);
    else if (sketch->used < sketch->room)
        place = take_free_place(sketch, hash, weight);
    else
        place = take_least_place(sketch, hash, weight);
    return place;
}

/* ---- reading ---- */

uint32_t weir_sketch_used(const struct weir_sketch *sketch)
{
    return sketch->used;
}

struct weir_sketch_key weir_sketch_key(const struct weir_sketch *sketch, uint32_t place)
{
    weir_assert(place < sketch->used);
    const struct entry *entry = &sketch->entries[place];
    return (struct weir_sketch_key){ entry->hash, sketch->groups[entry->group].count, entry->error };
}

uint64_t weir_sketch_floor(const struct weir_sketch *sketch)
{
    return sketch->used < sketch->room ? 0 : sketch->groups[sketch->least].count;
}

uint64_t weir_sketch_total(const struct weir_sketch *sketch)
{
    return sketch->total;
}
