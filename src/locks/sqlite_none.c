/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the place of the sqlite engine (sqlite.c) where SQLite was missing at build time: to open it fails. Called by
 * src/cli/serve_locks.c. */
#include <stdio.h>

#include "locks/open.h"

/* What a build without sqlite says. */
int weir_lock_sqlite_open(const struct weir_lock_sqlite_options *options, struct weir_lock_engine **ret_engine,
                          struct weir_fault *ret_fault)
{
    (void)options, (void)ret_engine;
    if (ret_fault) {
        *ret_fault = (struct weir_fault){ .field = "engine" };
        snprintf(ret_fault->text, sizeof ret_fault->text, "this weir was built without sqlite");
    }
    return WEIR_EINVAL;
}
