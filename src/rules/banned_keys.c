/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probing. A slot that was given a hash keeps it as long as its table is in use, so a
 * reader who finds the hash may believe the end that stands beside it: an insert writes the hash, then the end; an
 * update and a removal write the end alone. A table that is replaced goes to the shelf, its pages given back to the
 * system, and is used again for the next one of its size: a reader who is still in it reads zeros or another table's
 * slots, sees afterwards that tables were exchanged, and asks again. So no memory is ever freed under a reader, and
 * there are at most three tables of each size. Called by serve/exception_follower.c, and by serve/banned.c for each
 * request. */
#include "rules/banned_keys.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/checked.h"

#define SLOTS_MIN 1024
#define CLASSES 40 /* each has half as many slots more than the one before */
#define FREE 0     /* as an end */
#define REMOVED 1
#define KEEP_NS (UINT64_C(3600) * WEIR_NS_PER_SECOND) /* a ban that has ended */

struct slot {
    _Atomic uint64_t hash;
    _Atomic uint64_t until_ns; /* UINT64_MAX: for good */
};
_Static_assert(sizeof(struct slot) == 16, "four in a line of the cache");

struct table {
    size_t slots;
    unsigned size_class;
    struct slot *slot;
    struct table *shelved; /* the next one of its size */
};

/* A table and what the thread that changes it knows of it. */
struct bans {
    struct table *table; /* NULL: none were put yet */
    size_t used;         /* slots that are not FREE */
    size_t count;        /* of them not REMOVED */
};

struct weir_banned_keys {
    _Atomic(struct table *) table; /* that readers ask; NULL: nothing is banned */
    _Atomic uint64_t exchanges;    /* of tables */
    _Atomic size_t count;
    struct weir_sip_key key;
    size_t max;
    struct bans now, next;
    bool renewing; /* put and remove are for `next` */
    struct table *shelf[CLASSES];
};

/* ---- tables ---- */

static size_t slots_of(unsigned size_class)
{
    size_t slots = SLOTS_MIN;
    for (unsigned i = 0; i < size_class; i++)
        slots += slots / 2;
    return slots;
}

/* Of zeros. NULL: no memory. */
static struct table *table_take(struct weir_banned_keys *keys, unsigned size_class)
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

static void table_shelve(struct weir_banned_keys *keys, struct table *table)
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
static struct slot *table_slot(const struct table *table, uint64_t hash, uint64_t *ret_until_ns)
{
    size_t at = (size_t)((weir_u128)hash * table->slots >> 64);
    for (size_t looked = 0; looked < table->slots; looked++) {
        struct slot *slot = &table->slot[at];
        uint64_t until_ns = atomic_load_explicit(&slot->until_ns, memory_order_acquire);
        if (until_ns == FREE || atomic_load_explicit(&slot->hash, memory_order_acquire) == hash) {
            *ret_until_ns = until_ns;
            return slot;
        }
        at = at + 1 == table->slots ? 0 : at + 1;
    }
    *ret_until_ns = FREE; /* of one that was exchanged meanwhile: some slot is free in each that is in use */
    return NULL;
}

static void table_add(struct table *table, uint64_t hash, uint64_t until_ns)
{
    uint64_t before = FREE;
    struct slot *slot = table_slot(table, hash, &before);
    weir_assert(slot && before == FREE);
    atomic_store_explicit(&slot->hash, hash, memory_order_release); /* of a table used again: see `exchange` */
    atomic_store_explicit(&slot->until_ns, until_ns, memory_order_release);
}

/* ---- a key's hash ---- */

void weir_banned_keys_hash_start(const struct weir_banned_keys *keys, const char *limit,
                                 struct weir_siphash_state *ret_state)
{
    weir_siphash_start(ret_state, &keys->key);
    weir_siphash_add(ret_state, limit, strlen(limit) + 1); /* its NUL ends it */
}

void weir_banned_keys_hash_add(struct weir_siphash_state *state, struct weir_slice part)
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

uint64_t weir_banned_keys_hash_end(struct weir_siphash_state *state)
{
    return weir_siphash_end(state);
}

uint64_t weir_banned_keys_hash(const struct weir_banned_keys *keys, const char *limit, struct weir_slice key)
{
    struct weir_siphash_state state;
    weir_banned_keys_hash_start(keys, limit, &state);
    if (key.size > 0)
        weir_siphash_add(&state, key.data, key.size);
    return weir_siphash_end(&state);
}

