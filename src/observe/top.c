/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread's two sketches, with a label to each place, and the lists that readers see: one for each ranking and for
 * each of two hours, which take turns. When an hour is over its sketches are copied a last time and begin anew. A
 * reader holds the locks of all threads while it sums up, so that labels need not be copied twice. Called by
 * serve/refused.c, and by serve/http_top.c, which reads. */
#include "observe/top.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/siphash.h"
#include "observe/counter.h"
#include "observe/retries.h"

#define ABSENT 0xFF /* as the length of a value */

/* Which events are looked at: all, or where they are very many, one in `one_in`, which then counts for as many. Gaps
 * are drawn at random, so that no order of events hides a key. */
struct sampler {
    uint32_t left;   /* to pass over */
    uint32_t weight; /* of the one after them */
    uint32_t one_in; /* a power of two */
    uint32_t one_in_max;
    uint64_t random;
    uint64_t looked; /* in this second, since one_in was set */
    uint64_t seen;   /* in this second */
    uint64_t second_end_ns;
};

/* One ranking of one thread. */
struct side {
    struct sampler sampler;
    struct weir_sketch *sketch;
    uint32_t place; /* of the key just counted */
    bool fresh, unshown;
    struct weir_top_label labels[WEIR_TOP_ROOM];
};

/* What readers see of a side in one hour. */
struct list {
    uint64_t window;
    uint64_t floor, total;
    uint32_t count, one_in;
    struct weir_sketch_key keys[WEIR_TOP_ROOM];
    struct weir_top_label labels[WEIR_TOP_ROOM];
};

struct top_loop {
    _Alignas(64) enum weir_top_keys keys;
    uint64_t window, window_end_ns;
    uint64_t begun_ns;
    struct side *sides; /* WEIR_TOP_BYS of them */
    pthread_mutex_t lock;
    uint64_t shown_begun_ns;            /* as all below, under the lock */
    struct list (*lists)[WEIR_TOP_BYS]; /* of even hours, and of odd ones */
};

struct weir_top {
    uint64_t origin_ns;
    struct weir_sip_key mask; /* of the hashes that are told */
    struct weir_retries retries;
    struct top_loop *loops;
    size_t loop_count;
};

const char *weir_top_by_name(enum weir_top_by by)
{
    static const char *const names[] = { WEIR_TOP_BY_LIST(WEIR_LIST_TEXT) };
    return names[by];
}

/* ---- labels ---- */

/* No character of UTF-8 is cut in two, if it was one. */
static size_t cut_size(const uint8_t *bytes, size_t room)
{
    size_t size = room;
    while (size > 0 && room - size < 3 && (bytes[size] & 0xC0) == 0x80)
        size--;
    return (bytes[size] & 0xC0) == 0x80 ? room : size;
}

void weir_top_label_init(struct weir_top_label *label, const struct weir_slice *values, size_t count)
{
    weir_assert(count <= WEIR_KEY_VALUES_MAX);
    label->count = (uint8_t)count;
    label->size = 0;
    label->known = true;
    label->cut = false;
    for (size_t i = 0; i < count; i++) {
        /* What is left is shared by the values that are left: none hides the others. */
        const size_t room = (WEIR_TOP_TEXT_MAX - label->size) / (count - i) - 1;
        size_t size = values[i].size;
        if (size == WEIR_VALUE_ABSENT) {
            label->bytes[label->size++] = ABSENT;
            continue;
        }
        if (size > room) {
            size = cut_size(values[i].data, room);
            label->cut = true;
        }
        label->bytes[label->size++] = (uint8_t)size;
        if (size > 0)
            memcpy(label->bytes + label->size, values[i].data, size);
        label->size = (uint8_t)(label->size + size);
    }
}

struct weir_slice weir_top_label_value(const struct weir_top_label *label, size_t index)
{
    const uint8_t *at = label->bytes;
    weir_assert(label->known && index < label->count);
    for (; index > 0; index--)
        at += *at == ABSENT ? 1 : 1 + *at;
    return (struct weir_slice){ at + 1, *at == ABSENT ? WEIR_VALUE_ABSENT : *at };
}

/* ---- counting ---- */

static struct top_loop *loop_at(const struct weir_top *top, size_t loop)
{
    weir_assert(loop < top->loop_count);
    return &top->loops[loop];
}

static uint64_t window_at(const struct weir_top *top, uint64_t now_ns)
{
    return weir_sub_sat(now_ns, top->origin_ns) / WEIR_TOP_WINDOW_NS;
}

