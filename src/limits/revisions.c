/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of a definition, numbers big endian: "WRV1", u64 number, given, checksum; u8 size of the node's name, the
 * name; u8 how many were superseded, u64 checksum of each; u32 size of the text, the text; 16 bytes of an HMAC over all
 * before them. The checksum is 8 bytes of an HMAC of the text. */
#include "limits/revisions_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/checked.h"
#include "wire/gossip.h"

#define MAGIC "WRV1"
#define FIXED (WEIR_REVISION_HEAD + 1 + 1 + 4 + WEIR_GOSSIP_MAC_SIZE)

/* Names, texts and what is signed begin with different bytes. Without memory for it: zeros, which nobody else has. */
static void sign(const struct weir_revisions *revisions, const void *bytes, size_t size,
                 uint8_t ret_mac[WEIR_GOSSIP_MAC_SIZE])
{
    if (!weir_gossip_mac(revisions->secret, bytes, size, ret_mac))
        memset(ret_mac, 0, WEIR_GOSSIP_MAC_SIZE);
}

uint64_t weir_revisions_checksum(const struct weir_revisions *revisions, const void *text, size_t size)
{
    uint8_t mac[WEIR_GOSSIP_MAC_SIZE];
    sign(revisions, text, size, mac);
    return weir_big_get(mac, 8);
}

int weir_revisions_create(const uint8_t *secret, const char *node, struct weir_revisions **ret_revisions)
{
    struct weir_revisions *revisions = calloc(1, sizeof(*revisions));
    if (!revisions)
        return WEIR_ENOMEM;
    pthread_mutex_init(&revisions->lock, NULL);
    memcpy(revisions->secret, secret, sizeof(revisions->secret));
    memcpy(revisions->node, node, strnlen(node, WEIR_REVISION_NODE_MAX));
    *ret_revisions = revisions;
    return 0;
}

void weir_revisions_check_names(struct weir_revisions *revisions, weir_revision_name_fn *name_of)
{
    revisions->name_of = name_of;
}

void weir_revision_entry_free(struct weir_revision_entry *entry)
{
    free(entry->text);
    free(entry->own);
    free(entry);
}

void weir_revisions_destroy(struct weir_revisions *revisions)
{
    if (!revisions)
        return;
    for (size_t i = 0; i < revisions->count; i++)
        weir_revision_entry_free(revisions->entries[i]);
    free(revisions->entries);
    pthread_mutex_destroy(&revisions->lock);
    free(revisions);
}

uint64_t weir_revisions_generation(const struct weir_revisions *revisions)
{
    return atomic_load(&revisions->generation);
}

/* ---- entries ---- */

int weir_revision_entry_compare(const void *a, const void *b)
{
    const struct weir_revision_entry *x = *(struct weir_revision_entry *const *)a,
                                     *y = *(struct weir_revision_entry *const *)b;
    return memcmp(x->id, y->id, sizeof(x->id));
}

struct weir_revision_entry *weir_revisions_entry(const struct weir_revisions *revisions, const uint64_t id[2])
{
    struct weir_revision_entry like = { .id = { id[0], id[1] } }, *key = &like;
    struct weir_revision_entry **found = revisions->count ? bsearch(&key, revisions->entries, revisions->count,
                                                                    sizeof(void *), weir_revision_entry_compare)
                                                          : NULL;
    return found ? *found : NULL;
}

void weir_revisions_name_id(const struct weir_revisions *revisions, const char *name, uint64_t ret_id[2])
{
    char text[WEIR_LIMIT_NAME_MAX + 8];
    uint8_t mac[WEIR_GOSSIP_MAC_SIZE];
    int size = snprintf(text, sizeof(text), "name %.*s", WEIR_LIMIT_NAME_MAX, name);
    sign(revisions, text, (size_t)size, mac);
    ret_id[0] = weir_big_get(mac, 8);
    ret_id[1] = weir_big_get(mac + 8, 8);
}

char *weir_revision_text(const void *bytes, size_t size)
{
    char *made = malloc(size + 1);
    if (made) {
        memcpy(made, bytes, size);
        made[size] = '\0';
    }
    return made;
}

