/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets are opened by listen.c, one for each loop; a socket that was passed is shared by duplicates. Called by
 * server.c: at its start, and when it drains. */
#include "serve/opened.h"

#include "base/assert.h"
#include "serve/server.h"

int weir_opened_init(struct weir_opened *opened, const struct weir_server_listen *listen, struct weir_common *common,
                     struct weir_fault *ret_fault)
{
    int fds[WEIR_SERVER_THREADS_MAX], error;
    weir_assert(common->loop_count <= WEIR_SERVER_THREADS_MAX);
    if (listen->address.kind == WEIR_ADDRESS_OFF)
        return 0;
    if (listen->fd > 0)
        error = weir_listen_share(&listen->address, listen->fd, common->loop_count, fds, &opened->listening, ret_fault);
    else
        error = weir_listen_open(&listen->address, common->loop_count, fds, &opened->listening, ret_fault);
    if (error) {
        opened->listening.name[0] = '\0';
        return error;
    }
    opened->address = listen->address;
    const struct weir_listener like = { .protocol = listen->protocol, .loopback = listen->address.loopback };
    for (size_t i = 0; !error && i < common->loop_count; i++)
        error = weir_loop_listen(&common->loops[i], &like, fds[i]);
    return error;
}

void weir_opened_remove(struct weir_opened *opened)
{
    for (size_t i = 0; i < WEIR_LISTENERS_MAX; i++)
        weir_listen_remove(&opened[i].address, &opened[i].listening);
}
