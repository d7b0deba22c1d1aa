/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the attributes of a request, in their order and byte by byte, with a copy of those of the last one. The cost
 * and the number of the setup must be the same too, so that a reload makes the copy void. Called by decide.c, before
 * and after it matches the rules (rules/match.c). */
#include "serve/recent.h"

#include <string.h>

static struct weir_slice part(const struct weir_attribute *attributes, size_t index)
{
    return index % 2 == 0 ? attributes[index / 2].name : attributes[index / 2].value;
}

bool weir_recent_match(const struct weir_recent *recent, uint64_t setup_number, const struct weir_attribute *attributes,
                       size_t count, uint64_t cost, struct weir_match *match)
{
    if (!recent->known || recent->setup_number != setup_number || recent->cost != cost || recent->count != count)
        return false;
    const uint8_t *at = recent->bytes;
    for (size_t i = 0; i < 2 * count; i++) {
        struct weir_slice own = part(attributes, i);
        if (own.size != recent->sizes[i] || (own.size > 0 && memcmp(own.data, at, own.size) != 0))
            return false;
        at += own.size;
    }
    match->count = 1;
    match->met = true;
    match->refused_by = NULL;
    match->lacks = NULL;
    match->lacks_count = recent->lacks_count;
    for (size_t i = 0; i < recent->lacks_count; i++)
        match->lacking[i] = recent->lacking[i];
    match->offs_count = 0;
    match->steps = 0;
    match->charges[0] = recent->charge;
    match->rules[0] = recent->rule;
    match->remote_count = recent->rule->limit.remote != NULL;
    match->remote_keys[0] = recent->remote_key;
    return true;
}

void weir_recent_remember(struct weir_recent *recent, uint64_t setup_number, const struct weir_attribute *attributes,
                          size_t count, uint64_t cost, const struct weir_match *match)
{
    size_t size = 0;
    recent->known = false;
    if (match->count != 1 || match->offs_count > 0 || count > WEIR_RECENT_ATTRIBUTES ||
        match->lacks_count > WEIR_RECENT_LACKS)
        return;
    for (size_t i = 0; i < 2 * count; i++) {
        struct weir_slice own = part(attributes, i);
        if (own.size > WEIR_RECENT_BYTES - size)
            return;
        if (own.size > 0)
            memcpy(recent->bytes + size, own.data, own.size);
        size += own.size;
        recent->sizes[i] = own.size;
    }
    recent->setup_number = setup_number;
    recent->cost = cost;
    recent->count = count;
    recent->lacks_count = match->lacks_count;
    for (size_t i = 0; i < match->lacks_count; i++)
        recent->lacking[i] = match->lacking[i];
    recent->charge = match->charges[0];
    recent->rule = match->rules[0];
    recent->remote_key = match->rules[0]->limit.remote ? match->remote_keys[0] : (struct weir_remote_key){ 0 };
    recent->known = true;
}
