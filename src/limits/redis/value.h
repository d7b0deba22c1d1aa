/* SPDX-License-Identifier: Apache-2.0
 *
 * A stored value (layout.h) as a ledger of the core, and back. Thread rule: plain values. */
#pragma once

#include "core/share/ledger.h"
#include "limits/redis/layout.h"
#include "limits/remote.h"

struct weir_value {
    struct weir_limit limit;   /* that it was written under */
    uint64_t calendar_hash;    /* where it says a revision, the lower half */
    uint32_t revision;         /* of that limit's definition; WEIR_REVISION_FIRST where it says none */
    uint64_t at_ns;            /* the state is fresh from then on */
    bool held;                 /* a stint holds units */
    bool rewrite;              /* a log whose sums near where doubles end, or one long fresh under another limit */
    struct weir_ledger ledger; /* its stints, and its log's times, are the value's own */
};

/* A limit's parameters, by which the script knows its values; `out` has LAYOUT_PARAMETERS bytes. */
void weir_value_parameters(const struct weir_limit *limit, uint64_t calendar_hash, uint32_t revision, uint8_t *out);

/* Whether they are equal but for the revision. */
bool weir_value_alike(const struct weir_value *value, const struct weir_remote_limit *remote);

/* No bytes: a fresh key of `remote` at now_ns, to say `revision`. WEIR_ECORRUPT: not a value of ours. WEIR_ENOMEM.
 * A log gets room for anything. */
int weir_value_read(const struct weir_remote_limit *remote, uint32_t revision, uint64_t now_ns, const uint8_t *bytes,
                    size_t size, struct weir_value *ret_value);
void weir_value_deinit(struct weir_value *value);

/* Beyond so many ns from now, times modulo 2^59 ticks say nothing. */
uint64_t weir_value_far_ns(const struct weir_limit *limit);

/* By how much further ahead the key may lie for its debt. */
uint64_t weir_value_debt_ticks(const struct weir_value *value);

/* The bytes to store (malloc'd), and after how long they say nothing any more. WEIR_ENOMEM. */
int weir_value_write(const struct weir_value *value, uint64_t now_ns, uint8_t **ret_bytes, size_t *ret_size,
                     uint64_t *ret_ttl_ms);
