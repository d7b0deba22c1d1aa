/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of a session: what it has seen, and on which connections.
 *
 * All that a session has seen is: its token, and what the connections in its pins showed since their places were
 * taken (`used`), and what was seen on connections that broke before that (`gaps`). A read goes to a connection that is
 * known to show all of it: the part that it showed itself it goes on showing. */
#pragma once

#include "sessions/pool.h"
#include "sessions/servers.h"
#include "sessions/signer.h"

struct weir_replicas {
    struct weir_servers *servers;
    struct weir_pool *pool;
    struct weir_signer *signer; /* NULL: tokens are not signed */
    uint64_t timeout_ns;
    char *clock_query; /* NULL: none */
};

/* A connection that the session keeps. */
struct weir_pinned {
    struct weir_link *link; /* NULL: none */
    bool used;              /* handed out since its place was taken: it may have shown more than the token says */
    bool wrote;             /* and for writing */
    uint64_t version;       /* the token's, when the link was known to show all that had been seen; 0 = never */
    uint64_t snapshot;      /* the newest that has nothing against staying */
};

/* Something was seen on a connection that broke before it said how far it was. */
struct weir_gap {
    bool open;
    uint64_t server;
    uint64_t since_ns; /* CLOCK_MONOTONIC when it was found */
    uint64_t system;
    uint64_t run;      /* at a primary */
    uint32_t timeline; /* 0: not even that is known */
    uint32_t branch;
};

enum { WEIR_PINNED_REPLICA, WEIR_PINNED_LEADER, WEIR_PINNED_COUNT };

struct weir_session {
    struct weir_replicas *replicas;
    uint64_t id;
    enum weir_session_strategy strategy;
    enum weir_session_behind behind;
    uint64_t wait_ns;
    uint64_t window_ns;
    bool reads_do_not_move;
    struct weir_session_token token;
    uint64_t version;   /* another number, another token */
    uint64_t gained_ns; /* CLOCK_MONOTONIC when the token was changed last */
    struct weir_pinned pins[WEIR_PINNED_COUNT];
    struct weir_gap gaps[WEIR_PINNED_COUNT];
    struct weir_pinned *at;     /* where it reads; NULL: nowhere yet */
    struct weir_pinned *handed; /* whose link was handed out last; NULL: none is out */
    struct weir_fault fault;
};

static inline bool weir_session_is_tracked(const struct weir_session *session)
{
    return session->strategy == WEIR_SESSION_TRACKED;
}

/* Does it keep places? The others have clocks instead. */
static inline bool weir_session_has_places(const struct weir_session *session)
{
    return session->strategy != WEIR_SESSION_PHYSICAL && session->strategy != WEIR_SESSION_LAMPORT;
}

/* Sets the fault; returns `error`. */
int weir_session_say(struct weir_session *session, int error, const char *server, const char *text);

/* ---- one call of the application's: what it knows of the servers ---- */

#define WEIR_CALL_SHUNNED_MAX 16

struct weir_call {
    struct weir_session *session;
    uint64_t begun_ns;
    uint64_t until_ns; /* it waits for servers to catch up until then */
    uint64_t waited_ns;
    const struct weir_snapshot *snapshot;
    const struct weir_known *known; /* the snapshot's */
    unsigned count;
    struct weir_route_server
        servers[WEIR_ROUTE_SERVERS_MAX]; /* the snapshot's; those that are no good are not usable */
    /* Those that did not stand the check, or did not answer: not taken before their poller has asked them anew. */
    unsigned shunned_count;
    struct {
        uint64_t server;
        uint64_t since_ns;
    } shunned[WEIR_CALL_SHUNNED_MAX];
};

void weir_call_begin(struct weir_call *call, struct weir_session *session);
void weir_call_end(struct weir_call *call);

/* The latest snapshot. */
void weir_call_look(struct weir_call *call);

/* Waits for news of the servers. False: the time to wait is over. */
bool weir_call_wait(struct weir_call *call);

/* Has server `id` asked anew, and looks. False: no answer within the timeout. */
bool weir_call_ask(struct weir_call *call, uint64_t id);

/* Does not take the server again in this call, or not before it was asked anew. */
void weir_call_shun(struct weir_call *call, uint64_t id);

/* Its index, or WEIR_ROUTE_NONE. */
uint32_t weir_call_find(const struct weir_call *call, uint64_t id);

uint64_t weir_call_timeout(const struct weir_call *call); /* the deadline of a question that is asked now */

/* ---- pins ---- */

/* Puts a connection to the server into its place: the one that is there, or one of the pool's, which has been asked at
 * least once (where places are kept). What the one before showed must have been taken. WEIR_EAGAIN: none, and the
 * server is shunned; WEIR_ELIMIT, WEIR_ENOMEM. */
int weir_pinned_take(struct weir_call *call, struct weir_pinned *pinned, uint32_t index);

/* Adds to the token what was seen on the pinned connection. One round trip, if it was used since; else nothing.
 * WEIR_EUNKNOWN: it broke: there is a gap; WEIR_EBUSY; WEIR_ELIMIT: the token is full. */
int weir_pinned_settle(struct weir_call *call, struct weir_pinned *pinned);

/* Is it known of which branch of its timeline the connection's server is? */
bool weir_pinned_is_told(const struct weir_pinned *pinned);

/* Asks the connection how far it is. WEIR_EAGAIN: it broke, and the server is shunned; WEIR_EBUSY. */
int weir_pinned_ask(struct weir_call *call, struct weir_pinned *pinned);

/* Closes a connection that is broken; what it showed, if it was used, is a gap. */
void weir_pinned_lose(struct weir_session *session, struct weir_pinned *pinned);

/* Gives the connection back. */
void weir_pinned_leave(struct weir_session *session, struct weir_pinned *pinned);

/* The token has changed, by what was seen on `pinned` (NULL: elsewhere). */
void weir_session_gained(struct weir_session *session, struct weir_pinned *pinned);

/* Does it say the same? The time of the last write, which no check depends on, is left aside. */
bool weir_session_token_same(const struct weir_session_token *a, const struct weir_session_token *b);

/* Adds the place to the token. WEIR_ELIMIT. */
int weir_session_add(struct weir_session *session, const struct weir_known *known, struct weir_pinned *pinned,
                     const struct weir_place *place);

/* Before each call: WEIR_EBUSY if what was handed out last is still in use. */
int weir_session_back(struct weir_session *session);

/* Fills the gaps: the primary, where it is still the one that it was, has written no more than it says now. 0: none is
 * left. WEIR_ECUTOFF; WEIR_EBEHIND: no primary could be asked; WEIR_ELIMIT, WEIR_ENOMEM. */
int weir_session_fill(struct weir_call *call);

/* Pins a connection to the primary that is true. WEIR_EDOWN: there is none, within the wait. */
int weir_session_lead(struct weir_call *call);

/* ---- choosing ---- */

/* What core/session/route is asked of the token as it is. */
struct weir_route_request weir_call_request(const struct weir_call *call, bool write);

/* Where to go, once somebody is known to be far enough or the time to wait is over. WEIR_EBEHIND, WEIR_ECUTOFF,
 * WEIR_EFOREIGN, WEIR_EDOWN. */
int weir_session_find(struct weir_call *call, bool write, struct weir_route *ret_route);

int weir_session_lost(struct weir_call *call, const char *server); /* WEIR_ECUTOFF */
