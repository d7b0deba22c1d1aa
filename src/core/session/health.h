/* SPDX-License-Identifier: Apache-2.0
 *
 * The health of a system's servers: what the answers of its pollers make known, and which servers are usable (one that
 * is frozen may still be read with `behind: stale`). Pure: the answers come with their times, nobody is asked from
 * here.
 *
 * Each server is in one phase, which follows from what all of them answered last. A standby is usable while it follows
 * the history of the true primary and moves when the primary does. A primary is usable while nobody was on a higher
 * timeline. What a server said is kept while it is down: a primary that was left behind does not become the true one
 * because the other does not answer for a moment.
 *
 * Who asks the servers, and publishes what this says, is src/sessions/servers.h; sim/sessions.h plays both. */
#pragma once

#include "core/session/branches.h"
#include "core/session/lag.h"
#include "core/session/route.h"

enum weir_health_phase {
    WEIR_HEALTH_UNHEARD,    /* has not answered yet */
    WEIR_HEALTH_DOWN,       /* did not answer the last question */
    WEIR_HEALTH_STRANGER,   /* is of another system */
    WEIR_HEALTH_FORMER,     /* a primary, and there is a higher timeline */
    WEIR_HEALTH_TIMELESS,   /* a standby that cannot tell its timeline */
    WEIR_HEALTH_BRANCHLESS, /* a standby of which nobody knows from which promotion its timeline comes */
    WEIR_HEALTH_STRAY,      /* a standby that went on where the primary's history left its timeline */
    WEIR_HEALTH_FROZEN,     /* a standby that stands still, and the primary has moved */
    WEIR_HEALTH_USABLE,
    WEIR_HEALTH_PHASES
};

/* "unheard", "down", … */
const char *weir_health_phase_name(enum weir_health_phase phase);

/* What one round of questions to a server brought. */
struct weir_health_reply {
    struct weir_shown shown; /* its branch and told are found here */
    uint64_t begun_ns;       /* CLOCK_MONOTONIC before it was asked; never 0 */
    uint64_t page_size;      /* of its log */
    uint64_t replayed_ns, clock;
    uint64_t settled_ns; /* a primary: seen in this round; 0 = nothing was */
    bool with_history;
    struct weir_history history;
    bool looked;                   /* into the branch table, in this round */
    struct weir_branches branches; /* what was found there, in this round or before */
};

/* Where a standby stood, in one run of its postmaster. */
struct weir_standing {
    uint64_t started;
    uint32_t timeline, branch;
};

struct weir_health_server {
    uint64_t id;
    bool up; /* it answered last time */
    struct weir_health_reply last;
    struct weir_standing was;   /* before it was promoted; its branch was known */
    struct weir_standing stood; /* when it told its timeline last; known or not */
    uint64_t moved_ns;          /* when it was asked first where it now stands */
    uint64_t settled_ns;        /* all transactions that ran then have ended, and are visible; 0 = nothing known */
};

struct weir_health {
    uint64_t freeze_ns;
    uint64_t system; /* of all of them; 0 = nobody has answered yet */
    struct weir_known known;
    struct weir_lag lag; /* where the primary was */
    unsigned count;
    struct weir_health_server *servers[WEIR_ROUTE_SERVERS_MAX]; /* the caller's */
};

/* All zero but freeze_ns: begun. A server is all zero but its id. Their order stays. */
void weir_health_add(struct weir_health *health, struct weir_health_server *server);
void weir_health_remove(struct weir_health *health, const struct weir_health_server *server);

/* The server answered. Questions to one server end in the order in which they began; to several, in any. Writes into
 * the reply of which branch it is. */
void weir_health_hear(struct weir_health *health, struct weir_health_server *server, struct weir_health_reply *reply);

/* It did not. */
void weir_health_miss(struct weir_health_server *server);

/* A primary was seen by a connection that is no poller's. It may tell late: a run that is not known, and not the first
 * of its timeline, may be one that is over. True: it was taken. False: it is of another system, or the pollers should
 * see for themselves, which *ret_ask says. */
bool weir_health_tell(struct weir_health *health, const struct weir_shown *shown, bool *ret_ask);

/* Of the server, by what all of them said last. */
enum weir_health_phase weir_health_phase(const struct weir_health *health, const struct weir_health_server *server);

/* It said last that it is the primary, and another is: on a higher timeline, or on one of the same number, while this
 * one is down. */
bool weir_health_is_former(const struct weir_health *health, const struct weir_health_server *server);

/* A standby that answers, and stands still while the primary moves; whatever else is wrong with it. */
bool weir_health_stands(const struct weir_health *health, const struct weir_health_server *server);

/* What core/session/route chooses from. `load` is the caller's. */
void weir_health_show(const struct weir_health *health, const struct weir_health_server *server,
                      struct weir_route_server *ret_server);

/* As weir_route_leader, but by what each said last, be it down now. NULL: none, or two that contradict each other. */
struct weir_health_server *weir_health_primary(const struct weir_health *health);

/* On which branch of its timeline is a server that shows this, as far as is known without others? 0: not known, or
 * timeline 1. */
uint32_t weir_health_branch(const struct weir_health_server *server, const struct weir_shown *shown);

/* Of weir_health_hear, in a file of its own: which branch the reply is of, into it, and what it tells of branches, into
 * what is known. */
void weir_health_place(struct weir_health *health, struct weir_health_server *server, struct weir_health_reply *reply);
