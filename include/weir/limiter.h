/* SPDX-License-Identifier: Apache-2.0
 *
 * The limiter: limits, and the bounded memory of every key's state. "May this proceed now?"
 *
 * What it decides: whether a request of a cost may proceed under one limit, or under several at once (every one admits
 * and all are charged, or none is). What it does not: which limits apply to a request, and what to do with a refusal.
 *
 * Thread rule: after create, every function may be called from any thread at any time, but destroy, and but that calls
 * of weir_limiter_define must not overlap each other. A decision never allocates; it may yield while another thread
 * holds the same key, and sleeps only after 39 hours without weir_limiter_maintain or a clock that jumped 19 hours or
 * more: then one thread walks the table (about 15 ms for 10 million keys) and the others wait.
 *
 * Time: every decision takes a `struct weir_time` or NULL for the limiter's own clock. Callers that pass their own must
 * agree with each other within `skew_max_ns`. A stale time is never judged more generously than the key's newest. Read
 * the clock once per batch of input and hand it down.
 *
 * A clock that jumps far ahead and comes back mints nothing. What was charged at the far time is empty after the way
 * back. What was forgotten there, because it was fresh, cannot be told from a newcomer: so newcomers are taken for keys
 * that were used up when the way back was first seen, until the far time less skew_max has come again, or until such a
 * key would be fresh. A bucket fills meanwhile; under any other algorithm newcomers are refused. Not with skew_none.
 * (A permit whose lease ended at the far time has ended, for a key that got another one there.)
 *
 * Memory: all that keys need is allocated by create (address space at once, pages as keys arrive) and never exceeds
 * `memory_max`. Beside it the limiter takes, resident, about 0.3 MiB, and for each limit and override 0.6 KiB, or up to
 * 2 KiB once the set has been replaced (docs/table.md has the measurements). A newcomer in a full table takes the place
 * of the resident of whom least would be forgiven: least time until fresh for a bucket, that time by the share of the
 * limit that is used for windows and logs. So a flood of keys that are closer to fresh than an offender never frees it
 * (docs/table.md). It ends with the limiter: after a restart of the process every key is fresh, unless a snapshot was
 * restored (weir/snapshot.h). */
#ifndef WEIR_LIMITER_H
#define WEIR_LIMITER_H

#include <stddef.h>

#include "weir/limit.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

struct weir_limiter;

#define WEIR_SKEW_DEFAULT_NS WEIR_NS_PER_SECOND
#define WEIR_MEMORY_MIN ((size_t)64 << 10)
#define WEIR_MEMORY_DEFAULT ((size_t)256 << 20)
#define WEIR_CHARGES_MAX 64     /* limits decided together in one request */
#define WEIR_BATCH_MAX 4096     /* decisions in one call of decide_many; more is WEIR_ERANGE */
#define WEIR_LIMITS_MAX 32000   /* limits and overrides in one limiter */
#define WEIR_KEY_VALUES_MAX 16  /* values that make one key */
#define WEIR_KEY_BYTES_MAX 4096 /* their total length */
#define WEIR_LIMIT_NAME_MAX 128

/* Bytes that somebody else owns. */
struct weir_slice {
    const void *data;
    size_t size;
};

/* One reading of the clocks. now_ns: monotonic, any origin, ns. wall_ns: ns since 1970-01-01T00:00Z, used only by
 * calendar windows; 0 if there are none. */
struct weir_time {
    uint64_t now_ns;
    uint64_t wall_ns;
};

/* CLOCK_MONOTONIC and CLOCK_REALTIME now. */
struct weir_time weir_time_read(void);

/* By which clock a call goes that is given no time: CLOCK_MONOTONIC, read in one of these ways. TSC goes by the
 * processor's time-stamp counter, where Linux itself does
 * (/sys/devices/system/clocksource/clocksource0/current_clocksource). What it tells is at that clock or less than 1 ms
 * behind it, and never goes back on a thread; so a time of weir_time_read may be that much ahead of a call without one.
 * Call weir_limiter_maintain every second or more often: there it is noticed that the counter stands still, or that the
 * kernel has left it. */
enum weir_clock_kind {
    WEIR_CLOCK_AUTO,      /* TSC where the kernel goes by it and skew_max_ns is 1 ms or more; else MONOTONIC */
    WEIR_CLOCK_TSC,       /* by the processor's time-stamp counter: a decision need not wait for the clock */
    WEIR_CLOCK_MONOTONIC, /* each time anew */
    WEIR_CLOCK_COARSE,    /* as of the kernel's last tick: behind by up to 10 ms */
};

