/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the place of the postgres engine (postgres.c) where libpq was missing at build time: to open it fails. Only
 * tests link it, because the server finds postgres in a module (modules/late.c). */
#include "base/fault.h"
#include "locks/open.h"

/* What a build without postgres says. */
int weir_lock_postgres_open(const struct weir_lock_postgres_options *options, struct weir_lock_engine **ret_engine,
                            struct weir_fault *ret_fault)
{
    (void)options, (void)ret_engine;
    return weir_fault_set(ret_fault, WEIR_EINVAL, "engine", "this weir was built without postgres");
}
