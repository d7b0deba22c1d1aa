/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts a redis-server on a free port, and speaks to it over a blocking socket with a time limit: one command, one
 * answer. Called by the experiments that need one; processes are lab_stand.c. */
#include "cli/lab_redis.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "base/whole.h"
#include "wire/resp_write.h"

#define ANSWER_SECONDS 10
#define COMMAND_MAX 16384

bool weir_lab_client_open(struct weir_lab_stand *stand, uint16_t port, struct weir_lab_client *ret_client)
{
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_port = htons(port),
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct timeval patience = { .tv_sec = ANSWER_SECONDS };
    ret_client->count = 0;
    ret_client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ret_client->fd >= 0 && setsockopt(ret_client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
        connect(ret_client->fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return true;
    weir_lab_client_close(ret_client);
    return weir_lab_fail(stand, "no connection to 127.0.0.1:%u", port);
}

void weir_lab_client_close(struct weir_lab_client *client)
{
    if (client->fd >= 0)
        (void)close(client->fd);
    client->fd = -1;
}

static size_t command_write(uint8_t *buffer, const char *const *words)
{
    size_t count = 0;
    while (words[count])
        count++;
    uint8_t *at = weir_resp_put_array(buffer, count);
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(words[i]);
        if ((size_t)(at - buffer) + size + WEIR_RESP_HEADER_MAX + 2 > COMMAND_MAX)
            return 0;
        at = weir_resp_put_bulk(at, words[i], size);
    }
    return (size_t)(at - buffer);
}

const struct weir_resp_value *weir_lab_ask(struct weir_lab_client *client, const char *const *words)
{
    uint8_t command[COMMAND_MAX + WEIR_RESP_HEADER_MAX];
    size_t size = command_write(command, words), used = 0, taken = 0;
    client->count = 0;
    if (client->fd < 0 || size == 0 || !weir_whole_write(client->fd, command, size))
        return NULL;
    for (;;) {
        ssize_t got = read(client->fd, client->data + used, sizeof(client->data) - used);
        if (got <= 0)
            return NULL;
        used += (size_t)got;
        int error = weir_resp_answer_parse(client->data, used, client->values,
                                           sizeof(client->values) / sizeof(client->values[0]), &client->count, &taken);
        if (error == 0)
            return &client->values[0];
        if (error != WEIR_EAGAIN || used == sizeof(client->data))
            return client->count = 0, NULL;
    }
}

int64_t weir_lab_said_number(const struct weir_lab_client *client)
{
    char text[24];
    const struct weir_resp_value *value = &client->values[0];
    if (client->count == 0)
        return -1;
    if (value->type == WEIR_RESP_INTEGER)
        return value->integer;
    if (value->type != WEIR_RESP_BULK || value->text.size >= sizeof(text))
        return -1;
    (void)snprintf(text, sizeof(text), "%.*s", (int)value->text.size, (const char *)value->text.data);
    return strtoll(text, NULL, 10);
}

bool weir_lab_said(const struct weir_lab_client *client, const char *text)
{
    const struct weir_resp_value *value = &client->values[0];
    bool is_text = client->count > 0 &&
                   (value->type == WEIR_RESP_BULK || value->type == WEIR_RESP_SIMPLE || value->type == WEIR_RESP_ERROR);
    return is_text && value->text.size >= strlen(text) && memcmp(value->text.data, text, strlen(text)) == 0;
}

/* ---- the server ---- */

static bool redis_answers(uint16_t port)
{
    struct weir_lab_stand nobody; /* what it would be told is of no use: it is asked again */
    struct weir_lab_client client;
    bool answers = weir_lab_client_open(&nobody, port, &client) && WEIR_LAB_ASK(&client, "PING") &&
                   weir_lab_said(&client, "PONG");
    weir_lab_client_close(&client);
    return answers;
}

bool weir_lab_redis_start(struct weir_lab_stand *stand, const char *name, bool durable,
                          struct weir_lab_redis *ret_redis)
{
    char port[8], folder[WEIR_LAB_PATH_SIZE + 64];
    *ret_redis = (struct weir_lab_redis){ .name = name, .port = weir_lab_port() };
    (void)snprintf(port, sizeof(port), "%u", ret_redis->port);
    (void)snprintf(folder, sizeof(folder), "%s/%s", stand->folder, name);
    (void)mkdir(folder, 0700);
    const char *const words[] = { "redis-server",
                                  "--port",
                                  port,
                                  "--bind",
                                  "127.0.0.1",
                                  "--dir",
                                  folder,
                                  "--save",
                                  "",
                                  "--appendonly",
                                  durable ? "yes" : "no",
                                  "--appendfsync",
                                  "always",
                                  NULL };
    ret_redis->pid = weir_lab_start(stand, name, words);
    if (ret_redis->pid == 0)
        return false;
    for (uint64_t end_ns = weir_lab_now_ns() + WEIR_LAB_READY_NS; !redis_answers(ret_redis->port);) {
        if (!weir_lab_runs(ret_redis->pid))
            return weir_lab_fail(stand, "redis-server did not start");
        if (weir_lab_now_ns() > end_ns)
            return weir_lab_fail(stand, "redis-server does not answer");
        weir_lab_sleep_ns(5 * WEIR_NS_PER_MS);
    }
    return true;
}
