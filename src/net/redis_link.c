/* SPDX-License-Identifier: Apache-2.0
 *
 * A state machine, driven by a uv_poll on the socket: look up, connect, shake hands, open. If one address of a host
 * fails, the next one is tried. A link that is closed from within one of its callbacks is freed when that callback
 * ends. Called by redis_conn.c, which has the commands; TLS is in redis_tls.c, and limits/redis/server.c decides
 * when to connect again. */
#include "net/redis_link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "net/redis_tls.h"
#include "weir/error.h"

#define READ_SIZE ((size_t)64 << 10)
#define READS_PER_TURN 4 /* then others of the loop get their turn */

enum state { LOOKING_UP, CONNECTING, SHAKING_HANDS, OPEN, BROKEN, CLOSED };

struct weir_redis_link {
    uv_loop_t *loop;
    struct weir_redis_place place;
    struct weir_redis_link_owner owner;
    enum state state;
    uv_getaddrinfo_t lookup;
    bool looking_up;
    struct addrinfo *found, *next; /* addresses of the host, and the one to try after this */
    uv_poll_t *poll;               /* of fd; its own memory, because libuv closes it later */
    int fd;
    int events; /* that the poll waits for */
    SSL *ssl;
    bool blocked;   /* a send took less than all */
    unsigned calls; /* of on_poll and on_looked_up that are on the stack: who closes must not free under them */
};

static void on_poll(uv_poll_t *poll, int status, int events);

static void wait_for(struct weir_redis_link *link, int events)
{
    if (link->events == events)
        return;
    link->events = events;
    int error = uv_poll_start(link->poll, events, on_poll);
    weir_assert(error == 0);
}

static void free_poll(uv_handle_t *handle)
{
    free(handle);
}

/* Closes the socket, if there is one. */
static void drop_socket(struct weir_redis_link *link)
{
    SSL_free(link->ssl);
    link->ssl = NULL;
    if (link->poll) {
        uv_poll_stop(link->poll);
        uv_close((uv_handle_t *)link->poll, free_poll);
        link->poll = NULL;
    }
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    link->events = 0;
}

static void break_off(struct weir_redis_link *link, const char *why)
{
    if (link->state == BROKEN || link->state == CLOSED)
        return;
    link->state = BROKEN;
    char copy[160]; /* `why` may be the socket's */
    snprintf(copy, sizeof copy, "%s", why);
    drop_socket(link);
    link->owner.broken(link->owner.context, copy);
}

/* A callback of libuv's ends: what was closed in it goes now. */
static void leave(struct weir_redis_link *link)
{
    link->calls--;
    if (link->state == CLOSED && link->calls == 0)
        free(link);
}

static int watch(struct weir_redis_link *link, int fd)
{
    uv_poll_t *poll = calloc(1, sizeof *poll);
    if (!poll)
        return ENOMEM;
    int error = uv_poll_init(link->loop, poll, fd);
    if (error) {
        free(poll);
        return -error;
    }
    poll->data = link;
    link->poll = poll;
    link->fd = fd;
    wait_for(link, UV_WRITABLE);
    return 0;
}

/* 0, or an errno. A connection that is made at once is seen by the poll like any other. */
static int start_connect(struct weir_redis_link *link, const struct sockaddr *address, socklen_t size)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int on = 1;
    if (address->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int error = connect(fd, address, size) == 0 || errno == EINPROGRESS ? 0 : errno;
    if (!error)
        error = watch(link, fd);
    if (error)
        close(fd);
    else
        link->state = CONNECTING;
    return error;
}

/* Tries the host's addresses from link->next on; the errno of the last that failed at once. */
static int try_next(struct weir_redis_link *link, int error)
{
    while (link->next) {
        struct addrinfo *address = link->next;
        link->next = address->ai_next;
        error = start_connect(link, address->ai_addr, address->ai_addrlen);
        if (!error)
            return 0;
    }
    return error;
}

static void on_looked_up(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found)
{
    struct weir_redis_link *link = lookup->data;
    link->looking_up = false;
    link->calls++;
    if (link->state == CLOSED) {
        uv_freeaddrinfo(found);
    } else if (status) {
        break_off(link, uv_strerror(status));
    } else {
        link->found = link->next = found;
        int error = try_next(link, EADDRNOTAVAIL);
        if (error)
            break_off(link, strerror(error));
    }
    leave(link);
}

/* An address in numbers needs no look-up. 0, an errno, or -1: it is a name. */
static int connect_numeric(struct weir_redis_link *link)
{
    const struct weir_redis_place *place = &link->place;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (uv_ip4_addr(place->host, place->port, &v4) == 0)
        return start_connect(link, (const struct sockaddr *)&v4, sizeof v4);
    if (uv_ip6_addr(place->host, place->port, &v6) == 0)
        return start_connect(link, (const struct sockaddr *)&v6, sizeof v6);
    return -1;
}

static int connect_path(struct weir_redis_link *link)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t size = strlen(link->place.path);
    if (size >= sizeof address.sun_path)
        return ENAMETOOLONG;
    memcpy(address.sun_path, link->place.path, size);
    return start_connect(link, (const struct sockaddr *)&address, sizeof address);
}

