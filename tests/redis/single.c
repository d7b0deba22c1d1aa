/* SPDX-License-Identifier: Apache-2.0 */
#include "single.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int failures;
uint64_t clock_ns = NOW_NS;

void check(bool good, const char *what)
{
    printf("%s %s\n", good ? "ok  " : "FAIL", what);
    failures += !good;
}

const struct weir_remote_limit *limit_of(struct weir_limit_spec spec)
{
    const struct weir_remote_limit *limit;
    if (weir_remote_limit_create("api", 0, WEIR_REVISION_FIRST, &spec, &limit, NULL))
        abort();
    return limit;
}

struct weir_remote_op op_of(const struct weir_remote_limit *limit, const char *value, uint64_t units)
{
    struct weir_slice slice = { value, strlen(value) };
    struct weir_remote_op op = { .limit = limit, .units = units };
    if (weir_remote_key_init(NULL, limit->name, &slice, 1, &op.key))
        abort();
    return op;
}

int ask(struct server *server, enum weir_remote_verb verb, struct weir_remote_op *ops, size_t count, const uint64_t *id,
        struct weir_script_call *ret_call)
{
    struct weir_remote_request request = { .verb = verb, .ops = ops, .count = count, .test_now_ns = clock_ns };
    int status;
    weir_script_call_init(ret_call, &request, "faults", clock_ns);
    if (id)
        memcpy(ret_call->id, id, sizeof ret_call->id);
    for (size_t i = 0; i < count; i++)
        weir_script_call_add(ret_call, i);
    server_run(server, &ret_call, 1, &status);
    weir_script_call_deinit(ret_call);
    return status;
}

int decide(struct server *server, struct weir_remote_op *op)
{
    struct weir_script_call call;
    return ask(server, WEIR_REMOTE_DECIDE, op, 1, NULL, &call);
}

long long command(struct server *server, const char *name, const struct weir_remote_op *op, const void *value,
                  size_t size)
{
    char key[WEIR_SCRIPT_KEY_MAX];
    size_t key_size = weir_script_key("faults", op, key);
    const char *argv[] = { name, key, value };
    const size_t sizes[] = { strlen(name), key_size, size };
    redisReply *reply = redisCommandArgv(server->context, value ? 3 : 2, argv, sizes);
    long long result = -100;
    if (reply && reply->type == REDIS_REPLY_INTEGER)
        result = reply->integer;
    else if (reply && reply->type == REDIS_REPLY_STRING)
        result = (long long)reply->len;
    freeReplyObject(reply);
    return result;
}
