/* SPDX-License-Identifier: Apache-2.0
 *
 * One server of the redis engine: connects, greets (AUTH, CLIENT SETNAME, ROLE, SCRIPT LOAD), is ready, breathes once a
 * second, and when it breaks comes back after a wait that doubles and is spread by chance. */
#pragma once

#include "core/breaker/flight.h"
#include "limits/redis/engine.h"

enum weir_redis_server_state {
    WEIR_REDIS_WAITING, /* until retry_ns */
    WEIR_REDIS_CONNECTING,
    WEIR_REDIS_GREETING,
    WEIR_REDIS_READY,
};

enum weir_redis_role { WEIR_REDIS_ROLE_UNKNOWN, WEIR_REDIS_PRIMARY, WEIR_REDIS_REPLICA, WEIR_REDIS_WATCHER };

/* What inspect.h has seen. */
struct weir_redis_inspection {
    uint64_t due_ns;
    uint32_t denied;  /* commands, by their places in a list */
    bool keys_denied; /* ours */
    bool bounded;     /* its memory */
    char policy[32];  /* "" = not known */
    bool knows_evicted;
    uint64_t evicted; /* keys so far */
};

/* What a sentinel said last: the primary, and of which failover. */
struct weir_redis_said {
    char host[WEIR_REDIS_HOST_MAX + 1];
    uint16_t port;
    uint64_t epoch, at_ns; /* at_ns 0: nothing */
    uint64_t next_epoch;   /* of what it is about to say */
};

struct weir_redis_server {
    struct weir_redis_engine *engine;
    struct weir_redis_seed seed; /* where */
    char name[160];              /* "HOST:PORT" */
    bool watcher;                /* a sentinel */
    struct weir_redis_said said; /* a sentinel */
    bool leaving;                /* goes when nothing is under way at it */
    bool tried;                  /* a connection has failed since it was last ready */
    bool was_ready;
    enum weir_redis_server_state state;
    enum weir_redis_role role;
    struct weir_redis_conn conn;
    struct weir_breaker breaker;
    struct weir_flight flight;       /* of this connection */
    uint64_t answered_ns, missed_ns; /* the newest answer to a request, and missed deadline that counted */
    uint64_t silence_ns;             /* the breaker was opened by deadlines missed for so long; 0: by what it said */
    uint64_t started_ns;             /* of this attempt */
    uint64_t retry_ns, wait_ns;
    uint64_t breath_ns;         /* when the next is due */
    uint64_t breath_generation; /* of the breaker, of the newest breath */
    bool loading_script;        /* SCRIPT LOAD is under way */
    struct weir_redis_inspection inspection;
    char warning[WEIR_REMOTE_WARNING_MAX]; /* "" = none */
    struct weir_redis_mark *mark;          /* NULL = none (not a primary, or no slot) */
};

/* Finds the server of an address, or makes it and starts to connect. NULL: no room, no memory, no such address. */
struct weir_redis_server *weir_redis_server_find(struct weir_redis_engine *engine, const char *host, size_t host_size,
                                                 uint16_t port, const char *path, bool watcher);
void weir_redis_server_destroy(struct weir_redis_server *server); /* all calls are answered */
uint16_t weir_redis_server_index(const struct weir_redis_server *server);

void weir_redis_server_tick(struct weir_redis_server *server, uint64_t now_ns);
void weir_redis_server_flush(struct weir_redis_server *server);

/* The connection is no good: closes it, answers all its calls, waits. */
void weir_redis_server_fail(struct weir_redis_server *server, const char *why);

/* An error reply, whatever it says of the request: remembered for operators, and acted on. Whether anything was charged
 * is status_of_error's (request.c). */
void weir_redis_server_refused(struct weir_redis_server *server, const redisReply *reply);

bool weir_redis_server_answers(const struct weir_redis_server *server); /* it is ready, and its breaker is not open */

/* May a command be sent to it that has left_ns to be answered? It is ready, or becomes so for the first time; its
 * breaker allows it. A breaker that short deadlines opened is not there for who has more time than it took them. */
bool weir_redis_server_allows(struct weir_redis_server *server, uint64_t left_ns, uint64_t *ret_generation);
/* The breaker is told what became of a request that it allowed: it was answered, or failed. */
void weir_redis_server_told(struct weir_redis_server *server, uint64_t generation, bool success);
/* Or: it was not sent, for reasons of ours. */
void weir_redis_server_unsent(struct weir_redis_server *server, uint64_t generation);
/* Or: it was not answered in time. Many that miss their deadlines together have met one stall: those within a time to
 * answer are one failure. */
void weir_redis_server_missed(struct weir_redis_server *server, uint64_t generation);

/* Sends a command of words before all waiting ones; `then` is called once, with NULL if there will be no reply.
 * `sizes` NULL: strings. False: no memory. */
typedef void (*weir_redis_then)(struct weir_redis_server *server, const redisReply *reply, uint64_t context);
bool weir_redis_server_ask(struct weir_redis_server *server, weir_redis_then then, uint64_t context, int argc,
                           const char *const *argv, const size_t *sizes);
/* The same, but last in the line of waiting commands (ASKING), or at once (the end of a batch). */
bool weir_redis_server_ask_last(struct weir_redis_server *server, int argc, const char *const *argv);
bool weir_redis_server_ask_now(struct weir_redis_server *server, weir_redis_then then, uint64_t context, int argc,
                               const char *const *argv);

void weir_redis_server_load_script(struct weir_redis_server *server); /* it said NOSCRIPT */
