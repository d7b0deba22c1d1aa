/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers are the compiled rule's, of all nodes together. It warns of nothing: what is hardly meant is found in
 * rules/warnings.c. Called by rules.c. */
#include "cli/burst_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/plural.h"

struct burst {
    const struct weir_limit_spec *spec; /* NULL: there is none */
    uint64_t requests;                  /* of its capacity */
    unsigned override_line;             /* 0: the limit's own */
    const char *kind;                   /* of that: "override", "level", "rollout" */
    bool of_each_key;
};

static bool passes(const struct weir_limit_spec *spec)
{
    return spec->mode != WEIR_MODE_OFF && spec->count > 0 && spec->algorithm != WEIR_LEAKY_BUCKET &&
           spec->algorithm != WEIR_CONCURRENCY;
}

static struct burst burst_of(const struct weir_rules *rules, size_t index, const struct weir_config *config)
{
    const struct weir_limit_spec *own = &weir_rules_limit(rules, index)->whole;
    const struct weir_config_limit *limit = &config->limits[index];
    struct burst burst = { .spec = passes(own) ? own : NULL, .of_each_key = limit->key_count > 0 };
    if (limit->cost_attribute) /* how much a request takes is not known here */
        return (struct burst){ .spec = NULL };
    for (size_t i = 0; i < weir_rules_overrides(rules, index); i++) {
        struct weir_mark mark;
        const struct weir_rule *override = weir_rules_override(rules, index, i, &mark);
        const struct weir_limit_spec *spec = &override->whole;
        if (!passes(spec) || (burst.spec && weir_limit_capacity(spec) <= weir_limit_capacity(burst.spec)))
            continue;
        burst.spec = spec;
        burst.override_line = mark.line;
        burst.kind = override->rollout > 0 ? "rollout" : override->level ? "level" : "override";
    }
    burst.requests = burst.spec ? weir_limit_capacity(burst.spec) / limit->cost : 0;
    if (burst.requests == 0)
        burst.spec = NULL;
    return burst;
}

/* How long the rate takes for as much, in ms, rounded up. */
static uint64_t burst_ms(const struct weir_limit_spec *spec)
{
    return weir_mul_div_ceil(weir_limit_capacity(spec), spec->period_ns, spec->count) / (WEIR_NS_PER_SECOND / 1000);
}

void weir_burst_format(const struct weir_rules *rules, size_t index, const struct weir_config *config,
                       uint64_t connections, char *buffer, size_t size)
{
    const struct burst burst = burst_of(rules, index, config);
    char time[WEIR_DURATION_SIZE], by[48] = "", bears[128] = "";
    buffer[0] = '\0';
    if (!burst.spec)
        return;
    weir_duration_format(burst_ms(burst.spec), time, sizeof(time));
    if (burst.override_line)
        (void)snprintf(by, sizeof(by), " (by the %s in line %u)", burst.kind, burst.override_line);
    if (connections && burst.requests > connections)
        (void)snprintf(bears, sizeof(bears), "; with %" PRIu64 " connections %" PRIu64 " of them wait for one",
                       connections, burst.requests - connections);
    else if (connections && burst.of_each_key)
        (void)snprintf(bears, sizeof(bears), "; %" PRIu64 " connections bear %" PRIu64 " such key%s", connections,
                       connections / burst.requests, weir_s(connections / burst.requests));
    (void)snprintf(buffer, size, "lets %" PRIu64 " pass at once%s%s, %s of its rate%s%s", burst.requests,
                   burst.of_each_key ? " of each key" : "", by, time,
                   burst.spec->algorithm == WEIR_FIXED_WINDOW ? ", and as many again when the window turns" : "",
                   bears);
}

json_t *weir_burst_json(const struct weir_rules *rules, size_t index, const struct weir_config *config,
                        uint64_t connections)
{
    const struct burst burst = burst_of(rules, index, config);
    if (!burst.spec)
        return NULL;
    json_t *object = json_pack("{s:s,s:I,s:f,s:b}", "limit", weir_rules_limit(rules, index)->name, "at_once",
                               (json_int_t)burst.requests, "seconds_of_rate", (double)burst_ms(burst.spec) / 1000,
                               "of_each_key", burst.of_each_key);
    if (burst.override_line)
        (void)json_object_set_new(object, "override_line", json_integer((json_int_t)burst.override_line));
    if (connections)
        (void)json_object_set_new(object, "bearable", json_integer((json_int_t)(connections / burst.requests)));
    return object;
}
