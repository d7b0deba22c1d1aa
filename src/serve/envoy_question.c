/* SPDX-License-Identifier: Apache-2.0
 *
 * From a descriptor to the attributes of a request: the domain, and each entry. Limits may go by the whole of a
 * descriptor and not only by parts of it. Where one does, the keys in their order are an attribute too, and a key that
 * has stood there before gets its number, for an attribute stands in a request once. Called by envoy.c. */
#include <stdio.h>

#include "base/checked.h"
#include "rules/envoy_rules.h"
#include "rules/pattern.h"
#include "serve/envoy_inside.h"

_Static_assert(WEIR_ENVOY_ENTRIES_MAX + 1 == WEIR_ATTRIBUTES_MAX, "what is read can be asked");

/* "tenant,path"; of size 0: no limit has so many, or so long ones. */
static struct weir_slice join(struct weir_envoy_work *work, size_t descriptor)
{
    const struct weir_envoy_descriptor *one = &work->request.descriptors[descriptor];
    char *const keys = work->keys[descriptor];
    size_t used = 0;
    if (one->count == WEIR_ENVOY_ENTRIES_MAX)
        return (struct weir_slice){ keys, 0 };
    for (size_t i = 0; i < one->count; i++) {
        const struct weir_slice key = work->request.entries[one->first + i].key;
        if (key.size + 1 > sizeof(work->keys[0]) - used)
            return (struct weir_slice){ keys, 0 };
        if (i > 0)
            keys[used++] = ',';
        memcpy(keys + used, key.data, key.size);
        used += key.size;
    }
    return (struct weir_slice){ keys, used };
}

/* "generic_key#2" of the second; what is too long for an attribute's name is one that no limit looks at. */
static struct weir_slice number(struct weir_envoy_work *work, const struct weir_envoy_descriptor *one, size_t entry)
{
    const struct weir_envoy_entry *entries = &work->request.entries[one->first];
    const struct weir_slice key = entries[entry].key;
    char *name = work->names[one->first + entry];
    unsigned before = 0;
    for (size_t i = 0; i < entry; i++)
        before += weir_slice_equal(entries[i].key, key);
    if (before == 0)
        return key;
    if (key.size > WEIR_ATTRIBUTE_NAME_MAX - 3)
        return (struct weir_slice){ "", 0 };
    const int size = snprintf(name, sizeof(work->names[0]), "%.*s#%u", (int)key.size, (const char *)key.data,
                              before + 1);
    return (struct weir_slice){ name, (size_t)size };
}

void weir_envoy_questions_make(struct weir_envoy_work *work, const struct weir_rules *rules)
{
    static const struct weir_slice name = { WEIR_ENVOY_DESCRIPTOR, sizeof(WEIR_ENVOY_DESCRIPTOR) - 1 };
    const struct weir_envoy_request *request = &work->request;
    const bool whole = weir_rules_looks_at(rules, name);
    struct weir_attribute *attribute = work->attributes;
    for (size_t i = 0; i < request->count; i++) {
        const struct weir_envoy_descriptor *one = &request->descriptors[i];
        const struct weir_attribute *first = attribute;
        const struct weir_slice keys = whole ? join(work, i) : (struct weir_slice){ "", 0 };
        *attribute++ = (struct weir_attribute){ { "domain", 6 }, request->domain };
        if (keys.size > 0)
            *attribute++ = (struct weir_attribute){ name, keys };
        for (size_t j = 0; j < one->count; j++) {
            const struct weir_envoy_entry *entry = &request->entries[one->first + j];
            *attribute++ = (struct weir_attribute){ whole ? number(work, one, j) : entry->key, entry->value };
        }
        /* What only looks asks whether one unit would be admitted now. */
        const uint64_t hits = one->negative ? 0 : weir_envoy_hits(request, i);
        work->questions[i] = (struct weir_question){
            .attributes = first, .count = (size_t)(attribute - first), .cost = weir_max_u64(hits, 1), .peek = hits == 0
        };
    }
}
