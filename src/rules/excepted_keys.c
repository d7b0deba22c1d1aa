/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probing. A slot that was given a hash keeps it as long as its table is in use, so a
 * reader who finds the hash may believe what stands beside it, which is one word: the number of the level, 0 for a ban,
 * and the end. An insert writes the hash, then the word; an update and a removal write the word alone. Names of levels
 * get numbers once, which stay theirs, and are there before any slot has them. A table that is replaced goes to the
 * shelf, its pages given back to the system, and is used again for the next one of its size: a reader who is still in
 * it reads zeros or another table's slots, sees afterwards that tables were exchanged, and asks again. So no memory is
 * ever freed under a reader, and there are at most three tables of each size. Called by serve/exception_follower.c, and
 * by serve/excepted.c for each request. */
#include "rules/excepted_keys.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/checked.h"

#define SLOTS_MIN 1024
#define CLASSES 40                                    /* each has half as many slots more than the one before */
#define KEEP_NS (UINT64_C(3600) * WEIR_NS_PER_SECOND) /* an exception that has ended */

/* What a slot says of its key: the end in ticks, and the level in the lowest byte. */
#define FREE UINT64_C(0)
#define REMOVED UINT64_C(1)
#define TICK_NS WEIR_EXCEPTED_KEYS_TICK_NS
#define TICKS_FOR_GOOD ((UINT64_C(1) << 56) - 1)

struct slot {
    _Atomic uint64_t hash;
    _Atomic uint64_t word;
};
_Static_assert(sizeof(struct slot) == 16, "four in a line of the cache");

struct table {
    size_t slots;
    unsigned size_class;
    struct slot *slot;
    struct table *shelved; /* the next one of its size */
};

/* A table and what the thread that changes it knows of it. */
struct content {
    struct table *table; /* NULL: none were put yet */
    size_t used;         /* slots that are not FREE */
    size_t count;        /* of them not REMOVED */
    size_t levels;       /* of these with a level */
};

