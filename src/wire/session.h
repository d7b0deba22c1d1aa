/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON of /v1/sessions (docs/sessions-http.md): what is asked, and what is answered. Unknown and duplicate members
 * are refused.
 *
 * Thread rule: plain values. */
#pragma once

#include "weir/error.h"
#include "weir/session.h"
#include "wire/text.h"

#define WEIR_SESSION_SEEN_MAX 16  /* places in one message */
#define WEIR_SESSION_AVOID_MAX 16 /* servers to avoid */
#define WEIR_SESSION_NAME_MAX 63  /* of a server */
#define WEIR_SESSION_PLACE_MAX 256

enum weir_session_call {
    WEIR_SESSION_CALL_ROUTE,
    WEIR_SESSION_CALL_SEEN,
    WEIR_SESSION_CALL_ACCEPT,
};

/* ---- what is asked ---- */

/* Slices point into `json`. */
struct weir_session_question {
    bool has_user;           /* `user`, else `token` */
    struct weir_slice user;  /* 1 to WEIR_SESSION_ID_MAX bytes */
    struct weir_slice token; /* up to WEIR_SESSION_TOKEN_MAX bytes; none: a session that has seen nothing */

    /* ROUTE */
    bool write;
    bool primary;                        /* a read at the primary, at once */
    enum weir_session_strategy strategy; /* TRACKED, STICKY or WINDOW */
    enum weir_session_behind behind;
    uint64_t wait_ms;          /* 0 to WEIR_SESSION_WAIT_MAX_MS */
    struct weir_slice session; /* whose server is sticky; none: the user, if there is one */
    struct weir_slice stay;    /* the server that it is at; none: nowhere */
    struct weir_slice avoid[WEIR_SESSION_AVOID_MAX];
    unsigned avoid_count;

    /* SEEN */
    struct weir_slice places[WEIR_SESSION_SEEN_MAX]; /* 1 to WEIR_SESSION_PLACE_MAX bytes each */
    unsigned places_count;                           /* at least 1 */
    struct weir_slice server;                        /* where they were seen; none: not said */
    bool wrote;

    void *json;
};

/* Reads the body of `call`. Errors: WEIR_EPROTO (not JSON, or not of this shape), WEIR_ERANGE, WEIR_ENOMEM; the fault's
 * field is the member at fault, or "body". End with weir_session_question_deinit on success. */
int weir_session_question_parse(enum weir_session_call call, const void *data, size_t size,
                                struct weir_session_question *ret_question, struct weir_fault *ret_fault);
void weir_session_question_deinit(struct weir_session_question *question);

/* ---- what is answered: whole bodies ---- */

struct weir_session_told {
    const char *server;
    bool primary;
    bool stale;
    bool says_proven, proven; /* of a read at the primary: it shows all that was seen */
    bool lag_known;
    uint64_t lag_ms;
    uint64_t holds_ms;
    struct weir_slice check; /* statements */
    struct weir_slice place;
    struct weir_slice token;
};

/* At most WEIR_SESSION_JSON_MAX bytes beside check and place, which have nothing to escape, and the token. */
#define WEIR_SESSION_JSON_MAX 640
void weir_session_json_route(struct weir_text *text, const struct weir_session_told *told);

void weir_session_json_token(struct weir_text *text, struct weir_slice token);

/* A problem detail with the member "verdict". */
void weir_session_json_problem(struct weir_text *text, int status, const char *verdict, const char *detail);

struct weir_session_server_told {
    const char *name;
    const char *fault;    /* why it is not usable; "" */
    const char *position; /* as PostgreSQL writes it; "" = it has not answered yet */
    const char *role;     /* once it has answered */
    bool usable;
    bool frozen;
    bool lag_known;
    uint64_t lag_ms;
    uint64_t age_ms; /* since it was asked what it answered last */
    uint32_t timeline;
    uint32_t load;
};

/* One server, which WEIR_SESSION_SERVER_JSON_MAX bytes hold: its faults are of at most 255. */
#define WEIR_SESSION_SERVER_JSON_MAX 2400
void weir_session_json_server(struct weir_text *text, const struct weir_session_server_told *told);
