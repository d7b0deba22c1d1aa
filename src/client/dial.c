/* SPDX-License-Identifier: Apache-2.0
 *
 * Tries the addresses that getaddrinfo() finds one after another; each connect does not block and is waited for with
 * poll() until the deadline. TCP connections get TCP_NODELAY, since each carries one small command at a time. Called by
 * link.c; `weir check` connects in cli/client.c, which has TLS and HTTP. */
#include "client/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fault_format.h"
#include "client/clock.h"

static int bad(struct weir_fault *ret_fault, const char *text)
{
    return weir_fault_format(ret_fault, WEIR_EINVAL, "address", "%s", text);
}

int weir_dial_parse(const char *text, struct weir_dial_address *ret_address, struct weir_fault *ret_fault)
{
    struct weir_dial_address address = { 0 };
    if (strncmp(text, "unix:", 5) == 0) {
        address.local = true;
        text += 5;
        if (!*text || strlen(text) >= sizeof(((struct sockaddr_un *)0)->sun_path))
            return bad(ret_fault, "the path of a Unix socket must be 1 to 107 bytes");
        memcpy(address.host, text, strlen(text) + 1);
        *ret_address = address;
        return 0;
    }
    const char *colon = strrchr(text, ':');
    size_t size = colon ? (size_t)(colon - text) : 0;
    bool bracketed = size > 2 && text[0] == '[' && colon[-1] == ']';
    size -= bracketed ? 2 : 0;
    if (size == 0 || size >= sizeof(address.host) || !colon[1] || strlen(colon + 1) >= sizeof(address.port) ||
        strstr(text, "://"))
        return bad(ret_fault, "must be HOST:PORT, [IPV6]:PORT or unix:/path");
    memcpy(address.host, text + (bracketed ? 1 : 0), size);
    memcpy(address.port, colon + 1, strlen(colon + 1) + 1);
    *ret_address = address;
    return 0;
}

static int down(struct weir_fault *ret_fault, const char *text)
{
    return weir_fault_format(ret_fault, WEIR_EDOWN, "address", "%s", text);
}

/* Waits for a connect under way; 0 or an errno. */
static int connect_wait(int fd, uint64_t deadline_ns)
{
    struct pollfd waiting = { .fd = fd, .events = POLLOUT };
    int ready = 0;
    do {
        ready = poll(&waiting, 1, weir_clock_poll_ms(deadline_ns));
    } while (ready < 0 && errno == EINTR);
    int failure = 0;
    socklen_t size = sizeof(failure);
    if (ready == 0)
        return ETIMEDOUT;
    if (ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
        return errno;
    return failure;
}

static int connect_to(const struct sockaddr *at, socklen_t size, uint64_t deadline_ns, int *ret_fd,
                      struct weir_fault *ret_fault)
{
    int fd = socket(at->sa_family, SOCK_STREAM, 0);
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    int failure = 0;
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        failure = errno;
    else if (connect(fd, at, size) != 0)
        failure = errno == EINPROGRESS || errno == EINTR ? connect_wait(fd, deadline_ns) : errno;
    if (!failure) {
        *ret_fd = fd;
        return 0;
    }
    if (fd >= 0)
        (void)close(fd);
    return down(ret_fault, strerror(failure));
}

static int connect_tcp(const struct weir_dial_address *address, uint64_t deadline_ns, int *ret_fd,
                       struct weir_fault *ret_fault)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(address->host, address->port, &hints, &found);
    if (failed)
        return down(ret_fault, gai_strerror(failed));
    int error = WEIR_EDOWN;
    for (const struct addrinfo *at = found; at && error; at = at->ai_next)
        error = connect_to(at->ai_addr, at->ai_addrlen, deadline_ns, ret_fd, ret_fault);
    freeaddrinfo(found);
    const int on = 1;
    if (!error) /* questions are small and one at a time: nothing to gather */
        (void)setsockopt(*ret_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return error;
}

int weir_dial(const struct weir_dial_address *address, uint64_t deadline_ns, int *ret_fd, struct weir_fault *ret_fault)
{
    if (!address->local)
        return connect_tcp(address, deadline_ns, ret_fd, ret_fault);
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    memcpy(at.sun_path, address->host, strlen(address->host) + 1);
    return connect_to((const struct sockaddr *)&at, sizeof(at), deadline_ns, ret_fd, ret_fault);
}
