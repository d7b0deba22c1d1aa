/* SPDX-License-Identifier: Apache-2.0
 *
 * The limiter that `weir serve` decides with, as it was before the restart where table.snapshot says so. */
#pragma once

#include "cli/serve_config.h"
#include "serve/saver.h"

struct weir_serve_state {
    struct weir_limiter *limiter;
    struct weir_saver *saver; /* NULL: nothing is kept */
    struct weir_permit_secret permit_secret;
};

/* A limiter without limits. False: what is wrong has been printed. */
bool weir_serve_limiter_make(const struct weir_serve_flags *flags, const struct weir_config *config,
                             const uint8_t *secret, struct weir_limiter **ret_limiter);

/* With what was kept in it. False: what is wrong has been printed, and there is nothing to be ended. */
bool weir_serve_state_begin(const struct weir_serve_flags *flags, const struct weir_config *config,
                            struct weir_serve_state *ret_state);

/* Snapshots from now on. False: there is no thread for it; it has been printed. */
bool weir_serve_state_keep(const struct weir_serve_state *state);

/* Whether table.snapshot can be right, as far as that is seen without starting. False: it has been printed. */
bool weir_serve_state_check(const struct weir_serve_flags *flags, const struct weir_config *config);

/* Writes the last snapshot, if weir_serve_state_keep was called, and prints what became of it. False: it failed. */
bool weir_serve_state_end(struct weir_serve_state *state);
