/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration: no text may do more than be refused, and what is accepted keeps the promises of config.h. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "rules/config.h"
#include "rules/yaml_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void limit_check(const struct weir_config_limit *limit)
{
    size_t length = strlen(limit->name);
    weir_assert(length >= 1 && length <= WEIR_LIMIT_NAME_MAX);
    weir_assert(weir_limit_check(&limit->spec, NULL) == 0);
    weir_assert(limit->match_count <= WEIR_MATCH_MAX && limit->key_count <= WEIR_KEY_VALUES_MAX);
    weir_assert(limit->ipv6_prefix >= 1 && limit->ipv6_prefix <= 128);
    weir_assert(limit->cost >= 1 || limit->cost_attribute);
    weir_assert(limit->slack <= WEIR_BURST_MAX && limit->deadline_ns >= 1000000 && limit->interval_ns >= 1000000);
    for (size_t i = 0; i < limit->overrides_count; i++) {
        const struct weir_config_override *override = &limit->overrides[i];
        weir_assert(weir_limit_check(&override->spec, NULL) == 0);
        weir_assert(override->conditions_count >= 1 && override->conditions_count <= limit->key_count);
        weir_assert(strlen(override->variant) <= WEIR_LIMIT_NAME_MAX);
    }
}

/* Nodes have names of their own, in order; each of them can read the file. */
static void nodes_check(struct weir_config *config)
{
    weir_assert(config->redis.servers_count <= WEIR_SERVERS_MAX && config->nodes_count <= WEIR_NODES_MAX);
    weir_assert(weir_config_nodes(config) >= 1);
    for (size_t i = 0; i < config->nodes_count; i++) {
        weir_assert(i == 0 || strcmp(config->nodes[i - 1].name, config->nodes[i].name) < 0);
        weir_assert(weir_config_be(config, config->nodes[i].name, NULL) == 0 && config->node == i);
    }
}

/* What is written of a tree reads as the same tree. */
static void text_check(const uint8_t *data, size_t size)
{
    struct weir_arena *arena = weir_arena_create();
    struct weir_yaml_node *root = NULL, *again = NULL;
    struct weir_slice text, second;
    if (weir_yaml_parse((const char *)data, size, arena, &root, NULL) == 0) {
        weir_assert(weir_yaml_text(arena, root, &text) == 0);
        weir_assert(weir_yaml_parse(text.data, text.size, arena, &again, NULL) == 0);
        weir_assert(weir_yaml_text(arena, again, &second) == 0);
        weir_assert(second.size == text.size && memcmp(second.data, text.data, text.size) == 0);
    }
    weir_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_config *config = NULL;
    struct weir_config_fault fault = { { 0, 0 }, "" };
    if (memmem(data, size, "_file", 5)) /* would open whatever file the fuzzer thinks of, a terminal for one */
        return 0;
    text_check(data, size);
    int error = weir_config_parse((const char *)data, size, &config, &fault);
    weir_assert(!error == (config != NULL));
    weir_assert(!error || (fault.text[0] && strlen(fault.text) < sizeof(fault.text)));
    for (size_t i = 0; config && i < config->limits_count; i++)
        limit_check(&config->limits[i]);
    if (config)
        nodes_check(config);
    weir_config_destroy(config);
    return 0;
}
