/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/share_keys.h"

#include <stdlib.h>

#include "base/assert.h"

#define VICTIM_TRIES 64 /* keys in the middle of a request that are passed over */

/* ---- lists ---- */

static void list_add(struct weir_share_list *list, struct weir_share_key *key)
{
    key->next = NULL;
    key->prev = list->last;
    if (list->last)
        list->last->next = key;
    else
        list->first = key;
    list->last = key;
}

static void list_remove(struct weir_share_list *list, struct weir_share_key *key)
{
    if (key->prev)
        key->prev->next = key->next;
    else
        list->first = key->next;
    if (key->next)
        key->next->prev = key->prev;
    else
        list->last = key->prev;
}

static struct weir_share_list *list_of(struct weir_share_keys *keys, const struct weir_share_key *key)
{
    return key->gone ? &keys->gone : key->idle ? &keys->idle : &keys->active;
}

/* ---- the table ---- */

int weir_share_keys_init(struct weir_share_keys *keys, size_t count_max, size_t gone_max)
{
    size_t buckets = 64;
    while (buckets < count_max)
        buckets *= 2;
    /* Both are touched only as far as they are used. */
    *keys = (struct weir_share_keys){ .count_max = count_max, .heap_room = count_max + gone_max + 1 };
    keys->buckets_mask = buckets - 1;
    keys->buckets = calloc(buckets, sizeof(keys->buckets[0]));
    keys->heap = calloc(keys->heap_room, sizeof(keys->heap[0]));
    if (keys->buckets && keys->heap)
        return 0;
    weir_share_keys_deinit(keys);
    return WEIR_ENOMEM;
}

void weir_share_keys_deinit(struct weir_share_keys *keys)
{
    free(keys->buckets);
    free(keys->heap);
    *keys = (struct weir_share_keys){ 0 };
}

/* Ids are hashes with the cluster's secret: any bits of them do. */
static struct weir_share_key **bucket_of(struct weir_share_keys *keys, const struct weir_remote_key *key)
{
    return &keys->buckets[key->id[0] & keys->buckets_mask];
}

static bool same(const struct weir_share_key *key, const struct weir_remote_key *wanted)
{
    return key->key.id[0] == wanted->id[0] && key->key.id[1] == wanted->id[1];
}

struct weir_share_key *weir_share_keys_find(struct weir_share_keys *keys, const struct weir_remote_key *key)
{
    if (keys->last && same(keys->last, key))
        return keys->last;
    struct weir_share_key *found = *bucket_of(keys, key);
    while (found && !same(found, key))
        found = found->chain;
    if (found)
        keys->last = found;
    return found;
}

void weir_share_keys_insert(struct weir_share_keys *keys, struct weir_share_key *key)
{
    weir_assert(keys->count < keys->count_max);
    struct weir_share_key **bucket = bucket_of(keys, &key->key);
    key->chain = *bucket;
    *bucket = key;
    keys->count++;
    list_add(list_of(keys, key), key);
}

void weir_share_keys_touch(struct weir_share_keys *keys, struct weir_share_key *key)
{
    struct weir_share_list *list = list_of(keys, key);
    if (list->last == key)
        return;
    list_remove(list, key);
    list_add(list, key);
}

void weir_share_keys_set_idle(struct weir_share_keys *keys, struct weir_share_key *key, bool idle)
{
    if (key->idle == idle)
        return;
    if (key->gone) {
        key->idle = idle;
        return;
    }
    list_remove(list_of(keys, key), key);
    key->idle = idle;
    list_add(list_of(keys, key), key);
}

void weir_share_keys_leave(struct weir_share_keys *keys, struct weir_share_key *key)
{
    weir_assert(!key->gone);
    struct weir_share_key **at = bucket_of(keys, &key->key);
    while (*at != key)
        at = &(*at)->chain;
    *at = key->chain;
    keys->count--;
    if (keys->last == key)
        keys->last = NULL;
    list_remove(list_of(keys, key), key);
    key->gone = true;
    list_add(&keys->gone, key);
    keys->gone_count++;
}

struct weir_share_key *weir_share_keys_victim(const struct weir_share_keys *keys)
{
    struct weir_share_key *key = keys->idle.first ? keys->idle.first : keys->active.first;
    for (int tries = 0; key && tries < VICTIM_TRIES; tries++) {
        if (key->reserved == 0 && !key->waiting_first)
            return key;
        key = !key->next && key->idle ? keys->active.first : key->next;
    }
    return NULL;
}

/* ---- the heap ---- */

static void place(struct weir_share_keys *keys, struct weir_share_key *key, size_t at)
{
    keys->heap[at] = key;
    key->place = at;
}

static void sift_up(struct weir_share_keys *keys, struct weir_share_key *key, size_t at)
{
    for (; at > 1 && keys->heap[at / 2]->due_ns > key->due_ns; at /= 2)
        place(keys, keys->heap[at / 2], at);
    place(keys, key, at);
}

static void sift_down(struct weir_share_keys *keys, struct weir_share_key *key, size_t at)
{
    for (;;) {
        size_t child = 2 * at;
        if (child < keys->heap_count && keys->heap[child + 1]->due_ns < keys->heap[child]->due_ns)
            child++;
        if (child > keys->heap_count || keys->heap[child]->due_ns >= key->due_ns)
            break;
        place(keys, keys->heap[child], at);
        at = child;
    }
    place(keys, key, at);
}

static void heap_remove(struct weir_share_keys *keys, struct weir_share_key *key)
{
    size_t at = key->place;
    if (at == 0)
        return;
    struct weir_share_key *last = keys->heap[keys->heap_count--];
    key->place = 0;
    if (last == key)
        return;
    if (at > 1 && keys->heap[at / 2]->due_ns > last->due_ns)
        sift_up(keys, last, at);
    else
        sift_down(keys, last, at);
}

static void heap_add(struct weir_share_keys *keys, struct weir_share_key *key, uint64_t due_ns)
{
    weir_assert(keys->heap_count + 1 < keys->heap_room);
    key->due_ns = due_ns;
    keys->heap_count++;
    sift_up(keys, key, keys->heap_count);
}

/* Later is left as it is: to be woken early does no harm, and most decisions only move the time on. */
void weir_share_keys_wake(struct weir_share_keys *keys, struct weir_share_key *key)
{
    if (key->wake_ns == 0 || (key->place && key->due_ns <= key->wake_ns))
        return;
    heap_remove(keys, key);
    heap_add(keys, key, key->wake_ns);
}

struct weir_share_key *weir_share_keys_due(struct weir_share_keys *keys, uint64_t now_ns)
{
    while (keys->heap_count > 0 && keys->heap[1]->due_ns <= now_ns) {
        struct weir_share_key *key = keys->heap[1];
        heap_remove(keys, key);
        if (key->wake_ns == 0)
            continue;
        if (key->wake_ns <= now_ns)
            return key;
        heap_add(keys, key, key->wake_ns);
    }
    return NULL;
}

uint64_t weir_share_keys_next_ns(const struct weir_share_keys *keys)
{
    return keys->heap_count > 0 ? keys->heap[1]->due_ns : WEIR_NEVER;
}

void weir_share_keys_remove(struct weir_share_keys *keys, struct weir_share_key *key)
{
    weir_assert(key->gone && key->reserved == 0 && !key->waiting_first && !key->asking);
    list_remove(&keys->gone, key);
    keys->gone_count--;
    heap_remove(keys, key);
}
