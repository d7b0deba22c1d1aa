/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for the redis store (users_redis.c) where hiredis was missing at build time: to open it fails. Called by
 * users.c. */
#include "base/fault.h"
#include "sessions/users_inside.h"

/* What a build without redis says. */
int weir_users_redis_open(const struct weir_users_options *options, struct weir_users **ret_users,
                          struct weir_fault *ret_fault)
{
    (void)options, (void)ret_users;
    return weir_fault_set(ret_fault, WEIR_EINVAL, "url", "this weir was built without redis");
}
