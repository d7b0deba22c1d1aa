/* SPDX-License-Identifier: Apache-2.0
 *
 * What envoyproxy/ratelimit does with a question, slow and plain, from its documentation and its behaviour: a tree of
 * descriptors, in which the key and the value of an entry are one text "key_value", and a counter for each domain,
 * entries and window. A tree is made at random, and written as that service's YAML. */
#pragma once

#include "envoy_rules_fixture.h"
#include "random.h"

#define MODEL_NODES_MAX 400
#define MODEL_COUNTERS_MAX 4096

struct model_node {
    char key[8], value[16];
    bool limit, unlimited, shadow, shares;
    unsigned unit;
    uint64_t requests;
    unsigned line;   /* of its YAML */
    int first, next; /* below and beside it; -1: none */
};

struct model_counter {
    char name[200];
    uint64_t count;
};

struct model {
    struct model_node nodes[MODEL_NODES_MAX];
    int count, first;
    struct model_counter counters[MODEL_COUNTERS_MAX];
    size_t counters_count;
    char text[200000];
    size_t used;
    unsigned line;
};

static const struct {
    const char *name;
    uint64_t seconds;
} model_units[] = { { "second", 1 },       { "MINUTE", 60 },        { "Hour", 3600 },       { "day", 86400 },
                    { "week", 7 * 86400 }, { "month", 30 * 86400 }, { "year", 365 * 86400 } };

/* ---- a tree at random ---- */

static void model_value(struct test_random *rng, char *ret_value, bool pattern)
{
    uint64_t size = 1 + test_random_below(rng, 4);
    for (uint64_t i = 0; i < size; i++)
        ret_value[i] = pattern && test_random_below(rng, 3) == 0 ? '*' : "ab_"[test_random_below(rng, 3)];
    ret_value[size] = '\0';
}

static void model_key(struct test_random *rng, char *ret_key)
{
    static const char *const keys[] = { "k", "l", "domains" };
    strcpy(ret_key, keys[test_random_below(rng, 3)]);
}

static bool model_is_taken(const struct model *model, int first, const struct model_node *node)
{
    for (int i = first; i >= 0; i = model->nodes[i].next)
        if (strcmp(model->nodes[i].key, node->key) == 0 && strcmp(model->nodes[i].value, node->value) == 0)
            return true;
    return false;
}

static int model_list(struct model *model, struct test_random *rng, unsigned depth)
{
    uint64_t count = 1 + test_random_below(rng, depth == 1 ? 8 : 5);
    int first = -1, last = -1;
    for (uint64_t i = 0; i < count && model->count < MODEL_NODES_MAX; i++) {
        struct model_node node = { .first = -1, .next = -1 };
        model_key(rng, node.key);
        if (test_random_below(rng, 4) > 0)
            model_value(rng, node.value, test_random_below(rng, 2));
        if (model_is_taken(model, first, &node))
            continue;
        node.limit = test_random_below(rng, 4) > 0;
        node.unlimited = test_random_below(rng, 8) == 0;
        node.shadow = test_random_below(rng, 6) == 0;
        node.shares = strchr(node.value, '*') && test_random_below(rng, 2);
        node.unit = (unsigned)test_random_below(rng, 7);
        node.requests = test_random_below(rng, 5);
        int own = model->count++;
        model->nodes[own] = node;
        if (last >= 0)
            model->nodes[last].next = own;
        else
            first = own;
        last = own;
        if (depth < 4 && test_random_below(rng, 3) > 0) {
            int below = model_list(model, rng, depth + 1);
            model->nodes[own].first = below;
        }
    }
    return first;
}

static void model_line(struct model *model, unsigned depth, const char *text)
{
    fixture_add(model->text, &model->used, "%*s%s\n", (int)(4 * depth), "", text);
    model->line++;
}

