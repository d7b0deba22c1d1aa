/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_weir.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "wire/resp.h"

struct connection {
    struct fake_weir *fake;
    int fd;
};

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static void join_words(const struct weir_resp_command *command, char *text)
{
    size_t at = 0;
    for (size_t i = 0; i < command->count; i++)
        at += (size_t)snprintf(text + at, FAKE_TEXT_MAX - at, "%s%.*s", i ? " " : "", (int)command->args[i].size,
                               (const char *)command->args[i].data);
}

/* As a server would; with the mutex held. */
static void serve(struct fake_weir *fake, const struct weir_resp_command *command, char *answer)
{
    struct weir_slice owner = command->args[2];
    bool own = fake->held && owner.size == fake->owner_size && memcmp(owner.data, fake->owner, owner.size) == 0;
    if (weir_resp_is(command->args[0], "weir.unlock")) {
        fake->held = fake->held && !own;
        sprintf(answer, ":%d\r\n", own);
        return;
    }
    if (weir_resp_is(command->args[0], "weir.lock") && !fake->held) {
        fake->held = own = true;
        memcpy(fake->owner, owner.data, owner.size);
        fake->owner_size = owner.size;
        fake->number++;
    }
    if (own)
        sprintf(answer, "*4\r\n:1\r\n:7\r\n:%d\r\n:%d\r\n", (int)fake->number, (int)fake->lease_ms);
    else
        sprintf(answer, "*2\r\n:0\r\n:1234\r\n");
}

static void act_on(struct fake_weir *fake, enum fake_act act, const struct weir_resp_command *command, char *answer)
{
    bool unlock = weir_resp_is(command->args[0], "weir.unlock");
    if (act != FAKE_SILENT)
        serve(fake, command, answer);
    switch (act) {
    case FAKE_UNKNOWN:
        strcpy(answer, unlock ? ":-2\r\n" : "*1\r\n:-2\r\n");
        break;
    case FAKE_DENY:
        fake->held = true;
        fake->owner_size = 0;
        strcpy(answer, unlock ? ":0\r\n" : "*2\r\n:0\r\n:500\r\n");
        break;
    case FAKE_ERROR:
        strcpy(answer, "-DOWN the store fails\r\n");
        break;
    case FAKE_FULL:
        strcpy(answer, "-LIMIT too many wait\r\n");
        break;
    case FAKE_GARBAGE:
        strcpy(answer, "HTTP/1.1 400 Bad Request\r\n");
        break;
    case FAKE_ODD:
        strcpy(answer, "*3\r\n:1\r\n:2\r\n$1\r\nx\r\n");
        break;
    case FAKE_OTHER:
        strcpy(answer, "*4\r\n:1\r\n:7\r\n:99\r\n:60000\r\n");
        break;
    default:
        break;
    }
}

static void answer_send(int fd, enum fake_act act, long slow_ms, const char *answer)
{
    size_t size = strlen(answer);
    if (act == FAKE_SLOW)
        sleep_ms(slow_ms);
    for (size_t i = 0; act == FAKE_PIECES && i + 1 < size; i++) {
        (void)send(fd, answer++, 1, MSG_NOSIGNAL);
        sleep_ms(1);
    }
    (void)send(fd, answer, strlen(answer), MSG_NOSIGNAL);
}

/* False: the connection is to be closed. */
static bool command_serve(struct fake_weir *fake, int fd, const struct weir_resp_command *command)
{
    char answer[256] = "";
    enum fake_act act = FAKE_SERVE;
    pthread_mutex_lock(&fake->mutex);
    long slow_ms = fake->slow_ms;
    if (weir_resp_is(command->args[0], "hello")) {
        join_words(command, fake->hello);
        sprintf(answer, "*4\r\n$6\r\nserver\r\n$%zu\r\n%s\r\n$5\r\nproto\r\n:2\r\n", strlen(fake->server),
                fake->server);
    } else {
        act = fake->acts_at < fake->acts_count ? fake->acts[fake->acts_at++] : FAKE_SERVE;
        join_words(command, fake->commands[fake->commands_count++ % FAKE_COMMANDS_MAX]);
        act_on(fake, act, command, answer);
    }
    pthread_mutex_unlock(&fake->mutex);
    if (act != FAKE_DROP)
        answer_send(fd, act, slow_ms, answer);
    return act != FAKE_DROP;
}

