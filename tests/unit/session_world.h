/* SPDX-License-Identifier: Apache-2.0
 *
 * A slow, obviously right model of a replicated database: every log is a list of records, and what a server shows or a
 * session saw is a set of them. Promotions, crashes that lose what was not flushed, zombies, cascades, restarts. The
 * core is asked through the same structs that a real server's answers fill. */
#pragma once

#include <assert.h>
#include <string.h>

#include "core/session/token.h"
#include "random.h"

enum { WORLD_RECORDS = 512, WORLD_SERVERS = 5, WORLD_TIMELINES = 12, WORLD_HISTORY_TEXT = 400 };

struct world_set {
    uint64_t bits[WORLD_RECORDS / 64];
};

struct world_server {
    unsigned log[WORLD_RECORDS]; /* of records, the first is everybody's */
    unsigned count;              /* inserted, or received */
    unsigned flushed;            /* a primary */
    unsigned replayed;           /* a standby */
    bool primary;
    bool restarted; /* a standby that has not received anew: it counts less as received than it replayed */
    uint32_t timeline;
    uint64_t run;
    struct world_set hidden; /* a primary: in the log, and not yet shown to others */
};

struct world {
    struct test_random random;
    struct {
        uint64_t end;
        uint32_t timeline;
    } records[WORLD_RECORDS];
    unsigned record_count;
    struct world_server servers[WORLD_SERVERS];
    uint32_t newest;
    char texts[WORLD_TIMELINES + 1][WORLD_HISTORY_TEXT];
    struct weir_history histories[WORLD_TIMELINES + 1];
    uint64_t clock; /* numbers the runs */
    struct weir_known known;
};

/* What one reader saw, and how the core puts it. */
struct world_seen {
    struct weir_place place;
    struct world_set saw;     /* what was visible to the reader */
    struct world_set implied; /* all that the place stands for: the log up to there */
};

static inline void set_add(struct world_set *set, unsigned record)
{
    set->bits[record / 64] |= UINT64_C(1) << record % 64;
}

static inline bool set_has(const struct world_set *set, unsigned record)
{
    return set->bits[record / 64] >> record % 64 & 1;
}

static inline bool set_within(const struct world_set *inner, const struct world_set *outer)
{
    for (unsigned i = 0; i < WORLD_RECORDS / 64; i++)
        if (inner->bits[i] & ~outer->bits[i])
            return false;
    return true;
}

static inline struct world_set set_of(const struct world_server *server, unsigned count)
{
    struct world_set set = { { 0 } };
    for (unsigned i = 0; i < count; i++)
        set_add(&set, server->log[i]);
    return set;
}

/* What a reader who comes now sees at least: a standby may show the record in flight besides. */
static inline struct world_set world_visible(const struct world_server *server)
{
    struct world_set set = set_of(server, server->primary ? server->count : server->replayed);
    for (unsigned i = 0; server->primary && i < WORLD_RECORDS / 64; i++)
        set.bits[i] &= ~server->hidden.bits[i];
    return set;
}

static inline uint64_t world_end(const struct world *world, const struct world_server *server, unsigned count)
{
    return world->records[server->log[count - 1]].end;
}

static inline unsigned world_below(struct world *world, unsigned bound)
{
    return (unsigned)test_random_below(&world->random, bound);
}

static inline bool world_chance(struct world *world, unsigned percent)
{
    return world_below(world, 100) < percent;
}

/* ---- what happens ---- */

static inline void world_insert(struct world *world, struct world_server *server)
{
    if (world->record_count == WORLD_RECORDS)
        return;
    unsigned record = world->record_count++;
    world->records[record].end = world_end(world, server, server->count) + 8 * (1 + world_below(world, 4));
    world->records[record].timeline = server->timeline;
    server->log[server->count++] = record;
    if (world_chance(world, 30))
        set_add(&server->hidden, record);
}

static inline void world_crash(struct world *world, struct world_server *server)
{
    server->count = server->flushed + world_below(world, server->count - server->flushed + 1);
    server->flushed = server->count;
    server->run = ++world->clock;
    server->hidden = (struct world_set){ { 0 } };
}

