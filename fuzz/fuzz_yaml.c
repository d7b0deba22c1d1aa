/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration: no text may do more than be refused, and what is accepted keeps the promises of config.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
        bool rollout = limit->rollout > 0 && i + 1 == limit->overrides_count;
        const bool nameless = rollout || override->level;
        weir_assert((override->conditions_count == 0) == nameless && override->conditions_count <= limit->key_count);
        weir_assert(!rollout || !override->level);
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

/* Who is told all that is wrong is told that, too, which others are told alone. */
static void telling_check(const uint8_t *data, size_t size, int error, const struct weir_config_fault *fault)
{
    static struct weir_config_faults faults;
    struct weir_config *config = NULL;
    char path[32];
    int file = memfd_create("weir.yaml", MFD_CLOEXEC);
    weir_assert(file >= 0 && write(file, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    weir_assert(weir_config_load_telling(path, &config, &faults) == error);
    weir_assert(close(file) == 0 && !error == (config != NULL));
    weir_config_destroy(config);
    bool told = !error;
    for (size_t i = 0; error && i < faults.count; i++) {
        const struct weir_config_fault *one = &faults.list[i];
        weir_assert(one->text[0] && strlen(one->text) < sizeof(one->text));
        weir_assert(i == 0 || one->mark.line >= one[-1].mark.line);
        told = told || (one->mark.line == fault->mark.line && one->mark.column == fault->mark.column &&
                        strcmp(one->text, fault->text) == 0);
    }
    weir_assert(told && faults.count <= WEIR_CONFIG_FAULTS_MAX);
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
    telling_check(data, size, error, &fault);
    for (size_t i = 0; config && i < config->limits_count; i++)
        limit_check(&config->limits[i]);
    if (config)
        nodes_check(config);
    weir_config_destroy(config);
    return 0;
}
