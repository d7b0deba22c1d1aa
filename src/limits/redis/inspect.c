/* SPDX-License-Identifier: Apache-2.0
 *
 * A look is a list of commands, sent together: each reply sets or clears the bit of its command, and the last reply
 * writes the warning for operators, which is reported when it has changed. Keys were evicted if INFO's count has grown
 * since the last look. Called by server.c, and by redis.c, which shows whether a server may decide. Other losses of
 * state are found by mark.c. */
#include "limits/redis/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"

#define EVERY_NS (5 * WEIR_NS_PER_SECOND)

/* None of them changes anything at a key that is not there; KEY stands for it. (One small script is cached.) */
#define KEY ""
static const struct right {
    const char *name; /* as docs/redis.md grants it */
    const char *argv[6];
    bool cluster; /* used only there */
    bool decides; /* without it some limit cannot be decided there */
} rights[] = {
    { "evalsha", { "EVALSHA", "0000000000000000000000000000000000000000", "0" }, false, true },
    { "script|load", { "SCRIPT", "LOAD", "return 0" }, false, true },
    { "get", { "GET", KEY }, false, true },
    { "set", { "SET", KEY, "0", "XX", "PX", "1" }, false, true },
    { "del", { "DEL", KEY }, false, true },
    { "getrange", { "GETRANGE", KEY, "0", "0" }, false, true },
    { "setrange", { "SETRANGE", KEY, "0", "" }, false, true },
    { "strlen", { "STRLEN", KEY }, false, true },
    { "exists", { "EXISTS", KEY }, false, true },
    { "pexpire", { "PEXPIRE", KEY, "1" }, false, true },
    { "pttl", { "PTTL", KEY }, false, true },
    { "time", { "TIME" }, false, true },
    { "ping", { "PING" }, false, false },
    { "role", { "ROLE" }, false, false },
    { "client|setname", { "CLIENT", "SETNAME", "weir" }, false, false },
    { "asking", { "ASKING" }, true, false },
    { "info", { "INFO", "memory" }, false, false },
};
#define RIGHTS_COUNT (sizeof rights / sizeof rights[0])
#define RIGHT_INFO (RIGHTS_COUNT - 1)
_Static_assert(RIGHTS_COUNT <= 32, "bits of `denied`");

/* ---- what is told ---- */

bool weir_redis_may_decide(const struct weir_redis_server *server)
{
    bool may = !server->inspection.keys_denied;
    for (size_t i = 0; i < RIGHTS_COUNT; i++)
        may = may && !(rights[i].decides && server->inspection.denied >> i & 1);
    return may;
}

static void add(char *text, size_t room, const char *before, const char *word)
{
    size_t used = strlen(text);
    snprintf(text + used, room - used, "%s%s", used ? before : "", word);
}

static void describe(const struct weir_redis_server *server, char *text, size_t room)
{
    const struct weir_redis_inspection *seen = &server->inspection;
    char names[160] = "";
    for (size_t i = 0; i < RIGHTS_COUNT; i++) {
        if (seen->denied >> i & 1)
            add(names, sizeof names, " ", rights[i].name);
    }
    text[0] = '\0';
    if (names[0])
        snprintf(text, room, "its user may not run %s", names);
    if (seen->keys_denied) {
        add(text, room, "; ", "its user may not use the keys ");
        add(text, room, "", server->engine->settings.prefix);
        add(text, room, "", ":*");
    }
    if (seen->bounded && strcmp(seen->policy, "noeviction") != 0) {
        add(text, room, "; ", "an evicted key is a fresh allowance, and its maxmemory-policy is ");
        add(text, room, "", seen->policy);
    }
}

static void tell(struct weir_redis_server *server)
{
    char text[sizeof server->warning];
    describe(server, text, sizeof text);
    if (strcmp(text, server->warning) == 0)
        return;
    memcpy(server->warning, text, sizeof text);
    if (text[0])
        weir_redis_error(server->engine, server, "%s", text);
}

/* ---- what is heard ---- */

