/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/compile.h"

#include <string.h>

#include "base/assert.h"
#include "base/siphash.h"
#include "core/share/split.h"
#include "rules/pattern.h"
#include "rules/sharing_decode.h"
#include "rules/yaml_node.h"

/* A pattern with a `*`, kept until all of its attribute's are known. */
struct glob_item {
    struct glob_item *next;
    struct weir_glob glob;
    struct weir_mark mark;
};

struct compiler {
    struct weir_rules *rules;
    const struct weir_config *config;
    struct weir_map patterns; /* (attribute, pattern) to condition */
    struct glob_item **globs; /* by attribute */
    uint32_t conditions_count;
    struct weir_config_fault *fault;
};

/* One condition on the way to a path. */
struct wanted {
    uint32_t attribute;
    uint32_t condition;
    struct weir_slice pattern;
    struct weir_mark mark;
};

static int nomem(struct compiler *compiler)
{
    return weir_config_fail(compiler->fault, WEIR_ENOMEM, (struct weir_mark){ 0, 0 }, "out of memory");
}

static struct weir_slice slice_of(const char *text)
{
    return (struct weir_slice){ text, strlen(text) };
}

static uint32_t attribute_of(const struct compiler *compiler, const char *name)
{
    return weir_map_find(&compiler->rules->names, 0, slice_of(name));
}

static int attribute_add(struct compiler *compiler, const char *name)
{
    struct weir_rules *rules = compiler->rules;
    if (attribute_of(compiler, name))
        return 0;
    const char *copy = weir_arena_copy(rules->arena, name, strlen(name));
    if (!copy || weir_map_insert(&rules->names, 0, slice_of(copy), (uint32_t)rules->attributes_count + 1) != 0)
        return nomem(compiler);
    rules->attributes_count++;
    return 0;
}

static int attributes_add(struct compiler *compiler, const struct weir_config_limit *limit)
{
    int error = 0;
    for (size_t i = 0; i < limit->match_count && !error; i++)
        error = attribute_add(compiler, limit->match[i].attribute);
    for (size_t i = 0; i < limit->key_count && !error; i++)
        error = attribute_add(compiler, limit->key[i]);
    if (!error && limit->cost_attribute)
        error = attribute_add(compiler, limit->cost_attribute);
    return error;
}

static int attributes_compile(struct compiler *compiler, const struct weir_config *config)
{
    struct weir_rules *rules = compiler->rules;
    int error = 0;
    for (size_t i = 0; i < config->limits_count && !error; i++)
        error = attributes_add(compiler, &config->limits[i]);
    if (error)
        return error;
    rules->attributes = weir_arena_alloc(rules->arena, rules->attributes_count + 1, sizeof(*rules->attributes));
    compiler->globs = weir_arena_alloc(rules->arena, rules->attributes_count + 1, sizeof(*compiler->globs));
    if (!rules->attributes || !compiler->globs)
        return nomem(compiler);
    for (size_t i = 0; i < rules->names.slots_count; i++)
        if (rules->names.slots[i].value)
            rules->attributes[rules->names.slots[i].value].name = rules->names.slots[i].bytes.data;
    return 0;
}

static int glob_add(struct compiler *compiler, const struct wanted *wanted)
{
    struct glob_item *item = weir_arena_alloc(compiler->rules->arena, 1, sizeof(*item));
    if (!item)
        return nomem(compiler);
    *item = (struct glob_item){ compiler->globs[wanted->attribute],
                                { wanted->pattern, wanted->condition, false },
                                wanted->mark };
    compiler->globs[wanted->attribute] = item;
    return 0;
}

/* Numbers the condition, and enters a new one where match will look for it. */
static int condition_intern(struct compiler *compiler, struct wanted *wanted)
{
    struct weir_rules *rules = compiler->rules;
    wanted->condition = weir_map_find(&compiler->patterns, wanted->attribute, wanted->pattern);
    if (wanted->condition)
        return 0;
    wanted->condition = ++compiler->conditions_count;
    if (weir_map_insert(&compiler->patterns, wanted->attribute, wanted->pattern, wanted->condition) != 0)
        return nomem(compiler);
    if (weir_pattern_is_any(wanted->pattern))
        rules->attributes[wanted->attribute].any = wanted->condition;
    else if (!weir_pattern_is_exact(wanted->pattern))
        return glob_add(compiler, wanted);
    else if (weir_map_insert(&rules->exacts, wanted->attribute, wanted->pattern, wanted->condition) != 0)
        return nomem(compiler);
    return 0;
}

