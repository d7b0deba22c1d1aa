/* SPDX-License-Identifier: Apache-2.0
 *
 * A permit as clients see it: text that says by itself what it is a permit of, so that the server keeps nothing for it.
 * The keys in it are masked and all of it is authenticated (SipHash) with secrets of this process: it cannot be
 * guessed, made or changed, tells nobody where a key lies in the table, and means nothing to the next process.
 *
 * Thread rule: plain values. */
#pragma once

#include <stdbool.h>

#include "base/siphash.h"
#include "weir/limiter.h"

/* The number, how many keys count, the keys, the authentication; in hexadecimal digits. */
#define WEIR_PERMIT_TEXT_MAX (2 * (8 + 1 + 8 * WEIR_CHARGES_MAX + 8))

struct weir_permit_secret {
    struct weir_sip_key mask, authentication; /* random, different */
};

/* weir_limiter_release takes all keys, weir_limiter_renew the first `counting`: the rest are of limits in shadow. */
struct weir_permit_id {
    uint64_t number;
    size_t count, counting;
    struct weir_key keys[WEIR_CHARGES_MAX];
};

/* Returns how many bytes of `text` it wrote. */
size_t weir_permit_write(const struct weir_permit_secret *secret, const struct weir_permit_id *id,
                         char text[WEIR_PERMIT_TEXT_MAX]);

/* False: not one of ours. */
bool weir_permit_read(const struct weir_permit_secret *secret, struct weir_slice text, struct weir_permit_id *ret_id);