static inline bool world_descends(const struct world *world, uint32_t timeline, uint32_t from)
{
    const struct weir_history *history = &world->histories[timeline];
    for (unsigned i = 0; i < history->count; i++)
        if (history->ancestors[i].timeline == from)
            return true;
    return timeline == from;
}

/* How much of a log is part of a timeline's history: what is beyond, nobody replays who follows it. */
static inline unsigned world_part_of(const struct world *world, const struct world_server *server, uint32_t timeline)
{
    const struct weir_history *history = &world->histories[timeline];
    for (unsigned i = 0; i < server->count; i++) {
        uint32_t of = world->records[server->log[i]].timeline;
        bool part = of == timeline;
        for (unsigned j = 0; j < history->count; j++) {
            part |= history->ancestors[j].timeline == of;
            part &= history->ancestors[j].timeline < of || world_end(world, server, i + 1) <= history->ancestors[j].end;
        }
        if (!part)
            return i;
    }
    return server->count;
}

/* Follows another server, as PostgreSQL does: to its own timeline or a descendant of it, and only if that does not take
 * back what was replayed. Receives some of what the other has on its disk. */
static inline void world_follow(struct world *world, struct world_server *standby, const struct world_server *upstream)
{
    unsigned sent = upstream->primary ? upstream->flushed : upstream->count, common = 0;
    while (common < sent && common < standby->count && upstream->log[common] == standby->log[common])
        common++;
    if ((common < sent && common < standby->replayed) ||
        !world_descends(world, upstream->timeline, standby->timeline) ||
        world_part_of(world, standby, upstream->timeline) < standby->replayed)
        return;
    standby->count = common < sent ? common : world_part_of(world, standby, upstream->timeline);
    standby->timeline = upstream->timeline;
    unsigned until = sent > standby->count ? standby->count + world_below(world, sent - standby->count + 1) : 0;
    for (; standby->count < until; standby->count++)
        standby->log[standby->count] = upstream->log[standby->count];
    standby->restarted = false;
}

/* The standby takes its newest timeline for its parent, whether it has reached it or not. */
static inline void world_promote(struct world *world, struct world_server *standby)
{
    if (world->newest == WORLD_TIMELINES)
        return;
    uint32_t timeline = ++world->newest;
    uint64_t end = world_end(world, standby, standby->count);
    char parent[WORLD_HISTORY_TEXT];
    memcpy(parent, world->texts[standby->timeline], sizeof parent);
    size_t size = strlen(parent);
    snprintf(parent + size, sizeof parent - size, "%u\t%X/%X\tno reason\n", standby->timeline, (unsigned)(end >> 32),
             (unsigned)end);
    memcpy(world->texts[timeline], parent, sizeof parent);
    int error = weir_history_parse(timeline, world->texts[timeline], strlen(world->texts[timeline]),
                                   &world->histories[timeline]);
    assert(error == 0);
    (void)error;
    standby->primary = true;
    standby->restarted = false;
    standby->flushed = standby->replayed = standby->count;
    standby->timeline = timeline;
    standby->run = ++world->clock;
    standby->hidden = (struct world_set){ { 0 } };
}

/* An old primary made a standby of another one's, from a copy. */
static inline void world_rebuild(struct world *world, struct world_server *server, const struct world_server *from)
{
    unsigned sent = from->primary ? from->flushed : from->replayed;
    *server = *from;
    server->primary = false;
    server->count = 1 + world_below(world, sent);
    server->replayed = 1 + world_below(world, server->count);
}

static inline void world_restart_standby(struct world *world, struct world_server *standby)
{
    standby->replayed = 1 + world_below(world, standby->replayed);
    standby->restarted = true;
}

static inline void world_step_primary(struct world *world, struct world_server *server)
{
    unsigned dice = world_below(world, 100);
    if (dice < 55)
        world_insert(world, server);
    else if (dice < 80)
        server->flushed += world_below(world, server->count - server->flushed + 1);
    else if (dice < 92)
        server->hidden = (struct world_set){ { 0 } };
    else if (dice < 97)
        world_crash(world, server);
    else
        world_rebuild(world, server, &world->servers[world_below(world, WORLD_SERVERS)]);
}

