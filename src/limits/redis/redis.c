/* SPDX-License-Identifier: Apache-2.0
 *
 * The start, the end, the turns and the ticks of the engine. Before the loop waits, on_turn tells the requests that are
 * finished and sends what was asked for in this turn. A timer of 25 ms drives what goes by time: the servers, the slot
 * map or the sentinels, and the give-backs. Randomness, jitter and the last error, which the other parts share, are
 * here too; engine.h lists those parts. Called by src/serve/sharer.c, which makes one engine per loop. */
#include "limits/redis/redis.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "limits/redis/cluster.h"
#include "limits/redis/inspect.h"
#include "limits/redis/note.h"
#include "limits/redis/request.h"
#include "limits/redis/roll_back.h"
#include "limits/redis/sentinel.h"
#include "net/redis_tls.h"

#define TICK_MS 25
#define CLUSTER_LEAST_NS (100 * WEIR_NS_PER_MS) /* between two looks at the slot map, */
#define SENTINEL_LEAST_NS (50 * WEIR_NS_PER_MS) /* or two rounds, however often something fails */

uint64_t weir_redis_random(struct weir_redis_engine *engine)
{
    /* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014 */
    uint64_t z = engine->random += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

uint64_t weir_redis_jitter(struct weir_redis_engine *engine, uint64_t ns)
{
    return ns / 2 + weir_redis_random(engine) % (ns / 2 + 1);
}

void weir_redis_error(struct weir_redis_engine *engine, const struct weir_redis_server *server, const char *format, ...)
{
    struct weir_remote_stats *stats = &engine->stats;
    int used = snprintf(stats->last_error, sizeof stats->last_error, "%s: ", server->name);
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof stats->last_error - (size_t)used;
    int size = vsnprintf(stats->last_error + used, room, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= room)
        memcpy(stats->last_error + sizeof stats->last_error - sizeof "...", "...", sizeof "...");
    stats->last_error_ns = uv_hrtime();
}

void weir_redis_ask_soon(struct weir_redis_engine *engine)
{
    bool cluster = engine->settings.topology == WEIR_REDIS_CLUSTER;
    uint64_t least_ns = cluster ? weir_redis_jitter(engine, 2 * CLUSTER_LEAST_NS) : SENTINEL_LEAST_NS;
    uint64_t at_ns = weir_max_u64(uv_hrtime(), engine->asked_ns + least_ns);
    if (engine->ask_ns == 0 || at_ns < engine->ask_ns)
        engine->ask_ns = at_ns;
}

/* ---- a turn, a tick ---- */

/* Wakes the loop, whose turn then ends with on_turn. */
static void on_soon(uv_timer_t *soon)
{
    (void)soon;
}

/* Before the loop waits: what was finished in this turn is told, what was asked for goes out. */
static void on_turn(uv_prepare_t *turn)
{
    struct weir_redis_engine *engine = turn->data;
    weir_redis_tell_finished(engine);
    for (size_t i = 0; i < engine->servers_end; i++) {
        if (engine->servers[i])
            weir_redis_server_flush(engine->servers[i]);
    }
    /* What flushing or telling finished must not wait for the next event. */
    if (engine->finished && !engine->closing)
        uv_timer_start(&engine->soon, on_soon, 0, 0);
}

static void on_tick(uv_timer_t *tick)
{
    struct weir_redis_engine *engine = tick->data;
    uint64_t now_ns = uv_hrtime();
    for (size_t i = 0; i < engine->servers_end; i++) {
        if (engine->servers[i])
            weir_redis_server_tick(engine->servers[i], now_ns);
    }
    if (engine->settings.topology == WEIR_REDIS_CLUSTER)
        weir_redis_cluster_tick(engine, now_ns);
    else if (engine->settings.topology == WEIR_REDIS_SENTINEL)
        weir_redis_sentinel_tick(engine, now_ns);
    weir_redis_roll_back_tick(engine, now_ns);
}

/* ---- what operators see ---- */

static void get_stats(struct weir_remote *remote, struct weir_remote_stats *ret_stats)
{
    *ret_stats = ((struct weir_redis_engine *)remote)->stats;
}

static void describe(const struct weir_redis_server *server, struct weir_remote_server *ret_server)
{
    static const char *const roles[] = { "", "primary", "replica", "sentinel" };
    const char *state = server->state == WEIR_REDIS_READY     ? "connected"
                        : server->state == WEIR_REDIS_WAITING ? "down"
                                                              : "connecting";
    *ret_server = (struct weir_remote_server){ .breaker = server->breaker.state,
                                               .breaker_since_ns = server->breaker.since_ns };
    snprintf(ret_server->address, sizeof ret_server->address, "%s", server->name);
    snprintf(ret_server->role, sizeof ret_server->role, "%s", roles[server->role]);
    snprintf(ret_server->state, sizeof ret_server->state, "%s", state);
    memcpy(ret_server->warning, server->warning, sizeof ret_server->warning);
    ret_server->denied = !weir_redis_may_decide(server);
}

static size_t get_servers(struct weir_remote *remote, struct weir_remote_server *ret_servers, size_t room)
{
    struct weir_redis_engine *engine = (struct weir_redis_engine *)remote;
    size_t count = 0;
    for (size_t i = 0; i < engine->servers_end && count < room; i++) {
        if (engine->servers[i] && !engine->servers[i]->leaving)
            describe(engine->servers[i], &ret_servers[count++]);
    }
    return count;
}

/* In a cluster: for all slots. */
static bool is_ready(struct weir_remote *remote)
{
    struct weir_redis_engine *engine = (struct weir_redis_engine *)remote;
    if (engine->settings.topology == WEIR_REDIS_CLUSTER)
        return weir_redis_cluster_whole(engine);
    return engine->primary != WEIR_REDIS_NOBODY && weir_redis_server_answers(engine->servers[engine->primary]);
}

/* ---- the end ---- */

static void free_engine(struct weir_redis_engine *engine)
{
    SSL_CTX_free(engine->tls);
    free(engine->script);
    free(engine->slots);
    explicit_bzero(&engine->settings, sizeof engine->settings);
    free(engine);
}

static void on_closed(uv_handle_t *handle)
{
    struct weir_redis_engine *engine = handle->data;
    if (--engine->handles == 0)
        free_engine(engine);
}

static void close_engine(struct weir_remote *remote)
{
    struct weir_redis_engine *engine = (struct weir_redis_engine *)remote;
    if (engine->closing)
        return;
    engine->closing = true;
    weir_redis_requests_end(engine);
    for (size_t i = 0; i < WEIR_REDIS_SERVERS_MAX; i++) {
        if (engine->servers[i])
            weir_redis_server_destroy(engine->servers[i]);
    }
    weir_redis_roll_back_end(engine);
    weir_redis_tell_finished(engine);
    uv_close((uv_handle_t *)&engine->turn, on_closed);
    uv_close((uv_handle_t *)&engine->tick, on_closed);
    uv_close((uv_handle_t *)&engine->soon, on_closed);
    uv_close((uv_handle_t *)&engine->deadline, on_closed);
}

/* ---- the start ---- */

/* The script with the test clock is the script with one line changed. */
static char *script_for_tests(void)
{
    static const char off[] = "local TEST = false", on[] = "local TEST = true ";
    char *text = malloc(weir_script_text_size + 1);
    if (!text)
        return NULL;
    memcpy(text, weir_script_text, weir_script_text_size);
    text[weir_script_text_size] = '\0';
    char *line = strstr(text, off);
    if (line)
        memcpy(line, on, sizeof on - 1);
    return text;
}

static int start(struct weir_redis_engine *engine)
{
    const struct weir_redis_settings *settings = &engine->settings;
    bool watchers = settings->topology == WEIR_REDIS_SENTINEL;
    for (size_t i = 0; i < settings->seeds_count; i++) {
        const struct weir_redis_seed *seed = &settings->seeds[i];
        if (!weir_redis_server_find(engine, seed->host, strlen(seed->host), seed->port, seed->path, watchers))
            return WEIR_ENOMEM;
    }
    if (settings->topology == WEIR_REDIS_SINGLE)
        engine->primary = 0;
    return 0;
}

static void init_handles(struct weir_redis_engine *engine, uv_loop_t *loop)
{
    engine->loop = loop;
    uv_prepare_init(loop, &engine->turn);
    uv_timer_init(loop, &engine->tick);
    uv_timer_init(loop, &engine->soon);
    uv_timer_init(loop, &engine->deadline);
    engine->turn.data = engine->tick.data = engine->soon.data = engine->deadline.data = engine;
    engine->handles = 4;
    uv_prepare_start(&engine->turn, on_turn);
    uv_timer_start(&engine->tick, on_tick, TICK_MS, TICK_MS);
}

int weir_redis_create(uv_loop_t *loop, const struct weir_redis_options *options, struct weir_remote **ret_remote,
                      struct weir_fault *ret_fault)
{
    static const struct weir_remote_ops ops = { "redis",     weir_redis_submit, weir_redis_note, get_stats,
                                                get_servers, is_ready,          close_engine };
    struct weir_redis_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return WEIR_ENOMEM;
    int error = weir_redis_settings_init(&engine->settings, options, ret_fault);
    if (!error && options->tls)
        error = weir_redis_tls_create(options->tls_ca_file, &engine->tls, ret_fault);
    if (!error && options->test_clock && !(engine->script = script_for_tests()))
        error = WEIR_ENOMEM;
    if (error) {
        free_engine(engine);
        return error;
    }
    engine->remote.ops = &ops;
    engine->random = options->seed;
    engine->client = weir_redis_random(engine);
    engine->primary = WEIR_REDIS_NOBODY;
    if (!engine->script)
        memcpy(engine->sha1, weir_script_sha1, sizeof engine->sha1);
    init_handles(engine, loop);
    error = start(engine);
    if (error) {
        close_engine(&engine->remote);
        return error;
    }
    *ret_remote = &engine->remote;
    return 0;
}
