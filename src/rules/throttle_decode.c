/* SPDX-License-Identifier: Apache-2.0
 *
 * cl_throttle: where the counters of CL.THROTTLE are. */
#include "rules/section_decode.h"
#include "rules/sharing_decode.h"

#define OF(member) offsetof(struct weir_config_throttle, member)

static const char *const engine_words[] = { "memory", "redis", NULL };

static int refuse(struct weir_decode *decode, const struct weir_yaml_node *map, const char *name, const char *why)
{
    const struct weir_yaml_node *key = weir_yaml_find(map, name);
    return weir_config_fail(decode->fault, WEIR_EINVAL, key ? key->value->mark : map->mark, "cl_throttle: %s", why);
}

int weir_throttle_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                         void *target)
{
    static const struct weir_field fields[] = {
        { "sharing", weir_decode_word, OF(sharing), false, 0, 0, weir_sharing_words },
        { "engine", weir_decode_word, OF(engine), false, 0, 0, engine_words },
        { "on_failure", weir_decode_word, OF(on_failure), false, 0, 0, weir_on_failure_words },
        { "deadline", weir_decode_duration, OF(deadline_ns), false, WEIR_NS_PER_SECOND / 1000, 10 * WEIR_NS_PER_SECOND,
          NULL },
    };
    return weir_decode_map(decode, value, field->name, fields, sizeof(fields) / sizeof(fields[0]), target);
}

int weir_throttle_check(struct weir_decode *decode, const struct weir_yaml_node *map)
{
    const struct weir_config_throttle *throttle = &decode->config->cl_throttle;
    if (throttle->sharing != WEIR_SHARING_EXACT)
        return refuse(decode, map, "sharing",
                      "sharing must be exact: the other modes need a limit's parameters before its first request");
    if (throttle->engine == WEIR_THROTTLE_REDIS && decode->config->redis.servers_count == 0)
        return refuse(decode, map, "engine", "engine: redis needs engine: { redis: { servers: [ ... ] } }");
    if (throttle->engine == WEIR_THROTTLE_MEMORY && weir_yaml_find(map, "on_failure"))
        return refuse(decode, map, "on_failure", "on_failure is only for engine: redis");
    if (throttle->engine == WEIR_THROTTLE_MEMORY && weir_yaml_find(map, "deadline"))
        return refuse(decode, map, "deadline", "deadline is only for engine: redis");
    return 0;
}
