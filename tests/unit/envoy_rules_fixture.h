/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of envoyproxy/ratelimit, served: its limits compiled, and asked as the server asks them. */
#pragma once

#include "rules/envoy_rules.h"
#include "rules_fixture.h"
#include "serve/envoy_inside.h"

#define FIXTURE_ENTRIES_MAX 6

struct fixture_entry {
    char key[8], value[16];
};

static inline struct weir_envoy_rules *made(const char *text, bool attempts)
{
    struct weir_envoy_rules *rules = NULL;
    struct weir_envoy_rules_fault fault = { "" };
    const struct weir_envoy_rules_file file = { "f.yaml", text, strlen(text) };
    if (weir_envoy_rules_make(&file, 1, attempts, &rules, &fault) != 0)
        fail_msg("%s\n  gives %s", text, fault.text);
    return rules;
}

struct served {
    struct weir_envoy_rules *from;
    struct weir_config *config;
    struct weir_limiter *limiter;
    struct weir_rules *rules;
};

static inline struct served serve(const char *text, bool attempts)
{
    struct served served = { .from = made(text, attempts) };
    struct weir_config *base = config_parsed("unmatched: admit\n");
    struct weir_limiter_options options = { .memory_max = (size_t)4 << 20 };
    struct weir_config_faults faults = { .count = 0 };
    struct weir_fault fault;
    if (weir_config_with_rules(base, served.from->text, &served.config, &faults) != 0)
        fail_msg("%s\n  gives %u:%u: %s", (const char *)served.from->text.data, faults.list[0].mark.line,
                 faults.list[0].mark.column, faults.list[0].text);
    weir_config_destroy(base);
    assert_int_equal(weir_limiter_create(&options, &served.limiter, &fault), 0);
    if (weir_rules_create(served.limiter, served.config, &served.rules, &faults.list[0]) != 0)
        fail_msg("%s\n  gives %s", (const char *)served.from->text.data, faults.list[0].text);
    return served;
}

static inline void end(struct served *served)
{
    weir_rules_destroy(served->rules);
    weir_limiter_destroy(served->limiter);
    weir_config_destroy(served->config);
    weir_envoy_rules_destroy(served->from);
}

/* As the server asks it. */
static inline void ask(const struct served *served, const char *domain, const struct fixture_entry *entries,
                       size_t count, uint64_t hits, struct weir_match *ret_match)
{
    static struct weir_envoy_work work;
    struct weir_fault fault;
    work.request.domain = fixture_slice(domain);
    work.request.hits = (uint32_t)hits;
    work.request.count = 1;
    work.request.descriptors[0] = (struct weir_envoy_descriptor){ .first = 0, .count = count };
    work.request.entries_count = count;
    for (size_t i = 0; i < count; i++)
        work.request.entries[i] = (struct weir_envoy_entry){ fixture_slice(entries[i].key),
                                                             fixture_slice(entries[i].value) };
    weir_envoy_questions_make(&work, served->rules);
    if (weir_rules_match(served->rules, work.questions[0].attributes, work.questions[0].count, hits, ret_match, &fault))
        fail_msg("%s: %s", fault.field, fault.text);
}
