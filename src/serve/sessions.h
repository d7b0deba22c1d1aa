/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the loops and the servers of sessions (sessions): a loop asks, and what cannot be answered at once is
 * answered later, through the inbox of the loop that asked.
 *
 * Three kinds of threads beside the pollers: the loops decide what needs no more than the latest snapshot; one watcher
 * holds all routes that wait and decides them again with each new snapshot; a few workers ask where users are kept, and
 * the servers, which may block up to their timeouts. No loop ever waits for any of them.
 *
 * Bound: `waiters_max` asks at a time are answered later.
 *
 * Thread rule: an ask is of one loop's thread; the service, its view and its servers are of any. */
#pragma once

#include "observe/sessions.h"
#include "rules/config.h"
#include "serve/session_decide.h"

struct weir_loop;
struct weir_session_service;
struct weir_session_ask;

/* `config` names at least one server; nothing of it is kept. WEIR_EINVAL, WEIR_ERANGE and the fault: an address, a URL
 * of users, or a module that is missing; WEIR_ENOMEM, WEIR_EIO. Does not wait for the servers. */
int weir_session_service_create(const struct weir_config_sessions *config, size_t loops,
                                struct weir_session_service **ret_service, struct weir_fault *ret_fault);
void weir_session_service_destroy(struct weir_session_service *service); /* after the loops; NULL is allowed */

/* The view's names are as long as the service. */
void weir_session_service_view(struct weir_session_service *service, struct weir_sessions_view *ret_view);

/* There is one true primary now, which answers; or there may be: a server has not been asked yet. */
bool weir_session_service_led(struct weir_session_service *service);

/* {"servers":[…]}, from malloc. NULL: memory is out. */
uint8_t *weir_session_service_servers(struct weir_session_service *service, size_t *ret_size);

#define WEIR_SESSION_STATEMENT_MAX 4096 /* of weir_shown_statement() */

/* ---- of a loop; where there are no sessions (common->sessions is NULL), nothing ---- */

int weir_session_inbox_open(struct weir_loop *loop);   /* WEIR_EIO */
void weir_session_inbox_drain(struct weir_loop *loop); /* nobody waits for a replica any more */
void weir_session_inbox_close(struct weir_loop *loop); /* it has no connections any more */

/* ---- one ask ---- */

/* Answers at once into *ret_answer, and then *ret_ask is NULL; or later: `then` is called once, on the loop's
 * thread, never from within a call of the caller's. Nothing of the question is kept. WEIR_ENOENT: there are no sessions
 * here; WEIR_ELIMIT: too many wait; WEIR_ENOMEM. */
int weir_session_ask_create(struct weir_loop *loop, enum weir_session_call call,
                            const struct weir_session_question *question,
                            void (*then)(struct weir_session_ask *ask, void *context), void *context,
                            struct weir_session_answer *ret_answer, struct weir_session_ask **ret_ask);

/* Whether it is one that may have to wait for others. */
bool weir_session_ask_waits(const struct weir_session_ask *ask);
/* In `then` and later, until the end. */
const struct weir_session_answer *weir_session_ask_answer(const struct weir_session_ask *ask);

/* One of these ends it: its answer has been written, or its connection goes first (before `then` or after). */
void weir_session_ask_end(struct weir_session_ask *ask);
void weir_session_ask_abandon(struct weir_session_ask *ask);

/* ---- for those who answer ---- */

#define WEIR_SESSIONS_ABSENT_TEXT                                                                                      \
    "there are no sessions here: configure sessions: { servers: [ { name: a, url: \"host=…\" } ] }"
#define WEIR_SESSIONS_FULL_TEXT "too many questions about sessions wait: try again"
