/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "serve/recent.h"

static struct weir_attribute attribute(const char *name, const char *value)
{
    return (struct weir_attribute){ { name, strlen(name) }, { value, strlen(value) } };
}

static const struct weir_rule rule = { .name = "api" };

static struct weir_match met(uint64_t hash)
{
    struct weir_match match = { .count = 1 };
    match.rules[0] = &rule;
    match.charges[0] = (struct weir_charge){ .limit = 7, .key = { .hash = hash }, .cost = 3 };
    return match;
}

static void the_same_words_meet_the_same(void **state)
{
    (void)state;
    const struct weir_attribute words[] = { attribute("user", "ada"), attribute("route", "") };
    const struct weir_match match = met(11);
    struct weir_recent recent = { 0 };
    struct weir_match found = { 0 };
    assert_false(weir_recent_match(&recent, 1, words, 2, 3, &found));
    weir_recent_remember(&recent, 1, words, 2, 3, &match);
    assert_true(weir_recent_match(&recent, 1, words, 2, 3, &found));
    assert_int_equal(found.count, 1);
    assert_int_equal(found.charges[0].key.hash, 11);
    assert_ptr_equal(found.rules[0], &rule);
    assert_int_equal(found.remote_count, 0);
}

static void other_words_do_not(void **state)
{
    (void)state;
    const struct weir_attribute words[] = { attribute("ab", "c"), attribute("d", "e") };
    const struct weir_attribute cut[] = { attribute("a", "bc"), attribute("d", "e") };
    const struct weir_attribute other[] = { attribute("ab", "c"), attribute("d", "f") };
    const struct weir_attribute turned[] = { attribute("d", "e"), attribute("ab", "c") };
    const struct weir_match match = met(12);
    struct weir_recent recent = { 0 };
    struct weir_match found = { 0 };
    weir_recent_remember(&recent, 1, words, 2, 3, &match);
    assert_false(weir_recent_match(&recent, 1, cut, 2, 3, &found));
    assert_false(weir_recent_match(&recent, 1, other, 2, 3, &found));
    assert_false(weir_recent_match(&recent, 1, turned, 2, 3, &found));
    assert_false(weir_recent_match(&recent, 1, words, 1, 3, &found));
    assert_false(weir_recent_match(&recent, 1, words, 2, 4, &found)); /* another cost */
    assert_false(weir_recent_match(&recent, 2, words, 2, 3, &found)); /* after a reload */
    assert_int_equal(found.count, 0);
}

/* Who is not counted is seen each time, and not only the first. */
static void what_it_lacked_is_told_again(void **state)
{
    (void)state;
    const struct weir_attribute words[] = { attribute("user", "ada") };
    struct weir_match match = met(14), found = { 0 };
    struct weir_recent recent = { 0 };
    match.lacks_count = WEIR_RECENT_LACKS;
    for (size_t i = 0; i < WEIR_RECENT_LACKS; i++)
        match.lacking[i] = (struct weir_match_lack){ &rule, WEIR_LACK_SKIPPED };
    weir_recent_remember(&recent, 1, words, 1, 1, &match);
    assert_true(weir_recent_match(&recent, 1, words, 1, 1, &found));
    assert_true(found.met);
    assert_int_equal(found.lacks_count, WEIR_RECENT_LACKS);
    assert_memory_equal(found.lacking, match.lacking, WEIR_RECENT_LACKS * sizeof(match.lacking[0]));
    match.lacks_count++;
    weir_recent_remember(&recent, 1, words, 1, 1, &match);
    assert_false(weir_recent_match(&recent, 1, words, 1, 1, &found));
}

static void what_is_long_or_meets_several_is_not_kept(void **state)
{
    (void)state;
    static char text[WEIR_RECENT_BYTES + 1];
    memset(text, 'x', sizeof(text) - 1);
    const struct weir_attribute words[] = { attribute("user", text) };
    struct weir_attribute many[WEIR_RECENT_ATTRIBUTES + 1];
    struct weir_match match = met(13), found = { 0 };
    struct weir_recent recent = { 0 };
    weir_recent_remember(&recent, 1, words, 1, 3, &match);
    assert_false(weir_recent_match(&recent, 1, words, 1, 3, &found));
    for (size_t i = 0; i <= WEIR_RECENT_ATTRIBUTES; i++)
        many[i] = attribute("a", "b");
    weir_recent_remember(&recent, 1, many, WEIR_RECENT_ATTRIBUTES + 1, 3, &match);
    assert_false(weir_recent_match(&recent, 1, many, WEIR_RECENT_ATTRIBUTES + 1, 3, &found));
    match.count = 2;
    weir_recent_remember(&recent, 1, many, 1, 3, &match);
    assert_false(weir_recent_match(&recent, 1, many, 1, 3, &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_words_meet_the_same),
        cmocka_unit_test(other_words_do_not),
        cmocka_unit_test(what_it_lacked_is_told_again),
        cmocka_unit_test(what_is_long_or_meets_several_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
