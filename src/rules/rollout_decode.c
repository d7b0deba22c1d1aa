/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements weir_rollout_decode of limit_decode.h: `rollout:` becomes one more override, the last one, which names no
 * values. What asks which override applies, compiles or shares them, so needs to know little of it. Called by
 * limit_decode.c. */
#include <string.h>

#include "rules/limit_decode.h"
#include "rules/rollout.h"

static int percent_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                        void *target)
{
    int error = weir_decode_kind(decode, value, WEIR_YAML_SCALAR, field->name);
    if (error)
        return error;
    error = weir_rollout_parse(value->text.data, value->text.size, target);
    return error ? weir_config_fail(decode->fault, error, value->mark,
                                    "percent \"%.40s\" must be 0.1 to 100 (of the keys), with one decimal at most",
                                    (const char *)value->text.data)
                 : 0;
}

struct rollout {
    uint32_t share;
    struct weir_limit_spec spec;
};

static const struct weir_field rollout_fields[] = {
    { "percent", percent_read, offsetof(struct rollout, share), true, 0, 0, NULL },
    { "rate", weir_rate_decode, offsetof(struct rollout, spec), false, 0, 0, NULL },
    { "burst", weir_decode_u64, offsetof(struct rollout, spec.burst), false, 1, WEIR_BURST_MAX, NULL },
    { "mode", weir_decode_word, offsetof(struct rollout, spec.mode), false, 0, 0, weir_mode_words },
};

/* One more at the end of those that the file has. */
static struct weir_config_override *add(struct weir_decode *decode, struct weir_config_limit *limit)
{
    const size_t count = limit->overrides_count;
    struct weir_config_override *list = weir_arena_alloc(decode->arena, count + 1, sizeof(*list));
    if (!list)
        return NULL;
    if (count > 0)
        memcpy(list, limit->overrides, count * sizeof(*list));
    limit->overrides = list;
    limit->overrides_count = count + 1;
    return &list[count];
}

int weir_rollout_decode(struct weir_decode *decode, const struct weir_yaml_node *node, struct weir_config_limit *limit)
{
    struct rollout rollout = { .spec = limit->spec };
    int error = weir_decode_map(decode, node, "a rollout", rollout_fields,
                                sizeof(rollout_fields) / sizeof(rollout_fields[0]), &rollout);
    if (!error && node->count < 2)
        error = weir_config_fail(decode->fault, WEIR_EPROTO, node->mark, "a rollout must have rate, burst or mode");
    if (!error)
        error = weir_spec_decode_finish(decode, node, limit->lease_ns, &rollout.spec);
    if (error)
        return error;
    struct weir_config_override *override = add(decode, limit);
    if (!override)
        return weir_decode_nomem(decode);
    *override =
        (struct weir_config_override){ .mark = node->mark, .variant = WEIR_ROLLOUT_VARIANT, .spec = rollout.spec };
    limit->rollout = rollout.share;
    return 0;
}
