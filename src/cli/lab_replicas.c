/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 9 with three redis-servers, each with the functions of deploy/fence/redis.lua: the schedules that the seed
 * draws are played by one process, command by command. In memory it is sim/lab/replicas.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lab_fence.h"
#include "cli/lab_real.h"
#include "cli/lab_redis.h"
#include "sim/lab/replicas.h"
#include "weir/error.h"

#define MARK "{counter}:fence"
#define VALUE "{counter}:value"

struct replicas {
    struct weir_lab_client clients[LAB_REPLICAS];
};

static int redis_reset(void *context, unsigned replica)
{
    struct replicas *replicas = context;
    return WEIR_LAB_ASK(&replicas->clients[replica], "DEL", MARK, VALUE) ? 0 : WEIR_EDOWN;
}

/* Of a function: 0, refused, or broken. */
static int said(const struct weir_lab_client *client)
{
    if (weir_lab_said(client, "OK"))
        return 0;
    return weir_lab_said(client, "FENCED") ? WEIR_EFENCED : WEIR_EDOWN;
}

static int redis_install(void *context, unsigned replica, uint64_t token)
{
    struct replicas *replicas = context;
    char text[32];
    (void)snprintf(text, sizeof(text), "1.%" PRIu64, token);
    (void)WEIR_LAB_ASK(&replicas->clients[replica], "FCALL", "weir_fence_install", "1", MARK, text);
    return said(&replicas->clients[replica]);
}

static int redis_read(void *context, unsigned replica, struct lab_replicas_value *ret_value)
{
    struct replicas *replicas = context;
    struct weir_lab_client *client = &replicas->clients[replica];
    const struct weir_resp_value *answer = WEIR_LAB_ASK(client, "GET", VALUE);
    char text[48], *end;
    *ret_value = (struct lab_replicas_value){ 0, 0 };
    if (answer && answer->type == WEIR_RESP_NULL)
        return 0;
    if (!answer || answer->type != WEIR_RESP_BULK)
        return WEIR_EDOWN;
    (void)snprintf(text, sizeof(text), "%.*s", (int)answer->text.size, (const char *)answer->text.data);
    ret_value->token = strtoull(text, &end, 10);
    ret_value->counter = strtoull(end, NULL, 10);
    return 0;
}

static int redis_write(void *context, unsigned replica, const struct lab_replicas_value *value, bool marked)
{
    struct replicas *replicas = context;
    struct weir_lab_client *client = &replicas->clients[replica];
    char token[32], text[48];
    (void)snprintf(token, sizeof(token), "1.%" PRIu64, value->token);
    (void)snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu64, value->token, value->counter);
    int error = marked ? redis_install(context, replica, value->token) : 0;
    if (error != 0)
        return error;
    if (marked)
        (void)WEIR_LAB_ASK(client, "FCALL", "weir_fence_set", "2", MARK, VALUE, token, text);
    else
        (void)WEIR_LAB_ASK(client, "SET", VALUE, text);
    return said(client);
}

static bool replica_start(struct weir_lab_stand *stand, unsigned number, struct weir_lab_client *client)
{
    static const char *const names[LAB_REPLICAS] = { "redis-0", "redis-1", "redis-2" };
    struct weir_lab_redis redis;
    if (!weir_lab_redis_start(stand, names[number], true, &redis) || !weir_lab_client_open(stand, redis.port, client))
        return false;
    if (!WEIR_LAB_ASK(client, "FUNCTION", "LOAD", "REPLACE", weir_lab_fence_text) ||
        !weir_lab_said(client, "weir_fence"))
        return weir_lab_fail(stand, "redis-server does not take the functions of weir_fence: it must be 7.0 or newer");
    return true;
}

bool weir_lab_replicas_real(struct weir_lab_stand *stand)
{
    struct replicas replicas;
    const struct lab_replicas_store store = { &replicas, redis_reset, redis_install, redis_read, redis_write };
    stand->report.seed = stand->seed;
    stand->report.x = "schedules that were drawn";
    stand->report.y = "schedules in which an acknowledged update is lost";
    for (unsigned i = 0; i < LAB_REPLICAS; i++) {
        if (!replica_start(stand, i, &replicas.clients[i]))
            return false;
    }
    for (unsigned i = 0; i < LAB_REPLICAS_RULES; i++) {
        if (lab_replicas_draw(&lab_replicas_rules[i], stand->seed, &store, &stand->report) != 0)
            return weir_lab_fail(stand, "a redis-server gave no answer");
    }
    return true;
}
