/* SPDX-License-Identifier: Apache-2.0
 *
 * What the HTTP handlers share: a connection's session, a loop's working memory, and the call of one request. */
#pragma once

#include "observe/trace.h"
#include "serve/conn.h"
#include "serve/decide.h"
#include "serve/envoy.h"
#include "serve/permit.h"
#include "wire/check.h"
#include "wire/envoy_json.h"
#include "wire/forwarded.h"
#include "wire/http.h"
#include "wire/http_answer.h"
#include "wire/lock.h"
#include "wire/reservation.h"

struct weir_lock_ask;    /* serve/locks.h */
struct weir_session_ask; /* serve/sessions.h */
struct weir_rules_job;   /* serve/rules_job.h */
struct weir_live_stream; /* serve/http_live.c */

/* Of a request: the span that there will be of its decision. */
struct weir_http_trace {
    bool wanted; /* else the rest says nothing */
    bool has_parent, peek;
    enum weir_trace_call call;
    struct weir_traceparent parent;
    uint64_t start_ns, start_wall_ns;
    uint64_t rules_version, rules_checksum; /* by which it is decided */
};

/* Of one connection. */
struct weir_http_session {
    struct weir_http codec;
    bool closes;         /* the answer being written ends the connection */
    const uint8_t *rest; /* of an answer too long to be written at once; NULL = none */
    uint8_t *rest_owned; /* the same, where it ends with the answer; NULL: it stays */
    size_t rest_size;
    size_t rest_sent;
    bool rest_closes;                  /* the connection ends with it */
    struct weir_lock_ask *lock;        /* the lock being asked for; NULL = none */
    struct weir_session_ask *sessions; /* what is being asked about a session; NULL = nothing */
    struct weir_rules_job *rules;      /* what is asked of the store of rules; NULL = nothing */
    struct weir_envoy_ask *envoy;      /* Envoy's question being decided; NULL = none */
    struct weir_live_stream *live;     /* the stream that it is; NULL: none */
    struct weir_transaction *pending;  /* the request being decided (limits/transaction.h); NULL = none */
    int refused;                       /* of `pending`: the status of its refusal */
    bool with_body;                    /* of `pending`: its answer has one */
    struct weir_http_trace trace;      /* of the request being decided */
    /* Of the request that one of these answers later: weir_http_call_leave. */
    bool keep_alive, version_10;
    enum weir_http_method method;
};

/* Of one loop. */
struct weir_http_work {
    struct weir_http_request request;
    struct weir_check_request check;
    struct weir_reserve_request reserve;
    struct weir_forwarded forwarded;
    struct weir_lock_path lock_path;
    struct weir_lock_question lock_question;
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    struct weir_outcome outcome;
    struct weir_told told[WEIR_CHARGES_MAX];
    struct weir_permit_told permit;
    struct weir_envoy_work envoy;
};

/* One request being answered. */
struct weir_http_call {
    struct weir_conn *conn;
    struct weir_http_session *session;
    struct weir_http_work *work;
    const struct weir_http_request *request; /* NULL: it could not be understood, the connection ends with the answer */
    const struct weir_time *time;
    unsigned rights;         /* that were found to suffice; 0 where none are needed */
    uint64_t wait_ns;        /* the answer goes so much later */
    unsigned max_age_s;      /* for how long caches may keep the answer; 0: not at all */
    const char *caller;      /* of what needs the right admin: whose token was shown */
    bool authorization_used; /* Authorization said who the caller is: it is no attribute */
};

/* ---- calls: http_reply.c ---- */

/* A call on the connection; no request is read yet. */
struct weir_http_call weir_http_call_on(struct weir_conn *conn, const struct weir_time *time);

/* The answer comes later, when the input that the request points into will have gone: what it needs of it is kept. It
 * `waits` for other clients, or not. */
void weir_http_call_leave(const struct weir_http_call *call, bool waits);

/* The call whose answer has come, and its end. */
struct weir_http_call weir_http_call_resume(struct weir_conn *conn, const struct weir_time *time);
void weir_http_call_end(const struct weir_http_call *call, bool waits);

/* ---- answers: http_reply.c. Each call gets exactly one. ---- */

#define WEIR_HTTP_JSON "application/json"
#define WEIR_HTTP_PROBLEM "application/problem+json"
#define WEIR_HTTP_PLAIN "text/plain; charset=utf-8"

/* `fields` are more header fields, each with CRLF, or "". */
void weir_http_reply(const struct weir_http_call *call, int status, const char *type, const char *fields,
                     const char *body);

/* The same with a body of any bytes, which is copied. */
void weir_http_reply_body(const struct weir_http_call *call, int status, const char *type, const char *fields,
                          const struct weir_text *body);

/* A problem detail that says `detail`. */
void weir_http_reply_problem(const struct weir_http_call *call, int status, const char *fields, const char *detail);

/* An error of weir_decide or weir_check_parse as 400 (or 503 where memory is out) with the fault's text. */
void weir_http_reply_fault(const struct weir_http_call *call, int error, const struct weir_fault *fault);

/* A verdict with its header fields; `status` is 200 or what stands for a refusal. */
void weir_http_reply_verdict(const struct weir_http_call *call, int status, const struct weir_answer *answer,
                             bool with_body);

/* An answer of any length, which takes over `body` (from malloc): the connection sends it as the client takes it. */
void weir_http_reply_long(const struct weir_http_call *call, const char *type, const char *fields, uint8_t *body,
                          size_t size);
