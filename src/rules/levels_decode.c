/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements weir_levels_decode of limit_decode.h: each of `levels:` becomes one more override, which names no values:
 * an exception names the key (rules/exception.h). They stand behind the overrides that do, and before the rollout.
 * Called by limit_decode.c. */
#include <string.h>

#include "rules/level_name.h"
#include "rules/limit_decode.h"

#define VARIANT "level:" /* and its name; that of an override has a `#` */

static const struct weir_field level_fields[] = {
    { "rate", weir_rate_decode, 0, false, 0, 0, NULL },
    { "burst", weir_decode_u64, offsetof(struct weir_limit_spec, burst), false, 1, WEIR_BURST_MAX, NULL },
    { "mode", weir_decode_word, offsetof(struct weir_limit_spec, mode), false, 0, 0, weir_mode_words },
};

static int level_decode(struct weir_decode *decode, const struct weir_yaml_node *key,
                        const struct weir_config_limit *limit, struct weir_config_override *ret_override)
{
    struct weir_limit_spec spec = limit->spec;
    const char *name = key->text.data;
    if (!weir_level_name_valid(name, key->text.size))
        return weir_config_fail(decode->fault, WEIR_EINVAL, key->mark,
                                "level \"%.40s\" must be named by 1 to %d letters, digits and . _ -", name,
                                WEIR_LEVEL_NAME_MAX);
    int error = weir_decode_kind_shown(decode, key->value, WEIR_YAML_MAP, "a level", "{ rate: 1000/min, burst: 200 }");
    if (!error)
        error = weir_decode_map(decode, key->value, "a level", level_fields,
                                sizeof(level_fields) / sizeof(level_fields[0]), &spec);
    if (!error && key->value->count == 0)
        error = weir_config_fail(decode->fault, WEIR_EPROTO, key->mark, "a level must have rate, burst or mode");
    if (!error)
        error = weir_spec_decode_finish(decode, key->value, limit->lease_ns, &spec);
    if (error)
        return error;
    *ret_override = (struct weir_config_override){ .mark = key->mark,
                                                   .level = weir_arena_copy(decode->arena, name, key->text.size),
                                                   .variant = weir_arena_print(decode->arena, VARIANT "%s", name),
                                                   .spec = spec };
    return ret_override->level && ret_override->variant ? 0 : weir_decode_nomem(decode);
}

int weir_levels_decode(struct weir_decode *decode, const struct weir_yaml_node *node, struct weir_config_limit *limit)
{
    const size_t count = limit->overrides_count;
    int first = 0;
    if (node->count > WEIR_LEVELS_MAX)
        return weir_config_fail(decode->fault, WEIR_ELIMIT, node->mark, "levels must be at most %d", WEIR_LEVELS_MAX);
    struct weir_config_override *list = weir_arena_alloc(decode->arena, count + node->count + 1, sizeof(*list));
    if (!list)
        return weir_decode_nomem(decode);
    if (count > 0)
        memcpy(list, limit->overrides, count * sizeof(*list));
    limit->overrides = list;
    for (const struct weir_yaml_node *key = node->first; key; key = key->next) {
        int error = level_decode(decode, key, limit, &list[limit->overrides_count]);
        if (!weir_decode_goes_on(decode, error, &first))
            break;
        limit->overrides_count += !error;
        limit->levels_count += !error;
    }
    return first;
}
