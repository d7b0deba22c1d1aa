/* SPDX-License-Identifier: Apache-2.0
 *
 * weir-postgres.so. */
#include "modules/digest.h"
#include "modules/module.h"
#include "sessions/users_inside.h"

extern const struct weir_module weir_module;

__attribute__((visibility("default"))) const struct weir_module weir_module = {
    .digest = WEIR_MODULE_DIGEST,
    .name = WEIR_MODULE_POSTGRES,
    .lock_open_postgres = weir_lock_postgres_open,
    .rule_postgres_open = weir_rule_postgres_open,
    .users_open = weir_users_postgres_open,
    .servers_open = weir_servers_open,
    .servers_close = weir_servers_close,
    .servers_look = weir_servers_look,
    .servers_release = weir_servers_release,
    .servers_count = weir_servers_count,
    .servers_wait = weir_servers_wait,
    .servers_ask = weir_servers_ask,
};
