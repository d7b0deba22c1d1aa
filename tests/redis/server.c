/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void server_die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(2);
}

static char *test_text(void)
{
    static const char line[] = "local TEST = false", replaced[] = "local TEST = true ";
    char *text = strdup(weir_script_text), *at = text ? strstr(text, line) : NULL;
    if (!at)
        server_die("the script", "has no line of its test clock");
    memcpy(at, replaced, sizeof line - 1);
    return text;
}

void server_open(struct server *server, const char *socket)
{
    char *text = test_text();
    server_open_with(server, socket, text);
    free(text);
}

void server_open_with(struct server *server, const char *socket, const char *text)
{
    *server = (struct server){ .context = redisConnectUnix(socket) };
    if (!server->context || server->context->err)
        server_die(socket, server->context ? server->context->errstr : "no memory");
    freeReplyObject(redisCommand(server->context, "FLUSHALL")); /* or a seed could not be run again */
    redisReply *reply = redisCommand(server->context, "SCRIPT LOAD %b", text, strlen(text));
    if (!reply || reply->type != REDIS_REPLY_STRING || reply->len != 40)
        server_die("SCRIPT LOAD", reply ? reply->str : server->context->errstr);
    memcpy(server->sha1, reply->str, 41);
    freeReplyObject(reply);
}

void server_close(struct server *server)
{
    redisFree(server->context);
}

static int receive(struct server *server, struct weir_script_call *call)
{
    redisReply *reply = NULL;
    if (redisGetReply(server->context, (void **)&reply) != REDIS_OK)
        server_die("EVALSHA", server->context->errstr);
    if (reply->type != REDIS_REPLY_STRING)
        server_die("EVALSHA", reply->str ? reply->str : "a reply of another type");
    int status = weir_script_call_decode(call, reply->str, (size_t)reply->len);
    freeReplyObject(reply);
    return status;
}

void server_run(struct server *server, struct weir_script_call **calls, size_t count, int *ret_status)
{
    size_t left = count;
    for (size_t i = 0; i < count; i++)
        ret_status[i] = WEIR_EAGAIN;
    while (left > 0) {
        bool sent[64] = { false };
        for (size_t i = 0; i < count; i++) {
            if (ret_status[i] != WEIR_EAGAIN)
                continue;
            if (!calls[i]->gives_back && weir_script_call_encode(calls[i], server->sha1))
                server_die("encode", "no memory");
            redisAppendCommandArgv(server->context, calls[i]->argc, calls[i]->argv, calls[i]->sizes);
            sent[i] = true;
            server->calls++;
        }
        for (size_t i = 0; i < count; i++) {
            if (!sent[i])
                continue;
            ret_status[i] = receive(server, calls[i]);
            left -= ret_status[i] != WEIR_EAGAIN;
        }
    }
}
