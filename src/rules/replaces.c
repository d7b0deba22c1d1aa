/* SPDX-License-Identifier: Apache-2.0
 *
 * Names are checked when all limits of a file are read, and become indexes when all are compiled. A match tells which
 * of its limits replace others (match.c); serve/envoy.c gathers these over all descriptors, and what they replace is
 * taken out of each match here. Called by limit_decode.c, config.c, compile.c and serve/decide_together.c. */
#include "rules/replaces.h"

#include <string.h>

#include "rules/map.h"

static const struct weir_sip_key fixed = { 0, 0 }; /* a file's author is no attacker of his own file */

static struct weir_slice slice_of(const char *text)
{
    return (struct weir_slice){ text, strlen(text) };
}

int weir_replaces_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                         void *target)
{
    struct weir_config_limit *limit = target;
    const struct weir_field name = { .name = "a name in replaces", .max = WEIR_LIMIT_NAME_MAX };
    size_t count = 0;
    int error = weir_decode_list(decode, value, field->name, 1, WEIR_REPLACES_MAX, sizeof(*limit->replaces),
                                 &limit->replaces);
    for (const struct weir_yaml_node *item = value->first; item && !error; item = item->next)
        error = weir_decode_text(decode, item, &name, &limit->replaces[count++]);
    limit->replaces_count = count;
    limit->mark_replaces = value->mark;
    return error;
}

static bool any_replaces(const struct weir_config *config)
{
    for (size_t i = 0; i < config->limits_count; i++)
        if (config->limits[i].replaces_count > 0)
            return true;
    return false;
}

/* From a limit's name to its index and 1; of two of one name, which are refused elsewhere, the first. */
static int names_make(const struct weir_config *config, struct weir_map *names)
{
    int error = weir_map_init(names, &fixed);
    for (size_t i = 0; i < config->limits_count && !error; i++) {
        const struct weir_slice name = slice_of(config->limits[i].name);
        if (!weir_map_find(names, 0, name))
            error = weir_map_insert(names, 0, name, (uint32_t)i + 1);
    }
    return error;
}

int weir_replaces_check(struct weir_decode *decode)
{
    const struct weir_config *config = decode->config;
    struct weir_map names = { .slots = NULL };
    int error = any_replaces(config) && names_make(config, &names) ? weir_decode_nomem(decode) : 0;
    for (size_t i = 0; i < config->limits_count && !error; i++) {
        const struct weir_config_limit *limit = &config->limits[i];
        for (size_t j = 0; j < limit->replaces_count && !error; j++) {
            const uint32_t found = weir_map_find(&names, 0, slice_of(limit->replaces[j]));
            if (found == i + 1)
                error = weir_config_fail(decode->fault, WEIR_EINVAL, limit->mark_replaces,
                                         "limit \"%.64s\" replaces itself", limit->name);
            else if (found == 0)
                error = weir_config_fail(decode->fault, WEIR_ENOENT, limit->mark_replaces,
                                         "limit \"%.64s\" replaces \"%.64s\", and there is none of that name",
                                         limit->name, limit->replaces[j]);
        }
    }
    weir_map_deinit(&names);
    return error;
}

static int limit_compile(struct weir_rules *rules, const struct weir_config_limit *limit, const struct weir_map *names,
                         struct weir_compiled_limit *compiled)
{
    compiled->replaces = weir_arena_alloc(rules->arena, limit->replaces_count, sizeof(*compiled->replaces));
    if (limit->replaces_count > 0 && !compiled->replaces)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < limit->replaces_count; i++) {
        const uint32_t found = weir_map_find(names, 0, slice_of(limit->replaces[i]));
        if (found > 0)
            compiled->replaces[compiled->replaces_count++] = found - 1;
    }
    rules->replaces = rules->replaces || compiled->replaces_count > 0;
    return 0;
}

int weir_replaces_compile(struct weir_rules *rules, const struct weir_config *config,
                          struct weir_config_fault *ret_fault)
{
    struct weir_map names = { .slots = NULL };
    if (!any_replaces(config))
        return 0;
    int error = names_make(config, &names);
    for (size_t i = 0; i < config->limits_count && !error; i++)
        error = limit_compile(rules, &config->limits[i], &names, &rules->limits[i]);
    weir_map_deinit(&names);
    return error ? weir_config_fail(ret_fault, error, (struct weir_mark){ 0, 0 }, "out of memory") : 0;
}

bool weir_rules_replace(const struct weir_rules *rules)
{
    return rules->replaces;
}

static bool is_replaced(const struct weir_rules *rules, uint32_t index, const struct weir_rule *const *by, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct weir_compiled_limit *limit = &rules->limits[by[i]->index];
        for (uint32_t j = 0; j < limit->replaces_count; j++)
            if (limit->replaces[j] == index)
                return true;
    }
    return false;
}

size_t weir_match_replace(const struct weir_rules *rules, struct weir_match *match, const struct weir_rule *const *by,
                          size_t count)
{
    size_t replaced = 0;
    for (size_t i = match->count; i-- > 0;) {
        if (!is_replaced(rules, match->rules[i]->index, by, count))
            continue;
        weir_match_remove(match, i);
        replaced++;
    }
    return replaced;
}