static void on_right(struct weir_redis_server *server, const redisReply *reply, uint64_t place)
{
    struct weir_redis_inspection *seen = &server->inspection;
    uint32_t bit = UINT32_C(1) << place;
    if (!reply)
        return;
    bool denied = weir_redis_is_error(reply, "NOPERM");
    /* Redis judges the command first, then its keys. */
    bool key = denied && rights[place].argv[1] && strcmp(rights[place].argv[1], KEY) == 0 &&
               strstr(reply->str, " access ");
    seen->denied = denied && !key ? seen->denied | bit : seen->denied & ~bit;
    seen->keys_denied = key || (seen->keys_denied && strcmp(rights[place].name, "get") != 0);
}

/* The value of "NAME:…\r\n"; false: there is none. */
static bool value_of(const redisReply *reply, const char *name, char *ret_value, size_t room)
{
    const char *at = reply->str;
    size_t size = strlen(name);
    while ((at = strstr(at, name)) != NULL) {
        if ((at == reply->str || at[-1] == '\n') && at[size] == ':') {
            snprintf(ret_value, room, "%.*s", (int)weir_min_u64(strcspn(at + size + 1, "\r\n"), room - 1),
                     at + size + 1);
            return true;
        }
        at += size;
    }
    return false;
}

static void on_memory(struct weir_redis_server *server, const redisReply *reply, uint64_t place)
{
    char bound[24];
    on_right(server, reply, place);
    if (!reply || reply->type != REDIS_REPLY_STRING || !value_of(reply, "maxmemory", bound, sizeof bound))
        return;
    server->inspection.bounded = strcmp(bound, "0") != 0;
    value_of(reply, "maxmemory_policy", server->inspection.policy, sizeof server->inspection.policy);
}

static void on_evictions(struct weir_redis_server *server, const redisReply *reply, uint64_t context)
{
    struct weir_redis_inspection *seen = &server->inspection;
    char value[24];
    (void)context;
    if (!reply)
        return;
    if (reply->type == REDIS_REPLY_STRING && value_of(reply, "evicted_keys", value, sizeof value)) {
        uint64_t evicted = strtoull(value, NULL, 10);
        /* It begins anew with the server. */
        uint64_t more = evicted >= seen->evicted ? evicted - seen->evicted : evicted;
        if (seen->knows_evicted && more > 0) {
            server->engine->stats.evicted += more;
            server->engine->stats.losses += more;
            weir_redis_error(server->engine, server, "state was lost: it evicted %" PRIu64 " key%s", more,
                             weir_s(more));
        }
        seen->evicted = evicted;
        seen->knows_evicted = true;
    }
    tell(server);
}

/* ---- a look ---- */

void weir_redis_inspect(struct weir_redis_server *server)
{
    const char *stats[] = { "INFO", "stats" };
    bool cluster = server->engine->settings.topology == WEIR_REDIS_CLUSTER;
    char key[WEIR_REDIS_PREFIX_MAX + 16];
    snprintf(key, sizeof key, "%s:rights:{0}", server->engine->settings.prefix);
    server->inspection.due_ns = uv_hrtime() + weir_redis_jitter(server->engine, EVERY_NS);
    for (size_t i = 0; i < RIGHTS_COUNT; i++) {
        const char *argv[6];
        int argc = 0;
        for (; argc < 6 && rights[i].argv[argc]; argc++)
            argv[argc] = argc == 1 && strcmp(rights[i].argv[1], KEY) == 0 ? key : rights[i].argv[argc];
        if (cluster || !rights[i].cluster)
            weir_redis_server_ask(server, i == RIGHT_INFO ? on_memory : on_right, i, argc, argv, NULL);
    }
    weir_redis_server_ask(server, on_evictions, 0, 2, stats, NULL);
}

void weir_redis_inspect_tick(struct weir_redis_server *server, uint64_t now_ns)
{
    if (!server->watcher && now_ns >= server->inspection.due_ns)
        weir_redis_inspect(server);
}
