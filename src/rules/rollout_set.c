/* SPDX-License-Identifier: Apache-2.0
 *
 * The text is read twice, as a configuration and as a tree; the limits of both are in the same order. Mappings are
 * compared key by key, whatever the order of their keys. Called by rollout_text.c. */
#include "rules/rollout_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "rules/yaml_text.h"

static int by_name(const void *a, const void *b)
{
    const struct weir_rollout_item *one = a, *other = b;
    return strcmp(one->limit->name, other->limit->name);
}

static int fill(struct weir_rollout_set *set, struct weir_config_fault *ret_fault)
{
    struct weir_yaml_node *root = NULL;
    set->arena = weir_arena_create();
    int error = set->arena ? weir_yaml_parse(set->text.data, set->text.size, set->arena, &root, ret_fault)
                           : WEIR_ENOMEM;
    if (error)
        return error;
    set->count = set->config->limits_count;
    set->items = weir_arena_alloc(set->arena, set->count + 1, sizeof(*set->items));
    set->by_name = weir_arena_alloc(set->arena, set->count + 1, sizeof(*set->by_name));
    if (!set->items || !set->by_name)
        return WEIR_ENOMEM;
    const struct weir_yaml_node *node = weir_yaml_find(root, "limits")->value->first;
    for (size_t i = 0; i < set->count; i++, node = node->next) {
        weir_assert(node);
        set->items[i] = set->by_name[i] = (struct weir_rollout_item){ &set->config->limits[i], node };
    }
    qsort(set->by_name, set->count, sizeof(*set->by_name), by_name);
    return 0;
}

int weir_rollout_set_init(struct weir_rollout_set *ret_set, const struct weir_config *config, struct weir_slice text,
                          struct weir_config_faults *ret_faults)
{
    struct weir_rollout_set set = { .text = text };
    int error = weir_config_with_rules(config, text, &set.config, ret_faults);
    if (!error) {
        ret_faults->count = 1; /* if it is one of these */
        error = fill(&set, &ret_faults->list[0]);
    }
    if (error)
        weir_rollout_set_deinit(&set);
    else
        *ret_set = set;
    return error;
}

void weir_rollout_set_deinit(struct weir_rollout_set *set)
{
    weir_config_destroy(set->config);
    weir_arena_destroy(set->arena);
}

const struct weir_rollout_item *weir_rollout_find(const struct weir_rollout_set *set, const char *name)
{
    const struct weir_config_limit like = { .name = name };
    const struct weir_rollout_item key = { &like, NULL };
    return bsearch(&key, set->by_name, set->count, sizeof(key), by_name);
}

static bool is_left_out(const struct weir_yaml_node *key, bool settings)
{
    static const char *const names[] = { "rollout", "rate", "burst", "mode" };
    for (size_t i = 0; i < (settings ? 4 : 1); i++)
        if (strcmp(key->text.data, names[i]) == 0)
            return true;
    return false;
}

const char *weir_rollout_other_key(const struct weir_yaml_node *one, const struct weir_yaml_node *other, bool settings)
{
    for (const struct weir_yaml_node *key = one->first; key; key = key->next) {
        const struct weir_yaml_node *same = weir_yaml_find(other, key->text.data);
        if (!is_left_out(key, settings) && (!same || weir_yaml_hash(key->value) != weir_yaml_hash(same->value)))
            return key->text.data;
    }
    for (const struct weir_yaml_node *key = other->first; key; key = key->next)
        if (!is_left_out(key, settings) && !weir_yaml_find(one, key->text.data))
            return key->text.data;
    return NULL;
}

bool weir_rollout_same_spec(const struct weir_limit_spec *one, const struct weir_limit_spec *other)
{
    return one->count == other->count && one->period_ns == other->period_ns && one->calendar == other->calendar &&
           one->calendar_count == other->calendar_count && one->mode == other->mode &&
           weir_limit_capacity(one) == weir_limit_capacity(other);
}

const struct weir_limit_spec *weir_rollout_spec(const struct weir_config_limit *limit)
{
    return limit->rollout > 0 ? &limit->overrides[limit->overrides_count - 1].spec : NULL;
}
