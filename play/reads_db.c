/* SPDX-License-Identifier: Apache-2.0
 *
 * A log of records, one a commit; each server has it up to a place. A failover drops what the promoted server lacks and
 * begins a new timeline. Each server is asked every poll, and core/session/health says what that makes known. Called by
 * reads.c. */
#include "play/reads_db.h"

#include <string.h>

#include "base/checked.h"

#define RECORDS_MAX 65536
#define RECORD_BYTES 64
#define FIRST_POSITION 4096
#define SYSTEM 77
#define PAGE 8192
#define FREEZE_NS (1000 * PLAY_MS)
#define AGAIN_MS 1500 /* a copy of the new primary is made so fast */

struct record {
    uint64_t committed_ms, stamp_ns;
    uint32_t row, version;
};

struct server {
    bool primary;
    uint64_t dead_until_ms; /* UINT64_MAX: for good */
    uint64_t stalled_until_ms, away_until_ms;
    uint32_t count; /* records that it has */
    uint32_t timeline;
    uint64_t started, lag_ms, polled_ms;
    uint32_t versions[PLAY_ROWS];
};

static struct {
    const struct play_reads_plan *plan;
    uint64_t now_ms, clock_back_ns, started;
    uint64_t died_ms; /* the primary, and nobody was promoted yet; 0: it lives */
    uint32_t records_count, servers_count, timeline, fork_count;
    struct record records[RECORDS_MAX];
    struct server servers[PLAY_SERVERS_MAX];
    struct weir_history history;
    struct weir_health health;
    struct weir_health_server known[PLAY_SERVERS_MAX];
    struct weir_health_reply reply;
} db;

static uint64_t position_of(uint32_t count)
{
    /* A new timeline begins with a record of its own. */
    return FIRST_POSITION + RECORD_BYTES * ((uint64_t)count + (db.timeline > 1 && count >= db.fork_count ? 1 : 0));
}

static uint32_t primary(void)
{
    for (uint32_t i = 0; i < db.servers_count; i++) {
        if (db.servers[i].primary)
            return i;
    }
    return UINT32_MAX;
}

void play_db_begin(const struct play_reads_plan *plan)
{
    memset(&db, 0, sizeof db);
    db.plan = plan;
    db.timeline = 1;
    db.started = 100;
    db.history.timeline = 1;
    db.health.freeze_ns = FREEZE_NS;
    db.servers_count = 1 + (uint32_t)plan->settings[PLAY_READS_REPLICAS];
    for (uint32_t i = 0; i < db.servers_count; i++) {
        db.servers[i] = (struct server){ .primary = i == 0, .timeline = 1, .started = db.started++ };
        if (i > 0)
            db.servers[i].lag_ms = (uint64_t)plan->settings[PLAY_READS_LAG_MS + i - 1];
        db.servers[i].polled_ms = i; /* not all in one moment */
        db.known[i].id = 1000 + i;
        weir_health_add(&db.health, &db.known[i]);
    }
}

/* ---- servers ---- */

static void apply(struct server *server, uint32_t count)
{
    for (; server->count < count; server->count++)
        server->versions[db.records[server->count].row] = db.records[server->count].version;
}

/* What a standby had not received when the primary died it will not receive. */
static void follow(struct server *server)
{
    uint32_t count = server->count;
    uint64_t until_ms = db.died_ms > 0 ? db.died_ms : db.now_ms;
    while (count < db.records_count && db.records[count].committed_ms + server->lag_ms <= until_ms)
        count++;
    apply(server, count);
    server->timeline = db.timeline;
}

/* From its last restartpoint: it replays anew what came after. */
static void restart(struct server *server, uint64_t until_ms)
{
    uint32_t count = server->count;
    uint64_t back_ms = until_ms - db.now_ms;
    while (count > 0 && db.records[count - 1].committed_ms + server->lag_ms + back_ms > db.now_ms)
        count--;
    server->count = 0;
    memset(server->versions, 0, sizeof server->versions);
    apply(server, count);
    server->stalled_until_ms = until_ms;
    server->started = db.started++;
}

/* Made anew of what the primary has. */
static void copy_primary(struct server *server)
{
    const struct server *from = &db.servers[primary()];
    server->count = from->count;
    memcpy(server->versions, from->versions, sizeof server->versions);
    server->timeline = db.timeline;
    server->started = db.started++;
    server->dead_until_ms = 0;
}

static void promote(uint32_t index)
{
    struct server *server = &db.servers[index];
    db.history = (struct weir_history){ .timeline = db.timeline + 1, .count = db.history.count };
    /* Failovers of one run: few, and each a child of the last. */
    weir_assert(db.history.count < WEIR_ANCESTORS_MAX);
    db.history.ancestors[db.history.count++] = (struct weir_ancestor){ .timeline = db.timeline,
                                                                       .end = position_of(server->count) };
    for (uint32_t i = 0; i < db.servers_count; i++) {
        struct server *other = &db.servers[i];
        if (other->primary || other->count > server->count) {
            other->dead_until_ms = db.now_ms + AGAIN_MS;
            other->lag_ms = weir_max_u64(other->lag_ms, server->lag_ms);
        }
        other->primary = false;
    }
    db.timeline++;
    db.died_ms = 0;
    db.fork_count = server->count;
    db.records_count = server->count;
    server->primary = true;
    server->timeline = db.timeline;
    server->dead_until_ms = 0;
}

