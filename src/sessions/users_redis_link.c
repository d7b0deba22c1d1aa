/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening tries the hosts in turn, first the one that was the primary last: connect, AUTH and SELECT where the URL has
 * them, INFO, which must name it the primary, SCRIPT LOAD. Then there is one command at a time: it is sent, and poll()
 * waits until the reply is whole. Called by users_redis.c, which has the commands. The connections of the limits'
 * engine are in net/redis_conn.c. */
#include "sessions/users_redis_link.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "sessions/users_floor.h"

/* False, always, with a text that says where. */
__attribute__((format(printf, 2, 3))) static bool fail(struct weir_users_redis_link *link, const char *format, ...)
{
    va_list arguments;
    int at = snprintf(link->fault, sizeof link->fault, "%.64s:%s: ", link->url->hosts[link->first].name,
                      link->url->hosts[link->first].port);
    va_start(arguments, format);
    vsnprintf(link->fault + at, sizeof link->fault - (size_t)at, format, arguments);
    va_end(arguments);
    return false;
}

void weir_users_redis_link_init(struct weir_users_redis_link *link, const struct weir_users_redis_url *url,
                                const char *script)
{
    *link = (struct weir_users_redis_link){ .url = url, .script = script, .fd = -1 };
}

void weir_users_redis_link_close(struct weir_users_redis_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    weir_redis_reader_deinit(&link->reader);
}

/* Waits for `events`. False: not by the deadline. */
static bool wait_for(int fd, short events, uint64_t deadline_ns)
{
    struct pollfd poller = { .fd = fd, .events = events };
    for (;;) {
        uint64_t left_ns = weir_sub_sat(deadline_ns, weir_users_now_ns());
        int ready = poll(&poller, 1, (int)weir_min_u64(weir_div_ceil(left_ns, 1000000), 60000));
        if (ready > 0)
            return true;
        if ((ready < 0 && errno != EINTR) || left_ns == 0)
            return false;
    }
}

/* ---- commands ---- */

static bool send_all(struct weir_users_redis_link *link, const char *data, size_t size, uint64_t deadline_ns)
{
    while (size > 0) {
        ssize_t sent = send(link->fd, data, size, MSG_NOSIGNAL);
        if (sent >= 0) {
            data += sent;
            size -= (size_t)sent;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!wait_for(link->fd, POLLOUT, deadline_ns))
                return fail(link, "takes no commands in time");
        } else if (errno != EINTR) {
            return fail(link, "%s", strerror(errno));
        }
    }
    return true;
}

/* What has come, to the reader. */
static bool receive(struct weir_users_redis_link *link, uint64_t deadline_ns)
{
    char data[4096];
    ssize_t size = recv(link->fd, data, sizeof data, 0);
    if (size > 0)
        return weir_redis_reader_feed(&link->reader, data, (size_t)size) == 0 || fail(link, "out of memory");
    if (size == 0)
        return fail(link, "closed the connection");
    if (errno == EINTR)
        return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
        return fail(link, "%s", strerror(errno));
    return wait_for(link->fd, POLLIN, deadline_ns) || fail(link, "does not answer in time");
}

static bool hear(struct weir_users_redis_link *link, uint64_t deadline_ns, redisReply **ret_reply)
{
    for (;;) {
        int error = weir_redis_reader_next(&link->reader, ret_reply);
        if (error == 0)
            return true;
        if (error != WEIR_EAGAIN)
            return fail(link, "answers what is no reply of Redis");
        /* A server that drips its answer byte by byte is late all the same. */
        if (weir_users_now_ns() >= deadline_ns)
            return fail(link, "does not answer in time");
        if (!receive(link, deadline_ns))
            return false;
    }
}

bool weir_users_redis_link_ask(struct weir_users_redis_link *link, int argc, const char *const *argv,
                               const size_t *sizes, uint64_t deadline_ns, redisReply **ret_reply)
{
    char *command = NULL;
    int size = redisFormatCommandArgv(&command, argc, (const char **)(uintptr_t)argv, sizes);
    bool done = size < 0 ? fail(link, "out of memory")
                         : send_all(link, command, (size_t)size, deadline_ns) && hear(link, deadline_ns, ret_reply);
    free(command);
    if (!done)
        weir_users_redis_link_close(link);
    return done;
}

/* ---- opening ---- */

/* A command of words. NULL: no reply, or an error. */
static redisReply *tell(struct weir_users_redis_link *link, int argc, const char *const *argv, uint64_t deadline_ns)
{
    redisReply *reply = NULL;
    if (!weir_users_redis_link_ask(link, argc, argv, NULL, deadline_ns, &reply))
        return NULL;
    if (reply->type != REDIS_REPLY_ERROR)
        return reply;
    if (strcmp(argv[0], "AUTH") == 0) /* the rest may quote the password, or a part of it */
        fail(link, "refuses AUTH: %.*s", (int)strcspn(reply->str, " \r\n"), reply->str);
    else
        fail(link, "%.100s", reply->str);
    freeReplyObject(reply);
    return NULL;
}

