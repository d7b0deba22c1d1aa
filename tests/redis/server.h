/* SPDX-License-Identifier: Apache-2.0
 *
 * A real Redis for the tests in this folder: the script with its test clock, and calls that share round trips. */
#pragma once

#include <hiredis/hiredis.h>

#include "limits/redis/script.h"

struct server {
    redisContext *context;
    char sha1[41];
    uint64_t calls; /* sent, all rounds */
};

/* Ends the program where the server does not do its part. */
void server_open(struct server *server, const char *socket);
/* With another text of the script. */
void server_open_with(struct server *server, const char *socket, const char *text);
_Noreturn void server_die(const char *what, const char *why);
void server_close(struct server *server);

/* One round for all calls; those that decode to WEIR_EAGAIN go again until none is left. Status i is that of call i. */
void server_run(struct server *server, struct weir_script_call **calls, size_t count, int *ret_status);
