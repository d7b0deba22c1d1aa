/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir serve --take-over PATH`: takes over from the weir that listens at PATH, if there is one, and listens there for
 * the next (serve/takeover.h, serve/takeover_join.h). */
#pragma once

#include "cli/serve_config.h"
#include "cli/serve_state.h"
#include "serve/server.h"
#include "serve/takeover_join.h"

/* Connects. Sockets that a service manager had passed to the predecessor are in `systemd` then, as if they had been
 * passed to this process, and so is whom it told. *ret_join is NULL where nobody is to be taken over. False: it cannot
 * be; that has been printed. */
bool weir_serve_takeover_begin(const struct weir_serve_flags *flags, struct weir_systemd *systemd,
                               struct weir_takeover_join **ret_join);

/* Looks whether the configuration is good, as far as can be seen while the predecessor decides, and takes counters and
 * connections. False: printed; the predecessor goes on. */
bool weir_serve_takeover_ready(const struct weir_serve_flags *flags, struct weir_config *config,
                               struct weir_takeover_join *join);

/* As weir_serve_state_begin, with what the predecessor had. */
bool weir_serve_takeover_state(const struct weir_serve_flags *flags, const struct weir_config *config,
                               struct weir_takeover_join *join, struct weir_serve_state *ret_state);

/* The predecessor's sockets for the listeners that it had as well. */
void weir_serve_takeover_listens(const struct weir_takeover_join *join, struct weir_server_listen *listens,
                                 size_t count);

/* From here on this process decides. False: printed; the predecessor goes on. */
bool weir_serve_takeover_decide(struct weir_takeover_join *join);