static void enter_window(const struct weir_top *top, struct top_loop *own, uint64_t now_ns)
{
    own->window = window_at(top, now_ns);
    own->window_end_ns = top->origin_ns + (own->window + 1) * WEIR_TOP_WINDOW_NS;
}

static void copy(const struct side *side, uint64_t window, struct list *list)
{
    list->window = window;
    list->count = weir_sketch_used(side->sketch);
    list->one_in = side->sampler.one_in_max;
    list->floor = weir_sketch_floor(side->sketch);
    list->total = weir_sketch_total(side->sketch);
    for (uint32_t place = 0; place < list->count; place++)
        list->keys[place] = weir_sketch_key(side->sketch, place);
    memcpy(list->labels, side->labels, list->count * sizeof(list->labels[0]));
}

/* Under the lock. */
static void show(struct top_loop *own)
{
    own->shown_begun_ns = own->begun_ns;
    for (size_t by = 0; by < WEIR_TOP_BYS; by++) {
        struct list *list = &own->lists[own->window % 2][by];
        if (own->sides[by].unshown || list->window != own->window)
            copy(&own->sides[by], own->window, list);
        own->sides[by].unshown = false;
    }
}

/* The hour is over. While somebody reads, it goes on. */
static void turn(const struct weir_top *top, struct top_loop *own, uint64_t now_ns)
{
    if (pthread_mutex_trylock(&own->lock))
        return;
    show(own);
    pthread_mutex_unlock(&own->lock);
    for (size_t by = 0; by < WEIR_TOP_BYS; by++) {
        weir_sketch_clear(own->sides[by].sketch);
        own->sides[by].sampler.one_in_max = 1;
    }
    enter_window(top, own, now_ns);
}

static uint64_t random_below(uint64_t *state, uint32_t bound)
{
    *state += UINT64_C(0x9e3779b97f4a7c15); /* SplitMix64 */
    uint64_t z = (*state ^ *state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z >> 32) * bound >> 32;
}

static void reset(struct sampler *sampler)
{
    *sampler = (struct sampler){ .weight = 1, .one_in = 1, .one_in_max = 1, .random = sampler->random };
}

/* A second is over: from what it brought, how many to pass over in the next. */
static void begin_second(struct sampler *sampler, uint64_t now_ns)
{
    uint64_t seconds = weir_sub_sat(now_ns, sampler->second_end_ns) / WEIR_NS_PER_SECOND + 1;
    uint64_t one_in = 1;
    while (one_in < WEIR_TOP_ONE_IN_MAX && sampler->seen / seconds / one_in > WEIR_TOP_LOOKS)
        one_in *= 2;
    sampler->one_in = (uint32_t)one_in;
    sampler->looked = sampler->seen = 0;
    sampler->second_end_ns = weir_add_sat(now_ns, WEIR_NS_PER_SECOND);
}

/* What this event, which is not passed over, counts for. */
static uint32_t sample(struct sampler *sampler, uint64_t now_ns)
{
    const uint32_t weight = sampler->weight;
    if (now_ns >= sampler->second_end_ns)
        begin_second(sampler, now_ns);
    sampler->seen += weight;
    if (++sampler->looked > WEIR_TOP_LOOKS && sampler->one_in < WEIR_TOP_ONE_IN_MAX) {
        sampler->one_in *= 2;
        sampler->looked = 0;
    }
    sampler->weight = sampler->one_in;
    sampler->one_in_max = (uint32_t)weir_max_u64(sampler->one_in_max, weight);
    sampler->left = (uint32_t)random_below(&sampler->random, 2 * sampler->one_in - 1);
    return weight;
}

static bool look(struct side *side, const struct weir_top_refusal *refusal)
{
    const uint32_t weight = sample(&side->sampler, refusal->now_ns);
    side->place = weir_sketch_add(side->sketch, refusal->hash, weight, &side->fresh);
    side->unshown = true;
    if (side->fresh) {
        side->labels[side->place].slot = refusal->slot;
        side->labels[side->place].known = false;
    }
    return side->fresh;
}

/* Whether a label is wanted. In a flood nearly all are passed over. */
static inline bool count(struct side *side, const struct weir_top_refusal *refusal)
{
    side->fresh = false;
    if (side->sampler.left == 0)
        return look(side, refusal);
    side->sampler.left--;
    return false;
}

void weir_top_prefetch(const struct weir_top *top, uint64_t hash)
{
    weir_retries_prefetch(&top->retries, hash);
}

