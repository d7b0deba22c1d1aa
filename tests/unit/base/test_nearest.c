/* SPDX-License-Identifier: Apache-2.0
 *
 * Which known word somebody meant who wrote another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/nearest.h"

static const char *nearest_of(const char *text, const char *const *words)
{
    struct weir_nearest nearest = { .text = text, .size = strlen(text) };
    for (; *words; words++)
        weir_nearest_offer(&nearest, *words);
    return nearest.word;
}

static void expect(const char *text, const char *wanted)
{
    static const char *const words[] = { "rate", "burst", "algorithm", "sharing", "on_failure", "to", "ca", NULL };
    const char *word = nearest_of(text, words);
    if (wanted)
        assert_string_equal(word ? word : "(none)", wanted);
    else
        assert_null(word);
}

static void test_one_or_two_edits(void **state)
{
    (void)state;
    expect("rat", "rate");            /* left out */
    expect("ratte", "rate");          /* added */
    expect("rats", "rate");           /* changed */
    expect("raet", "rate");           /* swapped */
    expect("bursts", "burst");        /* and the end */
    expect("algoritm", "algorithm");  /* inside */
    expect("lagorihtm", "algorithm"); /* two swaps */
    expect("onfailur", "on_failure"); /* two left out */
    expect("sharing", "sharing");     /* itself */
    expect("on-failure", "on_failure");
}

static void test_too_far_is_none(void **state)
{
    (void)state;
    expect("", NULL);
    expect("algor", NULL);
    expect("lagorihmt", NULL); /* three */
    expect("rabe_", NULL);     /* two, half of the word */
    expect("t", NULL);         /* one, half of the word */
    expect("co", NULL);
    expect("Burst and more", NULL);
}

static void test_the_nearest_wins_and_the_first_of_equals(void **state)
{
    (void)state;
    static const char *const words[] = { "interval", "internal", "interview", NULL };
    assert_string_equal(nearest_of("interal", words), "interval");
    assert_string_equal(nearest_of("internl", words), "internal");
    assert_string_equal(nearest_of("intervie", words), "interview");
    static const char *const none[] = { NULL };
    assert_null(nearest_of("rate", none));
}

static void test_the_bound(void **state)
{
    (void)state;
    char text[WEIR_NEAREST_MAX + 2], word[WEIR_NEAREST_MAX + 2];
    const char *const words[] = { word, NULL };
    memset(text, 'a', sizeof(text));
    memset(word, 'a', sizeof(word));
    text[WEIR_NEAREST_MAX] = word[WEIR_NEAREST_MAX] = '\0';
    text[3] = 'b';
    assert_ptr_equal(nearest_of(text, words), word);
    text[WEIR_NEAREST_MAX] = 'a';
    text[WEIR_NEAREST_MAX + 1] = '\0';
    assert_null(nearest_of(text, words)); /* longer: not looked at */
    text[WEIR_NEAREST_MAX] = '\0';
    word[WEIR_NEAREST_MAX] = 'a';
    word[WEIR_NEAREST_MAX + 1] = '\0';
    assert_null(nearest_of(text, words));
}

/* What was written need not end with a NUL, and may hold any byte. */
static void test_bytes(void **state)
{
    (void)state;
    struct weir_nearest nearest = { .text = "rat\0xyz", .size = 4 };
    weir_nearest_offer(&nearest, "rate");
    assert_string_equal(nearest.word, "rate");
    nearest = (struct weir_nearest){ .text = "ratexyz", .size = 4 };
    weir_nearest_offer(&nearest, "rate");
    assert_int_equal(nearest.edits, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_or_two_edits),
        cmocka_unit_test(test_too_far_is_none),
        cmocka_unit_test(test_the_nearest_wins_and_the_first_of_equals),
        cmocka_unit_test(test_the_bound),
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
