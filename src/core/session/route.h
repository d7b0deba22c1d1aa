/* SPDX-License-Identifier: Apache-2.0
 *
 * Which server should serve this read: the strategies, over what is known of the servers. Pure; at most a microsecond.
 *
 * What is known may be old: a position that was seen is a lower bound for as long as the server was not restarted. The
 * choice is therefore a proposal; what makes it safe is the check on the connection that will read
 * (weir_session_token_compare with what that connection shows, before the reading snapshot exists). The strategies that
 * do without the check (sticky, window, physical) break in the ways that docs/reads.md shows.
 *
 * Reads go to standbys; the leader serves them where `behind` allows it (leader, other), then at once where no usable
 * standby ever may (there is none, or what was seen is lost on them); and where it is the only server there is. Of the
 * leader only the history is judged before: its position of a moment ago says nothing against a token that is younger.
 * It does if it was asked after the token came (asked_ns, came_ns): then a token beyond it was lost, or is forged, and
 * nobody waits for it. That what was seen is of another branch is believed of a leader that is `told` once everybody
 * was asked since. A standby that follows a zombie is not read, even if it shows what was seen: what one would see
 * there nobody else will ever show. One that stands still is read as stale, where no other standby may be.
 *
 * sticky: the session's server by rendezvous hashing (Thaler and Ravishankar, 1998) among those that are usable: a
 * server that goes moves its own sessions only, one that comes takes 1/n of each other's.
 * window: the leader until `window_ns` after the session's last write, by wall clocks; then as sticky.
 * tracked: servers whose known place contains the token, by rendezvous; the one that the session is at first (`stay`).
 * physical: servers whose last replayed commit's timestamp is not before the token's: broken by skew.
 * lamport: servers whose logical clock has reached the token's. */
#pragma once

#include "core/session/token.h"
#include "weir/session.h"

#define WEIR_ROUTE_SERVERS_MAX 64
#define WEIR_ROUTE_NONE UINT32_MAX

/* What is known of one server. */
struct weir_route_server {
    uint64_t id;             /* a hash of its name, the same in every process */
    struct weir_shown shown; /* when it was asked last */
    uint64_t asked_ns;       /* CLOCK_MONOTONIC before that question was sent; 0 = never answered */
    uint64_t lag_ns;         /* how long ago the primary was where it is now; UINT64_MAX = unknown */
    uint64_t replayed_ns;    /* wall time of the last commit that it replayed, by its writer's clock; a primary: now */
    uint64_t clock;          /* its logical clock */
    uint64_t settled_ns;     /* a primary: all that ran there then is visible by now; 0 = nothing known */
    uint32_t load;           /* reads handed to it in the last second, for people */
    bool usable;             /* answers, and if it is a standby, moves while its primary does */
    bool frozen;             /* a standby that answers, and is good for nothing but a stale read: it stands still */
};

struct weir_route_request {
    const struct weir_session_token *token;
    const struct weir_known *known;
    const struct weir_route_server *servers;
    unsigned server_count; /* up to WEIR_ROUTE_SERVERS_MAX */
    uint64_t session;      /* a hash of the session or user: the same for the same one, in every process */
    uint32_t stay;         /* the server that it is at, or WEIR_ROUTE_NONE */
    uint64_t came_ns;      /* CLOCK_MONOTONIC: the token was there by then. 0 = not known: nobody was asked after it */
    uint64_t wall_ns;      /* now */
    uint64_t window_ns;    /* strategy window */
    uint64_t wait_left_ns; /* 0: the wait is over; with WEIR_BEHIND_LEADER the leader is taken then */
    enum weir_session_strategy strategy;
    enum weir_session_behind behind;
    bool write;
};

/* Three cases: wait: look again when more is known, while there is time. Else `server` is one: go there. Else nobody
 * can serve it, and `verdict` says why: BEHIND (or nobody is usable, or no leader), LOST, DIVERGED (all that is there
 * went on without what was seen), FOREIGN, UNPROVEN. */
struct weir_route {
    uint32_t server;                 /* where to go, or (with wait) the one that is awaited; WEIR_ROUTE_NONE: nobody */
    enum weir_place_verdict verdict; /* of what is known of it; sticky and window go whatever it is */
    bool wait;
    bool stale; /* go, and mark it */
    bool leader;
};

/* Never blocks, never fails. LOST at once where the leader has lost what was seen, or no leader is usable and of the
 * usable standbys one has lost it and none shows, or may come to show, it. A write goes to the leader, whatever the
 * strategy, unless what was seen is lost there. */
struct weir_route weir_route_choose(const struct weir_route_request *request);

/* What is told where nobody can serve the request and the time is over: the service and the library say the same.
 *
 * LOST: what was seen is cut off; or nothing proves that it is not, and the primary that would know has been asked
 * (UNPROVEN: a history that cannot be had, a branch that nobody saw). FOREIGN. BEHIND: nobody shows enough yet; also
 * where all that answer are zombies (DIVERGED): what was seen is elsewhere, and may come back. DOWN: nobody answers, or
 * for a write no primary. */
enum weir_route_end {
    WEIR_ROUTE_LOST,
    WEIR_ROUTE_FOREIGN,
    WEIR_ROUTE_BEHIND,
    WEIR_ROUTE_DOWN,
};
enum weir_route_end weir_route_end(const struct weir_route_request *request, enum weir_place_verdict verdict);

/* The highest timeline that anybody is known to be or to have been on. `known` may be NULL. */
uint32_t weir_route_timeline(const struct weir_known *known, const struct weir_route_server *servers, unsigned count);

/* The token names a timeline above all that is known: of a promotion that we have yet to hear of, or of no server of
 * ours. True: somebody who may know it was not asked since. */
bool weir_route_may_learn(const struct weir_route_request *request);

bool weir_route_is_any_usable(const struct weir_route_request *request);

/* The index of the primary that is true: usable, and no server of its system, usable or not, has been on a higher
 * timeline: it would be a zombie. WEIR_ROUTE_NONE where there is none, or two that differ in their run: split. */
uint32_t weir_route_leader(const struct weir_route_server *servers, unsigned count);

/* Rendezvous: the score of a server for a session; the highest wins. */
uint64_t weir_route_score(uint64_t server, uint64_t session);

/* A Lamport clock: what a process has after it saw `seen`: max(own, seen) + 1. WEIR_ERANGE at its end: none wraps. */
int weir_lamport_after(uint64_t own, uint64_t seen, uint64_t *ret_clock);
