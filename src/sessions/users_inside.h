/* SPDX-License-Identifier: Apache-2.0
 *
 * The stores behind users.h, and what they share.
 *
 *     users.c          arguments; which store
 *     users_floor.c    what a user that is not found has seen
 *     users_memory.c   the table of the memory store
 *     users_remote.c   stores behind a server: fetch, merge, put back if unchanged; when a floor is too old
 *     users_value.c    the value that stands there
 *     users_redis.c    commands; users_redis_link.c: one connection
 *     users_postgres.c statements */
#pragma once

#include "sessions/users_floor.h"

struct weir_users_name {
    const void *data;
    size_t size;
};

struct weir_users_ops {
    int (*get)(struct weir_users *users, struct weir_users_name name, const struct weir_known *known,
               struct weir_session_token *ret_token);
    int (*add)(struct weir_users *users, struct weir_users_name name, const struct weir_known *known,
               const struct weir_session_token *seen, struct weir_session_token *ret_token);
    int (*accept)(struct weir_users *users, struct weir_users_name name, const struct weir_session_token *before,
                  const struct weir_session_token *token);
    void (*stats)(struct weir_users *users, struct weir_users_stats *stats);
    void (*close)(struct weir_users *users);
};

/* A store's first member. */
struct weir_users {
    const struct weir_users_ops *ops;
    uint64_t timeout_ns;
    uint64_t ttl_ns;
    struct weir_users_floor floor;
    _Atomic uint64_t found, not_found, failures;
};

/* With the defaults of the options filled in. */
int weir_users_memory_open(const struct weir_users_options *options, struct weir_users **ret_users);
int weir_users_redis_open(const struct weir_users_options *options, struct weir_users **ret_users,
                          struct weir_fault *ret_fault);
int weir_users_postgres_open(const struct weir_users_options *options, struct weir_users **ret_users,
                             struct weir_fault *ret_fault);

/* The part that all have. */
int weir_users_init(struct weir_users *users, const struct weir_users_ops *ops,
                    const struct weir_users_options *options);
void weir_users_deinit(struct weir_users *users);

/* Is each place of `part` one of `whole`, and nothing else newer? Then nothing was added to it since it was `whole`. */
bool weir_users_within(const struct weir_session_token *part, const struct weir_session_token *whole);
