/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens as text: canonical, and the same back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "weir/fence.h"

static int parse(const char *text, struct weir_token *ret_token)
{
    return weir_token_parse(text, strlen(text), ret_token);
}

static void token__text_goes_there_and_back(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (int i = 0; i < 10000; i++) {
        struct weir_token token = { 1 + (test_random_u64(&random) >> (1 + test_random_below(&random, 62))),
                                    1 + (test_random_u64(&random) >> (1 + test_random_below(&random, 62))) };
        struct weir_token back = { 0, 0 };
        char text[WEIR_TOKEN_TEXT_SIZE];
        if (!weir_token_valid(token))
            continue; /* 2^63 */
        assert_int_equal(weir_token_format(token, text), 0);
        assert_int_equal(parse(text, &back), 0);
        assert_int_equal(weir_token_compare(token, back), 0);
    }
}

static void token__edges_are_legal(void **state)
{
    (void)state;
    struct weir_token token;
    char text[WEIR_TOKEN_TEXT_SIZE];
    assert_int_equal(parse("9223372036854775807.9223372036854775807", &token), 0);
    assert_int_equal(token.number, INT64_MAX);
    assert_int_equal(weir_token_format(token, text), 0);
    assert_string_equal(text, "9223372036854775807.9223372036854775807");
    assert_int_equal(parse("1.1", &token), 0);
    assert_int_equal(token.incarnation, 1);
}

static void token__what_is_not_canonical_is_refused_and_sets_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       "7",
                                       "7.",
                                       ".7",
                                       ".",
                                       "0.1",
                                       "1.0",
                                       "07.1",
                                       "7.01",
                                       "-1.1",
                                       "+7.1",
                                       " 7.1",
                                       "7.1 ",
                                       "7.1\n",
                                       "7,1",
                                       "7.1.1",
                                       "7.-1",
                                       "0x7.1",
                                       "7e3.1",
                                       "9223372036854775808.1",
                                       "1.9223372036854775808",
                                       "1.18446744073709551617",
                                       "1.99999999999999999999999" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct weir_token token = { 5, 6 };
        assert_int_equal(parse(bad[i], &token), WEIR_EPROTO);
        assert_int_equal(token.incarnation, 5);
        assert_int_equal(token.number, 6);
    }
    struct weir_token token;
    assert_int_equal(weir_token_parse("7.1\0", 4, &token), WEIR_EPROTO);
    assert_int_equal(weir_token_parse(NULL, 0, &token), WEIR_EPROTO);
    char text[WEIR_TOKEN_TEXT_SIZE] = "kept";
    assert_int_equal(weir_token_format((struct weir_token){ 0, 1 }, text), WEIR_ERANGE);
    assert_int_equal(weir_token_format((struct weir_token){ 1, UINT64_C(1) << 63 }, text), WEIR_ERANGE);
    assert_string_equal(text, "kept");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token__text_goes_there_and_back),
        cmocka_unit_test(token__edges_are_legal),
        cmocka_unit_test(token__what_is_not_canonical_is_refused_and_sets_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
