/* SPDX-License-Identifier: Apache-2.0
 *
 * The socket to tell with is opened once, at the start: later there may be no descriptor left, and the watchdog must be
 * told all the same. It is not kept connected: who listens may close its socket and open another one there. LISTEN_FDS
 * counts sockets from descriptor 3 on; which listener each is for, its name says, and where it listens, the kernel.
 * Called by cli/serve_listens.c and, to tell, by supervisor.c. */
#include "serve/systemd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/fault_format.h"
#include "base/nearest.h"
#include "base/plural.h"
#include "rules/number.h"
#include "serve/listen.h"

#define LISTEN_FDS_START 3

/* ---- numbers ---- */

static int read_number(const char *variable, const char *text, uint64_t *ret_number, struct weir_fault *ret_fault)
{
    int error = weir_number_parse(text, strlen(text), ret_number);
    return error ? weir_fault_format(ret_fault, error, variable, "is '%.40s', which is no number", text) : 0;
}

/* Whether `text`, a process's number, is `pid`: what is meant for another is none of our business. */
static int is_meant(const char *variable, const char *text, pid_t pid, bool *ret_meant, struct weir_fault *ret_fault)
{
    uint64_t number;
    int error = read_number(variable, text, &number, ret_fault);
    if (!error)
        *ret_meant = number == (uint64_t)pid;
    return error;
}

/* ---- telling ---- */

/* Of "@name" the first byte becomes 0: so the kernel knows the abstract space. */
static int locate(const char *text, struct sockaddr_un *ret_place, socklen_t *ret_size, struct weir_fault *ret_fault)
{
    struct sockaddr_un place = { .sun_family = AF_UNIX };
    size_t size = strlen(text);
    if ((text[0] != '/' && text[0] != '@') || size < 2)
        return weir_fault_format(ret_fault, WEIR_EINVAL, "NOTIFY_SOCKET",
                                 "is '%.60s': must be /path, or @name of the abstract space", text);
    if (size >= sizeof(place.sun_path))
        return weir_fault_format(ret_fault, WEIR_ERANGE, "NOTIFY_SOCKET", "has %zu bytes (%zu at most)", size,
                                 sizeof(place.sun_path) - 1);
    memcpy(place.sun_path, text, size);
    if (text[0] == '@')
        place.sun_path[0] = '\0';
    *ret_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + (text[0] == '/'));
    *ret_place = place;
    return 0;
}

static int open_notify(struct weir_systemd *systemd, const char *text, struct weir_fault *ret_fault)
{
    const struct timeval second = { .tv_sec = 1 };
    const struct sockaddr nobody = { .sa_family = AF_UNSPEC };
    int error = locate(text, &systemd->notify, &systemd->notify_size, ret_fault);
    if (error)
        return error;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second)) ||
        connect(fd, (const struct sockaddr *)&systemd->notify, systemd->notify_size) ||
        connect(fd, &nobody, sizeof(nobody))) {
        int number = errno;
        if (fd >= 0)
            close(fd);
        return weir_fault_format(ret_fault, WEIR_EIO, "NOTIFY_SOCKET", "is '%.60s', which does not listen: %.60s", text,
                                 strerror(number));
    }
    systemd->notify_fd = fd;
    return 0;
}

int weir_systemd_go_on(struct weir_systemd *systemd, const void *notify, size_t notify_size, uint64_t watchdog_ns)
{
    const struct timeval second = { .tv_sec = 1 };
    if (systemd->notify_fd >= 0 || notify_size == 0 || notify_size > sizeof(systemd->notify))
        return 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second))) {
        if (fd >= 0)
            close(fd);
        return WEIR_EIO;
    }
    memcpy(&systemd->notify, notify, notify_size);
    systemd->notify_size = (socklen_t)notify_size;
    systemd->notify_fd = fd;
    systemd->watchdog_ns = watchdog_ns;
    return 0;
}

int weir_systemd_tell(const struct weir_systemd *systemd, const char *lines)
{
    size_t size = strlen(lines);
    if (systemd->notify_fd < 0)
        return 0;
    ssize_t sent = sendto(systemd->notify_fd, lines, size, MSG_NOSIGNAL, (const struct sockaddr *)&systemd->notify,
                          systemd->notify_size);
    return sent == (ssize_t)size ? 0 : WEIR_EIO;
}

static int read_watchdog(struct weir_systemd *systemd, const struct weir_systemd_environment *environment, pid_t pid,
                         struct weir_fault *ret_fault)
{
    bool meant = true;
    uint64_t us;
    if (!environment->watchdog_usec)
        return 0;
    int error = environment->watchdog_pid ? is_meant("WATCHDOG_PID", environment->watchdog_pid, pid, &meant, ret_fault)
                                          : 0;
    if (!error && meant)
        error = read_number("WATCHDOG_USEC", environment->watchdog_usec, &us, ret_fault);
    if (error || !meant)
        return error;
    /* Below it, a machine that is busy would look like a server that hangs; above, nobody waits for it. */
    if (us < 100000 || us > 86400000000)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "WATCHDOG_USEC", "is %.30s: must be 100000 to 86400000000",
                                 environment->watchdog_usec);
    systemd->watchdog_ns = us * 1000;
    return 0;
}

