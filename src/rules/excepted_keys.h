/* SPDX-License-Identifier: Apache-2.0
 *
 * Which keys are banned or have a level, until when, and which were reset: two hash tables (rules/key_words.h) that one
 * thread changes while all others ask them. Nobody waits. A question costs one look into a table, mostly one line of
 * the cache, whether the key is there or not.
 *
 * A key is known by 64 bits of SipHash with a random secret, like the counters of limits: no client can aim at one, and
 * of a million one meets another key by chance once in 2 * 10^13 keys.
 *
 * Memory: 16 bytes a slot, a third to three quarters of them used: 21 to 46 bytes a key, and beside it, while it grows,
 * the table before; 8 KiB for names of levels. What has ended stays in it for an hour at least, so that a clock that is
 * set forth and back ends none, and goes when the table grows; sooner only where there is no room.
 *
 * Thread rule: `find` and what says how many, from any thread; all else from one at a time. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/siphash.h"
#include "rules/level_name.h"
#include "weir/limiter.h"

#define WEIR_EXCEPTED_KEYS_NAMES_MAX 255 /* of levels, in its life */
#define WEIR_EXCEPTED_KEYS_TICK_NS 128   /* ends are rounded up to this */

struct weir_excepted_keys;

/* Room for so many exceptions; a key that was reset, and has a ban or a level too, has two. WEIR_ENOMEM, WEIR_EIO: no
 * random bytes. */
int weir_excepted_keys_create(size_t max, struct weir_excepted_keys **ret_keys);
void weir_excepted_keys_destroy(struct weir_excepted_keys *keys); /* NULL is allowed */

/* ---- a key's hash: the same for the key as it is stored (rules/exception.h), and for its parts ---- */

uint64_t weir_excepted_keys_hash(const struct weir_excepted_keys *keys, const char *limit, struct weir_slice key);

/* Name and value of each attribute, in the order of the limit's key. */
void weir_excepted_keys_hash_start(const struct weir_excepted_keys *keys, const char *limit,
                                   struct weir_siphash_state *ret_state);
void weir_excepted_keys_hash_add(struct weir_siphash_state *state, struct weir_slice part);
uint64_t weir_excepted_keys_hash_end(struct weir_siphash_state *state);

/* ---- asking ---- */

bool weir_excepted_keys_any(const struct weir_excepted_keys *keys);
size_t weir_excepted_keys_count(const struct weir_excepted_keys *keys);  /* bans and levels; some may have ended */
size_t weir_excepted_keys_levels(const struct weir_excepted_keys *keys); /* of them those with a level */
size_t weir_excepted_keys_resets(const struct weir_excepted_keys *keys); /* keys that were reset */
size_t weir_excepted_keys_bytes(const struct weir_excepted_keys *keys);  /* of the tables in use */

struct weir_excepted {
    const char *level; /* its name, as long as the table; NULL: the key is banned */
    uint64_t left_ns;  /* for how long still; WEIR_NEVER: for good */
};
/* True: something holds for the key at `wall_ns`. */
bool weir_excepted_keys_find(const struct weir_excepted_keys *keys, uint64_t hash, uint64_t wall_ns,
                             struct weir_excepted *ret_excepted);
/* That of its newest reset; 0: it was never reset. */
uint64_t weir_excepted_keys_mark(const struct weir_excepted_keys *keys, uint64_t hash);

/* ---- changing ---- */

/* level NULL: a ban. until_ns 0: for good. What was there for the key goes. WEIR_ELIMIT: there is no room, and at
 * `wall_ns` none has ended, or it is one name of a level too many; WEIR_ENOMEM. Then nothing has changed. */
WEIR_MUST_CHECK int weir_excepted_keys_put(struct weir_excepted_keys *keys, uint64_t hash, const char *level,
                                           uint64_t until_ns, uint64_t wall_ns);
void weir_excepted_keys_remove(struct weir_excepted_keys *keys, uint64_t hash);
/* A mark is at least 2. It is for good, and neither put nor remove concerns it. Errors as of put. */
WEIR_MUST_CHECK int weir_excepted_keys_reset(struct weir_excepted_keys *keys, uint64_t hash, uint64_t mark,
                                             uint64_t wall_ns);

/* Room for so many of either where there are none yet, for who puts them in the order of their hashes, as
 * weir_excepted_keys_list() has them. WEIR_ENOMEM. */
WEIR_MUST_CHECK int weir_excepted_keys_reserve(struct weir_excepted_keys *keys, size_t excepted, size_t resets);

/* All of them anew: from `begin` on, put and remove work on an empty set that nobody sees, until `commit` puts it in
 * the place of the other, or `abandon` drops it. */
void weir_excepted_keys_begin(struct weir_excepted_keys *keys);
void weir_excepted_keys_commit(struct weir_excepted_keys *keys);
void weir_excepted_keys_abandon(struct weir_excepted_keys *keys);

/* ---- for a file ---- */

#define WEIR_EXCEPTED_KEYS_SECRET_SIZE 16
void weir_excepted_keys_secret(const struct weir_excepted_keys *keys,
                               uint8_t ret_secret[WEIR_EXCEPTED_KEYS_SECRET_SIZE]);
/* Before anything is put. */
void weir_excepted_keys_use_secret(struct weir_excepted_keys *keys,
                                   const uint8_t secret[WEIR_EXCEPTED_KEYS_SECRET_SIZE]);

struct weir_excepted_key {
    uint64_t hash, until_ns; /* 0: for good */
    size_t level;            /* its number; 0: a ban */
};
/* From place *at on, up to `room` that are in the table; returns how many. *at is 0 at first; none: that was all. By
 * the thread that changes. */
size_t weir_excepted_keys_list(const struct weir_excepted_keys *keys, size_t *at, struct weir_excepted_key *ret_list,
                               size_t room);
/* The next reset from place *at on; false: that was all. */
bool weir_excepted_keys_list_reset(const struct weir_excepted_keys *keys, size_t *at, uint64_t *ret_hash,
                                   uint64_t *ret_mark);
/* The numbers of levels are 1 to so many; and whose one is. By the thread that changes. */
size_t weir_excepted_keys_names(const struct weir_excepted_keys *keys);
const char *weir_excepted_keys_name(const struct weir_excepted_keys *keys, size_t level);
