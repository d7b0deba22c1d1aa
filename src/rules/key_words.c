/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probing. A slot that was given a hash keeps it as long as its table is in use, so a
 * reader who finds the hash may believe what stands beside it, which is one word. An insert writes the hash, then the
 * word; an update and a removal write the word alone. A table that is replaced goes to the shelf, its pages given back
 * to the system, and is used again for the next one of its size: a reader who is still in it reads zeros or another
 * table's slots, sees afterwards that tables were exchanged, and asks again. So no memory is ever freed under a reader,
 * and there are at most three tables of each size. Called by excepted_keys.c. */
#include "rules/key_words.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/checked.h"

#define SLOTS_MIN 1024
#define CLASSES WEIR_KEY_WORDS_CLASSES
#define KEEP_NS (UINT64_C(3600) * WEIR_NS_PER_SECOND) /* what has ended */

#define FREE WEIR_KEY_WORD_FREE
#define REMOVED WEIR_KEY_WORD_REMOVED

struct slot {
    _Atomic uint64_t hash;
    _Atomic uint64_t word;
};
_Static_assert(sizeof(struct slot) == 16, "four in a line of the cache");

struct weir_key_words_table {
    size_t slots;
    unsigned size_class;
    struct slot *slot;
    struct weir_key_words_table *shelved; /* the next one of its size */
};

static bool is_there(uint64_t word)
{
    return weir_key_word_is_there(word);
}

static bool is_low(uint64_t word)
{
    return is_there(word) && (word & 0xff) > 0;
}

/* ---- tables ---- */

static size_t slots_of(unsigned size_class)
{
    size_t slots = SLOTS_MIN;
    for (unsigned i = 0; i < size_class; i++)
        slots += slots / 2;
    return slots;
}

/* Of a table that `count` keys leave half empty: one that grew is in the next class. */
static unsigned class_for(size_t count)
{
    unsigned size_class = 0;
    while (10 * slots_of(size_class) < 19 * count)
        size_class++;
    weir_assert(size_class < CLASSES);
    return size_class;
}

