/* SPDX-License-Identifier: Apache-2.0
 *
 * The query string of a request, read by a table of names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/query.h"

static struct weir_fault fault;
static char name[8], count[24];
static struct weir_query_field fields[2];

static int read_query(const char *text)
{
    fields[0] = (struct weir_query_field){ "name", name, sizeof(name), false };
    fields[1] = (struct weir_query_field){ "count", count, sizeof(count), false };
    (void)memset(name, 'x', sizeof(name));
    fault = (struct weir_fault){ 0 };
    return weir_query_read((struct weir_slice){ text, strlen(text) }, fields, 2, &fault);
}

static void what_is_given_is_decoded(void **state)
{
    (void)state;
    assert_int_equal(read_query("count=3&name=a%2Bb+c"), 0);
    assert_true(fields[0].given && fields[1].given);
    assert_string_equal(name, "a+b c");
    assert_int_equal(read_query("name="), 0);
    assert_true(fields[0].given && !fields[1].given);
    assert_string_equal(name, "");
    assert_int_equal(read_query("name"), 0);
    assert_string_equal(name, "");
    assert_int_equal(read_query("name=a=b"), 0);
    assert_string_equal(name, "a=b");
    assert_int_equal(read_query("name=1234567"), 0);
    assert_int_equal(read_query(""), 0);
    assert_true(!fields[0].given && !fields[1].given);
    assert_int_equal(name[0], 'x'); /* what is not given stays */
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    assert_int_equal(read_query("nam=a"), WEIR_EINVAL);
    assert_string_equal(fault.field, "query");
    assert_non_null(strstr(fault.text, "there are name, count"));
    assert_int_equal(read_query("name=a&name=a"), WEIR_EDUP);
    assert_string_equal(fault.field, "name");
    const char *const wrong[] = { "name=12345678", "name=%", "name=%4", "name=%zz", "name=a%00", "name=a%" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(read_query(wrong[i]), WEIR_EINVAL);
        assert_string_equal(fault.field, "name");
        assert_non_null(strstr(fault.text, "7 bytes"));
    }
    assert_int_equal(read_query("&"), WEIR_EINVAL);
    assert_int_equal(read_query("name=a&"), 0);
    assert_int_equal(read_query("name=a&&count=1"), WEIR_EINVAL);
    const char *text = "name=a";
    assert_int_equal(weir_query_read((struct weir_slice){ text, strlen(text) }, fields, 0, &fault), WEIR_EINVAL);
    assert_string_equal(fault.text, "has a parameter that is not known; there are none");
}

static void numbers_are_whole_and_in_range(void **state)
{
    (void)state;
    const struct {
        const char *query;
        int error;
        uint64_t number;
    } cases[] = { { "count=1", 0, 1 },
                  { "count=007", 0, 7 },
                  { "count=999999999999999999", 0, 999999999999999999 },
                  { "count=0", WEIR_ERANGE, 0 },
                  { "count=1000000000000000000", WEIR_ERANGE, 0 },
                  { "count=9999999999999999999999", WEIR_ERANGE, 0 },
                  { "count=", WEIR_ERANGE, 0 },
                  { "count=-1", WEIR_ERANGE, 0 },
                  { "count=+1", WEIR_ERANGE, 0 },
                  { "count=1x", WEIR_ERANGE, 0 },
                  { "count=1%20", WEIR_ERANGE, 0 } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t number = 0;
        assert_int_equal(read_query(cases[i].query), 0);
        int error = weir_query_number(&fields[1], 1, 999999999999999999, &number, &fault);
        assert_int_equal(error, cases[i].error);
        assert_true(number == cases[i].number);
    }
    uint64_t number = 0;
    assert_int_equal(read_query("count=6"), 0);
    assert_int_equal(weir_query_number(&fields[1], 2, 5, &number, &fault), WEIR_ERANGE);
    assert_string_equal(fault.text, "must be 2 to 5");
    assert_int_equal(weir_query_number(&fields[1], 2, 6, &number, &fault), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_given_is_decoded),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(numbers_are_whole_and_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