/* ---- asking ---- */

bool weir_banned_keys_any(const struct weir_banned_keys *keys)
{
    return atomic_load_explicit(&keys->count, memory_order_relaxed) > 0;
}

size_t weir_banned_keys_count(const struct weir_banned_keys *keys)
{
    return atomic_load_explicit(&keys->count, memory_order_relaxed);
}

size_t weir_banned_keys_bytes(const struct weir_banned_keys *keys)
{
    const struct table *table = atomic_load_explicit(&keys->table, memory_order_acquire);
    return table ? table->slots * sizeof(struct slot) : 0;
}

bool weir_banned_keys_find(const struct weir_banned_keys *keys, uint64_t hash, uint64_t wall_ns, uint64_t *ret_left_ns)
{
    uint64_t until_ns = FREE, exchanges = atomic_load_explicit(&keys->exchanges, memory_order_acquire), before;
    do {
        before = exchanges;
        const struct table *table = atomic_load_explicit(&keys->table, memory_order_acquire);
        if (!table)
            return false;
        (void)table_slot(table, hash, &until_ns);
        exchanges = atomic_load_explicit(&keys->exchanges, memory_order_acquire);
    } while (exchanges != before);
    if (until_ns <= wall_ns || until_ns <= REMOVED)
        return false;
    *ret_left_ns = until_ns == UINT64_MAX ? WEIR_NEVER : until_ns - wall_ns;
    return true;
}

/* ---- changing ---- */

static void publish(struct weir_banned_keys *keys)
{
    atomic_store_explicit(&keys->table, keys->now.table, memory_order_release);
    atomic_store_explicit(&keys->count, keys->now.count, memory_order_relaxed);
}

/* Before the former table is shelved: who sees anything of what becomes of it sees this, too. */
static void exchange(struct weir_banned_keys *keys, const struct bans *bans)
{
    struct table *former = keys->now.table;
    keys->now = *bans;
    publish(keys);
    atomic_fetch_add_explicit(&keys->exchanges, 1, memory_order_seq_cst);
    table_shelve(keys, former);
}

/* Whether it still takes room at that moment. */
static bool stays(uint64_t until_ns, uint64_t wall_ns, uint64_t keep_ns)
{
    return until_ns > REMOVED && weir_add_sat(until_ns, keep_ns) > wall_ns;
}

static size_t count_staying(const struct bans *bans, uint64_t wall_ns, uint64_t keep_ns)
{
    size_t count = 0;
    for (size_t i = 0; bans->table && i < bans->table->slots; i++)
        count += stays(atomic_load_explicit(&bans->table->slot[i].until_ns, memory_order_relaxed), wall_ns, keep_ns);
    return count;
}

/* A table for one more, without what has ended `keep_ns` ago. */
static int rebuild(struct weir_banned_keys *keys, struct bans *bans, uint64_t wall_ns, uint64_t keep_ns)
{
    const struct table *former = bans->table;
    struct bans rebuilt = { .count = count_staying(bans, wall_ns, keep_ns) };
    unsigned size_class = 0;
    while (10 * slots_of(size_class) < 19 * (rebuilt.count + 1)) /* of one that grew it is the next class */
        size_class++;
    weir_assert(size_class < CLASSES);
    rebuilt.table = table_take(keys, size_class);
    if (!rebuilt.table)
        return WEIR_ENOMEM;
    rebuilt.used = rebuilt.count;
    for (size_t i = 0; former && i < former->slots; i++) {
        uint64_t until_ns = atomic_load_explicit(&former->slot[i].until_ns, memory_order_relaxed);
        if (stays(until_ns, wall_ns, keep_ns))
            table_add(rebuilt.table, atomic_load_explicit(&former->slot[i].hash, memory_order_relaxed), until_ns);
    }
    if (bans == &keys->now) {
        exchange(keys, &rebuilt);
    } else {
        table_shelve(keys, bans->table);
        *bans = rebuilt;
    }
    return 0;
}

static struct bans *bans_of(struct weir_banned_keys *keys)
{
    return keys->renewing ? &keys->next : &keys->now;
}

/* Room for one more key. */
static int make_room(struct weir_banned_keys *keys, struct bans *bans, uint64_t wall_ns)
{
    if (bans->count >= keys->max)
        return count_staying(bans, wall_ns, 0) < keys->max ? rebuild(keys, bans, wall_ns, 0) : WEIR_ELIMIT;
    bool roomy = bans->table && 4 * (bans->used + 1) <= 3 * bans->table->slots;
    return roomy ? 0 : rebuild(keys, bans, wall_ns, KEEP_NS);
}

