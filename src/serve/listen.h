/* SPDX-License-Identifier: Apache-2.0
 *
 * Listening sockets, one for each loop, on one address. The kernel spreads connections over them. */
#ifndef WEIR_SERVE_LISTEN_H
#define WEIR_SERVE_LISTEN_H

#include <stddef.h>

#include "rules/config.h"

#define WEIR_LISTEN_NAME_MAX 144

/* Opens `count` non-blocking sockets that listen on `address` (not "off") and says in `ret_name` where: as given, with
 * the port that was chosen for port 0. A second server on the same address fails here, with a fault that says so; a
 * Unix socket that nobody listens on any more is replaced. WEIR_EIO, WEIR_EEXIST (somebody listens there). */
int weir_listen_open(const struct weir_address *address, size_t count, int *ret_fds,
                     char ret_name[WEIR_LISTEN_NAME_MAX], struct weir_fault *ret_fault);

/* Closes them and removes the file of a Unix socket. */
void weir_listen_close(const struct weir_address *address, size_t count, const int *fds);

#endif
