/* SPDX-License-Identifier: Apache-2.0
 *
 * envoyproxy/ratelimit's files as limits of weir: which descriptor decides, the text that is made, and what is refused,
 * each with its place. Against a model of that service: test_envoy_rules_random.c. */
#include "envoy_rules_fixture.h"

/* The line of the descriptor that decides; 0: none; entries as "key=value,key=value". */
static unsigned line_of(const struct served *served, const char *domain, const char *text)
{
    struct fixture_entry entries[FIXTURE_ENTRIES_MAX];
    static struct weir_match match;
    size_t count = 0;
    char copy[200], *at = copy, *one;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    while ((one = strsep(&at, ",")) != NULL) {
        char *value = strchr(one, '=');
        *value++ = '\0';
        (void)snprintf(entries[count].key, sizeof(entries[0].key), "%s", one);
        (void)snprintf(entries[count++].value, sizeof(entries[0].value), "%s", value);
    }
    ask(served, domain, entries, count, 1, &match);
    return match.count ? served->from->origins[match.rules[0]->index].mark.line : match.met ? 1000 : 0;
}

static void the_most_specific(void **state)
{
    (void)state;
    struct served served = serve(
        "domain: edge\n"
        "descriptors:\n"
        "  - key: addr\n"
        "    rate_limit: { unit: second, requests_per_unit: 10 }\n"
        "  - { key: addr, value: 50.0.0.5, rate_limit: { unit: second, requests_per_unit: 0 } }\n"
        "  - { key: addr, value: 50.*, rate_limit: { unit: second, requests_per_unit: 1 } }\n"
        "  - { key: addr, value: 50.0.*, rate_limit: { unit: second, requests_per_unit: 2 } }\n"
        "  - key: a\n"
        "    value: x\n"
        "    descriptors:\n"
        "      - { key: b, value: y, rate_limit: { unit: day, requests_per_unit: 2 } }\n"
        "  - key: a\n"
        "    descriptors:\n"
        "      - { key: b, rate_limit: { unit: day, requests_per_unit: 2 } }\n"
        "      - { key: a, rate_limit: { unlimited: true } }\n",
        false);
    assert_null(strstr(served.from->text.data, "attempts")); /* what is refused counts only where that is asked for */
    assert_int_equal(line_of(&served, "edge", "addr=50.0.0.5"), 5);
    assert_int_equal(line_of(&served, "edge", "addr=50.0.0.6"), 6); /* the first pattern, not the closest */
    assert_int_equal(line_of(&served, "edge", "addr=51.0.0.6"), 3);
    assert_int_equal(line_of(&served, "other", "addr=51.0.0.6"), 0);
    assert_int_equal(line_of(&served, "edge", "addr=51.0.0.6,b=y"), 0); /* deeper than what there is */
    assert_int_equal(line_of(&served, "edge", "a=x,b=y"), 11);
    assert_int_equal(line_of(&served, "edge", "a=x,b=z"), 0); /* never back to the descriptor without a value */
    assert_int_equal(line_of(&served, "edge", "a=w,b=z"), 14);
    assert_int_equal(line_of(&served, "edge", "b=z,a=w"), 0); /* in this order */
    assert_int_equal(line_of(&served, "edge", "a=w"), 0);
    assert_int_equal(line_of(&served, "edge", "a=w,a=v"), 1000);
    assert_int_equal(line_of(&served, "edge", "a=w,a=v,a=v"), 0);
    end(&served);
}

/* The text is what people keep: it is the same for ever. */
static void the_text(void **state)
{
    (void)state;
    struct weir_envoy_rules *rules = made("domain: edge\n"
                                          "descriptors:\n"
                                          "  - key: tenant\n"
                                          "    descriptors:\n"
                                          "      - key: path\n"
                                          "        value: /api/*/x\n"
                                          "        shadow_mode: true\n"
                                          "        rate_limit: { name: base, unit: minute, requests_per_unit: 100 }\n"
                                          "      - key: path\n"
                                          "        value: files/*\n"
                                          "        share_threshold: yes\n"
                                          "        rate_limit: { unit: WEEK, requests_per_unit: 10 }\n"
                                          "      - key: path\n"
                                          "        rate_limit: { unlimited: true }\n",
                                          true);
    assert_string_equal(
        rules->text.data,
        "limits:\n"
        "  - { name: edge.tenant.path_/api/-/x, match: { domain: edge, descriptor: \"tenant,path\", path: \"/api/*/x\" "
        "}, "
        "key: [tenant, path], ipv6_prefix: 128, rate: 100/min, algorithm: fixed_window, count: attempts, mode: shadow "
        "}\n"
        "  - { name: edge.tenant.path_files/-, match: { domain: edge, descriptor: \"tenant,path\", path: \"files/*\" "
        "}, "
        "key: [tenant], ipv6_prefix: 128, rate: 10/168hour, algorithm: fixed_window, count: attempts }\n"
        "  - { name: edge.tenant.path, match: { domain: edge, descriptor: \"tenant,path\", path: { not: [\"/api/*/x\", "
        "\"files/*\"] } }, key: [tenant, path], ipv6_prefix: 128, rate: 1/s, mode: off, algorithm: fixed_window }\n");
    weir_envoy_rules_destroy(rules);
}

