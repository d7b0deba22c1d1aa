/* SPDX-License-Identifier: Apache-2.0
 *
 * First all attributes get numbers, then each limit and each override becomes an entry. The conditions of an entry are
 * numbered (compile_conditions.c) and sorted; they lead along the paths (paths.c) to the node where the entry is
 * linked. How nodes share a limit is worked out here as well (rule_share). Called by rules.c, which defines the limits
 * in the limiter afterwards. */
#include "rules/compile.h"

#include <string.h>

#include "base/assert.h"
#include "base/siphash.h"
#include "core/limit/limit.h"
#include "core/share/split.h"
#include "rules/compiler.h"
#include "rules/condition.h"
#include "rules/envoy_rules.h"
#include "rules/pattern.h"
#include "rules/replaces.h"
#include "rules/reserve_decode.h"
#include "rules/sharing_decode.h"
#include "rules/yaml_node.h"

static struct weir_slice slice_of(const char *text)
{
    return (struct weir_slice){ text, strlen(text) };
}

static uint32_t attribute_of(const struct weir_compiler *compiler, const char *name)
{
    return weir_map_find(&compiler->rules->names, 0, slice_of(name));
}

static int attribute_add(struct weir_compiler *compiler, const char *name)
{
    struct weir_rules *rules = compiler->rules;
    if (attribute_of(compiler, name))
        return 0;
    const char *copy = weir_arena_copy(rules->arena, name, strlen(name));
    if (!copy || weir_map_insert(&rules->names, 0, slice_of(copy), (uint32_t)rules->attributes_count + 1) != 0)
        return weir_compile_nomem(compiler);
    rules->attributes_count++;
    return 0;
}

static int attributes_add(struct weir_compiler *compiler, const struct weir_config_limit *limit)
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

static int attributes_compile(struct weir_compiler *compiler, const struct weir_config *config)
{
    struct weir_rules *rules = compiler->rules;
    int error = 0;
    for (size_t i = 0; i < config->limits_count && !error; i++)
        error = attributes_add(compiler, &config->limits[i]);
    if (error)
        return error;
    rules->attributes = weir_arena_alloc(rules->arena, rules->attributes_count + 1, sizeof(*rules->attributes));
    rules->absent_hold = weir_arena_alloc(rules->arena, rules->attributes_count + 1, sizeof(*rules->absent_hold));
    compiler->globs = weir_arena_alloc(rules->arena, rules->attributes_count + 1, sizeof(*compiler->globs));
    compiler->blocks = weir_arena_alloc(rules->arena, rules->attributes_count + 1, sizeof(*compiler->blocks));
    if (!rules->attributes || !rules->absent_hold || !compiler->globs || !compiler->blocks)
        return weir_compile_nomem(compiler);
    for (size_t i = 0; i < rules->names.slots_count; i++)
        if (rules->names.slots[i].value)
            rules->attributes[rules->names.slots[i].value].name = rules->names.slots[i].bytes.data;
    return 0;
}

static bool is_before(const struct weir_wanted *a, const struct weir_wanted *b)
{
    return a->attribute != b->attribute ? a->attribute < b->attribute : a->condition < b->condition;
}

static void wanted_sort(struct weir_wanted *wanted, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && is_before(&wanted[j], &wanted[j - 1]); j--) {
            struct weir_wanted swap = wanted[j];
            wanted[j] = wanted[j - 1];
            wanted[j - 1] = swap;
        }
}

static bool is_any(const struct weir_wanted *wanted)
{
    return !wanted->terms && weir_pattern_is_any(wanted->pattern);
}

static bool is_negated(const struct weir_wanted *wanted)
{
    return wanted->terms && wanted->terms->negated;
}

/* "Any" is implied by every other condition on the same attribute but `not`. */
static bool is_implied(const struct weir_wanted *wanted, size_t count, size_t index)
{
    if (!is_any(&wanted[index]))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (i != index && wanted[i].attribute == wanted[index].attribute && !is_negated(&wanted[i]) &&
            (!is_any(&wanted[i]) || i < index))
            return true;
    }
    return false;
}

/* Whether it is for one kind of Envoy's descriptors: its path is met by these alone. */
static bool is_of_descriptor(const struct weir_compiler *compiler, const struct weir_wanted *all, size_t count)
{
    const uint32_t descriptor = attribute_of(compiler, WEIR_ENVOY_DESCRIPTOR);
    for (size_t i = 0; descriptor > 0 && i < count; i++)
        if (all[i].attribute == descriptor && !is_negated(&all[i]))
            return true;
    return false;
}