int weir_banned_keys_put(struct weir_banned_keys *keys, uint64_t hash, uint64_t until_ns, uint64_t wall_ns)
{
    struct bans *bans = bans_of(keys);
    uint64_t before = FREE, end_ns = until_ns == 0 ? UINT64_MAX : weir_max_u64(until_ns, REMOVED + 1);
    struct slot *slot = bans->table ? table_slot(bans->table, hash, &before) : NULL;
    if (before > REMOVED) {
        atomic_store_explicit(&slot->until_ns, end_ns, memory_order_release);
        return 0;
    }
    if (before == REMOVED && bans->count < keys->max) {
        atomic_store_explicit(&slot->until_ns, end_ns, memory_order_release);
    } else {
        int error = make_room(keys, bans, wall_ns);
        if (error)
            return error;
        (void)table_slot(bans->table, hash, &before);
        bans->used += before == FREE;
        if (before == FREE)
            table_add(bans->table, hash, end_ns);
        weir_assert(before == FREE || bans->count < keys->max);
    }
    bans->count++;
    if (!keys->renewing)
        publish(keys);
    return 0;
}

void weir_banned_keys_remove(struct weir_banned_keys *keys, uint64_t hash)
{
    struct bans *bans = bans_of(keys);
    uint64_t before = FREE;
    struct slot *slot = bans->table ? table_slot(bans->table, hash, &before) : NULL;
    if (before <= REMOVED)
        return;
    atomic_store_explicit(&slot->until_ns, REMOVED, memory_order_release);
    bans->count--;
    if (!keys->renewing)
        publish(keys);
}

void weir_banned_keys_begin(struct weir_banned_keys *keys)
{
    weir_assert(!keys->renewing);
    keys->next = (struct bans){ 0 };
    keys->renewing = true;
}

void weir_banned_keys_commit(struct weir_banned_keys *keys)
{
    weir_assert(keys->renewing);
    keys->renewing = false;
    exchange(keys, &keys->next);
}

void weir_banned_keys_abandon(struct weir_banned_keys *keys)
{
    weir_assert(keys->renewing);
    keys->renewing = false;
    table_shelve(keys, keys->next.table);
}

/* ---- making ---- */

int weir_banned_keys_create(size_t max, struct weir_banned_keys **ret_keys)
{
    uint8_t secret[WEIR_BANNED_KEYS_SECRET_SIZE];
    if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
        return WEIR_EIO;
    struct weir_banned_keys *keys = calloc(1, sizeof(*keys));
    if (!keys)
        return WEIR_ENOMEM;
    keys->max = max;
    weir_banned_keys_use_secret(keys, secret);
    *ret_keys = keys;
    return 0;
}

void weir_banned_keys_destroy(struct weir_banned_keys *keys)
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

void weir_banned_keys_secret(const struct weir_banned_keys *keys, uint8_t ret_secret[WEIR_BANNED_KEYS_SECRET_SIZE])
{
    for (unsigned i = 0; i < 8; i++) {
        ret_secret[i] = (uint8_t)(keys->key.k0 >> (8 * i));
        ret_secret[8 + i] = (uint8_t)(keys->key.k1 >> (8 * i));
    }
}

void weir_banned_keys_use_secret(struct weir_banned_keys *keys, const uint8_t secret[WEIR_BANNED_KEYS_SECRET_SIZE])
{
    weir_assert(!keys->now.table && !keys->renewing);
    keys->key = weir_sip_key_load(secret);
}

size_t weir_banned_keys_list(const struct weir_banned_keys *keys, size_t *at, struct weir_banned_key *ret_list,
                             size_t room)
{
    const struct table *table = keys->now.table;
    size_t count = 0;
    for (; table && *at < table->slots && count < room; (*at)++) {
        const uint64_t until_ns = atomic_load_explicit(&table->slot[*at].until_ns, memory_order_relaxed);
        if (until_ns <= REMOVED)
            continue;
        ret_list[count].hash = atomic_load_explicit(&table->slot[*at].hash, memory_order_relaxed);
        ret_list[count++].until_ns = until_ns == UINT64_MAX ? 0 : until_ns;
    }
    return count;
}