void weir_revisions_settle(struct weir_revisions *revisions, struct weir_revision_entry *entry, uint64_t wall_ns)
{
    struct weir_revised next = entry->revised;
    if (!entry->own || !weir_revised_settle(&next, wall_ns / WEIR_NS_PER_SECOND)) {
        entry->revised = next;
        return;
    }
    char *text = weir_revision_text(entry->own, entry->own_size);
    if (!text)
        return; /* the next time */
    free(entry->text);
    entry->text = text;
    entry->size = entry->own_size;
    entry->revised = next;
    memcpy(entry->node, revisions->node, sizeof(entry->node));
    atomic_fetch_add(&revisions->generation, 1);
}

int weir_revisions_find(struct weir_revisions *revisions, const struct weir_revision_own *own, uint64_t wall_ns,
                        struct weir_revision_found *ret_found)
{
    uint64_t id[2], checksum = weir_revisions_checksum(revisions, own->text.data, own->text.size);
    struct weir_revision_found found = { 0 };
    int error = 0;
    if (own->text.size > WEIR_REVISION_TEXT_MAX) {
        *ret_found = found;
        return 0;
    }
    weir_revisions_name_id(revisions, own->name, id);
    pthread_mutex_lock(&revisions->lock);
    const struct weir_revision_entry *entry = weir_revisions_entry(revisions, id);
    struct weir_revised revised = entry ? entry->revised : (struct weir_revised){ 0 };
    weir_revised_own(&revised, checksum, own->given, revisions->started);
    if (weir_revised_settle(&revised, wall_ns / WEIR_NS_PER_SECOND)) {
        memcpy(found.node, revisions->node, sizeof(found.node));
    } else if (entry) {
        memcpy(found.node, entry->node, sizeof(found.node));
        if (revised.newest.number > 0 && revised.newest.checksum != checksum) {
            found.text = weir_revision_text(entry->text, entry->size);
            found.size = entry->size;
            error = found.text ? 0 : WEIR_ENOMEM;
        }
    }
    found.number = revised.newest.number;
    found.passed = weir_revision_passed(&revised.newest);
    pthread_mutex_unlock(&revisions->lock);
    if (!error)
        *ret_found = found;
    return error;
}

void weir_revisions_alone(struct weir_revisions *revisions, uint64_t wall_ns)
{
    pthread_mutex_lock(&revisions->lock);
    for (size_t i = 0; i < revisions->count; i++) {
        struct weir_revision_entry *entry = revisions->entries[i];
        (void)weir_revised_hear(&entry->revised, NULL);
        weir_revisions_settle(revisions, entry, wall_ns);
        if (entry->revised.newest.checksum == entry->revised.own)
            entry->revised.wanted = false;
    }
    pthread_mutex_unlock(&revisions->lock);
}

/* ---- bytes ---- */

static uint8_t *put_head(uint8_t *at, const struct weir_revision *revision)
{
    memcpy(at, MAGIC, 4);
    return weir_big_put(weir_big_put(weir_big_put(at + 4, revision->number, 8), revision->given, 8), revision->checksum,
                        8);
}

size_t weir_revisions_count(const struct weir_revisions *revisions)
{
    struct weir_revisions *unlocked = (struct weir_revisions *)(uintptr_t)revisions; /* the mutex */
    pthread_mutex_lock(&unlocked->lock);
    size_t count = revisions->count;
    pthread_mutex_unlock(&unlocked->lock);
    return count;
}

bool weir_revisions_brief(const struct weir_revisions *revisions, size_t index, struct weir_revision_brief *ret_brief)
{
    struct weir_revisions *unlocked = (struct weir_revisions *)(uintptr_t)revisions; /* the mutex */
    pthread_mutex_lock(&unlocked->lock);
    bool found = index < revisions->count;
    if (found) {
        const struct weir_revision_entry *entry = revisions->entries[index];
        *ret_brief = (struct weir_revision_brief){ .id = { entry->id[0], entry->id[1] }, .known = entry->text != NULL };
        put_head(ret_brief->head, &entry->revised.newest);
    }
    pthread_mutex_unlock(&unlocked->lock);
    return found;
}

