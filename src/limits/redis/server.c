/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of one server: it waits, connects, greets, is ready. The engine's own commands are calls that keep a copy of
 * their bytes; most of them go before the requests. Failures go to the server's breaker (core/breaker/breaker.c); the
 * in-flight window holds requests back in the queue of net/redis_conn.c. Called by redis.c on each turn and tick, by
 * request.c for each group, by mark.c and inspect.c to ask, and by cluster.c and sentinel.c, which find servers. */
#include "limits/redis/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/units.h"
#include "limits/redis/inspect.h"
#include "limits/redis/mark.h"

#define WAIT_MIN_NS (50 * WEIR_NS_PER_MS)
#define WAIT_MAX_NS (2 * WEIR_NS_PER_SECOND)
#define BREATH_NS WEIR_NS_PER_SECOND
#define PROBE_WITHIN_NS (100 * WEIR_NS_PER_MS)

/* ---- commands of our own ---- */

struct control {
    struct weir_redis_call call; /* first */
    struct weir_redis_server *server;
    weir_redis_then then; /* NULL: nobody cares */
    uint64_t context;     /* of `then` */
    struct weir_redis_output bytes;
};

static bool control_write(struct weir_redis_call *call, struct weir_redis_output *output)
{
    struct control *control = (struct control *)call;
    return weir_redis_output_bytes(output, control->bytes.data, control->bytes.end);
}

static void control_answered(struct weir_redis_call *call, const redisReply *reply, bool sent)
{
    struct control *control = (struct control *)call;
    (void)sent;
    if (control->then)
        control->then(control->server, reply, control->context);
    /* It may hold a password. */
    explicit_bzero(control->bytes.data, control->bytes.end);
    free(control->bytes.data);
    free(control);
}

static struct control *make_control(struct weir_redis_server *server, weir_redis_then then, uint64_t context, int argc,
                                    const char *const *argv, const size_t *sizes)
{
    struct control *control = calloc(1, sizeof *control);
    if (!control)
        return NULL;
    control->call.write = control_write;
    control->call.answered = control_answered;
    control->call.patience_ns = uv_hrtime() + WEIR_REDIS_PATIENCE_NS;
    control->server = server;
    control->then = then;
    control->context = context;
    if (sizes ? !weir_redis_output_command(&control->bytes, argc, argv, sizes)
              : !weir_redis_output_words(&control->bytes, argc, argv)) {
        free(control);
        return NULL;
    }
    return control;
}

bool weir_redis_server_ask(struct weir_redis_server *server, weir_redis_then then, uint64_t context, int argc,
                           const char *const *argv, const size_t *sizes)
{
    struct control *control = make_control(server, then, context, argc, argv, sizes);
    if (control)
        weir_redis_conn_urgent(&server->conn, &control->call);
    return control;
}

bool weir_redis_server_ask_last(struct weir_redis_server *server, int argc, const char *const *argv)
{
    struct control *control = make_control(server, NULL, 0, argc, argv, NULL);
    if (control)
        weir_redis_conn_wait(&server->conn, &control->call);
    return control;
}

bool weir_redis_server_ask_now(struct weir_redis_server *server, weir_redis_then then, uint64_t context, int argc,
                               const char *const *argv)
{
    struct control *control = make_control(server, then, context, argc, argv, NULL);
    if (control)
        weir_redis_conn_write(&server->conn, &control->call);
    return control;
}

/* ---- breaker ---- */

bool weir_redis_server_answers(const struct weir_redis_server *server)
{
    return server->state == WEIR_REDIS_READY && server->breaker.state != WEIR_BREAKER_OPEN;
}

bool weir_redis_server_allows(struct weir_redis_server *server, uint64_t left_ns, uint64_t *ret_generation)
{
    struct weir_redis_engine *engine = server->engine;
    if (server->state == WEIR_REDIS_WAITING || (server->state != WEIR_REDIS_READY && server->tried))
        return false;
    if (weir_breaker_allow(&server->breaker, &engine->settings.breaker, uv_hrtime(), weir_redis_random(engine),
                           ret_generation))
        return true;
    if (server->silence_ns == 0 || left_ns <= server->silence_ns)
        return false;
    *ret_generation = server->breaker.generation - 1; /* what becomes of it is not the breaker's */
    return true;
}

