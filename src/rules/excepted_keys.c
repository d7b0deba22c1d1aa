/* SPDX-License-Identifier: Apache-2.0
 *
 * Two tables (rules/key_words.h) by one hash. Of a ban or a level the word is the number of the level, 0 for a ban, and
 * the end; names of levels get numbers once, which stay theirs, and are there before any word has them. Of a reset the
 * word is its mark. Called by serve/exception_follower.c, follower.c and exception_kept.c, and by
 * serve/excepted.c for each request. */
#include "rules/excepted_keys.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/checked.h"
#include "rules/key_words.h"

/* What a word says of its key: the end in ticks, and the level in the lowest byte. */
#define TICK_NS WEIR_EXCEPTED_KEYS_TICK_NS
#define TICKS_FOR_GOOD ((UINT64_C(1) << 56) - 1)

struct weir_excepted_keys {
    struct weir_key_words words;  /* bans and levels */
    struct weir_key_words resets; /* their marks */
    struct weir_sip_key key;
    size_t max;                                                        /* of both together */
    char names[WEIR_EXCEPTED_KEYS_NAMES_MAX][WEIR_LEVEL_NAME_MAX + 1]; /* of level 1, 2, 3, ... */
    size_t names_count;                                                /* of the thread that changes */
};

/* ---- words ---- */

/* Of a moment between two ticks the later one. */
static uint64_t word_of(uint64_t until_ns, size_t level)
{
    uint64_t ticks = until_ns / TICK_NS + (until_ns % TICK_NS != 0);
    ticks = until_ns == 0 ? TICKS_FOR_GOOD : weir_min_u64(weir_max_u64(ticks, 1), TICKS_FOR_GOOD - 1);
    return ticks << 8 | level;
}

/* UINT64_MAX: it is for good. */
static uint64_t end_of(uint64_t word)
{
    return word >> 8 == TICKS_FOR_GOOD ? UINT64_MAX : weir_mul_sat(word >> 8, TICK_NS);
}

static size_t level_of(uint64_t word)
{
    return weir_key_word_is_there(word) ? word & 0xff : 0;
}

static bool has_not_ended(uint64_t word, uint64_t wall_ns, uint64_t keep_ns)
{
    return weir_add_sat(end_of(word), keep_ns) > wall_ns;
}

static bool is_for_good(uint64_t word, uint64_t wall_ns, uint64_t keep_ns)
{
    (void)word, (void)wall_ns, (void)keep_ns;
    return true;
}

/* ---- a key's hash ---- */

void weir_excepted_keys_hash_start(const struct weir_excepted_keys *keys, const char *limit,
                                   struct weir_siphash_state *ret_state)
{
    weir_siphash_start(ret_state, &keys->key);
    weir_siphash_add(ret_state, limit, strlen(limit) + 1); /* its NUL ends it */
}

void weir_excepted_keys_hash_add(struct weir_siphash_state *state, struct weir_slice part)
{
    char digits[24], *at = digits + sizeof(digits);
    *--at = ':';
    size_t size = part.size;
    do
        *--at = (char)('0' + size % 10);
    while ((size /= 10) > 0);
    weir_siphash_add(state, at, (size_t)(digits + sizeof(digits) - at));
    if (part.size > 0)
        weir_siphash_add(state, part.data, part.size);
    weir_siphash_add(state, ",", 1);
}

uint64_t weir_excepted_keys_hash_end(struct weir_siphash_state *state)
{
    return weir_siphash_end(state);
}

uint64_t weir_excepted_keys_hash(const struct weir_excepted_keys *keys, const char *limit, struct weir_slice key)
{
    struct weir_siphash_state state;
    weir_excepted_keys_hash_start(keys, limit, &state);
    if (key.size > 0)
        weir_siphash_add(&state, key.data, key.size);
    return weir_siphash_end(&state);
}

/* ---- asking ---- */

bool weir_excepted_keys_any(const struct weir_excepted_keys *keys)
{
    return weir_key_words_count(&keys->words) > 0 || weir_key_words_count(&keys->resets) > 0;
}

size_t weir_excepted_keys_count(const struct weir_excepted_keys *keys)
{
    return weir_key_words_count(&keys->words);
}

size_t weir_excepted_keys_levels(const struct weir_excepted_keys *keys)
{
    return weir_key_words_low(&keys->words);
}

size_t weir_excepted_keys_resets(const struct weir_excepted_keys *keys)
{
    return weir_key_words_count(&keys->resets);
}

size_t weir_excepted_keys_bytes(const struct weir_excepted_keys *keys)
{
    return weir_key_words_bytes(&keys->words) + weir_key_words_bytes(&keys->resets);
}

bool weir_excepted_keys_find(const struct weir_excepted_keys *keys, uint64_t hash, uint64_t wall_ns,
                             struct weir_excepted *ret_excepted)
{
    const uint64_t word = weir_key_words_find(&keys->words, hash), end_ns = end_of(word);
    const size_t level = level_of(word);
    if (!weir_key_word_is_there(word) || end_ns <= wall_ns)
        return false;
    ret_excepted->level = level ? keys->names[level - 1] : NULL;
    ret_excepted->left_ns = end_ns == UINT64_MAX ? WEIR_NEVER : end_ns - wall_ns;
    return true;
}

uint64_t weir_excepted_keys_mark(const struct weir_excepted_keys *keys, uint64_t hash)
{
    const uint64_t mark = weir_key_words_find(&keys->resets, hash);
    return weir_key_word_is_there(mark) ? mark : 0;
}

