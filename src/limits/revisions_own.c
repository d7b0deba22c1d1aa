/* SPDX-License-Identifier: Apache-2.0
 *
 * What the file of a node says of its limits. All that needs memory is made first, so that without it nothing changes:
 * half a file would be told to other nodes as if the rest had been taken out of it. Called by serve/own_limits.c. */
#include "limits/revisions_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* What a limit of the file needs of memory, before anything is changed. */
struct claim {
    struct weir_revision_entry *entry; /* NULL: it is too long for a revision */
    char *text;
    uint64_t checksum;
    bool made; /* the entry is new */
};

static int claim_make(const struct weir_revisions *revisions, const struct weir_revision_own *own, struct claim *claim)
{
    uint64_t id[2];
    if (own->text.size > WEIR_REVISION_TEXT_MAX)
        return 0;
    weir_revisions_name_id(revisions, own->name, id);
    claim->entry = weir_revisions_entry(revisions, id);
    claim->made = !claim->entry;
    if (claim->made)
        claim->entry = calloc(1, sizeof(*claim->entry));
    claim->text = claim->entry ? weir_revision_text(own->text.data, own->text.size) : NULL;
    if (claim->entry)
        memcpy(claim->entry->id, id, sizeof(id));
    claim->checksum = weir_revisions_checksum(revisions, own->text.data, own->text.size);
    return claim->text && (id[0] || id[1]) && claim->checksum ? 0 : WEIR_ENOMEM; /* zeros: it could not be signed */
}

static void claims_free(struct claim *claims, size_t count)
{
    for (size_t i = 0; claims && i < count; i++) {
        free(claims[i].text);
        if (claims[i].made)
            free(claims[i].entry);
    }
    free(claims);
}

/* What the file no longer says, those that it said last first; what there is no room for is forgotten. `entries` has
 * room for them. */
static size_t keep_gone(struct weir_revisions *revisions, struct weir_revision_entry **entries)
{
    size_t gone = 0;
    for (int before = 0; before < 2; before++) {
        for (size_t i = 0; i < revisions->count; i++) {
            struct weir_revision_entry *entry = revisions->entries[i];
            if (!entry || entry->kept || (entry->own == NULL) != before)
                continue;
            revisions->entries[i] = NULL;
            if (gone == WEIR_REVISIONS_GONE_MAX) {
                weir_revision_entry_free(entry);
                continue;
            }
            entries[gone++] = entry;
        }
    }
    for (size_t i = 0; i < gone; i++) {
        free(entries[i]->own);
        entries[i]->own = NULL;
        entries[i]->revised.owned = entries[i]->revised.wanted = false;
    }
    return gone;
}

/* All of it is there: from here on nothing can fail. `entries` has room. Returns how many it has. */
static size_t own_all(struct weir_revisions *revisions, const struct weir_revision_own *own, struct claim *claims,
                      size_t count, struct weir_revision_entry **entries, uint64_t wall_ns)
{
    size_t kept = 0;
    for (size_t i = 0; i < revisions->count; i++)
        revisions->entries[i]->kept = false;
    for (size_t i = 0; i < count; i++) {
        struct weir_revision_entry *entry = claims[i].entry;
        if (!entry)
            continue;
        weir_assert(!entry->kept); /* each name once */
        entries[kept++] = entry;
        entry->kept = true;
        free(entry->own);
        entry->own = claims[i].text;
        entry->own_size = own[i].text.size;
        weir_revised_own(&entry->revised, claims[i].checksum, own[i].given, revisions->started);
        claims[i] = (struct claim){ 0 };
        weir_revisions_settle(revisions, entry, wall_ns);
    }
    return kept + keep_gone(revisions, entries + kept);
}

int weir_revisions_own(struct weir_revisions *revisions, const struct weir_revision_own *own, size_t count,
                       uint64_t wall_ns)
{
    struct weir_revision_entry **entries = calloc(count + WEIR_REVISIONS_GONE_MAX, sizeof(entries[0]));
    struct claim *claims = calloc(count + 1, sizeof(claims[0]));
    int error = entries && claims ? 0 : WEIR_ENOMEM;
    pthread_mutex_lock(&revisions->lock);
    for (size_t i = 0; i < count && !error; i++)
        error = claim_make(revisions, &own[i], &claims[i]);
    if (!error) {
        const size_t kept = own_all(revisions, own, claims, count, entries, wall_ns);
        free(revisions->entries);
        revisions->entries = entries;
        revisions->count = kept;
        revisions->started = true;
        qsort(entries, kept, sizeof(entries[0]), weir_revision_entry_compare);
        entries = NULL;
    }
    pthread_mutex_unlock(&revisions->lock);
    free(entries);
    claims_free(claims, count);
    return error;
}
