/* SPDX-License-Identifier: Apache-2.0
 *
 * The world of sessions from inside: what sessions.c (the seed, faults, the loop), sessions_db.c (the database),
 * sessions_weir.c (pollers), sessions_client.c and sessions_check.c share. Nobody else includes it. */
#pragma once

#include "core/session/health.h"
#include "core/session/policy.h"
#include "sim/random.h"
#include "sim/sessions.h"

#define SESSIONS_MS UINT64_C(1000000)
#define SESSIONS_SYSTEM 77
#define SESSIONS_SERVERS_MAX 5
#define SESSIONS_WEIRS_MAX 3
#define SESSIONS_CLIENTS_MAX 8
#define SESSIONS_RECORDS_MAX 32768
#define SESSIONS_SEEN_MAX 64
#define SESSIONS_SAW_MAX 4
#define SESSIONS_PAGE 8192
#define SESSIONS_TIMEOUT_NS (200 * SESSIONS_MS) /* of a question */
#define SESSIONS_NOBODY UINT32_MAX

/* ---- the database ---- */

/* The log is a tree: a record's parent is the one before it on the timelines that led there. */
struct sessions_record {
    uint32_t parent;
    uint32_t timeline;
    uint64_t end; /* its position */
};

struct sessions_server {
    bool alive, primary;
    bool streams;      /* a standby: a receiver runs */
    bool slow;         /* replays seldom */
    uint32_t life;     /* connections of an earlier one are broken */
    uint32_t upstream; /* whom it follows, or would */
    uint32_t timeline; /* a standby: that it receives */
    uint64_t started, run;
    uint64_t back_ns; /* down until then; UINT64_MAX: for good */
    uint32_t written; /* records: of a standby, received */
    uint32_t flushed;
    uint32_t shown;
    uint32_t counted; /* of a standby: what it says that it has replayed */
    struct weir_history history;
};

/* ---- weirs ---- */

struct sessions_poll {
    uint64_t due_ns;  /* when to ask */
    uint64_t sent_ns; /* 0: none is under way */
    uint64_t looked_ns, comes_ns;
    bool taken, good; /* the answer was made; the server gave one */
    struct weir_health_reply reply;
    uint32_t settling; /* who was in the log when the look began; and when */
    uint64_t settling_ns;
    uint64_t settling_started;
};

struct sessions_weir {
    uint64_t back_ns; /* 0: up */
    bool slow;
    uint32_t unreachable; /* bit i: server i */
    struct {
        uint32_t timeline; /* what the server told last, and since when */
        uint64_t since_ns;
    } told[SESSIONS_SERVERS_MAX];
    struct weir_health health;
    struct weir_health_server servers[SESSIONS_SERVERS_MAX];
    struct sessions_poll polls[SESSIONS_SERVERS_MAX];
};

/* ---- sessions ---- */

enum sessions_phase {
    SESSIONS_IDLE,
    SESSIONS_ROUTING, /* asks the policy, again and again */
    SESSIONS_CHECKING,
    SESSIONS_READING, /* or writing */
    SESSIONS_PLACING,
    SESSIONS_TELLING,
};

struct sessions_client {
    enum sessions_phase phase;
    uint64_t due_ns; /* of the next step */
    uint32_t weir;   /* the library's own; the service's of this request */
    bool library;

    /* What it has seen: as weir puts it, and really: none of the records contains another. */
    struct weir_session_token token;
    uint32_t seen[SESSIONS_SEEN_MAX];
    uint32_t seen_count;
    bool from_calm;       /* all of it was seen in the calm at the end, by requests that began there */
    uint32_t calm_done;   /* requests that began and ended there, since it took over another's token */
    uint32_t calm_served; /* of them */

    /* The request under way. */
    struct weir_policy_request request; /* without the servers and what is known: those are of the moment */
    uint64_t began_ns, give_up_ns;
    uint32_t tries;
    uint64_t shunned_ns[SESSIONS_SERVERS_MAX]; /* the library: not before its poller has asked anew */
    uint64_t chosen_ns;
    struct weir_known known;  /* of the moment of the choice: the check that is made then knows no more */
    struct weir_shown chosen; /* what the server showed then */
    bool stale, settled;

