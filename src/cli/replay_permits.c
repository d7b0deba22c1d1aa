/* SPDX-License-Identifier: Apache-2.0
 *
 * A binary heap by time, which grows to WEIR_REPLAY_PERMITS_MAX. Each is given back at the very time at which its
 * request ended, not at that of the next line. Called by replay_set.c. */
#include "cli/replay_permits.h"

#include <stdlib.h>

#include "cli/replay.h"

struct permit {
    uint64_t end_ns, permit;
    struct weir_key key;
};

struct weir_replay_permits {
    struct permit *heap;
    size_t count, room;
};

struct weir_replay_permits *weir_replay_permits_create(void)
{
    return calloc(1, sizeof(struct weir_replay_permits));
}

void weir_replay_permits_destroy(struct weir_replay_permits *permits)
{
    if (permits)
        free(permits->heap);
    free(permits);
}

static void swap(struct permit *a, struct permit *b)
{
    struct permit kept = *a;
    *a = *b;
    *b = kept;
}

bool weir_replay_permit_add(struct weir_replay_permits *permits, const struct weir_key *key, uint64_t permit,
                            uint64_t end_ns)
{
    if (permits->count == permits->room) {
        size_t room = permits->room ? 2 * permits->room : 1024;
        struct permit *heap = room > WEIR_REPLAY_PERMITS_MAX ? NULL
                                                             : realloc(permits->heap, room * sizeof(permits->heap[0]));
        if (!heap)
            return false;
        permits->heap = heap;
        permits->room = room;
    }
    struct permit *heap = permits->heap;
    size_t at = permits->count++;
    heap[at] = (struct permit){ .end_ns = end_ns, .permit = permit, .key = *key };
    for (; at > 0 && heap[at].end_ns < heap[(at - 1) / 2].end_ns; at = (at - 1) / 2)
        swap(&heap[at], &heap[(at - 1) / 2]);
    return true;
}

static void first_remove(struct weir_replay_permits *permits)
{
    struct permit *heap = permits->heap;
    size_t count = --permits->count, at = 0;
    heap[0] = heap[count];
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            least = heap[child].end_ns < heap[least].end_ns ? child : least;
        if (least == at)
            return;
        swap(&heap[at], &heap[least]);
        at = least;
    }
}

void weir_replay_permits_end(struct weir_replay_permits *permits, struct weir_limiter *limiter, uint64_t now_ns)
{
    while (permits->count > 0 && permits->heap[0].end_ns <= now_ns) {
        const struct permit *first = &permits->heap[0];
        const struct weir_time time = { first->end_ns, first->end_ns };
        uint64_t units = 0;
        /* 0 units: its lease had ended, which is what a server would say too. */
        (void)weir_limiter_release(limiter, &first->key, 1, first->permit, &time, &units);
        first_remove(permits);
    }
}
