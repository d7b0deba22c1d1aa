/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash table from hashes of keys to words, which one thread changes while all others ask it. Nobody waits: a change
 * is one or two stores; where the table has to grow, a new one is built beside it and put in its place in one step. A
 * question costs one look, mostly one line of the cache, whether the key is there or not.
 *
 * What a word means is the caller's (rules/excepted_keys.c). Two of them are the table's own.
 *
 * Memory: 16 bytes a slot, a third to three quarters of them used; beside it, while it grows, the table before.
 *
 * Thread rule: find, and what says how many, from any thread; all else from one at a time. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/limiter.h"

#define WEIR_KEY_WORD_FREE UINT64_C(0)    /* the key is not there; and never was */
#define WEIR_KEY_WORD_REMOVED UINT64_C(1) /* it is there no more */

static inline bool weir_key_word_is_there(uint64_t word)
{
    return word > WEIR_KEY_WORD_REMOVED;
}

/* Whether a word still takes room, `keep_ns` after it ended. */
typedef bool weir_key_word_stays(uint64_t word, uint64_t wall_ns, uint64_t keep_ns);

#define WEIR_KEY_WORDS_CLASSES 40 /* of sizes; each has half as many slots more than the one before */

/* A table and what the thread that changes it knows of it. */
struct weir_key_words_content {
    struct weir_key_words_table *table; /* NULL: none were put yet */
    size_t used;                        /* slots that are not FREE */
    size_t count;                       /* of them not REMOVED */
    size_t low;                         /* of these whose lowest byte is not 0 */
};

/* Treat as opaque; begins as zeros, with `stays`. */
struct weir_key_words {
    _Atomic(struct weir_key_words_table *) table; /* that readers ask; NULL: it is empty */
    _Atomic uint64_t exchanges;                   /* of tables */
    _Atomic size_t count, low;
    weir_key_word_stays *stays;
    struct weir_key_words_content now, next;
    bool renewing; /* put and remove are for `next` */
    struct weir_key_words_table *shelf[WEIR_KEY_WORDS_CLASSES];
};

void weir_key_words_deinit(struct weir_key_words *words);

/* ---- asking ---- */

uint64_t weir_key_words_find(const struct weir_key_words *words, uint64_t hash); /* FREE or REMOVED: it is not there */
static inline size_t weir_key_words_count(const struct weir_key_words *words)
{
    return atomic_load_explicit(&words->count, memory_order_relaxed);
}
size_t weir_key_words_low(const struct weir_key_words *words);   /* of them those whose lowest byte is not 0 */
size_t weir_key_words_bytes(const struct weir_key_words *words); /* of the table in use */

/* ---- changing ---- */

/* How many there are in what is changed now. */
size_t weir_key_words_changing(const struct weir_key_words *words);

/* A word that is there. WEIR_ELIMIT: there are `max`, and at `wall_ns` all of them stay; WEIR_ENOMEM. Then nothing has
 * changed. */
WEIR_MUST_CHECK int weir_key_words_put(struct weir_key_words *words, uint64_t hash, uint64_t word, size_t max,
                                       uint64_t wall_ns);
void weir_key_words_remove(struct weir_key_words *words, uint64_t hash);
/* Room for `count` where there are none yet. Who puts many in the order of their hashes needs it: a table that grew
 * with them would have them all at its beginning. WEIR_ENOMEM. */
WEIR_MUST_CHECK int weir_key_words_reserve(struct weir_key_words *words, size_t count);
/* Those that have ended go, where there are some. WEIR_ENOMEM: they stay. */
WEIR_MUST_CHECK int weir_key_words_purge(struct weir_key_words *words, uint64_t wall_ns);

/* All of them anew: from `begin` on, put and remove work on an empty set that nobody sees, until `commit` puts it in
 * the place of the other, or `abandon` drops it. */
void weir_key_words_begin(struct weir_key_words *words);
void weir_key_words_commit(struct weir_key_words *words);
void weir_key_words_abandon(struct weir_key_words *words);

/* From place *at on the next word that readers may find; false: that was all. *at is 0 at first. */
bool weir_key_words_next(const struct weir_key_words *words, size_t *at, uint64_t *ret_hash, uint64_t *ret_word);