#define ONE(text) "domain: d\ndescriptors:\n  - { key: k, " text " }\n"
#define LIMIT "rate_limit: { unit: day, requests_per_unit: 1 }"

static const struct {
    const char *text, *fault;
} refused[] = {
    { "", "f.yaml:1:1: the file is empty: it must be a mapping with domain:" },
    { "[]", "f.yaml:1:1: a file of envoyproxy/ratelimit must be a mapping" },
    { "descriptors: []\n", "f.yaml:1:1: a file of envoyproxy/ratelimit lacks the key \"domain\"" },
    { "domain:\n", "domain must not be empty" },
    { "domain: a*\n", "f.yaml:1:9: domain \"a*\" must not have a *" },
    { "domain: 10.0.0.0/8\n", "f.yaml:1:9: domain \"10.0.0.0/8\" is a block of addresses" },
    { "domain: d\ndescriptor: []\n", "f.yaml:2:1: unknown key \"descriptor\"" },
    { "domain: d\ndescriptors: {}\n", "f.yaml:2:14: descriptors must be a list" },
    { "domain: d\ndescriptors: [ 5 ]\n", "f.yaml:2:16: a descriptor must be a mapping" },
    { "domain: d\ndescriptors: [ { value: x } ]\n", "f.yaml:2:16: a descriptor lacks the key \"key\"" },
    { "domain: d\ndescriptors: [ { key: } ]\n", "key must not be empty" },
    { "domain: d\ndescriptors: [ { key: a*b } ]\n", "f.yaml:2:23: key \"a*b\" must not have a *" },
    { "domain: d\ndescriptors: [ { key: \"a,b\" } ]\n", "f.yaml:2:23: key \"a,b\" must not have a * or a comma" },
    { "domain: d\ndescriptors: [ { key: domain } ]\n", "f.yaml:2:23: no entry may be called \"domain\"" },
    { "domain: d\ndescriptors: [ { key: descriptor } ]\n", "f.yaml:2:23: no entry may be called \"descriptor\"" },
    { ONE("values: x"), "f.yaml:3:15: unknown key \"values\" in a descriptor; did you mean \"value\"?" },
    { ONE("value: [x]"), "f.yaml:3:22: value must be text" },
    { ONE("value: 10.1.0.0/16"), "f.yaml:3:22: value \"10.1.0.0/16\" is a block of addresses" },
    { ONE("value: \"\\0\""), "f.yaml:3:22: value must not contain a NUL" },
    { ONE("value: x, value: y"), "f.yaml:3:25: duplicate key" },
    { ONE("shadow_mode: maybe"), "f.yaml:3:28: shadow_mode must be true or false" },
    { ONE("shadow_mode: \"true\""), "f.yaml:3:28: shadow_mode must be true or false" },
    { ONE("quota_mode: true"), "f.yaml:3:27: quota_mode: true is not what weir can do" },
    { ONE("detailed_metric: true"), "f.yaml:3:32: detailed_metric: true is not what weir can do" },
    { ONE("value_to_metric: on"), "f.yaml:3:32: value_to_metric: true is not what weir can do" },
    { ONE("metadata: { a: b }"), "f.yaml:3:25: metadata is not what weir can do" },
    { ONE("share_threshold: true"), "f.yaml:3:32: share_threshold is for a value with a *" },
    { ONE("value: x, share_threshold: true"), "f.yaml:3:42: share_threshold is for a value with a *" },
    { ONE("rate_limit: 5"), "f.yaml:3:27: rate_limit must be a mapping" },
    { ONE("rate_limit: {}"), "f.yaml:3:27: rate_limit lacks the key \"unit\"" },
    { ONE("rate_limit: { unit: day }"), "f.yaml:3:27: rate_limit lacks the key \"requests_per_unit\"" },
    { ONE("rate_limit: { unit: fortnight, requests_per_unit: 1 }"), "f.yaml:3:35: unit must be second, minute" },
    { ONE("rate_limit: { unit: unknown, requests_per_unit: 1 }"), "f.yaml:3:35: unit must be second, minute" },
    { ONE("rate_limit: { unit: day, requests_per_unit: -1 }"), "f.yaml:3:59: requests_per_unit \"-1\" must be" },
    { ONE("rate_limit: { unit: day, requests_per_unit: 4294967296 }"), "f.yaml:3:59: requests_per_unit 4294967296" },
    { ONE("rate_limit: { unit: day, unlimited: true }"), "f.yaml:3:35: unit says nothing" },
    { ONE("rate_limit: { unit: day, requests_per_unit: 1, burst: 5 }"), "f.yaml:3:62: unknown key \"burst\"" },
    { ONE("rate_limit: { unit: day, requests_per_unit: 1, replaces: x }"), "f.yaml:3:72: replaces must be a list" },
    { ONE("rate_limit: { unit: day, requests_per_unit: 1, replaces: [ {} ] }"),
      "f.yaml:3:74: what is replaced lacks the key" },
    { ONE("rate_limit: { unit: day, requests_per_unit: 1, replaces: [ { name: } ] }"),
      "f.yaml:3:74: name must not be empty" },
    { ONE("rate_limit: { unit: day, requests_per_unit: 1, replaces: [ { nam: x } ] }"),
      "f.yaml:3:76: unknown key \"nam\"" },
    { ONE("rate_limit: { unit: day, requests_per_unit: 1, name: n, replaces: [ { name: n } ] }"),
      "f.yaml:3:91: the limit has this name itself" },
    { ONE("descriptors: [ { key: l, valeu: 5 } ]"), "f.yaml:3:40: unknown key \"valeu\"" },
    { ONE("value: &x 5"), "f.yaml:3:22: anchors (&x) are not allowed" },
    { ONE(LIMIT) "  - { key: k, " LIMIT " }\n", "f.yaml:4:5: a descriptor \"k\" stands already at line 3" },
    { ONE("value: v_w") "  - { key: k_v, value: w }\n", "f.yaml:4:5: a descriptor \"k_v_w\" stands already at line 3" },
    { ONE("value: v") "  - { key: k_v }\n", "f.yaml:4:5: a descriptor \"k_v\" stands already at line 3" },
    { ONE("value: \"::1\"") "  - { key: k, value: \"0:0::1\" }\n",
      "f.yaml:4:5: a descriptor \"k_::1\" stands already" },
    { ONE("value: \"0:0::1\"") "  - { key: k, value: \"::1\" }\n",
      "f.yaml:4:5: a descriptor \"k_::1\" stands already" },
    { ONE("value: id_5*") "  - { key: k_id }\n", "f.yaml:3:22: envoyproxy/ratelimit takes this for entries" },
    { ONE("value: \"*\"") "  - { key: k_id }\n",
      "f.yaml:3:22: envoyproxy/ratelimit takes this for entries called \"k_id\"" },
    { ONE("value: i*") "  - { key: k_id, value: \"5*\" }\n",
      "f.yaml:3:22: envoyproxy/ratelimit takes this for entries" },
    { ONE("descriptors: [ { key: k#2, descriptors: [ { key: k } ] } ]"), "is what weir calls the entry" },
};