/* Zero-initialise, then set what differs.
 *
 * log_memory_max: a key's log takes 8 bytes a unit, a permit 16, rounded up to a power of two of at least 64 bytes; a
 * log that grows holds the old one and the new one, of twice the size, for a moment. Three times the size of one
 * key's full log, and a bit (1/20), is always enough for that key alone (six times for permits, which get at most
 * half; twelve times where there are several concurrency limits, for those of one leave a part to the others). With
 * less, the limit is lower than it says, which define does not refuse but tells (`weir serve` and `weir rules check`
 * warn of it): what finds no room is refused as `full`, and counted (refused_full). Under memory that is full, logs
 * make room for logs (on_full: evict) of whom least would be forgiven, as far as 2,048 lines of the table show one;
 * permits make room for nobody. */
struct weir_limiter_options {
    size_t memory_max;             /* bytes for all keys together; 0 = WEIR_MEMORY_DEFAULT; at least WEIR_MEMORY_MIN */
    size_t log_memory_max;         /* how much of it sliding logs and permits may take; 0 = an eighth; see below */
    uint64_t skew_max_ns;          /* how far callers' clocks may disagree; 0 = WEIR_SKEW_DEFAULT_NS; at most 1 hour */
    bool skew_none;                /* callers' clocks never disagree: skew_max_ns is 0 */
    const uint8_t *secret;         /* 16 bytes that place keys in the table; NULL = random */
    const uint8_t *cluster_secret; /* 16 bytes for what must agree across nodes (spread); NULL = zeros */
    uint64_t clock;                /* enum weir_clock_kind; TSC where the kernel does not go by it: WEIR_EINVAL */
    uint64_t reserved_keys_max;    /* keys that may have open reservations (weir/reserve.h); 0 = 65,536; to 2^24 */
    uint64_t reserved[WEIR_RESERVED - 2]; /* 0 */
};

WEIR_MUST_CHECK int weir_limiter_create(const struct weir_limiter_options *options, struct weir_limiter **ret_limiter,
                                        struct weir_fault *ret_fault);
void weir_limiter_destroy(struct weir_limiter *limiter); /* NULL is allowed */

/* ---- limits ---- */

typedef uint64_t weir_limit_id; /* 0 is never a limit; an id never comes back as that of another */

/* A limit by name. `variant` tells apart settings that share the limit's counters (an override for one key): its
 * counter is the one the key has under (name, any variant). NULL or "" is the limit itself. */
struct weir_limit_def {
    const char *name;
    const char *variant;
    struct weir_limit_spec spec;
};

/* Replaces the whole set of limits with `defs`, atomically: on failure the old set stays as it was and
 * ret_fault->field is "NAME.FIELD" cut to fit. ret_ids[i] is the id of defs[i]: the old one where nothing changed, else
 * a new one; keys are converted (on_change) when next decided and by weir_limiter_maintain.
 *
 * On success ret_fault->field is "", or the set stands and yet "NAME.count" says of the first such limit that
 * log_memory_max has no room for as many times, or permits, of one key, even if no other key has any; ret_fault->text
 * says for how many. What is above that is refused as `full`. (Refused would be a reload, which cannot make more room.)
 *
 * Threads go on deciding meanwhile, by whatever id they have; nobody has to be told or waited for. Ids of the previous
 * set stay good until the next call: one whose limit was replaced decides by its successor at once. The next call first
 * completes the conversion, so that no slot is ever more than one generation behind; from then on they are WEIR_ESTALE,
 * also to a call that began before: take the newest id and ask again, nothing has been decided. (Only
 * decide_many, which may have charged some by then, refuses the rest, with a retry_after of 1 ns.)
 * Errors: WEIR_ERANGE, WEIR_EINVAL (a bad spec, an unknown time zone), WEIR_EEXIST (twice the same name and variant),
 * WEIR_ELIMIT (more than WEIR_LIMITS_MAX), WEIR_ENOMEM. */
WEIR_MUST_CHECK int weir_limiter_define(struct weir_limiter *limiter, const struct weir_limit_def *defs, size_t count,
                                        const struct weir_time *time, weir_limit_id *ret_ids,
                                        struct weir_fault *ret_fault);

/* Does up to `lines_max` 64-byte lines of what is due in the background (converting keys after define, forgetting keys
 * that have long been fresh). Returns true while more is due. Call it from a timer (every 10 ms with 4096 is plenty);
 * without it define does the rest itself when next called. */
bool weir_limiter_maintain(struct weir_limiter *limiter, const struct weir_time *time, size_t lines_max);

/* ---- keys ---- */

/* A key under one limit, hashed: valid for this limiter, this limit and its variants, as long as the limiter lives. */
struct weir_key {
    uint64_t hash;
    uint64_t phase; /* spread, as a 64-bit fraction; 0 where the limit has none */
};

/* The size of a value that is absent. As a part of a key it differs from every value, the empty one included. */
#define WEIR_VALUE_ABSENT SIZE_MAX

