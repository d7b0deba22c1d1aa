/* SPDX-License-Identifier: Apache-2.0
 *
 * The mark's commands and what their replies mean. SET with GET writes the next number and returns the stored one: if
 * that is below the last one confirmed, state was lost. The number of the connection before is asked for until it is
 * answered, and always before this connection writes its first one. Called by server.c and request.c as connections and
 * answers come, and by cluster.c and sentinel.c, which say which server has which mark. */
#include "limits/redis/mark.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "limits/redis/slot.h"

#define LOOK_UP_WITHIN_NS (WEIR_REDIS_MARK_TTL_S / 2 * WEIR_NS_PER_SECOND)

static void lost(struct weir_redis_server *server, const char *how)
{
    server->engine->stats.losses++;
    weir_redis_error(server->engine, server, "state was lost: %s", how);
}

/* The number in a mark's value; 0 for none. One that is not ours reads as some number, older or not. */
static uint64_t number_of(const redisReply *reply)
{
    uint64_t number = 0;
    for (size_t i = 0; reply->type == REDIS_REPLY_STRING && i < (size_t)reply->len && i < 19; i++) {
        if (reply->str[i] < '0' || reply->str[i] > '9')
            return 0;
        number = 10 * number + (uint64_t)(reply->str[i] - '0');
    }
    return number;
}

struct weir_redis_mark *weir_redis_mark_find(struct weir_redis_engine *engine, uint16_t slot)
{
    for (size_t i = 0; i < WEIR_REDIS_SERVERS_MAX; i++) {
        if (engine->marks[i].used && engine->marks[i].slot == slot)
            return &engine->marks[i];
    }
    return NULL;
}

static struct weir_redis_mark *make(struct weir_redis_engine *engine, uint16_t slot)
{
    for (size_t i = 0; i < WEIR_REDIS_SERVERS_MAX; i++) {
        if (engine->marks[i].used)
            continue;
        engine->marks[i] = (struct weir_redis_mark){ .used = true, .slot = slot };
        return &engine->marks[i];
    }
    return NULL;
}

void weir_redis_mark_assign(struct weir_redis_server *server, uint16_t slot)
{
    if (server->mark && server->mark->slot == slot)
        return;
    weir_redis_mark_release(server);
    server->mark = weir_redis_mark_find(server->engine, slot);
    if (!server->mark)
        server->mark = make(server->engine, slot);
}

void weir_redis_mark_release(struct weir_redis_server *server)
{
    server->mark = NULL;
}

/* ---- the connection before ---- */

static void on_looked_up(struct weir_redis_server *server, const redisReply *reply, uint64_t generation)
{
    struct weir_redis_mark *mark = server->mark;
    if (!reply || !mark || mark->first != generation || reply->type == REDIS_REPLY_ERROR || !mark->before[0])
        return;
    uint64_t number = number_of(reply);
    if (number < mark->before_confirmed)
        lost(server, number ? "it shows what was older" : "it has forgotten this client");
    else if (number == mark->before_confirmed && mark->before_tail)
        lost(server, "its newest answers may be gone");
    mark->before[0] = '\0';
}

/* Until it is answered it is asked again and again, and always before the first number of this connection. */
static void look_up(struct weir_redis_server *server)
{
    struct weir_redis_mark *mark = server->mark;
    if (!mark->before[0])
        return;
    if (uv_hrtime() - mark->before_ns > LOOK_UP_WITHIN_NS) {
        mark->before[0] = '\0'; /* it may have expired */
        return;
    }
    const char *get[] = { "GET", mark->before };
    weir_redis_server_ask(server, on_looked_up, mark->first, 2, get, NULL);
}

void weir_redis_mark_connected(struct weir_redis_server *server)
{
    struct weir_redis_engine *engine = server->engine;
    struct weir_redis_mark *mark = server->mark;
    if (mark->confirmed > 0) {
        memcpy(mark->before, mark->key, sizeof mark->before);
        mark->before_confirmed = mark->confirmed;
        mark->before_ns = mark->confirmed_ns;
        mark->before_tail = mark->tail;
    }
    mark->first = engine->mark_numbers + 1;
    mark->confirmed = 0;
    mark->tail = false;
    snprintf(mark->key, sizeof mark->key, "%s:mark:{%u}:%016" PRIx64 ":%" PRIu64, engine->settings.prefix,
             engine->settings.topology == WEIR_REDIS_CLUSTER ? weir_redis_slot_tag(mark->slot) : 0, engine->client,
             mark->first);
    look_up(server);
}

/* ---- numbers ---- */

/* Numbers are this engine's, never used twice: an answer to one that was sent for another mark, or on the connection
 * before, says nothing here. */
static bool heard(struct weir_redis_server *server, const redisReply *reply, uint64_t number)
{
    struct weir_redis_mark *mark = server->mark;
    if (!reply)
        return false;
    if (weir_redis_is_error(reply, "MOVED") || weir_redis_is_error(reply, "ASK")) {
        weir_redis_ask_soon(server->engine);
        return true; /* it lives */
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        weir_redis_server_refused(server, reply);
        return false;
    }
    if (!mark || number < mark->first)
        return true;
    if (number_of(reply) < mark->confirmed)
        lost(server, "it was flushed");
    mark->confirmed = number;
    mark->confirmed_ns = uv_hrtime();
    mark->tail = false;
    return true;
}

static void on_number(struct weir_redis_server *server, const redisReply *reply, uint64_t number)
{
    heard(server, reply, number);
}

static void on_breath(struct weir_redis_server *server, const redisReply *reply, uint64_t number)
{
    weir_redis_server_told(server, server->breath_generation, heard(server, reply, number));
}

/* SET KEY NUMBER EX DAY GET */
#define SET_ARGC 6
struct set {
    char number[24], ttl[16];
    const char *argv[SET_ARGC];
};

static void set_init(struct set *set, struct weir_redis_server *server)
{
    struct weir_redis_mark *mark = server->mark;
    snprintf(set->number, sizeof set->number, "%" PRIu64, ++server->engine->mark_numbers);
    snprintf(set->ttl, sizeof set->ttl, "%d", WEIR_REDIS_MARK_TTL_S);
    const char *argv[SET_ARGC] = { "SET", mark->key, set->number, "EX", set->ttl, "GET" };
    memcpy(set->argv, argv, sizeof argv);
}

void weir_redis_mark_batch_end(struct weir_redis_server *server)
{
    struct set set;
    if (!server->mark || !server->mark->key[0])
        return;
    set_init(&set, server);
    weir_redis_server_ask_now(server, on_number, server->engine->mark_numbers, SET_ARGC, set.argv);
}

bool weir_redis_mark_breathe(struct weir_redis_server *server, uint64_t generation)
{
    struct set set;
    look_up(server);
    set_init(&set, server);
    server->breath_generation = generation;
    return weir_redis_server_ask(server, on_breath, server->engine->mark_numbers, SET_ARGC, set.argv, NULL);
}

void weir_redis_mark_answered(struct weir_redis_server *server)
{
    if (server->mark)
        server->mark->tail = true;
}