static void what_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct weir_envoy_rules *rules = NULL;
        struct weir_envoy_rules_fault fault = { "" };
        const struct weir_envoy_rules_file file = { "f.yaml", refused[i].text, strlen(refused[i].text) };
        if (weir_envoy_rules_make(&file, 1, false, &rules, &fault) == 0)
            fail_msg("%s is taken", refused[i].text);
        if (!strstr(fault.text, refused[i].fault))
            fail_msg("%s\n  gives %s\n  not   %s", refused[i].text, fault.text, refused[i].fault);
    }
}

/* Those of that name in the domain, wherever they stand; one that nobody has is none. */
static void what_replaces(void **state)
{
    (void)state;
    struct served served = serve(
        "domain: d\n"
        "descriptors:\n"
        "  - { key: k, rate_limit: { name: n, unit: day, requests_per_unit: 1 } }\n"
        "  - { key: l, rate_limit: { name: m, unit: day, requests_per_unit: 1, replaces: [ { name: n }, { name: none } "
        "] } }\n"
        "  - { key: l, descriptors: [ { key: k, rate_limit: { name: n, unit: day, requests_per_unit: 2 } } ], value: x "
        "}\n"
        "  - { key: m, rate_limit: { unlimited: true, replaces: [ { name: m }, { name: n } ] } }\n"
        "  - { key: o, rate_limit: { unit: day, requests_per_unit: 1, replaces: [ { name: none } ] } }\n",
        false);
    const struct weir_config_limit *limits = served.config->limits;
    assert_int_equal(served.config->limits_count, 5);
    assert_int_equal(limits[1].replaces_count, 2);
    assert_string_equal(limits[1].replaces[0], "d.k");
    assert_string_equal(limits[1].replaces[1], "d.l_x.k");
    assert_int_equal(limits[3].replaces_count, 3);
    assert_string_equal(limits[3].replaces[0], "d.l");
    assert_int_equal(limits[0].replaces_count + limits[2].replaces_count + limits[4].replaces_count, 0);
    struct weir_match match;
    const struct fixture_entry l = { "l", "y" }, k = { "k", "y" }, m = { "m", "y" };
    ask(&served, "d", &l, 1, 1, &match);
    assert_int_equal(match.replacing_count, 1);
    const struct weir_rule *const by = match.replacing[0];
    assert_string_equal(by->name, "d.l");
    assert_int_equal(weir_match_replace(served.rules, &match, &by, 1), 0);
    assert_int_equal(match.count, 1);
    ask(&served, "d", &k, 1, 1, &match);
    assert_int_equal(match.replacing_count, 0);
    assert_int_equal(weir_match_replace(served.rules, &match, &by, 1), 1);
    assert_int_equal(match.count, 0);
    ask(&served, "d", &m, 1, 1, &match); /* it is off, and replaces */
    assert_int_equal(match.replacing_count, 1);
    assert_int_equal(match.count, 0);
    assert_true(weir_rules_replace(served.rules));
    end(&served);
}

