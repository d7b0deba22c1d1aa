/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the place of the PostgreSQL store (store_postgres.c) where libpq was missing at build time: to open it fails.
 * Only tests link it, because a program finds the store in a module (modules/late.c). */
#include "base/fault.h"
#include "rules/store_inside.h"

/* What a build without libpq says. */
int weir_rule_postgres_open(const char *url, const char *table, struct weir_rule_store **ret_store,
                            struct weir_fault *ret_fault)
{
    (void)url, (void)table, (void)ret_store;
    return weir_fault_set(ret_fault, WEIR_EINVAL, "needs", "libpq, which this weir was built without");
}
