/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/redis/sentinel.h"

#include <stdlib.h>
#include <string.h>

#include "engine/redis/mark.h"

#define ASK_EVERY_NS (500 * 1000000ull)
#define ASK_LEAST_NS (50 * 1000000ull) /* between two rounds, however often something fails */

void weir_redis_sentinel_ask_soon(struct weir_redis_engine *engine, uint64_t in_ns)
{
    uint64_t now_ns = uv_hrtime();
    uint64_t at_ns = weir_max_u64(now_ns + in_ns, engine->asked_ns + ASK_LEAST_NS);
    if (engine->ask_ns == 0 || at_ns < engine->ask_ns)
        engine->ask_ns = at_ns;
}

/* The value of a field of SENTINEL MASTER's flat list; "" if there is none. */
static const char *field(const redisReply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *key = weir_redis_element(reply, i, REDIS_REPLY_STRING);
        const redisReply *value = weir_redis_element(reply, i + 1, REDIS_REPLY_STRING);
        if (key && value && weir_redis_is_text(key, name))
            return value->str;
    }
    return "";
}

static void follow(struct weir_redis_engine *engine, const char *host, uint16_t port, uint64_t epoch)
{
    struct weir_redis_server *old = engine->primary == WEIR_REDIS_NOBODY ? NULL : engine->servers[engine->primary];
    if (old && epoch < engine->epoch)
        return; /* a sentinel that has not heard */
    struct weir_redis_server *server = weir_redis_server_find(engine, host, strlen(host), port, "", false);
    if (!server)
        return;
    engine->epoch = epoch;
    engine->primary = weir_redis_server_index(server);
    if (!old || old == server)
        return;
    old->leaving = true;
    weir_redis_mark_release(old);
    if (server->state == WEIR_REDIS_READY)
        weir_redis_server_fail(server, "it became the primary"); /* greeted anew, with its mark */
}

static void on_primary(struct weir_redis_server *sentinel, const redisReply *reply, uint64_t generation)
{
    struct weir_redis_engine *engine = sentinel->engine;
    (void)generation;
    if (!reply)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        weir_redis_server_refused(sentinel, reply);
        return;
    }
    const char *host = field(reply, "ip");
    unsigned long port = strtoul(field(reply, "port"), NULL, 10);
    uint64_t epoch = strtoull(field(reply, "config-epoch"), NULL, 10);
    if (host[0] && port > 0 && port <= UINT16_MAX)
        follow(engine, host, (uint16_t)port, epoch);
    else
        weir_redis_error(engine, sentinel, "it names no primary");
}

void weir_redis_sentinel_tick(struct weir_redis_engine *engine, uint64_t now_ns)
{
    const char *argv[] = { "SENTINEL", "MASTER", engine->settings.sentinel_name };
    if (engine->ask_ns == 0 || now_ns < engine->ask_ns)
        return;
    engine->asked_ns = now_ns;
    engine->ask_ns = now_ns + weir_redis_jitter(engine, ASK_EVERY_NS);
    for (size_t i = 0; i < engine->servers_end; i++) {
        struct weir_redis_server *server = engine->servers[i];
        if (server && server->watcher && server->state == WEIR_REDIS_READY)
            weir_redis_server_ask(server, on_primary, 0, 3, argv, NULL);
    }
}