static bool is_before(const struct wanted *a, const struct wanted *b)
{
    return a->attribute != b->attribute ? a->attribute < b->attribute : a->condition < b->condition;
}

static void wanted_sort(struct wanted *wanted, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && is_before(&wanted[j], &wanted[j - 1]); j--) {
            struct wanted swap = wanted[j];
            wanted[j] = wanted[j - 1];
            wanted[j - 1] = swap;
        }
}

/* "Any" is implied by every other condition on the same attribute. */
static bool is_implied(const struct wanted *wanted, size_t count, size_t index)
{
    if (!weir_pattern_is_any(wanted[index].pattern))
        return false;
    for (size_t i = 0; i < count; i++)
        if (i != index && wanted[i].attribute == wanted[index].attribute &&
            (!weir_pattern_is_any(wanted[i].pattern) || i < index))
            return true;
    return false;
}

static int path_make(struct compiler *compiler, const struct wanted *all, size_t count, uint32_t *ret_node)
{
    struct wanted kept[WEIR_CONDITIONS_MAX];
    size_t kept_count = 0;
    uint32_t node = WEIR_PATHS_ROOT;
    for (size_t i = 0; i < count; i++) {
        if (is_implied(all, count, i))
            continue;
        kept[kept_count] = all[i];
        int error = condition_intern(compiler, &kept[kept_count++]);
        if (error)
            return error;
    }
    wanted_sort(kept, kept_count);
    for (size_t i = 0; i < kept_count; i++) {
        bool twice = i > 0 && kept[i].condition == kept[i - 1].condition;
        if (!twice && weir_paths_grow(&compiler->rules->paths, node, kept[i].condition, &node) != 0)
            return nomem(compiler);
    }
    *ret_node = node;
    return 0;
}

static int conditions_copy(struct compiler *compiler, const struct weir_condition *conditions, size_t count,
                           struct weir_compiled_entry *entry, struct wanted *wanted)
{
    struct weir_arena *arena = compiler->rules->arena;
    entry->conditions = weir_arena_alloc(arena, count, sizeof(*entry->conditions));
    entry->conditions_count = (uint32_t)count;
    if (count && !entry->conditions)
        return nomem(compiler);
    for (size_t i = 0; i < count; i++) {
        struct weir_slice pattern = conditions[i].pattern;
        pattern.data = weir_arena_copy(arena, pattern.data, pattern.size);
        if (!pattern.data)
            return nomem(compiler);
        uint32_t attribute = attribute_of(compiler, conditions[i].attribute);
        entry->conditions[i] = (struct weir_compiled_condition){ attribute, pattern };
        wanted[i] = (struct wanted){ attribute, 0, pattern, conditions[i].mark };
    }
    return 0;
}

/* More exact values first, then more bytes that are not `*`, then the earlier in the file. 0 is the limit itself. */
static uint64_t rank_of(const struct weir_config_override *override, size_t index)
{
    uint64_t exact = 0;
    uint64_t literal_bytes = 0;
    for (size_t i = 0; i < override->conditions_count; i++) {
        struct weir_slice pattern = override->conditions[i].pattern;
        exact += weir_pattern_is_exact(pattern);
        literal_bytes += weir_pattern_is_exact(pattern) ? 0 : weir_pattern_literal_bytes(pattern);
    }
    weir_assert(literal_bytes < 1 << 24 && index < 0xffffff);
    return exact << 48 | literal_bytes << 24 | (0xffffff - index);
}

static bool is_remote(const struct weir_config *config, enum weir_sharing sharing)
{
    bool engine = config->redis.servers_count > 0;
    return sharing == WEIR_SHARING_EXACT ? engine : sharing != WEIR_SHARING_SPLIT;
}

/* The same on every node. */
static uint64_t variant_of(const struct weir_rule *rule)
{
    static const struct weir_sip_key fixed = { 0, 0 };
    return rule->variant[0] ? weir_siphash(&fixed, rule->variant, strlen(rule->variant)) : 0;
}

