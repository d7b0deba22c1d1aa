/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session's request does next: go to a server, wait for news, have a server asked, or end with an answer. Pure.
 *
 * The library and the service both ask here. core/session/route.h says which server would do, by what is known; this
 * says whether that is enough, and until when more is waited for. The two callers differ in their check:
 *
 *     WEIR_POLICY_CONNECTION  The library. It holds the connection that will read and asks there how far the server is,
 *                             as often as it needs to: what is chosen need not be proven before. It blocks: that nobody
 *                             answers yet is waited for too.
 *     WEIR_POLICY_STATEMENT   The service. Others run its check, once, as one statement. So a standby that cannot tell
 *                             its timeline there is good for a stale read only; and a primary is named once it was seen
 *                             to reach the token, or was asked after the token came, and, for a read of what was seen
 *                             elsewhere, was settled since.
 *
 * Thread rule: plain values. About a microsecond. */
#pragma once

#include "core/session/route.h"

/* Who does not wait for servers has those that were not asked since still asked once, for so long. */
#define WEIR_POLICY_REFRESH_NS UINT64_C(20000000)

enum weir_policy_caller {
    WEIR_POLICY_CONNECTION,
    WEIR_POLICY_STATEMENT,
};

struct weir_policy_request {
    struct weir_route_request route; /* wait_left_ns is found here. write: also of a read that goes to the primary */
    enum weir_policy_caller caller;
    uint64_t avoided;    /* bit i: not server i, unless it is a primary: where its check fails nobody's would do */
    uint64_t now_ns;     /* CLOCK_MONOTONIC, as all that follow */
    uint64_t begun_ns;   /* CONNECTION: the call began */
    uint64_t wait_ns;    /* until then a replica is waited for */
    uint64_t give_up_ns; /* until then the servers have time to answer; not before wait_ns */
    bool looked;         /* CONNECTION: not the first look of its call: where it is was asked, if it had to be */
    bool at_leader;      /* CONNECTION: it reads at the leader, which shows all: it leaves as soon as a replica does */
};

enum weir_policy_next {
    WEIR_POLICY_GO,   /* to route.server */
    WEIR_POLICY_WAIT, /* for another snapshot: ask again then */
    WEIR_POLICY_ASK,  /* CONNECTION: have route.server, where it is, asked for at most WEIR_POLICY_REFRESH_NS; again */
    WEIR_POLICY_END,  /* nobody can serve it, and `end` is told */
};

struct weir_policy {
    enum weir_policy_next next;
    struct weir_route route;
    enum weir_route_end end;
    bool shows_all; /* GO, to a primary: nothing of what was seen may be hidden there still */
    bool settled;   /* GO, to a primary: it was seen settled after the token came, or is the only server */
};

/* At give_up_ns and after it never says WAIT. */
struct weir_policy weir_policy_decide(const struct weir_policy_request *request);

/* The check on the connection said less than OK of a server that shows `shown`. */
enum weir_policy_refused {
    WEIR_POLICY_ELSEWHERE, /* look for another; this one once it was asked anew */
    WEIR_POLICY_LOST,
    WEIR_POLICY_FOREIGN,
};
enum weir_policy_refused weir_policy_refused(const struct weir_route_request *request, const struct weir_shown *shown,
                                             enum weir_place_verdict verdict);

/* A session reads at a server, a standby when it came there, that showed all it has seen. Does what is known by now
 * leave that so? What was known of the server before may well be behind what it has shown since. */
bool weir_policy_may_stay(const struct weir_session_token *token, const struct weir_route_server *server,
                          const struct weir_known *known);

/* Has the server answered a question that was sent after that? */
bool weir_policy_is_fresh(const struct weir_route_server *server, uint64_t since_ns);

/* A standby without a receiver (there is no primary, or it takes its log from an archive): no statement tells which
 * timeline it is on, so that no STATEMENT can say ok there of a token that has places. */
bool weir_policy_is_mute(const struct weir_shown *shown, const struct weir_session_token *token);
