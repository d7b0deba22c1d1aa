/* SPDX-License-Identifier: Apache-2.0
 *
 * A replicated database as PostgreSQL is one: a standby shows a record before it counts it as replayed; a primary shows
 * one to others after its standbys may; a primary that crashes gives out again the positions of what it had not
 * flushed; a promotion takes the number after the highest that it knows of, and cuts off what it lacks. */
#include <string.h>

#include "sim/sessions_inside.h"

#define FIRST_POSITION 4096
#define RECORDS_SPARE 2048 /* for what clients write and promotions begin with */

/* ---- the log ---- */

static uint32_t append(struct sessions *sessions, uint32_t parent, uint32_t timeline)
{
    weir_assert(sessions->record_count < SESSIONS_RECORDS_MAX);
    uint32_t index = sessions->record_count++;
    sessions->records[index] = (struct sessions_record){
        .parent = parent,
        .timeline = timeline,
        .end = sessions->records[parent].end + 64 + 8 * sessions_below(sessions, 4),
    };
    return index;
}

bool sessions_contains(const struct sessions *sessions, uint32_t b, uint32_t a)
{
    while (sessions->records[b].end > sessions->records[a].end)
        b = sessions->records[b].parent;
    return a == b;
}

/* So many records further on the way to `to`, which contains `from`. */
static uint32_t move(const struct sessions *sessions, uint32_t from, uint32_t to, uint64_t steps)
{
    uint32_t way[64];
    unsigned count = 0;
    for (uint32_t at = to; at != from; at = sessions->records[at].parent)
        way[count++ % 64] = at;
    if (steps > count)
        steps = count;
    weir_assert(steps < 64 || steps == count);
    return steps == 0 ? from : steps == count ? to : way[(count - (unsigned)steps) % 64];
}

/* ---- servers ---- */

/* One server's clock runs a little before the others'. No two starts or runs are one. */
static uint64_t stamp(const struct sessions *sessions, uint32_t index)
{
    return sessions->now_ns / 1000 * 8 + index + 8;
}

void sessions_db_begin(struct sessions *sessions)
{
    sessions->records[0] = (struct sessions_record){ .timeline = 1, .end = FIRST_POSITION };
    sessions->record_count = 1;
    sessions->newest = 1;
    for (uint32_t i = 0; i < sessions->server_count; i++)
        sessions->servers[i] = (struct sessions_server){
            .alive = true,
            .primary = i == 0,
            .streams = i > 0,
            .upstream = i > 1 && sessions_chance(sessions, 4) ? i - 1 : 0,
            .timeline = 1,
            .started = i + 1,
            .run = 1, /* they are copies of one server */
            .history = { .timeline = 1 },
        };
}

static void advance_primary(struct sessions *sessions, struct sessions_server *server)
{
    bool room = sessions->record_count + RECORDS_SPARE < SESSIONS_RECORDS_MAX;
    if (room && sessions_chance(sessions, 6))
        server->written = append(sessions, server->written, server->timeline);
    if (server->flushed != server->written && sessions_chance(sessions, 3))
        server->flushed = move(sessions, server->flushed, server->written, 1 + sessions_below(sessions, 4));
    /* Only what is flushed is committed, and so shown; the last commits may be a while in coming. */
    if (server->shown != server->flushed && sessions_chance(sessions, 8) &&
        sessions_contains(sessions, server->flushed, server->shown))
        server->shown = move(sessions, server->shown, server->flushed, 1 + sessions_below(sessions, 4));
}

/* A standby that follows the second of two that took one number: docs/soak.md, "A known hole". */
static bool is_in_the_hole(const struct sessions *sessions, uint32_t upstream)
{
    const struct sessions_server *from = &sessions->servers[upstream];
    if (sessions->archive || from->timeline == 1 || sessions->plant == WEIR_SIM_SESSIONS_KNOWN_HOLE)
        return false;
    if (!from->primary)
        return false; /* it does not follow one in the hole itself */
    for (uint32_t i = 0; i < sessions->server_count; i++) {
        const struct sessions_server *other = &sessions->servers[i];
        if (i != upstream && other->primary && other->timeline == from->timeline && other->back_ns != UINT64_MAX)
            return true;
    }
    return !sessions_weir_all_know(sessions, upstream);
}

