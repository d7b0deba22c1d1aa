/* SPDX-License-Identifier: Apache-2.0
 *
 * Which keys are banned, until when: a hash table that one thread changes while all others ask it. Nobody waits: a
 * change is one or two stores; where the table has to grow, a new one is built beside it and put in its place in one
 * step. A question costs one look into the table, mostly one line of the cache, whether the key is there or not.
 *
 * A key is known by 64 bits of SipHash with a random secret, like the counters of limits: no client can aim at one, and
 * of a million bans one meets a key by chance once in 2 * 10^13 keys.
 *
 * Memory: 16 bytes a slot, a third to three quarters of them used: 21 to 46 bytes a ban, and beside it, while it grows,
 * the table before. Bans that have ended stay in it for an hour at least, so that a clock that is set forth and back
 * ends none; they go when it grows, or when there is no room.
 *
 * Thread rule: `find` and what says how many, from any thread; all else from one at a time. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/siphash.h"
#include "weir/limiter.h"

struct weir_banned_keys;

/* Room for so many bans. WEIR_ENOMEM, WEIR_EIO: no random bytes. */
int weir_banned_keys_create(size_t max, struct weir_banned_keys **ret_keys);
void weir_banned_keys_destroy(struct weir_banned_keys *keys); /* NULL is allowed */

/* ---- a key's hash: the same for the key as it is stored (rules/exception.h), and for its parts ---- */

uint64_t weir_banned_keys_hash(const struct weir_banned_keys *keys, const char *limit, struct weir_slice key);

/* Name and value of each attribute, in the order of the limit's key. */
void weir_banned_keys_hash_start(const struct weir_banned_keys *keys, const char *limit,
                                 struct weir_siphash_state *ret_state);
void weir_banned_keys_hash_add(struct weir_siphash_state *state, struct weir_slice part);
uint64_t weir_banned_keys_hash_end(struct weir_siphash_state *state);

/* ---- asking ---- */

bool weir_banned_keys_any(const struct weir_banned_keys *keys);
size_t weir_banned_keys_count(const struct weir_banned_keys *keys); /* some may have ended */
size_t weir_banned_keys_bytes(const struct weir_banned_keys *keys); /* of the table in use */

/* True: banned at `wall_ns`; *ret_left_ns: for how long still, WEIR_NEVER: for good. */
bool weir_banned_keys_find(const struct weir_banned_keys *keys, uint64_t hash, uint64_t wall_ns, uint64_t *ret_left_ns);

/* ---- changing ---- */

/* until_ns 0: for good. One that is there gets the new end. WEIR_ELIMIT: there is no room, and at `wall_ns` none has
 * ended; WEIR_ENOMEM. Then it is not banned, if it was not before. */
WEIR_MUST_CHECK int weir_banned_keys_put(struct weir_banned_keys *keys, uint64_t hash, uint64_t until_ns,
                                         uint64_t wall_ns);
void weir_banned_keys_remove(struct weir_banned_keys *keys, uint64_t hash);

/* All of them anew: from `begin` on, put and remove work on an empty set that nobody sees, until `commit` puts it in
 * the place of the other, or `abandon` drops it. */
void weir_banned_keys_begin(struct weir_banned_keys *keys);
void weir_banned_keys_commit(struct weir_banned_keys *keys);
void weir_banned_keys_abandon(struct weir_banned_keys *keys);

/* ---- for a file ---- */

#define WEIR_BANNED_KEYS_SECRET_SIZE 16
void weir_banned_keys_secret(const struct weir_banned_keys *keys, uint8_t ret_secret[WEIR_BANNED_KEYS_SECRET_SIZE]);
/* Before anything is put. */
void weir_banned_keys_use_secret(struct weir_banned_keys *keys, const uint8_t secret[WEIR_BANNED_KEYS_SECRET_SIZE]);

struct weir_banned_key {
    uint64_t hash, until_ns; /* 0: for good */
};
/* From place *at on, up to `room` that are in the table; returns how many. *at is 0 at first; none: that was all. By
 * the thread that changes. */
size_t weir_banned_keys_list(const struct weir_banned_keys *keys, size_t *at, struct weir_banned_key *ret_list,
                             size_t room);
