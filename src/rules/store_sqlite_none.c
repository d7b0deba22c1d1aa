/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the place of the SQLite store (store_sqlite.c) where SQLite was missing at build time: to open it fails. Called
 * by store.c. */
#include "base/fault.h"
#include "rules/store_inside.h"

/* What a build without SQLite says. */
int weir_rule_sqlite_open(const char *path, struct weir_rule_store **ret_store, struct weir_fault *ret_fault)
{
    (void)path, (void)ret_store;
    return weir_fault_set(ret_fault, WEIR_EINVAL, "needs", "SQLite, which this weir was built without");
}
