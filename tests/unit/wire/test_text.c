/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers, JSON strings, Strings of RFC 9651 and dates, as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "random.h"
#include "wire/text.h"

static uint8_t room[512];

#define assert_text(text, expected)                                                                                    \
    do {                                                                                                               \
        assert_false((text).overflow);                                                                                 \
        assert_int_equal((text).size, sizeof(expected) - 1);                                                           \
        assert_memory_equal((text).data, "" expected, sizeof(expected) - 1);                                           \
    } while (0)

static void integers_at_their_ends(void **state)
{
    (void)state;
    struct weir_text text = weir_text_init(room, sizeof(room));
    weir_text_u64(&text, 0);
    weir_text_lit(&text, " ");
    weir_text_u64(&text, UINT64_MAX);
    weir_text_lit(&text, " ");
    weir_text_i64(&text, INT64_MIN);
    weir_text_lit(&text, " ");
    weir_text_i64(&text, -1);
    assert_text(text, "0 18446744073709551615 -9223372036854775808 -1");
}

static void what_does_not_fit_is_dropped_and_remembered(void **state)
{
    (void)state;
    struct weir_text text = weir_text_init(room, 4);
    weir_text_lit(&text, "abc");
    assert_false(text.overflow);
    weir_text_lit(&text, "de");
    assert_true(text.overflow);
    assert_int_equal(text.size, 3);
    weir_text_lit(&text, "d");
    assert_int_equal(text.size, 4);
}

static void json_strings_are_escaped(void **state)
{
    (void)state;
    struct weir_text text = weir_text_init(room, sizeof(room));
    weir_text_json(&text, "a\"b\\c\n\t\r\b\f\0\x1f\x7f/", 14);
    assert_text(text, "\"a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0000\\u001F\\u007F/\"");
}

static void json_strings_are_always_utf8(void **state)
{
    (void)state;
    struct weir_text text = weir_text_init(room, sizeof(room));
    weir_text_json(&text, "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 9);
    assert_text(text, "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
    text.size = 0; /* overlong, a surrogate, above U+10FFFF, cut off, alone */
    weir_text_json(&text, "\xC0\xAF|\xED\xA0\x80|\xF4\x90\x80\x80|\xE2\x82", 14);
#define R "\xEF\xBF\xBD"
    assert_text(text, "\"" R R "|" R R R "|" R R R R "|" R R "\"");
}

static void sf_strings_hold_printable_ascii_only(void **state)
{
    (void)state;
    struct weir_text text = weir_text_init(room, sizeof(room));
    weir_text_sf_string(&text, "a b\"c\\d%e\xC3\xA9\n\x7f~");
    assert_text(text, "\"a b\\\"c\\\\d%25e%C3%A9%0A%7F~\"");
}

static void dates_agree_with_libc(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (int i = 0; i < 200000; i++) {
        /* to the year 2554, where ns since 1970 end */
        uint64_t wall_ns = i < 2 ? (uint64_t)i * UINT64_MAX : test_random_u64(&random);
        time_t seconds = (time_t)(wall_ns / WEIR_NS_PER_SECOND);
        struct tm tm;
        char expected[64];
        assert_int_equal(strftime(expected, sizeof(expected), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&seconds, &tm)),
                         WEIR_TEXT_DATE_SIZE);
        struct weir_text text = weir_text_init(room, WEIR_TEXT_DATE_SIZE);
        weir_text_http_date(&text, wall_ns);
        assert_int_equal(text.size, WEIR_TEXT_DATE_SIZE);
        assert_memory_equal(room, expected, WEIR_TEXT_DATE_SIZE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_at_their_ends),
        cmocka_unit_test(what_does_not_fit_is_dropped_and_remembered),
        cmocka_unit_test(json_strings_are_escaped),
        cmocka_unit_test(json_strings_are_always_utf8),
        cmocka_unit_test(sf_strings_hold_printable_ascii_only),
        cmocka_unit_test(dates_agree_with_libc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