void weir_redis_server_told(struct weir_redis_server *server, uint64_t generation, bool success)
{
    struct weir_redis_engine *engine = server->engine;
    if (!success)
        server->silence_ns = 0;
    weir_breaker_told(&server->breaker, &engine->settings.breaker, uv_hrtime(), weir_redis_random(engine), generation,
                      success);
}

void weir_redis_server_unsent(struct weir_redis_server *server, uint64_t generation)
{
    weir_breaker_unsent(&server->breaker, generation);
}

void weir_redis_server_missed(struct weir_redis_server *server, uint64_t generation)
{
    uint64_t now_ns = uv_hrtime();
    bool same = now_ns - server->missed_ns < server->flight.budget_ns;
    if (generation != server->breaker.generation || (same && server->breaker.state == WEIR_BREAKER_CLOSED))
        return;
    server->missed_ns = now_ns;
    weir_redis_server_told(server, generation, false);
    if (server->breaker.state == WEIR_BREAKER_OPEN)
        server->silence_ns = weir_min_u64(server->engine->settings.breaker.failures_max * server->flight.budget_ns,
                                          WEIR_REDIS_PATIENCE_NS);
}

/* ---- the greeting ---- */

static void ready(struct weir_redis_server *server)
{
    struct weir_redis_engine *engine = server->engine;
    server->state = WEIR_REDIS_READY;
    server->tried = false;
    server->wait_ns = 0;
    server->breath_ns = uv_hrtime();
    /* It answers, so its breaker's probes need not wait any longer; each node's at a time of its own. */
    server->breaker.until_ns = weir_min_u64(server->breaker.until_ns,
                                            server->breath_ns + weir_redis_jitter(engine, PROBE_WITHIN_NS));
    engine->stats.reconnects += server->was_ready;
    server->was_ready = true;
    weir_redis_conn_admit(&server->conn);
    bool cluster = engine->settings.topology == WEIR_REDIS_CLUSTER;
    if (server->watcher || (cluster && !engine->mapped))
        weir_redis_ask_soon(engine);
    if (!server->watcher && !cluster && !server->leaving)
        weir_redis_mark_assign(server, 0);
    if (server->mark)
        weir_redis_mark_connected(server);
    if (!server->watcher)
        weir_redis_inspect(server);
}

/* An error's text for people, its first line; of an answer to AUTH only its first word, for a strange server may
 * repeat what it was sent. */
static void fail_with(struct weir_redis_server *server, const char *what, const redisReply *reply, bool secret)
{
    char text[WEIR_REMOTE_ERROR_MAX];
    size_t size = secret ? strcspn(reply->str, " \r\n") : strcspn(reply->str, "\r\n");
    snprintf(text, sizeof text, "%s: %.*s", what, (int)weir_min_u64(size, sizeof text), reply->str);
    weir_redis_server_fail(server, text);
}

static void on_auth(struct weir_redis_server *server, const redisReply *reply, uint64_t generation)
{
    (void)generation;
    if (reply && reply->type == REDIS_REPLY_ERROR)
        fail_with(server, "it refuses the user or the password", reply, true);
}

static void on_script(struct weir_redis_server *server, const redisReply *reply, uint64_t generation)
{
    (void)generation;
    server->loading_script = false;
    if (!reply)
        return;
    if (reply->type != REDIS_REPLY_STRING || reply->len != sizeof server->engine->sha1 - 1) {
        if (reply->type == REDIS_REPLY_ERROR)
            fail_with(server, "it does not take the script", reply, false);
        else
            weir_redis_server_fail(server, "it does not take the script");
        return;
    }
    memcpy(server->engine->sha1, reply->str, reply->len);
    server->engine->stats.scripts_loaded++;
    if (server->state == WEIR_REDIS_GREETING)
        ready(server);
}