static int look_up(struct weir_redis_link *link)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
    char port[8];
    snprintf(port, sizeof port, "%u", (unsigned)link->place.port);
    link->lookup.data = link;
    int error = uv_getaddrinfo(link->loop, &link->lookup, on_looked_up, link->place.host, port, &hints);
    link->looking_up = error == 0;
    return -error;
}

int weir_redis_link_open(uv_loop_t *loop, const struct weir_redis_place *place,
                         const struct weir_redis_link_owner *owner, struct weir_redis_link **ret_link)
{
    struct weir_redis_link *link = calloc(1, sizeof *link);
    if (!link)
        return WEIR_ENOMEM;
    *link = (struct weir_redis_link){ .loop = loop, .place = *place, .owner = *owner, .fd = -1 };
    int error = place->path && place->path[0] ? connect_path(link) : connect_numeric(link);
    if (error == -1)
        error = look_up(link);
    if (error) {
        free(link);
        errno = error;
        return WEIR_EIO;
    }
    *ret_link = link;
    return 0;
}

/* ---- once connected ---- */

static void opened(struct weir_redis_link *link)
{
    link->state = OPEN;
    wait_for(link, UV_READABLE);
    link->owner.opened(link->owner.context);
}

static void shake_hands(struct weir_redis_link *link)
{
    bool wants_write;
    if (weir_redis_tls_handshake(link->ssl, &wants_write) == 0) {
        opened(link);
    } else if (errno == EAGAIN) {
        wait_for(link, wants_write ? UV_READABLE | UV_WRITABLE : UV_READABLE);
    } else {
        char why[160];
        weir_redis_tls_explain(link->ssl, why, sizeof why);
        break_off(link, why);
    }
}

static void connected(struct weir_redis_link *link)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (error) {
        drop_socket(link);
        error = try_next(link, error);
        if (error)
            break_off(link, strerror(error));
    } else if (link->place.tls) {
        link->ssl = weir_redis_tls_connect(link->place.tls, link->fd, link->place.tls_name);
        link->state = SHAKING_HANDS;
        if (link->ssl)
            shake_hands(link);
        else
            break_off(link, "no memory for TLS");
    } else {
        opened(link);
    }
}

static ssize_t receive(struct weir_redis_link *link, void *data, size_t size)
{
    return link->ssl ? weir_redis_tls_recv(link->ssl, data, size) : recv(link->fd, data, size, 0);
}

static void read_bytes(struct weir_redis_link *link)
{
    char data[READ_SIZE];
    for (int i = 0; i < READS_PER_TURN || (link->ssl && SSL_pending(link->ssl) > 0); i++) {
        ssize_t got = receive(link, data, sizeof data);
        if (got > 0)
            link->owner.heard(link->owner.context, data, (size_t)got);
        else if (got == 0)
            break_off(link, "it closed the connection");
        else if (errno != EAGAIN && errno != EINTR)
            break_off(link, strerror(errno));
        if (got <= 0 || link->state != OPEN)
            return;
        if (!link->ssl && (size_t)got < sizeof data)
            return;
    }
}

static void on_open_events(struct weir_redis_link *link, int events)
{
    /* Under TLS a send may have waited for bytes to read: any event is a reason to try again. */
    if (link->blocked && (link->ssl || (events & UV_WRITABLE))) {
        link->blocked = false;
        wait_for(link, UV_READABLE);
        link->owner.writable(link->owner.context);
    }
    if (link->state == OPEN && (events & UV_READABLE))
        read_bytes(link);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct weir_redis_link *link = poll->data;
    link->calls++;
    if (link->state == CONNECTING)
        connected(link);
    else if (status)
        break_off(link, uv_strerror(status));
    else if (link->state == SHAKING_HANDS)
        shake_hands(link);
    else if (link->state == OPEN)
        on_open_events(link, events);
    leave(link);
}

size_t weir_redis_link_send(struct weir_redis_link *link, const char *data, size_t size)
{
    size_t done = 0;
    while (done < size && !link->blocked && link->state == OPEN) {
        ssize_t sent = link->ssl ? weir_redis_tls_send(link->ssl, data + done, size - done)
                                 : send(link->fd, data + done, size - done, MSG_NOSIGNAL);
        if (sent > 0) {
            done += (size_t)sent;
        } else if (sent < 0 && errno == EINTR) {
            continue;
        } else {
            /* A broken socket is readable: the poll tells the owner, who is not called back from here. */
            link->blocked = true;
            wait_for(link, UV_READABLE | UV_WRITABLE);
        }
    }
    return done;
}

bool weir_redis_link_shakes_hands(const struct weir_redis_link *link)
{
    return link && link->state == SHAKING_HANDS;
}

void weir_redis_link_close(struct weir_redis_link *link)
{
    if (!link)
        return;
    drop_socket(link);
    link->state = CLOSED;
    if (link->found)
        uv_freeaddrinfo(link->found);
    link->found = link->next = NULL;
    if (link->looking_up)
        uv_cancel((uv_req_t *)&link->lookup); /* freed by on_looked_up, cancelled or not */
    else if (link->calls == 0)
        free(link);
}