/* ---- passed sockets ---- */

static int take_name(struct weir_systemd_socket *socket, const char *name, size_t size, const char *const *listeners,
                     struct weir_fault *ret_fault)
{
    struct weir_nearest nearest = { .text = name, .size = size };
    char known[64] = "", hint[32] = "";
    for (size_t used = 0; *listeners; listeners++) {
        if (strlen(*listeners) == size && memcmp(*listeners, name, size) == 0) {
            (void)snprintf(socket->name, sizeof(socket->name), "%s", *listeners);
            return 0;
        }
        weir_nearest_offer(&nearest, *listeners);
        if (used < sizeof(known))
            used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", used ? " or " : "", *listeners);
    }
    if (nearest.word)
        (void)snprintf(hint, sizeof(hint), "; did you mean '%s'?", nearest.word);
    return weir_fault_format(ret_fault, WEIR_EINVAL, "LISTEN_FDNAMES",
                             "calls descriptor %d '%.*s'%s: FileDescriptorName= must be %s", socket->fd,
                             (int)(size < 40 ? size : 40), name, hint, known);
}

static int take_socket(struct weir_systemd *systemd, const char *name, size_t size, const char *const *listeners,
                       struct weir_fault *ret_fault)
{
    struct weir_systemd_socket *socket = &systemd->sockets[systemd->sockets_count];
    struct weir_fault why = { 0 };
    socket->fd = LISTEN_FDS_START + (int)systemd->sockets_count;
    int error = take_name(socket, name, size, listeners, ret_fault);
    if (error)
        return error;
    error = weir_listen_passed(socket->fd, &socket->address, &why);
    if (error)
        return weir_fault_format(ret_fault, error, "LISTEN_FDS", "descriptor %d (%s) %.100s", socket->fd, socket->name,
                                 why.text);
    systemd->sockets_count++;
    return 0;
}

static int read_sockets(struct weir_systemd *systemd, const struct weir_systemd_environment *environment, pid_t pid,
                        const char *const *listeners, struct weir_fault *ret_fault)
{
    bool meant = false;
    uint64_t count = 0;
    const char *names = environment->listen_fdnames ? environment->listen_fdnames : "";
    if (!environment->listen_fds || !environment->listen_pid)
        return 0;
    int error = is_meant("LISTEN_PID", environment->listen_pid, pid, &meant, ret_fault);
    if (!error && meant)
        error = read_number("LISTEN_FDS", environment->listen_fds, &count, ret_fault);
    if (error || count == 0)
        return error;
    if (count > WEIR_SYSTEMD_SOCKETS_MAX)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "LISTEN_FDS", "is %.30s: at most %d sockets are taken",
                                 environment->listen_fds, WEIR_SYSTEMD_SOCKETS_MAX);
    for (uint64_t i = 0; !error && i < count; i++) {
        size_t size = strcspn(names, ":");
        error = take_socket(systemd, names, size, listeners, ret_fault);
        names += size;
        if (!error && (*names == ':') != (i + 1 < count))
            return weir_fault_format(ret_fault, WEIR_EINVAL, "LISTEN_FDNAMES",
                                     "must have %d name%s, one for each socket", (int)count, weir_s(count));
        names += *names == ':';
    }
    return error;
}

/* ---- life ---- */

void weir_systemd_init(struct weir_systemd *systemd)
{
    *systemd = (struct weir_systemd){ .notify_fd = -1 };
}

int weir_systemd_take(struct weir_systemd *systemd, const struct weir_systemd_environment *environment, pid_t pid,
                      const char *const *listeners, struct weir_fault *ret_fault)
{
    int error = read_sockets(systemd, environment, pid, listeners, ret_fault);
    if (error)
        systemd->sockets_count = 0;
    return error;
}

int weir_systemd_connect(struct weir_systemd *systemd, const struct weir_systemd_environment *environment, pid_t pid,
                         struct weir_fault *ret_fault)
{
    weir_assert(systemd->notify_fd < 0);
    if (!environment->notify_socket)
        return 0;
    int error = read_watchdog(systemd, environment, pid, ret_fault);
    if (!error)
        error = open_notify(systemd, environment->notify_socket, ret_fault);
    if (error)
        systemd->watchdog_ns = 0;
    return error;
}

void weir_systemd_deinit(struct weir_systemd *systemd)
{
    if (systemd->notify_fd >= 0)
        close(systemd->notify_fd);
    systemd->notify_fd = -1;
}
