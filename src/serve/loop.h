/* SPDX-License-Identifier: Apache-2.0
 *
 * One event loop, its listeners and its connections, on a thread of its own. Loops share the limiter and the setup and
 * nothing else. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "observe/counter.h"
#include "observe/metrics.h"
#include "serve/buffer.h"
#include "serve/conn.h"
#include "serve/guess.h"
#include "serve/own_limits.h"
#include "serve/recent.h"
#include "serve/setup.h"
#include "serve/sharer.h"
#include "serve/timer.h"
#include "weir/limiter.h"
#include "wire/grpc.h"
#include "wire/http_answer.h"
#include "wire/permit.h"

#define WEIR_LISTENERS_MAX 7
/* Of one loop that takes over from a server with many. */
#define WEIR_LOOP_LISTENERS_MAX (WEIR_LISTENERS_MAX * 256)

/* For how long connections that cannot be handed over (TLS, gRPC) are drained, at most, before a successor decides. */
#define WEIR_HANDING_PARTS_NS (3 * WEIR_NS_PER_SECOND)

/* How far a server is with handing over to another process (takeover.h). Loops follow when woken. */
enum weir_handing {
    WEIR_HANDING_NONE,
    WEIR_HANDING_PARTS,   /* connections that cannot be handed over are drained */
    WEIR_HANDING_FREEZES, /* no request is taken, no connection accepted */
    WEIR_HANDING_HANDS,   /* plain connections go to the successor, and stay ours too */
    WEIR_HANDING_GONE,    /* the successor decides: what was handed is forgotten, what was not is handed when idle */
};

/* Written by the loop's thread only, read by any (observe/counter.h). */
struct weir_counters {
    _Atomic uint64_t connections_opened;
    _Atomic uint64_t connections_closed;
    _Atomic uint64_t connections_refused; /* there were connections_max already */
    _Atomic uint64_t connections_shed;    /* their input had to grow, and there was buffer_bytes_max already */
    _Atomic uint64_t tokens_wrong;        /* shown, and none of ours */
    _Atomic uint64_t tokens_unseen;       /* not looked at: too many wrong ones came from there */
    _Atomic uint64_t timeouts;            /* closed for being idle or slow */
    _Atomic uint64_t live_cut;            /* readers of GET /v1/live that did not take what they were sent */
    _Atomic uint64_t protocol_errors;     /* closed for what they sent */
    _Atomic uint64_t bytes_in;
    _Atomic uint64_t bytes_out;
    _Atomic uint64_t commands; /* RESP commands taken */
    _Atomic uint64_t requests; /* HTTP requests taken */
    _Atomic uint64_t calls;    /* gRPC calls taken */
    _Atomic uint64_t grpc_answers[WEIR_GRPC_STATUSES];
    _Atomic uint64_t http_answers[WEIR_HTTP_STATUSES];
    _Atomic uint64_t foreign_refused; /* HTTP requests of somebody else's web page */
    _Atomic uint64_t hosts_refused;   /* HTTP requests to a name that is not ours */
    _Atomic uint64_t auth_unserved;   /* /v1/auth asked for where `forwarded` is none */
    _Atomic uint64_t auth_refused;    /* /v1/auth: the proxy's fields or the path are not as they must be */
    _Atomic uint64_t claims_ignored;  /* of reserved attributes, by what does not state them */
    _Atomic uint64_t fallbacks[WEIR_FALLBACK_POLICIES];     /* verdicts that an engine did not give */
    _Atomic uint64_t unmatched_admitted, unmatched_refused; /* requests that met no limit */
    _Atomic uint64_t levels_unknown;                        /* met by keys with an exception, and not in the rules */
    _Atomic uint64_t releases_foreign;                      /* of permits that this process never gave */
    _Atomic uint64_t releases_ended;                        /* of permits that had ended, or had been given back */
    _Atomic uint64_t unknown_charges; /* exact decisions that the engine may have charged without our hearing of it */
};