struct weir_excepted_keys {
    _Atomic(struct table *) table; /* that readers ask; NULL: it is empty */
    _Atomic uint64_t exchanges;    /* of tables */
    _Atomic size_t count, levels;
    struct weir_sip_key key;
    size_t max;
    struct content now, next;
    bool renewing; /* put and remove are for `next` */
    struct table *shelf[CLASSES];
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

static bool is_there(uint64_t word)
{
    return word > REMOVED;
}

/* UINT64_MAX: it is for good. */
static uint64_t end_of(uint64_t word)
{
    return word >> 8 == TICKS_FOR_GOOD ? UINT64_MAX : weir_mul_sat(word >> 8, TICK_NS);
}

static size_t level_of(uint64_t word)
{
    return is_there(word) ? word & 0xff : 0;
}

/* ---- tables ---- */

static size_t slots_of(unsigned size_class)
{
    size_t slots = SLOTS_MIN;
    for (unsigned i = 0; i < size_class; i++)
        slots += slots / 2;
    return slots;
}

/* Of zeros. NULL: no memory. */
static struct table *table_take(struct weir_excepted_keys *keys, unsigned size_class)
{
    struct table *table = keys->shelf[size_class];
    if (table) {
        keys->shelf[size_class] = table->shelved;
        return table;
    }
    size_t slots = slots_of(size_class);
    table = calloc(1, sizeof(*table));
    void *memory = table ? mmap(NULL, slots * sizeof(struct slot), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                -1, 0)
                         : MAP_FAILED;
    if (memory == MAP_FAILED) {
        free(table);
        return NULL;
    }
    (void)madvise(memory, slots * sizeof(struct slot), MADV_HUGEPAGE); /* as table/table.c; works without, too */
    *table = (struct table){ .slots = slots, .size_class = size_class, .slot = memory };
    return table;
}

static void table_shelve(struct weir_excepted_keys *keys, struct table *table)
{
    if (!table)
        return;
    /* Private pages of our own: the system takes them, and gives zeros. */
    weir_assert(madvise(table->slot, table->slots * sizeof(struct slot), MADV_DONTNEED) == 0);
    table->shelved = keys->shelf[table->size_class];
    keys->shelf[table->size_class] = table;
}

static void table_free(struct table *table)
{
    if (!table)
        return;
    (void)munmap(table->slot, table->slots * sizeof(struct slot));
    free(table);
}

/* The slot with this hash, or the free one where it would be. */
static struct slot *table_slot(const struct table *table, uint64_t hash, uint64_t *ret_word)
{
    size_t at = (size_t)((weir_u128)hash * table->slots >> 64);
    for (size_t looked = 0; looked < table->slots; looked++) {
        struct slot *slot = &table->slot[at];
        uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
        if (word == FREE || atomic_load_explicit(&slot->hash, memory_order_acquire) == hash) {
            *ret_word = word;
            return slot;
        }
        at = at + 1 == table->slots ? 0 : at + 1;
    }
    *ret_word = FREE; /* of one that was exchanged meanwhile: some slot is free in each that is in use */
    return NULL;
}

static void table_add(struct table *table, uint64_t hash, uint64_t word)
{
    uint64_t before = FREE;
    struct slot *slot = table_slot(table, hash, &before);
    weir_assert(slot && before == FREE);
    atomic_store_explicit(&slot->hash, hash, memory_order_release); /* of a table used again: see `exchange` */
    atomic_store_explicit(&slot->word, word, memory_order_release);
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
    return atomic_load_explicit(&keys->count, memory_order_relaxed) > 0;
}

size_t weir_excepted_keys_count(const struct weir_excepted_keys *keys)
{
    return atomic_load_explicit(&keys->count, memory_order_relaxed);
}

size_t weir_excepted_keys_levels(const struct weir_excepted_keys *keys)
{
    return atomic_load_explicit(&keys->levels, memory_order_relaxed);
}

size_t weir_excepted_keys_bytes(const struct weir_excepted_keys *keys)
{
    const struct table *table = atomic_load_explicit(&keys->table, memory_order_acquire);
    return table ? table->slots * sizeof(struct slot) : 0;
}

bool weir_excepted_keys_find(const struct weir_excepted_keys *keys, uint64_t hash, uint64_t wall_ns,
                             struct weir_excepted *ret_excepted)
{
    uint64_t word = FREE, exchanges = atomic_load_explicit(&keys->exchanges, memory_order_acquire), before;
    do {
        before = exchanges;
        const struct table *table = atomic_load_explicit(&keys->table, memory_order_acquire);
        if (!table)
            return false;
        (void)table_slot(table, hash, &word);
        exchanges = atomic_load_explicit(&keys->exchanges, memory_order_acquire);
    } while (exchanges != before);
    const uint64_t end_ns = end_of(word);
    const size_t level = level_of(word);
    if (!is_there(word) || end_ns <= wall_ns)
        return false;
    ret_excepted->level = level ? keys->names[level - 1] : NULL;
    ret_excepted->left_ns = end_ns == UINT64_MAX ? WEIR_NEVER : end_ns - wall_ns;
    return true;
}

/* ---- changing ---- */

static void publish(struct weir_excepted_keys *keys)
{
    atomic_store_explicit(&keys->table, keys->now.table, memory_order_release);
    atomic_store_explicit(&keys->levels, keys->now.levels, memory_order_relaxed);
    atomic_store_explicit(&keys->count, keys->now.count, memory_order_relaxed);
}

/* Before the former table is shelved: who sees anything of what becomes of it sees this, too. */
static void exchange(struct weir_excepted_keys *keys, const struct content *content)
{
    struct table *former = keys->now.table;
    keys->now = *content;
    publish(keys);
    atomic_fetch_add_explicit(&keys->exchanges, 1, memory_order_seq_cst);
    table_shelve(keys, former);
}

/* Whether it still takes room at that moment. */
static bool stays(uint64_t word, uint64_t wall_ns, uint64_t keep_ns)
{
    return is_there(word) && weir_add_sat(end_of(word), keep_ns) > wall_ns;
}

static size_t count_staying(const struct content *content, uint64_t wall_ns, uint64_t keep_ns)
{
    size_t count = 0;
    for (size_t i = 0; content->table && i < content->table->slots; i++)
        count += stays(atomic_load_explicit(&content->table->slot[i].word, memory_order_relaxed), wall_ns, keep_ns);
    return count;
}

/* A table for one more, without what has ended `keep_ns` ago. */
static int rebuild(struct weir_excepted_keys *keys, struct content *content, uint64_t wall_ns, uint64_t keep_ns)
{
    const struct table *former = content->table;
    struct content rebuilt = { .count = count_staying(content, wall_ns, keep_ns) };
    unsigned size_class = 0;
    while (10 * slots_of(size_class) < 19 * (rebuilt.count + 1)) /* of one that grew it is the next class */
        size_class++;
    weir_assert(size_class < CLASSES);
    rebuilt.table = table_take(keys, size_class);
    if (!rebuilt.table)
        return WEIR_ENOMEM;
    rebuilt.used = rebuilt.count;
    for (size_t i = 0; former && i < former->slots; i++) {
        uint64_t word = atomic_load_explicit(&former->slot[i].word, memory_order_relaxed);
        if (!stays(word, wall_ns, keep_ns))
            continue;
        table_add(rebuilt.table, atomic_load_explicit(&former->slot[i].hash, memory_order_relaxed), word);
        rebuilt.levels += level_of(word) > 0;
    }
    if (content == &keys->now) {
        exchange(keys, &rebuilt);
    } else {
        table_shelve(keys, content->table);
        *content = rebuilt;
    }
    return 0;
}

static struct content *content_of(struct weir_excepted_keys *keys)
{
    return keys->renewing ? &keys->next : &keys->now;
}

/* Room for one more key. */
static int make_room(struct weir_excepted_keys *keys, struct content *content, uint64_t wall_ns)
{
    if (content->count >= keys->max)
        return count_staying(content, wall_ns, 0) < keys->max ? rebuild(keys, content, wall_ns, 0) : WEIR_ELIMIT;
    bool roomy = content->table && 4 * (content->used + 1) <= 3 * content->table->slots;
    return roomy ? 0 : rebuild(keys, content, wall_ns, KEEP_NS);
}

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

static void count_changed(struct content *content, uint64_t before, uint64_t word)
{
    content->count += is_there(word);
    content->count -= is_there(before);
    content->levels += level_of(word) > 0;
    content->levels -= level_of(before) > 0;
}

int weir_excepted_keys_put(struct weir_excepted_keys *keys, uint64_t hash, const char *level, uint64_t until_ns,
                           uint64_t wall_ns)
{
    struct content *content = content_of(keys);
    uint64_t before = FREE;
    size_t number = 0;
    int error = intern(keys, level, &number);
    if (error)
        return error;
    const uint64_t word = word_of(until_ns, number);
    struct slot *slot = content->table ? table_slot(content->table, hash, &before) : NULL;
    if (!is_there(before) && (before == FREE || content->count >= keys->max)) {
        error = make_room(keys, content, wall_ns);
        if (error)
            return error;
        slot = table_slot(content->table, hash, &before);
    }
    if (before == FREE) {
        content->used++;
        table_add(content->table, hash, word);
    } else {
        atomic_store_explicit(&slot->word, word, memory_order_release);
    }
    count_changed(content, before, word);
    if (!keys->renewing)
        publish(keys);
    return 0;
}

void weir_excepted_keys_remove(struct weir_excepted_keys *keys, uint64_t hash)
{
    struct content *content = content_of(keys);
    uint64_t before = FREE;
    struct slot *slot = content->table ? table_slot(content->table, hash, &before) : NULL;
    if (!is_there(before))
        return;
    atomic_store_explicit(&slot->word, REMOVED, memory_order_release);
    count_changed(content, before, REMOVED);
    if (!keys->renewing)
        publish(keys);
}

void weir_excepted_keys_begin(struct weir_excepted_keys *keys)
{
    weir_assert(!keys->renewing);
    keys->next = (struct content){ 0 };
    keys->renewing = true;
}

void weir_excepted_keys_commit(struct weir_excepted_keys *keys)
{
    weir_assert(keys->renewing);
    keys->renewing = false;
    exchange(keys, &keys->next);
}

void weir_excepted_keys_abandon(struct weir_excepted_keys *keys)
{
    weir_assert(keys->renewing);
    keys->renewing = false;
    table_shelve(keys, keys->next.table);
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
    weir_excepted_keys_use_secret(keys, secret);
    *ret_keys = keys;
    return 0;
}

void weir_excepted_keys_destroy(struct weir_excepted_keys *keys)
{
    if (!keys)
        return;
    weir_assert(!keys->renewing);
    table_free(keys->now.table);
    for (unsigned i = 0; i < CLASSES; i++)
        while (keys->shelf[i]) {
            struct table *table = keys->shelf[i];
            keys->shelf[i] = table->shelved;
            table_free(table);
        }
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
    weir_assert(!keys->now.table && !keys->renewing);
    keys->key = weir_sip_key_load(secret);
}

size_t weir_excepted_keys_list(const struct weir_excepted_keys *keys, size_t *at, struct weir_excepted_key *ret_list,
                               size_t room)
{
    const struct table *table = keys->now.table;
    size_t count = 0;
    for (; table && *at < table->slots && count < room; (*at)++) {
        const uint64_t word = atomic_load_explicit(&table->slot[*at].word, memory_order_relaxed);
        if (!is_there(word))
            continue;
        const uint64_t end_ns = end_of(word);
        ret_list[count++] = (struct weir_excepted_key){
            .hash = atomic_load_explicit(&table->slot[*at].hash, memory_order_relaxed),
            .until_ns = end_ns == UINT64_MAX ? 0 : end_ns,
            .level = level_of(word),
        };
    }
    return count;
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
