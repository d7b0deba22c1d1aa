/* SPDX-License-Identifier: Apache-2.0
 *
 * What a predecessor sends of itself as a whole: who it is and where it listens, and its counters. What there is of
 * connections: conn_hand.c. */
#pragma once

#include "serve/loop.h"
#include "serve/opened.h"
#include "serve/systemd.h"

/* WELCOME, and each listener. WEIR_EIO: the successor is gone, or does not read. */
int weir_takeover_send_welcome(int fd, int listen_fd, const struct weir_systemd *systemd,
                               const struct weir_common *common, const struct weir_opened *opened);

/* STATE: while nobody decides. WEIR_EIO, WEIR_ENOMEM: the fault says why. */
int weir_takeover_send_state(int fd, struct weir_common *common, struct weir_fault *ret_fault);
