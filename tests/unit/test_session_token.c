/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/session/token.h"
#include "random.h"

static void token__comes_back_from_its_text(void **state)
{
    struct weir_session_token token = { .wrote_ns = 5, .clock = UINT64_MAX }, again;
    const struct weir_place place = { .system = 7, .timeline = 3, .position = 1000, .run = 9 };
    char text[WEIR_SESSION_TOKEN_MAX];
    size_t size;
    (void)state;
    assert_int_equal(weir_session_token_add(&token, &place, NULL), 0);
    assert_int_equal(weir_session_token_write(&token, NULL, text, &size), 0);
    assert_int_equal(weir_session_token_read(text, size, NULL, &again), 0);
    assert_memory_equal(&token, &again, sizeof token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token__comes_back_from_its_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
