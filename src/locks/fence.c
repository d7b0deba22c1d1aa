/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks by name: weir/fence.h. Three locks, always taken in this order:
 *     an entry's `turn`   one install or write of that name at a time, the user's callback included
 *     `log_turn`          one record at a time goes into the file; a mark changes under it, so that compaction sees it
 *     `table`             the entries and their marks; never held across a sync or a callback */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/fault.h"
#include "base/reserved.h"
#include "base/siphash.h"
#include "locks/fence_log.h"

#define COMPACT_SLACK 65536 /* bytes; a file of few names is not worth a new one */

struct entry {
    struct entry *next;
    pthread_mutex_t turn;
    struct weir_token mark; /* {0, 0}: none yet */
    size_t name_size;
    uint8_t name[];
};

struct weir_fence {
    pthread_mutex_t table, log_turn;
    struct entry **buckets;
    size_t bucket_mask, names, names_max;
    uint64_t live_size; /* what a compacted file takes */
    struct weir_sip_key key;
    bool durable;
    struct weir_fence_log log;
};

/* Entries are never removed before the fence is closed, so a pointer stays good without the lock. */
static struct entry *find(struct weir_fence *fence, const void *name, size_t name_size, struct entry ***ret_bucket)
{
    struct entry **bucket = &fence->buckets[weir_siphash(&fence->key, name, name_size) & fence->bucket_mask];
    struct entry *entry = *bucket;
    while (entry && (entry->name_size != name_size || memcmp(entry->name, name, name_size) != 0))
        entry = entry->next;
    if (ret_bucket)
        *ret_bucket = bucket;
    return entry;
}

static struct entry *find_locked(struct weir_fence *fence, const void *name, size_t name_size)
{
    pthread_mutex_lock(&fence->table);
    struct entry *entry = find(fence, name, name_size, NULL);
    pthread_mutex_unlock(&fence->table);
    return entry;
}

static int entry_make(struct weir_fence *fence, struct entry **bucket, const void *name, size_t name_size,
                      struct entry **ret_entry)
{
    if (fence->names >= fence->names_max)
        return WEIR_ELIMIT;
    struct entry *entry = malloc(sizeof(*entry) + name_size);
    if (!entry)
        return WEIR_ENOMEM;
    *entry = (struct entry){ .next = *bucket, .name_size = name_size };
    memcpy(entry->name, name, name_size);
    pthread_mutex_init(&entry->turn, NULL);
    *bucket = entry;
    fence->names++;
    fence->live_size += WEIR_FENCE_RECORD_HEAD + name_size;
    *ret_entry = entry;
    return 0;
}

static int find_or_make(struct weir_fence *fence, const void *name, size_t name_size, struct entry **ret_entry)
{
    struct entry **bucket;
    pthread_mutex_lock(&fence->table);
    struct entry *entry = find(fence, name, name_size, &bucket);
    int error = 0;
    if (entry)
        *ret_entry = entry;
    else
        error = entry_make(fence, bucket, name, name_size, ret_entry);
    pthread_mutex_unlock(&fence->table);
    return error;
}

static struct weir_token mark_of(struct weir_fence *fence, const struct entry *entry)
{
    pthread_mutex_lock(&fence->table);
    struct weir_token mark = entry->mark;
    pthread_mutex_unlock(&fence->table);
    return mark;
}

static void mark_set(struct weir_fence *fence, struct entry *entry, struct weir_token mark)
{
    pthread_mutex_lock(&fence->table);
    weir_assert(weir_token_compare(entry->mark, mark) <= 0);
    entry->mark = mark;
    pthread_mutex_unlock(&fence->table);
}

/* ---- open and close ---- */

static int loaded(void *context, const void *name, size_t name_size, struct weir_token token)
{
    struct weir_fence *fence = context;
    struct entry *entry;
    int error = find_or_make(fence, name, name_size, &entry);
    if (error)
        return error;
    /* Installs only raise a mark: a lower one after a higher one was not written by us. */
    return weir_mark_install(&entry->mark, token) == 0 ? 0 : WEIR_ECORRUPT;
}

static int fault(struct weir_fault *ret_fault, int error)
{
    if (error == WEIR_EINVAL)
        return weir_fault_set(ret_fault, error, "reserved", WEIR_RESERVED_TEXT);
    return weir_fault_set(ret_fault, error, "path",
                          error == WEIR_EBUSY      ? "another process has it open"
                          : error == WEIR_ECORRUPT ? "is not a file of marks, or is damaged before its last record"
                          : error == WEIR_ELIMIT   ? "holds more names than names_max"
                                                   : weir_error_text(error));
}

