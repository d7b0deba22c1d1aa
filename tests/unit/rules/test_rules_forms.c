/* SPDX-License-Identifier: Apache-2.0
 *
 * What `match` takes: a value or pattern, a block of addresses, a list of these, and what must not be. */
#include "rules/block.h"
#include "rules_fixture.h"

static void test_a_block_holds_addresses_however_they_are_written(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits:\n"
                                    "  - { name: ten, match: { ip: 10.0.0.0/8 }, rate: 1/s }\n"
                                    "  - { name: one, match: { ip: 10.1.0.0/16 }, rate: 1/s }\n"
                                    "  - { name: odd, match: { ip: 10.1.128.0/17 }, rate: 1/s }\n"
                                    "  - { name: host, match: { ip: 10.1.2.3/32 }, rate: 1/s }\n"
                                    "  - { name: four, match: { ip: 0.0.0.0/0 }, rate: 1/s }\n"
                                    "  - { name: six, match: { ip: '::/0' }, rate: 1/s }\n"
                                    "  - { name: doc, match: { ip: '2001:DB8::/32' }, rate: 1/s }\n"
                                    "  - { name: link, match: { ip: 'fe80::/10' }, rate: 1/s }\n"
                                    "  - { name: mapped, match: { ip: '::ffff:10.1.2.0/120' }, rate: 1/s }\n");
    fixture_expect(&f, REQUEST("ip", "10.255.255.255"), "ten four");
    fixture_expect(&f, REQUEST("ip", "11.0.0.0"), "four");
    fixture_expect(&f, REQUEST("ip", "9.255.255.255"), "four");
    fixture_expect(&f, REQUEST("ip", "10.1.2.3"), "ten one host four mapped");
    fixture_expect(&f, REQUEST("ip", "::ffff:10.1.2.3"), "ten one host four mapped");
    fixture_expect(&f, REQUEST("ip", "::FFFF:a01:203"), "ten one host four mapped");
    fixture_expect(&f, REQUEST("ip", "10.1.128.0"), "ten one odd four");
    fixture_expect(&f, REQUEST("ip", "10.1.127.255"), "ten one four");
    fixture_expect(&f, REQUEST("ip", "2001:db8::1"), "six doc");
    fixture_expect(&f, REQUEST("ip", "2001:0DB8:ffff::"), "six doc");
    fixture_expect(&f, REQUEST("ip", "2001:db9::"), "six");
    fixture_expect(&f, REQUEST("ip", "fe80::1%eth0"), "six link"); /* the zone is no part of the address */
    fixture_expect(&f, REQUEST("ip", "::"), "six");
    const char *const none[] = { "", "10.0.0", "10.0.0.1:80", "010.0.0.1", "10.0.0.1 ", "[::1]", "10.0.0.0/8", "x" };
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        fixture_expect(&f, REQUEST("ip", none[i]), "");
    struct weir_attribute nul = { { "ip", 2 }, { "10.0.0.1\0", 9 } };
    struct weir_match match;
    assert_int_equal(weir_rules_match(f.rules, &nul, 1, 1, &match, NULL), 0);
    assert_int_equal(match.count, 0);
    fixture_free(&f);
}

static void test_a_list_is_any_of_its_values(void **state)
{
    (void)state;
    struct fixture f = fixture_make(
        "limits:\n"
        "  - { name: reads, match: { method: [GET, HEAD, GET] }, rate: 1/s }\n"
        "  - { name: get, match: { method: GET }, rate: 1/s }\n"
        "  - { name: mixed, match: { ip: [192.0.2.1, '10.*', 10.0.0.0/8, ''], method: [GET, \"P*\"] }, rate: 1/s }\n"
        "  - { name: one, match: { method: [POST] }, rate: 1/s }\n"
        "  - { name: any, match: { method: [POST, \"*\"] }, rate: 1/s }\n");
    fixture_expect(&f, REQUEST("method", "GET"), "reads get any");
    fixture_expect(&f, REQUEST("method", "HEAD"), "reads any");
    fixture_expect(&f, REQUEST("method", "POST"), "one any");
    fixture_expect(&f, REQUEST("method", "PUT", "ip", "192.0.2.1"), "mixed any");
    fixture_expect(&f, REQUEST("method", "PUT", "ip", "10.0.0.1"), "mixed any"); /* two of its values lead there */
    fixture_expect(&f, REQUEST("method", "PUT", "ip", ""), "mixed any");
    fixture_expect(&f, REQUEST("method", "PUT", "ip", "192.0.2.2"), "any");
    fixture_expect(&f, REQUEST("method", ""), "any");
    fixture_expect(&f, NO_ATTRIBUTES, "");
    fixture_free(&f);
}

