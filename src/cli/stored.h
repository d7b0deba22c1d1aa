/* SPDX-License-Identifier: Apache-2.0
 *
 * A configuration file with the rules that decide by it: its own, or those of the store that it names. For the verbs
 * that look at rules without a server. */
#pragma once

#include "rules/ruleset.h"

struct weir_stored {
    char name[160]; /* whose lines the faults and the marks are: "version 42 of sqlite:/…", or what prints them;
                       "" = the file's */
    char untold
        [400]; /* why the store could not be asked; the rule set is without limits then. "" = it was, or is none */
};

/* As weir_ruleset_init; where the file names a store, with that version of it (0 = the newest). */
int weir_stored_ruleset(const char *file, const char *node, uint64_t version, struct weir_ruleset *ret_ruleset,
                        struct weir_config_faults *ret_faults, struct weir_stored *ret_stored);
