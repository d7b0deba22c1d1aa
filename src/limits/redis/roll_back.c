/* SPDX-License-Identifier: Apache-2.0
 *
 * A give-back is a group (request.h) without a request. It takes over the script's call of the group that charged,
 * because that group may still wait for its late reply. It is sent again on the engine's tick until the server
 * confirms, or for as long as a server remembers a request's id. Begun by request.c; redis.c calls the tick. */
#include "limits/redis/roll_back.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_NS (100 * WEIR_NS_PER_MS)

static void end(struct weir_redis_group *group, bool confirmed)
{
    struct weir_redis_engine *engine = group->engine;
    engine->stats.given_back += confirmed;
    engine->stats.given_back_lost += !confirmed;
    engine->givings--;
    weir_redis_group_free(group);
}

static void later(struct weir_redis_group *group)
{
    struct weir_redis_engine *engine = group->engine;
    group->pending = false;
    group->hops = 0;
    group->retry_ns = uv_hrtime() + weir_redis_jitter(engine, 2 * RETRY_NS);
    group->next = engine->giving;
    engine->giving = group;
}

static bool give_back_write(struct weir_redis_call *call, struct weir_redis_output *output)
{
    const struct weir_script_call *script = &((struct weir_redis_group *)call)->script;
    return weir_redis_output_command(output, script->argc, script->argv, script->sizes);
}

static void give_back_answered(struct weir_redis_call *call, const redisReply *reply, bool sent)
{
    struct weir_redis_group *group = (struct weir_redis_group *)call;
    (void)sent;
    if (reply && reply->type == REDIS_REPLY_ERROR && weir_redis_group_again(group, reply))
        return;
    bool confirmed = reply && reply->type != REDIS_REPLY_ERROR;
    weir_redis_group_told(group, confirmed);
    if (confirmed)
        end(group, true);
    else
        later(group);
}

/* A group that was written and not answered stays in its line for the late reply: another one takes its call along. */
static struct weir_redis_group *successor(struct weir_redis_group *group)
{
    size_t size = weir_redis_group_size(group->script.count);
    struct weir_redis_group *made = malloc(size);
    if (!made)
        return NULL;
    memcpy(made, group, size);
    memset(made, 0, offsetof(struct weir_redis_group, script));
    made->engine = group->engine;
    made->slot = group->slot;
    weir_script_call_init(&group->script, NULL, NULL, 0);
    return made;
}

void weir_redis_roll_back(struct weir_redis_group *group, bool never)
{
    struct weir_redis_engine *engine = group->engine;
    uint64_t now_ns = uv_hrtime();
    bool room = engine->givings < WEIR_REDIS_GIVE_BACKS_MAX;
    if (weir_script_call_roll_back(&group->script, engine->sha1, never) || !room || !(group = successor(group))) {
        engine->stats.given_back_lost++;
        return;
    }
    group->call.write = give_back_write;
    group->call.answered = give_back_answered;
    group->gives_back = true;
    group->end_ns = now_ns + WEIR_SCRIPT_REQUEST_TTL_MS * WEIR_NS_PER_MS;
    engine->givings++;
    if (engine->closing || !weir_redis_group_send(group))
        later(group);
}

void weir_redis_roll_back_tick(struct weir_redis_engine *engine, uint64_t now_ns)
{
    struct weir_redis_group *group = engine->giving;
    engine->giving = NULL;
    while (group) {
        struct weir_redis_group *next = group->next;
        group->next = NULL;
        if (now_ns >= group->end_ns) {
            end(group, false);
        } else if (now_ns < group->retry_ns) {
            group->next = engine->giving;
            engine->giving = group;
        } else if (!weir_redis_group_send(group)) {
            later(group);
        }
        group = next;
    }
}

void weir_redis_roll_back_end(struct weir_redis_engine *engine)
{
    while (engine->giving) {
        struct weir_redis_group *group = engine->giving;
        engine->giving = group->next;
        end(group, false);
    }
}