void weir_redis_server_load_script(struct weir_redis_server *server)
{
    struct weir_redis_engine *engine = server->engine;
    if (server->loading_script)
        return;
    const char *text = engine->script ? engine->script : weir_script_text;
    const char *argv[] = { "SCRIPT", "LOAD", text };
    const size_t sizes[] = { 6, 4, engine->script ? strlen(text) : weir_script_text_size };
    server->loading_script = weir_redis_server_ask(server, on_script, 0, 3, argv, sizes);
}

static void greeted(struct weir_redis_server *server)
{
    enum weir_redis_topology topology = server->engine->settings.topology;
    if (server->role == WEIR_REDIS_REPLICA && topology != WEIR_REDIS_CLUSTER)
        weir_redis_server_fail(server, "it is a replica; what is charged must be charged at the primary");
    else if (server->watcher != (server->role == WEIR_REDIS_WATCHER))
        weir_redis_server_fail(server, server->watcher ? "it is no sentinel" : "it is a sentinel");
    else if (server->role == WEIR_REDIS_PRIMARY)
        weir_redis_server_load_script(server);
    else
        ready(server);
}

static void on_role(struct weir_redis_server *server, const redisReply *reply, uint64_t generation)
{
    (void)generation;
    if (!reply)
        return;
    if (reply->type == REDIS_REPLY_ERROR && !weir_redis_is_error(reply, "NOPERM")) {
        bool wants = weir_redis_is_error(reply, "NOAUTH");
        fail_with(server, wants ? "it wants a password" : "it does not say its role", reply, false);
        return;
    }
    /* A user who may not ask for the role is believed to talk to a primary: the script's own errors tell otherwise. */
    server->role = server->watcher ? WEIR_REDIS_WATCHER : WEIR_REDIS_PRIMARY;
    const redisReply *role = weir_redis_element(reply, 0, REDIS_REPLY_STRING);
    if (role && weir_redis_is_text(role, "slave"))
        server->role = WEIR_REDIS_REPLICA;
    else if (role)
        server->role = weir_redis_is_text(role, "sentinel") ? WEIR_REDIS_WATCHER : WEIR_REDIS_PRIMARY;
    greeted(server);
}

static bool ask_auth(struct weir_redis_server *server)
{
    const struct weir_redis_settings *settings = &server->engine->settings;
    const char *password = server->watcher ? settings->sentinel_password : settings->password;
    size_t size = server->watcher ? settings->sentinel_password_size : settings->password_size;
    if (size == 0)
        return true;
    bool named = settings->username[0] && !server->watcher;
    const char *argv[] = { "AUTH", named ? settings->username : password, password };
    const size_t sizes[] = { 4, named ? strlen(settings->username) : size, size };
    return weir_redis_server_ask(server, on_auth, 0, named ? 3 : 2, argv, sizes);
}

static void on_opened(void *context)
{
    struct weir_redis_server *server = context;
    const char *name[] = { "CLIENT", "SETNAME", "weir" };
    const char *role[] = { "ROLE" };
    server->state = WEIR_REDIS_GREETING;
    if (!ask_auth(server) || !weir_redis_server_ask(server, NULL, 0, 3, name, NULL) ||
        !weir_redis_server_ask(server, on_role, 0, 1, role, NULL))
        weir_redis_server_fail(server, "no memory for a greeting");
}

/* ---- connect and fail ---- */

static void on_broken(void *context, const char *why)
{
    weir_redis_server_fail(context, why);
}

static bool holds(void *context)
{
    struct weir_redis_server *server = context;
    return weir_flight_full(&server->flight);
}

static void on_batch_end(void *context)
{
    weir_redis_mark_batch_end(context);
}

