/* SPDX-License-Identifier: Apache-2.0
 *
 * traceparent: what W3C Trace Context (level 1, 3.2) calls valid, compared with a reading of it character by character,
 * and its examples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "wire/traceparent.h"

#define GOOD "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
#define SIZE 55

static bool reads(const char *text, size_t size, struct weir_traceparent *ret_parent)
{
    return weir_traceparent_read((struct weir_slice){ text, size }, ret_parent);
}

static bool is_valid(const char *text)
{
    struct weir_traceparent parent;
    return reads(text, strlen(text), &parent);
}

/* ---- the model ---- */

static int digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Digits only; all zero is told apart. */
static bool model_id(const char *text, size_t count, bool *ret_zero)
{
    *ret_zero = true;
    for (size_t i = 0; i < count; i++) {
        if (digit(text[i]) < 0)
            return false;
        *ret_zero = *ret_zero && text[i] == '0';
    }
    return true;
}

static bool model(const char *text, size_t size)
{
    bool zero;
    if (size < SIZE || !model_id(text, 2, &zero) || (text[0] == 'f' && text[1] == 'f'))
        return false;
    if (zero && size != SIZE)
        return false;
    if (size > SIZE && text[SIZE] != '-')
        return false;
    if (text[2] != '-' || !model_id(text + 3, 32, &zero) || zero)
        return false;
    if (text[35] != '-' || !model_id(text + 36, 16, &zero) || zero)
        return false;
    return text[52] == '-' && model_id(text + 53, 2, &zero);
}

/* ---- tests ---- */

static void traceparent__has_ids_and_flags(void **state)
{
    (void)state;
    static const uint8_t trace[] = { 0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6,
                                     0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36 };
    static const uint8_t span[] = { 0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7 };
    struct weir_traceparent parent;
    assert_true(reads(GOOD, SIZE, &parent));
    assert_memory_equal(parent.trace_id, trace, sizeof(trace));
    assert_memory_equal(parent.parent_id, span, sizeof(span));
    assert_int_equal(parent.flags, WEIR_TRACE_SAMPLED);
    assert_true(reads("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fe", SIZE, &parent));
    assert_int_equal(parent.flags, 0xfe);
}

static void traceparent__of_a_later_version_counts_by_its_beginning(void **state)
{
    (void)state;
    struct weir_traceparent parent;
    const char later[] = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff-what comes -- later";
    assert_true(reads(later, sizeof(later) - 1, &parent));
    assert_int_equal(parent.flags, WEIR_TRACE_SAMPLED); /* the others mean what nobody here knows */
    assert_true(is_valid("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
    assert_true(is_valid("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-"));
    assert_false(is_valid("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01."));
}

static void traceparent__that_is_not_one_is_none(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "00",
        GOOD "-",
        GOOD "-00",
        GOOD "0",
        GOOD " ",
        " " GOOD,
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067AA0BA902B7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0F",
        "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-",
        "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct weir_traceparent parent, before;
        memset(&parent, 0x5a, sizeof(parent));
        before = parent;
        assert_false(reads(wrong[i], strlen(wrong[i]), &parent));
        assert_memory_equal(&parent, &before, sizeof(parent));
    }
}

/* One byte changed, cut, or longer: as the model has it. */
static void traceparent__is_as_the_model_reads_it(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    static const char bytes[] = "0123456789abcdefABCDEFg-_ \0\x7f\xff";
    size_t valid = 0;
    for (uint64_t round = test_effort(20000, 200000, 5000000); round > 0; round--) {
        char text[SIZE + 8];
        struct weir_traceparent parent;
        memcpy(text, GOOD "-------", sizeof(text) - 1);
        size_t size = test_random_below(&random, 2) ? SIZE : (size_t)test_random_below(&random, sizeof(text));
        for (uint64_t changes = test_random_below(&random, 3); changes > 0; changes--)
            text[test_random_below(&random, SIZE + 2)] = bytes[test_random_below(&random, sizeof(bytes))];
        if (test_random_below(&random, 8) == 0)
            memset(text + 3, '0', 32);
        if (test_random_below(&random, 8) == 0)
            memset(text + 36, '0', 16);
        if (test_random_below(&random, 4) == 0)
            text[test_random_below(&random, 2)] = "f1"[test_random_below(&random, 2)];
        bool is = reads(text, size, &parent);
        assert_int_equal(is, model(text, size));
        if (!is)
            continue;
        valid++;
        for (size_t i = 0; i < sizeof(parent.trace_id); i++)
            assert_int_equal(parent.trace_id[i], digit(text[3 + 2 * i]) * 16 + digit(text[4 + 2 * i]));
        for (size_t i = 0; i < sizeof(parent.parent_id); i++)
            assert_int_equal(parent.parent_id[i], digit(text[36 + 2 * i]) * 16 + digit(text[37 + 2 * i]));
        assert_int_equal(parent.flags & WEIR_TRACE_SAMPLED, digit(text[54]) & 1);
    }
    assert_true(valid > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traceparent__has_ids_and_flags),
        cmocka_unit_test(traceparent__of_a_later_version_counts_by_its_beginning),
        cmocka_unit_test(traceparent__that_is_not_one_is_none),
        cmocka_unit_test(traceparent__is_as_the_model_reads_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
