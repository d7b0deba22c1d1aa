/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts the leased and batched keys of one event loop: a bounded table of their state machines (core/share), their
 * asks on the way to the engine elsewhere (limits/remote.h), and the requests that wait for an answer.
 *
 * Thread rule: one loop's thread. Each loop of a server has a host of its own: leased chunks are its own, and of a
 * node's slack it has its part (weir_split_units), so that the node's bound holds.
 *
 * Bounds: `keys_max` keys; when full, an idle key goes first, then the one longest unused, which settles on its way
 * out; when all have requests under way, a newcomer is refused with WEIR_ELIMIT. Waiting requests are the caller's. */
#pragma once

#include "core/share/share.h"
#include "limits/remote.h"

struct weir_share_host;

struct weir_share_host_options {
    struct weir_remote *remote; /* outlives the host */
    size_t keys_max;            /* 0 = 100,000 */
    /* Calls weir_share_host_turn at this time (uv_hrtime) or later; again and again, the newest counts. */
    void (*wake)(void *context, uint64_t at_ns);
    uint64_t (*now_ns)(void *context); /* NULL = CLOCK_MONOTONIC */
    void *context;
    const uint8_t *secret; /* 16 bytes that no host had before, for a run that can be repeated; NULL: they are drawn */
};

/* How a limit is shared here. */
struct weir_share_terms {
    const struct weir_remote_limit *limit; /* the host holds it for as long as it needs it */
    bool leased;                           /* else batched */
    uint64_t slack;                        /* batched: of this loop */
    uint64_t interval_ns;                  /* batched */
    uint64_t chunk_ttl_ns;                 /* leased */
    uint64_t deadline_ns;                  /* how long an ask may take */
};

/* One request that waits for one key; the caller's memory. */
struct weir_share_waiter {
    void (*ready)(struct weir_share_waiter *waiter, int status); /* 0: reserve again. Else the engine failed: WEIR_EDOWN
                                                                    or WEIR_EUNKNOWN. Called once, not from within a
                                                                    call of the caller's */
    struct weir_share_waiter *next, *prev;
    void *queue;
};

int weir_share_host_create(const struct weir_share_host_options *options, struct weir_share_host **ret_host);
/* Settles and gives back what it can, for at most `drain_ns`; then `done` is called, once, never from within close.
 * What is still under way then ends with the remote's close. Nobody waits or has reserved by now. */
void weir_share_host_close(struct weir_share_host *host, uint64_t drain_ns, void (*done)(void *context), void *context);

/* May `units` of the key be spent? YES: they are set aside until commit or cancel. WAIT: the caller may wait for the
 * engine's word (weir_share_host_wait) and reserve again. A peek changes nothing at all, so nobody need wait for it:
 * with WAIT it is the engine that knows (WEIR_REMOTE_PEEK). Errors: WEIR_ELIMIT, WEIR_ENOMEM; WEIR_EDOWN: it would have
 * to wait, and the engine cannot be asked. */
int weir_share_host_reserve(struct weir_share_host *host, const struct weir_share_terms *terms,
                            const struct weir_remote_key *key, uint64_t units, bool peek, uint64_t now_ns,
                            enum weir_share_say *ret_say, struct weir_verdict *ret_verdict);
/* Right after a reserve that said WAIT. */
void weir_share_host_wait(struct weir_share_host *host, const struct weir_remote_key *key,
                          struct weir_share_waiter *waiter);
/* False: they were set aside too long ago, the engine has given their hold up (WEIR_SHARE_COMMIT): do not go on. */
bool weir_share_host_commit(struct weir_share_host *host, const struct weir_remote_key *key, uint64_t units,
                            uint64_t now_ns);
void weir_share_host_cancel(struct weir_share_host *host, const struct weir_remote_key *key, uint64_t units,
                            uint64_t now_ns);
/* Its caller is gone, or waits no longer. WEIR_EBUSY: the engine answers, but others were faster at this key; else
 * WEIR_EUNKNOWN. */
int weir_share_waiter_leave(struct weir_share_waiter *waiter);

/* A reload: keys of limits whose name is none of `kept` settle and go; terms of the others follow with the next
 * reserve. */
int weir_share_host_retire(struct weir_share_host *host, const char *const *kept, size_t count); /* WEIR_ENOMEM */

void weir_share_host_turn(struct weir_share_host *host, uint64_t now_ns);

struct weir_share_host_stats {
    uint64_t keys, keys_max, evicted, refused_full;
    uint64_t asks, answers, lost, stale;
    uint64_t held;      /* units in pockets now, set aside ones too */
    uint64_t forfeited; /* leased: units charged and not spent, at most */
    uint64_t unsettled; /* batched: units not yet confirmed */
    uint64_t untold;    /* batched: of keys that left, units that the engine did not confirm in time */
    uint64_t waiting;
};
void weir_share_host_stats(const struct weir_share_host *host, struct weir_share_host_stats *ret_stats);
