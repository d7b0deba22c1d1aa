/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_echo PATH|- REQUEST_BYTES REPLY: the floor of a server. Answers every REQUEST_BYTES it reads with REPLY (its
 * lines separated by commas: "*1,:0") and looks at nothing. "-" listens on a free port of 127.0.0.1, else on the Unix
 * socket PATH. Prints "port N" (0 for a Unix socket) when it is ready and serves until it is killed. */
#include "measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FDS_MAX 1024
#define READ_BYTES 65536
#define REPLY_MAX 256

struct echo {
    int epoll;
    int listener;
    size_t request_size;
    size_t reply_size;
    char *replies;          /* the reply as often as one read can ask for it */
    size_t behind[FDS_MAX]; /* bytes of a request begun, by descriptor */
    char in[READ_BYTES];
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int listen_at(const char *path)
{
    int fd;
    if (strcmp(path, "-") == 0) {
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof address;
        fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 1024) != 0 ||
            getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
            fail("listen");
        }
        printf("port %d\n", ntohs(address.sin_port));
    } else {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        if (strlen(path) >= sizeof address.sun_path) {
            fprintf(stderr, "PATH is longer than %zu\n", sizeof address.sun_path - 1);
            exit(2);
        }
        memcpy(address.sun_path, path, strlen(path) + 1);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 1024) != 0) {
            fail("listen");
        }
        puts("port 0");
    }
    fflush(stdout);
    return fd;
}

static void prepare_replies(struct echo *echo, const char *text)
{
    char reply[REPLY_MAX];
    size_t size = 0;
    for (; *text != '\0' && size + 3 < sizeof reply; text++) {
        if (*text == ',') {
            reply[size++] = '\r';
            reply[size++] = '\n';
        } else {
            reply[size++] = *text;
        }
    }
    reply[size++] = '\r';
    reply[size++] = '\n';
    size_t most = READ_BYTES / echo->request_size + 1;
    echo->reply_size = size;
    echo->replies = malloc(most * size);
    if (echo->replies == NULL || *text != '\0') {
        fail("reply");
    }
    for (size_t i = 0; i < most; i++) {
        memcpy(echo->replies + i * size, reply, size);
    }
}

static void watch(struct echo *echo, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
    if (epoll_ctl(echo->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        fail("epoll_ctl");
    }
}

static void accept_all(struct echo *echo)
{
    int fd;
    while ((fd = accept4(echo->listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        int on = 1;
        if (fd >= FDS_MAX) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* refused by a Unix socket, which needs none */
        echo->behind[fd] = 0;
        watch(echo, fd);
    }
}

static void answer(struct echo *echo, int fd)
{
    ssize_t got = recv(fd, echo->in, sizeof echo->in, 0);
    if (got < 0 && errno == EAGAIN) {
        return;
    }
    if (got <= 0) {
        close(fd);
        return;
    }
    size_t pending = echo->behind[fd] + (size_t)got;
    size_t size = pending / echo->request_size * echo->reply_size;
    echo->behind[fd] = pending % echo->request_size;
    /* The peer waits for its whole pipeline before it writes again, so a socket's buffer always has room. */
    if (size > 0 && send(fd, echo->replies, size, MSG_NOSIGNAL) != (ssize_t)size) {
        close(fd);
    }
}

int main(int argc, char **argv)
{
    static struct echo echo;
    if (argc != 4) {
        fputs("usage: bench_echo PATH|- REQUEST_BYTES REPLY\n", stderr);
        return 2;
    }
    echo.request_size = measure_argument(argc, argv, 2, 1, 4096, "REQUEST_BYTES");
    prepare_replies(&echo, argv[3]);
    echo.epoll = epoll_create1(0);
    echo.listener = listen_at(argv[1]);
    watch(&echo, echo.listener);
    for (;;) {
        struct epoll_event events[128];
        int count = epoll_wait(echo.epoll, events, 128, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == echo.listener) {
                accept_all(&echo);
            } else {
                answer(&echo, events[i].data.fd);
            }
        }
    }
}
