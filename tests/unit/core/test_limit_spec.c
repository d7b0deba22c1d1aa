/* SPDX-License-Identifier: Apache-2.0
 *
 * core/limit: what a limit may say, field by field, up to its bounds and one beyond. */
#include <string.h>

#include "core/limit/limit.h"
#include "fixture.h"

#define BUCKET .algorithm = WEIR_TOKEN_BUCKET, .count = 10, .period_ns = SECOND
#define FIXED .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = DAY
#define COUNTER .algorithm = WEIR_SLIDING_COUNTER, .count = 10, .period_ns = DAY
#define PERMITS .algorithm = WEIR_CONCURRENCY, .count = 10, .period_ns = DAY

static const struct {
    const char *field; /* that the fault names; NULL: it is a limit */
    int error;
    const char *text; /* how it begins */
    struct weir_limit_spec spec;
} rows[] = {
    { NULL, 0, "", { BUCKET } },
    { NULL, 0, "", { FIXED } },
    { NULL, 0, "", { COUNTER } },
    { NULL, 0, "", { PERMITS } },
    { NULL,
      0,
      "",
      { PERMITS, .mode = WEIR_MODE_OFF, .on_full = WEIR_ON_FULL_REFUSE, .on_change = WEIR_ON_CHANGE_RESET } },
    { NULL, 0, "", { FIXED, .calendar = WEIR_CALENDAR_YEAR, .calendar_count = 3650, .spread_ns = DAY / 2 } },
    { NULL, 0, "", { FIXED, .align = WEIR_ALIGN_FIRST, .count_mode = WEIR_COUNT_ATTEMPTS } },
    { NULL, 0, "", { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = 3650 * DAY } },
    { NULL, 0, "", { .algorithm = WEIR_CONCURRENCY, .count = 32768, .period_ns = SECOND } },
    { NULL, 0, "", { .algorithm = WEIR_CONCURRENCY, .count = 0, .period_ns = 366 * DAY } },
    { NULL, 0, "", { .algorithm = WEIR_SLIDING_LOG, .count = 65536, .period_ns = DAY } },
    { NULL, 0, "", { .algorithm = WEIR_TOKEN_BUCKET, .count = 1, .period_ns = 366 * DAY } },
    { NULL, 0, "", { .algorithm = WEIR_TOKEN_BUCKET, .count = 0, .period_ns = 10000 * DAY } },
    { NULL, 0, "", { .algorithm = WEIR_TOKEN_BUCKET, .count = 1000000000, .period_ns = SECOND } },
    { NULL, 0, "", { .algorithm = WEIR_LEAKY_BUCKET, .count = 1, .period_ns = DAY, .burst = 3650 } },
    { NULL, 0, "", { .algorithm = WEIR_TOKEN_BUCKET, .count = SECOND, .period_ns = SECOND, .burst = WEIR_BURST_MAX } },
    { "algorithm", WEIR_EINVAL, "must be one of", { .algorithm = (enum weir_algorithm)6, .count = 1, .period_ns = 1 } },
    { "align", WEIR_EINVAL, "must be calendar", { FIXED, .align = (enum weir_align)2 } },
    { "align", WEIR_EINVAL, "must be calendar", { BUCKET, .align = WEIR_ALIGN_FIRST } },
    { "calendar", WEIR_EINVAL, "is only for", { FIXED, .calendar = (enum weir_calendar)5 } },
    { "calendar", WEIR_EINVAL, "is only for", { COUNTER, .calendar = WEIR_CALENDAR_DAY } },
    { "calendar", WEIR_EINVAL, "is only for", { FIXED, .align = WEIR_ALIGN_FIRST, .calendar = WEIR_CALENDAR_DAY } },
    { "count_mode", WEIR_EINVAL, "must be admitted or", { BUCKET, .count_mode = (enum weir_count)2 } },
    { "mode", WEIR_EINVAL, "must be enforce", { BUCKET, .mode = (enum weir_mode)3 } },
    { "on_full", WEIR_EINVAL, "must be evict", { BUCKET, .on_full = (enum weir_on_full)2 } },
    { "on_change", WEIR_EINVAL, "must be keep, proportional", { BUCKET, .on_change = WEIR_ON_CHANGE_LEVEL } },
    { "reserved", WEIR_EINVAL, "", { BUCKET, .reserved = { 0, 1 } } },
    { "period", WEIR_ERANGE, "must be more", { .algorithm = WEIR_CONCURRENCY, .count = 1 } },
    { "period", WEIR_ERANGE, "must be more", { .algorithm = WEIR_TOKEN_BUCKET } },
    { "period",
      WEIR_ERANGE,
      "must be 1 ns",
      { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = 3650 * DAY + 1 } },
    { "count", WEIR_ERANGE, "must be 0 to 65536", { .algorithm = WEIR_SLIDING_LOG, .count = 65537, .period_ns = DAY } },
    { "count", WEIR_ERANGE, "must be 0 to 32768", { .algorithm = WEIR_CONCURRENCY, .count = 32769, .period_ns = DAY } },
    { "lease", WEIR_ERANGE, "must be 1 s", { .algorithm = WEIR_CONCURRENCY, .count = 1, .period_ns = SECOND - 1 } },
    { "lease", WEIR_ERANGE, "must be 1 s", { .algorithm = WEIR_CONCURRENCY, .count = 1, .period_ns = 366 * DAY + 1 } },
    { "burst", WEIR_EINVAL, "is only for", { FIXED, .burst = 1 } },
    { "burst", WEIR_EINVAL, "is only for", { PERMITS, .burst = 1 } },
    { "spread", WEIR_ERANGE, "must be 0 to half", { FIXED, .spread_ns = DAY / 2 + 1 } },
    { "spread", WEIR_ERANGE, "must be 0 to half", { FIXED, .align = WEIR_ALIGN_FIRST, .spread_ns = 1 } },
    { "spread", WEIR_EINVAL, "is only for", { PERMITS, .spread_ns = 1 } },
    { "spread", WEIR_EINVAL, "is only for", { PERMITS, .calendar_count = 1 } },
    { "spread", WEIR_EINVAL, "is only for", { BUCKET, .spread_ns = 1 } },
    { "spread", WEIR_EINVAL, "is only for", { BUCKET, .calendar_count = 1 } },
    { "calendar_count", WEIR_ERANGE, "must be 1", { FIXED, .calendar_count = 3651 } },
    { "count_mode", WEIR_EINVAL, "must be admitted for", { PERMITS, .count_mode = WEIR_COUNT_ATTEMPTS } },
    { "on_change", WEIR_EINVAL, "must be keep or", { PERMITS, .on_change = WEIR_ON_CHANGE_PROPORTIONAL } },
    { "burst",
      WEIR_ERANGE,
      "must be 1",
      { .algorithm = WEIR_TOKEN_BUCKET, .count = SECOND, .period_ns = SECOND, .burst = WEIR_BURST_MAX + 1 } },
    { "burst",
      WEIR_ERANGE,
      "burst * period",
      { .algorithm = WEIR_LEAKY_BUCKET, .count = 1, .period_ns = DAY, .burst = 3651 } },
    { "rate",
      WEIR_ERANGE,
      "must be at most",
      { .algorithm = WEIR_TOKEN_BUCKET, .count = 1000000001, .period_ns = SECOND } },
    { "rate",
      WEIR_ERANGE,
      "must be at least",
      { .algorithm = WEIR_TOKEN_BUCKET, .count = 1, .period_ns = 366 * DAY + 1 } },
    { "rate",
      WEIR_ERANGE,
      "must be at least",
      { .algorithm = WEIR_FIXED_WINDOW, .count = 9, .period_ns = 3650 * DAY } },
};

static void what_is_no_limit_is_told_by_its_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weir_fault fault = { "before", "before" };
        int error = weir_limit_check(&rows[i].spec, &fault);
        if (error != rows[i].error || strcmp(fault.field, rows[i].field ? rows[i].field : "") != 0 ||
            strncmp(fault.text, rows[i].text, strlen(rows[i].text)) != 0)
            fail_msg("row %zu: %d %s: %s", i, error, fault.field, fault.text);
        assert_int_equal(fault.text[0] == 0, error == 0);
        assert_int_equal(weir_limit_check(&rows[i].spec, NULL), error);
    }
}

static void only_algorithms_have_names(void **state)
{
    (void)state;
    assert_string_equal(weir_algorithm_name(WEIR_TOKEN_BUCKET), "token_bucket");
    assert_string_equal(weir_algorithm_name(WEIR_CONCURRENCY), "concurrency");
    for (unsigned i = WEIR_CONCURRENCY + 1; i < 100; i++)
        assert_null(weir_algorithm_name((enum weir_algorithm)i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_algorithms_have_names),
        cmocka_unit_test(what_is_no_limit_is_told_by_its_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
