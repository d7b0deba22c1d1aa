/* SPDX-License-Identifier: Apache-2.0
 *
 * What needs libpq, libcurl or libnghttp2 is in modules, shared objects of weir's own that a program loads when a
 * configuration names what they do: with what they bring the first two are 29 libraries. weir-postgres.so has the
 * locks, the rule sets, the users and the servers of sessions in PostgreSQL, weir-etcd.so the locks in etcd,
 * weir-traces.so what sends traces, weir-grpc.so HTTP/2 and the messages of gRPC. A module is found beside the program
 * (base/beside.h), has its own copy of what it needs of the floors below, and exports one symbol, `weir_module`.
 *
 * A program and a module must agree on every struct that they hand each other. They do if they were built from the same
 * headers: both carry a digest of those, and a module with another one is refused. Why so: docs/modules.md. */
#pragma once

#include "locks/open.h"
#include "net/post.h"
#include "rules/store_inside.h"
#include "sessions/servers.h"
#include "sessions/users.h"
#include "wire/grpc_library.h"

#define WEIR_MODULE_POSTGRES "weir-postgres.so"
#define WEIR_MODULE_ETCD "weir-etcd.so"
#define WEIR_MODULE_TRACES "weir-traces.so"
#define WEIR_MODULE_GRPC "weir-grpc.so"

/* The functions that are called so in locks/open.h, net/post.h, rules/store_inside.h, sessions/users.h and servers.h;
 * NULL: of another module. */
struct weir_module {
    const char *digest; /* first, whatever else changes */
    const char *name;   /* WEIR_MODULE_POSTGRES */
    int (*lock_open_postgres)(const struct weir_lock_postgres_options *options, struct weir_lock_engine **ret_engine,
                              struct weir_fault *ret_fault);
    int (*lock_open_etcd)(const struct weir_lock_etcd_options *options, struct weir_lock_engine **ret_engine,
                          struct weir_fault *ret_fault);
    int (*post_open)(const char *url, const char *content_type, struct weir_post **ret_post,
                     struct weir_fault *ret_fault);
    int (*rule_postgres_open)(const char *url, const char *table, struct weir_rule_store **ret_store,
                              struct weir_fault *ret_fault);
    int (*users_open)(const struct weir_users_options *options, struct weir_users **ret_users,
                      struct weir_fault *ret_fault);
    int (*servers_open)(const struct weir_servers_options *options, struct weir_servers **ret_servers,
                        struct weir_fault *ret_fault);
    void (*servers_close)(struct weir_servers *servers);
    const struct weir_snapshot *(*servers_look)(struct weir_servers *servers);
    void (*servers_release)(struct weir_servers *servers, const struct weir_snapshot *snapshot);
    void (*servers_count)(struct weir_servers *servers, uint64_t id);
    int (*servers_wait)(struct weir_servers *servers, uint64_t number, uint64_t deadline_ns);
    int (*servers_ask)(struct weir_servers *servers, uint64_t id, uint64_t deadline_ns);
    const struct weir_grpc_library *grpc;
};

#define WEIR_MODULE_SAID_SIZE 16384

/* Loads a module, for as long as the process lives; again, it is the same one. WEIR_ENOENT: it is not there,
 * WEIR_EINVAL: it cannot be used. ret_said says why as the end of a sentence: "weir-etcd.so, which is not in …". Any
 * thread. */
int weir_module_load(const char *name, const struct weir_module **ret_module, char ret_said[WEIR_MODULE_SAID_SIZE]);
