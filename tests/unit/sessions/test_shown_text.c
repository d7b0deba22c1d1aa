/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer of the place statement as clients bring it: what a server may have said is read, and anything else is
 * refused, however it looks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "sessions/shown.h"
#include "weir/error.h"

#define ROUNDS 200000
#define PRIMARY "w1 7300000000000000001 8192 16777216 p 00000001 744+0 0/600028 0/600000 1795325179214353"

static int parse(const char *text, struct weir_shown *ret)
{
    return weir_shown_parse(text, strlen(text), ret);
}

static void what_a_primary_says__is_read(void **state)
{
    (void)state;
    struct weir_shown shown;
    struct weir_place place;
    assert_int_equal(parse(PRIMARY, &shown), 0);
    assert_true(shown.primary && shown.settled);
    assert_int_equal(shown.timeline, 1);
    assert_int_equal(shown.position, 0x600028);
    assert_int_equal(weir_place_seen(&shown, &place), 0);
    assert_int_equal(place.run, 1795325179214353);
    assert_int_equal(parse("w1 7300000000000000001 8192 16777216 p 00000001 744+3 0/8 0/8 5", &shown), 0);
    assert_false(shown.settled);
}

/* The log's arithmetic is not for such sizes (core/session/place.h). */
static void sizes_that_no_log_has__are_refused(void **state)
{
    (void)state;
    static const char *const sizes[] = { "0 0",       "1 2",        "2 4",           "32 64",           "32 16777216",
                                         "8191 8192", "16384 8192", "8192 16777217", "2097152 4194304", "8192 0" };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct weir_shown shown;
        char text[WEIR_SHOWN_TEXT_MAX];
        (void)snprintf(text, sizeof(text), "w1 7300000000000000001 %s p 00000001 744+0 0/600028 0/600000 5", sizes[i]);
        assert_int_equal(parse(text, &shown), WEIR_EPROTO);
    }
}

static void whatever_words_come__it_is_read_or_refused(void **state)
{
    (void)state;
    static const char *const words[] = { "0",
                                         "1",
                                         "2",
                                         "16",
                                         "64",
                                         "8192",
                                         "1048576",
                                         "4294967296",
                                         "p",
                                         "s",
                                         "-1",
                                         "00000001",
                                         "FFFFFFFF",
                                         "744+3",
                                         "9223372036854775807+2147483647",
                                         "0/0",
                                         "0/1",
                                         "0/8",
                                         "FFFFFFFF/FFFFFFFF",
                                         "9223372036854775807",
                                         "18446744073709551616",
                                         "0/",
                                         "x" };
    struct test_random random = { test_random_seed() };
    for (int round = 0; round < ROUNDS; round++) {
        char text[WEIR_SHOWN_TEXT_MAX + 1], copy[sizeof(PRIMARY)], *rest = NULL;
        size_t size = 0;
        memcpy(copy, PRIMARY, sizeof(copy));
        for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
            bool kept = test_random_below(&random, 3) > 0;
            const char *other = words[test_random_below(&random, sizeof(words) / sizeof(words[0]))];
            size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%s", size ? " " : "", kept ? word : other);
        }
        struct weir_shown shown;
        struct weir_place place;
        if (parse(text, &shown) == 0 && weir_place_seen(&shown, &place) == 0)
            assert_true(place.system && place.timeline && place.position && place.standby == !shown.primary);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_primary_says__is_read),
        cmocka_unit_test(sizes_that_no_log_has__are_refused),
        cmocka_unit_test(whatever_words_come__it_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