/* The same with a body that outlives the server, and is not copied. */
void weir_http_reply_shared(const struct weir_http_call *call, const char *type, const char *fields,
                            const uint8_t *body, size_t size);
void weir_http_send_rest(struct weir_conn *conn);

/* "gzip" among codings with commas: may a body come packed, with its Content-Encoding? With a weight it is passed over:
 * who gives one says rather what they prefer, and all take what is not packed. */
bool weir_http_takes_gzip(const struct weir_http_request *request);

/* The head of an answer that ends with the connection: what follows is written to it as it comes. */
void weir_http_reply_stream(const struct weir_http_call *call, const char *type, const char *fields);

/* ---- as weir_protocol's: http_hand.c ---- */

bool weir_http_hand(struct weir_conn *conn, uint8_t **ret_state, size_t *ret_size);
int weir_http_take(struct weir_conn *conn, const uint8_t *state, size_t size);

/* ---- handlers: http_check.c, http_envoy.c, http_limits.c, http_locks.c, http_metrics.c and so on ---- */

void weir_http_check_drop(struct weir_http_session *session); /* the connection ends */
void weir_http_check(struct weir_http_call *call);
void weir_http_envoy(struct weir_http_call *call);
void weir_http_envoy_drop(struct weir_http_session *session); /* the connection ends */
void weir_http_auth(struct weir_http_call *call);
/* http_trace.c: before a request is decided, and with what came of it. */
void weir_http_trace_begin(struct weir_http_call *call, enum weir_trace_call which, bool peek);
void weir_http_trace_end(const struct weir_http_call *call, int status);
void weir_http_limits(struct weir_http_call *call);
void weir_http_readyz(struct weir_http_call *call);
/* What is in force; the text that it points to is in `said`. */
struct weir_limits weir_http_in_force(struct weir_common *common, const struct weir_setup *setup, char *said,
                                      size_t size);
void weir_http_metrics(struct weir_http_call *call);
void weir_http_nodes(struct weir_http_call *call);
void weir_http_top(struct weir_http_call *call);
void weir_http_hour(struct weir_http_call *call);
void weir_http_state(struct weir_http_call *call);
void weir_http_page(struct weir_http_call *call);
void weir_http_page_css(struct weir_http_call *call);
void weir_http_page_js(struct weir_http_call *call);
bool weir_http_docs_path(struct weir_slice path); /* /docs, or below it */
void weir_http_docs(struct weir_http_call *call);
void weir_http_play(struct weir_http_call *call);
void weir_http_play_css(struct weir_http_call *call);
void weir_http_play_js(struct weir_http_call *call);
void weir_http_play_wasm(struct weir_http_call *call);
void weir_http_learn(struct weir_http_call *call);
void weir_http_learn_js(struct weir_http_call *call);

/* False: the request's path is none of locks. Else an error of the path with its fault, or 0 and what follows. */
bool weir_http_locks_path(struct weir_http_call *call, int *ret_error, struct weir_fault *ret_fault);
bool weir_http_locks_reads(const struct weir_http_call *call); /* GET; else POST */
unsigned weir_http_locks_right(const struct weir_http_call *call);
void weir_http_locks(struct weir_http_call *call);
void weir_http_locks_drop(struct weir_http_session *session); /* the connection ends */

void weir_http_sessions_route(struct weir_http_call *call);
void weir_http_sessions_seen(struct weir_http_call *call);
void weir_http_sessions_accept(struct weir_http_call *call);
void weir_http_sessions_servers(struct weir_http_call *call);
void weir_http_sessions_drop(struct weir_http_session *session); /* the connection ends */

void weir_http_rules(struct weir_http_call *call);
void weir_http_rules_versions(struct weir_http_call *call);
void weir_http_rules_diff(struct weir_http_call *call);
void weir_http_rules_rollback(struct weir_http_call *call);
void weir_http_rules_approve(struct weir_http_call *call);
void weir_http_rules_rollout(struct weir_http_call *call);
void weir_http_rules_replay(struct weir_http_call *call);
void weir_http_rules_drop(struct weir_http_session *session); /* the connection ends */
void weir_http_rules_exceptions(struct weir_http_call *call);
void weir_http_rules_level(struct weir_http_call *call);
void weir_http_rules_ban(struct weir_http_call *call);
void weir_http_rules_reset(struct weir_http_call *call);
void weir_http_rules_unban(struct weir_http_call *call);
struct weir_rules_question; /* serve/rules_answer.h */
/* Asks the store and leaves the call; or, where the question was wrong, says so. */
void weir_http_rules_ask(struct weir_http_call *call, int error, const struct weir_fault *fault,
                         const struct weir_rules_question *question);
/* Who changes something, the token's name, and before it whom its holder names; why; and when. */
int weir_http_rules_author(const struct weir_http_call *call, const char *author, const char *comment,
                           struct weir_rules_question *question, struct weir_fault *fault);

struct weir_answer weir_http_told(struct weir_http_call *call); /* work->outcome, without a permit */
/* /v1/reservations/{id}, and /settle and /extend of it: whether the path is one of them; which methods it takes. */
bool weir_http_reservations_path(const struct weir_http_call *call, const char **ret_allow);
void weir_http_reserve(struct weir_http_call *call);
void weir_http_reservations(struct weir_http_call *call);

/* /v1/permits/{id}/release and /renew: whether the path is one of them. */
bool weir_http_permits_path(const struct weir_http_call *call);
void weir_http_permits(struct weir_http_call *call);