/* ---- changing ---- */

/* The number of a level's name, which it gets now if it is new. */
static int intern(struct weir_excepted_keys *keys, const char *name, size_t *ret_level)
{
    *ret_level = 0;
    for (size_t i = 0; name && i < keys->names_count && *ret_level == 0; i++)
        if (strcmp(keys->names[i], name) == 0)
            *ret_level = i + 1;
    if (!name || *ret_level > 0)
        return 0;
    weir_assert(strlen(name) <= WEIR_LEVEL_NAME_MAX);
    if (keys->names_count == WEIR_EXCEPTED_KEYS_NAMES_MAX)
        return WEIR_ELIMIT;
    memcpy(keys->names[keys->names_count], name, strlen(name) + 1);
    *ret_level = ++keys->names_count;
    return 0;
}

int weir_excepted_keys_put(struct weir_excepted_keys *keys, uint64_t hash, const char *level, uint64_t until_ns,
                           uint64_t wall_ns)
{
    size_t number = 0;
    int error = intern(keys, level, &number);
    if (error)
        return error;
    return weir_key_words_put(&keys->words, hash, word_of(until_ns, number),
                              keys->max - weir_key_words_changing(&keys->resets), wall_ns);
}

void weir_excepted_keys_remove(struct weir_excepted_keys *keys, uint64_t hash)
{
    weir_key_words_remove(&keys->words, hash);
}

int weir_excepted_keys_reset(struct weir_excepted_keys *keys, uint64_t hash, uint64_t mark, uint64_t wall_ns)
{
    const bool full = weir_key_words_changing(&keys->words) + weir_key_words_changing(&keys->resets) >= keys->max;
    int error = full ? weir_key_words_purge(&keys->words, wall_ns) : 0;
    return error ? error
                 : weir_key_words_put(&keys->resets, hash, mark, keys->max - weir_key_words_changing(&keys->words),
                                      wall_ns);
}

int weir_excepted_keys_reserve(struct weir_excepted_keys *keys, size_t excepted, size_t resets)
{
    int error = weir_key_words_reserve(&keys->words, excepted);
    return error ? error : weir_key_words_reserve(&keys->resets, resets);
}

void weir_excepted_keys_begin(struct weir_excepted_keys *keys)
{
    weir_key_words_begin(&keys->words);
    weir_key_words_begin(&keys->resets);
}

void weir_excepted_keys_commit(struct weir_excepted_keys *keys)
{
    weir_key_words_commit(&keys->words);
    weir_key_words_commit(&keys->resets);
}

void weir_excepted_keys_abandon(struct weir_excepted_keys *keys)
{
    weir_key_words_abandon(&keys->words);
    weir_key_words_abandon(&keys->resets);
}

/* ---- making ---- */

int weir_excepted_keys_create(size_t max, struct weir_excepted_keys **ret_keys)
{
    uint8_t secret[WEIR_EXCEPTED_KEYS_SECRET_SIZE];
    if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
        return WEIR_EIO;
    struct weir_excepted_keys *keys = calloc(1, sizeof(*keys));
    if (!keys)
        return WEIR_ENOMEM;
    keys->max = max;
    keys->words.stays = has_not_ended;
    keys->resets.stays = is_for_good;
    weir_excepted_keys_use_secret(keys, secret);
    *ret_keys = keys;
    return 0;
}

void weir_excepted_keys_destroy(struct weir_excepted_keys *keys)
{
    if (!keys)
        return;
    weir_key_words_deinit(&keys->words);
    weir_key_words_deinit(&keys->resets);
    free(keys);
}

/* ---- for a file ---- */

void weir_excepted_keys_secret(const struct weir_excepted_keys *keys,
                               uint8_t ret_secret[WEIR_EXCEPTED_KEYS_SECRET_SIZE])
{
    for (unsigned i = 0; i < 8; i++) {
        ret_secret[i] = (uint8_t)(keys->key.k0 >> (8 * i));
        ret_secret[8 + i] = (uint8_t)(keys->key.k1 >> (8 * i));
    }
}

void weir_excepted_keys_use_secret(struct weir_excepted_keys *keys,
                                   const uint8_t secret[WEIR_EXCEPTED_KEYS_SECRET_SIZE])
{
    weir_assert(!weir_excepted_keys_any(keys));
    keys->key = weir_sip_key_load(secret);
}

size_t weir_excepted_keys_list(const struct weir_excepted_keys *keys, size_t *at, struct weir_excepted_key *ret_list,
                               size_t room)
{
    size_t count = 0;
    uint64_t hash = 0, word = 0;
    while (count < room && weir_key_words_next(&keys->words, at, &hash, &word)) {
        const uint64_t end_ns = end_of(word);
        ret_list[count++] = (struct weir_excepted_key){ .hash = hash,
                                                        .until_ns = end_ns == UINT64_MAX ? 0 : end_ns,
                                                        .level = level_of(word) };
    }
    return count;
}

bool weir_excepted_keys_list_reset(const struct weir_excepted_keys *keys, size_t *at, uint64_t *ret_hash,
                                   uint64_t *ret_mark)
{
    return weir_key_words_next(&keys->resets, at, ret_hash, ret_mark);
}

size_t weir_excepted_keys_names(const struct weir_excepted_keys *keys)
{
    return keys->names_count;
}

const char *weir_excepted_keys_name(const struct weir_excepted_keys *keys, size_t level)
{
    weir_assert(level >= 1 && level <= keys->names_count);
    return keys->names[level - 1];
}
