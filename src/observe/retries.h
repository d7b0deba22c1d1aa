/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a refused key came back before the time it was told. Of each key the time last told is remembered, in
 * WEIR_RETRIES_PLACES places of 8 bytes for all of them: two keys to a pair of places, and a third takes the place of
 * the one whose time comes first. So of many keys that are refused at a time some are forgotten, and their retries not
 * seen; a retry that is seen was one (but for a tag of 24 bits that two keys share, in one pair of places).
 *
 * Thread rule: any thread. A place is one word; of two threads that write it at once, one is forgotten. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_RETRIES_PLACES 32768

/* Zero-initialise. */
struct weir_retries {
    _Atomic uint64_t places[WEIR_RETRIES_PLACES];
};

void weir_retries_prefetch(const struct weir_retries *retries, uint64_t hash);

/* A key is refused, and told to come back after `retry_after_ns` (WEIR_NEVER: nothing is remembered). Whether it was
 * told, when it was refused before, a time that is still to come; it counts in steps of 2^20 ns, in favour of the
 * key. */
bool weir_retries_note(struct weir_retries *retries, uint64_t hash, uint64_t now_ns, uint64_t retry_after_ns);
