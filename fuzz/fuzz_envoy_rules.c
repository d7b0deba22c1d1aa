/* SPDX-License-Identifier: Apache-2.0
 *
 * envoyproxy/ratelimit's configuration files: no text may do more than be refused, and told where; and what is taken is
 * a text of limits, each for one domain and one kind of descriptor, whatever else is wrong with them told of the file
 * that they come from. Files are separated by NULs. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "rules/envoy_rules.h"
#include "rules/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool has_condition(const struct weir_config_limit *limit, const char *attribute)
{
    size_t count = 0;
    for (size_t i = 0; i < limit->match_count; i++)
        count += strcmp(limit->match[i].attribute, attribute) == 0;
    return count == 1;
}

static void limits_check(const struct weir_envoy_rules *rules, const struct weir_config *config, bool attempts)
{
    weir_assert(config->limits_count == rules->limits_count);
    for (size_t i = 0; i < config->limits_count; i++) {
        const struct weir_config_limit *limit = &config->limits[i];
        weir_assert(has_condition(limit, "domain") && has_condition(limit, WEIR_ENVOY_DESCRIPTOR));
        weir_assert(limit->spec.algorithm == WEIR_FIXED_WINDOW && limit->spec.align == WEIR_ALIGN_CALENDAR);
        weir_assert(limit->mark.line == rules->first_line + i && rules->origins[i].mark.line > 0);
        const bool off = limit->spec.mode == WEIR_MODE_OFF;
        weir_assert((limit->spec.count_mode == WEIR_COUNT_ATTEMPTS) == (attempts && !off));
    }
}

static void serve(const struct weir_envoy_rules *rules, const struct weir_config *base, bool attempts)
{
    static struct weir_config_faults faults;
    struct weir_envoy_rules_fault placed;
    struct weir_limiter_options options = { .memory_max = (size_t)1 << 20 };
    struct weir_limiter *limiter = NULL;
    struct weir_config *config = NULL;
    struct weir_rules *made = NULL;
    if (weir_config_with_rules(base, rules->text, &config, &faults) != 0) {
        weir_assert(faults.count > 0);
        for (size_t i = 0; i < faults.count; i++) {
            weir_envoy_rules_place(rules, &faults.list[i], &placed);
            weir_assert(faults.list[i].mark.line <= 1 || placed.text[0] == 'f');
        }
        return;
    }
    limits_check(rules, config, attempts);
    weir_assert(weir_limiter_create(&options, &limiter, NULL) == 0);
    if (weir_rules_create(limiter, config, &made, &faults.list[0]) != 0)
        weir_assert(faults.list[0].text[0]);
    weir_rules_destroy(made);
    weir_limiter_destroy(limiter);
    weir_config_destroy(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char base_text[] = "unmatched: admit\n";
    static const char *const names[] = { "f0", "f1", "f2", "f3" };
    struct weir_envoy_rules_file files[4];
    struct weir_envoy_rules *rules = NULL;
    struct weir_envoy_rules_fault fault = { "" };
    struct weir_config *base = NULL;
    size_t count = 0;
    char *text = malloc(size + 1);
    weir_assert(text);
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t at = 0; at <= size && count < 4; at += files[count++].size + 1) {
        const char *end = memchr(text + at, '\0', size + 1 - at);
        files[count] = (struct weir_envoy_rules_file){ names[count], text + at, (size_t)(end - (text + at)) };
    }
    const bool attempts = size % 2 == 1;
    if (weir_envoy_rules_make(files, count, attempts, &rules, &fault) != 0) {
        weir_assert(fault.text[0] == 'f');
    } else {
        weir_assert(weir_config_parse(base_text, sizeof(base_text) - 1, &base, NULL) == 0);
        serve(rules, base, attempts);
        weir_config_destroy(base);
    }
    weir_envoy_rules_destroy(rules);
    free(text);
    return 0;
}