static int filters_make(struct weir_compiler *compiler, const struct weir_wanted *all, size_t count,
                        struct weir_compiled_entry *entry)
{
    size_t room = 0;
    for (size_t i = 0; i < count; i++)
        room += is_negated(&all[i]);
    entry->filters = room > 0 ? weir_arena_alloc(compiler->rules->arena, room, sizeof(*entry->filters)) : NULL;
    if (room > 0 && !entry->filters)
        return weir_compile_nomem(compiler);
    for (size_t i = 0; i < count; i++)
        if (is_negated(&all[i]))
            entry->filters[entry->filters_count++] = (struct weir_compiled_filter){ all[i].attribute, all[i].terms };
    return 0;
}

static int path_make(struct weir_compiler *compiler, const struct weir_wanted *all, size_t count,
                     struct weir_compiled_entry *entry, uint32_t *ret_node)
{
    struct weir_wanted kept[WEIR_CONDITIONS_MAX];
    size_t kept_count = 0;
    uint32_t node = WEIR_PATHS_ROOT;
    const bool filters = is_of_descriptor(compiler, all, count);
    if (filters && filters_make(compiler, all, count, entry))
        return WEIR_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        if (is_implied(all, count, i) || (filters && is_negated(&all[i])))
            continue;
        kept[kept_count] = all[i];
        int error = weir_compile_condition(compiler, &kept[kept_count++]);
        if (error)
            return error;
    }
    wanted_sort(kept, kept_count);
    for (size_t i = 0; i < kept_count; i++) {
        bool twice = i > 0 && kept[i].condition == kept[i - 1].condition;
        if (!twice && weir_paths_grow(&compiler->rules->paths, node, kept[i].condition, &node) != 0)
            return weir_compile_nomem(compiler);
    }
    *ret_node = node;
    return 0;
}

/* The configuration may go before the rules do. */
static int terms_copy(struct weir_compiler *compiler, const struct weir_condition_values *terms,
                      const struct weir_condition_values **ret_copy)
{
    struct weir_arena *arena = compiler->rules->arena;
    struct weir_condition_values *copy = weir_arena_alloc(arena, 1,
                                                          sizeof(*copy) + terms->count * sizeof(copy->list[0]));
    if (!copy)
        return weir_compile_nomem(compiler);
    copy->negated = terms->negated;
    copy->count = terms->count;
    for (size_t i = 0; i < terms->count; i++) {
        copy->list[i] = terms->list[i];
        copy->list[i].text.data = weir_arena_copy(arena, terms->list[i].text.data, terms->list[i].text.size);
        if (!copy->list[i].text.data)
            return weir_compile_nomem(compiler);
    }
    *ret_copy = copy;
    return 0;
}

static int conditions_copy(struct weir_compiler *compiler, const struct weir_condition *conditions, size_t count,
                           struct weir_compiled_entry *entry, struct weir_wanted *wanted)
{
    struct weir_arena *arena = compiler->rules->arena;
    entry->conditions = weir_arena_alloc(arena, count, sizeof(*entry->conditions));
    entry->conditions_count = (uint32_t)count;
    if (count && !entry->conditions)
        return weir_compile_nomem(compiler);
    for (size_t i = 0; i < count; i++) {
        struct weir_slice pattern = conditions[i].pattern;
        pattern.data = weir_arena_copy(arena, pattern.data, pattern.size);
        if (!pattern.data)
            return weir_compile_nomem(compiler);
        const struct weir_condition_values *terms = NULL;
        int error = conditions[i].terms ? terms_copy(compiler, conditions[i].terms, &terms) : 0;
        if (error)
            return error;
        uint32_t attribute = attribute_of(compiler, conditions[i].attribute);
        entry->conditions[i] = (struct weir_compiled_condition){ attribute, pattern, terms };
        wanted[i] = (struct weir_wanted){ attribute, 0, pattern, terms, conditions[i].mark };
    }
    return 0;
}

#define RANK_ROLLOUT 1 /* above the limit itself, below all that name something: there are fewer than 2^24 - 2 */

/* More exact values first, then the closer look, then the earlier in the file. 0 is the limit itself. */
static uint64_t rank_of(const struct weir_config_override *override, size_t index)
{
    uint64_t exact = 0;
    uint64_t closeness = 0;
    for (size_t i = 0; i < override->conditions_count; i++) {
        const struct weir_condition *condition = &override->conditions[i];
        bool is_exact = weir_condition_is_exact(condition->pattern, condition->terms);
        exact += is_exact;
        closeness += is_exact ? 0 : weir_condition_closeness(condition->pattern, condition->terms);
    }
    weir_assert(closeness < 1 << 24 && index < 0xffffff);
    return exact << 48 | closeness << 24 | (0xffffff - index);
}

/* The same on every node. */
static uint64_t variant_of(const struct weir_rule *rule)
{
    static const struct weir_sip_key fixed = { 0, 0 };
    return rule->variant[0] ? weir_siphash(&fixed, rule->variant, strlen(rule->variant)) : 0;
}