/* Of zeros. NULL: no memory. */
static struct weir_key_words_table *table_take(struct weir_key_words *words, unsigned size_class)
{
    struct weir_key_words_table *table = words->shelf[size_class];
    if (table) {
        words->shelf[size_class] = table->shelved;
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
    *table = (struct weir_key_words_table){ .slots = slots, .size_class = size_class, .slot = memory };
    return table;
}

static void table_shelve(struct weir_key_words *words, struct weir_key_words_table *table)
{
    if (!table)
        return;
    /* Private pages of our own: the system takes them, and gives zeros. */
    weir_assert(madvise(table->slot, table->slots * sizeof(struct slot), MADV_DONTNEED) == 0);
    table->shelved = words->shelf[table->size_class];
    words->shelf[table->size_class] = table;
}

static void table_free(struct weir_key_words_table *table)
{
    if (!table)
        return;
    (void)munmap(table->slot, table->slots * sizeof(struct slot));
    free(table);
}

/* The slot with this hash, or the free one where it would be. */
static struct slot *table_slot(const struct weir_key_words_table *table, uint64_t hash, uint64_t *ret_word)
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

static void table_add(struct weir_key_words_table *table, uint64_t hash, uint64_t word)
{
    uint64_t before = FREE;
    struct slot *slot = table_slot(table, hash, &before);
    weir_assert(slot && before == FREE);
    atomic_store_explicit(&slot->hash, hash, memory_order_release); /* of a table used again: see `exchange` */
    atomic_store_explicit(&slot->word, word, memory_order_release);
}

/* ---- asking ---- */

size_t weir_key_words_low(const struct weir_key_words *words)
{
    return atomic_load_explicit(&words->low, memory_order_relaxed);
}

size_t weir_key_words_bytes(const struct weir_key_words *words)
{
    const struct weir_key_words_table *table = atomic_load_explicit(&words->table, memory_order_acquire);
    return table ? table->slots * sizeof(struct slot) : 0;
}

uint64_t weir_key_words_find(const struct weir_key_words *words, uint64_t hash)
{
    uint64_t word = FREE, exchanges = atomic_load_explicit(&words->exchanges, memory_order_acquire), before;
    do {
        before = exchanges;
        const struct weir_key_words_table *table = atomic_load_explicit(&words->table, memory_order_acquire);
        if (!table)
            return FREE;
        (void)table_slot(table, hash, &word);
        exchanges = atomic_load_explicit(&words->exchanges, memory_order_acquire);
    } while (exchanges != before);
    return word;
}

/* ---- changing ---- */

static void publish(struct weir_key_words *words)
{
    atomic_store_explicit(&words->table, words->now.table, memory_order_release);
    atomic_store_explicit(&words->low, words->now.low, memory_order_relaxed);
    atomic_store_explicit(&words->count, words->now.count, memory_order_relaxed);
}

/* Before the former table is shelved: who sees anything of what becomes of it sees this, too. */
static void exchange(struct weir_key_words *words, const struct weir_key_words_content *content)
{
    struct weir_key_words_table *former = words->now.table;
    words->now = *content;
    publish(words);
    atomic_fetch_add_explicit(&words->exchanges, 1, memory_order_seq_cst);
    table_shelve(words, former);
}

static bool stays(const struct weir_key_words *words, uint64_t word, uint64_t wall_ns, uint64_t keep_ns)
{
    return is_there(word) && words->stays(word, wall_ns, keep_ns);
}

static size_t count_staying(const struct weir_key_words *words, const struct weir_key_words_content *content,
                            uint64_t wall_ns, uint64_t keep_ns)
{
    size_t count = 0;
    for (size_t i = 0; content->table && i < content->table->slots; i++)
        count += stays(words, atomic_load_explicit(&content->table->slot[i].word, memory_order_relaxed), wall_ns,
                       keep_ns);
    return count;
}

/* A table for one more, without what has ended `keep_ns` ago. */
static int rebuild(struct weir_key_words *words, struct weir_key_words_content *content, uint64_t wall_ns,
                   uint64_t keep_ns)
{
    const struct weir_key_words_table *former = content->table;
    struct weir_key_words_content rebuilt = { .count = count_staying(words, content, wall_ns, keep_ns) };
    rebuilt.table = table_take(words, class_for(rebuilt.count + 1));
    if (!rebuilt.table)
        return WEIR_ENOMEM;
    rebuilt.used = rebuilt.count;
    for (size_t i = 0; former && i < former->slots; i++) {
        uint64_t word = atomic_load_explicit(&former->slot[i].word, memory_order_relaxed);
        if (!stays(words, word, wall_ns, keep_ns))
            continue;
        table_add(rebuilt.table, atomic_load_explicit(&former->slot[i].hash, memory_order_relaxed), word);
        rebuilt.low += is_low(word);
    }
    if (content == &words->now) {
        exchange(words, &rebuilt);
    } else {
        table_shelve(words, content->table);
        *content = rebuilt;
    }
    return 0;
}

static struct weir_key_words_content *content_of(struct weir_key_words *words)
{
    return words->renewing ? &words->next : &words->now;
}

/* Room for one more key. */
static int make_room(struct weir_key_words *words, struct weir_key_words_content *content, size_t max, uint64_t wall_ns)
{
    if (content->count >= max)
        return count_staying(words, content, wall_ns, 0) < max ? rebuild(words, content, wall_ns, 0) : WEIR_ELIMIT;
    bool roomy = content->table && 4 * (content->used + 1) <= 3 * content->table->slots;
    return roomy ? 0 : rebuild(words, content, wall_ns, KEEP_NS);
}

static void count_changed(struct weir_key_words_content *content, uint64_t before, uint64_t word)
{
    content->count += is_there(word);
    content->count -= is_there(before);
    content->low += is_low(word);
    content->low -= is_low(before);
}

size_t weir_key_words_changing(const struct weir_key_words *words)
{
    return words->renewing ? words->next.count : words->now.count;
}

int weir_key_words_put(struct weir_key_words *words, uint64_t hash, uint64_t word, size_t max, uint64_t wall_ns)
{
    struct weir_key_words_content *content = content_of(words);
    uint64_t before = FREE;
    weir_assert(is_there(word));
    struct slot *slot = content->table ? table_slot(content->table, hash, &before) : NULL;
    if (!is_there(before) && (before == FREE || content->count >= max)) {
        int error = make_room(words, content, max, wall_ns);
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
    if (!words->renewing)
        publish(words);
    return 0;
}

int weir_key_words_reserve(struct weir_key_words *words, size_t count)
{
    weir_assert(!words->renewing && words->now.count == 0);
    if (count == 0)
        return 0;
    const struct weir_key_words_content reserved = { .table = table_take(words, class_for(count)) };
    if (!reserved.table)
        return WEIR_ENOMEM;
    exchange(words, &reserved);
    return 0;
}

int weir_key_words_purge(struct weir_key_words *words, uint64_t wall_ns)
{
    struct weir_key_words_content *content = content_of(words);
    return count_staying(words, content, wall_ns, 0) < content->count ? rebuild(words, content, wall_ns, 0) : 0;
}

void weir_key_words_remove(struct weir_key_words *words, uint64_t hash)
{
    struct weir_key_words_content *content = content_of(words);
    uint64_t before = FREE;
    struct slot *slot = content->table ? table_slot(content->table, hash, &before) : NULL;
    if (!is_there(before))
        return;
    atomic_store_explicit(&slot->word, REMOVED, memory_order_release);
    count_changed(content, before, REMOVED);
    if (!words->renewing)
        publish(words);
}

void weir_key_words_begin(struct weir_key_words *words)
{
    weir_assert(!words->renewing);
    words->next = (struct weir_key_words_content){ 0 };
    words->renewing = true;
}

void weir_key_words_commit(struct weir_key_words *words)
{
    weir_assert(words->renewing);
    words->renewing = false;
    exchange(words, &words->next);
}

void weir_key_words_abandon(struct weir_key_words *words)
{
    weir_assert(words->renewing);
    words->renewing = false;
    table_shelve(words, words->next.table);
}

void weir_key_words_deinit(struct weir_key_words *words)
{
    weir_assert(!words->renewing);
    table_free(words->now.table);
    for (unsigned i = 0; i < CLASSES; i++)
        while (words->shelf[i]) {
            struct weir_key_words_table *table = words->shelf[i];
            words->shelf[i] = table->shelved;
            table_free(table);
        }
}

bool weir_key_words_next(const struct weir_key_words *words, size_t *at, uint64_t *ret_hash, uint64_t *ret_word)
{
    const struct weir_key_words_table *table = words->now.table;
    for (; table && *at < table->slots; (*at)++) {
        const struct slot *slot = &table->slot[*at];
        *ret_word = atomic_load_explicit(&slot->word, memory_order_relaxed);
        if (!is_there(*ret_word))
            continue;
        *ret_hash = atomic_load_explicit(&slot->hash, memory_order_relaxed);
        (*at)++;
        return true;
    }
    return false;
}
