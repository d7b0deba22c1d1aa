/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine elsewhere: keys that many nodes share live in a server (Redis), which decides in one atomic step on its own
 * clock. This is the small interface behind which each such engine stands. Asynchronous: submit, then done is called,
 * once, on the same thread, never from within submit.
 *
 * Thread rule: one weir_remote belongs to one event loop; only its thread calls it. Limits are immutable and may be
 * shared by threads.
 *
 * Bounds: WEIR_REMOTE_PENDING_MAX requests under way; one more is refused with WEIR_EDOWN. A request is done by its
 * deadline (`until_ns`, if that is later), whatever the server does.
 *
 * Whether units were charged: status 0, as the ops say; WEIR_EDOWN, nothing was charged (nothing was sent, or the
 * server refused to run it: loading, read only, out of memory, cluster down); WEIR_EBUSY, nothing was charged, and the
 * engine has not failed: ask again; WEIR_EUNKNOWN, sent and not answered in time. Units reserved in one slot while
 * another refused are given back by request id, in the background. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/breaker/breaker.h"
#include "core/limit/limit.h"
#include "core/share/revision.h"
#include "core/share/share.h"
#include "limits/calendar.h"
#include "weir/limiter.h"

#define WEIR_REMOTE_PENDING_MAX 16384

/* A limit as a remote engine needs it. The limit's variants (overrides) share its counters: same `uid`. */
struct weir_remote_limit {
    char name[WEIR_LIMIT_NAME_MAX + 1];
    struct weir_limit_spec spec;
    struct weir_limit limit; /* compiled with skew_max 0: the engine owns the clock */
    struct weir_calendar_rule rule;
    struct weir_zone *zone;   /* owned; NULL = UTC */
    uint64_t variant;         /* of an override: a hash of what it is for; 0 = the limit itself */
    uint64_t calendar_hash;   /* of zone, unit and count: window ids are comparable where it and the period are equal */
    uint32_t revision;        /* of its definition (core/share/revision.h); 0 = it is not known which is the newest;
                                 WEIR_REVISION_FIRST, which init sets, of what never has one; WEIR_REVISION_NONE: it
                                 decides whatever revision a value says, and says none */
    bool leveled;             /* it has levels: a key of its revision and of other numbers comes from one of them */
    bool keeps_time;          /* CL.THROTTLE: of a bucket whose parameters change, the time at which it is full stays */
    _Atomic uint32_t holders; /* of one from the heap */
    _Atomic uint32_t met;     /* the highest revision that a key said which is after its own, and that is passed; if
                                 there is none, one that is not (core/share/revision.h); 0: none */
    const struct weir_remote_limit *whole; /* of an override: the limit itself, held, where its keys' `met` is kept */
};

/* WEIR_ERANGE, WEIR_EINVAL as weir_limit_check; WEIR_EINVAL for an unknown time zone. */
int weir_remote_limit_init(struct weir_remote_limit *limit, const char *name, const struct weir_limit_spec *spec,
                           struct weir_fault *ret_fault);
void weir_remote_limit_deinit(struct weir_remote_limit *limit);

/* The same on the heap, held once; it goes with the last drop. What outlives a reload (a chunk's key,
 * say) holds its limit itself. Also WEIR_ENOMEM. */
int weir_remote_limit_create(const char *name, uint64_t variant, uint32_t revision, const struct weir_limit_spec *spec,
                             const struct weir_remote_limit **ret_limit, struct weir_fault *ret_fault);
const struct weir_remote_limit *weir_remote_limit_hold(const struct weir_remote_limit *limit);
void weir_remote_limit_drop(const struct weir_remote_limit *limit); /* NULL is allowed */

/* `override` is an override of `limit`: from now on what its keys say of revisions is known of `limit`, so that nobody
 * need ask each of the many overrides for it. Once, and before any key is decided. */
void weir_remote_limit_override(const struct weir_remote_limit *override, const struct weir_remote_limit *limit);

/* Its limit has levels. The same. */
void weir_remote_limit_leveled(const struct weir_remote_limit *limit);

/* A key was written under this revision, of which nobody has told; and the highest of them. Any thread. */
void weir_remote_limit_meet(const struct weir_remote_limit *limit, uint32_t revision);
uint32_t weir_remote_limit_met(const struct weir_remote_limit *limit);

/* A key under one limit, the same on every node: hashes with the cluster secret. */
struct weir_remote_key {
    uint64_t id[2]; /* 128 bits of (limit, values), length-prefixed */
    uint64_t tag;   /* of the key's first value (no values: of the limit): keys of one tag lie on one server */
    uint64_t phase; /* spread, as weir_key */
};

/* Each value behind its length, four bytes with the lowest first: no two tuples make the same bytes. There is room.
 * Ranges as weir_limiter_key. */
int weir_values_append(uint8_t *bytes, size_t *size, const struct weir_slice *values, size_t count);

/* `secret`: 16 bytes, or NULL for zeros. Ranges as weir_limiter_key. */
int weir_remote_key_init(const uint8_t *secret, const char *limit, const struct weir_slice *values, size_t count,
                         struct weir_remote_key *ret_key);

