/* SPDX-License-Identifier: Apache-2.0
 *
 * The first TCP socket of an address is bound without SO_REUSEPORT, so that a second server fails; the other loops'
 * sockets join it with that option. A Unix socket is opened once and duplicated for the other loops; its file is
 * replaced only if a connection to it is refused. A socket that was passed (systemd.c) is shared by duplicates, too.
 * Called by opened.c; loop.c accepts the connections. */
#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/fault.h"

#define BACKLOG 1024
#define DESCRIPTORS_SPARE 64   /* for files, logs and what libraries open */
#define DESCRIPTORS_PER_LOOP 8 /* epoll, wake, timer, listeners */

struct place {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    } address;
    socklen_t size;
};

static int fail(struct weir_fault *fault, const char *name, const char *what)
{
    int number = errno;
    snprintf(fault->field, sizeof(fault->field), "listen");
    if (number == EADDRINUSE)
        snprintf(fault->text, sizeof(fault->text), "%.100s is in use: does another server run there?", name);
    else
        snprintf(fault->text, sizeof(fault->text), "%.80s: cannot %s: %s", name, what, strerror(number));
    return number == EADDRINUSE ? WEIR_EEXIST : WEIR_EIO;
}

static void name_address(const struct weir_address *address, uint16_t port, char name[WEIR_LISTEN_NAME_MAX])
{
    if (address->kind == WEIR_ADDRESS_UNIX)
        snprintf(name, WEIR_LISTEN_NAME_MAX, "unix:%s", address->path);
    else if (strchr(address->host, ':'))
        snprintf(name, WEIR_LISTEN_NAME_MAX, "[%s]:%u", address->host, port);
    else
        snprintf(name, WEIR_LISTEN_NAME_MAX, "%s:%u", address->host, port);
}

void weir_listen_name(const struct weir_address *address, char ret_name[WEIR_LISTEN_NAME_MAX])
{
    name_address(address, address->port, ret_name);
}

static int locate(const struct weir_address *address, struct place *ret_place)
{
    struct place place = { 0 };
    const char *host = strcmp(address->host, "localhost") == 0 ? "127.0.0.1" : address->host;
    if (address->kind == WEIR_ADDRESS_UNIX) {
        /* weir_address_parse has checked the length: bind would cut a longer path silently. */
        weir_assert(strlen(address->path) < sizeof(place.address.local.sun_path));
        place.address.local.sun_family = AF_UNIX;
        strcpy(place.address.local.sun_path, address->path);
        place.size = sizeof(place.address.local);
    } else if (inet_pton(AF_INET, host, &place.address.v4.sin_addr) == 1) {
        place.address.v4.sin_family = AF_INET;
        place.address.v4.sin_port = htons(address->port);
        place.size = sizeof(place.address.v4);
    } else if (inet_pton(AF_INET6, host, &place.address.v6.sin6_addr) == 1) {
        place.address.v6.sin6_family = AF_INET6;
        place.address.v6.sin6_port = htons(address->port);
        place.size = sizeof(place.address.v6);
    } else {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    *ret_place = place;
    return 0;
}

static int new_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static uint16_t bound_port(int fd)
{
    struct place place = { .size = sizeof(place.address) };
    if (getsockname(fd, &place.address.any, &place.size))
        return 0;
    return ntohs(place.address.any.sa_family == AF_INET6 ? place.address.v6.sin6_port : place.address.v4.sin_port);
}

/* The first socket is bound without SO_REUSEPORT, so that a second server gets EADDRINUSE instead of half of our
 * connections; it is set right after, so that the other loops' sockets can join. */
static int bind_tcp(const struct place *place, bool first)
{
    int on = 1;
    int fd = new_socket(place->address.any.sa_family);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (place->address.any.sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if ((!first && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on))) ||
        bind(fd, &place->address.any, place->size) ||
        (first && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on))) || listen(fd, BACKLOG)) {
        int number = errno;
        close(fd);
        errno = number;
        return -1;
    }
    return fd;
}

/* A socket file that is left over from a server that is gone: nobody answers there. */
static bool is_stale(const struct place *place)
{
    struct stat file;
    if (lstat(place->address.local.sun_path, &file) || !S_ISSOCK(file.st_mode))
        return false;
    int fd = new_socket(AF_UNIX);
    if (fd < 0)
        return false;
    bool refused = connect(fd, &place->address.any, place->size) && errno == ECONNREFUSED;
    close(fd);
    return refused;
}

static int bind_unix(const struct place *place)
{
    int fd = new_socket(AF_UNIX);
    if (fd < 0)
        return -1;
    int failed = bind(fd, &place->address.any, place->size);
    if (failed && errno == EADDRINUSE) {
        if (is_stale(place) && unlink(place->address.local.sun_path) == 0)
            failed = bind(fd, &place->address.any, place->size);
        else
            errno = EADDRINUSE;
    }
    if (failed || listen(fd, BACKLOG)) {
        int number = errno;
        close(fd);
        errno = number;
        return -1;
    }
    return fd;
}

/* The socket of one more loop. Unix sockets refuse SO_REUSEPORT: there the loops share one by duplicates. */
static int open_one(const struct weir_address *address, const struct place *place, size_t i, const int *fds)
{
    if (address->kind != WEIR_ADDRESS_UNIX)
        return bind_tcp(place, i == 0);
    return i == 0 ? bind_unix(place) : fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
}

