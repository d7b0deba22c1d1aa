/* SPDX-License-Identifier: Apache-2.0
 *
 * SOCK_SEQPACKET: each message arrives whole, and the end of the other process is told by the kernel after all that it
 * had said, however it ended. Called by takeover.c, takeover_join.c and conn_hand.c. */
#include "serve/takeover_channel.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/fault_format.h"

#define MAGIC UINT32_C(0x57544f31)

struct head {
    uint32_t magic;
    uint16_t kind;
    uint16_t fds_count;
    uint32_t size;
    uint32_t spare;
};

union control {
    struct cmsghdr align;
    char room[CMSG_SPACE(sizeof(int) * WEIR_TAKEOVER_FDS_MAX)];
};

/* ---- the socket ---- */

static int locate(const char *path, struct sockaddr_un *ret_place, struct weir_fault *ret_fault)
{
    *ret_place = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (path[0] == '\0' || strlen(path) >= sizeof(ret_place->sun_path))
        return weir_fault_format(ret_fault, WEIR_ERANGE, "take-over", "the path must have 1 to %zu bytes",
                                 sizeof(ret_place->sun_path) - 1);
    memcpy(ret_place->sun_path, path, strlen(path));
    return 0;
}

static int cannot(const char *what, const char *path, struct weir_fault *ret_fault)
{
    return weir_fault_format(ret_fault, WEIR_EIO, "take-over", "cannot %s %.100s: %s", what, path, strerror(errno));
}

int weir_takeover_connect(const char *path, int *ret_fd, struct weir_fault *ret_fault)
{
    struct sockaddr_un place;
    int32_t pid;
    int error = locate(path, &place, ret_fault);
    if (error)
        return error;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return cannot("open a socket for", path, ret_fault);
    if (connect(fd, (const struct sockaddr *)&place, sizeof(place))) {
        bool nobody = errno == ENOENT || errno == ECONNREFUSED;
        error = nobody ? WEIR_ENOENT : cannot("connect to", path, ret_fault);
    } else if (!weir_takeover_is_own(fd, &pid)) {
        error = weir_fault_format(ret_fault, WEIR_EHELD, "take-over", "%.100s is another user's", path);
    }
    if (error) {
        close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

/* A file that nobody listens at is replaced; one that is no socket is not. */
static int make_place(const char *path, struct weir_fault *ret_fault)
{
    struct stat file;
    int fd = -1;
    if (lstat(path, &file))
        return 0;
    if (!S_ISSOCK(file.st_mode))
        return weir_fault_format(ret_fault, WEIR_EIO, "take-over", "%.100s is there and is no socket", path);
    int error = weir_takeover_connect(path, &fd, ret_fault);
    if (error == WEIR_ENOENT)
        return unlink(path) == 0 || errno == ENOENT ? 0 : cannot("replace", path, ret_fault);
    if (error)
        return error;
    close(fd);
    return weir_fault_format(ret_fault, WEIR_EEXIST, "take-over", "another weir listens at %.100s", path);
}

int weir_takeover_listen(const char *path, int *ret_fd, struct weir_fault *ret_fault)
{
    struct sockaddr_un place;
    int error = locate(path, &place, ret_fault);
    if (!error)
        error = make_place(path, ret_fault);
    if (error)
        return error;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Its mode before it has a name, so that nobody can come in between. */
    if (fd < 0 || fchmod(fd, S_IRUSR | S_IWUSR) || bind(fd, (const struct sockaddr *)&place, sizeof(place)) ||
        listen(fd, 4)) {
        error = cannot("listen at", path, ret_fault);
        if (fd >= 0)
            close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

bool weir_takeover_is_own(int fd, int32_t *ret_pid)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
        return false;
    *ret_pid = peer.pid;
    return peer.uid == geteuid() || peer.uid == 0;
}

/* ---- messages ---- */

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int weir_takeover_send(int fd, enum weir_takeover_kind kind, const void *body, size_t size, const int *fds,
                       size_t fds_count)
{
    struct head head = {
        .magic = MAGIC, .kind = (uint16_t)kind, .fds_count = (uint16_t)fds_count, .size = (uint32_t)size
    };
    struct iovec parts[] = { { &head, sizeof(head) }, { (void *)(uintptr_t)body, size } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = size > 0 ? 2 : 1 };
    union control control = { .room = { 0 } };
    const int64_t until_ms = now_ms() + WEIR_TAKEOVER_SEND_MS;
    weir_assert(size <= WEIR_TAKEOVER_BODY_MAX && fds_count <= WEIR_TAKEOVER_FDS_MAX);
    if (fds_count > 0) {
        message.msg_control = control.room;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fds_count);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int) * fds_count);
        memcpy(CMSG_DATA(rights), fds, sizeof(int) * fds_count);
    }
    for (;;) {
        if (sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            return 0;
        int64_t left_ms = until_ms - now_ms();
        /* ETOOMANYREFS: so many descriptors are on their way as this user may have open; the other side takes them. */
        bool waits = errno == EAGAIN || errno == EINTR || errno == ETOOMANYREFS || errno == ENOBUFS;
        if (!waits || left_ms <= 0)
            return WEIR_EIO;
        struct pollfd room = { .fd = fd, .events = errno == EAGAIN ? POLLOUT : 0 };
        (void)poll(&room, 1, errno == EAGAIN ? (int)left_ms : 1);
    }
}

/* 0 with *ret_got: bytes; 0 of them is the end. */
static int receive_once(int fd, struct msghdr *message, ssize_t *ret_got)
{
    bool reset = false;
    for (;;) {
        *ret_got = recvmsg(fd, message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (*ret_got >= 0)
            return 0;
        /* The other process ended with words of ours unread: what it had said is behind that. */
        if (errno == ECONNRESET && !reset)
            reset = true;
        else if (errno != EINTR)
            return errno == EAGAIN ? WEIR_EAGAIN : WEIR_EIO;
    }
}

static void take_fds(struct msghdr *message, struct weir_takeover_message *ret_message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int got;
            memcpy(&got, CMSG_DATA(part) + i * sizeof(int), sizeof(got));
            if (ret_message->fds_count < WEIR_TAKEOVER_FDS_MAX)
                ret_message->fds[ret_message->fds_count++] = got;
            else
                close(got);
        }
    }
}