static bool faults_begin(void)
{
    bool promoted = false;
    for (uint32_t i = 0; i < db.plan->faults_count; i++) {
        uint64_t from_ms = db.plan->faults[i].from_ms, until_ms = db.plan->faults[i].until_ms;
        struct server *server = &db.servers[db.plan->faults[i].server];
        enum play_reads_fault kind = db.plan->faults[i].kind;
        if (kind == PLAY_READS_FAIL && from_ms == db.now_ms && db.timeline == 1 && db.died_ms == 0) {
            db.servers[primary()].dead_until_ms = UINT64_MAX;
            db.died_ms = from_ms;
        }
        if (kind == PLAY_READS_FAIL && until_ms == db.now_ms && db.timeline == 1 && !server->primary) {
            promote(db.plan->faults[i].server);
            promoted = true;
        }
        if (from_ms != db.now_ms)
            continue;
        if (kind == PLAY_READS_STALL)
            server->stalled_until_ms = until_ms;
        else if (kind == PLAY_READS_RESTART && !server->primary && server->dead_until_ms == 0)
            restart(server, until_ms);
        else if (kind == PLAY_READS_AWAY)
            server->away_until_ms = until_ms;
        else if (kind == PLAY_READS_CLOCK)
            db.clock_back_ns += (until_ms - from_ms) * PLAY_MS;
    }
    return promoted;
}

static void poll(uint32_t index);

bool play_db_advance(uint64_t now_ms)
{
    db.now_ms = now_ms;
    bool promoted = faults_begin();
    for (uint32_t i = 0; i < db.servers_count; i++) {
        struct server *server = &db.servers[i];
        if (server->dead_until_ms > 0 && server->dead_until_ms <= now_ms)
            copy_primary(server);
        if (!server->primary && server->dead_until_ms == 0 && server->stalled_until_ms <= now_ms)
            follow(server);
        if (server->polled_ms <= now_ms)
            poll(i);
    }
    return promoted;
}

uint32_t play_db_survived(uint32_t row)
{
    return db.servers[primary()].versions[row];
}

uint32_t play_db_servers(void)
{
    return db.servers_count;
}

bool play_db_is_reachable(uint32_t server)
{
    return db.servers[server].dead_until_ms == 0 && db.servers[server].away_until_ms <= db.now_ms;
}

bool play_db_is_primary(uint32_t server)
{
    return db.servers[server].primary;
}

uint32_t play_db_version(uint32_t server, uint32_t row)
{
    return db.servers[server].versions[row];
}

uint32_t play_db_write(uint32_t server, uint32_t row)
{
    if (db.records_count == RECORDS_MAX)
        return 0;
    struct record *record = &db.records[db.records_count++];
    *record = (struct record){ db.now_ms, play_db_wall_ns(), row, db.servers[server].versions[row] + 1 };
    apply(&db.servers[server], db.records_count);
    return record->version;
}

uint64_t play_db_wall_ns(void)
{
    return PLAY_WALL_NS + db.now_ms * PLAY_MS - db.clock_back_ns;
}

uint64_t play_db_stamp_ns(uint32_t server)
{
    uint32_t count = db.servers[server].count;
    return count > 0 ? db.records[count - 1].stamp_ns : 0;
}

double play_db_lag_ms(uint32_t server)
{
    const struct server *self = &db.servers[server];
    if (!play_db_is_reachable(server))
        return -1;
    return self->count < db.records_count ? (double)(db.now_ms - db.records[self->count].committed_ms) : 0;
}

/* ---- what weir knows ---- */

static struct weir_shown shown_of(uint32_t index)
{
    const struct server *server = &db.servers[index];
    struct weir_shown shown = { .system = SYSTEM,
                                .position = position_of(server->count),
                                .timeline = server->timeline };
    shown.started = server->started;
    shown.primary = server->primary;
    if (server->primary) {
        shown.flushed = shown.position;
        shown.run = 1;
        shown.settled = true;
    } else {
        /* A standby behind the fork has not reached the new timeline's first record. */
        shown.received = shown.position;
        shown.streams = server->stalled_until_ms <= db.now_ms;
    }
    return shown;
}

static void poll(uint32_t index)
{
    struct server *server = &db.servers[index];
    struct weir_health_server *known = &db.known[index];
    server->polled_ms = db.now_ms + (uint64_t)db.plan->settings[PLAY_READS_POLL_MS];
    if (!play_db_is_reachable(index)) {
        weir_health_miss(known);
        return;
    }
    db.reply = (struct weir_health_reply){
        .shown = shown_of(index),
        .begun_ns = (db.now_ms + 1) * PLAY_MS,
        .page_size = PAGE,
        .replayed_ns = server->primary ? play_db_wall_ns() : play_db_stamp_ns(index),
        .settled_ns = server->primary ? (db.now_ms + 1) * PLAY_MS : 0,
    };
    uint32_t branch = weir_health_branch(known, &db.reply.shown);
    db.reply.with_history = branch != 0 && !weir_known_find(&db.health.known, db.reply.shown.timeline, branch);
    if (db.reply.with_history)
        db.reply.history = db.history;
    weir_health_hear(&db.health, known, &db.reply);
}

void play_db_ask(uint32_t server)
{
    db.servers[server].polled_ms = weir_min_u64(db.servers[server].polled_ms, db.now_ms + 1);
}

bool play_db_shown(uint32_t index, struct weir_shown *ret_shown)
{
    const struct weir_shown *polled = &db.known[index].last.shown;
    *ret_shown = shown_of(index);
    if (ret_shown->timeline == 1)
        return true;
    if (polled->started == ret_shown->started && polled->timeline == ret_shown->timeline)
        ret_shown->branch = polled->branch;
    return ret_shown->branch != 0;
}

const struct weir_known *play_db_known(void)
{
    return &db.health.known;
}

void play_db_look(struct weir_route_server ret_servers[PLAY_SERVERS_MAX])
{
    for (uint32_t i = 0; i < db.servers_count; i++)
        weir_health_show(&db.health, &db.known[i], &ret_servers[i]);
}
