/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens: the right one gives its rights, nothing else gives any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "serve/auth.h"

static const char reader[] = "0123456789abcdef";
static const char writer[] = "fedcba9876543210-writer";

static int setup(void **state)
{
    static struct weir_auth auth;
    weir_auth_init(&auth);
    assert_int_equal(weir_auth_add(&auth, "name", reader, strlen(reader), WEIR_RIGHT_CHECK), 0);
    assert_int_equal(weir_auth_add(&auth, "name", writer, strlen(writer), WEIR_RIGHT_CHECK | WEIR_RIGHT_REFUND), 0);
    *state = &auth;
    return 0;
}

static int teardown(void **state)
{
    weir_auth_deinit(*state);
    return 0;
}

static void right_tokens(void **state)
{
    assert_int_equal(weir_auth_check(*state, reader, strlen(reader)), WEIR_RIGHT_CHECK);
    assert_int_equal(weir_auth_check(*state, writer, strlen(writer)), WEIR_RIGHT_CHECK | WEIR_RIGHT_REFUND);
}

static void wrong_tokens(void **state)
{
    char text[WEIR_TOKEN_BYTES_MAX + 1] = { 0 };
    assert_int_equal(weir_auth_check(*state, "", 0), 0);
    for (size_t size = 1; size < strlen(reader); size++)
        assert_int_equal(weir_auth_check(*state, reader, size), 0);
    assert_int_equal(weir_auth_check(*state, reader, sizeof(reader)), 0);
    for (size_t i = 0; i < strlen(reader); i++) {
        memcpy(text, reader, sizeof(reader));
        text[i] ^= 1;
        assert_int_equal(weir_auth_check(*state, text, strlen(reader)), 0);
    }
    assert_int_equal(weir_auth_check(*state, text, sizeof(text)), 0);
}

static void refused_tokens(void **state)
{
    char text[WEIR_TOKEN_BYTES_MAX + 1] = { 0 };
    assert_int_equal(weir_auth_add(*state, "name", "", 0, WEIR_RIGHT_CHECK), WEIR_ERANGE);
    assert_int_equal(weir_auth_add(*state, "name", text, sizeof(text), WEIR_RIGHT_CHECK), WEIR_ERANGE);
    assert_int_equal(weir_auth_add(*state, "name", reader, strlen(reader), WEIR_RIGHT_CHECK), WEIR_EEXIST);
}

static void who_needs_one(void **state)
{
    (void)state;
    assert_int_equal(weir_auth_anonymous(WEIR_AUTH_AUTO, true), WEIR_RIGHT_ALL);
    assert_int_equal(weir_auth_anonymous(WEIR_AUTH_AUTO, false), 0);
    assert_int_equal(weir_auth_anonymous(WEIR_AUTH_ALWAYS, true), 0);
    assert_int_equal(weir_auth_anonymous(WEIR_AUTH_NEVER, false), WEIR_RIGHT_ALL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(right_tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_tokens, setup, teardown),
        cmocka_unit_test(who_needs_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
