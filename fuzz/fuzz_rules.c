/* SPDX-License-Identifier: Apache-2.0
 *
 * Match and explain are two ways to one answer: whatever the rules and the request, they agree. The input is a
 * configuration, a NUL, and a request as lines of name=value. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "rules/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t request_read(const char *text, size_t size, struct weir_attribute *attributes)
{
    size_t count = 0;
    while (size && count < WEIR_ATTRIBUTES_MAX) {
        const char *end = memchr(text, '\n', size);
        size_t line = end ? (size_t)(end - text) : size;
        const char *equals = memchr(text, '=', line);
        size_t name = equals ? (size_t)(equals - text) : line;
        attributes[count].name = (struct weir_slice){ text, name };
        attributes[count++].value = (struct weir_slice){ equals ? equals + 1 : text, equals ? line - name - 1 : 0 };
        line += end != NULL;
        text += line;
        size -= line;
    }
    return count;
}

static void agreement_check(const struct weir_rules *rules, const struct weir_attribute *attributes, size_t count)
{
    struct weir_match match;
    struct weir_fault fault;
    size_t at = 0;
    size_t remote = 0;
    if (weir_rules_match(rules, attributes, count, 1, &match, &fault) != 0) {
        weir_assert(match.count == 0 && fault.text[0]);
        return;
    }
    for (size_t i = 0; i < weir_rules_count(rules); i++) {
        struct weir_explanation explanation;
        weir_assert(weir_rules_explain(rules, i, attributes, count, &explanation, NULL) == 0);
        bool matched = at < match.count && match.rules[at]->index == i;
        if (match.refused_by) { /* nothing is charged */
            weir_assert(match.refused_by->index != i || explanation.reason == WEIR_REASON_REFUSES);
            continue;
        }
        weir_assert(matched == (explanation.reason == WEIR_REASON_APPLIES));
        weir_assert(!matched || match.rules[at] == explanation.rule);
        remote += matched && match.rules[at]->limit.remote;
        weir_assert(!matched || !match.rules[at]->limit.remote == (match.charges[at].limit != 0));
        at += matched;
    }
    weir_assert(at == match.count && remote == match.remote_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct weir_limiter *limiter;
    struct weir_limiter_options options = { .memory_max = (size_t)1 << 20 };
    struct weir_attribute attributes[WEIR_ATTRIBUTES_MAX];
    struct weir_config *config = NULL;
    struct weir_rules *rules = NULL;
    const uint8_t *end = size ? memchr(data, '\0', size) : NULL;
    size_t text = end ? (size_t)(end - data) : size;
    if (memmem(data, size, "_file", 5)) /* would open whatever file the fuzzer thinks of */
        return 0;
    if (!limiter)
        weir_assert(weir_limiter_create(&options, &limiter, NULL) == 0);
    if (weir_config_parse((const char *)data, text, &config, NULL) == 0 &&
        weir_rules_create(limiter, config, &rules, NULL) == 0)
        agreement_check(rules, attributes, end ? request_read((const char *)end + 1, size - text - 1, attributes) : 0);
    weir_rules_destroy(rules);
    weir_config_destroy(config);
    return 0;
}