static int write_entry(const struct weir_revisions *revisions, const struct weir_revision_entry *entry,
                       uint8_t **ret_bytes, size_t *ret_size)
{
    const struct weir_revision *newest = &entry->revised.newest;
    if (!entry->text)
        return WEIR_ENOENT;
    size_t node_size = strlen(entry->node);
    size_t size = FIXED + node_size + 8 * newest->superseded_count + entry->size;
    uint8_t *bytes = malloc(size), *at = bytes;
    if (!bytes)
        return WEIR_ENOMEM;
    at = weir_big_put(put_head(at, newest), node_size, 1);
    memcpy(at, entry->node, node_size);
    at = weir_big_put(at + node_size, newest->superseded_count, 1);
    for (size_t i = 0; i < newest->superseded_count; i++)
        at = weir_big_put(at, newest->superseded[i], 8);
    at = weir_big_put(at, entry->size, 4);
    memcpy(at, entry->text, entry->size);
    at += entry->size;
    sign(revisions, bytes, size - WEIR_GOSSIP_MAC_SIZE, at);
    weir_assert(at + WEIR_GOSSIP_MAC_SIZE == bytes + size);
    *ret_bytes = bytes;
    *ret_size = size;
    return 0;
}

int weir_revisions_bytes(struct weir_revisions *revisions, const uint64_t id[2], uint8_t **ret_bytes, size_t *ret_size,
                         uint64_t *ret_number)
{
    pthread_mutex_lock(&revisions->lock);
    const struct weir_revision_entry *entry = weir_revisions_entry(revisions, id);
    int error = entry ? write_entry(revisions, entry, ret_bytes, ret_size) : WEIR_ENOENT;
    if (!error)
        *ret_number = entry->revised.newest.number;
    pthread_mutex_unlock(&revisions->lock);
    return error;
}

void weir_revisions_told(struct weir_revisions *revisions, const uint64_t id[2], uint64_t number)
{
    pthread_mutex_lock(&revisions->lock);
    struct weir_revision_entry *entry = weir_revisions_entry(revisions, id);
    if (entry && entry->revised.newest.number == number)
        entry->revised.wanted = false;
    if (entry)
        entry->at_engine = weir_max_u64(entry->at_engine, number);
    pthread_mutex_unlock(&revisions->lock);
}

bool weir_revisions_untold(const struct weir_revisions *revisions, size_t *at, uint64_t ret_id[2])
{
    struct weir_revisions *unlocked = (struct weir_revisions *)(uintptr_t)revisions; /* the mutex */
    bool found = false;
    pthread_mutex_lock(&unlocked->lock);
    while (!found && *at < revisions->count) {
        const struct weir_revision_entry *entry = revisions->entries[(*at)++];
        found = entry->text && entry->revised.newest.number > entry->at_engine;
        if (found)
            memcpy(ret_id, entry->id, sizeof(entry->id));
    }
    pthread_mutex_unlock(&unlocked->lock);
    return found;
}

/* What `bytes` say. */
struct told {
    struct weir_revision revision;
    const uint8_t *node, *text;
    size_t node_size, text_size;
};

static bool read_head(const uint8_t *bytes, size_t size, struct told *ret_told)
{
    if (size < WEIR_REVISION_HEAD || memcmp(bytes, MAGIC, 4) != 0)
        return false;
    *ret_told = (struct told){ .revision = { .number = weir_big_get(bytes + 4, 8),
                                             .given = weir_big_get(bytes + 12, 8),
                                             .checksum = weir_big_get(bytes + 20, 8) } };
    return ret_told->revision.number > 0 && ret_told->revision.number <= WEIR_REVISION_MAX;
}

/* Signed by one of us, so only its sizes can be wrong, and that by another version. */
static bool read_whole(const struct weir_revisions *revisions, const uint8_t *bytes, size_t size, struct told *told)
{
    uint8_t right[WEIR_GOSSIP_MAC_SIZE];
    if (size < FIXED)
        return false;
    const uint8_t *at = bytes + WEIR_REVISION_HEAD, *end = bytes + size - WEIR_GOSSIP_MAC_SIZE;
    sign(revisions, bytes, size - WEIR_GOSSIP_MAC_SIZE, right);
    if (!weir_gossip_mac_equal(right, end))
        return false;
    told->node_size = *at++;
    told->node = at;
    if (told->node_size > WEIR_REVISION_NODE_MAX || (size_t)(end - at) < told->node_size + 1)
        return false;
    at += told->node_size;
    told->revision.superseded_count = *at++;
    if (told->revision.superseded_count > WEIR_SUPERSEDED_MAX ||
        (size_t)(end - at) < 8 * told->revision.superseded_count + 4)
        return false;
    for (size_t i = 0; i < told->revision.superseded_count; i++, at += 8)
        told->revision.superseded[i] = weir_big_get(at, 8);
    told->text_size = weir_big_get(at, 4);
    told->text = at + 4;
    return (size_t)(end - told->text) == told->text_size && told->text_size <= WEIR_REVISION_TEXT_MAX &&
           weir_revisions_checksum(revisions, told->text, told->text_size) == told->revision.checksum;
}

