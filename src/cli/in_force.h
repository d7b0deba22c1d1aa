/* SPDX-License-Identifier: Apache-2.0
 *
 * Which configuration a running server has in force: asked with GET /v1/limits, so that what is explained is what
 * decides. */
#pragma once

#include <jansson.h>
#include <limits.h>

#include "cli/client.h"
#include "rules/config.h"

struct weir_in_force {
    bool known;            /* a server answered */
    char source[PATH_MAX]; /* the file it read; "" = the built-in example */
    char checksum[32];
    char since[32], by[32], node[128];
    uint64_t version; /* of the rules, where they stand in a store; 0 = in the file */
    json_t *others;   /* by name the limits that the file does not define there, as GET /v1/limits shows them */
};

/* WEIR_EIO: nobody answers there (ret_problem says how), which may be no fault. WEIR_EPROTO, WEIR_EACCES, …: the
 * server answered something else, and ret_problem says what. */
int weir_in_force_ask(const struct weir_client_options *options, struct weir_in_force *ret_in_force, char *ret_problem,
                      size_t problem_size);

/* Says on standard error whether `config`, read from `file` (NULL: the built-in example), is what `in_force` tells of
 * `server`. */
void weir_in_force_note(const struct weir_in_force *in_force, const char *server, const struct weir_config *config,
                        const char *file);

/* Of the limit `name`, what decides there instead of the file's definition; NULL: the file's does. */
const json_t *weir_in_force_other(const struct weir_in_force *in_force, const char *name);

void weir_in_force_deinit(struct weir_in_force *in_force);
