/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of servers share: the pollers, and what is known, under one lock.
 *
 * A poller's thread asks without the lock, stores its answer under it, and publishes. Readers take no lock: a snapshot
 * is in one of a growing number of rooms, each with a count of its readers. A reader counts itself in and then looks
 * again whether the room is still the current one; a writer takes a room that is not current and has no readers. Both
 * are sequentially consistent: if the writer saw no reader, the reader sees that the room is not current any more (or
 * current again, with the new snapshot complete). Rooms are freed when all is closed. */
#ifndef WEIR_ENGINE_SESSION_SERVERS_INSIDE_H
#define WEIR_ENGINE_SESSION_SERVERS_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/session/branches.h"
#include "core/session/lag.h"
#include "engine/session/ask.h"
#include "engine/session/servers.h"
#include "engine/session/shown.h"

/* Shared by a poller and the snapshots that name it; counted under the lock. */
struct weir_conninfo {
    unsigned references;
    char text[];
};

struct weir_room {
    atomic_uint readers;
    struct weir_room *next;
    struct weir_conninfo *conninfos[WEIR_ROUTE_SERVERS_MAX]; /* of the snapshot */
    struct weir_snapshot snapshot;
};

/* What one round of questions brought. */
struct weir_answer {
    struct weir_shown shown;
    uint64_t begun_ns, generation, page_size, segment_size;
    uint64_t replayed_ns, clock;
    uint64_t settled_ns; /* a primary: seen in this round; 0 = nothing was */
    bool with_history;
    struct weir_history history;
    bool alone; /* no history or timeline could be asked, and one was needed: `fault` says why */
    char fault[WEIR_ASK_TEXT_SIZE];
    bool looked;                          /* into the branch table, in this round */
    struct weir_branches branches;        /* what was found there, in this round or before */
    char table_fault[WEIR_ASK_TEXT_SIZE]; /* why it cannot be had; empty */
};

/* A standby's, in one run of its postmaster. */
struct weir_standing {
    uint64_t started;
    uint32_t timeline, branch;
};

struct weir_poller {
    struct weir_servers *servers;
    pthread_t thread;
    unsigned seat; /* of the counts of reads */

    /* Under the lock. */
    struct weir_conninfo *conninfo;
    char name[64];
    uint64_t id;
    bool stop;
    bool hurry; /* somebody waits for this one's answer */
    bool up;    /* it answered last time */
    struct weir_answer last;
    struct weir_standing was;           /* before it was promoted; its branch was known */
    struct weir_standing stood;         /* when it told its timeline last; known or not */
    uint64_t moved_ns;                  /* when it was asked first where it now stands */
    uint64_t settled_ns;                /* see weir_server_state */
    uint64_t counted, counted_ns, load; /* of reads */

    /* Of its thread alone. */
    struct pg_conn *conn;
    struct pg_conn *sender; /* for the commands of the replication protocol */
    struct weir_shown_fixed fixed;
    uint64_t generation;
    uint64_t sender_not_before_ns; /* it could not be had */
    char sender_fault[WEIR_ASK_TEXT_SIZE];
    uint64_t history_not_before_ns;
    struct weir_shown looked; /* what was looked up in the branch table, and is in it */
    struct weir_branches branches;
    uint64_t table_not_before_ns;
    char table_fault[WEIR_ASK_TEXT_SIZE];
    uint64_t nudged_ns, unflushed_ns;
    struct weir_settling settling; /* on `conn` */
    unsigned failures;
};

/* Reads handed out, counted without the lock. */
struct weir_seat {
    _Atomic uint64_t id; /* 0: free */
    _Atomic uint64_t reads;
};

struct weir_servers {
    struct weir_servers_options options; /* the texts of its own */
    char *clock_query, *branch_table;
    _Atomic(struct weir_room *) current;
    struct weir_seat seats[WEIR_ROUTE_SERVERS_MAX];

    pthread_mutex_t lock;
    pthread_cond_t wake; /* pollers sleep on it */
    pthread_cond_t news; /* and those who wait for a snapshot */
    unsigned waiting;
    unsigned count;
    struct weir_poller *pollers[WEIR_ROUTE_SERVERS_MAX];
    struct weir_room *rooms;
    uint64_t number, generations;
    uint64_t system; /* of all of them; 0 = nobody has answered yet */
    struct weir_known known;
    struct weir_lag lag; /* where the primary was */
};

/* With the lock. */
void weir_servers_store(struct weir_servers *servers, struct weir_poller *poller, struct weir_answer *answer);
void weir_servers_fail(struct weir_servers *servers, struct weir_poller *poller, const char *fault);
void weir_servers_publish(struct weir_servers *servers);
struct weir_poller *weir_servers_primary(const struct weir_servers *servers);
/* Which branch the answer is of, into it, and what it tells of branches, into what is known. Before it is stored. */
void weir_servers_place(struct weir_servers *servers, struct weir_poller *poller, struct weir_answer *answer);
void weir_conninfo_release(struct weir_conninfo *conninfo);

/* As far as the poller knows by itself; 0: not, or timeline 1. */
uint32_t weir_poller_branch(const struct weir_poller *poller, const struct weir_shown *shown);

/* The thread. `argument` is a struct weir_poller. */
void *weir_poller_main(void *argument);

/* Asks its questions; the thread's, without the lock. `known`: its histories need not be asked again. */
int weir_poller_ask(struct weir_poller *poller, const struct weir_known *known, bool waited,
                    struct weir_answer *ret_answer, char ret_fault[WEIR_ASK_TEXT_SIZE]);
void weir_poller_drop(struct weir_poller *poller);

#endif
