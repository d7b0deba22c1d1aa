/* SPDX-License-Identifier: Apache-2.0 */
#include "search.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

/* The start or the end of an operation, in a list by time. Operations that have taken effect are taken out. */
struct mark {
    uint64_t at_ns;
    size_t op; /* in search.ops */
    bool is_end;
    size_t previous, next; /* in search.marks; 0 is the head, and the end of the list */
};

struct step {
    size_t op;
    unsigned variant;
    struct model_state before;
};

/* Each is a key: the bits of what is done, then the state. */
struct memory {
    uint64_t *keys;
    uint32_t *table; /* the number of a key, from 1 */
    size_t words;    /* of a key */
    size_t count, room, slots;
    size_t bytes_max;
};

struct search {
    const struct model *model;
    const struct history_op **ops;
    struct mark *marks;
    size_t *start_of, *end_of; /* the marks of an operation; 0: it has no end */
    struct step *steps;
    uint64_t *key; /* the bits of what is done, and room for the state */
    size_t count, known, done, known_done, words;
    struct model_state state;
    struct memory memory;
};

#define STATE_WORDS (sizeof(struct model_state) / sizeof(uint64_t))

/* ---- what was tried ---- */

static uint64_t key_hash(const uint64_t *key, size_t words)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < words; i++) {
        hash = (hash ^ key[i]) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    return hash;
}

static void memory_place(struct memory *memory, uint32_t number)
{
    const uint64_t *key = &memory->keys[(number - 1) * memory->words];
    size_t slot = key_hash(key, memory->words) & (memory->slots - 1);
    while (memory->table[slot] != 0)
        slot = (slot + 1) & (memory->slots - 1);
    memory->table[slot] = number;
}

/* Twice the room, if the bound allows. */
static bool memory_grow(struct memory *memory)
{
    size_t room = memory->room == 0 ? 1024 : memory->room * 2;
    size_t bytes = room * memory->words * sizeof(uint64_t) + 2 * room * sizeof(uint32_t);
    if (bytes > memory->bytes_max || room > UINT32_MAX / 4)
        return false;
    uint64_t *keys = realloc(memory->keys, room * memory->words * sizeof(*keys));
    if (keys)
        memory->keys = keys;
    uint32_t *table = calloc(2 * room, sizeof(*table));
    if (!keys || !table) {
        free(table);
        return false;
    }
    free(memory->table);
    memory->table = table;
    memory->room = room;
    memory->slots = 2 * room;
    for (uint32_t number = 1; number <= memory->count; number++)
        memory_place(memory, number);
    return true;
}

enum remembered { NEW, KNOWN, FULL };

static enum remembered memory_add(struct memory *memory, const uint64_t *key)
{
    if (memory->count == memory->room && !memory_grow(memory))
        return FULL;
    size_t slot = key_hash(key, memory->words) & (memory->slots - 1);
    for (; memory->table[slot] != 0; slot = (slot + 1) & (memory->slots - 1)) {
        const uint64_t *there = &memory->keys[(memory->table[slot] - 1) * memory->words];
        if (memcmp(there, key, memory->words * sizeof(*key)) == 0)
            return KNOWN;
    }
    memcpy(&memory->keys[memory->count * memory->words], key, memory->words * sizeof(*key));
    memory->table[slot] = (uint32_t)++memory->count;
    return NEW;
}

/* ---- the list ---- */

static int mark_compare(const void *left, const void *right)
{
    const struct mark *a = left, *b = right;
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns ? -1 : 1;
    if (a->is_end != b->is_end) /* what touches at one instant may have been in either order */
        return a->is_end ? 1 : -1;
    return (a->op > b->op) - (a->op < b->op);
}

static void mark_remove(struct search *search, size_t mark)
{
    const struct mark *at = &search->marks[mark];
    search->marks[at->previous].next = at->next;
    search->marks[at->next].previous = at->previous;
}

static void mark_restore(struct search *search, size_t mark)
{
    const struct mark *at = &search->marks[mark];
    search->marks[at->previous].next = mark;
    search->marks[at->next].previous = mark;
}

static void lift(struct search *search, size_t op)
{
    mark_remove(search, search->start_of[op]);
    if (search->end_of[op] != 0)
        mark_remove(search, search->end_of[op]);
    search->known_done += search->end_of[op] != 0;
    search->key[op / 64] |= UINT64_C(1) << op % 64;
}

static void unlift(struct search *search, size_t op)
{
    if (search->end_of[op] != 0)
        mark_restore(search, search->end_of[op]);
    mark_restore(search, search->start_of[op]);
    search->known_done -= search->end_of[op] != 0;
    search->key[op / 64] &= ~(UINT64_C(1) << op % 64);
}

static void marks_fill(struct search *search)
{
    size_t count = 1;
    for (size_t op = 0; op < search->count; op++) {
        search->marks[count++] = (struct mark){ .at_ns = search->ops[op]->start_ns, .op = op };
        if (search->ops[op]->end_ns != HISTORY_NEVER)
            search->marks[count++] = (struct mark){ .at_ns = search->ops[op]->end_ns, .op = op, .is_end = true };
    }
    qsort(&search->marks[1], count - 1, sizeof(search->marks[0]), mark_compare);
    for (size_t i = 0; i < count; i++) {
        search->marks[i].previous = i == 0 ? count - 1 : i - 1;
        search->marks[i].next = i == count - 1 ? 0 : i + 1;
        if (i > 0 && search->marks[i].is_end)
            search->end_of[search->marks[i].op] = i;
        else if (i > 0)
            search->start_of[search->marks[i].op] = i;
    }
}