static bool tell_done(struct weir_users_redis_link *link, int argc, const char *const *argv, uint64_t deadline_ns)
{
    redisReply *reply = tell(link, argc, argv, deadline_ns);
    if (reply)
        freeReplyObject(reply);
    return reply != NULL;
}

/* The value of a line "name:value" of INFO. */
static bool info_value(const redisReply *info, const char *name, char *ret_value, size_t room)
{
    size_t size = strlen(name);
    for (const char *line = info->str; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, name, size) != 0 || line[size] != ':')
            continue;
        snprintf(ret_value, room, "%.*s", (int)strcspn(line + size + 1, "\r\n"), line + size + 1);
        return true;
    }
    return false;
}

static bool judge(struct weir_users_redis_link *link, const redisReply *info)
{
    char role[16] = "", policy[32] = "", memory[24] = "";
    if (info->type != REDIS_REPLY_STRING || !info_value(info, "role", role, sizeof role) ||
        !info_value(info, "run_id", link->run, sizeof link->run) || strspn(link->run, "0123456789abcdef") < 16)
        return fail(link, "INFO does not say who it is");
    if (strcmp(role, "master") != 0)
        return fail(link, "is a replica");
    (void)info_value(info, "maxmemory_policy", policy, sizeof policy);
    (void)info_value(info, "maxmemory", memory, sizeof memory);
    link->evicts = strcmp(policy, "noeviction") != 0 && strcmp(memory, "0") != 0;
    return true;
}

static bool greet(struct weir_users_redis_link *link, uint64_t deadline_ns)
{
    const struct weir_users_redis_url *url = link->url;
    const char *auth[3] = { "AUTH", url->user[0] ? url->user : url->password, url->password };
    const char *select[2] = { "SELECT", url->database };
    const char *info[1] = { "INFO" };
    const char *load[3] = { "SCRIPT", "LOAD", link->script };
    if ((url->user[0] || url->password[0]) && !tell_done(link, url->user[0] ? 3 : 2, auth, deadline_ns))
        return false;
    if (strcmp(url->database, "0") != 0 && !tell_done(link, 2, select, deadline_ns))
        return false;
    redisReply *reply = tell(link, 1, info, deadline_ns);
    bool good = reply && judge(link, reply);
    if (reply)
        freeReplyObject(reply);
    reply = good ? tell(link, 3, load, deadline_ns) : NULL;
    if (!reply)
        return false;
    good = reply->type == REDIS_REPLY_STRING && (size_t)reply->len < sizeof link->script_sha1;
    if (good)
        snprintf(link->script_sha1, sizeof link->script_sha1, "%s", reply->str);
    else
        fail(link, "SCRIPT LOAD answers no hash");
    freeReplyObject(reply);
    return good;
}

static bool connect_to(struct weir_users_redis_link *link, const struct addrinfo *address, uint64_t deadline_ns)
{
    int on = 1, failed = 0;
    socklen_t size = sizeof failed;
    link->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->fd < 0)
        return fail(link, "%s", strerror(errno));
    if (connect(link->fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS)
        return fail(link, "%s", strerror(errno));
    if (!wait_for(link->fd, POLLOUT, deadline_ns))
        return fail(link, "takes no connection in time");
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0 || failed != 0)
        return fail(link, "%s", strerror(failed ? failed : errno));
    (void)setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return weir_redis_reader_init(&link->reader) == 0 || fail(link, "out of memory");
}

/* The host that is first. */
static bool attempt(struct weir_users_redis_link *link, uint64_t deadline_ns)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    bool good = false;
    int error = getaddrinfo(link->url->hosts[link->first].name, link->url->hosts[link->first].port, &hints, &found);
    if (error)
        return fail(link, "%s", gai_strerror(error));
    for (const struct addrinfo *at = found; at && !good && weir_users_now_ns() < deadline_ns; at = at->ai_next) {
        good = connect_to(link, at, deadline_ns) && greet(link, deadline_ns);
        if (!good)
            weir_users_redis_link_close(link);
    }
    freeaddrinfo(found);
    return good;
}

bool weir_users_redis_link_open(struct weir_users_redis_link *link, uint64_t deadline_ns)
{
    unsigned count = link->url->host_count;
    /* Half of what is left for each but the last: one that is silent does not take all of it. */
    for (unsigned i = 0; i < count; i++) {
        uint64_t now_ns = weir_users_now_ns(), left_ns = weir_sub_sat(deadline_ns, now_ns);
        if (attempt(link, i + 1 < count ? now_ns + left_ns / 2 : deadline_ns))
            return true;
        link->first = (link->first + 1) % count;
    }
    return false;
}