/* Two values of a list that a value satisfies are one condition, and who is skipped is counted once. */
static void test_a_list_is_met_once(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits: [{ name: a, match: { u: [\"a*\", \"*b\", ab] }, key: [k], rate: 1/s }]");
    struct fixture_request request = REQUEST("u", "ab");
    struct weir_match match;
    assert_int_equal(fixture_match(&f, &request, 1, &match), 0);
    assert_int_equal(match.lacks_count, 1);
    fixture_free(&f);
}

/* Who leaves an attribute out must not escape a limit on all but some of its values. */
static void test_not_holds_where_the_attribute_is_absent(void **state)
{
    (void)state;
    struct fixture f = fixture_make(
        "limits:\n"
        "  - { name: outside, match: { ip: { not: 10.0.0.0/8 } }, rate: 1/s }\n"
        "  - { name: people, match: { agent: { not: [\"Bot*\", curl] } }, rate: 1/s }\n"
        "  - { name: both, match: { ip: { not: 10.0.0.0/8 }, agent: { not: [curl, \"Bot*\"] }, z: 1 }, rate: 1/s }\n"
        "  - { name: nobody, match: { key: { not: \"*\" } }, rate: 1/s }\n"
        "  - { name: known, match: { key: { is: \"*\", not: k1 } }, rate: 1/s }\n"
        "  - { name: api, match: { route: { is: \"/api/*\", not: [/api/health, \"/api/static/*\"] } }, rate: 1/s }\n");
    fixture_expect(&f, NO_ATTRIBUTES, "outside people nobody");
    fixture_expect(&f, REQUEST("z", "1"), "outside people both nobody");
    fixture_expect(&f, REQUEST("ip", "10.0.0.1", "key", ""), "people known");
    fixture_expect(&f, REQUEST("ip", "nonsense", "key", "k1"), "outside people");
    fixture_expect(&f, REQUEST("agent", "Bot7", "ip", "10.0.0.1"), "nobody");
    fixture_expect(&f, REQUEST("agent", "curl", "z", "1"), "outside nobody");
    fixture_expect(&f, REQUEST("agent", "bot", "z", "1", "key", "k1"), "outside people both");
    fixture_expect(&f, REQUEST("route", "/api/x", "key", "k1", "agent", "curl", "ip", "10.0.0.1"), "api");
    fixture_expect(&f, REQUEST("route", "/api/health", "key", "k1", "agent", "curl", "ip", "10.0.0.1"), "");
    fixture_expect(&f, REQUEST("route", "/api/static/a", "key", "k1", "agent", "curl", "ip", "10.0.0.1"), "");
    fixture_expect(&f, REQUEST("route", "/x", "key", "k1", "agent", "curl", "ip", "10.0.0.1"), "");
    fixture_free(&f);
}

static void test_overrides_take_lists_and_blocks(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits:\n"
                                    "  - name: l\n"
                                    "    key: [ip]\n"
                                    "    rate: 10/s\n"
                                    "    overrides:\n"
                                    "      - { ip: \"10.*\", burst: 1 }\n"
                                    "      - { ip: 10.0.0.0/8, burst: 2 }\n"
                                    "      - { ip: 10.1.0.0/16, burst: 3 }\n"
                                    "      - { ip: [10.1.1.1, 10.1.1.2], burst: 4 }\n"
                                    "      - { ip: 10.1.1.2, burst: 5 }\n"
                                    "      - { ip: [192.0.2.0/24, 198.51.100.0/24], mode: off }\n");
    fixture_expect(&f, REQUEST("ip", "11.0.0.1"), "l");
    fixture_expect(&f, REQUEST("ip", "10.x"), "l(ip=10.*)");
    fixture_expect(&f, REQUEST("ip", "10.2.0.1"), "l(ip=10.0.0.0/8)");
    fixture_expect(&f, REQUEST("ip", "::ffff:10.1.0.1"), "l(ip=10.1.0.0/16)");
    fixture_expect(&f, REQUEST("ip", "10.1.1.1"), "l(ip=[10.1.1.1, 10.1.1.2])");
    fixture_expect(&f, REQUEST("ip", "10.1.1.2"), "l(ip=[10.1.1.1, 10.1.1.2])"); /* as exact: the earlier in the file */
    fixture_expect(&f, REQUEST("ip", "192.0.2.7"), "");
    fixture_free(&f);
}

static void test_explain_names_what_did_not_hold(void **state)
{
    (void)state;
    struct fixture f = fixture_make("limits:\n"
                                    "  - { name: a, match: { ip: 10.0.0.0/8 }, rate: 1/s }\n"
                                    "  - { name: b, match: { u: { not: [x, 'y z'] } }, rate: 1/s }\n");
    struct fixture_request request = REQUEST("ip", "192.0.2.1", "u", "y z");
    static const char *const expected[] = { "10.0.0.0/8", "not [x, \"y z\"]" };
    for (size_t i = 0; i < 2; i++) {
        struct weir_explanation e;
        assert_int_equal(weir_rules_explain(f.rules, i, request.attributes, request.count, &e, NULL), 0);
        assert_int_equal(e.reason, WEIR_REASON_MISMATCH);
        assert_int_equal(e.pattern.size, strlen(expected[i]));
        assert_memory_equal(e.pattern.data, expected[i], e.pattern.size);
    }
    fixture_free(&f);
}

static void expect_create(const char *text, int expected, const char *part)
{
    struct weir_config *config = NULL;
    struct weir_rules *rules = NULL;
    struct weir_limiter *limiter = NULL;
    struct weir_limiter_options options = { .memory_max = (size_t)1 << 20 };
    struct weir_config_fault fault = { { 0, 0 }, "" };
    assert_int_equal(weir_limiter_create(&options, &limiter, NULL), 0);
    assert_int_equal(weir_config_parse(text, strlen(text), &config, &fault), 0);
    assert_int_equal(weir_rules_create(limiter, config, &rules, &fault), expected);
    assert_non_null(strstr(fault.text, part));
    weir_rules_destroy(rules);
    weir_config_destroy(config);
    weir_limiter_destroy(limiter);
}

static void test_nots_are_bounded(void **state)
{
    (void)state;
    char text[40000] = "limits:\n";
    size_t used = strlen(text);
    for (int i = 0; i < WEIR_NOTS_OF_ATTRIBUTE; i++)
        fixture_add(text, &used, "  - { name: l%d, match: { u: { not: x%d } }, rate: 1/s, mode: off }\n", i, i);
    expect_create(text, 0, "");
    size_t of_one = used;
    fixture_add(text, &used, "  - { name: more, match: { u: { not: y } }, rate: 1/s }\n");
    expect_create(text, WEIR_ELIMIT, "more than 64 different conditions with \"not\" on \"u\"");
    used = of_one;
    for (int i = WEIR_NOTS_OF_ATTRIBUTE; i < WEIR_NOTS_MAX + 1; i++)
        fixture_add(text, &used, "  - { name: l%d, match: { u%d: { not: x }, v: 1 }, rate: 1/s }\n", i, i);
    expect_create(text, WEIR_ELIMIT, "or 256 in all");
}

/* Every block of every length against every bit of an address, as numbers. */
static void test_blocks_bit_by_bit(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits <= 32; bits++)
        for (unsigned flipped = 0; flipped < 32; flipped++) {
            uint32_t base = UINT32_C(0xc0000281), mask = bits ? UINT32_MAX << (32 - bits) : 0;
            uint32_t network = base & mask, other = base ^ (UINT32_C(1) << (31 - flipped));
            char block_text[WEIR_BLOCK_TEXT_MAX], text[WEIR_BLOCK_TEXT_MAX];
            struct weir_block block, address;
            sprintf(block_text, "%u.%u.%u.%u/%u", network >> 24, network >> 16 & 255, network >> 8 & 255, network & 255,
                    bits);
            sprintf(text, "%u.%u.%u.%u", other >> 24, other >> 16 & 255, other >> 8 & 255, other & 255);
            assert_int_equal(weir_block_parse(fixture_slice(block_text), &block), WEIR_BLOCK_GOOD);
            assert_true(weir_block_of_address(fixture_slice(text), &address));
            assert_int_equal(weir_block_holds(&block, &address), (other & mask) == network);
            weir_block_format(&block, text);
            assert_string_equal(text, block_text);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_holds_addresses_however_they_are_written),
        cmocka_unit_test(test_a_list_is_any_of_its_values),
        cmocka_unit_test(test_a_list_is_met_once),
        cmocka_unit_test(test_not_holds_where_the_attribute_is_absent),
        cmocka_unit_test(test_overrides_take_lists_and_blocks),
        cmocka_unit_test(test_explain_names_what_did_not_hold),
        cmocka_unit_test(test_nots_are_bounded),
        cmocka_unit_test(test_blocks_bit_by_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
