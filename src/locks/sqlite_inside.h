/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the sqlite engine: its state, and what its batches (sqlite.c) ask of the part that raises the incarnation
 * (sqlite_raise.c). Thread rule: the manager's thread, but for what `memory` guards (sqlite.c). */
#pragma once

#include <pthread.h>

#include "locks/engine.h"
#include "locks/pace.h"
#include "locks/sqlite_store.h"

struct weir_sqlite {
    struct weir_lock_engine base;
    pthread_mutex_t memory;
    struct weir_sqlite_index index;
    struct weir_sqlite_store store;
    char *witness_path;
    uint64_t incarnation, counter;
    bool raise;                        /* the store needs it, before the next grant */
    int raise_error;                   /* of the raise that this batch wanted */
    struct weir_pace pace;             /* of raises */
    uint64_t retry_ns;                 /* when it is down: not before */
    uint64_t dirty_ns;                 /* since when something is not written */
    bool must, up;                     /* must: this batch must be durable before it is answered */
    bool refused;                      /* something in it, because the store or the raise failed */
    bool depends[WEIR_LOCK_BATCH_MAX]; /* ops that do not hold if this batch fails */
    struct weir_lock_engine_state state;
};

void weir_sqlite_note(struct weir_sqlite *engine, const char *fault);

/* To above all that this service has ever granted under, and `seen`. The witness has it before the database and long
 * before the first grant. WEIR_EDOWN: it would be above the clock (then `pace` says when it is due), or incarnations
 * are used up; WEIR_ECORRUPT or WEIR_EIO (the witness). */
int weir_sqlite_raise(struct weir_sqlite *engine, uint64_t seen);

/* Once for all that ask, and for the store: to above the highest of them. */
int weir_sqlite_raise_for(struct weir_sqlite *engine, const struct weir_lock_op *ops, size_t count);
