/* SPDX-License-Identifier: Apache-2.0
 *
 * Creating a set has three steps: hash maps with a random key, the index of the configuration (compile.c), and last the
 * limiter, which takes all its limits at once; nothing can fail after that. Limits that are kept elsewhere (`remote`)
 * are not given to the limiter. Called by serve/setup.c and ruleset.c; matching is in match.c, explaining in
 * explain.c. */
#include "rules/rules.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "rules/compile.h"
#include "rules/yaml_node.h"

/* The limiter's fault.field is "NAME.FIELD", cut to fit: back to a place in the text. */
static struct weir_mark place_of(const struct weir_config *config, const char *field)
{
    for (size_t i = 0; i < config->limits_count; i++) {
        const struct weir_config_limit *limit = &config->limits[i];
        size_t size = strlen(limit->name);
        size_t room = sizeof(((struct weir_fault *)0)->field) - 1;
        bool cut = size >= room;
        if (strncmp(field, limit->name, cut ? room : size) != 0 || (!cut && field[size] != '.'))
            continue;
        const char *last = cut ? "" : field + size + 1;
        if (strcmp(last, "tz") == 0)
            return limit->mark_tz;
        return strcmp(last, "burst") == 0 ? limit->mark_burst : limit->mark_rate;
    }
    return (struct weir_mark){ 0, 0 };
}

/* The last step: nothing can fail once the limiter has the new set. */
static int define(struct weir_rules *rules, const struct weir_config *config, struct weir_config_fault *ret_fault)
{
    struct weir_fault fault = { "", "" };
    size_t count = 0;
    struct weir_limit_def *defs = calloc(rules->entries_count + 1, sizeof(*defs));
    weir_limit_id *ids = calloc(rules->entries_count + 1, sizeof(*ids));
    int error = defs && ids ? 0 : WEIR_ENOMEM;
    for (size_t i = 1; i <= rules->entries_count && !error; i++) {
        const struct weir_rule *rule = &rules->entries[i].rule;
        if (!rule->limit.remote)
            defs[count++] = (struct weir_limit_def){ rule->name, rule->variant, rule->limit.spec };
    }
    if (!error)
        error = weir_limiter_define(rules->limiter, defs, count, NULL, ids, &fault);
    count = 0;
    for (size_t i = 1; i <= rules->entries_count && !error; i++)
        if (!rules->entries[i].rule.limit.remote)
            rules->entries[i].rule.id = ids[count++];
    free(defs);
    free(ids);
    if (error && fault.text[0])
        return weir_config_fail(ret_fault, error, place_of(config, fault.field), "%s %s", fault.field, fault.text);
    return error ? weir_config_fail(ret_fault, error, (struct weir_mark){ 0, 0 }, "%s", weir_error_text(error)) : 0;
}

static int tables_init(struct weir_rules *rules)
{
    struct weir_sip_key key;
    if (getrandom(&key, sizeof(key), 0) != (ssize_t)sizeof(key))
        return WEIR_EIO;
    rules->arena = weir_arena_create();
    int error = rules->arena ? weir_map_init(&rules->names, &key) : WEIR_ENOMEM;
    return error ? error : weir_map_init(&rules->exacts, &key);
}

int weir_rules_create(struct weir_limiter *limiter, const struct weir_config *config, struct weir_rules **ret_rules,
                      struct weir_config_fault *ret_fault)
{
    struct weir_rules *rules = calloc(1, sizeof(*rules));
    int error = rules ? tables_init(rules) : WEIR_ENOMEM;
    if (error)
        (void)weir_config_fail(ret_fault, error, (struct weir_mark){ 0, 0 }, "%s", weir_error_text(error));
    if (!error)
        error = weir_rules_compile(rules, config, ret_fault);
    if (!error) {
        rules->limiter = limiter;
        error = define(rules, config, ret_fault);
    }
    if (error) {
        weir_rules_destroy(rules);
        return error;
    }
    *ret_rules = rules;
    return 0;
}

void weir_rules_destroy(struct weir_rules *rules)
{
    if (!rules)
        return;
    for (size_t i = 1; i <= rules->entries_count; i++)
        weir_remote_limit_drop(rules->entries[i].rule.limit.remote);
    weir_paths_deinit(&rules->paths);
    weir_map_deinit(&rules->names);
    weir_map_deinit(&rules->exacts);
    weir_arena_destroy(rules->arena);
    free(rules);
}

size_t weir_rules_count(const struct weir_rules *rules)
{
    return rules->limits_count;
}

size_t weir_rules_variants(const struct weir_rules *rules)
{
    return rules->entries_count;
}

const struct weir_rule *weir_rules_variant(const struct weir_rules *rules, size_t index)
{
    weir_assert(index < rules->entries_count);
    return &rules->entries[index + 1].rule;
}

const struct weir_rule *weir_rules_limit(const struct weir_rules *rules, size_t index)
{
    weir_assert(index < rules->limits_count);
    return &rules->entries[rules->limits[index].first_entry].rule;
}

const struct weir_rule *weir_rules_rollout(const struct weir_rules *rules, size_t index)
{
    weir_assert(index < rules->limits_count);
    const struct weir_compiled_limit *limit = &rules->limits[index];
    const struct weir_rule *last = &rules->entries[limit->first_entry + limit->entries_count - 1].rule;
    return last->rollout ? last : NULL;
}

size_t weir_rules_levels(const struct weir_rules *rules, size_t index)
{
    weir_assert(index < rules->limits_count);
    return rules->limits[index].levels_count;
}

const struct weir_rule *weir_rules_level_at(const struct weir_rules *rules, size_t index, size_t number,
                                            struct weir_mark *ret_mark)
{
    weir_assert(number < weir_rules_levels(rules, index));
    const struct weir_compiled_entry *entry = &rules->entries[rules->limits[index].first_level + number];
    if (ret_mark)
        *ret_mark = entry->mark;
    return &entry->rule;
}

const struct weir_rule *weir_rules_level(const struct weir_rules *rules, size_t index, const char *name)
{
    for (size_t i = 0; i < weir_rules_levels(rules, index); i++) {
        const struct weir_rule *rule = weir_rules_level_at(rules, index, i, NULL);
        if (strcmp(rule->level, name) == 0)
            return rule;
    }
    return NULL;
}

size_t weir_rules_overrides(const struct weir_rules *rules, size_t index)
{
    weir_assert(index < rules->limits_count);
    return rules->limits[index].entries_count - 1;
}

const struct weir_rule *weir_rules_override(const struct weir_rules *rules, size_t index, size_t number,
                                            struct weir_mark *ret_mark)
{
    weir_assert(number < weir_rules_overrides(rules, index));
    const struct weir_compiled_entry *entry = &rules->entries[rules->limits[index].first_entry + 1 + number];
    if (ret_mark)
        *ret_mark = entry->mark;
    return &entry->rule;
}

bool weir_rules_looks_at(const struct weir_rules *rules, struct weir_slice name)
{
    return weir_map_find(&rules->names, 0, name) > 0;
}
