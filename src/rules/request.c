/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks each attribute of a request up once by its name, drops those that no limit looks at, and keeps an array of
 * indexes sorted by attribute, in which a value is found by binary search. match.c and explain.c make one for each
 * call. */
#include "rules/request.h"

#include <stdio.h>
#include <string.h>

#include "base/fault_format.h"
#include "rules/rollout.h"

/* Insertion by attribute; false if it is there already. */
static bool place(struct weir_request *request)
{
    uint32_t attribute = request->values[request->count].attribute;
    size_t at = request->count;
    while (at > 0 && request->values[request->order[at - 1]].attribute > attribute)
        at--;
    if (at > 0 && request->values[request->order[at - 1]].attribute == attribute)
        return false;
    memmove(&request->order[at + 1], &request->order[at], request->count - at);
    request->order[at] = (uint8_t)request->count++;
    return true;
}

int weir_request_init(struct weir_request *request, const struct weir_rules *rules,
                      const struct weir_attribute *attributes, size_t count, struct weir_fault *ret_fault)
{
    request->count = 0;
    request->steps = 0;
    if (count > WEIR_ATTRIBUTES_MAX)
        return weir_fault_format(ret_fault, WEIR_ELIMIT, "attributes", "must be at most %d", WEIR_ATTRIBUTES_MAX);
    for (size_t i = 0; i < count; i++) {
        uint32_t attribute = weir_map_find(&rules->names, 0, attributes[i].name);
        request->steps++;
        if (!attribute)
            continue; /* no limit looks at it */
        struct weir_request_value *value = &request->values[request->count];
        value->attribute = attribute;
        value->value = attributes[i].value.size ? attributes[i].value : (struct weir_slice){ "", 0 }; /* never NULL */
        value->six = false;
        if (weir_literal_parse(attributes[i].value, &value->literal)) {
            value->six = value->literal.six;
            value->value = (struct weir_slice){ value->literal.text, strlen(value->literal.text) };
        }
        if (!place(request))
            return weir_fault_format(ret_fault, WEIR_EDUP, rules->attributes[attribute].name,
                                     "the attribute is there twice");
    }
    return 0;
}

const struct weir_request_value *weir_request_find(const struct weir_request *request, uint32_t attribute)
{
    size_t low = 0;
    size_t high = request->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct weir_request_value *value = &request->values[request->order[middle]];
        if (value->attribute == attribute)
            return value;
        if (value->attribute < attribute)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

uint32_t weir_request_lack(const struct weir_request *request, const struct weir_compiled_limit *limit)
{
    for (uint32_t i = 0; i < limit->key_count; i++)
        if (!weir_request_find(request, limit->key[i]))
            return limit->key[i];
    return 0;
}

void weir_request_key(const struct weir_request *request, const struct weir_compiled_limit *limit,
                      struct weir_slice ret_values[WEIR_KEY_VALUES_MAX],
                      char ret_cut[WEIR_KEY_VALUES_MAX][WEIR_LITERAL_TEXT_MAX])
{
    for (uint32_t i = 0; i < limit->key_count; i++) {
        const struct weir_request_value *value = weir_request_find(request, limit->key[i]);
        ret_values[i] = value ? value->value : (struct weir_slice){ NULL, WEIR_VALUE_ABSENT };
        if (value && value->six && limit->ipv6_prefix < 128)
            ret_values[i] = (struct weir_slice){ ret_cut[i],
                                                 weir_literal_cut(&value->literal, limit->ipv6_prefix, ret_cut[i]) };
    }
}

bool weir_request_is_for(const struct weir_request *request, const struct weir_rules *rules,
                         const struct weir_compiled_entry *entry)
{
    const struct weir_compiled_limit *limit = &rules->limits[entry->rule.index];
    struct weir_slice values[WEIR_KEY_VALUES_MAX];
    char cut[WEIR_KEY_VALUES_MAX][WEIR_LITERAL_TEXT_MAX];
    if (!entry->rule.rollout)
        return true;
    weir_request_key(request, limit, values, cut);
    return weir_rollout_has(rules->secret, entry->rule.name, values, limit->key_count, entry->rule.rollout);
}