bool weir_top_refused(struct weir_top *top, size_t loop, const struct weir_top_refusal *refusal)
{
    struct top_loop *own = loop_at(top, loop);
    weir_assert(own->keys != WEIR_TOP_OFF);
    if (refusal->now_ns >= own->window_end_ns)
        turn(top, own, refusal->now_ns);
    bool fresh = count(&own->sides[WEIR_TOP_REFUSED], refusal);
    own->sides[WEIR_TOP_EARLY].fresh = false;
    if (weir_retries_note(&top->retries, refusal->hash, refusal->now_ns, refusal->retry_after_ns))
        fresh |= count(&own->sides[WEIR_TOP_EARLY], refusal);
    return fresh && own->keys == WEIR_TOP_TEXT;
}

void weir_top_label(struct weir_top *top, size_t loop, const struct weir_top_label *label)
{
    struct top_loop *own = loop_at(top, loop);
    for (size_t by = 0; by < WEIR_TOP_BYS; by++) {
        struct side *side = &own->sides[by];
        if (!side->fresh)
            continue;
        const uint32_t slot = side->labels[side->place].slot;
        side->labels[side->place] = *label;
        side->labels[side->place].slot = slot;
    }
}

enum weir_top_keys weir_top_keys(const struct weir_top *top, size_t loop)
{
    return loop_at(top, loop)->keys;
}

bool weir_top_is_unshown(const struct weir_top *top, size_t loop)
{
    const struct side *sides = loop_at(top, loop)->sides;
    return sides[WEIR_TOP_REFUSED].unshown || sides[WEIR_TOP_EARLY].unshown;
}

bool weir_top_show(struct weir_top *top, size_t loop, uint64_t now_ns)
{
    struct top_loop *own = loop_at(top, loop);
    if (now_ns >= own->window_end_ns)
        turn(top, own, now_ns);
    if (!weir_top_is_unshown(top, loop))
        return true;
    if (pthread_mutex_trylock(&own->lock))
        return false;
    show(own);
    pthread_mutex_unlock(&own->lock);
    return true;
}

void weir_top_configure(struct weir_top *top, size_t loop, enum weir_top_keys keys, uint64_t now_ns)
{
    struct top_loop *own = loop_at(top, loop);
    if (own->keys == keys)
        return;
    pthread_mutex_lock(&own->lock);
    for (size_t by = 0; by < WEIR_TOP_BYS; by++) {
        weir_sketch_clear(own->sides[by].sketch);
        reset(&own->sides[by].sampler);
        own->sides[by].fresh = own->sides[by].unshown = false;
        if (own->keys == WEIR_TOP_OFF)
            continue; /* nothing was counted; to write all of it would cost a start half a millisecond */
        /* Of what was a text nothing stays. */
        explicit_bzero(own->sides[by].labels, sizeof(own->sides[by].labels));
        for (size_t i = 0; i < 2; i++)
            explicit_bzero(&own->lists[i][by], sizeof(own->lists[i][by]));
    }
    own->keys = keys;
    own->begun_ns = own->shown_begun_ns = now_ns;
    enter_window(top, own, now_ns);
    pthread_mutex_unlock(&own->lock);
}

/* ---- reading ---- */

static bool is_current(const struct list *list, uint64_t window)
{
    return list->count > 0 && (list->window == window || list->window + 1 == window);
}

static void add_list(struct weir_sketch_sum *sum, const struct list *list, uint32_t slot)
{
    weir_sketch_sum_begin(sum, list->floor, list->total);
    for (uint32_t i = 0; i < list->count; i++) {
        if (slot == WEIR_TOP_ANY || list->labels[i].slot == slot)
            weir_sketch_sum_add(sum, &list->keys[i], list->floor, &list->labels[i]);
    }
}

uint64_t weir_top_shown(const struct weir_top *top, uint64_t hash)
{
    return weir_siphash(&top->mask, &hash, sizeof(hash));
}

static struct weir_top_row row_of(const struct weir_top *top, const struct weir_sketch_summed *summed)
{
    return (struct weir_top_row){ .shown_hash = weir_top_shown(top, summed->key.hash),
                                  .count = summed->key.count,
                                  .error = summed->key.error,
                                  .label = *(const struct weir_top_label *)summed->of };
}

