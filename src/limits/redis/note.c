/* SPDX-License-Identifier: Apache-2.0
 *
 * A note is one command to the server of its slot, and is sent once: if the slot has moved, the answer is WEIR_EDOWN,
 * and the cluster's map is read again. Called through the engine's operations (redis.c) by limits/revisor.c, whose
 * notes are the definitions of limits. */
#include "limits/redis/note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "limits/redis/request.h"
#include "limits/redis/server.h"
#include "limits/redis/slot.h"

#define KEY_MAX (WEIR_REDIS_PREFIX_MAX + 80)

static void on_reply(struct weir_redis_server *server, const redisReply *reply, uint64_t context)
{
    struct weir_remote_note *note = (struct weir_remote_note *)(uintptr_t)context;
    if (!reply) {
        note->done(note, WEIR_EUNKNOWN, NULL, 0);
    } else if (reply->type == REDIS_REPLY_STRING) {
        note->done(note, 0, reply->str, (size_t)reply->len);
    } else if (reply->type == REDIS_REPLY_NIL) {
        note->done(note, 0, NULL, 0);
    } else {
        if (weir_redis_is_error(reply, "MOVED") || weir_redis_is_error(reply, "ASK"))
            weir_redis_ask_soon(server->engine);
        else if (reply->type == REDIS_REPLY_ERROR)
            weir_redis_server_refused(server, reply);
        note->done(note, weir_redis_is_error(reply, "WRONGTYPE") ? WEIR_ECORRUPT : WEIR_EDOWN, NULL, 0);
    }
}

int weir_redis_note(struct weir_remote *remote, struct weir_remote_note *note)
{
    struct weir_redis_engine *engine = (struct weir_redis_engine *)remote;
    struct weir_redis_server *server = engine->closing
                                           ? NULL
                                           : weir_redis_server_of(engine, weir_redis_slot_of_tag(note->id[0]));
    char key[KEY_MAX], last[24];
    if (!server || server->state != WEIR_REDIS_READY)
        return WEIR_EDOWN;
    snprintf(key, sizeof key, "%s:{%016" PRIx64 "}:revision:%016" PRIx64 "%016" PRIx64, engine->settings.prefix,
             note->id[0], note->id[0], note->id[1]);
    snprintf(last, sizeof last, "%zu", note->head - 1);
    const char *const set[] = { "SET", key, note->data, "EX", WEIR_REDIS_NOTE_TTL_S, "GET" };
    const size_t set_sizes[] = { 3, strlen(key), note->size, 2, sizeof WEIR_REDIS_NOTE_TTL_S - 1, 3 };
    const char *const range[] = { "GETRANGE", key, "0", last };
    uint64_t context = (uint64_t)(uintptr_t)note;
    bool asked = note->data ? weir_redis_server_ask(server, on_reply, context, 6, set, set_sizes)
                            : weir_redis_server_ask(server, on_reply, context, 4, range, NULL);
    return asked ? 0 : WEIR_ENOMEM;
}
