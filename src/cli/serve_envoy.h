/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration files of envoyproxy/ratelimit by which `weir serve` decides, where --ratelimit-config or the file's
 * `envoy: { ratelimit_config }` names their folder: they have all limits then, and are read again when one of them
 * changes. */
#pragma once

#include "cli/serve_config.h"
#include "rules/envoy_rules.h"

/* All zeros: nothing was loaded yet. */
struct weir_serve_envoy {
    struct weir_envoy_rules *rules; /* as read last; NULL: no folder is named */
    char *folder;
    uint64_t loaded; /* the folder's mark then */
    uint64_t seen;   /* and at the last look */
};

/* Where a folder is named: takes the place of *config, with the limits of its files in it; `anew` false: with those
 * that it has. False: ret_said says why; *config stays. */
bool weir_serve_envoy_put(struct weir_serve_envoy *envoy, const struct weir_serve_flags *flags, bool anew,
                          struct weir_config **config, struct weir_serve_said *ret_said);

/* What is wrong with a limit of the files, told of the file that has it. */
void weir_serve_envoy_say(const struct weir_serve_envoy *envoy, const struct weir_config_fault *fault,
                          struct weir_serve_said *ret_said);

/* What is legal in the files and yet hardly meant. */
void weir_serve_envoy_warn(const struct weir_serve_envoy *envoy, const struct weir_config *config);

/* A look, some time after the one before: whether a file is another one than when it was read, and as it was at the
 * last look, so that none is read while it is written. */
bool weir_serve_envoy_changed(struct weir_serve_envoy *envoy);

void weir_serve_envoy_deinit(struct weir_serve_envoy *envoy);