/* What that service takes, and so is taken. */
static void what_is_taken(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "domain: d\n",
        "domain: d\ndescriptors:\n",
        "domain: d\ndescriptors: []\n",
        ONE("value: 5"),
        ONE("value: true"),
        ONE("value: null, rate_limit: ~, descriptors: null, shadow_mode: ~"),
        ONE("shadow_mode: Yes, quota_mode: off, detailed_metric: no, value_to_metric: False, metadata: {}"),
        ONE("rate_limit: { unlimited: true, requests_per_unit: 5, name: n, replaces: [] }"),
        ONE("rate_limit: { unit: Second, requests_per_unit: 1000000000, unlimited: false }"),
        ONE("value: \"*\", share_threshold: true, " LIMIT),
        ONE("value: \"a b\\\"\\\\\\u00e9\\U0001f600\\n\", " LIMIT),
        ONE("value: ab*") "  - { key: k_x }\n",
        ONE("value: \"*\"") "  - { key: k_x, value: y }\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct served served = serve(texts[i], false);
        end(&served);
    }
}

/* What limits cannot be is told of the file, too. */
static void limits_that_are_none(void **state)
{
    (void)state;
    struct weir_envoy_rules *rules = made(
        ONE("rate_limit: { unit: day, requests_per_unit: 1 }") "  - { key: l, rate_limit: { unit: second, "
                                                               "requests_per_unit: 4000000000 } }\n",
        false);
    struct weir_config *base = config_parsed("unmatched: admit\n"), *config = NULL;
    struct weir_config_faults faults = { .count = 0 };
    struct weir_envoy_rules_fault placed;
    assert_int_not_equal(weir_config_with_rules(base, rules->text, &config, &faults), 0);
    weir_envoy_rules_place(rules, &faults.list[0], &placed);
    if (!strstr(placed.text, "f.yaml:4:5: "))
        fail_msg("%s", placed.text);
    weir_config_destroy(base);
    weir_envoy_rules_destroy(rules);
}

static void several_files(void **state)
{
    (void)state;
    struct weir_envoy_rules *rules = NULL;
    struct weir_envoy_rules_fault fault = { "" };
    static const char one[] = ONE(LIMIT), other[] = "domain: e\ndescriptors: [ { key: k, " LIMIT " } ]\n";
    static const struct weir_envoy_rules_file files[] = { { "a.yaml", one, sizeof(one) - 1 },
                                                          { "b.yaml", other, sizeof(other) - 1 },
                                                          { "c.yaml", one, sizeof(one) - 1 } };
    assert_int_equal(weir_envoy_rules_make(files, 2, false, &rules, &fault), 0);
    assert_int_equal(rules->limits_count, 2);
    assert_string_equal(rules->origins[1].file, "b.yaml");
    weir_envoy_rules_destroy(rules);
    assert_int_equal(weir_envoy_rules_make(files, 3, false, &rules, &fault), WEIR_EINVAL);
    assert_string_equal(fault.text,
                        "c.yaml:1:9: the domain \"d\" stands already in a.yaml:1: one domain is in one file");
}