/* How nodes share the rule, whose spec is there. Sharing was checked with the configuration. */
static int rule_share(struct compiler *compiler, const struct weir_config_limit *limit, struct weir_rule *rule)
{
    const struct weir_config *config = compiler->config;
    uint32_t nodes = weir_config_nodes(config);
    bool slack = limit->sharing == WEIR_SHARING_BATCHED || limit->sharing == WEIR_SHARING_GOSSIP;
    rule->sharing = limit->sharing;
    rule->interval_ns = limit->interval_ns;
    rule->chunk_ttl_ns = limit->chunk_ttl_ns;
    rule->deadline_ns = limit->deadline_ns;
    rule->on_failure = limit->on_failure;
    rule->whole = rule->spec;
    rule->share = nodes > 1 ? weir_split_spec(&rule->spec, nodes, (uint32_t)config->node) : rule->spec;
    if (slack)
        rule->slack = limit->slack ? limit->slack : weir_split_slack(rule->spec.count, nodes);
    if (limit->sharing == WEIR_SHARING_SPLIT)
        rule->spec = rule->share;
    if (is_remote(config, limit->sharing) || limit->sharing == WEIR_SHARING_SPLIT)
        rule->terms = (struct weir_told_sharing){
            .mode = weir_sharing_words[limit->sharing],
            .nodes = nodes,
            .share = weir_limit_capacity(&rule->share),
            .slack = rule->slack,
            .overshoot_max = rule->slack * nodes, /* at most 10^12 * 256 */
        };
    if (!is_remote(config, limit->sharing))
        return 0;
    struct weir_fault fault = { "", "" };
    int error = weir_remote_limit_create(rule->name, variant_of(rule), &rule->spec, &rule->remote, &fault);
    if (error == WEIR_ENOMEM)
        return nomem(compiler);
    return error ? weir_config_fail(compiler->fault, error, limit->mark_rate, "%s.%s %s", rule->name, fault.field,
                                    fault.text[0] ? fault.text : weir_error_text(error))
                 : 0;
}

static int rule_make(struct compiler *compiler, const struct weir_config_limit *limit,
                     const struct weir_config_override *override, struct weir_rule *rule)
{
    struct weir_arena *arena = compiler->rules->arena;
    const char *variant = override ? override->variant : "";
    rule->index = (uint32_t)compiler->rules->limits_count;
    rule->name = weir_arena_copy(arena, limit->name, strlen(limit->name));
    rule->variant = weir_arena_copy(arena, variant, strlen(variant));
    rule->spec = override ? override->spec : limit->spec;
    rule->throttle = limit->throttle;
    rule->hold_max = limit->hold_max;
    rule->hold_timeout_ns = limit->hold_timeout_ns;
    if (rule->spec.tz)
        rule->spec.tz = weir_arena_copy(arena, limit->spec.tz, strlen(limit->spec.tz));
    if (!rule->name || !rule->variant || (!rule->spec.tz && limit->spec.tz))
        return nomem(compiler);
    return rule_share(compiler, limit, rule);
}

/* `wanted` has the limit's match in front; an override adds its own. Whether a request has the attributes of the key is
 * no part of the path: who lacks one has met the limit all the same, and `missing` says what comes of it. */
static int entry_compile(struct compiler *compiler, const struct weir_config_limit *limit,
                         const struct weir_config_override *override, struct wanted *wanted, size_t wanted_count)
{
    struct weir_rules *rules = compiler->rules;
    uint32_t number = (uint32_t)++rules->entries_count;
    struct weir_compiled_entry *entry = &rules->entries[number];
    uint32_t node = 0;
    entry->mark = override ? override->mark : limit->mark;
    int error = rule_make(compiler, limit, override, &entry->rule);
    if (!error && override) {
        error = conditions_copy(compiler, override->conditions, override->conditions_count, entry,
                                wanted + wanted_count);
        entry->rank = rank_of(override, (size_t)(override - limit->overrides));
        wanted_count += override->conditions_count;
    } else if (!error) {
        error = conditions_copy(compiler, limit->match, limit->match_count, entry, wanted);
    }
    if (!error)
        error = path_make(compiler, wanted, wanted_count, &node);
    if (error)
        return error;
    entry->next = rules->paths.nodes[node].entry;
    rules->paths.nodes[node].entry = number;
    return 0;
}

