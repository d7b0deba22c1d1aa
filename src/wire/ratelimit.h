/* SPDX-License-Identifier: Apache-2.0
 *
 * What a verdict looks like in header fields: RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-11
 * (Lists of RFC 9651), Retry-After of RFC 9110, and X-RateLimit-*, which no standard defines (here: delta seconds).
 *
 * Limits in shadow refuse nobody, so clients are not told about them here.
 *
 * Thread rule: plain values. */
#pragma once

#include "weir/limiter.h"
#include "wire/text.h"

/* How a limit is shared over nodes, and what that is worth, in units. */
struct weir_told_sharing {
    const char *mode;          /* "exact", "leased", "batched", "split", "gossip" */
    uint64_t nodes;            /* N */
    bool shares;               /* something decides by this node's share: split, gossip, on_failure: local */
    uint64_t share;            /* its capacity; told only then */
    uint64_t slack;            /* batched, gossip: units a node may be ahead; so many more per crash; else 0 */
    uint64_t overshoot_max;    /* N * slack: what all nodes together may admit beyond the limit, once, in calm */
    uint64_t revision;         /* of the definition that decides; 0: it is not known whether it is the newest */
    uint64_t revision_passed;  /* its number before it passed what keys said (core/share/revision.h); 0: none */
    const char *revision_node; /* that made it the newest; NULL or "" = none */
};

/* One limit of an answer. */
struct weir_told {
    const char *name;
    const char *level; /* of it that an exception gives the key; NULL: none */
    const struct weir_limit_spec *spec;
    const struct weir_verdict *verdict;
    const struct weir_told_sharing *sharing; /* NULL: it is kept by this process alone */
    uint64_t overshoot_added;                /* by failures, to sharing->overshoot_max; WEIR_NEVER: no bound */
    const char *fallback;                    /* NULL, or the on_failure that decided because the engine failed */
};

/* A decision as it is told: limits[i] is of charge i. */
struct weir_answer {
    const struct weir_decision *decision;
    const struct weir_told *limits;
    size_t count;
    struct weir_slice permit; /* taken from concurrency limits; size 0: none */
    uint64_t lease_ns;        /* how long it lasts */
    const char *missing;      /* the attribute of limits[0]'s key for want of which it refuses; NULL: none */
    bool banned;              /* limits[0] refuses because its key is banned */
};

/* Integers of RFC 9651 have at most 15 digits; more is clamped. */
#define WEIR_SF_INTEGER_MAX UINT64_C(999999999999999)

struct weir_ratelimit_options {
    bool standard; /* RateLimit and RateLimit-Policy */
    bool legacy;   /* X-RateLimit-Limit, -Remaining and -Reset, of the limit that decides */
};

/* The fields, each with its CRLF; Retry-After too if the request is refused; Weir-Permit and Weir-Lease (whole seconds,
 * rounded down) with a permit. Weir-Limits: none where no limit applies; Weir-Missing: the attribute that is missing;
 * Weir-Banned: ?1 where the key is banned. A
 * concurrency limit's policy has no window and counts "concurrent-requests". */
void weir_ratelimit_fields(struct weir_text *text, const struct weir_answer *answer,
                           const struct weir_ratelimit_options *options);

/* A bound on what weir_ratelimit_fields writes. */
size_t weir_ratelimit_fields_max(const struct weir_answer *answer);

/* Seconds for Retry-After: rounded up, at least 1, and not earlier than the `t` of a limit that refuses. 0: there is
 * none, the request is admitted or can never be. */
uint64_t weir_ratelimit_retry_after_s(const struct weir_answer *answer);

/* Refused because the engine behind the deciding limit failed (on_failure: closed), not because of the limit. */
bool weir_ratelimit_failed(const struct weir_answer *answer);

/* Refused for what the request is, not for what was used: it lacks an attribute, its key is banned for good, or it
 * meets no limit where each request must meet one. */
bool weir_ratelimit_barred(const struct weir_answer *answer);

/* The members of a problem detail (RFC 9457) without the braces around them: type, title, status, violated-policies; of
 * a failed engine without the last; of a request that is barred, or costs more than can ever be admitted, with a detail
 * that says why. */
void weir_ratelimit_problem(struct weir_text *text, const struct weir_answer *answer);