static inline void world_step_standby(struct world *world, struct world_server *server)
{
    unsigned dice = world_below(world, 100);
    if (dice < 45)
        world_follow(world, server, &world->servers[world_below(world, WORLD_SERVERS)]);
    else if (dice < 86)
        server->replayed += world_below(world, server->count - server->replayed + 1);
    else if (dice < 93)
        world_restart_standby(world, server);
    else
        world_promote(world, server);
}

static inline void world_step(struct world *world)
{
    struct world_server *server = &world->servers[world_below(world, WORLD_SERVERS)];
    if (server->primary)
        world_step_primary(world, server);
    else
        world_step_standby(world, server);
}

static inline void world_begin(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof *world);
    world->random.state = seed;
    world->newest = 1;
    world->histories[1].timeline = 1;
    world->records[0].end = 0x1000;
    world->records[0].timeline = 1;
    world->record_count = 1;
    for (unsigned i = 0; i < WORLD_SERVERS; i++)
        world->servers[i] = (struct world_server){
            .count = 1, .flushed = 1, .replayed = 1, .primary = i == 0, .timeline = 1, .run = ++world->clock
        };
}

/* ---- what one is told of it ---- */

/* A timeline between the one of the newest record that may be visible and the one it follows. */
static inline uint32_t world_stated(struct world *world, const struct world_server *standby)
{
    const struct weir_history *history = &world->histories[standby->timeline];
    unsigned newest = standby->replayed < standby->count ? standby->replayed : standby->replayed - 1;
    uint32_t least = world->records[standby->log[newest]].timeline;
    for (unsigned i = world_below(world, history->count + 1); i < history->count; i++)
        if (history->ancestors[i].timeline >= least)
            return history->ancestors[i].timeline;
    return standby->timeline;
}

static inline struct weir_shown world_shown(struct world *world, const struct world_server *server)
{
    struct weir_shown shown = { .system = 7, .timeline = server->timeline, .primary = server->primary };
    if (server->primary) {
        shown.position = world_end(world, server, server->count);
        shown.flushed = world_end(world, server, server->flushed);
        shown.run = server->run;
        shown.settled = set_within(&server->hidden, &(struct world_set){ { 0 } });
        return shown;
    }
    shown.position = world_end(world, server, server->replayed);
    shown.received = server->restarted ? 8 : world_end(world, server, server->count);
    shown.timeline = world_stated(world, server);
    return shown;
}

/* Somebody polls: the run of a primary, the history of its timeline. */
static inline void world_learn(struct world *world, struct weir_known *known, const struct world_server *server)
{
    if (server->primary)
        weir_known_run(known, 7, server->timeline, 0, server->run, world_end(world, server, server->flushed));
    weir_known_history(known, 7, &world->histories[server->timeline]);
}

/* Somebody reads, and asks afterwards how far the server is, which has gone on a little. */
static inline struct world_seen world_read(struct world *world, struct world_server *server)
{
    struct world_seen seen = { .saw = world_visible(server) };
    if (!server->primary && server->replayed < server->count && world_chance(world, 50))
        set_add(&seen.saw, server->log[server->replayed]);
    if (!server->primary && world_chance(world, 20))
        server->replayed += world_below(world, server->count - server->replayed + 1);
    if (server->primary && world_chance(world, 20))
        world_insert(world, server);
    struct weir_shown shown = world_shown(world, server);
    int error = weir_place_seen(&shown, &seen.place);
    assert(error == 0);
    (void)error;
    bool next = (seen.place.position & WEIR_POSITION_NEXT) != 0 && server->replayed < server->count;
    seen.implied = set_of(server, server->primary ? server->count : server->replayed + next);
    return seen;
}

/* Can the server, as it is, ever show all that? A primary what is in its log. A standby what is in any log that it may
 * still follow: one of its timeline or a descendant's, which contains what it replayed. */
static inline bool world_may_ever(const struct world *world, const struct world_server *server, uint32_t stated,
                                  const struct world_set *set)
{
    struct world_set own = set_of(server, server->primary ? server->count : server->replayed);
    if (server->primary)
        return set_within(set, &own);
    for (unsigned i = 0; i < WORLD_SERVERS; i++) {
        const struct world_server *other = &world->servers[i];
        struct world_set log = set_of(other, other->count);
        if (world_descends(world, other->timeline, stated) && set_within(&own, &log) && set_within(set, &log))
            return true;
    }
    return false;
}