/* All locks are held. */
static void read_lists(struct weir_top *top, enum weir_top_by by, uint32_t slot, uint64_t now_ns, size_t rows_max,
                       struct weir_sketch_sum *sum, struct weir_top_read *ret_read)
{
    const uint64_t window = window_at(top, now_ns);
    struct weir_sketch_summed rows[WEIR_TOP_READ_MAX];
    ret_read->since_ns = top->origin_ns + weir_sub_sat(window, 1) * WEIR_TOP_WINDOW_NS;
    ret_read->one_in = 1;
    for (size_t i = 0; i < top->loop_count; i++) {
        const struct top_loop *own = &top->loops[i];
        ret_read->since_ns = weir_max_u64(ret_read->since_ns, own->shown_begun_ns);
        for (size_t hour = 0; hour < 2; hour++) {
            const struct list *list = &own->lists[hour][by];
            if (!is_current(list, window))
                continue;
            add_list(sum, list, slot);
            ret_read->one_in = (uint32_t)weir_max_u64(ret_read->one_in, list->one_in);
        }
    }
    ret_read->total = sum->total;
    ret_read->unlisted_max = sum->floor;
    ret_read->count = weir_sketch_sum_top(sum, rows, rows_max);
    for (size_t i = 0; i < ret_read->count; i++)
        ret_read->rows[i] = row_of(top, &rows[i]);
}

int weir_top_read(struct weir_top *top, enum weir_top_by by, uint32_t slot, uint64_t now_ns, size_t rows_max,
                  struct weir_top_read *ret_read)
{
    weir_assert(rows_max <= WEIR_TOP_READ_MAX && by < WEIR_TOP_BYS);
    size_t keys = 1;
    struct weir_sketch_sum sum;
    for (size_t i = 0; i < top->loop_count; i++) {
        pthread_mutex_lock(&top->loops[i].lock);
        keys += top->loops[i].lists[0][by].count + top->loops[i].lists[1][by].count;
    }
    void *memory = calloc(1, weir_sketch_sum_bytes(keys));
    if (memory) {
        weir_sketch_sum_init(&sum, memory, keys);
        read_lists(top, by, slot, now_ns, rows_max, &sum, ret_read);
    }
    for (size_t i = 0; i < top->loop_count; i++)
        pthread_mutex_unlock(&top->loops[i].lock);
    free(memory);
    return memory ? 0 : WEIR_ENOMEM;
}

/* ---- life ---- */

static int init_loop(const struct weir_top *top, struct top_loop *own)
{
    pthread_mutex_init(&own->lock, NULL);
    own->keys = WEIR_TOP_OFF;
    own->begun_ns = own->shown_begun_ns = top->origin_ns;
    enter_window(top, own, top->origin_ns);
    own->sides = calloc(WEIR_TOP_BYS, sizeof(own->sides[0]));
    own->lists = calloc(2, sizeof(own->lists[0]));
    for (size_t by = 0; own->sides && by < WEIR_TOP_BYS; by++) {
        void *memory = aligned_alloc(64, weir_sketch_bytes(WEIR_TOP_ROOM));
        if (!memory)
            return WEIR_ENOMEM;
        own->sides[by].sketch = weir_sketch_init(memory, WEIR_TOP_ROOM);
        reset(&own->sides[by].sampler);
        own->sides[by].sampler.random = weir_siphash(&top->mask, &own, sizeof(own));
    }
    return own->sides && own->lists ? 0 : WEIR_ENOMEM;
}

int weir_top_create(size_t loops, uint64_t now_ns, struct weir_top **ret_top)
{
    weir_assert(loops > 0);
    struct weir_top *top = calloc(1, sizeof(*top));
    if (!top)
        return WEIR_ENOMEM;
    top->origin_ns = now_ns;
    int error = getrandom(&top->mask, sizeof(top->mask), 0) == (ssize_t)sizeof(top->mask) ? 0 : WEIR_EIO;
    top->loops = aligned_alloc(_Alignof(struct top_loop), loops * sizeof(top->loops[0]));
    if (!top->loops)
        error = WEIR_ENOMEM;
    for (; !error && top->loop_count < loops; top->loop_count++) {
        top->loops[top->loop_count] = (struct top_loop){ 0 };
        error = init_loop(top, &top->loops[top->loop_count]);
    }
    if (error) {
        weir_top_destroy(top);
        return error;
    }
    *ret_top = top;
    return 0;
}

void weir_top_destroy(struct weir_top *top)
{
    if (!top)
        return;
    for (size_t i = 0; i < top->loop_count; i++) {
        struct top_loop *own = &top->loops[i];
        for (size_t by = 0; own->sides && by < WEIR_TOP_BYS; by++)
            free(own->sides[by].sketch);
        free(own->sides);
        free(own->lists);
        pthread_mutex_destroy(&own->lock);
    }
    free(top->loops);
    free(top);
}