enum weir_remote_verb {
    WEIR_REMOTE_DECIDE, /* all DECIDE ops of a request together, all or nothing */
    WEIR_REMOTE_PEEK,   /* the same, nothing is charged */
    WEIR_REMOTE_REFUND, /* `units` back, never more than is used */
    WEIR_REMOTE_FORGET, /* the key becomes fresh */
    WEIR_REMOTE_ASK,    /* a node's ask (core/share/ledger.h) */
};

struct weir_remote_op {
    const struct weir_remote_limit *limit; /* stays alive until done */
    struct weir_remote_key key;
    uint64_t units;                  /* DECIDE, PEEK: the cost. REFUND: asked, and afterwards given back. FORGET:
                                        afterwards, whether there was a key */
    struct weir_share_ask ask;       /* ASK */
    struct weir_share_answer answer; /* ASK, afterwards */
    struct weir_verdict verdict;     /* DECIDE, PEEK, afterwards */
};

/* One request: all its ops have the same verb. The caller's memory, untouched until done. */
struct weir_remote_request {
    enum weir_remote_verb verb;
    struct weir_remote_op *ops;
    size_t count;         /* 1 to WEIR_CHARGES_MAX; two DECIDE ops on one key are WEIR_EDUP */
    uint64_t deadline_ns; /* uv_hrtime() */
    /* Of one that takes several rounds, and more while others change the key: what each round may take, and when it
     * ends at the latest. 0: the deadline stays. What a round wrote that nobody waits for is lost, so who asks for a
     * key that many ask for waits for it. */
    uint64_t round_ns, until_ns;
    uint64_t test_now_ns; /* 0; else the time to decide by, which servers refuse unless started for tests */

    int status;                    /* afterwards: 0, WEIR_EDOWN, WEIR_EUNKNOWN, WEIR_EBUSY, WEIR_ECORRUPT, WEIR_EDUP */
    bool contended;                /* a round was answered: others had changed the key meanwhile */
    struct weir_decision decision; /* DECIDE, PEEK */
    uint64_t engine_now_ns;        /* the engine's time of the decision, ns since 1970 */

    void (*done)(struct weir_remote_request *request);
    void *context;
    void *engine[8]; /* the engine's own, while under way */
};

/* A value that is no counter but lies beside them, under a name of its own: the definition of a limit
 * (limits/revisions.h). It is kept for 366 days after it was written. The caller's memory, untouched until done. */
struct weir_remote_note {
    uint64_t id[2];   /* its name; the first half is its tag */
    size_t head;      /* reads: no more than so many bytes of it, at least 1 */
    const void *data; /* writes: what is to stand there; the answer is what stood there before. NULL: reads */
    size_t size;
    /* Once, on the same thread, never from within `note`. status 0: bytes (size 0: there is nothing); or WEIR_EDOWN,
     * WEIR_EUNKNOWN. */
    void (*done)(struct weir_remote_note *note, int status, const void *bytes, size_t size);
    void *context;
    void *engine;
};

/* What operators see. */
#define WEIR_REMOTE_ERROR_MAX 1024 /* of the engine's own errors nothing is cut; what is longer ends in "..." */
#define WEIR_REMOTE_WARNING_MAX 384

struct weir_remote_server {
    char address[160];
    char role[16];  /* "primary", "replica", "sentinel", "" */
    char state[16]; /* "connected", "connecting", "down" */
    enum weir_breaker_state breaker;
    uint64_t breaker_since_ns;
    char warning[WEIR_REMOTE_WARNING_MAX]; /* for people: what should be mended there; "" = nothing */
    bool denied; /* it answers, but lacks a right without which some limit cannot be decided there */
};

struct weir_remote_stats {
    uint64_t asked, answered, refused, unknown; /* requests: sent, answered, WEIR_EDOWN, WEIR_EUNKNOWN */
    uint64_t shed;    /* not sent to a server that answers, but not soon enough for all; as WEIR_EDOWN */
    uint64_t losses;  /* losses of state: flush, failover without the newest writes, a server replaced */
    uint64_t evicted; /* keys that servers evicted; each is a loss as well */
    uint64_t corrupt; /* values under our keys that are not ours */
    uint64_t given_back, given_back_lost; /* reservations of requests over several slots */
    uint64_t reconnects, scripts_loaded, redirects;
    uint64_t primary_changes; /* with sentinels: another server became the primary */
    uint64_t last_error_ns;
    char last_error[WEIR_REMOTE_ERROR_MAX]; /* for people; never a secret */
};

struct weir_remote;

/* Every engine fills one of these. */
struct weir_remote_ops {
    const char *name; /* "redis" */
    /* 0: done will be called. Else it will not: WEIR_EDOWN (a bound, or closed), WEIR_ERANGE, WEIR_ENOMEM. */
    int (*submit)(struct weir_remote *remote, struct weir_remote_request *request);
    /* 0: done will be called. Else it will not: WEIR_EDOWN, WEIR_ENOMEM. */
    int (*note)(struct weir_remote *remote, struct weir_remote_note *note);
    void (*stats)(struct weir_remote *remote, struct weir_remote_stats *ret_stats);
    size_t (*servers)(struct weir_remote *remote, struct weir_remote_server *ret_servers, size_t room);
    bool (*ready)(struct weir_remote *remote); /* all of it answers: each server that is needed, with no breaker open */
    void (*close)(struct weir_remote *remote); /* all under way are done (WEIR_EUNKNOWN); frees it in a later turn */
};

struct weir_remote {
    const struct weir_remote_ops *ops;
};
