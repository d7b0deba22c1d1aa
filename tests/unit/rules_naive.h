/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules as semantics.md states them, with no index: every limit is looked at, every override of it, in plain loops.
 * Shares nothing with src/rules but the configuration. */
#pragma once

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "rules/rules.h"

static inline bool naive_glob(const char *pattern, size_t m, const char *text, size_t n)
{
    if (m == 0)
        return n == 0;
    if (pattern[0] == '*')
        return naive_glob(pattern + 1, m - 1, text, n) || (n > 0 && naive_glob(pattern, m, text + 1, n - 1));
    return n > 0 && pattern[0] == text[0] && naive_glob(pattern + 1, m - 1, text + 1, n - 1);
}

static inline const struct weir_attribute *naive_find(const struct weir_attribute *attributes, size_t count,
                                                      const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (attributes[i].name.size == strlen(name) && memcmp(attributes[i].name.data, name, strlen(name)) == 0)
            return &attributes[i];
    return NULL;
}

/* The value as matching sees it: an IPv6 address in its one form, a mapped one as IPv4. */
static inline size_t naive_canonical(const struct weir_attribute *found, char *ret_text, size_t room)
{
    unsigned char bytes[16];
    size_t size = found->value.size < room - 1 ? found->value.size : room - 1;
    memcpy(ret_text, found->value.data, size);
    ret_text[size] = '\0';
    if (inet_pton(AF_INET6, ret_text, bytes) != 1)
        return size;
    bool mapped = memcmp(bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) == 0;
    inet_ntop(mapped ? AF_INET : AF_INET6, mapped ? bytes + 12 : bytes, ret_text, (socklen_t)room);
    return strlen(ret_text);
}

/* "ADDRESS/BITS" holds "ADDRESS" bit by bit. */
static inline bool naive_block(const char *block, const char *value)
{
    char address[64];
    unsigned char outer[16] = { 0 }, inner[16] = { 0 };
    const char *slash = strchr(block, '/');
    int family = strchr(block, ':') ? AF_INET6 : AF_INET;
    memcpy(address, block, (size_t)(slash - block));
    address[slash - block] = '\0';
    if (inet_pton(family, address, outer) != 1 || inet_pton(family, value, inner) != 1)
        return false;
    for (int i = 0; i < atoi(slash + 1); i++)
        if ((outer[i / 8] ^ inner[i / 8]) >> (7 - i % 8) & 1)
            return false;
    return true;
}

static inline bool naive_holds(const struct weir_condition *condition, const struct weir_attribute *attributes,
                               size_t count)
{
    const struct weir_attribute *found = naive_find(attributes, count, condition->attribute);
    bool any = false;
    char text[64];
    size_t size = found ? naive_canonical(found, text, sizeof(text)) : 0;
    if (!condition->terms)
        return found && naive_glob(condition->pattern.data, condition->pattern.size, text, size);
    for (size_t i = 0; i < condition->terms->count && found; i++) {
        const struct weir_condition_value *term = &condition->terms->list[i];
        any = any || (term->is_block ? naive_block(term->text.data, text)
                                     : naive_glob(term->text.data, term->text.size, text, size));
    }
    return any != condition->terms->negated;
}

static inline bool naive_limit_holds(const struct weir_config_limit *limit, const struct weir_attribute *attributes,
                                     size_t count)
{
    for (size_t i = 0; i < limit->match_count; i++)
        if (!naive_holds(&limit->match[i], attributes, count))
            return false;
    return true;
}

/* Whether the request lacks an attribute of the limit's key. */
static inline bool naive_lacks(const struct weir_config_limit *limit, const struct weir_attribute *attributes,
                               size_t count)
{
    for (size_t i = 0; i < limit->key_count; i++)
        if (!naive_find(attributes, count, limit->key[i]))
            return true;
    return false;
}

static inline size_t naive_literals(const char *pattern)
{
    size_t literals = 0;
    for (; *pattern; pattern++)
        literals += *pattern != '*';
    return literals;
}

/* How closely an override looks: exact values count more than any block, a longer block more than a shorter one and
 * more than any pattern, more literal bytes in patterns more than fewer. Of a list the loosest value counts. */
static inline size_t naive_aim(const struct weir_config_override *override)
{
    size_t aim = 0;
    for (size_t i = 0; i < override->conditions_count; i++) {
        const struct weir_condition *condition = &override->conditions[i];
        size_t least = SIZE_MAX, count = condition->terms ? condition->terms->count : 1;
        for (size_t j = 0; j < count; j++) {
            const char *text = condition->terms ? condition->terms->list[j].text.data : condition->pattern.data;
            size_t own = naive_literals(text);
            if (condition->terms && condition->terms->list[j].is_block)
                own = 2000 + (size_t)atoi(strchr(text, '/') + 1) + (strchr(text, ':') ? 0 : 96);
            else if (!strchr(text, '*'))
                own = 1000000;
            least = own < least ? own : least;
        }
        aim += least;
    }
    return aim;
}

/* The override that applies, NULL for none. */
static inline const struct weir_config_override *naive_override(const struct weir_config_limit *limit,
                                                                const struct weir_attribute *attributes, size_t count)
{
    const struct weir_config_override *best = NULL;
    for (size_t i = 0; i < limit->overrides_count; i++) {
        const struct weir_config_override *override = &limit->overrides[i];
        bool holds = true;
        for (size_t j = 0; j < override->conditions_count; j++)
            holds = holds && naive_holds(&override->conditions[j], attributes, count);
        if (holds && (!best || naive_aim(override) > naive_aim(best)))
            best = override;
    }
    return best;
}