    /* The connection. */
    uint32_t server; /* or SESSIONS_NOBODY */
    uint32_t life;
    bool checked;                   /* the library: it shows all that was seen */
    uint64_t phase_ns;              /* when the phase began */
    uint32_t settling;              /* the library: the end of the primary's log when it began to wait for it */
    uint32_t saw[SESSIONS_SAW_MAX]; /* there, since the place was taken last */
    uint32_t saw_count;
    uint32_t reads_left;
    struct weir_shown placed;
};

struct sessions {
    struct weir_sim_random random;
    enum weir_sim_sessions_plant plant;
    uint64_t now_ns;
    uint64_t calm_ns;      /* faults cease then */
    uint64_t recovered_ns; /* and what they did is over then */
    bool archive;          /* a promotion knows of all others: no number is taken twice */
    uint32_t newest;       /* the highest timeline */
    bool renamed;          /* the leader was started anew above timeline 1 */
    uint32_t leader;       /* the server that is meant to be the primary; it may be down */
    uint32_t record_count;
    struct sessions_record records[SESSIONS_RECORDS_MAX];
    uint32_t server_count, weir_count, client_count;
    struct sessions_server servers[SESSIONS_SERVERS_MAX];
    struct sessions_weir weirs[SESSIONS_WEIRS_MAX];
    struct sessions_client clients[SESSIONS_CLIENTS_MAX];
    struct weir_sim_sessions_result *result;
};

static inline uint64_t sessions_below(struct sessions *sessions, uint64_t bound)
{
    return weir_sim_random_below(&sessions->random, bound);
}

static inline bool sessions_chance(struct sessions *sessions, uint32_t one_in)
{
    return sessions_below(sessions, one_in) == 0;
}

/* ---- sessions_db.c ---- */

/* Is `a` the record `b`, or before it? */
bool sessions_contains(const struct sessions *sessions, uint32_t b, uint32_t a);
void sessions_db_begin(struct sessions *sessions);
void sessions_db_advance(struct sessions *sessions); /* a tick */
void sessions_db_restart(struct sessions *sessions, uint32_t index, bool crash);
void sessions_db_fail_over(struct sessions *sessions);
void sessions_db_copy(struct sessions *sessions, uint32_t index); /* of the leader */
/* One of the writer's own, shown to all at once. */
uint32_t sessions_db_write(struct sessions *sessions, uint32_t index);
/* What the server says of itself: by SQL, or to its poller, which has the protocol of replication too. */
struct weir_shown sessions_db_shown(const struct sessions *sessions, uint32_t index, bool by_poller);
struct weir_history sessions_db_history(const struct sessions_server *server, uint32_t timeline);

/* ---- sessions_weir.c ---- */

void sessions_weir_start(struct sessions *sessions, uint32_t index);
void sessions_weir_advance(struct sessions *sessions, uint32_t index);
void sessions_weir_hurry(struct sessions *sessions, uint32_t index, uint32_t server);
/* What its snapshot would show. */
unsigned sessions_weir_look(const struct sessions *sessions, uint32_t index,
                            struct weir_route_server servers[SESSIONS_SERVERS_MAX]);
/* On which branch is a server that shows this? */
uint32_t sessions_weir_branch(const struct sessions *sessions, uint32_t index, const struct weir_shown *shown);
/* Have all weirs heard of the primary as it is, and of no other of its timeline that they believe to be up? */
bool sessions_weir_all_know(const struct sessions *sessions, uint32_t primary);

/* ---- sessions_client.c ---- */

void sessions_client_advance(struct sessions *sessions, uint32_t index);

/* ---- sessions_check.c ---- */

void sessions_check_read(struct sessions *sessions, const struct sessions_client *client, uint32_t record);
/* It goes to a primary, by what its weir knew at chosen_ns. */
void sessions_check_primary(struct sessions *sessions, const struct sessions_client *client);
void sessions_check_time(struct sessions *sessions, const struct sessions_client *client);
void sessions_check_lost(struct sessions *sessions, const struct sessions_client *client);
void sessions_check_end(struct sessions *sessions);
/* Adds to what the session saw. */
void sessions_check_saw(struct sessions *sessions, struct sessions_client *client, uint32_t record);
