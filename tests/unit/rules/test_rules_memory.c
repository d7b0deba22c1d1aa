/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that runs out at any allocation, the first to the last: WEIR_ENOMEM, nothing changed, nothing lost (the build
 * with ASan counts). Linked with --wrap, so that our calls of the allocator come here first. */
#include "rules_fixture.h"

#define LIMITS 100
#define NEVER (-1L)

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);

static long granted = NEVER; /* allocations until the memory is used up */

static bool denied(void)
{
    if (granted > 0)
        granted--;
    return granted == 0;
}

void *__wrap_malloc(size_t size)
{
    return denied() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return denied() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return denied() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
    return denied() ? NULL : __real_reallocarray(old, count, size);
}

static char *text_make(void)
{
    static const char *const modes[] = { "exact", "leased", "batched", "split" };
    char *text = fixture_alloc(LIMITS * 300 + 400);
    size_t used = 0;
    fixture_add(text, &used,
                "engine: { redis: { servers: [ 127.0.0.1:1 ], username: u, password: p, tls: { name: n } } }\n"
                "cluster: { node: b, nodes: [ c, { name: b }, { name: a, gossip: 127.0.0.1:2 } ] }\n"
                "limits:\n");
    for (int i = 0; i < LIMITS; i++)
        fixture_add(text, &used,
                    "- { name: l%d, match: { r: \"/a%d/*\", t: x%d }, key: [u%d], rate: 5/s, sharing: %s,\n"
                    "    overrides: [{ u%d: a, burst: 2 }, { u%d: \"b*\", mode: off }, { u%d: a, burst: 3 }] }\n",
                    i, i, i, i % 50, modes[i % 4], i % 50, i % 50, i % 50);
    return text;
}

static void test_parsing_without_memory(void **state)
{
    (void)state;
    char *text = text_make();
    struct weir_config *config = NULL;
    struct weir_config_fault fault;
    long tries = 1;
    for (;; tries++) {
        granted = tries;
        int error = weir_config_parse(text, strlen(text), &config, &fault);
        granted = NEVER;
        if (!error)
            break;
        assert_int_equal(error, WEIR_ENOMEM);
        assert_null(config);
    }
    assert_true(tries > 10);
    weir_config_destroy(config);
    free(text);
}

static void test_compiling_without_memory(void **state)
{
    (void)state;
    char *text = text_make();
    struct fixture f = fixture_make(text);
    struct weir_rules *rules = NULL;
    struct weir_config_fault fault;
    long tries = 1;
    for (;; tries++) {
        granted = tries;
        int error = weir_rules_create(f.limiter, f.config, &rules, &fault);
        granted = NEVER;
        if (!error)
            break;
        assert_int_equal(error, WEIR_ENOMEM);
        assert_null(rules);
        fixture_expect(&f, REQUEST("r", "/a3/x", "t", "x3", "u3", "a"), "l3(u3=a)"); /* the old set still works */
    }
    assert_true(tries > 10);
    weir_rules_destroy(rules);
    fixture_free(&f);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parsing_without_memory),
        cmocka_unit_test(test_compiling_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
