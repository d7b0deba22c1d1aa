/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a server answers RESP, and a connection to it within a deadline. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "weir/error.h"

struct weir_dial_address {
    bool local;     /* `host` is the path of a Unix socket */
    char host[256]; /* without brackets */
    char port[16];
};

/* "HOST:PORT", "[::1]:PORT" or "unix:/path". WEIR_EINVAL and the fault. */
int weir_dial_parse(const char *text, struct weir_dial_address *ret_address, struct weir_fault *ret_fault);

/* A connected socket that does not block, until `deadline_ns` (client/clock.h). A host's name is looked up first, which
 * has the resolver's own time limit. WEIR_EDOWN and the fault: nobody has been told anything. */
int weir_dial(const struct weir_dial_address *address, uint64_t deadline_ns, int *ret_fd, struct weir_fault *ret_fault);