/* To its timeline, if that does not take back what was received. */
static bool follow(struct sessions *sessions, struct sessions_server *server)
{
    const struct sessions_server *from = &sessions->servers[server->upstream];
    if (!from->alive || from == server || from->timeline < server->timeline ||
        !sessions_contains(sessions, from->primary ? from->flushed : from->written, server->written))
        return false;
    if (from->timeline != sessions->records[server->written].timeline && is_in_the_hole(sessions, server->upstream))
        return false;
    server->timeline = from->timeline;
    server->history = from->history;
    return true;
}

static void receive(struct sessions *sessions, struct sessions_server *server)
{
    const struct sessions_server *from = &sessions->servers[server->upstream];
    uint32_t sent = from->primary ? from->flushed : from->written;
    if (server->streams && (!from->alive || from->timeline != server->timeline || (!from->primary && !from->streams)))
        server->streams = false;
    if (!server->streams && sessions_chance(sessions, 20))
        server->streams = follow(sessions, server);
    if (server->streams && !sessions_contains(sessions, sent, server->written))
        server->streams = false; /* that one lost its end */
    if (server->streams && server->written != sent && sessions_chance(sessions, 2))
        server->written = move(sessions, server->written, sent, 1 + sessions_below(sessions, 12));
}

static void advance_standby(struct sessions *sessions, struct sessions_server *server)
{
    receive(sessions, server);
    if (server->counted == server->written || !sessions_chance(sessions, server->slow ? 40 : 3))
        return;
    server->counted = server->shown; /* the one in flight has landed */
    server->counted = move(sessions, server->counted, server->written, sessions_below(sessions, server->slow ? 3 : 8));
    server->shown = move(sessions, server->counted, server->written, sessions_below(sessions, 2));
}

void sessions_db_advance(struct sessions *sessions)
{
    for (uint32_t i = 0; i < sessions->server_count; i++) {
        struct sessions_server *server = &sessions->servers[i];
        if (!server->alive && server->back_ns <= sessions->now_ns)
            server->alive = true;
        if (server->alive && server->primary)
            advance_primary(sessions, server);
        else if (server->alive)
            advance_standby(sessions, server);
    }
}

/* ---- what happens to them ---- */

/* A crash of the processes leaves the postmaster as it was. */
void sessions_db_restart(struct sessions *sessions, uint32_t index, bool crash)
{
    struct sessions_server *server = &sessions->servers[index];
    server->life++;
    server->alive = false;
    server->back_ns = sessions->now_ns + (10 + sessions_below(sessions, 300)) * SESSIONS_MS;
    if (crash)
        server->run = stamp(sessions, index);
    if (!crash || sessions_chance(sessions, 2)) {
        server->started = stamp(sessions, index);
        sessions->renamed |= index == sessions->leader && server->timeline > 1;
    }
    if (!crash)
        server->flushed = server->written;
    if (server->primary) {
        server->written = server->shown = server->flushed;
    } else {
        /* It replays again what came after its last restartpoint. */
        for (uint64_t i = sessions_below(sessions, 5); i > 0 && server->counted != 0; i--)
            server->counted = sessions->records[server->counted].parent;
        server->shown = server->counted;
        server->streams = false;
    }
}

static void note_history(struct weir_history *history, uint32_t timeline, uint32_t parent, uint64_t end)
{
    if (history->count == WEIR_ANCESTORS_MAX) {
        memmove(history->ancestors, history->ancestors + 1, (WEIR_ANCESTORS_MAX - 1) * sizeof(history->ancestors[0]));
        history->count--;
        history->cut = true;
    }
    history->timeline = timeline;
    history->ancestors[history->count++] = (struct weir_ancestor){ .timeline = parent, .end = end };
}

/* Its connections stay. */
static void promote(struct sessions *sessions, uint32_t index)
{
    struct sessions_server *server = &sessions->servers[index];
    uint32_t timeline = (sessions->archive ? sessions->newest : server->timeline) + 1;
    sessions->newest = timeline > sessions->newest ? timeline : sessions->newest;
    note_history(&server->history, timeline, server->timeline, sessions->records[server->written].end);
    server->primary = true;
    server->streams = false;
    server->timeline = timeline;
    server->written = append(sessions, server->written, timeline);
    server->flushed = server->shown = server->counted = server->written;
    sessions->leader = index;
    sessions->renamed = false;
    for (uint32_t i = 0; i < sessions->server_count; i++)
        if (i != index && (sessions->servers[i].upstream == index || !sessions_chance(sessions, 4)))
            sessions->servers[i].upstream = index;
}

