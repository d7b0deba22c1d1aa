/* SPDX-License-Identifier: Apache-2.0
 *
 * What sessions.c (asks, threads) and sessions_work.c (what an ask does) share. */
#pragma once

#include <pthread.h>
#include <uv.h>

#include "serve/sessions.h"
#include "sessions/shown.h"
#include "sessions/signer.h"
#include "sessions/users.h"

#define WEIR_SESSION_WORKERS 8 /* users that are asked for at once */

/* Who has it: only that one touches it, but for `abandoned`, which the service's lock guards. */
enum weir_session_stage {
    WEIR_SESSION_PENDING, /* a worker, the watcher, or their queues */
    WEIR_SESSION_ARRIVED, /* in the inbox of its loop */
    WEIR_SESSION_TOLD,    /* its asker: `then` was called */
};

struct weir_session_ask {
    struct weir_session_service *service;
    struct weir_loop *loop;
    void (*then)(struct weir_session_ask *ask, void *context);
    void *context;
    struct weir_session_ask *next; /* in a queue, with the watcher, or in the inbox */
    enum weir_session_stage stage;
    bool abandoned;

    enum weir_session_call call;
    bool has_user;
    size_t user_size;
    char user[WEIR_SESSION_ID_MAX];
    char server[WEIR_SESSION_NAME_MAX + 1];         /* SEEN: where; "" = not said */
    struct weir_shown shown[WEIR_SESSION_SEEN_MAX]; /* SEEN */
    unsigned shown_count;
    bool wrote;
    struct weir_session_case route; /* its token and its times are of all calls */
    struct weir_session_answer answer;
};

struct weir_session_queue {
    struct weir_session_ask *first, *last;
};

struct weir_session_inbox {
    uv_async_t async;
    bool open;
    struct weir_session_queue arrived;
    size_t asks; /* that have an asker */
};

/* Routes to one server. */
struct weir_session_routes {
    char name[WEIR_SESSION_NAME_MAX + 1];
    uint64_t id;
    _Atomic uint64_t ok, stale;
};

struct weir_session_service {
    struct weir_servers *servers;
    struct weir_users *users;
    struct weir_signer *signer;
    struct weir_sessions_counters counters;
    struct weir_session_routes routes[WEIR_SESSIONS_SERVERS_MAX];
    size_t routes_count;
    uint64_t timeout_ns, window_ns, freeze_ns, poll_ns;
    size_t waiters_max;
    _Atomic size_t waiting;  /* asks that are answered later, and have not been told */
    _Atomic uint64_t spread; /* for sessions without a name */
    _Atomic bool draining;

    pthread_mutex_t lock; /* of everything below, and of stages and `abandoned` */
    pthread_cond_t worked, watched;
    bool closing;
    struct weir_session_queue work, watch;
    pthread_t workers[WEIR_SESSION_WORKERS], watcher;
    size_t workers_count;
    bool watcher_runs;
    size_t inbox_count;
    struct weir_session_inbox inboxes[];
};

/* Fills in what the question says. 0, or the answer says at once what is wrong with it. */
int weir_session_work_read(struct weir_session_ask *ask, const struct weir_session_question *question);

/* What can be done without blocking. False: a worker is needed. */
bool weir_session_work_at_once(struct weir_session_ask *ask);

/* A worker's part; said WAITS: the watcher goes on with it. */
void weir_session_work(struct weir_session_ask *ask);

/* Decides a route by this snapshot. */
void weir_session_work_decide(struct weir_session_ask *ask, const struct weir_snapshot *snapshot);

/* Its answer is final: counts it. */
void weir_session_work_count(struct weir_session_ask *ask);

/* For sessions/users.h: what the primary shows now. context: the service. */
int weir_session_newest(void *context, uint64_t deadline_ns, struct weir_session_token *ret_token,
                        uint64_t *ret_changes);
