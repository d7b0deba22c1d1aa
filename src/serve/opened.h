/* SPDX-License-Identifier: Apache-2.0
 *
 * The listeners of one server: which sockets they have, and which files are theirs. They are opened when it can decide,
 * or were passed to it, and handed to the loops, which close them. Used by server.c. */
#pragma once

#include "serve/listen.h"
#include "serve/loop.h"
#include "serve/protocol.h"

#define WEIR_HANDED_FDS_MAX 256

struct weir_handed_listener;

struct weir_server_listen {
    const struct weir_protocol *protocol;
    struct weir_address address; /* "off" is skipped */
    int fd;                      /* passed (systemd.h), and listens on `address` already; 0: is opened here */
    const struct weir_handed_listener *handed; /* by a predecessor; instead of that; NULL: by none */
};

/* A listener of a predecessor: all sockets of it, one for each of its loops. */
struct weir_handed_listener {
    char protocol[8];
    char configured[WEIR_LISTEN_NAME_MAX]; /* as its configuration has it, as weir_listen_name writes */
    bool shared, passed;
    struct weir_listening listening; /* where, and whether its file is to be removed */
    size_t count;
    int fds[WEIR_HANDED_FDS_MAX]; /* -1: taken */
};

struct weir_opened {
    struct weir_listening listening; /* its name is "" = off */
    struct weir_listening later;     /* of a predecessor's: what is to be removed once this process decides */
    struct weir_address address;
    const struct weir_protocol *protocol;
    size_t number; /* of the server's listeners */
    bool shared, passed;
};

/* Gives each loop a socket of the listener, which is the server's number `number`. WEIR_EIO, WEIR_EEXIST, WEIR_ENOMEM:
 * the fault says what. */
int weir_opened_init(struct weir_opened *opened, size_t number, const struct weir_server_listen *listen,
                     struct weir_common *common, struct weir_fault *ret_fault);

/* This process decides: files of a predecessor's sockets are its own to remove. */
void weir_opened_own(struct weir_opened *opened);
/* Another process does: none is. */
void weir_opened_leave(struct weir_opened *opened);

/* Removes the files of Unix sockets, once: what comes to be there later is another's. `opened` has
 * WEIR_LISTENERS_MAX. */
void weir_opened_remove(struct weir_opened *opened);