static struct weir_listening file_of(const struct weir_address *address)
{
    struct stat file;
    if (address->kind != WEIR_ADDRESS_UNIX || lstat(address->path, &file))
        return (struct weir_listening){ .file = false };
    return (struct weir_listening){ .file = true,
                                    .device = file.st_dev,
                                    .inode = file.st_ino,
                                    .made_s = file.st_mtim.tv_sec,
                                    .made_ns = file.st_mtim.tv_nsec };
}

int weir_listen_open(const struct weir_address *address, size_t count, int *ret_fds,
                     struct weir_listening *ret_listening, struct weir_fault *ret_fault)
{
    weir_assert(address->kind != WEIR_ADDRESS_OFF);
    struct place place;
    struct weir_address bound = *address;
    *ret_listening = (struct weir_listening){ .file = false };
    name_address(&bound, bound.port, ret_listening->name);
    if (locate(&bound, &place))
        return fail(ret_fault, ret_listening->name, "use this address");

    for (size_t i = 0; i < count; i++) {
        ret_fds[i] = open_one(&bound, &place, i, ret_fds);
        if (ret_fds[i] < 0) {
            int error = fail(ret_fault, ret_listening->name, "listen");
            weir_listen_remove(&bound, ret_listening);
            while (i > 0)
                close(ret_fds[--i]);
            return error;
        }
        if (i == 0) {
            *ret_listening = file_of(&bound);
            name_address(&bound, bound.port, ret_listening->name);
        }
        if (i == 0 && bound.kind == WEIR_ADDRESS_TCP && bound.port == 0) {
            bound.port = bound_port(ret_fds[0]);
            (void)locate(&bound, &place);
        }
    }
    name_address(&bound, bound.port, ret_listening->name);
    return 0;
}

/* ---- passed by somebody else ---- */

static int option_of(int fd, int option)
{
    int value = -1;
    socklen_t size = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, option, &value, &size) ? -1 : value;
}

/* As the configuration would write it, so that it is judged like that. */
static int address_of(const struct place *place, struct weir_address *ret_address, struct weir_fault *ret_fault)
{
    char host[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 16];
    const struct sockaddr_un *local = &place->address.local;
    size_t size = place->size > offsetof(struct sockaddr_un, sun_path)
                      ? place->size - offsetof(struct sockaddr_un, sun_path)
                      : 0;
    switch (place->address.any.sa_family) {
    case AF_UNIX:
        *ret_address = (struct weir_address){ .kind = WEIR_ADDRESS_UNIX, .loopback = true };
        size = size < sizeof(ret_address->path) ? size : sizeof(ret_address->path) - 1;
        memcpy(ret_address->path, local->sun_path, size);
        if (size > 0 && local->sun_path[0] == '\0')
            ret_address->path[0] = '@';
        return 0;
    case AF_INET:
        inet_ntop(AF_INET, &place->address.v4.sin_addr, host, sizeof(host));
        (void)snprintf(text, sizeof(text), "%s:%u", host, ntohs(place->address.v4.sin_port));
        return weir_address_parse(text, ret_address, ret_fault);
    case AF_INET6:
        inet_ntop(AF_INET6, &place->address.v6.sin6_addr, host, sizeof(host));
        (void)snprintf(text, sizeof(text), "[%s]:%u", host, ntohs(place->address.v6.sin6_port));
        return weir_address_parse(text, ret_address, ret_fault);
    default:
        return weir_fault_set(ret_fault, WEIR_EINVAL, "listen", "is neither of TCP nor a Unix socket");
    }
}

int weir_listen_passed(int fd, struct weir_address *ret_address, struct weir_fault *ret_fault)
{
    struct place place = { .size = sizeof(place.address) };
    if (getsockname(fd, &place.address.any, &place.size))
        return weir_fault_set(ret_fault, WEIR_EINVAL, "listen", errno == EBADF ? "is not open" : "is no socket");
    if (option_of(fd, SO_TYPE) != SOCK_STREAM)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "listen", "is no stream: write ListenStream=");
    if (option_of(fd, SO_ACCEPTCONN) != 1)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "listen", "does not listen: write Accept=no");
    return address_of(&place, ret_address, ret_fault);
}

int weir_listen_share(const struct weir_address *address, int fd, size_t count, int *ret_fds,
                      struct weir_listening *ret_listening, struct weir_fault *ret_fault)
{
    int flags = fcntl(fd, F_GETFL);
    struct weir_listening listening = { .file = false };
    name_address(address, address->port, listening.name);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC))
        return fail(ret_fault, listening.name, "use this socket");
    ret_fds[0] = fd;
    for (size_t i = 1; i < count; i++) {
        ret_fds[i] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (ret_fds[i] < 0) {
            int error = fail(ret_fault, listening.name, "share this socket");
            while (i > 1)
                close(ret_fds[--i]);
            return error;
        }
    }
    *ret_listening = listening;
    return 0;
}

/* ---- the end ---- */

void weir_listen_remove(const struct weir_address *address, struct weir_listening *listening)
{
    const struct weir_listening now = file_of(address);
    if (listening->file && now.file && now.device == listening->device && now.inode == listening->inode &&
        now.made_s == listening->made_s && now.made_ns == listening->made_ns)
        unlink(address->path);
    listening->file = false;
}

size_t weir_listen_room(size_t loops)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return SIZE_MAX;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    size_t kept = DESCRIPTORS_SPARE + loops * DESCRIPTORS_PER_LOOP;
    return limit.rlim_cur > kept ? limit.rlim_cur - kept : 1;
}
