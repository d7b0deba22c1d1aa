/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the postgres lock engine: its state, and what its batches (postgres.c) ask of the part that knows the server
 * and the incarnation (postgres_run.c). Thread rule: one thread, but for `shown`. */
#pragma once

#include <pthread.h>

#include "locks/engine.h"
#include "locks/pace.h"
#include "locks/postgres_table.h"
#include "locks/postgres_text.h"
#include "locks/witness.h"
#include "net/postgres_link.h"

#define WEIR_PG_TRIES_MAX 16 /* of one batch or raise: others raise, deadlocks with strangers */

struct weir_postgres {
    struct weir_lock_engine engine;
    struct weir_pg_link link;
    struct weir_pg_text text;
    char *table;
    char *witness_path;
    struct weir_witness witness;
    bool witnessed;                /* there is one */
    char named[WEIR_PG_NAMED_MAX]; /* the table with its schema */
    struct weir_pg_identity run;   /* of the server, as this connection or the last one found it */
    bool raised;                   /* we have an incarnation in it. Else no new token is given out before a raise */
    bool late;                     /* a batch may be done yet that it was sent: only a raise keeps it out */
    uint64_t before;               /* until then: the lowest incarnation that this connection has read */
    struct weir_pg_ground ground;  /* its incarnation is ours if it was raised */
    struct weir_pace pace;
    uint64_t raise_after_ns; /* when one failed: not before */
    uint64_t rest_until_ns, rest_ns;
    struct weir_lock_op *order[WEIR_LOCK_BATCH_MAX];

    pthread_mutex_t mutex; /* around `shown`, which other threads read */
    struct weir_lock_engine_state shown;
    bool fault_passes; /* what `shown` has as fault is over with the next batch that is done */
};

void weir_pg_show_fault(struct weir_postgres *postgres, const char *text); /* of a failure */
void weir_pg_show_done(struct weir_postgres *postgres);                    /* it is over */
void weir_pg_show_up(struct weir_postgres *postgres, bool up, bool raised);

/* False from here on: not now; the fault or link.fault says why. */

/* Who the server is now. Tables that are missing are made. */
bool weir_pg_identify_now(struct weir_postgres *postgres, struct weir_pg_identity *ret_identity, uint64_t deadline_ns);

/* The incarnation that the database has becomes ours, and is not raised. */
bool weir_pg_adopt_incarnation(struct weir_postgres *postgres, const struct weir_pg_identity *identity);

/* To above what the store has, what this node granted under, `seen`, and both clocks. If another node raises it that
 * far after `before` was read, theirs is taken; begin with UINT64_MAX. It never waits for the clock: `pace` says when
 * it is due, 0 after a failure. */
bool weir_pg_raise(struct weir_postgres *postgres, uint64_t seen, uint64_t *before, uint64_t deadline_ns);

/* A new connection: whose tables these are, whether the run of the server is the one we know; else it needs a raise. */
bool weir_pg_settle(struct weir_postgres *postgres, uint64_t deadline_ns);

/* What is held goes on under the incarnation that the database has; before a new token is given out it is raised. */
void weir_pg_need_raise(struct weir_postgres *postgres, const struct weir_pg_identity *identity);
