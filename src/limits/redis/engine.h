/* SPDX-License-Identifier: Apache-2.0
 *
 * The redis engine's parts and what they share. One engine belongs to one loop; all of it runs on that loop's thread.
 *
 *     redis.c      the engine behind remote.h; one turn of the loop, one tick
 *     request.c    a request: split by slots, sent, answered or timed out; redirects
 *     roll_back.c  slots that charged for a request that was not admitted
 *     server.c     one server: connect, greet, breathe, back off; its breaker, its in-flight window
 *     mark.c       whether a server has lost what it had said
 *     inspect.c    what should be mended there: rights, evictions
 *     cluster.c    the slot map; sentinel.c: who is the primary
 *     net/redis_*.c: commands, bytes, TLS, replies */
#pragma once

#include "base/checked.h"
#include "limits/redis/redis.h"
#include "limits/redis/script.h"
#include "net/redis_conn.h"

#define WEIR_REDIS_SLOTS 16384
#define WEIR_REDIS_NOBODY UINT16_MAX
#define WEIR_REDIS_PATIENCE_NS WEIR_NS_PER_SECOND /* unanswered for so long (or its deadline): the connection is dead */
#define WEIR_REDIS_GIVE_BACKS_MAX 1024

/* What was asked for, with memory of our own. */
struct weir_redis_settings {
    enum weir_redis_topology topology;
    struct weir_redis_seed {
        char host[WEIR_REDIS_HOST_MAX + 1];
        char path[WEIR_REDIS_PATH_MAX + 1];
        uint16_t port;
    } seeds[WEIR_REDIS_SEEDS_MAX];
    size_t seeds_count;
    char sentinel_name[WEIR_REDIS_SECRET_MAX + 1];
    char username[WEIR_REDIS_SECRET_MAX + 1]; /* "" = none */
    char password[WEIR_REDIS_SECRET_MAX], sentinel_password[WEIR_REDIS_SECRET_MAX];
    size_t password_size, sentinel_password_size;
    char prefix[WEIR_REDIS_PREFIX_MAX + 1];
    char tls_name[WEIR_REDIS_HOST_MAX + 1]; /* "" = the server's host */
    uint64_t connect_timeout_ns;
    struct weir_breaker_options breaker;
    bool test_clock;
};

int weir_redis_settings_init(struct weir_redis_settings *settings, const struct weir_redis_options *options,
                             struct weir_fault *ret_fault);

/* A key that this client alone writes, again and again with a number that grows, so that it knows when a server forgot:
 * see mark.h. */
struct weir_redis_mark {
    bool used;
    uint16_t slot;
    uint64_t first;        /* number of this connection, and part of its key */
    char key[96];          /* of this connection; "" = none yet */
    uint64_t confirmed;    /* the newest number that is stored; 0 = none */
    uint64_t confirmed_ns; /* uv_hrtime */
    bool tail;             /* decisions were answered after it */
    char before[96];       /* the key of the connection before, to be looked up; "" = none */
    uint64_t before_confirmed;
    uint64_t before_ns;
    bool before_tail;
};

struct weir_redis_server;
struct weir_redis_work;
struct weir_redis_group;

struct weir_redis_engine {
    struct weir_remote remote; /* first */
    uv_loop_t *loop;
    struct weir_redis_settings settings;
    SSL_CTX *tls; /* NULL = plain */
    uint64_t random;
    uint64_t client; /* this engine's name in its marks */

    uv_prepare_t turn;
    uv_timer_t tick, soon, deadline;
    unsigned handles; /* of these that libuv still has */
    bool closing;

    char *script; /* with the test clock; NULL = weir_script_text */
    char sha1[41];

    struct weir_redis_server *servers[WEIR_REDIS_SERVERS_MAX]; /* with holes */
    size_t servers_end;                                        /* behind the last that is used */
    uint16_t primary;                                          /* not CLUSTER: its place in servers */
    uint16_t *slots;                                           /* CLUSTER: of each slot */
    struct weir_redis_mark marks[WEIR_REDIS_SERVERS_MAX];
    uint64_t mark_numbers; /* used so far */
    uint64_t epoch;        /* SENTINEL: of the failover that made the primary */
    uint64_t backed_ns;    /* SENTINEL: when one last named this primary and this epoch; before: when one first spoke */

    uint64_t ask_ns; /* when the map (CLUSTER) or the primary (SENTINEL) is asked for next; 0 = not */
    uint64_t asked_ns;
    size_t ask_next; /* whom to ask next */
    bool mapped;     /* CLUSTER: a map has been read */

    struct weir_redis_work *first, *last;             /* under way, by deadline */
    struct weir_redis_work *finished, *finished_last; /* to be told in this turn */
    size_t pending;                                   /* groups that are under way, late ones included */
    uint64_t armed_ms;                                /* what the deadline timer is set to; 0 = it is not */
    struct weir_redis_group *giving;                  /* give-backs that wait for their next try */
    size_t givings;                                   /* all that are not confirmed */
    uint64_t requests;                                /* so far: request ids */
    struct weir_script_clock clock;                   /* the servers' */

    struct weir_remote_stats stats;
};

uint64_t weir_redis_random(struct weir_redis_engine *engine);
/* A time from ns / 2 to ns. */
uint64_t weir_redis_jitter(struct weir_redis_engine *engine, uint64_t ns);

/* The slot map (CLUSTER), or the primary (SENTINEL), is asked for in the next tick, or as soon as that may be. */
void weir_redis_ask_soon(struct weir_redis_engine *engine);

/* "HOST:PORT: text", kept for operators. */
void weir_redis_error(struct weir_redis_engine *engine, const struct weir_redis_server *server, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
