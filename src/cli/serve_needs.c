/* SPDX-License-Identifier: Apache-2.0
 *
 * Called by serve.c before it makes the limiter. What needs PostgreSQL or etcd, sends traces or speaks gRPC is a
 * module, and is loaded here (modules/module.h), so that a missing one ends the start with a message that names it.
 * SQLite is part of the program, or was left out when it was built. The engine of locks is opened later, by
 * serve_locks.c. */
#include "cli/serve_needs.h"

#include <stdio.h>

#include "modules/module.h"

static bool load(const char *what, const char *module)
{
    const struct weir_module *loaded;
    char said[WEIR_MODULE_SAID_SIZE];
    if (weir_module_load(module, &loaded, said) == 0)
        return true;
    fprintf(stderr, "weir: %s need %s\n", what, said);
    return false;
}

static bool has_grpc(const struct weir_config *config, const struct weir_grpc_library **ret_grpc)
{
    const struct weir_module *loaded;
    char said[WEIR_MODULE_SAID_SIZE];
    *ret_grpc = NULL;
    if (config->grpc.kind == WEIR_ADDRESS_OFF)
        return true;
    if (weir_module_load(WEIR_MODULE_GRPC, &loaded, said)) {
        fprintf(stderr, "weir: listeners for grpc need %s\n", said);
        return false;
    }
    *ret_grpc = loaded->grpc;
    return true;
}

static bool has_locks(enum weir_config_lock_engine engine)
{
    switch (engine) {
    case WEIR_LOCKS_SQLITE:
#ifndef WEIR_HAVE_SQLITE
        fputs("weir: locks: this weir was built without sqlite\n", stderr);
        return false;
#endif
    case WEIR_LOCKS_NONE:
    default:
        return true;
    case WEIR_LOCKS_POSTGRES:
        return load("locks in postgres", WEIR_MODULE_POSTGRES);
    case WEIR_LOCKS_ETCD:
        return load("locks in etcd", WEIR_MODULE_ETCD);
    }
}

bool weir_serve_needs(const struct weir_config *config, const struct weir_grpc_library **ret_grpc)
{
    return has_grpc(config, ret_grpc) && has_locks(config->locks.engine) &&
           (config->sessions.servers_count == 0 || load("sessions", WEIR_MODULE_POSTGRES)) &&
           (!config->traces.endpoint || load("traces", WEIR_MODULE_TRACES));
}
