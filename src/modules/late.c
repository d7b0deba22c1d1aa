/* SPDX-License-Identifier: Apache-2.0
 *
 * In a program that has modules instead of libpq and libcurl, the functions of locks/open.h, net/post.h,
 * rules/store_inside.h, sessions/users.h and sessions/servers.h that need them: they load the module, and hand the call
 * on. A program loads it first by itself (weir_module_load), so that a whole sentence says what is missing: a fault has
 * room for its beginning. */
#include <stdio.h>
#include <stdlib.h>

#include "modules/module.h"
#include "sessions/users_inside.h"

static int load(const char *name, const struct weir_module **ret_module, struct weir_fault *ret_fault)
{
    char said[WEIR_MODULE_SAID_SIZE];
    if (weir_module_load(name, ret_module, said) == 0)
        return 0;
    if (ret_fault) {
        *ret_fault = (struct weir_fault){ .field = "needs" };
        (void)snprintf(ret_fault->text, sizeof(ret_fault->text), "%.*s", (int)sizeof(ret_fault->text) - 1, said);
    }
    return WEIR_EINVAL;
}

int weir_lock_postgres_open(const struct weir_lock_postgres_options *options, struct weir_lock_engine **ret_engine,
                            struct weir_fault *ret_fault)
{
    const struct weir_module *module;
    int error = load(WEIR_MODULE_POSTGRES, &module, ret_fault);
    return error ? error : module->lock_open_postgres(options, ret_engine, ret_fault);
}

int weir_lock_etcd_open(const struct weir_lock_etcd_options *options, struct weir_lock_engine **ret_engine,
                        struct weir_fault *ret_fault)
{
    const struct weir_module *module;
    int error = load(WEIR_MODULE_ETCD, &module, ret_fault);
    return error ? error : module->lock_open_etcd(options, ret_engine, ret_fault);
}

int weir_post_open(const char *url, const char *content_type, struct weir_post **ret_post, struct weir_fault *ret_fault)
{
    const struct weir_module *module;
    int error = load(WEIR_MODULE_TRACES, &module, ret_fault);
    return error ? error : module->post_open(url, content_type, ret_post, ret_fault);
}

int weir_rule_postgres_open(const char *url, const char *table, struct weir_rule_store **ret_store,
                            struct weir_fault *ret_fault)
{
    const struct weir_module *module;
    int error = load(WEIR_MODULE_POSTGRES, &module, ret_fault);
    return error ? error : module->rule_postgres_open(url, table, ret_store, ret_fault);
}

int weir_users_postgres_open(const struct weir_users_options *options, struct weir_users **ret_users,
                             struct weir_fault *ret_fault)
{
    const struct weir_module *module;
    int error = load(WEIR_MODULE_POSTGRES, &module, ret_fault);
    return error ? error : module->users_open(options, ret_users, ret_fault);
}

/* ---- servers ---- */

/* Locks, rule sets, users and what posts bring their functions with them. Of servers the program holds this one, and
 * calls it a weir_servers: what the module means by that, the program never looks into. */
struct late_servers {
    const struct weir_module *module;
    struct weir_servers *servers; /* the module's */
};

static struct late_servers *late_of(struct weir_servers *servers)
{
    return (struct late_servers *)(void *)servers;
}

int weir_servers_open(const struct weir_servers_options *options, struct weir_servers **ret_servers,
                      struct weir_fault *ret_fault)
{
    struct late_servers *late = calloc(1, sizeof(*late));
    int error = late ? load(WEIR_MODULE_POSTGRES, &late->module, ret_fault) : WEIR_ENOMEM;
    if (!error)
        error = late->module->servers_open(options, &late->servers, ret_fault);
    if (error)
        free(late);
    else
        *ret_servers = (struct weir_servers *)(void *)late;
    return error;
}

void weir_servers_close(struct weir_servers *servers)
{
    struct late_servers *late = late_of(servers);
    late->module->servers_close(late->servers);
    free(late);
}

const struct weir_snapshot *weir_servers_look(struct weir_servers *servers)
{
    return late_of(servers)->module->servers_look(late_of(servers)->servers);
}

void weir_servers_release(struct weir_servers *servers, const struct weir_snapshot *snapshot)
{
    late_of(servers)->module->servers_release(late_of(servers)->servers, snapshot);
}

void weir_servers_count(struct weir_servers *servers, uint64_t id)
{
    late_of(servers)->module->servers_count(late_of(servers)->servers, id);
}

int weir_servers_wait(struct weir_servers *servers, uint64_t number, uint64_t deadline_ns)
{
    return late_of(servers)->module->servers_wait(late_of(servers)->servers, number, deadline_ns);
}

int weir_servers_ask(struct weir_servers *servers, uint64_t id, uint64_t deadline_ns)
{
    return late_of(servers)->module->servers_ask(late_of(servers)->servers, id, deadline_ns);
}
