/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits and keys as they are prepared for an engine: what nodes must agree on, what is refused, and who is told which
 * revision a key was met under. */
#include "limits/remote.h"

#include <stdarg.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static const struct weir_limit_spec bucket = { .count = 10, .period_ns = WEIR_NS_PER_SECOND };

static struct weir_limit_spec window(enum weir_calendar calendar, uint32_t count, const char *tz)
{
    return (struct weir_limit_spec){ .algorithm = WEIR_FIXED_WINDOW,
                                     .count = 10,
                                     .period_ns = 7 * 86400 * WEIR_NS_PER_SECOND * (count ? count : 1),
                                     .calendar = calendar,
                                     .calendar_count = count,
                                     .tz = tz };
}

/* ---- limits ---- */

static void what_cannot_be_a_limit_of_an_engine_is_refused(void **state)
{
    (void)state;
    static char longest[WEIR_LIMIT_NAME_MAX + 2];
    const struct weir_limit_spec permits = { .algorithm = WEIR_CONCURRENCY, .count = 1, .period_ns = 1000000000 };
    const struct weir_limit_spec none = { .count = 10 }, nowhere = window(WEIR_CALENDAR_WEEK, 1, "No/Such");
    const struct weir_remote_limit *limit;
    struct weir_fault fault = { .field = "" };
    memset(longest, 'a', sizeof longest - 1);
    assert_int_equal(weir_remote_limit_create(longest, 0, 0, &bucket, &limit, &fault), WEIR_ERANGE);
    assert_int_equal(weir_remote_limit_create("", 0, 0, &bucket, &limit, &fault), WEIR_ERANGE);
    assert_int_equal(weir_remote_limit_create("x", 0, 0, &none, &limit, &fault), WEIR_ERANGE);
    assert_string_equal(fault.field, "period");
    assert_int_equal(weir_remote_limit_create("x", 0, 0, &permits, &limit, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "algorithm");
    assert_int_equal(weir_remote_limit_create("x", 0, 0, &nowhere, &limit, &fault), WEIR_EINVAL);
    longest[WEIR_LIMIT_NAME_MAX] = '\0';
    assert_int_equal(weir_remote_limit_create(longest, 3, 4, &bucket, &limit, &fault), 0);
    assert_string_equal(limit->name, longest);
    assert_int_equal(limit->variant, 3);
    assert_int_equal(limit->revision, 4);
    assert_int_equal(limit->limit.capacity, 10);
    weir_remote_limit_drop(limit);
    weir_remote_limit_drop(NULL);
}

/* By zone, unit and count, in whatever way they are said; windows of a limit that has no calendar have none. */
static void windows_of_one_calendar_have_one_hash(void **state)
{
    (void)state;
    const struct {
        struct weir_limit_spec spec;
        int group;
    } cases[] = {
        { window(WEIR_CALENDAR_WEEK, 1, "UTC"), 1 },
        { window(WEIR_CALENDAR_WEEK, 0, NULL), 1 },
        { window(WEIR_CALENDAR_WEEK, 2, "UTC"), 2 },
        { window(WEIR_CALENDAR_WEEK, 1, "Asia/Tokyo"), 3 },
        { window(WEIR_CALENDAR_WEEK, 0, "Asia/Tokyo"), 3 },
        { window(WEIR_CALENDAR_FIXED, 0, NULL), 4 },
        { bucket, 0 },
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    struct weir_remote_limit limits[CASES];
    for (size_t i = 0; i < CASES; i++)
        assert_int_equal(weir_remote_limit_init(&limits[i], "x", &cases[i].spec, NULL), 0);
    for (size_t i = 0; i < CASES; i++) {
        assert_int_equal(limits[i].calendar_hash == 0, cases[i].group == 0);
        assert_int_equal(limits[i].revision, WEIR_REVISION_FIRST);
        assert_null(limits[i].spec.tz);
        for (size_t k = 0; k < i; k++)
            assert_int_equal(limits[i].calendar_hash == limits[k].calendar_hash, cases[i].group == cases[k].group);
    }
    assert_true(limits[0].calendar_hash == UINT64_C(0xaaaf4e7aaf5e7c1c)); /* in the values of every version */
    for (size_t i = 0; i < CASES; i++) {
        weir_remote_limit_deinit(&limits[i]);
        assert_null(limits[i].zone);
    }
}

/* What keys of overrides say is known of the limit itself. What no reload can pass does not hide what is. */
static void a_revision_that_was_met_is_the_highest_that_can_be_passed(void **state)
{
    (void)state;
    const struct weir_remote_limit *whole, *override;
    static const uint32_t met[][2] = { /* now, and what is known then */
                                       { WEIR_REVISION_CLOCK_MAX + 7, WEIR_REVISION_CLOCK_MAX + 7 },
                                       { WEIR_REVISION_FIRST, WEIR_REVISION_CLOCK_MAX + 7 },
                                       { 5, 5 },
                                       { 4, 5 },
                                       { WEIR_REVISION_CLOCK_MAX + 1, 5 },
                                       { WEIR_REVISION_NONE, 5 },
                                       { 6, 6 },
                                       { WEIR_REVISION_CLOCK_MAX, WEIR_REVISION_CLOCK_MAX },
                                       { WEIR_REVISION_CLOCK_MAX + 1, WEIR_REVISION_CLOCK_MAX },
                                       { 7, WEIR_REVISION_CLOCK_MAX }
    };
    for (int of_override = 0; of_override < 2; of_override++) {
        assert_int_equal(weir_remote_limit_create("x", 0, 0, &bucket, &whole, NULL), 0);
        assert_int_equal(weir_remote_limit_create("x", 9, 0, &bucket, &override, NULL), 0);
        weir_remote_limit_override(override, whole);
        assert_false(whole->leveled);
        weir_remote_limit_leveled(whole);
        assert_true(whole->leveled);
        for (size_t i = 0; i < sizeof met / sizeof met[0]; i++) {
            weir_remote_limit_meet(of_override ? override : whole, met[i][0]);
            assert_int_equal(weir_remote_limit_met(whole), met[i][1]);
            assert_int_equal(weir_remote_limit_met(override), 0);
        }
        weir_remote_limit_drop(whole);
        assert_int_equal(weir_remote_limit_met(whole), WEIR_REVISION_CLOCK_MAX); /* the override holds it */
        weir_remote_limit_drop(override);
    }
}

/* ---- keys ---- */

#define VALUE(text)                                                                                                    \
    {                                                                                                                  \
        (text), sizeof(text) - 1                                                                                       \
    }
#define ABSENT                                                                                                         \
    {                                                                                                                  \
        NULL, WEIR_VALUE_ABSENT                                                                                        \
    }

static const struct tuple {
    const char *limit;
    size_t count;
    struct weir_slice values[2];
    int tag; /* those of one number share it */
} tuples[] = {
    { "x", 0, { VALUE("") }, 1 },
    { "y", 0, { VALUE("") }, 2 },
    { "x", 1, { VALUE("a") }, 3 },
    { "y", 1, { VALUE("a") }, 3 },
    { "x", 2, { VALUE("a"), VALUE("b") }, 3 },
    { "x", 2, { VALUE("a"), VALUE("") }, 3 },
    { "x", 2, { VALUE("a"), ABSENT }, 3 },
    { "x", 2, { VALUE("b"), VALUE("a") }, 4 },
    { "x", 1, { VALUE("ab") }, 5 },
    { "x", 1, { VALUE("") }, 6 },
    { "x", 1, { ABSENT }, 7 },
    { "y", 2, { ABSENT, VALUE("a") }, 7 },
};
enum { TUPLES = sizeof tuples / sizeof tuples[0] };

static struct weir_remote_key key_of(const uint8_t *secret, const struct tuple *tuple)
{
    struct weir_remote_key key;
    assert_int_equal(weir_remote_key_init(secret, tuple->limit, tuple->values, tuple->count, &key), 0);
    assert_true(key.phase == key.id[1]);
    return key;
}

static void no_two_tuples_have_one_key_and_those_of_a_first_value_one_tag(void **state)
{
    (void)state;
    static const uint8_t zeros[16], secret[16] = "sixteen bytes :)";
    for (size_t i = 0; i < TUPLES; i++) {
        const struct weir_remote_key key = key_of(NULL, &tuples[i]), same = key_of(zeros, &tuples[i]);
        const struct weir_remote_key other = key_of(secret, &tuples[i]);
        assert_memory_equal(&key, &same, sizeof key);
        assert_true(key.id[0] != key.id[1] && key.id[0] != key.tag && key.id[1] != key.tag);
        assert_true(key.id[0] != other.id[0] && key.id[1] != other.id[1] && key.tag != other.tag);
        for (size_t k = 0; k < i; k++) {
            const struct weir_remote_key before = key_of(NULL, &tuples[k]);
            assert_true(key.id[0] != before.id[0] && key.id[1] != before.id[1]);
            assert_int_equal(key.tag == before.tag, tuples[i].tag == tuples[k].tag);
        }
    }
    /* In the values of every version. */
    const struct weir_remote_key key = key_of(secret, &tuples[4]);
    assert_true(key.id[0] == UINT64_C(0x93a670f0242368d1) && key.id[1] == UINT64_C(0x04b7623236c1e002) &&
                key.tag == UINT64_C(0xd1e62a630ec3ea93));
}

static void a_key_of_too_much_is_refused(void **state)
{
    (void)state;
    static char bytes[WEIR_KEY_BYTES_MAX + 1];
    struct weir_slice values[WEIR_KEY_VALUES_MAX + 1] = { { bytes, 1 } };
    struct weir_remote_key key;
    for (size_t i = 1; i <= WEIR_KEY_VALUES_MAX; i++)
        values[i] = (struct weir_slice){ bytes, i % 2 ? WEIR_VALUE_ABSENT : 0 };
    assert_int_equal(weir_remote_key_init(NULL, "x", values, WEIR_KEY_VALUES_MAX, &key), 0);
    assert_int_equal(weir_remote_key_init(NULL, "x", values, WEIR_KEY_VALUES_MAX + 1, &key), WEIR_ERANGE);
    for (size_t more = 0; more < 2; more++) {
        values[1] = (struct weir_slice){ bytes, WEIR_KEY_BYTES_MAX - 1 + more };
        assert_int_equal(weir_remote_key_init(NULL, "x", values, 2, &key), more ? WEIR_ERANGE : 0);
        values[2] = (struct weir_slice){ bytes, WEIR_KEY_BYTES_MAX + more };
        assert_int_equal(weir_remote_key_init(NULL, "x", values + 2, 1, &key), more ? WEIR_ERANGE : 0);
    }
}

/* As core/ compiles it for an engine that owns the clock; where walls are put back far, a window may be longer. */
static void a_limit_is_compiled_for_the_engines_clock(void **state)
{
    (void)state;
    static const char *const zones[] = { NULL, "Asia/Tokyo", "Antarctica/Troll" };
    for (size_t i = 0; i < 3; i++) {
        struct weir_limit_spec spec = window(WEIR_CALENDAR_DAY, 1, zones[i]);
        spec.period_ns = 86400 * WEIR_NS_PER_SECOND;
        struct weir_remote_limit limit;
        struct weir_limit right;
        assert_int_equal(weir_limit_init(&right, &spec, 0, NULL), 0);
        weir_limit_zone_falls_back(&right, i == 2 ? 7200 * WEIR_NS_PER_SECOND : 0);
        assert_int_equal(weir_remote_limit_init(&limit, "x", &spec, NULL), 0);
        assert_int_equal(limit.limit.span, right.span);
        assert_memory_equal(&limit.limit, &right, sizeof right);
        assert_int_equal(limit.zone != NULL, i > 0);
        weir_remote_limit_deinit(&limit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_a_limit_of_an_engine_is_refused),
        cmocka_unit_test(windows_of_one_calendar_have_one_hash),
        cmocka_unit_test(a_revision_that_was_met_is_the_highest_that_can_be_passed),
        cmocka_unit_test(no_two_tuples_have_one_key_and_those_of_a_first_value_one_tag),
        cmocka_unit_test(a_key_of_too_much_is_refused),
        cmocka_unit_test(a_limit_is_compiled_for_the_engines_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
