/* SPDX-License-Identifier: Apache-2.0
 *
 * The first part of weir/session.h: it checks the options, fills in the defaults, and makes the signer, the pool and
 * the servers, in this order. When a server is removed, its poller is stopped first, then its idle connections are
 * closed. Called by applications and by cli/reads_work.c. The service has no such object: serve/sessions.c opens
 * servers.c itself. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/reserved.h"
#include "base/units.h"
#include "sessions/session_inside.h"

#define POLL_MS 50
#define FREEZE_MS 1000
#define TIMEOUT_MS 1000
#define CONNECTIONS 32
#define TIME_MAX_MS 3600000
#define CONNECTIONS_MAX 10000

static int check(const struct weir_replicas_options *options, struct weir_fault *ret_fault)
{
    if (!options)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "options", "must be given");
    if (weir_reserved_used(options->reserved, sizeof options->reserved))
        return weir_fault_set(ret_fault, WEIR_EINVAL, "reserved", WEIR_RESERVED_TEXT);
    if (!options->servers || options->server_count < 1 || options->server_count > WEIR_ROUTE_SERVERS_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "server_count", "must be 1 to 64");
    if (options->poll_ms != 0 && (options->poll_ms < 10 || options->poll_ms > 10000))
        return weir_fault_set(ret_fault, WEIR_ERANGE, "poll_ms", "must be 10 to 10000, or 0 for 50");
    if (options->freeze_ms > TIME_MAX_MS)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "freeze_ms", "must be at most 3600000, or 0 for 1000");
    if (options->timeout_ms > TIME_MAX_MS)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "timeout_ms", "must be at most 3600000, or 0 for 1000");
    if (options->connections_max > CONNECTIONS_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "connections_max", "must be at most 10000, or 0 for 32");
    if (options->key_count > 0 && !options->keys)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "keys", "must be given, so many as key_count says");
    return 0;
}

static int open_parts(struct weir_replicas *replicas, const struct weir_replicas_options *options,
                      struct weir_fault *ret_fault)
{
    const struct weir_servers_options servers = {
        .servers = options->servers,
        .server_count = options->server_count,
        .poll_ns = (options->poll_ms ? options->poll_ms : POLL_MS) * WEIR_NS_PER_MS,
        .freeze_ns = (options->freeze_ms ? options->freeze_ms : FREEZE_MS) * WEIR_NS_PER_MS,
        .timeout_ns = replicas->timeout_ns,
        .clock_query = options->clock_query,
        .branch_table = options->branch_table,
    };
    int error = 0;
    if (options->clock_query && !(replicas->clock_query = strdup(options->clock_query)))
        return WEIR_ENOMEM;
    if (options->key_count > 0)
        error = weir_signer_create(options->keys, options->key_count, &replicas->signer, ret_fault);
    if (error == 0)
        error = weir_pool_create(options->connections_max ? options->connections_max : CONNECTIONS,
                                 replicas->timeout_ns, &replicas->pool);
    return error ? error : weir_servers_open(&servers, &replicas->servers, ret_fault);
}

int weir_replicas_open(const struct weir_replicas_options *options, struct weir_replicas **ret_replicas,
                       struct weir_fault *ret_fault)
{
    struct weir_fault fault = { 0 };
    if (!ret_fault)
        ret_fault = &fault;
    *ret_fault = fault;
    int error = ret_replicas ? check(options, ret_fault)
                             : weir_fault_set(ret_fault, WEIR_EINVAL, "ret_replicas", "must be given");
    if (error != 0)
        return error;
    struct weir_replicas *replicas = calloc(1, sizeof *replicas);
    if (!replicas)
        return WEIR_ENOMEM;
    replicas->timeout_ns = (options->timeout_ms ? options->timeout_ms : TIMEOUT_MS) * WEIR_NS_PER_MS;
    error = open_parts(replicas, options, ret_fault);
    if (error != 0) {
        weir_replicas_close(replicas);
        return error;
    }
    *ret_replicas = replicas;
    return 0;
}

void weir_replicas_close(struct weir_replicas *replicas)
{
    if (!replicas)
        return;
    if (replicas->servers)
        weir_servers_close(replicas->servers);
    weir_pool_destroy(replicas->pool);
    weir_signer_destroy(replicas->signer);
    free(replicas->clock_query);
    free(replicas);
}

int weir_replicas_add(struct weir_replicas *replicas, const struct weir_replicas_server *server,
                      struct weir_fault *ret_fault)
{
    struct weir_fault fault = { 0 };
    if (!ret_fault)
        ret_fault = &fault;
    *ret_fault = fault;
    if (!server)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "server", "must be given");
    return weir_servers_add(replicas->servers, server, ret_fault);
}

static bool id_of(struct weir_replicas *replicas, const char *name, uint64_t *ret_id)
{
    const struct weir_snapshot *snapshot = weir_servers_look(replicas->servers);
    bool found = false;
    for (unsigned i = 0; i < snapshot->count && !found; i++) {
        found = strcmp(snapshot->states[i].name, name) == 0;
        *ret_id = snapshot->servers[i].id;
    }
    weir_servers_release(replicas->servers, snapshot);
    return found;
}

int weir_replicas_remove(struct weir_replicas *replicas, const char *name)
{
    uint64_t id = 0;
    if (!name)
        return WEIR_EINVAL;
    bool known = id_of(replicas, name, &id);
    int error = weir_servers_remove(replicas->servers, name);
    if (error == 0 && known)
        weir_pool_forget(replicas->pool, id);
    return error;
}
