/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of servers share: the pollers, and what is known, under one lock.
 *
 * A poller's thread asks without the lock, stores its answer under it, and publishes. Readers take no lock: a snapshot
 * is in one of a growing number of rooms, each with a count of its readers. A reader counts itself in and then looks
 * again whether the room is still the current one; a writer takes a room that is not current and has no readers. Both
 * are sequentially consistent: if the writer saw no reader, the reader sees that the room is not current any more (or
 * current again, with the new snapshot complete). Rooms are freed when all is closed. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "core/session/health.h"
#include "net/postgres_ask.h"
#include "sessions/servers.h"
#include "sessions/shown.h"

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

/* What one round of questions brought besides: for connections, and for people. */
struct weir_remark {
    uint64_t generation, segment_size;
    bool alone; /* no history or timeline could be asked, and one was needed: `fault` says why */
    char fault[WEIR_ASK_TEXT_SIZE];
    char table_fault[WEIR_ASK_TEXT_SIZE]; /* why the branch table cannot be had; empty */
};

struct weir_poll_result {
    struct weir_health_reply reply;
    struct weir_remark remark;
};

struct weir_poller {
    struct weir_servers *servers;
    pthread_t thread;
    unsigned counter; /* of the counts of reads */

    /* Under the lock. */
    struct weir_conninfo *conninfo;
    char name[64];
    bool stop;
    bool hurry; /* somebody waits for this one's answer */
    struct weir_health_server health;
    struct weir_remark remark;          /* of the last answer; `fault` of the last failure */
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
struct weir_read_counter {
    _Atomic uint64_t id; /* 0: free */
    _Atomic uint64_t reads;
};

struct weir_servers {
    struct weir_servers_options options; /* the texts of its own */
    char *clock_query, *branch_table;
    _Atomic(struct weir_room *) current;
    struct weir_read_counter read_counters[WEIR_ROUTE_SERVERS_MAX];

    pthread_mutex_t lock;
    pthread_cond_t wake; /* pollers sleep on it */
    pthread_cond_t news; /* and those who wait for a snapshot */
    unsigned waiting;
    unsigned count;
    struct weir_poller *pollers[WEIR_ROUTE_SERVERS_MAX];
    struct weir_room *rooms;
    uint64_t number, generations;
    struct weir_health health; /* of the pollers, in their order */
};

/* With the lock. */
void weir_servers_store(struct weir_servers *servers, struct weir_poller *poller, struct weir_poll_result *answer);
void weir_servers_fail(struct weir_servers *servers, struct weir_poller *poller, const char *fault);
void weir_servers_publish(struct weir_servers *servers);
void weir_conninfo_release(struct weir_conninfo *conninfo);

/* The thread. `argument` is a struct weir_poller. */
void *weir_poller_main(void *argument);

/* Asks its questions; the thread's, without the lock. `known`: its histories need not be asked again. */
int weir_poller_ask(struct weir_poller *poller, const struct weir_known *known, bool waited,
                    struct weir_poll_result *ret_answer, char ret_fault[WEIR_ASK_TEXT_SIZE]);
void weir_poller_drop(struct weir_poller *poller);