/* How nodes share the rule, whose spec is there. Sharing was checked with the configuration. */
static int rule_share(struct weir_compiler *compiler, const struct weir_config_limit *limit, struct weir_rule *rule)
{
    const struct weir_config *config = compiler->config;
    uint32_t nodes = weir_config_nodes(config);
    const char *node = limit->revision_node ? limit->revision_node : "";
    bool slack = limit->sharing == WEIR_SHARING_BATCHED || limit->sharing == WEIR_SHARING_GOSSIP;
    rule->limit.sharing = limit->sharing;
    rule->limit.interval_ns = limit->interval_ns;
    rule->limit.chunk_ttl_ns = limit->chunk_ttl_ns;
    rule->limit.deadline_ns = limit->deadline_ns;
    rule->limit.on_failure = limit->on_failure;
    rule->limit.undecidable = limit->undecidable;
    rule->whole = rule->limit.spec;
    rule->hour_units = weir_limit_most(&rule->whole, 3600 * WEIR_NS_PER_SECOND);
    rule->limit.share = nodes > 1 ? weir_split_spec(&rule->limit.spec, nodes, (uint32_t)config->node)
                                  : rule->limit.spec;
    if (slack)
        rule->limit.slack = limit->slack ? limit->slack : weir_split_slack(rule->limit.spec.count, nodes);
    if (limit->sharing == WEIR_SHARING_SPLIT)
        rule->limit.spec = rule->limit.share;
    if (weir_config_is_shared(config, limit) || limit->sharing == WEIR_SHARING_SPLIT)
        rule->terms = (struct weir_told_sharing){
            .mode = weir_sharing_words[limit->sharing],
            .nodes = nodes,
            .shares = limit->sharing == WEIR_SHARING_SPLIT || limit->sharing == WEIR_SHARING_GOSSIP ||
                      limit->on_failure == WEIR_ON_FAILURE_LOCAL,
            .share = weir_limit_capacity(&rule->limit.share),
            .slack = rule->limit.slack,
            .overshoot_max = rule->limit.slack * nodes, /* at most 10^12 * 256 */
            .revision = limit->revision,
            .revision_passed = limit->revision_passed,
            .revision_node = weir_arena_copy(compiler->rules->arena, node, strlen(node)),
        };
    if (rule->terms.mode && !rule->terms.revision_node)
        return weir_compile_nomem(compiler);
    if (!weir_config_is_shared(config, limit)) {
        rule->limit.spec.reserves = rule->of_amount;
        return 0;
    }
    uint32_t revision = limit->owned ? limit->revision : WEIR_REVISION_NONE; /* its definition is too long */
    struct weir_fault fault = { "", "" };
    int error = weir_remote_limit_create(rule->name, variant_of(rule), revision, &rule->limit.spec, &rule->limit.remote,
                                         &fault);
    if (error == WEIR_ENOMEM)
        return weir_compile_nomem(compiler);
    if (!error && limit->levels_count > 0)
        weir_remote_limit_leveled(rule->limit.remote);
    return error ? weir_config_fail(compiler->fault, error, limit->mark_rate, "%s.%s %s", rule->name, fault.field,
                                    fault.text[0] ? fault.text : weir_error_text(error))
                 : 0;
}

static bool is_rollout(const struct weir_config_limit *limit, const struct weir_config_override *override)
{
    return limit->rollout > 0 && override == &limit->overrides[limit->overrides_count - 1];
}

static int rule_make(struct weir_compiler *compiler, const struct weir_config_limit *limit,
                     const struct weir_config_override *override, struct weir_rule *rule)
{
    struct weir_arena *arena = compiler->rules->arena;
    const char *variant = override ? override->variant : "", *level = override ? override->level : NULL;
    rule->index = (uint32_t)compiler->rules->limits_count;
    rule->name = weir_arena_copy(arena, limit->name, strlen(limit->name));
    rule->variant = weir_arena_copy(arena, variant, strlen(variant));
    rule->level = level ? weir_arena_copy(arena, level, strlen(level)) : NULL;
    rule->rollout = is_rollout(limit, override) ? limit->rollout : 0;
    rule->limit.spec = override ? override->spec : limit->spec;
    rule->one_counter = limit->key_count == 0;
    rule->throttle = limit->throttle;
    rule->hold_max = limit->hold_max;
    rule->hold_timeout_ns = limit->hold_timeout_ns;
    rule->of_amount = weir_reserve_is_of(limit);
    rule->reserve = limit->reserve;
    if (rule->limit.spec.tz)
        rule->limit.spec.tz = weir_arena_copy(arena, limit->spec.tz, strlen(limit->spec.tz));
    if (!rule->name || !rule->variant || (level && !rule->level) || (!rule->limit.spec.tz && limit->spec.tz))
        return weir_compile_nomem(compiler);
    return rule_share(compiler, limit, rule);
}

