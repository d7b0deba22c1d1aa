/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of a key once more, after match.c has hashed and dropped them: for people who are told whom a limit
 * refuses, and for bans. Called by serve/refused.c and serve/excepted.c. */
#include <string.h>

#include "rules/compiled.h"
#include "rules/literal.h"

const struct weir_attribute *weir_attribute_find(const struct weir_attribute *attributes, size_t count,
                                                 const char *name)
{
    const size_t size = strlen(name);
    for (size_t i = 0; i < count; i++) {
        if (attributes[i].name.size == size && memcmp(attributes[i].name.data, name, size) == 0)
            return &attributes[i];
    }
    return NULL;
}

void weir_rules_key(const struct weir_rules *rules, const struct weir_rule *rule,
                    const struct weir_attribute *attributes, size_t count, struct weir_rules_key *ret_key)
{
    const struct weir_compiled_limit *limit = &rules->limits[rule->index];
    ret_key->count = limit->key_count;
    for (uint32_t i = 0; i < limit->key_count; i++) {
        const struct weir_attribute *attribute = weir_attribute_find(attributes, count,
                                                                     rules->attributes[limit->key[i]].name);
        ret_key->values[i] = attribute ? weir_literal_canonical(attribute->value, limit->ipv6_prefix, ret_key->texts[i])
                                       : (struct weir_slice){ NULL, WEIR_VALUE_ABSENT };
    }
}

const char *weir_rules_key_name(const struct weir_rules *rules, const struct weir_rule *rule, size_t i)
{
    return rules->attributes[rules->limits[rule->index].key[i]].name;
}
