/* SPDX-License-Identifier: Apache-2.0
 *
 * Listening sockets, one for each loop, on one address. The kernel spreads connections over them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rules/config.h"

#define WEIR_LISTEN_NAME_MAX 144

/* Where it listens. */
struct weir_listening {
    char name[WEIR_LISTEN_NAME_MAX]; /* as given, with the port that was chosen for port 0 */
    /* A Unix socket's file is known by its time too: numbers of files are given again. */
    bool file;
    uint64_t device, inode;
    int64_t made_s, made_ns;
};

/* How many connections there are descriptors for, whatever the configuration hopes, beside those that `loops` loops
 * take. The process may have as many as it is allowed to from now on. */
size_t weir_listen_room(size_t loops);

/* Opens `count` non-blocking sockets that listen on `address` (not "off") and says where. A second server on the same
 * address fails here, with a fault that says so; a Unix socket that nobody listens on any more is replaced. WEIR_EIO,
 * WEIR_EEXIST (somebody listens there). */
int weir_listen_open(const struct weir_address *address, size_t count, int *ret_fds,
                     struct weir_listening *ret_listening, struct weir_fault *ret_fault);

/* As it stands in `name` of struct weir_listening, before a port was chosen. */
void weir_listen_name(const struct weir_address *address, char ret_name[WEIR_LISTEN_NAME_MAX]);

/* Where a socket listens that somebody else opened. WEIR_EINVAL: it does not, or is no stream; the fault's text goes on
 * after its name. */
int weir_listen_passed(int fd, struct weir_address *ret_address, struct weir_fault *ret_fault);

/* Makes a listening socket that was passed ready for `count` loops: ret_fds has it and duplicates. Its file, if it has
 * one, is not ours to remove. WEIR_EIO. */
int weir_listen_share(const struct weir_address *address, int fd, size_t count, int *ret_fds,
                      struct weir_listening *ret_listening, struct weir_fault *ret_fault);

/* Removes the file of a Unix socket, once, unless it is another's by now: of a server that listens there since. Nobody
 * new comes in then; best done before the sockets are closed, so that nobody takes the file for one left over. */
void weir_listen_remove(const struct weir_address *address, struct weir_listening *listening);