/* Whoever follows another primary of that number is gone: docs/soak.md, "A known hole". */
static void clear_twins(struct sessions *sessions, uint32_t primary)
{
    for (uint32_t i = 0; i < sessions->server_count; i++) {
        struct sessions_server *server = &sessions->servers[i];
        if (i == primary || server->primary || server->timeline < sessions->servers[primary].timeline ||
            sessions->plant == WEIR_SIM_SESSIONS_KNOWN_HOLE)
            continue;
        server->alive = false;
        server->life++;
        server->back_ns = UINT64_MAX;
    }
}

/* To a standby that may lack the end; or one after the other to two, where the first is given up again. The old
 * primary is gone, or lives on and does not know. */
void sessions_db_fail_over(struct sessions *sessions)
{
    uint32_t next = (uint32_t)sessions_below(sessions, sessions->server_count), old = sessions->leader;
    struct sessions_server *server = &sessions->servers[next];
    if (!server->alive || server->primary || sessions->newest > 40)
        return;
    if (!sessions_chance(sessions, 3)) {
        sessions->servers[old].alive = false;
        sessions->servers[old].life++;
        sessions->servers[old].back_ns = UINT64_MAX;
    }
    promote(sessions, next);
    clear_twins(sessions, next);
    sessions->result->failovers++;
}

void sessions_db_copy(struct sessions *sessions, uint32_t index)
{
    struct sessions_server *server = &sessions->servers[index];
    const struct sessions_server *from = &sessions->servers[sessions->leader];
    if (index == sessions->leader || !from->alive)
        return;
    if (server->alive && !server->primary && server->streams)
        return;
    if (from->timeline != 1 && is_in_the_hole(sessions, sessions->leader)) {
        /* The one that is copied over is gone for good until it may follow. */
        server->alive = false;
        server->life++;
        server->back_ns = UINT64_MAX;
        return;
    }
    *server = (struct sessions_server){ .alive = true,
                                        .streams = true,
                                        .life = server->life + 1,
                                        .upstream = sessions->leader,
                                        .timeline = from->timeline,
                                        .started = stamp(sessions, index),
                                        .run = from->run,
                                        .written = from->flushed,
                                        .flushed = from->flushed,
                                        .shown = from->flushed,
                                        .counted = from->flushed,
                                        .history = from->history };
    sessions->result->copies++;
}

uint32_t sessions_db_write(struct sessions *sessions, uint32_t index)
{
    struct sessions_server *server = &sessions->servers[index];
    server->written = append(sessions, server->written, server->timeline);
    if (sessions_chance(sessions, 2)) /* else it does not wait for that */
        server->flushed = server->written;
    server->shown = server->written;
    return server->written;
}

/* ---- what they say ---- */

/* Of the record that is in flight nobody is told but that there may be one. */
static uint64_t received_by(const struct sessions *sessions, const struct sessions_server *server)
{
    bool rests = server->shown == server->counted && server->written == server->counted;
    if (rests)
        return sessions->records[server->counted].end;
    return server->streams ? sessions->records[server->written].end : 0;
}

struct weir_shown sessions_db_shown(const struct sessions *sessions, uint32_t index, bool by_poller)
{
    const struct sessions_server *server = &sessions->servers[index];
    const struct sessions_record *records = sessions->records;
    struct weir_shown shown = {
        .system = SESSIONS_SYSTEM,
        .started = server->started,
        .primary = server->primary,
        .streams = server->streams,
        .timeline = server->timeline,
    };
    if (server->primary) {
        shown.position = records[server->written].end;
        shown.flushed = records[server->flushed].end;
        shown.run = server->run;
        shown.settled = server->shown == server->written;
    } else {
        shown.position = records[server->counted].end;
        shown.received = received_by(sessions, server);
        if (!server->streams)
            shown.timeline = by_poller ? records[server->shown].timeline : 0;
    }
    if (sessions->plant == WEIR_SIM_SESSIONS_NO_TIMELINE)
        shown.timeline = 1;
    if (sessions->plant == WEIR_SIM_SESSIONS_NO_BRANCH)
        shown.started = 1;
    if (sessions->plant == WEIR_SIM_SESSIONS_NO_SETTLING)
        shown.settled = shown.primary;
    return shown;
}

struct weir_history sessions_db_history(const struct sessions_server *server, uint32_t timeline)
{
    struct weir_history history = server->history;
    while (history.count > 0 && history.ancestors[history.count - 1].timeline >= timeline)
        history.count--;
    history.timeline = timeline;
    return history;
}