static int limit_compile(struct compiler *compiler, const struct weir_config_limit *limit)
{
    struct weir_rules *rules = compiler->rules;
    struct weir_compiled_limit *compiled = &rules->limits[rules->limits_count];
    struct wanted wanted[WEIR_CONDITIONS_MAX];
    compiled->first_entry = (uint32_t)rules->entries_count + 1;
    compiled->cost = limit->cost;
    compiled->cost_attribute = limit->cost_attribute ? attribute_of(compiler, limit->cost_attribute) : 0;
    compiled->ipv6_prefix = limit->ipv6_prefix;
    compiled->missing = limit->missing;
    for (size_t i = 0; i < limit->key_count; i++)
        compiled->key[compiled->key_count++] = attribute_of(compiler, limit->key[i]);
    /* The limit's own entry fills what its overrides go on from. */
    int error = entry_compile(compiler, limit, NULL, wanted, limit->match_count);
    for (size_t i = 0; i < limit->overrides_count && !error; i++)
        if (!limit->overrides[i].shadowed)
            error = entry_compile(compiler, limit, &limit->overrides[i], wanted, limit->match_count);
    compiled->entries_count = (uint32_t)rules->entries_count + 1 - compiled->first_entry;
    rules->limits_count++;
    return error;
}

static int excess_fail(struct compiler *compiler, uint32_t attribute, uint32_t condition)
{
    const struct glob_item *item = compiler->globs[attribute];
    while (item && item->glob.id != condition)
        item = item->next;
    weir_assert(item);
    return weir_config_fail(compiler->fault, WEIR_ELIMIT, item->mark,
                            "more than %d patterns for \"%s\" that differ only between their first and last *",
                            WEIR_GLOBS_INNER_MAX, compiler->rules->attributes[attribute].name);
}

static int globs_compile(struct compiler *compiler, uint32_t attribute)
{
    struct weir_arena *arena = compiler->rules->arena;
    size_t count = 0;
    uint32_t excess = 0;
    for (const struct glob_item *item = compiler->globs[attribute]; item; item = item->next)
        count++;
    struct weir_glob *globs = weir_arena_alloc(arena, count, sizeof(*globs));
    if (count && !globs)
        return nomem(compiler);
    count = 0;
    for (const struct glob_item *item = compiler->globs[attribute]; item; item = item->next)
        globs[count++] = item->glob;
    int error = weir_globs_init(&compiler->rules->attributes[attribute].globs, arena, globs, count, &excess);
    if (error == WEIR_ELIMIT)
        return excess_fail(compiler, attribute, excess);
    return error ? nomem(compiler) : 0;
}

static int limits_compile(struct compiler *compiler, const struct weir_config *config)
{
    struct weir_rules *rules = compiler->rules;
    size_t entries = 1;
    for (size_t i = 0; i < config->limits_count; i++)
        entries += 1 + config->limits[i].overrides_count;
    rules->entries = weir_arena_alloc(rules->arena, entries, sizeof(*rules->entries));
    rules->limits = weir_arena_alloc(rules->arena, config->limits_count + 1, sizeof(*rules->limits));
    int error = rules->entries && rules->limits ? 0 : nomem(compiler);
    for (size_t i = 0; i < config->limits_count && !error; i++)
        error = limit_compile(compiler, &config->limits[i]);
    for (uint32_t i = 1; i <= rules->attributes_count && !error; i++)
        error = globs_compile(compiler, i);
    return error;
}

int weir_rules_compile(struct weir_rules *rules, const struct weir_config *config, struct weir_config_fault *ret_fault)
{
    struct compiler compiler = { .rules = rules, .config = config, .fault = ret_fault };
    /* A secret of its own is not needed: what is looked up here is the configuration's. */
    int error = weir_map_init(&compiler.patterns, &rules->names.key) || weir_paths_init(&rules->paths)
                    ? nomem(&compiler)
                    : 0;
    memcpy(rules->secret, config->cluster_secret, sizeof(rules->secret));
    if (!error)
        error = attributes_compile(&compiler, config);
    if (!error)
        error = limits_compile(&compiler, config);
    weir_map_deinit(&compiler.patterns);
    return error;
}