/* Distinct tuples of values never share a counter by concatenation. Values may be empty, binary or absent.
 * Errors: WEIR_ENOENT, WEIR_ESTALE, WEIR_ERANGE (more than WEIR_KEY_VALUES_MAX values or WEIR_KEY_BYTES_MAX bytes). */
int weir_limiter_key(const struct weir_limiter *limiter, weir_limit_id limit, const struct weir_slice *values,
                     size_t count, struct weir_key *ret_key);

/* ---- decisions ---- */

struct weir_charge {
    weir_limit_id limit;
    struct weir_key key;
    uint64_t cost;         /* 0: always admitted, changes nothing, shows the numbers; at most WEIR_COST_MAX */
    uint64_t delay_max_ns; /* leaky_bucket: what would be delayed for longer is refused, until it would not be; 0 =
                              however long, WEIR_DELAY_NONE = what would be delayed at all */
};

enum weir_decide_flags {
    WEIR_PEEK = 1, /* the verdict that a charge would get now; changes nothing */
};

/* What they say together. */
struct weir_decision {
    bool admitted;
    size_t deciding; /* index of the charge that refused (never first, then the longest wait), or, admitted, of the
                        enforced limit with the least remaining; count if there is none */
    uint64_t retry_after_ns; /* the longest */
    uint64_t delay_ns;       /* the longest */
};

/* Decides all `count` charges together, all or nothing. ret_verdicts has room for `count`. After an error neither it
 * nor ret_decision says anything. Errors: WEIR_ERANGE (more than WEIR_CHARGES_MAX charges, a cost above
 * WEIR_COST_MAX), WEIR_ENOENT (no id of a limit), WEIR_ESTALE (one of a set that is gone), WEIR_EDUP (two charges on
 * one counter: add the costs instead). */
WEIR_MUST_CHECK int weir_limiter_decide(struct weir_limiter *limiter, const struct weir_charge *charges, size_t count,
                                        const struct weir_time *time, unsigned flags,
                                        struct weir_decision *ret_decision, struct weir_verdict *ret_verdicts);

/* The common case: one limit, yes or no. Yes only if the charge was admitted and is charged. No too where an
 * argument is wrong, for which weir_limiter_decide has an error; and no numbers. */
WEIR_MUST_CHECK bool weir_limiter_admit(struct weir_limiter *limiter, const struct weir_charge *charge,
                                        const struct weir_time *time);

/* Decides `count` independent charges, in order; verdict i is of charge i alone. Much faster than one by one on keys
 * that are not in the cache: all lines are prefetched before the first is needed. Errors as weir_limiter_decide (the
 * same counter any number of times is fine here), found before anything is charged. */
WEIR_MUST_CHECK int weir_limiter_decide_many(struct weir_limiter *limiter, const struct weir_charge *charges,
                                             size_t count, const struct weir_time *time, unsigned flags,
                                             struct weir_verdict *ret_verdicts);

/* weir_limiter_admit of `count` independent charges, in order; ret_admitted[i] is of charge i alone, and no where its
 * limit was replaced twice since the call began. As weir_limiter_decide_many, without the numbers; errors as there. */
WEIR_MUST_CHECK int weir_limiter_admit_many(struct weir_limiter *limiter, const struct weir_charge *charges,
                                            size_t count, const struct weir_time *time, bool *ret_admitted);

/* Gives up to `units` back, never more than is used; returns how many through ret_units. A concurrency limit gives none
 * back: what is out there is somebody's, who gives it back by its number (weir_limiter_release). */
int weir_limiter_refund(struct weir_limiter *limiter, const struct weir_charge *charge, uint64_t units,
                        const struct weir_time *time, uint64_t *ret_units);

/* A queued request leaves before its turn: gives its charge back only if nothing queued after it (`ticket` of its
 * verdict is still the newest). ret_newest: the ticket that is the newest from then on, of whoever queued before it; 0
 * if nothing was given back. leaky_bucket and token_bucket. */
int weir_limiter_refund_last(struct weir_limiter *limiter, const struct weir_charge *charge, uint64_t ticket,
                             const struct weir_time *time, uint64_t *ret_newest);

/* ---- permits of concurrency limits ----
 *
 * A request that is admitted under concurrency limits takes a permit: one number, `ticket` in the verdict of each of
 * them, unique for the life of the limiter. Each limit's units are out until the permit is given back or that limit's
 * lease (spec.period_ns) has ended, whichever is first: whoever crashes holds nothing for longer. A permit is known by
 * its number and by the keys under which it was taken (struct weir_charge.key, of the charges with a ticket). It
 * outlives weir_limiter_define, for the lease it was told, as long as the limit's name is one of a concurrency
 * limit. */

/* Gives back what is still out of a permit, of all its keys (1 to WEIR_CHARGES_MAX) in one step; ret_units: how many
 * units that were. 0: it has ended, was given back before, or never was: nothing has changed.
 * Errors: WEIR_ERANGE (too many keys, or none), WEIR_EDUP (the same key twice). */