/* ---- the search ---- */

/* Lets `op` take effect now, in the first way from `variant` on that the model allows and that was not tried. */
static enum remembered advance(struct search *search, size_t op, unsigned variant)
{
    for (; variant < MODEL_VARIANTS; variant++) {
        struct model_state next;
        if (!search->model->step(search->model, &search->state, search->ops[op], variant, &next))
            continue;
        lift(search, op);
        memcpy(&search->key[search->words], &next, sizeof(next));
        enum remembered said = memory_add(&search->memory, search->key);
        if (said == NEW) {
            search->steps[search->done++] = (struct step){ op, variant, search->state };
            search->state = next;
            return NEW;
        }
        unlift(search, op);
        if (said == FULL)
            return FULL;
    }
    return KNOWN;
}

/* Those with an answer are tried before those without: most of what is unknown explains nothing, and each of them that
 * is tried doubles what there is to try. */
static enum search_verdict search_run(struct search *search, struct search_result *result)
{
    size_t furthest = 0, mark = search->marks[0].next;
    unsigned variant = 0;
    bool unknown = false;
    while (search->known_done < search->known) {
        if (!search->marks[mark].is_end && mark != 0) {
            size_t op = search->marks[mark].op;
            bool turn = unknown == (search->end_of[op] == 0);
            enum remembered said = turn ? advance(search, op, variant) : KNOWN;
            if (said == FULL)
                return SEARCH_GAVE_UP;
            mark = said == NEW ? search->marks[0].next : search->marks[mark].next;
            unknown = unknown && said != NEW;
            variant = 0;
            continue;
        }
        if (!unknown) {
            unknown = true;
            mark = search->marks[0].next;
            continue;
        }
        /* This one must have taken effect by now, and could not: an earlier choice was wrong. */
        if (mark != 0 && (result->stuck == 0 || search->known_done > furthest)) {
            furthest = search->known_done;
            result->stuck = search->ops[search->marks[mark].op]->line;
        }
        if (search->done == 0)
            return SEARCH_REFUSED;
        const struct step *step = &search->steps[--search->done];
        unlift(search, step->op);
        search->state = step->before;
        mark = search->start_of[step->op];
        unknown = search->end_of[step->op] == 0;
        variant = step->variant + 1;
    }
    return SEARCH_ACCEPTED;
}

static bool is_about(const struct history_op *op, size_t lock, const struct model *model)
{
    if (op->result == HISTORY_UNKNOWN && op->verb == HISTORY_READ)
        return false; /* changed nothing, showed nothing */
    return (op->lock == lock || op->lock == 0) && (model->verbs >> op->verb & 1);
}

/* All the memory whose size follows from the count. */
static bool search_init(struct search *search, const struct history *history, size_t lock)
{
    size_t room = history->count + 1;
    search->ops = calloc(room, sizeof(search->ops[0]));
    search->marks = calloc(2 * room, sizeof(search->marks[0]));
    search->start_of = calloc(room, sizeof(search->start_of[0]));
    search->end_of = calloc(room, sizeof(search->end_of[0]));
    search->steps = calloc(room, sizeof(search->steps[0]));
    search->key = calloc(room / 64 + 1 + STATE_WORDS, sizeof(search->key[0]));
    if (!search->ops || !search->marks || !search->start_of || !search->end_of || !search->steps || !search->key)
        return false;
    for (size_t i = 0; i < history->count; i++) {
        if (!is_about(&history->ops[i], lock, search->model))
            continue;
        search->known += history->ops[i].end_ns != HISTORY_NEVER;
        search->ops[search->count++] = &history->ops[i];
    }
    search->words = search->count / 64 + 1;
    search->memory.words = search->words + STATE_WORDS;
    marks_fill(search);
    return true;
}

static void search_deinit(struct search *search)
{
    free(search->ops);
    free(search->marks);
    free(search->start_of);
    free(search->end_of);
    free(search->steps);
    free(search->key);
    free(search->memory.keys);
    free(search->memory.table);
}

enum search_verdict search_lock(const struct history *history, size_t lock, const struct model *model,
                                size_t memory_max, struct search_result *ret_result)
{
    struct search search = { .model = model, .memory = { .bytes_max = memory_max } };
    *ret_result = (struct search_result){ .stuck = 0 };
    enum search_verdict verdict = SEARCH_GAVE_UP;
    if (search_init(&search, history, lock))
        verdict = search_run(&search, ret_result);
    ret_result->operations = search.count;
    ret_result->tried = search.memory.count;
    search_deinit(&search);
    return verdict;
}

enum search_verdict search_all(const struct history *history, const struct model *model, size_t memory_max,
                               size_t *ret_lock, struct search_result *ret_result)
{
    enum search_verdict worst = SEARCH_ACCEPTED;
    *ret_lock = 0;
    *ret_result = (struct search_result){ .stuck = 0 };
    for (size_t lock = 1; lock <= history->locks.count && worst != SEARCH_REFUSED; lock++) {
        struct search_result result;
        enum search_verdict verdict = search_lock(history, lock, model, memory_max, &result);
        if (verdict == SEARCH_ACCEPTED || (verdict == SEARCH_GAVE_UP && worst != SEARCH_ACCEPTED))
            continue;
        worst = verdict;
        *ret_lock = lock;
        *ret_result = result;
    }
    return worst;
}