static void model_write(struct model *model, int first, unsigned depth)
{
    char line[80];
    model_line(model, depth, "descriptors:");
    for (int i = first; i >= 0; i = model->nodes[i].next) {
        struct model_node *node = &model->nodes[i];
        (void)snprintf(line, sizeof(line), "  - key: %s", node->key);
        node->line = model->line;
        model_line(model, depth, line);
        (void)snprintf(line, sizeof(line), "    value: \"%s\"", node->value);
        if (node->value[0])
            model_line(model, depth, line);
        if (node->limit && node->unlimited)
            (void)snprintf(line, sizeof(line), "    rate_limit: { unlimited: true }");
        else
            (void)snprintf(line, sizeof(line), "    rate_limit: { unit: %s, requests_per_unit: %d }",
                           model_units[node->unit].name, (int)node->requests);
        if (node->limit)
            model_line(model, depth, line);
        if (node->shadow)
            model_line(model, depth, "    shadow_mode: true");
        if (node->shares)
            model_line(model, depth, "    share_threshold: true");
        if (node->first >= 0)
            model_write(model, node->first, depth + 1);
    }
}

static void model_make(struct model *model, struct test_random *rng)
{
    model->count = 0;
    model->counters_count = 0;
    model->used = 0;
    model->line = 1;
    model->first = model_list(model, rng, 1);
    model_line(model, 0, "domain: d");
    model_write(model, model->first, 0);
}

/* ---- what it does ---- */

/* Whether a text is one that the pattern stands for, by trying every length of its first star. */
static bool model_fits(const char *pattern, const char *text)
{
    if (*pattern == '*')
        return model_fits(pattern + 1, text) || (*text && model_fits(pattern, text + 1));
    return *pattern == *text && (!*pattern || model_fits(pattern + 1, text + 1));
}

static void model_join(const char *key, const char *value, char *ret_text)
{
    (void)sprintf(ret_text, "%s%s%s", key, value[0] ? "_" : "", value);
}

/* One level down: the text itself, else the first pattern, else the key alone. -1: nothing. */
static int model_step(const struct model *model, int first, const struct fixture_entry *entry, bool *ret_pattern)
{
    char asked[40], there[40];
    (void)sprintf(asked, "%s_%s", entry->key, entry->value);
    *ret_pattern = false;
    for (int i = first; i >= 0; i = model->nodes[i].next) {
        model_join(model->nodes[i].key, model->nodes[i].value, there);
        if (strcmp(there, asked) == 0)
            return i;
    }
    for (int i = first; i >= 0; i = model->nodes[i].next) {
        model_join(model->nodes[i].key, model->nodes[i].value, there);
        if (strchr(there, '*') && model_fits(there, asked)) {
            *ret_pattern = true;
            return i;
        }
    }
    for (int i = first; i >= 0; i = model->nodes[i].next) {
        model_join(model->nodes[i].key, model->nodes[i].value, there);
        if (strcmp(there, entry->key) == 0)
            return i;
    }
    return -1;
}

/* The descriptor that decides; -1: none. ret_name: of its counter. */
static int model_find(const struct model *model, const struct fixture_entry *entries, size_t count, char *ret_name)
{
    int list = model->first, found = -1;
    size_t used = 0;
    ret_name[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        bool pattern = false;
        found = model_step(model, list, &entries[i], &pattern);
        if (found < 0)
            return -1;
        const struct model_node *node = &model->nodes[found];
        used += (size_t)sprintf(ret_name + used, "%s_%s_", entries[i].key,
                                pattern && node->shares ? node->value : entries[i].value);
        list = node->first;
        if (list < 0 && i + 1 < count)
            return -1;
    }
    return found >= 0 && model->nodes[found].limit ? found : -1;
}

/* Whether so many hits pass now, and how many are left. */
static bool model_hit(struct model *model, int number, const char *name, uint64_t hits, uint64_t wall_s,
                      uint64_t *ret_left)
{
    const struct model_node *node = &model->nodes[number];
    char window[200];
    size_t i = 0;
    const uint64_t seconds = model_units[node->unit].seconds;
    (void)snprintf(window, sizeof(window), "%s%llu", name, (unsigned long long)(wall_s / seconds * seconds));
    while (i < model->counters_count && strcmp(model->counters[i].name, window) != 0)
        i++;
    if (i == model->counters_count) {
        assert_true(i < MODEL_COUNTERS_MAX);
        (void)snprintf(model->counters[model->counters_count++].name, sizeof(window), "%s", window);
        model->counters[i].count = 0;
    }
    model->counters[i].count += hits;
    const bool over = model->counters[i].count > node->requests;
    *ret_left = over ? 0 : node->requests - model->counters[i].count;
    return !over;
}
