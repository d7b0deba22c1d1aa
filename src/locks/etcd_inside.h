/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the etcd engine share: the engine, and one op as a sequence of calls. */
#pragma once

#include <pthread.h>

#include "core/lease/incarnation.h"
#include "locks/etcd_http.h"
#include "locks/pace.h"

#define WEIR_ETCD_PREFIX_MAX 128
#define WEIR_ETCD_VALUE_MAX (WEIR_LOCK_OWNER_MAX + 24) /* "INCARNATION:OWNER" */

enum weir_etcd_step {
    WEIR_ETCD_LOOK,    /* read the lock and the incarnation */
    WEIR_ETCD_REMAINS, /* how long another's lease lasts */
    WEIR_ETCD_LEASE,   /* a new lease */
    WEIR_ETCD_PUT,     /* the lock, if it is free and the incarnation is still the one read */
    WEIR_ETCD_UNDO,    /* the new lease, of a lock that was not taken after all */
    WEIR_ETCD_KEEP,    /* the lease alive */
    WEIR_ETCD_MOVE,    /* the held lock to a new, longer lease */
    WEIR_ETCD_CONFIRM, /* that it is still held after that */
    WEIR_ETCD_REVOKE,  /* its lease: the lock goes with it */
    WEIR_ETCD_DONE,
};

struct weir_etcd_op {
    struct weir_lock_op *op;
    enum weir_etcd_step step;
    struct weir_etcd_call call;
    struct weir_etcd_op *after; /* on the same name, later in the batch */
    bool waits;                 /* for one on the same name, earlier in the batch */
    bool again;                 /* it needs a raise, or others changed the lock first: nothing was done */
    /* As read: */
    bool there;
    char value[WEIR_ETCD_VALUE_MAX];
    size_t value_size;
    struct weir_token token; /* of the grant that is there */
    int64_t lease, mod_revision;
    uint64_t granted_ns; /* ttl of the lease that was made or kept alive, as returned */
    int64_t new_lease;
};

struct weir_etcd {
    struct weir_lock_engine engine;
    struct weir_etcd_http *http;
    char prefix[WEIR_ETCD_PREFIX_MAX + 1];
    char *witness_path;
    struct weir_witness witness; /* position: the highest revision seen before this batch */
    uint64_t position;           /* and in it */
    bool raise;                  /* no new token is given out before; else the store's incarnation is the witness's */
    uint64_t before;             /* until then: the lowest incarnation that was read since */
    struct weir_pace pace;
    bool went_back; /* seen since the last raise: what is granted before the next is void */
    uint64_t deadline_ns;
    struct weir_etcd_op ops[WEIR_LOCK_BATCH_MAX];
    pthread_mutex_t mutex; /* of `shown`, read by any thread */
    struct weir_lock_engine_state shown;
};

/* etcd_op.c: one op from call to call. */
void weir_etcd_op_begin(struct weir_etcd *etcd, struct weir_etcd_op *op);
void weir_etcd_op_heard(struct weir_etcd *etcd, struct weir_etcd_op *op); /* its call has ended */

/* Looks at the header of an answer from the key-value store: has it gone back, or is it another? */
void weir_etcd_see(struct weir_etcd *etcd, const json_t *answer);

/* The incarnation under its key; 0: there is none that can be read. */
uint64_t weir_etcd_stored(const json_t *found);

/* etcd_keys.c: keys and values. */
json_t *weir_etcd_incarnation_key(const struct weir_etcd *etcd);
json_t *weir_etcd_lock_key(const struct weir_etcd *etcd, struct weir_slice name);
json_t *weir_etcd_number(uint64_t number); /* its decimal text, as bytes */
json_t *weir_etcd_range(json_t *key);      /* {"request_range": …} */
json_t *weir_etcd_compare(json_t *key, const char *target, const char *field, json_t *value); /* equal */
/* A range's only key-value, or NULL: number `index` of a transaction's responses. */
const json_t *weir_etcd_found(const json_t *answer, size_t index);
