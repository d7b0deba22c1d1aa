/* SPDX-License-Identifier: Apache-2.0
 *
 * The listeners of one server: which sockets they have, and which files are theirs. They are opened when it can decide,
 * or were passed to it, and handed to the loops, which close them. Used by server.c. */
#pragma once

#include "serve/listen.h"
#include "serve/loop.h"
#include "serve/protocol.h"

struct weir_server_listen {
    const struct weir_protocol *protocol;
    struct weir_address address; /* "off" is skipped */
    int fd;                      /* passed (systemd.h), and listens on `address` already; 0: is opened here */
};

struct weir_opened {
    struct weir_listening listening; /* its name is "" = off */
    struct weir_address address;
};

/* Gives each loop a socket of the listener. WEIR_EIO, WEIR_EEXIST, WEIR_ENOMEM: the fault says what. */
int weir_opened_init(struct weir_opened *opened, const struct weir_server_listen *listen, struct weir_common *common,
                     struct weir_fault *ret_fault);

/* Removes the files of Unix sockets, once: what comes to be there later is another's. `opened` has
 * WEIR_LISTENERS_MAX. */
void weir_opened_remove(struct weir_opened *opened);
