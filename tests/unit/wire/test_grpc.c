/* SPDX-License-Identifier: Apache-2.0
 *
 * gRPC as text and bytes: what a timeout, a status text and the five bytes before a message look like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/grpc.h"

static struct weir_slice slice(const char *text)
{
    return (struct weir_slice){ text, strlen(text) };
}

static void timeout__has_digits_and_a_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = { { "1H", UINT64_C(3600000000000) },
                 { "2M", UINT64_C(120000000000) },
                 { "3S", UINT64_C(3000000000) },
                 { "20m", 20000000 },
                 { "99999999u", UINT64_C(99999999000) },
                 { "0n", 0 },
                 { "007n", 7 },
                 { "5124095H", UINT64_C(18446742000000000000) },
                 { "5124096H", WEIR_NEVER },
                 { "99999999H", WEIR_NEVER } };
    static const char *const bad[] = {
        "", "1", "H", "m1", "1s", "1 S", "-1S", "+1S", "1.5S", "100000000n", "1SS", "1S "
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        uint64_t ns = 1;
        assert_true(weir_grpc_timeout_parse(slice(good[i].text), &ns));
        assert_int_equal(ns, good[i].ns);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t ns = 42;
        assert_false(weir_grpc_timeout_parse(slice(bad[i]), &ns));
        assert_int_equal(ns, 42);
    }
}

static void message__is_printable_ascii(void **state)
{
    (void)state;
    char buffer[64];
    struct weir_text text = weir_text_init(buffer, sizeof(buffer));
    weir_grpc_message(&text, "a b~%\x7f\n\xc3\xa9");
    assert_false(text.overflow);
    assert_int_equal(text.size, strlen("a b~%25%7F%0A%C3%A9"));
    assert_memory_equal(buffer, "a b~%25%7F%0A%C3%A9", text.size);
}

static void head__says_how_long_a_message_is(void **state)
{
    (void)state;
    uint8_t bytes[WEIR_GRPC_HEAD_SIZE];
    weir_grpc_head_put(bytes, 0x01020304);
    assert_memory_equal(bytes, "\0\1\2\3\4", 5);
    assert_int_equal(weir_grpc_head_get(bytes).size, 0x01020304);
    assert_int_equal(weir_grpc_head_get((const uint8_t *)"\1\xff\xff\xff\xff").size, UINT32_MAX);
    assert_int_equal(weir_grpc_head_get((const uint8_t *)"\1\xff\xff\xff\xff").flags, 1);
}

static void content__is_grpc_and_nothing_that_begins_so(void **state)
{
    (void)state;
    assert_true(weir_grpc_is_content(slice("application/grpc")));
    assert_true(weir_grpc_is_content(slice("application/grpc+proto")));
    assert_true(weir_grpc_is_content(slice("application/grpc;x=y")));
    assert_false(weir_grpc_is_content(slice("application/grpc-web")));
    assert_false(weir_grpc_is_content(slice("application/grp")));
    assert_false(weir_grpc_is_content(slice("text/plain")));
    assert_false(weir_grpc_is_content(slice("")));
}

static void status__has_a_name(void **state)
{
    (void)state;
    assert_int_equal(WEIR_GRPC_STATUSES, 17);
    assert_string_equal(weir_grpc_status_name(WEIR_GRPC_OK), "OK");
    assert_string_equal(weir_grpc_status_name((enum weir_grpc_status)4), "DEADLINE_EXCEEDED");
    assert_string_equal(weir_grpc_status_name((enum weir_grpc_status)8), "RESOURCE_EXHAUSTED");
    assert_string_equal(weir_grpc_status_name((enum weir_grpc_status)16), "UNAUTHENTICATED");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timeout__has_digits_and_a_unit),
        cmocka_unit_test(message__is_printable_ascii),
        cmocka_unit_test(head__says_how_long_a_message_is),
        cmocka_unit_test(content__is_grpc_and_nothing_that_begins_so),
        cmocka_unit_test(status__has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