static void *talk(void *argument)
{
    struct connection *connection = argument;
    static const struct weir_resp_bounds bounds = { 16, 8192 };
    struct weir_resp_command *command = malloc(sizeof(*command));
    struct weir_resp_progress progress = { 0 };
    uint8_t data[8192];
    size_t have = 0;
    for (ssize_t got; (got = recv(connection->fd, data + have, sizeof(data) - have, 0)) > 0;) {
        have += (size_t)got;
        if (weir_resp_parse(&progress, data, have, &bounds, command) != 0)
            continue;
        if (!command_serve(connection->fake, connection->fd, command))
            break;
        have = 0; /* one question at a time */
        progress = (struct weir_resp_progress){ 0 };
    }
    shutdown(connection->fd, SHUT_RDWR);
    free(command);
    free(connection);
    return NULL;
}

static void *accept_all(void *argument)
{
    struct fake_weir *fake = argument;
    for (int fd; (fd = accept(fake->listener, NULL, NULL)) >= 0;) {
        struct connection *connection = malloc(sizeof(*connection));
        *connection = (struct connection){ fake, fd };
        pthread_mutex_lock(&fake->mutex);
        assert_true(fake->connections < FAKE_CONNECTIONS_MAX);
        fake->fds[fake->connections] = fd;
        assert_int_equal(pthread_create(&fake->talking[fake->connections++], NULL, talk, connection), 0);
        pthread_mutex_unlock(&fake->mutex);
    }
    return NULL;
}

void fake_weir_start(struct fake_weir *fake, uint64_t lease_ms)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(at);
    *fake = (struct fake_weir){ .server = "weir", .lease_ms = lease_ms, .slow_ms = 300 };
    fake->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fake->listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fake->listener, 16), 0);
    assert_int_equal(getsockname(fake->listener, (struct sockaddr *)&at, &size), 0);
    snprintf(fake->address, sizeof(fake->address), "127.0.0.1:%d", ntohs(at.sin_port));
    assert_int_equal(pthread_mutex_init(&fake->mutex, NULL), 0);
    assert_int_equal(pthread_create(&fake->accepting, NULL, accept_all, fake), 0);
}

void fake_weir_stop(struct fake_weir *fake)
{
    if (fake->listener < 0)
        return;
    shutdown(fake->listener, SHUT_RDWR);
    pthread_join(fake->accepting, NULL);
    close(fake->listener);
    fake->listener = -1;
    for (size_t i = 0; i < fake->connections; i++) {
        shutdown(fake->fds[i], SHUT_RDWR);
        pthread_join(fake->talking[i], NULL);
        close(fake->fds[i]);
    }
    pthread_mutex_destroy(&fake->mutex);
}

void fake_weir_plan(struct fake_weir *fake, const enum fake_act *acts, size_t count)
{
    pthread_mutex_lock(&fake->mutex);
    assert_true(count <= sizeof(fake->acts) / sizeof(fake->acts[0]));
    memcpy(fake->acts, acts, count * sizeof(*acts));
    fake->acts_count = count;
    fake->acts_at = 0;
    pthread_mutex_unlock(&fake->mutex);
}

size_t fake_weir_count(struct fake_weir *fake, const char *verb)
{
    size_t count = 0;
    size_t size = strlen(verb);
    pthread_mutex_lock(&fake->mutex);
    for (size_t i = 0; i < fake->commands_count && i < FAKE_COMMANDS_MAX; i++)
        count += strncmp(fake->commands[i], verb, size) == 0 && fake->commands[i][size] == ' ';
    pthread_mutex_unlock(&fake->mutex);
    return count;
}

void fake_weir_command(struct fake_weir *fake, size_t index, char text[FAKE_TEXT_MAX])
{
    pthread_mutex_lock(&fake->mutex);
    assert_true(index < fake->commands_count);
    strcpy(text, fake->commands[index]);
    pthread_mutex_unlock(&fake->mutex);
}
