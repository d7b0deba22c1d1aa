/* SPDX-License-Identifier: Apache-2.0
 *
 * The slot map is an array: for each slot the place of its primary in the engine's list of servers. A new map is read
 * whole before it replaces the old one; then each primary gets a mark (mark.c) in one of its slots, and servers without
 * slots leave, unless the settings name them. Called by redis.c on its tick, and by server.c, request.c, note.c and
 * mark.c when something says that the map is old. */
#include "limits/redis/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "limits/redis/mark.h"

#define ASK_EVERY_NS (30 * WEIR_NS_PER_SECOND) /* nothing seems wrong */
#define ASK_AGAIN_NS (250 * WEIR_NS_PER_MS)    /* something is */

/* ---- the map ---- */

/* "?": a node that tells clients its name, and has none. */
static bool is_host(const char *host, size_t size)
{
    return size > 0 && !(size == 1 && host[0] == '?');
}

/* [host, port, id, [what else is known of it: "ip", its address, …]]. Without any it is where we asked. */
static const char *host_of(const redisReply *node, const struct weir_redis_server *from)
{
    const redisReply *host = weir_redis_element(node, 0, REDIS_REPLY_STRING);
    const redisReply *more = weir_redis_element(node, 3, REDIS_REPLY_ARRAY);
    if (host && is_host(host->str, host->len))
        return host->str;
    const redisReply *ip = more ? weir_redis_field(more, "ip") : NULL;
    return ip && is_host(ip->str, ip->len) ? ip->str : from->seed.host;
}

/* One range: [first, last, [host, port, …], replicas …]. */
static bool read_range(struct weir_redis_server *from, const redisReply *range, uint16_t *slots)
{
    const redisReply *first = weir_redis_element(range, 0, REDIS_REPLY_INTEGER);
    const redisReply *last = weir_redis_element(range, 1, REDIS_REPLY_INTEGER);
    const redisReply *node = weir_redis_element(range, 2, REDIS_REPLY_ARRAY);
    const redisReply *port = node ? weir_redis_element(node, 1, REDIS_REPLY_INTEGER) : NULL;
    if (!first || !last || !port || first->integer < 0 || first->integer > last->integer ||
        last->integer >= WEIR_REDIS_SLOTS || port->integer <= 0 || port->integer > UINT16_MAX)
        return false;
    const char *host = host_of(node, from);
    struct weir_redis_server *server = weir_redis_server_find(from->engine, host, strlen(host), (uint16_t)port->integer,
                                                              "", false);
    uint16_t index = server ? weir_redis_server_index(server) : WEIR_REDIS_NOBODY;
    for (long long slot = first->integer; slot <= last->integer; slot++)
        slots[slot] = index;
    return true;
}

/* A slot that has gone to another server, while its own lives on with others, was moved with all that is in it: nothing
 * is lost. Both servers begin a mark anew. */
static void forget_moved_marks(struct weir_redis_engine *engine)
{
    for (size_t slot = 0; slot < WEIR_REDIS_SLOTS; slot++) {
        uint16_t index = engine->slots[slot];
        struct weir_redis_server *server = index == WEIR_REDIS_NOBODY ? NULL : engine->servers[index];
        if (server && server->mark && server->state == WEIR_REDIS_READY && engine->slots[server->mark->slot] != index) {
            server->mark->used = false;
            weir_redis_mark_release(server);
        }
    }
}

/* Of each server's slots: the one of its mark, else one whose mark waits for a server, else the least. */
static void assign_marks(struct weir_redis_engine *engine)
{
    uint16_t chosen[WEIR_REDIS_SERVERS_MAX];
    bool had[WEIR_REDIS_SERVERS_MAX] = { false };
    memset(chosen, 0xff, sizeof chosen);
    for (uint32_t slot = 0; slot < WEIR_REDIS_SLOTS; slot++) {
        uint16_t index = engine->slots[slot];
        if (index == WEIR_REDIS_NOBODY || had[index])
            continue;
        had[index] = weir_redis_mark_find(engine, (uint16_t)slot) != NULL;
        if (had[index] || chosen[index] == WEIR_REDIS_NOBODY)
            chosen[index] = (uint16_t)slot;
    }
    for (size_t i = 0; i < engine->servers_end; i++) {
        struct weir_redis_server *server = engine->servers[i];
        if (!server)
            continue;
        struct weir_redis_mark *before = server->mark;
        if (before && engine->slots[before->slot] == i)
            chosen[i] = before->slot;
        if (chosen[i] == WEIR_REDIS_NOBODY)
            weir_redis_mark_release(server);
        else
            weir_redis_mark_assign(server, chosen[i]);
        if (server->mark && server->mark != before && server->state == WEIR_REDIS_READY)
            weir_redis_mark_connected(server);
        /* A node without slots stays while it is a seed; the others go. */
        server->leaving = chosen[i] == WEIR_REDIS_NOBODY && i >= engine->settings.seeds_count;
    }
}

