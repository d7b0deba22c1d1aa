/* SPDX-License-Identifier: Apache-2.0
 *
 * Where `weir serve` listens, and whom it tells: what the configuration says, or the service manager that passed
 * sockets (serve/systemd.h). */
#pragma once

#include "cli/serve_config.h"
#include "serve/server.h"

/* Reads what the environment says of sockets and of whom to tell, and puts it into the flags. False, after a line on
 * standard error: sockets cannot be taken, or a flag says the same listener otherwise. That nobody can be told is a
 * warning, in `ret_warning` ("": none). */
bool weir_cli_listens_read(struct weir_serve_flags *flags, struct weir_systemd *systemd,
                           struct weir_fault *ret_warning);

/* Puts the places of the passed sockets into the configuration, so that they are judged like those of a file: of
 * several for one listener, one that other machines can reach. */
void weir_cli_listens_put(const struct weir_systemd *systemd, struct weir_config *config);

/* The listeners: those that were passed, and of the others what the configuration says. ret_listens has
 * WEIR_LISTENERS_MAX; returns how many there are. */
size_t weir_cli_listens(const struct weir_config *config, const struct weir_systemd *systemd,
                        struct weir_server_listen *ret_listens);