/* Names are made of what a name may have, and no two are the same. */
static void names(void **state)
{
    (void)state;
    struct served served = serve(
        "domain: d\n"
        "descriptors:\n"
        "  - { key: k, value: \"a b\", " LIMIT " }\n"
        "  - { key: k, value: \"a c\", " LIMIT " }\n"
        "  - { key: k, value: \"a?b\", " LIMIT " }\n"
        "  - { key: k.l, " LIMIT " }\n"
        "  - { key: k, descriptors: [ { key: l, " LIMIT " } ] }\n"
        "  - { key: l, value: 1234567890123456789012345678901234567890123456789012345678901234567890"
        "12345678901234567890123456789012345678901234567890123456789012345678901234567890, " LIMIT " }\n",
        false);
    const char *list[6];
    for (size_t i = 0; i < 6; i++) {
        list[i] = weir_rules_limit(served.rules, i)->name;
        assert_true(strlen(list[i]) <= WEIR_LIMIT_NAME_MAX);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(list[i], list[j]);
    }
    assert_string_equal(list[0], "d.k_a-b");
    assert_int_equal(strlen(list[5]), 109);
    end(&served);
}

#define TENANTS 300 /* more than there may be conditions with `not` */

static void many_with_others_beside_them(void **state)
{
    (void)state;
    char *text = fixture_alloc(100000);
    size_t used = 0;
    fixture_add(text, &used, "domain: d\ndescriptors:\n");
    for (int i = 0; i < TENANTS; i++)
        fixture_add(text, &used,
                    "  - key: t\n    value: t%d\n    descriptors:\n      - { key: p, value: p%d, " LIMIT " }\n"
                    "      - { key: p, " LIMIT " }\n",
                    i, i);
    struct served served = serve(text, false);
    assert_int_equal(line_of(&served, "d", "t=t7,p=p7"), 3 + 5 * 7 + 3);
    assert_int_equal(line_of(&served, "d", "t=t7,p=p8"), 3 + 5 * 7 + 4);
    assert_int_equal(line_of(&served, "d", "t=t299,p=p299"), 3 + 5 * 299 + 3);
    assert_int_equal(line_of(&served, "d", "t=t299,p="), 3 + 5 * 299 + 4);
    assert_int_equal(line_of(&served, "d", "t=t300,p=p7"), 0);
    end(&served);
    free(text);
}

/* Limits of weir's own file may do the same, with overrides, which have their limit's conditions. */
static void not_and_overrides(void **state)
{
    (void)state;
    struct fixture f = fixture_make(
        "limits:\n"
        "  - { name: l, match: { descriptor: \"u,v\", u: { not: [x, \"y*\"] }, w: { not: z } }, key: [u], "
        "rate: 1/s, overrides: [ { u: o, rate: 2/s }, { u: \"*x\", rate: 3/s } ] }\n");
    fixture_expect(&f, REQUEST("descriptor", "u,v", "u", "a"), "l");
    fixture_expect(&f, REQUEST("descriptor", "u,v", "u", "x"), "");
    fixture_expect(&f, REQUEST("descriptor", "u,v", "u", "y1"), "");
    fixture_expect(&f, REQUEST("descriptor", "u,v", "u", "yx"), "");
    fixture_expect(&f, REQUEST("descriptor", "u,v", "u", "a", "w", "z"), "");
    fixture_expect(&f, REQUEST("descriptor", "u,v", "u", "a", "w", "y"), "l");
    fixture_expect(&f, REQUEST("descriptor", "u", "u", "a"), "");
    fixture_expect(&f, REQUEST("descriptor", "u,v"), "");
    fixture_expect(&f, REQUEST("descriptor", "u,v", "u", "o"), "l(u=o)");
    fixture_expect(&f, REQUEST("descriptor", "u,v", "u", "o", "w", "z"), "");
    fixture_expect(&f, REQUEST("descriptor", "u,v", "u", "zx"), "l(u=*x)");
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_specific),
        cmocka_unit_test(the_text),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(what_is_taken),
        cmocka_unit_test(what_replaces),
        cmocka_unit_test(limits_that_are_none),
        cmocka_unit_test(several_files),
        cmocka_unit_test(names),
        cmocka_unit_test(many_with_others_beside_them),
        cmocka_unit_test(not_and_overrides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
