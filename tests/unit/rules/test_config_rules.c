/* SPDX-License-Identifier: Apache-2.0
 *
 * The section `rules`, and a set of rules that comes from its store: what is in the file, what is in the store, and
 * that nothing is in both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "rules/config.h"

static struct weir_config *file_of(const char *text)
{
    struct weir_config *config = NULL;
    struct weir_config_fault fault = { 0 };
    int error = weir_config_parse(text, strlen(text), &config, &fault);
    if (error)
        fprintf(stderr, "%u:%u: %s\n", fault.mark.line, fault.mark.column, fault.text);
    assert_int_equal(error, 0);
    return config;
}

static int with(const struct weir_config *file, const char *rules, struct weir_config **ret_config,
                struct weir_config_faults *ret_faults)
{
    *ret_config = NULL;
    return weir_config_with_rules(file, (struct weir_slice){ rules, strlen(rules) }, ret_config, ret_faults);
}

#define STORED "rules: { store: \"sqlite:/tmp/rules.db\" }\n"

static void the_section_says_where(void **state)
{
    (void)state;
    struct weir_config *config = file_of(STORED);
    assert_string_equal(config->rules.store.data, "sqlite:/tmp/rules.db");
    assert_null(config->rules.table);
    assert_null(config->rules.kept);
    assert_int_equal(config->rules.poll_ns, 0);
    assert_int_equal(config->rules.timeout_ns, 2 * WEIR_NS_PER_SECOND);
    assert_int_equal(config->limits_count, 0);
    weir_config_destroy(config);
    config = file_of("rules:\n  store: postgresql://weir@db/limits\n  table: public.rules\n  kept: /var/lib/weir/kept\n"
                     "  poll: 250ms\n  timeout: 5s\n");
    assert_string_equal(config->rules.store.data, "postgresql://weir@db/limits");
    assert_string_equal(config->rules.table, "public.rules");
    assert_string_equal(config->rules.kept, "/var/lib/weir/kept");
    assert_int_equal(config->rules.poll_ns, 250 * WEIR_NS_PER_MS);
    assert_int_equal(config->rules.timeout_ns, 5 * WEIR_NS_PER_SECOND);
    weir_config_destroy(config);
    config = file_of("limits: []\n");
    assert_int_equal(config->rules.store.size, 0);
    weir_config_destroy(config);
}

static void what_is_wrong_with_the_section_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned line;
        const char *says;
    } cases[] = {
        { "rules: { kept: /tmp/x }\n", 1, "rules lacks the key \"store\"" },
        { "rules: { store: /tmp/rules.db }\n", 1, "must be sqlite:PATH or postgresql://..." },
        { "rules: { store: \"sqlite:a\", poll: 1ms }\n", 1, "must be 10ms to" },
        { "rules: { store: \"sqlite:a\", timeout: 1ms }\n", 1, "must be 100ms to" },
        { "rules: { store: \"sqlite:a\", speed: 1 }\n", 1, "speed" },
        { STORED "limits: []\n", 2, "limits stands in the store that rules names, not in this file" },
        { "unmatched: refuse\n" STORED, 1, "unmatched stands in the store that rules names" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_config *config = NULL;
        struct weir_config_fault fault = { 0 };
        assert_int_not_equal(weir_config_parse(cases[i].text, strlen(cases[i].text), &config, &fault), 0);
        assert_int_equal(fault.mark.line, cases[i].line);
        assert_non_null(strstr(fault.text, cases[i].says));
    }
}

/* Limits are judged by the file's engine and nodes, and are those of the store. */
static void a_set_of_rules_is_read_with_its_file(void **state)
{
    (void)state;
    static struct weir_config_faults faults;
    struct weir_config *file = file_of(STORED "engine: { redis: { servers: [\"127.0.0.1:1\"] } }\n"
                                              "cluster_secret: 6f0c1d2be9a84735b2d1708c5e4f93a6\n");
    struct weir_config *config;
    assert_int_equal(with(file,
                          "unmatched: refuse\nlimits:\n  - name: api\n    rate: 10/min\n    key: [user]\n"
                          "    sharing: leased\n",
                          &config, &faults),
                     0);
    assert_int_equal(config->limits_count, 1);
    assert_string_equal(config->limits[0].name, "api");
    assert_int_equal(config->limits[0].sharing, WEIR_SHARING_LEASED);
    assert_int_equal(config->unmatched, WEIR_UNMATCHED_REFUSE);
    assert_int_equal(config->redis.servers_count, 1);
    assert_int_not_equal(config->checksum, file->checksum);

    struct weir_config *again = NULL;
    assert_int_equal(weir_config_again(config, &again, NULL), 0);
    assert_int_equal(again->limits_count, 1);
    assert_int_equal(again->checksum, config->checksum);
    assert_int_equal(again->unmatched, WEIR_UNMATCHED_REFUSE);
    weir_config_destroy(again);
    weir_config_destroy(config);
    weir_config_destroy(file);
}

/* Each with its place in the set of rules; all of them at once. */
static void what_is_wrong_with_a_set_of_rules_is_told(void **state)
{
    (void)state;
    static struct weir_config_faults faults;
    static const struct {
        const char *text;
        unsigned line;
        const char *says;
    } cases[] = {
        { "", 1, "" },
        { "unmatched: admit\n", 1, "limits" },
        { "- a\n", 1, "a set of rules must be a mapping" },
        { "limits: 3\n", 1, "limits must be a list" },
        { "limits: []\nengine: {}\n", 2, "engine" },
        { "limits: []\nrules: { store: \"sqlite:b\" }\n", 2, "rules" },
        { "limits:\n  - name: api\n    rate: x/min\n", 3, "rate" },
        { "limits:\n  - name: api\n    rate: 1/min\n    sharing: leased\n", 4, "leased" },
        { "limits: [\n", 2, "" },
    };
    struct weir_config *file = file_of(STORED), *config;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int error = with(file, cases[i].text, &config, &faults);
        if (!error)
            fprintf(stderr, "taken: %s\n", cases[i].text);
        assert_int_not_equal(error, 0);
        assert_int_equal(faults.count, 1);
        assert_int_equal(faults.list[0].mark.line, cases[i].line);
        assert_non_null(strstr(faults.list[0].text, cases[i].says));
        assert_null(config);
    }
    assert_int_not_equal(
        with(file, "limits:\n  - name: a\n    rate: x/min\n  - name: b\n    rate: 1/xx\n", &config, &faults), 0);
    assert_int_equal(faults.count, 2);
    assert_int_equal(faults.list[1].mark.line, 5);
    weir_config_destroy(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_section_says_where),
        cmocka_unit_test(what_is_wrong_with_the_section_is_told),
        cmocka_unit_test(a_set_of_rules_is_read_with_its_file),
        cmocka_unit_test(what_is_wrong_with_a_set_of_rules_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
