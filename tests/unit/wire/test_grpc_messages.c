/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of health and reflection, byte by byte, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/grpc_descriptors.h"
#include "wire/grpc_health.h"
#include "wire/grpc_reflection.h"

#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

static void health__is_asked_by_name(void **state)
{
    (void)state;
    char service[WEIR_GRPC_SERVICE_MAX];
    assert_int_equal(weir_grpc_health_read(BYTES(""), service), 0);
    assert_string_equal(service, "");
    assert_int_equal(weir_grpc_health_read(BYTES("\x0a\x03"
                                                 "a.B"),
                                           service),
                     0);
    assert_string_equal(service, "a.B");
    /* an unknown field is passed over */
    assert_int_equal(weir_grpc_health_read(BYTES("\x0a\x01"
                                                 "x"
                                                 "\x7a\x02"
                                                 "yy"
                                                 "\x78\x05"),
                                           service),
                     0);
    assert_string_equal(service, "x");
    assert_int_equal(weir_grpc_health_read(BYTES("\x0a\x03"
                                                 "a\0B"),
                                           service),
                     WEIR_EPROTO);
    assert_int_equal(weir_grpc_health_read(BYTES("\x0a\x05"
                                                 "a"),
                                           service),
                     WEIR_EPROTO);
    assert_int_equal(weir_grpc_health_read(BYTES("\x0a\xff\xff\xff\xff\x0f"), service), WEIR_EPROTO);
}

static void health__is_told(void **state)
{
    (void)state;
    uint8_t buffer[WEIR_GRPC_HEALTH_MAX];
    assert_int_equal(weir_grpc_health_write(WEIR_GRPC_NOT_SERVING, buffer), 2);
    assert_memory_equal(buffer, "\x08\x02", 2);
    assert_true(weir_grpc_health_knows(""));
    assert_true(weir_grpc_health_knows("envoy.service.ratelimit.v3.RateLimitService"));
    assert_false(weir_grpc_health_knows("envoy.service.ratelimit.v3"));
}

static bool says(const uint8_t *buffer, size_t size, const char *text)
{
    return memmem(buffer, size, text, strlen(text)) != NULL;
}

static void reflection__lists_services(void **state)
{
    (void)state;
    static uint8_t buffer[WEIR_GRPC_REFLECTION_MAX];
    size_t size = weir_grpc_reflection_answer(BYTES("\x3a\x00"), buffer);
    for (const char *const *service = weir_grpc_services; *service; service++)
        assert_true(says(buffer, size, *service));
    size = weir_grpc_reflection_answer(BYTES("\x0a\x04host\x3a\x01*"), buffer);
    assert_memory_equal(buffer, "\x0a\x04host\x12\x09", 8);
}

static void reflection__has_each_symbol_with_the_files_it_needs(void **state)
{
    (void)state;
    static uint8_t buffer[WEIR_GRPC_REFLECTION_MAX];
    for (const struct weir_grpc_descriptor *file = weir_grpc_descriptors; file->name; file++) {
        for (const char *const *symbol = file->symbols; *symbol; symbol++) {
            uint8_t question[256] = { 0x22, (uint8_t)strlen(*symbol) };
            memcpy(question + 2, *symbol, strlen(*symbol));
            const size_t size = weir_grpc_reflection_answer(question, 2 + strlen(*symbol), buffer);
            assert_true(size > file->size);
            for (const int8_t *needed = file->needed; *needed >= 0; needed++)
                assert_non_null(
                    memmem(buffer, size, weir_grpc_descriptors[*needed].bytes, weir_grpc_descriptors[*needed].size));
        }
        uint8_t question[256] = { 0x1a, (uint8_t)strlen(file->name) };
        memcpy(question + 2, file->name, strlen(file->name));
        assert_true(weir_grpc_reflection_answer(question, 2 + strlen(file->name), buffer) > file->size);
    }
}

static void reflection__says_what_it_has_not(void **state)
{
    (void)state;
    static uint8_t buffer[WEIR_GRPC_REFLECTION_MAX];
    static uint8_t long_question[5000] = { 0x22, 0x85, 0x27 };
    size_t size = weir_grpc_reflection_answer(BYTES("\x22\x01x"), buffer);
    assert_true(says(buffer, size, "there is none of this name"));
    size = weir_grpc_reflection_answer(BYTES("\x2a\x05\x0a\x01x\x10\x01"), buffer);
    assert_true(says(buffer, size, "there are no extensions"));
    size = weir_grpc_reflection_answer(BYTES(""), buffer);
    assert_true(says(buffer, size, "nothing is asked for"));
    assert_int_equal(weir_grpc_reflection_answer(BYTES("\x22\x05x"), buffer), 0);
    assert_int_equal(weir_grpc_reflection_answer(long_question, sizeof(long_question), buffer), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(health__is_asked_by_name),
        cmocka_unit_test(health__is_told),
        cmocka_unit_test(reflection__lists_services),
        cmocka_unit_test(reflection__has_each_symbol_with_the_files_it_needs),
        cmocka_unit_test(reflection__says_what_it_has_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
