/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash table with chains. The keys in it are in one of two lists by last use, idle or active. Keys that left it are
 * in a third list and stay in their chains, so that they can return as they are. In the heap of wake-up times a key's
 * time may be too early, never too late; when it has come, it is corrected. Called by share_host.c. The steps of a key
 * are in share_step.c. */
#include "limits/share_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/container.h"

#define VICTIM_TRIES 64 /* keys in the middle of a request that are passed over */

/* ---- lists ---- */

static void list_add(struct weir_share_list *list, struct weir_share_key *key)
{
    key->next = NULL;
    key->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = key;
    list->last = key;
}

static void list_remove(struct weir_share_list *list, struct weir_share_key *key)
{
    *(key->prev ? &key->prev->next : &list->first) = key->next;
    *(key->next ? &key->next->prev : &list->last) = key->prev;
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
    weir_assert((buckets & (buckets - 1)) == 0); /* a power of two, so one less is a mask */
    /* Both are touched only as far as they are used. */
    *keys = (struct weir_share_keys){ .count_max = count_max, .due.max = count_max + gone_max };
    keys->buckets_mask = buckets - 1;
    keys->buckets = calloc(buckets, sizeof(keys->buckets[0]));
    keys->due.members = calloc(keys->due.max + 1, sizeof(keys->due.members[0]));
    if (keys->buckets && keys->due.members)
        return 0;
    weir_share_keys_deinit(keys);
    return WEIR_ENOMEM;
}

void weir_share_keys_deinit(struct weir_share_keys *keys)
{
    free(keys->buckets);
    free(keys->due.members);
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
    while (found && (found->gone || !same(found, key)))
        found = found->chain;
    if (found)
        keys->last = found;
    return found;
}

struct weir_share_key *weir_share_keys_find_gone(struct weir_share_keys *keys, const struct weir_remote_key *key,
                                                 bool leased)
{
    struct weir_share_key *found = *bucket_of(keys, key);
    while (found && !(found->gone && found->leased == leased && same(found, key)))
        found = found->chain;
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
    list_remove(list_of(keys, key), key);
    key->idle = idle;
    list_add(list_of(keys, key), key);
}

void weir_share_keys_leave(struct weir_share_keys *keys, struct weir_share_key *key)
{
    weir_assert(!key->gone);
    keys->count--;
    if (keys->last == key)
        keys->last = NULL;
    list_remove(list_of(keys, key), key);
    key->gone = true;
    list_add(&keys->gone, key);
    keys->gone_count++;
}

void weir_share_keys_return(struct weir_share_keys *keys, struct weir_share_key *key)
{
    weir_assert(key->gone && keys->count < keys->count_max);
    list_remove(&keys->gone, key);
    keys->gone_count--;
    key->gone = false;
    keys->count++;
    list_add(list_of(keys, key), key);
}

struct weir_share_key *weir_share_keys_victim(const struct weir_share_keys *keys)
{
    struct weir_share_key *key = keys->idle.first ? keys->idle.first : keys->active.first;
    for (int tries = 0; key && tries < VICTIM_TRIES; tries++) {
        if (key->users == 0 && !key->waiting_first)
            return key;
        key = !key->next && key->idle ? keys->active.first : key->next;
    }
    return NULL;
}

/* ---- who is woken when ---- */

/* ---- a reload ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void keep(struct weir_share_list *list, const char **names, size_t count)
{
    const struct weir_remote_limit *limit = NULL; /* that the key before had: most share it */
    bool kept = false;
    for (struct weir_share_key *key = list->first; key; key = key->next) {
        const char *name = key->limit->name;
        if (key->limit != limit)
            kept = count > 0 && bsearch(&name, names, count, sizeof(names[0]), compare_names);
        limit = key->limit;
        key->unwanted = !kept;
    }
}

void weir_share_keys_keep(struct weir_share_keys *keys, const char **names, size_t count)
{
    qsort(names, count, sizeof(names[0]), compare_names);
    keep(&keys->idle, names, count);
    keep(&keys->active, names, count);
}

/* ---- waking ---- */

/* Later is left as it is: to be woken early does no harm, and most decisions only move the time on. */
void weir_share_keys_wake(struct weir_share_keys *keys, struct weir_share_key *key)
{
    if (key->wake_ns > 0 && (key->due.place == 0 || key->due.at_ns > key->wake_ns))
        weir_due_set(&keys->due, &key->due, key->wake_ns);
}

struct weir_share_key *weir_share_keys_due(struct weir_share_keys *keys, uint64_t now_ns)
{
    while (weir_due_next_ns(&keys->due) <= now_ns) {
        struct weir_due *due = weir_due_first(&keys->due);
        struct weir_share_key *key = weir_container(due, struct weir_share_key, due);
        if (key->wake_ns > now_ns) {
            weir_due_set(&keys->due, due, key->wake_ns);
            continue;
        }
        weir_due_remove(&keys->due, due);
        if (key->wake_ns > 0)
            return key;
    }
    return NULL;
}

uint64_t weir_share_keys_next_ns(const struct weir_share_keys *keys)
{
    return weir_due_next_ns(&keys->due);
}

void weir_share_keys_remove(struct weir_share_keys *keys, struct weir_share_key *key)
{
    weir_assert(key->gone && key->users == 0 && !key->waiting_first && !key->asking);
    struct weir_share_key **at = bucket_of(keys, &key->key);
    while (*at != key)
        at = &(*at)->chain;
    *at = key->chain;
    list_remove(&keys->gone, key);
    keys->gone_count--;
    weir_due_remove(&keys->due, &key->due);
}