static int fence_init(struct weir_fence *fence, size_t names_max)
{
    uint8_t secret[16];
    size_t buckets = 64;
    while (buckets < names_max && buckets < (size_t)1 << 24)
        buckets *= 2;
    pthread_mutex_init(&fence->table, NULL);
    pthread_mutex_init(&fence->log_turn, NULL);
    if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
        return WEIR_EIO;
    fence->buckets = calloc(buckets, sizeof(*fence->buckets));
    fence->bucket_mask = buckets - 1;
    fence->names_max = names_max;
    fence->key = weir_sip_key_load(secret);
    return fence->buckets ? 0 : WEIR_ENOMEM;
}

int weir_fence_open(const struct weir_fence_options *options, struct weir_fence **ret_fence,
                    struct weir_fault *ret_fault)
{
    if (options && weir_reserved_used(options->reserved, sizeof options->reserved))
        return fault(ret_fault, WEIR_EINVAL);
    struct weir_fence *fence = calloc(1, sizeof(*fence));
    if (!fence)
        return fault(ret_fault, WEIR_ENOMEM);
    int error = fence_init(fence, options && options->names_max ? options->names_max : WEIR_FENCE_NAMES_DEFAULT);
    if (!error && options && options->path) {
        error = weir_fence_log_open(&fence->log, options->path, loaded, fence);
        fence->durable = !error;
    }
    if (error) {
        weir_fence_close(fence);
        return fault(ret_fault, error);
    }
    *ret_fence = fence;
    return 0;
}

void weir_fence_close(struct weir_fence *fence)
{
    if (!fence)
        return;
    for (size_t i = 0; fence->buckets && i <= fence->bucket_mask; i++) {
        for (struct entry *entry = fence->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            pthread_mutex_destroy(&entry->turn);
            free(entry);
        }
    }
    if (fence->durable)
        weir_fence_log_close(&fence->log);
    pthread_mutex_destroy(&fence->log_turn);
    pthread_mutex_destroy(&fence->table);
    free(fence->buckets);
    free(fence);
}

/* ---- install and write ---- */

static bool arguments_legal(size_t name_size, struct weir_token token)
{
    return name_size >= 1 && name_size <= WEIR_FENCE_NAME_MAX && weir_token_valid(token);
}

/* Under log_turn: no mark changes meanwhile. */
static int list_marks(void *context, weir_fence_each *each, void *each_context)
{
    struct weir_fence *fence = context;
    int error = 0;
    pthread_mutex_lock(&fence->table);
    for (size_t i = 0; i <= fence->bucket_mask && !error; i++) {
        for (const struct entry *entry = fence->buckets[i]; entry && !error; entry = entry->next) {
            if (entry->mark.number > 0)
                error = each(each_context, entry->name, entry->name_size, entry->mark);
        }
    }
    pthread_mutex_unlock(&fence->table);
    return error;
}

static int record(struct weir_fence *fence, struct entry *entry, struct weir_token token)
{
    pthread_mutex_lock(&fence->log_turn);
    int error = 0;
    if (fence->durable) {
        pthread_mutex_lock(&fence->table);
        uint64_t live = fence->live_size;
        pthread_mutex_unlock(&fence->table);
        /* A compaction that fails leaves the old file, which is good; one that cannot be trusted is seen by append. */
        if (fence->log.size > 2 * live + COMPACT_SLACK)
            (void)weir_fence_log_compact(&fence->log, list_marks, fence);
        error = weir_fence_log_append(&fence->log, entry->name, entry->name_size, token);
    }
    if (!error)
        mark_set(fence, entry, token);
    pthread_mutex_unlock(&fence->log_turn);
    return error;
}

int weir_fence_install(struct weir_fence *fence, const void *name, size_t name_size, struct weir_token token)
{
    struct entry *entry;
    if (!arguments_legal(name_size, token))
        return WEIR_ERANGE;
    int error = find_or_make(fence, name, name_size, &entry);
    if (error)
        return error;
    pthread_mutex_lock(&entry->turn);
    struct weir_token before = mark_of(fence, entry), after = before;
    error = weir_mark_install(&after, token);
    if (!error && weir_token_compare(before, after) != 0)
        error = record(fence, entry, token);
    pthread_mutex_unlock(&entry->turn);
    return error;
}

int weir_fence_write(struct weir_fence *fence, const void *name, size_t name_size, struct weir_token token,
                     int (*write)(void *context), void *context)
{
    if (!arguments_legal(name_size, token))
        return WEIR_ERANGE;
    struct entry *entry = find_locked(fence, name, name_size);
    if (!entry)
        return WEIR_ENOTINSTALLED;
    pthread_mutex_lock(&entry->turn);
    struct weir_token mark = mark_of(fence, entry);
    int error = weir_mark_check(&mark, token);
    if (!error)
        error = write(context);
    pthread_mutex_unlock(&entry->turn);
    return error;
}

struct weir_token weir_fence_mark(struct weir_fence *fence, const void *name, size_t name_size)
{
    struct entry *entry = name_size >= 1 && name_size <= WEIR_FENCE_NAME_MAX ? find_locked(fence, name, name_size)
                                                                             : NULL;
    return entry ? mark_of(fence, entry) : (struct weir_token){ 0, 0 };
}
