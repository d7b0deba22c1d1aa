/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole server: its loops, and the thread that looks after them. That thread is the caller's: it takes signals
 * (SIGHUP reloads; SIGUSR2 starts a successor; SIGTERM and SIGINT drain, a second one hurries), keeps the limiter's
 * background work going and ends when the last loop has drained. What changes meanwhile is told on standard error, a
 * line each (serve/watch.h). */
#pragma once

#include "serve/follower.h"
#include "serve/loop.h"
#include "serve/opened.h"
#include "serve/setup.h"
#include "serve/systemd.h"
#include "serve/takeover_join.h"

struct weir_server;

#define WEIR_SERVER_THREADS_MAX 256

/* What is read anew. The greater one brings the smaller ones, too. */
enum weir_reload {
    WEIR_RELOAD_NONE,
    WEIR_RELOAD_REVISIONS, /* other nodes have newer definitions: no text; what is said is only which limits change */
    WEIR_RELOAD_RULES, /* the set of rules of the follower, or the files of Envoy's rate limit service, under the file
                              as it was read last */
    WEIR_RELOAD_FILE,  /* SIGHUP: all */
};

struct weir_server_options {
    struct weir_limiter *limiter;       /* outlives the server */
    struct weir_setup *setup;           /* taken over on success */
    const struct weir_config *before;   /* by which this node decided when it ended; NULL: not known */
    size_t threads;                     /* loops; 0 = one per core */
    struct weir_lock_engine *locks;     /* taken over, also on failure; NULL: there are no locks */
    struct weir_saver *saver;           /* outlives the server; NULL: a restart forgets what keys have used */
    const struct weir_site_place *site; /* the documentation; outlives the server */
    struct weir_permit_secret permit_secret;
    const struct weir_grpc_library *grpc; /* NULL where none of `listens` is for gRPC */
    struct weir_server_listen listens[WEIR_LISTENERS_MAX];
    size_t listen_count;
    const struct weir_systemd *systemd; /* who is told how it goes; outlives the server; NULL: nobody */

    /* Makes the setup after `in_force`, or returns NULL, which keeps that. ret_said: of what it is made, what
     * it changes and what of it needs a restart, or what is wrong. It may not change what listens where. Limits are as
     * `revisions` has them (rules/revise.h). Runs on the thread of weir_server_run; the loops go on meanwhile. */
    struct weir_setup *(*reload)(void *context, struct weir_revisions *revisions, const struct weir_setup *in_force,
                                 enum weir_reload what, char *ret_said, size_t said_size);
    /* All loops decide by this setup now. The same thread. */
    void (*moved)(void *context, const struct weir_setup *setup);
    /* Whether rules that stand in files were changed, so that they are to be read again (WEIR_RELOAD_RULES). The same
     * thread, every WEIR_WATCH_PERIOD_MS. */
    bool (*rules_changed)(void *context);
    void *context;
    struct weir_follower *follower; /* outlives the server; NULL: the file has the rules */

    const char *takeover_path;       /* where a successor takes over; outlives the server; NULL: nowhere */
    char **command;                  /* what SIGUSR2 starts to take over, NULL at its end; outlives the server */
    struct weir_takeover_join *join; /* whom this one took over from; outlives the server; NULL: nobody */
    int (*reopen_locks)(void *context, struct weir_lock_engine **ret_engine); /* the successor did not */
};

/* Waits until the engine that nodes share has answered, for its connect_timeout at most, and until this node knows what
 * others gossip, for a second at most (SIGTERM ends the wait), and opens all listeners; nothing is served yet. On
 * failure the fault says what. */
int weir_server_create(const struct weir_server_options *options, struct weir_server **ret_server,
                       struct weir_fault *ret_fault);

/* Where listener number `index` of the options listens, with the port that was chosen; NULL = off. */
const char *weir_server_listens_on(const struct weir_server *server, size_t index);

/* How many connections there can be: as configured, or as many as the process may have descriptors for. */
size_t weir_server_connections_max(const struct weir_server *server);

/* Any thread, until destroy: there is a newer set of rules, which is to be in force within some 10 ms. */
void weir_server_new_rules(struct weir_server *server);

/* Serves until drained; with options.join it decides already (weir_takeover_join_begin_deciding). WEIR_ENOMEM: the
 * threads could not be started. */
int weir_server_run(struct weir_server *server);

void weir_server_destroy(struct weir_server *server); /* NULL is allowed */
