/* SPDX-License-Identifier: Apache-2.0
 *
 * One route, decided from what a snapshot of the servers shows, again and again until it says something final.
 *
 * What a snapshot shows may be older than the token. A primary is therefore chosen only when it has shown what the
 * token tells of, or was asked after the token came; and to be read after a standby, when it was seen settled since.
 * A standby is chosen only while a receiver runs there: else its check could not say ok, and it is good for stale only.
 *
 * Pure; about a microsecond, and a few more for the text of the check. Thread rule: plain values. */
#pragma once

#include "sessions/check_text.h"
#include "sessions/servers.h"
#include "wire/session.h"

/* Of one route: what was asked, and when. Times are of CLOCK_MONOTONIC. */
struct weir_session_case {
    struct weir_session_token token;
    uint64_t session; /* the hash that says which server is sticky */
    enum weir_session_strategy strategy;
    enum weir_session_behind behind;
    bool write;
    bool primary;                         /* a read that goes to the primary, proven to show all or not */
    bool shared;                          /* what was seen is a user's: other devices may move it */
    char stay[WEIR_SESSION_NAME_MAX + 1]; /* "" = nowhere */
    char avoid[WEIR_SESSION_AVOID_MAX][WEIR_SESSION_NAME_MAX + 1];
    unsigned avoid_count;
    uint64_t came_ns;    /* the token was here */
    uint64_t wait_ns;    /* until then a replica is waited for */
    uint64_t give_up_ns; /* until then the servers have time to answer; not before wait_ns */
};

struct weir_session_times {
    uint64_t now_ns;
    uint64_t wall_ns;
    uint64_t window_ns;
    uint64_t freeze_ns;
    uint64_t poll_ns;
};

enum weir_session_said {
    WEIR_SESSION_WAITS, /* not yet: decide again with a later snapshot */
    WEIR_SESSION_ROUTED,
    WEIR_SESSION_MOVED, /* seen, accept: there is a token */
    WEIR_SESSION_LOST,
    WEIR_SESSION_BEHIND,    /* no server shows enough, or says whether it does */
    WEIR_SESSION_DOWN,      /* no server answers */
    WEIR_SESSION_FOREIGN,   /* the token or the place is of another system */
    WEIR_SESSION_FORGED,    /* not signed by one of the keys */
    WEIR_SESSION_MALFORMED, /* no token */
    WEIR_SESSION_NO_PLACE,  /* not what the place statement answers */
    WEIR_SESSION_UNPROVEN,  /* the place has no timeline, and nobody could tell it */
    WEIR_SESSION_STORE_DOWN,
    WEIR_SESSION_NOMEM,
    WEIR_SESSION_SAID
};

#define WEIR_SESSION_AVOIDED_MAX (WEIR_SESSION_AVOID_MAX * (WEIR_SESSION_NAME_MAX + 2) + 1)

#define WEIR_SESSION_MUTE_MAX 256 /* of more servers than fit, those that fit are named */

struct weir_session_answer {
    enum weir_session_said said;
    unsigned index; /* ROUTED: of the server in the snapshot */
    uint64_t server;
    char name[WEIR_SESSION_NAME_MAX + 1];
    bool primary, stale, lag_known, says_proven, proven;
    uint64_t lag_ms, holds_ms;
    char avoided[WEIR_SESSION_AVOIDED_MAX]; /* of a route that was refused: the servers that `avoid` left out; or "" */
    char mute[WEIR_SESSION_MUTE_MAX];       /* likewise: those that answer, where no check can prove anything; or "" */
    char stale_reads[WEIR_SESSION_NAME_MAX + 1]; /* likewise, of a read: the standby that `stale` would name; or "" */
    char check[WEIR_CHECK_TEXT_MAX];
    size_t check_size;
    char token[WEIR_SESSION_TOKEN_MAX];
    size_t token_size;
};

/* Fills all but `token`. After `give_up_ns` it never says WAITS. */
void weir_session_decide(const struct weir_session_case *route, const struct weir_snapshot *snapshot,
                         const struct weir_session_times *times, struct weir_session_answer *ret_answer);

/* The token with those of its places merged that by now can be. */
void weir_session_tidy(struct weir_session_token *token, const struct weir_known *known);

/* Of the servers; 0 = none has answered yet. */
uint64_t weir_session_system(const struct weir_snapshot *snapshot);

/* Number `index` has answered a question that was sent after `since_ns`. */
bool weir_session_fresh(const struct weir_snapshot *snapshot, unsigned index, uint64_t since_ns);
