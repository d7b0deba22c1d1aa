/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets are opened by listen.c, one for each loop; a socket that was passed is shared by duplicates. Those of a
 * predecessor are kept, all of them, for each has a queue of its own: with fewer loops one has several, with more loops
 * some share. Called by server.c: at its start, and when it drains. */
#include "serve/opened.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/fault_format.h"
#include "serve/server.h"

static int listen_all(struct weir_opened *opened, const struct weir_server_listen *listen, struct weir_common *common,
                      const int *fds, size_t count)
{
    const struct weir_listener like = { .protocol = listen->protocol,
                                        .loopback = listen->address.loopback,
                                        .tcp = listen->address.kind == WEIR_ADDRESS_TCP,
                                        .number = opened->number };
    int error = 0;
    opened->address = listen->address;
    opened->protocol = listen->protocol;
    for (size_t i = 0; !error && i < count; i++)
        error = weir_loop_listen(&common->loops[i % common->loop_count], &like, fds[i]);
    return error;
}

static int keep(struct weir_opened *opened, const struct weir_server_listen *listen, struct weir_common *common,
                struct weir_fault *ret_fault)
{
    const struct weir_handed_listener *handed = listen->handed;
    int fds[WEIR_HANDED_FDS_MAX + WEIR_SERVER_THREADS_MAX];
    size_t count = 0;
    weir_assert(handed->count > 0);
    for (; count < handed->count || count < common->loop_count; count++) {
        fds[count] = fcntl(handed->fds[count % handed->count], F_DUPFD_CLOEXEC, 0);
        if (fds[count] < 0)
            return weir_fault_format(ret_fault, WEIR_EIO, "listen", "%.80s: cannot share this socket: %s",
                                     handed->listening.name, strerror(errno));
    }
    opened->shared = handed->shared;
    opened->passed = handed->passed;
    opened->listening = opened->later = handed->listening;
    opened->listening.file = false;
    return listen_all(opened, listen, common, fds, count);
}

int weir_opened_init(struct weir_opened *opened, size_t number, const struct weir_server_listen *listen,
                     struct weir_common *common, struct weir_fault *ret_fault)
{
    opened->number = number;
    int fds[WEIR_SERVER_THREADS_MAX], error;
    weir_assert(common->loop_count <= WEIR_SERVER_THREADS_MAX);
    if (listen->address.kind == WEIR_ADDRESS_OFF)
        return 0;
    if (listen->handed)
        return keep(opened, listen, common, ret_fault);
    if (listen->fd > 0)
        error = weir_listen_share(&listen->address, listen->fd, common->loop_count, fds, &opened->listening, ret_fault);
    else
        error = weir_listen_open(&listen->address, common->loop_count, fds, &opened->listening, ret_fault);
    if (error) {
        opened->listening.name[0] = '\0';
        return error;
    }
    opened->passed = listen->fd > 0;
    opened->shared = listen->fd > 0 || listen->address.kind == WEIR_ADDRESS_UNIX;
    return listen_all(opened, listen, common, fds, common->loop_count);
}

void weir_opened_own(struct weir_opened *opened)
{
    for (size_t i = 0; i < WEIR_LISTENERS_MAX; i++)
        if (opened[i].later.file)
            opened[i].listening = opened[i].later;
}

void weir_opened_leave(struct weir_opened *opened)
{
    for (size_t i = 0; i < WEIR_LISTENERS_MAX; i++)
        opened[i].listening.file = false;
}

void weir_opened_remove(struct weir_opened *opened)
{
    for (size_t i = 0; i < WEIR_LISTENERS_MAX; i++)
        weir_listen_remove(&opened[i].address, &opened[i].listening);
}