static void start(struct weir_redis_server *server, uint64_t now_ns)
{
    struct weir_redis_engine *engine = server->engine;
    const struct weir_redis_conn_owner owner = { on_opened, on_broken, holds, server };
    const char *tls_name = engine->settings.tls_name;
    struct weir_redis_place place = { .host = server->seed.host,
                                      .port = server->seed.port,
                                      .path = server->seed.path,
                                      .tls = engine->tls,
                                      .tls_name = tls_name[0] ? tls_name : server->seed.host };
    server->state = WEIR_REDIS_CONNECTING;
    server->role = WEIR_REDIS_ROLE_UNKNOWN;
    server->started_ns = now_ns;
    weir_flight_init(&server->flight, WEIR_REMOTE_PENDING_MAX); /* before those who wait for the first connection */
    int error = weir_redis_conn_open(&server->conn, engine->loop, &place, &owner);
    if (error)
        weir_redis_server_fail(server, error == WEIR_ENOMEM ? "no memory" : strerror(errno));
}

void weir_redis_server_fail(struct weir_redis_server *server, const char *why)
{
    struct weir_redis_engine *engine = server->engine;
    uint64_t generation;
    uint64_t now_ns = uv_hrtime();
    weir_redis_error(engine, server, "%s", why);
    /* A try to connect that failed is an ask that failed: the breaker opens in an outage even if nobody asks. Once it
     * is open, a try is no probe: the wait before it is the connection's own. */
    if (server->breaker.state == WEIR_BREAKER_CLOSED &&
        weir_breaker_allow(&server->breaker, &engine->settings.breaker, now_ns, 0, &generation))
        weir_redis_server_told(server, generation, false);
    server->tried = true;
    server->wait_ns = server->wait_ns ? weir_min_u64(2 * server->wait_ns, WAIT_MAX_NS) : WAIT_MIN_NS;
    server->retry_ns = now_ns + weir_redis_jitter(engine, server->wait_ns);
    server->state = WEIR_REDIS_WAITING;
    server->loading_script = false;
    weir_redis_conn_close(&server->conn);
    if (!engine->closing && !server->leaving)
        weir_redis_ask_soon(engine);
}

void weir_redis_server_refused(struct weir_redis_server *server, const redisReply *reply)
{
    size_t size = strcspn(reply->str, "\r\n");
    weir_redis_error(server->engine, server, "%.*s", (int)weir_min_u64(size, WEIR_REMOTE_ERROR_MAX), reply->str);
    /* It was made a replica, or its users were changed: it is greeted again, which asks for its role. */
    if (weir_redis_is_error(reply, "READONLY") || weir_redis_is_error(reply, "NOAUTH"))
        weir_redis_server_fail(server,
                               weir_redis_is_error(reply, "READONLY") ? "it is read only" : "it wants a password");
}

/* ---- time ---- */

static void on_pong(struct weir_redis_server *server, const redisReply *reply, uint64_t generation)
{
    weir_redis_server_told(server, generation, reply && reply->type != REDIS_REPLY_ERROR);
}

/* A sign of life, which also is what a breaker that is open tries when nobody asks for anything. */
static void breathe(struct weir_redis_server *server, uint64_t now_ns)
{
    const char *ping[] = { "PING" };
    uint64_t generation;
    if (now_ns < server->breath_ns && server->breaker.state == WEIR_BREAKER_CLOSED)
        return;
    if (!weir_redis_server_allows(server, 0, &generation))
        return;
    server->breath_ns = now_ns + weir_redis_jitter(server->engine, BREATH_NS);
    bool asked = server->mark ? weir_redis_mark_breathe(server, generation)
                              : weir_redis_server_ask(server, on_pong, generation, 1, ping, NULL);
    if (!asked)
        weir_redis_server_told(server, generation, false);
}

static const char *too_late(const struct weir_redis_server *server)
{
    if (server->state == WEIR_REDIS_GREETING)
        return "no greeting in time";
    if (weir_redis_link_shakes_hands(server->conn.link))
        return "no TLS with it in time (is TLS offered there?)";
    return "no connection in time";
}

