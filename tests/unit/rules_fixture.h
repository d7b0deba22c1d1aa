/* SPDX-License-Identifier: Apache-2.0
 *
 * A configuration in YAML, compiled, on a small limiter of its own. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rules/rules.h"

struct fixture {
    struct weir_limiter *limiter;
    struct weir_config *config;
    struct weir_rules *rules;
};

/* A text that is a configuration. */
static inline struct weir_config *config_parsed(const char *text)
{
    struct weir_config *config = NULL;
    struct weir_config_fault fault;
    if (weir_config_parse(text, strlen(text), &config, &fault) != 0)
        fail_msg("%s\n  gives %u:%u: %s", text, fault.mark.line, fault.mark.column, fault.text);
    return config;
}

/* For texts that are put together; a test that has no memory has nothing to say. */
static inline char *fixture_alloc(size_t size)
{
    char *text = malloc(size);
    if (!text)
        abort();
    return text;
}

/* printf to the end of a text. */
__attribute__((format(printf, 3, 4))) static inline void fixture_add(char *text, size_t *used, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    *used += (size_t)vsprintf(text + *used, format, list);
    va_end(list);
}

static inline struct fixture fixture_make(const char *text)
{
    struct fixture fixture = { 0 };
    struct weir_limiter_options options = { .memory_max = (size_t)1 << 20 };
    struct weir_config_fault fault = { { 0, 0 }, "" };
    struct weir_fault created;
    assert_int_equal(weir_limiter_create(&options, &fixture.limiter, &created), 0);
    if (weir_config_parse(text, strlen(text), &fixture.config, &fault) != 0 ||
        weir_rules_create(fixture.limiter, fixture.config, &fixture.rules, &fault) != 0)
        fail_msg("%u:%u: %s", fault.mark.line, fault.mark.column, fault.text);
    return fixture;
}

static inline void fixture_free(struct fixture *fixture)
{
    weir_rules_destroy(fixture->rules);
    weir_config_destroy(fixture->config);
    weir_limiter_destroy(fixture->limiter);
}

#define FIXTURE_ATTRIBUTES_MAX 80

struct fixture_request {
    struct weir_attribute attributes[FIXTURE_ATTRIBUTES_MAX];
    size_t count;
};

static inline struct weir_slice fixture_slice(const char *text)
{
    return (struct weir_slice){ text, strlen(text) };
}

/* Names and values in turn, ended by NULL. */
static inline struct fixture_request fixture_request(const char *name, ...)
{
    struct fixture_request request = { .count = 0 };
    va_list list;
    va_start(list, name);
    for (; name; name = va_arg(list, const char *)) {
        const char *value = va_arg(list, const char *);
        request.attributes[request.count].name = fixture_slice(name);
        request.attributes[request.count++].value = fixture_slice(value);
    }
    va_end(list);
    return request;
}

static inline int fixture_match(const struct fixture *fixture, const struct fixture_request *request, uint64_t cost,
                                struct weir_match *match)
{
    struct weir_fault fault;
    return weir_rules_match(fixture->rules, request->attributes, request->count, cost, match, &fault);
}

/* "name(variant's conditions) name2", of the limits that apply. */
static inline void fixture_expect(const struct fixture *fixture, struct fixture_request request, const char *expected)
{
    struct weir_match match;
    char text[2000] = "";
    size_t used = 0;
    assert_int_equal(fixture_match(fixture, &request, 1, &match), 0);
    for (size_t i = 0; i < match.count; i++) {
        const char *variant = match.rules[i]->variant;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? " " : "", match.rules[i]->name);
        if (variant[0])
            used += (size_t)snprintf(text + used, sizeof(text) - used, "(%.*s)", (int)strcspn(variant, "#"), variant);
    }
    assert_string_equal(text, expected);
}

#define REQUEST(...) fixture_request(__VA_ARGS__, NULL)
#define NO_ATTRIBUTES fixture_request(NULL)