static void forget_marks(struct weir_redis_engine *engine)
{
    for (size_t i = 0; i < WEIR_REDIS_SERVERS_MAX; i++) {
        struct weir_redis_mark *mark = &engine->marks[i];
        bool held = false;
        for (size_t j = 0; mark->used && j < engine->servers_end; j++)
            held = held || (engine->servers[j] && engine->servers[j]->mark == mark);
        if (mark->used && !held && engine->slots[mark->slot] != WEIR_REDIS_NOBODY)
            mark->used = false;
    }
}

bool weir_redis_cluster_whole(const struct weir_redis_engine *engine)
{
    for (size_t slot = 0; engine->slots && slot < WEIR_REDIS_SLOTS; slot++) {
        uint16_t index = engine->slots[slot];
        if (index == WEIR_REDIS_NOBODY || !weir_redis_server_answers(engine->servers[index]))
            return false;
    }
    return engine->slots;
}

static void on_map(struct weir_redis_server *from, const redisReply *reply, uint64_t generation)
{
    struct weir_redis_engine *engine = from->engine;
    (void)generation;
    if (!reply)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        weir_redis_server_fail(from, weir_redis_is_error(reply, "NOPERM") ? "it does not let us read the slot map"
                                                                          : "it is no node of a cluster");
        return;
    }
    uint16_t *slots = malloc(WEIR_REDIS_SLOTS * sizeof *slots);
    if (!slots)
        return;
    memset(slots, 0xff, WEIR_REDIS_SLOTS * sizeof *slots);
    bool good = reply->type == REDIS_REPLY_ARRAY;
    for (size_t i = 0; good && i < reply->elements; i++)
        good = read_range(from, reply->element[i], slots);
    if (!good || reply->elements == 0) {
        weir_redis_error(engine, from, good ? "it knows no slots" : "no slot map");
        free(slots);
        return;
    }
    free(engine->slots);
    engine->slots = slots;
    engine->mapped = true;
    forget_moved_marks(engine);
    assign_marks(engine);
    forget_marks(engine);
    engine->ask_ns = uv_hrtime() +
                     weir_redis_jitter(engine, weir_redis_cluster_whole(engine) ? ASK_EVERY_NS : ASK_AGAIN_NS);
}

/* ---- asking for it ---- */

void weir_redis_cluster_tick(struct weir_redis_engine *engine, uint64_t now_ns)
{
    const char *argv[] = { "CLUSTER", "SLOTS" };
    if (engine->ask_ns == 0 || now_ns < engine->ask_ns)
        return;
    for (size_t i = 0; i < engine->servers_end; i++) {
        struct weir_redis_server *server = engine->servers[++engine->ask_next % engine->servers_end];
        if (!server || server->state != WEIR_REDIS_READY || server->leaving)
            continue;
        if (weir_redis_server_ask(server, on_map, 0, 2, argv, NULL)) {
            engine->asked_ns = now_ns;
            engine->ask_ns = now_ns + weir_redis_jitter(engine, ASK_AGAIN_NS);
            return;
        }
    }
}

/* ---- redirects ---- */

struct weir_redis_server *weir_redis_cluster_named(struct weir_redis_server *from, const redisReply *reply,
                                                   uint16_t *ret_slot)
{
    char *end;
    const char *text = strchr(reply->str, ' ');
    unsigned long slot = text ? strtoul(text + 1, &end, 10) : WEIR_REDIS_SLOTS;
    if (slot >= WEIR_REDIS_SLOTS || *end != ' ')
        return NULL;
    const char *host = end + 1;
    const char *colon = strrchr(host, ':'); /* an IPv6 address has no brackets here */
    unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;
    if (port == 0 || port > UINT16_MAX)
        return NULL;
    size_t size = (size_t)(colon - host);
    *ret_slot = (uint16_t)slot;
    if (!is_host(host, size)) {
        host = from->seed.host;
        size = strlen(host);
    }
    return weir_redis_server_find(from->engine, host, size, (uint16_t)port, "", false);
}

void weir_redis_cluster_moved(struct weir_redis_server *to, uint16_t slot)
{
    struct weir_redis_engine *engine = to->engine;
    if (engine->slots)
        engine->slots[slot] = weir_redis_server_index(to);
    weir_redis_ask_soon(engine);
}