static bool is_of_another(const struct weir_revisions *revisions, const struct weir_revision_entry *entry,
                          const struct told *told)
{
    char name[WEIR_LIMIT_NAME_MAX + 1];
    uint64_t id[2];
    if (!revisions->name_of || !revisions->name_of((const char *)told->text, told->text_size, name))
        return false;
    weir_revisions_name_id(revisions, name, id);
    return id[0] != entry->id[0] || id[1] != entry->id[1];
}

static bool adopt(struct weir_revisions *revisions, struct weir_revision_entry *entry, const struct told *told)
{
    char *text = weir_revision_text(told->text, told->text_size);
    if (!text)
        return false;
    const bool newer = weir_revised_hear(&entry->revised, &told->revision);
    weir_assert(newer); /* the caller has looked */
    free(entry->text);
    entry->text = text;
    entry->size = told->text_size;
    memset(entry->node, 0, sizeof(entry->node));
    memcpy(entry->node, told->node, told->node_size);
    atomic_fetch_add(&revisions->generation, 1);
    return true;
}

static enum weir_revision_say hear(struct weir_revisions *revisions, struct weir_revision_entry *entry,
                                   const uint8_t *bytes, size_t size, bool whole, uint64_t wall_ns)
{
    struct told told = { 0 };
    if (size > 0 && (!read_head(bytes, size, &told) || (whole && !read_whole(revisions, bytes, size, &told))))
        return WEIR_REVISION_CORRUPT;
    if (size > 0 && weir_revision_newer(&told.revision, &entry->revised.newest)) {
        if (whole && is_of_another(revisions, entry, &told))
            return WEIR_REVISION_CORRUPT;
        if (!whole || !adopt(revisions, entry, &told))
            return WEIR_REVISION_NEWER;
    } else {
        (void)weir_revised_hear(&entry->revised, NULL); /* nothing that is new here */
    }
    weir_revisions_settle(revisions, entry, wall_ns);
    return weir_revision_newer(&entry->revised.newest, &told.revision) ? WEIR_REVISION_OLDER : WEIR_REVISION_SAME;
}

enum weir_revision_say weir_revisions_hear(struct weir_revisions *revisions, const uint64_t id[2], const void *bytes,
                                           size_t size, bool whole, uint64_t wall_ns)
{
    pthread_mutex_lock(&revisions->lock);
    struct weir_revision_entry *entry = weir_revisions_entry(revisions, id);
    enum weir_revision_say say = entry ? hear(revisions, entry, bytes, size, whole, wall_ns) : WEIR_REVISION_SAME;
    if (entry && say == WEIR_REVISION_SAME && size > 0 && entry->revised.newest.checksum == entry->revised.own)
        entry->revised.wanted = false;
    pthread_mutex_unlock(&revisions->lock);
    return say;
}

void weir_revisions_lies_there(struct weir_revisions *revisions, const uint64_t id[2], const void *bytes)
{
    struct told told;
    pthread_mutex_lock(&revisions->lock);
    struct weir_revision_entry *entry = weir_revisions_entry(revisions, id);
    if (entry && read_head(bytes, WEIR_REVISION_HEAD, &told))
        entry->at_engine = weir_max_u64(entry->at_engine, told.revision.number);
    pthread_mutex_unlock(&revisions->lock);
}

bool weir_revisions_met(struct weir_revisions *revisions, const char *name, uint64_t number)
{
    uint64_t id[2];
    weir_revisions_name_id(revisions, name, id);
    pthread_mutex_lock(&revisions->lock);
    struct weir_revision_entry *entry = weir_revisions_entry(revisions, id);
    bool beyond = entry && weir_revised_met(&entry->revised, number);
    pthread_mutex_unlock(&revisions->lock);
    return beyond;
}

bool weir_revisions_pass(struct weir_revisions *revisions, const uint64_t id[2], uint64_t wall_ns)
{
    pthread_mutex_lock(&revisions->lock);
    struct weir_revision_entry *entry = weir_revisions_entry(revisions, id);
    bool passes = entry && entry->text && weir_revised_passes(&entry->revised, wall_ns / WEIR_NS_PER_SECOND);
    atomic_fetch_add(&revisions->generation, passes);
    pthread_mutex_unlock(&revisions->lock);
    return passes;
}
