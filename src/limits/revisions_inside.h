/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside revisions.c, which knows the newest definitions and their bytes, and revisions_own.c, which takes what the
 * file says. Thread rule: whoever calls holds the lock, except for what is asked of an entry or of a text alone. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "limits/revisions.h"
#include "wire/gossip.h"

struct weir_revision_entry {
    uint64_t id[2];
    struct weir_revised revised;
    char node[WEIR_REVISION_NODE_MAX + 1]; /* of the newest */
    char *text;                            /* of the newest; NULL while there is none */
    size_t size;
    uint64_t at_engine; /* the newest number that the engine was seen to know */
    char *own;          /* what the file says; NULL: nothing any more */
    size_t own_size;
    bool kept;
};

struct weir_revisions {
    pthread_mutex_t lock;
    uint8_t secret[WEIR_GOSSIP_SECRET_SIZE];
    char node[WEIR_REVISION_NODE_MAX + 1];
    struct weir_revision_entry **entries; /* sorted by id */
    size_t count;
    weir_revision_name_fn *name_of; /* NULL: names are not looked at */
    bool started;                   /* what its file said then is there: from now on it is reloaded */
    _Atomic uint64_t generation;
};

struct weir_revision_entry *weir_revisions_entry(const struct weir_revisions *revisions, const uint64_t id[2]);
void weir_revisions_name_id(const struct weir_revisions *revisions, const char *name, uint64_t ret_id[2]);
uint64_t weir_revisions_checksum(const struct weir_revisions *revisions, const void *text, size_t size);

/* What the file says becomes the newest where that is due. */
void weir_revisions_settle(struct weir_revisions *revisions, struct weir_revision_entry *entry, uint64_t wall_ns);

int weir_revision_entry_compare(const void *a, const void *b); /* of two pointers to entries */
void weir_revision_entry_free(struct weir_revision_entry *entry);
char *weir_revision_text(const void *bytes, size_t size); /* a copy, with a zero behind it; NULL without memory */