struct weir_takeover_taken;  /* serve/takeover_channel.h */
struct weir_refusals;        /* observe/refusals.h */
struct weir_refusal_lines;   /* serve/refusal_lines.h */
struct weir_holds;           /* serve/hold.h */
struct weir_gossip_host;     /* limits/gossip_host.h */
struct weir_lock_service;    /* serve/locks.h */
struct weir_session_service; /* serve/sessions.h */
struct weir_saver;           /* serve/saver.h */
struct weir_site_place;      /* serve/site.h */
struct weir_follower;        /* serve/follower.h */
struct weir_excepted_keys;   /* rules/excepted_keys.h */
struct weir_tracer;          /* observe/tracer.h */
struct weir_grpc_library;    /* wire/grpc_library.h */
struct weir_live_stream;     /* serve/http_live.c */
struct weir_hour;            /* observe/hour.h */
struct weir_reservations;    /* serve/reserve.h */
struct weir_past;            /* observe/past.h */
struct weir_last;            /* observe/last.h */

struct weir_listener {
    struct weir_loop *loop;
    const struct weir_protocol *protocol;
    void *state; /* protocol->loop_state_size bytes */
    uv_poll_t poll;
    int fd;
    size_t number; /* of the server's listener that it is a socket of */
    bool loopback; /* only this machine reaches it: `auth: required` may then ask for no token */
    bool tcp;      /* else a Unix socket, where nobody speaks TLS */
};

/* How the last reload ended, and how many did. */
struct weir_reloads {
    pthread_mutex_t lock;
    uint64_t done, failed;
    bool last_failed;
    uint64_t last_wall_ns; /* 0: there was none */
    char last_said[900];   /* what is wrong, or what is in force now */
};

/* serve/marks.h: another number, another state. */
struct weir_marks {
    _Atomic uint64_t limits, nodes, state;
};

/* What the loops of one server share. */
struct weir_common {
    struct weir_limiter *limiter;
    struct weir_metrics *metrics;
    struct weir_top *top;                     /* NULL, in tests: whom limits refuse is not counted */
    struct weir_hour *hour;                   /* the last one, second by second */
    struct weir_past *past;                   /* what limits were asked in it; NULL, in tests: nothing is kept */
    struct weir_marks marks;                  /* of parts of the dashboard */
    _Atomic size_t live_streams;              /* GET /v1/live: under way */
    struct weir_last *last;                   /* the last refusals; NULL, in tests: there are none */
    struct weir_refusal_lines *refusal_lines; /* the server's own */
    struct weir_holds *holds;
    struct weir_fallback *fallback;        /* this node's shares while an engine fails */
    uint64_t started_ns;                   /* this process */
    struct weir_gossip_host *gossip;       /* NULL: no limit is gossiped */
    struct weir_revisor revisor;           /* run by the first loop */
    struct weir_lock_service *locks;       /* NULL: there are no locks */
    struct weir_session_service *sessions; /* NULL: there are no sessions */
    struct weir_permit_secret permit_secret;
    struct weir_reservations *reservations;
    const struct weir_grpc_library *grpc;      /* NULL: nothing listens for gRPC */
    const struct weir_site_place *site;        /* the documentation */
    struct weir_saver *saver;                  /* NULL: a restart forgets what keys have used */
    struct weir_follower *follower;            /* NULL: the file has the rules */
    const struct weir_excepted_keys *excepted; /* the follower's; NULL: there are no exceptions */
    struct weir_tracer *tracer;                /* NULL, in tests: no decision is traced */
    _Atomic size_t rules_jobs;                 /* rules_job.h: under way */
    struct weir_guesses guesses;
    struct weir_reloads reloads;
    _Atomic(const char *) auth_refused_why; /* the newest one's reason, a text that stays; NULL: there was none */
    struct weir_loop *loops;
    size_t loop_count;
    size_t connections_room;                  /* for which there are descriptors */
    _Atomic size_t connections;               /* of all loops */
    _Atomic size_t buffered;                  /* bytes that their buffers take */
    _Atomic(const struct weir_setup *) setup; /* the newest; loops move to it when woken */
    _Atomic size_t setup_pending;             /* loops that have not yet moved to it */
    _Atomic bool draining;
    _Atomic bool hurry;           /* drain no longer: close everything */
    _Atomic uint64_t pulse;       /* what each loop is to write down next (supervisor.h) */
    uv_async_t *moved;            /* told when the last loop has moved, or has drained */
    _Atomic size_t running;       /* loops that have not ended */
    _Atomic unsigned handing;     /* enum weir_handing */
    int handing_fd;               /* to the successor; in HANDS and GONE */
    pthread_mutex_t handing_lock; /* one connection at a time */
};

