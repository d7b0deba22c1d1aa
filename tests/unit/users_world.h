/* SPDX-License-Identifier: Apache-2.0
 *
 * A database as tests of users see it: a primary that writes, fails over with or without loss, and is asked what it
 * shows; and what each user was told to have seen. The oracle: what is known of a user contains all that was added for
 * it before it was asked. */
#pragma once

#include <pthread.h>
#include <stdlib.h>

#include "random.h"
#include "sessions/users.h"

#define WORLD_SYSTEM UINT64_C(77)

struct world {
    pthread_mutex_t lock;
    uint64_t position;
    uint32_t timeline;
    struct weir_known known;
    bool down;          /* nobody knows what the primary shows */
    unsigned questions; /* that it was asked */
};

static inline void world_init(struct world *world)
{
    *world = (struct world){ .position = 1000, .timeline = 1 };
    pthread_mutex_init(&world->lock, NULL);
}

static inline int world_newest(void *context, uint64_t deadline_ns, struct weir_session_token *ret_token,
                               uint64_t *ret_changes)
{
    struct world *world = context;
    (void)deadline_ns;
    pthread_mutex_lock(&world->lock);
    world->questions++;
    *ret_token = (struct weir_session_token){ .count = 1 };
    ret_token->places[0] =
        (struct weir_place){ .system = WORLD_SYSTEM, .position = world->position, .timeline = world->timeline };
    *ret_changes = world->known.changes;
    bool down = world->down;
    pthread_mutex_unlock(&world->lock);
    return down ? WEIR_EDOWN : 0;
}

/* The primary writes a little; a reader sees something of its log, now and then at a standby. */
static inline struct weir_session_token world_see(struct world *world, struct test_random *random)
{
    struct weir_session_token seen = { .count = 1 };
    pthread_mutex_lock(&world->lock);
    world->position += 8 * test_random_below(random, 4);
    uint64_t behind = test_random_below(random, 3) == 0 ? 8 * test_random_below(random, 50) : 0;
    seen.wrote_ns = test_random_below(random, 2) * world->position;
    seen.places[0] = (struct weir_place){ .system = WORLD_SYSTEM,
                                          .position = world->position - behind,
                                          .timeline = world->timeline,
                                          .standby = test_random_below(random, 2) == 0 };
    for (unsigned i = 0; i < world->known.history_count; i++) {
        const struct weir_history *history = &world->known.histories[i];
        if (history->timeline == world->timeline &&
            seen.places[0].position <= history->ancestors[history->count - 1].end)
            seen.places[0].position = history->ancestors[history->count - 1].end + 8;
    }
    if (seen.places[0].position > world->position)
        world->position = seen.places[0].position;
    pthread_mutex_unlock(&world->lock);
    return seen;
}

/* A standby takes over that is `lost` bytes short. */
static inline void world_fail_over(struct world *world, uint64_t lost)
{
    pthread_mutex_lock(&world->lock);
    struct weir_history next = { .timeline = world->timeline + 1 };
    const struct weir_history *own = weir_known_find(&world->known, world->timeline, 0);
    if (own && own->timeline == world->timeline) {
        next = *own;
        next.timeline = world->timeline + 1;
    }
    uint64_t begin = next.count > 0 ? next.ancestors[next.count - 1].end + 8 : 8;
    uint64_t end = world->position > lost + begin ? world->position - lost : begin;
    next.ancestors[next.count++] = (struct weir_ancestor){ world->timeline, end, 0 };
    weir_known_history(&world->known, WORLD_SYSTEM, &next);
    world->timeline++;
    world->position = end + 8;
    pthread_mutex_unlock(&world->lock);
}

static inline struct weir_known world_known(struct world *world)
{
    pthread_mutex_lock(&world->lock);
    struct weir_known known = world->known;
    pthread_mutex_unlock(&world->lock);
    return known;
}

/* Does the token contain the place? */
static inline bool world_contains(const struct weir_session_token *token, const struct weir_place *place,
                                  const struct weir_known *known)
{
    for (unsigned i = 0; i < token->count; i++) {
        struct weir_place merged;
        if (weir_place_merge(&token->places[i], place, known, &merged) == 0 &&
            merged.position == token->places[i].position && merged.timeline == token->places[i].timeline &&
            merged.standby == token->places[i].standby)
            return true;
    }
    return false;
}

/* ---- what was added for one user ---- */

struct seen_list {
    pthread_mutex_t lock;
    struct weir_place *places;
    uint64_t wrote_ns;
    size_t count, room;
};

static inline void seen_add(struct seen_list *list, const struct weir_session_token *seen)
{
    pthread_mutex_lock(&list->lock);
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 16;
        list->places = realloc(list->places, list->room * sizeof *list->places);
    }
    list->places[list->count++] = seen->places[0];
    if (seen->wrote_ns > list->wrote_ns)
        list->wrote_ns = seen->wrote_ns;
    pthread_mutex_unlock(&list->lock);
}

static inline size_t seen_count(struct seen_list *list)
{
    pthread_mutex_lock(&list->lock);
    size_t count = list->count;
    pthread_mutex_unlock(&list->lock);
    return count;
}

/* Of the first `count`: how many the token does not contain. */
static inline size_t seen_missing(struct seen_list *list, size_t count, const struct weir_session_token *token,
                                  const struct weir_known *known)
{
    size_t missing = 0;
    pthread_mutex_lock(&list->lock);
    for (size_t i = 0; i < count; i++)
        missing += !world_contains(token, &list->places[i], known);
    pthread_mutex_unlock(&list->lock);
    return missing;
}
