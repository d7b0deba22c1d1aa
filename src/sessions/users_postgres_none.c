/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for the postgres store (users_postgres.c) where libpq was missing at build time: to open it fails. Only
 * tests and the fuzzers link it; the server finds the store in a module (modules/late.c). */
#include "base/fault.h"
#include "sessions/users_inside.h"

/* What a build without postgres says. */
int weir_users_postgres_open(const struct weir_users_options *options, struct weir_users **ret_users,
                             struct weir_fault *ret_fault)
{
    (void)options, (void)ret_users;
    return weir_fault_set(ret_fault, WEIR_EINVAL, "url", "this weir was built without postgres");
}