struct weir_loop {
    uv_loop_t uv;
    pthread_t thread;
    struct weir_common *common;
    struct weir_limiter *limiter;
    const struct weir_setup *setup; /* moves between turns only: read it anew for each batch, keep nothing from it */
    uint64_t setup_number;          /* counts the moves */
    bool moving;                    /* requests of the setup before this one are still under way */
    struct weir_recent recent;
    struct weir_timer top_timer;              /* shows what refused.c has counted */
    bool top_waits;                           /* it runs */
    struct weir_timer live_timer;             /* of the streams */
    struct weir_live_stream *live;            /* GET /v1/live: all of this loop */
    _Atomic(struct weir_refusals *) refusals; /* for the log and for who looks; NULL: none were asked for so far */
    uint32_t *slots;                          /* in the metrics, of the limits of `setup`; NULL: memory was out */
    size_t number;                            /* of this loop, from 0 */
    struct weir_counters counters;
    struct weir_timers timers;
    struct weir_sharer sharer;
    struct weir_piece_pool pool;
    struct weir_listener *listeners[WEIR_LOOP_LISTENERS_MAX];
    size_t listener_count;
    struct weir_conn *conns; /* all, newest first */
    size_t conn_count;
    struct weir_conn *check_next; /* where the look for overdue connections goes on */
    struct weir_conn *ready_first, *ready_last;
    uv_idle_t ready;  /* runs while the ready list has somebody */
    uv_timer_t check; /* looks for overdue connections */
    size_t ready_count;
    uv_async_t wake;        /* the server wants something: a new setup, drain, a sign of life */
    _Atomic uint64_t pulse; /* of the server's, the newest that it has seen; UINT64_MAX: it has ended */
    bool draining;
    uint64_t drain_began_ns, drain_until_ns;
    enum weir_handing handing;
    _Atomic unsigned handing_seen;                  /* as `handing`, for the server's thread; */
    _Atomic bool still;                             /* and nothing is left to be done for it */
    _Atomic bool handing_failed;                    /* the successor did not take what it was sent */
    _Atomic size_t handed;                          /* connections that were handed over */
    _Atomic(struct weir_takeover_taken *) arrivals; /* of a predecessor: connections to go on with */
};

/* Where limit number `index` of the setup is counted. */
static inline uint32_t weir_loop_slot(const struct weir_loop *loop, uint32_t index)
{
    if (index == WEIR_RULE_THROTTLE)
        return WEIR_METRICS_THROTTLE;
    return loop->slots ? loop->slots[index] : 0; /* WEIR_METRICS_OTHER */
}

/* What all loops have counted; `offset` is that of a member of struct weir_counters. */
uint64_t weir_loops_counted(const struct weir_common *common, size_t offset);

/* What `loops` loops count into and remember with: from `metrics` and `guesses` to `tracer` and `fallback`. Set
 * `started_ns` first. What an error leaves, weir_common_deinit takes. */
int weir_common_init(struct weir_common *common, size_t loops);
void weir_common_deinit(struct weir_common *common);

/* The fault says what is wrong with the engine of the configuration. */
int weir_loop_init(struct weir_loop *loop, struct weir_common *common, struct weir_fault *ret_fault);

/* Serves on a listening socket as `like` says (protocol, loopback); the loop owns the socket from then
 * on. Before weir_loop_start. */
int weir_loop_listen(struct weir_loop *loop, const struct weir_listener *like, int fd);

/* Goes on with a connection of a predecessor, which it takes over; any thread, also before weir_loop_start. */
void weir_loop_arrive(struct weir_loop *loop, struct weir_takeover_taken *taken);

int weir_loop_start(struct weir_loop *loop);   /* on a new thread */
void weir_loop_join(struct weir_loop *loop);   /* after it has drained */
void weir_loop_deinit(struct weir_loop *loop); /* one that was not started, or has been joined */

/* For connections. */
void weir_loop_ready_add(struct weir_loop *loop, struct weir_conn *conn);
void weir_loop_ready_remove(struct weir_loop *loop, struct weir_conn *conn);
void weir_loop_conn_closed(struct weir_loop *loop);

/* A request under way has ended: the last of an old setup lets it go, the last of all lets the loop drain. */
void weir_loop_request_ended(struct weir_loop *loop);
void weir_loop_shared_closed(
    struct weir_loop *loop); /* what was shared with other nodes is settled: the loop may end */
