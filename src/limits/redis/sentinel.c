/* SPDX-License-Identifier: Apache-2.0
 *
 * What each sentinel said last stays with its server and counts for two seconds. The tick applies the rules of
 * sentinel.h to all of it; when a round is due, it asks each sentinel for the epoch and then for the address. The new
 * primary is greeted and takes over the mark; the old one leaves. Called by redis.c (the tick) and by server.c, which
 * wants a round at once when a sentinel is ready or a server breaks. */
#include "limits/redis/sentinel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "limits/redis/mark.h"

#define ASK_EVERY_NS (500 * WEIR_NS_PER_MS)
#define FIRST_NS (300 * WEIR_NS_PER_MS)
#define FRESH_NS (2 * WEIR_NS_PER_SECOND)
#define UNBACKED_NS (5 * WEIR_NS_PER_SECOND) /* a sentinel tells the others every 2 s */

/* ---- what they say together ---- */

static bool names(const struct weir_redis_said *said, const char *host, uint16_t port)
{
    return said->port == port && strcmp(said->host, host) == 0;
}

static bool is_fresh(const struct weir_redis_server *server, uint64_t now_ns)
{
    return server && server->said.at_ns && now_ns - server->said.at_ns < FRESH_NS;
}

/* How many of the sentinels name the same address now. */
static size_t count_agreeing(const struct weir_redis_engine *engine, const struct weir_redis_said *said,
                             uint64_t now_ns)
{
    size_t count = 0;
    for (size_t i = 0; i < engine->servers_end; i++) {
        const struct weir_redis_server *server = engine->servers[i];
        count += is_fresh(server, now_ns) && names(&server->said, said->host, said->port);
    }
    return count;
}

/* The latest failover that one of them tells of, or, with `agreed`, most of them; NULL: none. */
static const struct weir_redis_said *latest(const struct weir_redis_engine *engine, bool agreed, uint64_t now_ns)
{
    const struct weir_redis_said *best = NULL;
    for (size_t i = 0; i < engine->servers_end; i++) {
        const struct weir_redis_server *server = engine->servers[i];
        if (!is_fresh(server, now_ns) || (best && server->said.epoch <= best->epoch))
            continue;
        if (!agreed || count_agreeing(engine, &server->said, now_ns) > engine->settings.seeds_count / 2)
            best = &server->said;
    }
    return best;
}

/* Each has spoken, or cannot be asked. */
static bool all_spoke(const struct weir_redis_engine *engine)
{
    for (size_t i = 0; i < engine->servers_end; i++) {
        const struct weir_redis_server *server = engine->servers[i];
        if (server && server->watcher && server->said.at_ns == 0 && server->state != WEIR_REDIS_WAITING)
            return false;
    }
    return true;
}

static void follow(struct weir_redis_engine *engine, const struct weir_redis_said *said)
{
    struct weir_redis_server *old = engine->primary == WEIR_REDIS_NOBODY ? NULL : engine->servers[engine->primary];
    struct weir_redis_server *server = weir_redis_server_find(engine, said->host, strlen(said->host), said->port, "",
                                                              false);
    if (!server)
        return;
    engine->epoch = said->epoch;
    engine->backed_ns = said->at_ns;
    engine->primary = weir_redis_server_index(server);
    if (!old || old == server)
        return;
    engine->stats.primary_changes++;
    old->leaving = true;
    if (old->mark && old->flight.under_way > 0)
        old->mark->tail = true; /* what it still answers, the new one has not heard */
    weir_redis_mark_release(old);
    if (server->state == WEIR_REDIS_READY)
        weir_redis_server_fail(server, "it became the primary"); /* greeted anew, with its mark */
}

/* Whom to follow now: see the rules in sentinel.h. NULL: the one that is followed already. */
static const struct weir_redis_said *leads_to(struct weir_redis_engine *engine, uint64_t now_ns)
{
    const struct weir_redis_said *best = latest(engine, false, now_ns);
    if (!best)
        return NULL;
    if (engine->primary == WEIR_REDIS_NOBODY) {
        engine->backed_ns = engine->backed_ns ? engine->backed_ns : now_ns;
        return all_spoke(engine) || now_ns - engine->backed_ns >= FIRST_NS ? best : NULL;
    }
    if (best->epoch > engine->epoch)
        return best;
    return now_ns - engine->backed_ns >= UNBACKED_NS ? latest(engine, true, now_ns) : NULL;
}

static void decide(struct weir_redis_engine *engine, uint64_t now_ns)
{
    const struct weir_redis_said *said = leads_to(engine, now_ns);
    if (said)
        follow(engine, said);
}

/* ---- what one of them says ---- */

static void on_epoch(struct weir_redis_server *sentinel, const redisReply *reply, uint64_t context)
{
    (void)context;
    if (!reply)
        return;
    if (reply->type == REDIS_REPLY_ERROR)
        weir_redis_server_refused(sentinel, reply);
    const redisReply *epoch = weir_redis_field(reply, "config-epoch");
    sentinel->said.next_epoch = epoch ? strtoull(epoch->str, NULL, 10) : 0;
}

static void on_address(struct weir_redis_server *sentinel, const redisReply *reply, uint64_t context)
{
    struct weir_redis_engine *engine = sentinel->engine;
    struct weir_redis_said *said = &sentinel->said;
    (void)context;
    if (!reply)
        return;
    const redisReply *host = weir_redis_element(reply, 0, REDIS_REPLY_STRING);
    const redisReply *port_text = weir_redis_element(reply, 1, REDIS_REPLY_STRING);
    unsigned long port = port_text ? strtoul(port_text->str, NULL, 10) : 0;
    if (reply->type == REDIS_REPLY_ERROR) {
        weir_redis_server_refused(sentinel, reply);
    } else if (host && host->len > 0 && host->len < sizeof said->host && port > 0 && port <= UINT16_MAX) {
        snprintf(said->host, sizeof said->host, "%s", host->str);
        said->port = (uint16_t)port;
        said->epoch = said->next_epoch;
        said->at_ns = uv_hrtime();
        const struct weir_redis_server *primary = engine->primary == WEIR_REDIS_NOBODY
                                                      ? NULL
                                                      : engine->servers[engine->primary];
        if (primary && said->epoch == engine->epoch && names(said, primary->seed.host, primary->seed.port))
            engine->backed_ns = said->at_ns;
    }
}

static void ask(struct weir_redis_server *sentinel)
{
    const char *name = sentinel->engine->settings.sentinel_name;
    const char *epoch[] = { "SENTINEL", "MASTER", name };
    const char *address[] = { "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name };
    if (weir_redis_server_ask(sentinel, on_epoch, 0, 3, epoch, NULL))
        weir_redis_server_ask(sentinel, on_address, 0, 3, address, NULL);
}

void weir_redis_sentinel_tick(struct weir_redis_engine *engine, uint64_t now_ns)
{
    decide(engine, now_ns);
    if (engine->ask_ns == 0 || now_ns < engine->ask_ns)
        return;
    engine->asked_ns = now_ns;
    engine->ask_ns = now_ns + weir_redis_jitter(engine, ASK_EVERY_NS);
    for (size_t i = 0; i < engine->servers_end; i++) {
        struct weir_redis_server *server = engine->servers[i];
        if (server && server->watcher && server->state == WEIR_REDIS_READY)
            ask(server);
    }
}