static int receive_now(int fd, struct weir_takeover_message *ret_message)
{
    struct head head = { 0 };
    struct iovec parts[] = { { &head, sizeof(head) }, { ret_message->body, sizeof(ret_message->body) } };
    union control control;
    struct msghdr message = {
        .msg_iov = parts, .msg_iovlen = 2, .msg_control = control.room, .msg_controllen = sizeof(control.room)
    };
    ssize_t got;
    int error = receive_once(fd, &message, &got);
    if (error)
        return error;
    if (got == 0)
        return WEIR_EIO;
    take_fds(&message, ret_message);
    ret_message->kind = (enum weir_takeover_kind)head.kind;
    ret_message->size = head.size;
    if ((size_t)got >= sizeof(head) && head.magic == MAGIC && head.kind >= WEIR_TAKEOVER_HELLO &&
        head.kind < WEIR_TAKEOVER_KINDS && (size_t)got == sizeof(head) + head.size &&
        head.fds_count == ret_message->fds_count && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return 0;
    weir_takeover_drop(ret_message);
    return message.msg_flags & MSG_CTRUNC ? WEIR_ELIMIT : WEIR_EPROTO;
}

int weir_takeover_receive(int fd, int timeout_ms, struct weir_takeover_message *ret_message)
{
    const int64_t until_ms = now_ms() + timeout_ms;
    ret_message->fds_count = 0;
    for (;;) {
        int error = receive_now(fd, ret_message);
        int64_t left_ms = until_ms - now_ms();
        if (error != WEIR_EAGAIN || left_ms <= 0)
            return error;
        struct pollfd come = { .fd = fd, .events = POLLIN };
        (void)poll(&come, 1, (int)left_ms);
    }
}

bool weir_takeover_body(const struct weir_takeover_message *message, void *ret_body, size_t size)
{
    if (message->size != size)
        return false;
    memcpy(ret_body, message->body, size);
    return true;
}

void weir_takeover_drop(struct weir_takeover_message *message)
{
    for (size_t i = 0; i < message->fds_count; i++)
        if (message->fds[i] >= 0)
            close(message->fds[i]);
    message->fds_count = 0;
}

void weir_takeover_taken_free(struct weir_takeover_taken *taken)
{
    if (taken->fd >= 0)
        close(taken->fd);
    free(taken);
}
