/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the place of the sqlite engine (sqlite.c) where SQLite was missing at build time: to open it fails. Called by
 * src/cli/serve_locks.c. */
#include "base/fault.h"
#include "locks/open.h"

/* What a build without sqlite says. */
int weir_lock_sqlite_open(const struct weir_lock_sqlite_options *options, struct weir_lock_engine **ret_engine,
                          struct weir_fault *ret_fault)
{
    (void)options, (void)ret_engine;
    return weir_fault_set(ret_fault, WEIR_EINVAL, "engine", "this weir was built without sqlite");
}
