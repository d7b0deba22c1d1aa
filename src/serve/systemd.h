/* SPDX-License-Identifier: Apache-2.0
 *
 * What a service manager says to a server by its environment, and hears from it: systemd's two protocols, sd_notify and
 * socket activation, spoken without libsystemd. Any manager that speaks them will do.
 *
 * What it does: reads the variables that it is given, checks the sockets that were passed, sends datagrams. What it
 * does not: read the environment (cli/serve_listens.c does), or decide when there is something to tell
 * (serve/supervisor.h).
 *
 * Thread rule: one thread at a time. Errors of the environment are told, not passed over: who wrote the unit wants to
 * know why nobody listens. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "rules/config.h"

#define WEIR_SYSTEMD_SOCKETS_MAX 4
#define WEIR_SYSTEMD_NAME_MAX 8

/* Variables of the environment; NULL: not set. */
struct weir_systemd_environment {
    const char *notify_socket;               /* NOTIFY_SOCKET: /path, or @name of the abstract space */
    const char *watchdog_usec;               /* WATCHDOG_USEC */
    const char *watchdog_pid;                /* WATCHDOG_PID: whom the watchdog is meant for; NULL: whoever reads it */
    const char *listen_fds, *listen_fdnames; /* LISTEN_FDS: how many sockets; LISTEN_FDNAMES: "http:resp" */
    const char *listen_pid;                  /* LISTEN_PID: whom they are meant for */
};

/* A socket that listens already. */
struct weir_systemd_socket {
    int fd;
    char name[WEIR_SYSTEMD_NAME_MAX]; /* of the listener: "http" */
    struct weir_address address;      /* where it listens; an abstract name begins with '@' */
};

struct weir_systemd {
    int notify_fd; /* -1: nobody wants to be told */
    struct sockaddr_un notify;
    socklen_t notify_size;
    uint64_t watchdog_ns; /* it ends who is silent for so long; 0: there is no watchdog */
    struct weir_systemd_socket sockets[WEIR_SYSTEMD_SOCKETS_MAX];
    size_t sockets_count;
};

/* Nothing was passed, and nobody wants to be told. */
void weir_systemd_init(struct weir_systemd *systemd);

/* Takes the sockets that were passed to process `pid`. Each must bear one of the names in `listeners` (ends with NULL).
 * WEIR_EINVAL, WEIR_ERANGE: the fault names the variable; nothing is taken, and what was passed stays open. */
int weir_systemd_take(struct weir_systemd *systemd, const struct weir_systemd_environment *environment, pid_t pid,
                      const char *const *listeners, struct weir_fault *ret_fault);

/* Looks whether somebody wants to be told, and listens. WEIR_EINVAL, WEIR_ERANGE, WEIR_EIO: the fault names the
 * variable, and nobody will be told: a server can do without. */
int weir_systemd_connect(struct weir_systemd *systemd, const struct weir_systemd_environment *environment, pid_t pid,
                         struct weir_fault *ret_fault);

/* Of a predecessor, where nobody is told yet: whom it told, and that it was watched. WEIR_EIO. */
int weir_systemd_go_on(struct weir_systemd *systemd, const void *notify, size_t notify_size, uint64_t watchdog_ns);

/* Sends lines such as "READY=1\nSTATUS=...", waiting a second at most. WEIR_EIO: it did not go, errno says why. Where
 * nobody wants to be told, nothing is done. */
int weir_systemd_tell(const struct weir_systemd *systemd, const char *lines);

/* Closes what it opened itself: not the passed sockets, which belong to the listeners. */
void weir_systemd_deinit(struct weir_systemd *systemd);
