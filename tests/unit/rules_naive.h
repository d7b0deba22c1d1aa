/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules as semantics.md states them, with no index: every limit is looked at, every override of it, in plain loops.
 * Shares nothing with src/rules but the configuration. */
#ifndef WEIR_TESTS_RULES_NAIVE_H
#define WEIR_TESTS_RULES_NAIVE_H

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

static inline bool naive_holds(const struct weir_condition *condition, const struct weir_attribute *attributes,
                               size_t count)
{
    const struct weir_attribute *found = naive_find(attributes, count, condition->attribute);
    return found && naive_glob(condition->pattern.data, condition->pattern.size, found->value.data, found->value.size);
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

/* How well an override is aimed: exact values count more than any number of literal bytes in patterns. */
static inline size_t naive_aim(const struct weir_config_override *override)
{
    size_t aim = 0;
    for (size_t i = 0; i < override->conditions_count; i++) {
        const char *pattern = override->conditions[i].pattern.data;
        if (strchr(pattern, '*') == NULL)
            aim += 1000000;
        else
            for (; *pattern; pattern++)
                aim += *pattern != '*';
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

#endif
