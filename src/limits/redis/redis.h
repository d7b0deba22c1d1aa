/* SPDX-License-Identifier: Apache-2.0
 *
 * The redis engine: keys that many nodes share live in Redis (6.2 or later) or Valkey, which decides them in one atomic
 * script on its own clock. Stands behind limits/remote.h; docs/redis.md is its page for operators.
 *
 * One server, Sentinel (the primary is found through sentinels, and followed through failovers) or Cluster (slot map,
 * MOVED, ASK). One connection per server and loop; the requests of one turn of the loop leave in one send. Reconnects
 * wait longer and longer, spread by chance. A breaker per server refuses at once (WEIR_EDOWN) while a server does not
 * answer.
 *
 * Thread rule: everything here belongs to the loop's thread. One weir_remote per loop.
 *
 * Bounds, per loop: WEIR_REMOTE_PENDING_MAX requests under way (those whose reply is late included; the next one is
 * refused), 64 KiB and one command written ahead of each socket, 4 MiB and 65,536 elements of one reply (a longer one
 * closes the connection), WEIR_REDIS_SERVERS_MAX servers (further ones of a cluster are not used: their slots are
 * WEIR_EDOWN). */
#pragma once

#include <uv.h>

#include "limits/remote.h"

#define WEIR_REDIS_SERVERS_MAX 256
#define WEIR_REDIS_SEEDS_MAX 64 /* servers named in the options */
#define WEIR_REDIS_HOST_MAX 127 /* bytes of a host's name */
#define WEIR_REDIS_PATH_MAX 107 /* bytes of a Unix socket's path */
#define WEIR_REDIS_PREFIX_MAX 32
#define WEIR_REDIS_SECRET_MAX 512 /* bytes of a user's name, of a password, of a primary's name */

enum weir_redis_topology {
    WEIR_REDIS_SINGLE,   /* `servers` has one */
    WEIR_REDIS_SENTINEL, /* `servers` are sentinels */
    WEIR_REDIS_CLUSTER,  /* `servers` are some nodes of the cluster; the others are found */
};

struct weir_redis_address {
    const char *host; /* a name, IPv4 or IPv6 (no brackets); NULL with a path */
    uint16_t port;
    const char *path; /* of a Unix socket; NULL = TCP */
};

/* Everything is copied. */
struct weir_redis_options {
    enum weir_redis_topology topology;
    const struct weir_redis_address *servers; /* 1 to WEIR_REDIS_SEEDS_MAX of them, in any order */
    size_t servers_count;
    const char *sentinel_name;           /* the primary's, as the sentinels know it */
    const char *username;                /* NULL = "default" */
    struct weir_slice password;          /* size 0: no AUTH */
    struct weir_slice sentinel_password; /* size 0: no AUTH at sentinels */
    const char *prefix;                  /* of every key; NULL = "weir"; 1 to 32 of A-Z a-z 0-9 _ - . : */
    bool tls;                            /* with every server, sentinels included */
    const char *tls_ca_file;             /* NULL = the system's */
    const char *tls_name;                /* that certificates must be for, and SNI; NULL = the server's host */
    uint64_t connect_timeout_ns;         /* 0 = 1 s */
    bool test_clock;                     /* for tests only: requests may bring their own time (test_now_ns) */
    struct weir_breaker_options breaker; /* failures_max 0 = the defaults of core/breaker/breaker.h */
    uint64_t seed;                       /* of jitter, request ids and breakers: of good randomness, never 0 */
};

/* Starts to connect and returns at once; requests wait for the first connection within their deadline (in a cluster
 * and with sentinels they are WEIR_EDOWN until the map, or the primary, is known). The fault names the option at fault.
 * Errors: WEIR_EINVAL, WEIR_ERANGE, WEIR_ENOMEM, WEIR_EIO (the CA file).
 * `loop` must run until after close: memory is freed in a later turn of it. */
int weir_redis_create(uv_loop_t *loop, const struct weir_redis_options *options, struct weir_remote **ret_remote,
                      struct weir_fault *ret_fault);
