/* SPDX-License-Identifier: Apache-2.0
 *
 * Permits of concurrency limits: what a verdict shows of one, and giving it back or renewing it by that. The permit
 * of a held request whose client has gone is given back by hold_wait.c. */
#pragma once

#include "serve/decide.h"
#include "wire/permit.h"

/* What an outcome says of its permit. */
struct weir_permit_told {
    bool asked;        /* a concurrency limit applies */
    uint64_t lease_ns; /* until its first lease that counts ends, from when the answer goes; 0: none was taken */
    size_t size;       /* of `text`; 0: none was taken */
    char text[WEIR_PERMIT_TEXT_MAX];
};

int weir_permit_secret_init(struct weir_permit_secret *secret); /* WEIR_EIO: no random numbers */

/* Its leases begin when it is told. */
void weir_permit_tell(const struct weir_loop *loop, const struct weir_outcome *outcome, const struct weir_time *time,
                      struct weir_permit_told *ret_told);

/* Begins its leases anew, and returns the first of them that counts to end; 0: as in weir_permit_renew. */
uint64_t weir_permit_begin(const struct weir_loop *loop, const struct weir_permit_id *id, const struct weir_time *time);

/* False: it has ended, was given back before, or is not one of ours; nothing has changed. */
bool weir_permit_release(struct weir_loop *loop, struct weir_slice text, const struct weir_time *time);

/* The new lease; 0: as above, or lost under one of its limits. */
uint64_t weir_permit_renew(const struct weir_loop *loop, struct weir_slice text, const struct weir_time *time);

/* ns as whole ms: a lease is never shown longer than it is. */
static inline int64_t weir_permit_told_ms(uint64_t ns)
{
    return (int64_t)(ns / 1000000);
}