/* An override's, where it is kept elsewhere. */
static void of_limit(const struct weir_rules *rules, const struct weir_rule *rule)
{
    if (rule->limit.remote)
        weir_remote_limit_override(rule->limit.remote,
                                   rules->entries[rules->limits[rules->limits_count].first_entry].rule.limit.remote);
}

/* `wanted` has the limit's match in front; an override adds its own. Whether a request has the attributes of the key is
 * no part of the path: who lacks one has met the limit all the same, and `missing` says what comes of it. */
static int entry_compile(struct weir_compiler *compiler, const struct weir_config_limit *limit,
                         const struct weir_config_override *override, struct weir_wanted *wanted, size_t wanted_count)
{
    struct weir_rules *rules = compiler->rules;
    uint32_t number = (uint32_t)++rules->entries_count;
    struct weir_compiled_entry *entry = &rules->entries[number];
    uint32_t node = 0;
    entry->mark = override ? override->mark : limit->mark;
    int error = rule_make(compiler, limit, override, &entry->rule);
    if (!error && override) {
        of_limit(rules, &entry->rule);
        error = conditions_copy(compiler, override->conditions, override->conditions_count, entry,
                                wanted + wanted_count);
        entry->rank = entry->rule.rollout ? RANK_ROLLOUT : rank_of(override, (size_t)(override - limit->overrides));
        wanted_count += override->conditions_count;
    } else if (!error) {
        error = conditions_copy(compiler, limit->match, limit->match_count, entry, wanted);
    }
    if (!error)
        error = path_make(compiler, wanted, wanted_count, entry, &node);
    if (error)
        return error;
    entry->next = rules->paths.nodes[node].entry;
    rules->paths.nodes[node].entry = number;
    return 0;
}

/* No request leads to it: an exception does (weir_rules_level). */
static int level_compile(struct weir_compiler *compiler, const struct weir_config_limit *limit,
                         const struct weir_config_override *override)
{
    struct weir_rules *rules = compiler->rules;
    struct weir_compiled_limit *compiled = &rules->limits[rules->limits_count];
    const uint32_t number = (uint32_t)++rules->entries_count;
    rules->entries[number].mark = override->mark;
    if (compiled->levels_count++ == 0)
        compiled->first_level = number;
    int error = rule_make(compiler, limit, override, &rules->entries[number].rule);
    if (!error)
        of_limit(rules, &rules->entries[number].rule);
    return error;
}

static int limit_compile(struct weir_compiler *compiler, const struct weir_config_limit *limit)
{
    struct weir_rules *rules = compiler->rules;
    struct weir_compiled_limit *compiled = &rules->limits[rules->limits_count];
    struct weir_wanted wanted[WEIR_CONDITIONS_MAX] = { 0 };
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
        if (limit->overrides[i].level)
            error = level_compile(compiler, limit, &limit->overrides[i]);
        else if (!limit->overrides[i].shadowed)
            error = entry_compile(compiler, limit, &limit->overrides[i], wanted, limit->match_count);
    compiled->entries_count = (uint32_t)rules->entries_count + 1 - compiled->first_entry;
    rules->limits_count++;
    return error;
}

static int limits_compile(struct weir_compiler *compiler, const struct weir_config *config)
{
    struct weir_rules *rules = compiler->rules;
    size_t entries = 1;
    for (size_t i = 0; i < config->limits_count; i++)
        entries += 1 + config->limits[i].overrides_count;
    rules->entries = weir_arena_alloc(rules->arena, entries, sizeof(*rules->entries));
    rules->limits = weir_arena_alloc(rules->arena, config->limits_count + 1, sizeof(*rules->limits));
    int error = rules->entries && rules->limits ? weir_compile_begin(compiler) : weir_compile_nomem(compiler);
    for (size_t i = 0; i < config->limits_count && !error; i++)
        error = limit_compile(compiler, &config->limits[i]);
    if (!error)
        error = weir_replaces_compile(rules, config, compiler->fault);
    return error ? error : weir_compile_end(compiler);
}

int weir_rules_compile(struct weir_rules *rules, const struct weir_config *config, struct weir_config_fault *ret_fault)
{
    struct weir_compiler compiler = { .rules = rules, .config = config, .fault = ret_fault };
    /* A secret of its own is not needed: what is looked up here is the configuration's. */
    int error = weir_map_init(&compiler.patterns, &rules->names.key) || weir_paths_init(&rules->paths)
                    ? weir_compile_nomem(&compiler)
                    : 0;
    memcpy(rules->secret, config->cluster_secret, sizeof(rules->secret));
    if (!error)
        error = attributes_compile(&compiler, config);
    if (!error)
        error = limits_compile(&compiler, config);
    weir_map_deinit(&compiler.patterns);
    return error;
}
