/* SPDX-License-Identifier: Apache-2.0
 *
 * A primary and its replicas in memory, and everything below a session: the servers' pollers, the pool, the links, the
 * statements and the clock (it defines their functions). Each call lets some time pass, in which anything may happen.
 *
 * The log is a tree of records: a record's parent is the one before it on the timelines that led there. What a
 * server shows is one record, and with it all above. So the truth about a read is exact, whatever positions are given
 * out twice. As PostgreSQL does: a standby shows a record before it counts it as replayed; a primary may show it after
 * a standby does; a primary that crashes gives out the positions of what it had not flushed again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "random.h"
#include "sessions/session_inside.h"

#define FAKE_SERVERS 4
#define FAKE_RECORDS_MAX 200000

struct fake_record {
    uint32_t parent;
    uint32_t timeline;
    uint64_t end; /* its position */
};

struct fake_server {
    bool alive;
    bool primary;
    bool reachable; /* by its poller */
    bool mute;      /* does not tell its timeline on SQL connections */
    bool slow;      /* replays seldom */
    unsigned incarnation;
    unsigned upstream; /* FAKE_SERVERS: nobody */
    uint32_t timeline;
    uint64_t run;
    uint32_t written; /* records: of a standby, received */
    uint32_t flushed;
    uint32_t shown;
    uint32_t counted; /* of a standby: what it says that it has replayed */
    /* Since its promotion. Before it was, it does not go: that a standby is promoted beside its living primary, is read
     * from over a connection of before, and goes, all between two polls, is what nobody could tell (session_lead.c). */
    bool was_polled;
};

struct fake_faults {
    bool restarts;  /* of standbys */
    bool crashes;   /* of primaries, with loss of what was not flushed */
    bool failovers; /* to a standby that may lack the end */
};

struct fake_cluster {
    struct test_random random;
    struct fake_faults faults;
    uint64_t now_ns;
    uint32_t record_count;
    struct fake_record records[FAKE_RECORDS_MAX];
    struct fake_server servers[FAKE_SERVERS];
    uint32_t timeline; /* the highest */
    struct weir_history histories[64];
    struct weir_snapshot snapshot;
    unsigned lent;     /* connections */
    uint64_t asked[2]; /* statements at standbys, and at primaries */
};

/* One at a time: the functions that it defines have no other way to know it. */
void fake_cluster_begin(struct fake_cluster *cluster, uint64_t seed, struct fake_faults faults);
void fake_cluster_end(struct fake_cluster *cluster);

void fake_cluster_tick(struct fake_cluster *cluster);

/* Is `a` the record `b`, or before it? */
bool fake_cluster_contains(const struct fake_cluster *cluster, uint32_t b, uint32_t a);

/* What the connection shows now. False: it is broken. */
bool fake_cluster_read(struct fake_cluster *cluster, struct pg_conn *conn, uint32_t *ret_record);
bool fake_cluster_write(struct fake_cluster *cluster, struct pg_conn *conn, uint32_t *ret_record);

/* The true primary, by the highest timeline; FAKE_SERVERS: none. */
unsigned fake_cluster_leader(const struct fake_cluster *cluster);