int weir_limiter_release(struct weir_limiter *limiter, const struct weir_key *keys, size_t count, uint64_t permit,
                         const struct weir_time *time, uint64_t *ret_units);

/* Begins the leases of a permit under all these keys anew, in one step, or none. ret_lease_ns: until the first of
 * them ends; none ends sooner than it would have. 0: under one of them it has ended, so it is lost: the holder must
 * stop what it needed it for, and may give back the rest. Leave out keys of limits in shadow, or renew those by
 * themselves: they refuse nobody. Errors as above. */
WEIR_MUST_CHECK int weir_limiter_renew(struct weir_limiter *limiter, const struct weir_key *keys, size_t count,
                                       uint64_t permit, const struct weir_time *time, uint64_t *ret_lease_ns);

/* Forgets a key: it is fresh, permits that are out have ended. ret_found says whether it had state. */
int weir_limiter_forget(struct weir_limiter *limiter, const struct weir_charge *charge, bool *ret_found);

/* ---- a token bucket without a definition (CL.THROTTLE) ---- */

/* The compiled numbers of a token bucket; treat as opaque. */
struct weir_bucket {
    uint64_t emission; /* one unit's time, in 2^-shift ns, rounded up */
    uint64_t inverse;  /* floor((2^64 - 1) / emission): a division by multiplication */
    uint64_t capacity; /* burst * emission */
    uint64_t burst;
    int32_t shift;
    uint32_t reserved;
};

/* Only algorithm (WEIR_TOKEN_BUCKET), count, period_ns and burst are used. */
int weir_bucket_init(struct weir_bucket *bucket, const struct weir_limit_spec *spec, struct weir_fault *ret_fault);

/* The key of a bucket: the bytes alone, so that changed parameters meet the same state. */
int weir_limiter_bucket_key(const struct weir_limiter *limiter, struct weir_slice value, struct weir_key *ret_key);

/* One bucket decision; with other parameters than last time the time at which the bucket is full is kept. */
WEIR_MUST_CHECK int weir_limiter_bucket_decide(struct weir_limiter *limiter, const struct weir_bucket *bucket,
                                               const struct weir_key *key, uint64_t cost, const struct weir_time *time,
                                               unsigned flags, struct weir_verdict *ret_verdict);

/* `count` of them, in order, prefetched together; bucket[i], key[i], cost[i] belong together. */
WEIR_MUST_CHECK int weir_limiter_bucket_decide_many(struct weir_limiter *limiter, const struct weir_bucket *buckets,
                                                    const struct weir_key *keys, const uint64_t *costs, size_t count,
                                                    const struct weir_time *time, unsigned flags,
                                                    struct weir_verdict *ret_verdicts);

int weir_limiter_bucket_forget(struct weir_limiter *limiter, const struct weir_key *key, bool *ret_found);

/* ---- counters ---- */

struct weir_limiter_stats {
    uint64_t memory_max;              /* bytes, as asked */
    uint64_t memory_used;             /* bytes of the table and the logs in use now */
    uint64_t keys;                    /* keys that have state */
    uint64_t slots_used;              /* a bucket's key takes one slot of 16 bytes, a window's two */
    uint64_t slots;                   /* how many the table has now; it grows to memory_max */
    uint64_t inserted;                /* newcomers since create */
    uint64_t evicted;                 /* residents that lost their place while not yet fresh */
    uint64_t refused_full;            /* newcomers refused for want of a place */
    uint64_t converted;               /* keys converted after a change of their limit */
    uint64_t clock_jumps;             /* keys found too far ahead and set to empty */
    uint64_t clock_falls;             /* times that the callers' clock was seen to have come back, see "Time" above */
    uint64_t reserved[WEIR_RESERVED]; /* 0 */
};
void weir_limiter_stats(const struct weir_limiter *limiter, struct weir_limiter_stats *ret_stats);

struct weir_limit_stats {
    uint64_t refused;      /* decisions this limit refused by itself (in shadow: would have) */
    uint64_t evicted;      /* of this limit's keys */
    uint64_t refused_full; /* of this limit's newcomers */
    /* Concurrency limits, in units, overrides included, through changes of the limit: */
    uint64_t permits_given;
    uint64_t permits_released; /* given back */
    uint64_t permits_ended;    /* by their lease, or with their key or limit (a reset, forget). Counted when that is
                                  noticed: when the key is charged next, its place is needed, or maintain comes by */
    uint64_t permits_out;      /* neither; those too whose end has not been noticed yet */
    uint64_t reserved[WEIR_RESERVED]; /* 0 */
};
int weir_limiter_limit_stats(const struct weir_limiter *limiter, weir_limit_id limit,
                             struct weir_limit_stats *ret_stats);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