void weir_redis_server_tick(struct weir_redis_server *server, uint64_t now_ns)
{
    uint64_t timeout_ns = server->engine->settings.connect_timeout_ns;
    if (server->state == WEIR_REDIS_WAITING) {
        if (!server->leaving && now_ns >= server->retry_ns)
            start(server, now_ns);
    } else if (server->state != WEIR_REDIS_READY) {
        if (now_ns - server->started_ns >= timeout_ns)
            weir_redis_server_fail(server, too_late(server));
    } else if (weir_redis_conn_stalled(&server->conn, now_ns)) {
        weir_redis_server_fail(server, "it does not answer");
    } else {
        breathe(server, now_ns);
        weir_redis_inspect_tick(server, now_ns);
    }
    if (server->leaving && weir_redis_conn_idle(&server->conn))
        weir_redis_server_destroy(server);
}

void weir_redis_server_flush(struct weir_redis_server *server)
{
    weir_redis_conn_flush(&server->conn, on_batch_end);
}

/* ---- the list of servers ---- */

uint16_t weir_redis_server_index(const struct weir_redis_server *server)
{
    for (size_t i = 0; i < server->engine->servers_end; i++) {
        if (server->engine->servers[i] == server)
            return (uint16_t)i;
    }
    return WEIR_REDIS_NOBODY;
}

static struct weir_redis_server *make(struct weir_redis_engine *engine, const struct weir_redis_seed *seed,
                                      bool watcher)
{
    size_t place = 0;
    while (place < WEIR_REDIS_SERVERS_MAX && engine->servers[place])
        place++;
    struct weir_redis_server *server = place < WEIR_REDIS_SERVERS_MAX ? calloc(1, sizeof *server) : NULL;
    if (!server)
        return NULL;
    server->engine = engine;
    server->seed = *seed;
    server->watcher = watcher;
    if (seed->path[0])
        snprintf(server->name, sizeof server->name, "unix:%s", seed->path);
    else
        snprintf(server->name, sizeof server->name, strchr(seed->host, ':') ? "[%s]:%u" : "%s:%u", seed->host,
                 (unsigned)seed->port);
    weir_breaker_init(&server->breaker, uv_hrtime());
    engine->servers[place] = server;
    if (place >= engine->servers_end)
        engine->servers_end = place + 1;
    start(server, uv_hrtime());
    return server;
}

struct weir_redis_server *weir_redis_server_find(struct weir_redis_engine *engine, const char *host, size_t host_size,
                                                 uint16_t port, const char *path, bool watcher)
{
    struct weir_redis_seed seed = { .port = port };
    if (host_size > WEIR_REDIS_HOST_MAX || strlen(path) > WEIR_REDIS_PATH_MAX)
        return NULL;
    memcpy(seed.host, host, host_size);
    memcpy(seed.path, path, strlen(path));
    for (size_t i = 0; i < engine->servers_end; i++) {
        struct weir_redis_server *server = engine->servers[i];
        if (server && server->watcher == watcher && server->seed.port == port &&
            strcmp(server->seed.host, seed.host) == 0 && strcmp(server->seed.path, seed.path) == 0) {
            server->leaving = false;
            return server;
        }
    }
    return make(engine, &seed, watcher);
}

void weir_redis_server_destroy(struct weir_redis_server *server)
{
    struct weir_redis_engine *engine = server->engine;
    uint16_t index = weir_redis_server_index(server);
    server->leaving = true;
    server->state = WEIR_REDIS_WAITING;
    weir_redis_conn_close(&server->conn);
    weir_redis_conn_deinit(&server->conn);
    weir_redis_mark_release(server);
    weir_assert(index != WEIR_REDIS_NOBODY);
    engine->servers[index] = NULL;
    if (engine->primary == index)
        engine->primary = WEIR_REDIS_NOBODY;
    for (size_t slot = 0; engine->slots && slot < WEIR_REDIS_SLOTS; slot++) {
        if (engine->slots[slot] == index)
            engine->slots[slot] = WEIR_REDIS_NOBODY;
    }
    free(server);
}
