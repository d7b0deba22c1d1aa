/* SPDX-License-Identifier: Apache-2.0
 *
 * Header fields of a verdict, byte for byte: draft-ietf-httpapi-ratelimit-headers-11, RFC 9651, RFC 9110. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "wire/ratelimit.h"

#define SECOND WEIR_NS_PER_SECOND

static char room[1 << 16];

/* An answer of up to two limits; tests change what matters to them. */
struct fixture {
    struct weir_limit_spec specs[2];
    struct weir_verdict verdicts[2];
    struct weir_told told[2];
    struct weir_decision decision;
    struct weir_answer answer;
};

static void set_up(struct fixture *fixture, size_t count)
{
    *fixture = (struct fixture){
        .specs = { { .count = 100, .period_ns = 60 * SECOND, .burst = 20 },
                   { .count = 1000, .period_ns = 86400 * SECOND } },
        .verdicts = { { .admitted = true,
                        .capacity = 20,
                        .remaining = 19,
                        .reset_after_ns = SECOND * 6 / 10,
                        .next_after_ns = SECOND * 6 / 10 },
                      { .admitted = true, .capacity = 1000, .remaining = 1000 } },
        .decision = { .admitted = true, .deciding = 0 },
    };
    fixture->told[0] =
        (struct weir_told){ .name = "burst", .spec = &fixture->specs[0], .verdict = &fixture->verdicts[0] };
    fixture->told[1] =
        (struct weir_told){ .name = "daily", .spec = &fixture->specs[1], .verdict = &fixture->verdicts[1] };
    fixture->answer = (struct weir_answer){ .decision = &fixture->decision, .limits = fixture->told, .count = count };
}

static void refuse(struct fixture *fixture, size_t index, uint64_t retry_after_ns, uint64_t next_after_ns)
{
    fixture->verdicts[index].admitted = false;
    fixture->verdicts[index].remaining = 0;
    fixture->verdicts[index].retry_after_ns = retry_after_ns;
    fixture->verdicts[index].next_after_ns = next_after_ns;
    fixture->decision.admitted = false;
    fixture->decision.deciding = index;
    fixture->decision.retry_after_ns = retry_after_ns;
}

static void assert_fields(const struct fixture *fixture, bool standard, bool legacy, const char *expected)
{
    struct weir_text text = weir_text_init(room, weir_ratelimit_fields_max(&fixture->answer));
    weir_ratelimit_fields(&text, &fixture->answer, &(struct weir_ratelimit_options){ standard, legacy });
    assert_false(text.overflow);
    room[text.size] = '\0';
    assert_string_equal(room, expected);
}

static void an_admitted_request(void **state)
{
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 2);
    assert_fields(&fixture, true, true,
                  "RateLimit-Policy: \"burst\";q=20;w=12, \"daily\";q=1000;w=86400\r\n"
                  "RateLimit: \"burst\";r=19;t=1, \"daily\";r=1000\r\n"
                  "X-RateLimit-Limit: 20\r\nX-RateLimit-Remaining: 19\r\nX-RateLimit-Reset: 1\r\n");
    assert_fields(&fixture, true, false,
                  "RateLimit-Policy: \"burst\";q=20;w=12, \"daily\";q=1000;w=86400\r\n"
                  "RateLimit: \"burst\";r=19;t=1, \"daily\";r=1000\r\n");
    assert_fields(&fixture, false, false, "");
}

static void a_refused_request_says_when_to_come_back(void **state)
{
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 1);
    refuse(&fixture, 0, SECOND + 1, SECOND / 2);
    fixture.verdicts[0].reset_after_ns = 12 * SECOND;
    assert_fields(&fixture, true, true,
                  "RateLimit-Policy: \"burst\";q=20;w=12\r\nRateLimit: \"burst\";r=0;t=1\r\n"
                  "X-RateLimit-Limit: 20\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 12\r\nRetry-After: 2\r\n");
    assert_fields(&fixture, false, false, "Retry-After: 2\r\n");
}

static void retry_after_is_rounded_up_and_not_before_t(void **state)
{
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 2);
    refuse(&fixture, 0, 1, 1);
    assert_int_equal(weir_ratelimit_retry_after_s(&fixture.answer), 1);
    refuse(&fixture, 0, SECOND, 1);
    assert_int_equal(weir_ratelimit_retry_after_s(&fixture.answer), 1);
    refuse(&fixture, 0, SECOND + 1, 1);
    assert_int_equal(weir_ratelimit_retry_after_s(&fixture.answer), 2);
    refuse(&fixture, 0, SECOND, 7 * SECOND);
    assert_int_equal(weir_ratelimit_retry_after_s(&fixture.answer), 7);
    refuse(&fixture, 0, SECOND, 1);
    fixture.verdicts[1].next_after_ns = 9 * SECOND; /* admits: its window is no reason to wait */
    assert_int_equal(weir_ratelimit_retry_after_s(&fixture.answer), 1);
    fixture.verdicts[1].admitted = false;
    assert_int_equal(weir_ratelimit_retry_after_s(&fixture.answer), 9);
    fixture.verdicts[1].shadow = true;
    assert_int_equal(weir_ratelimit_retry_after_s(&fixture.answer), 1);
}

static void never_has_no_retry_after(void **state)
{
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 1);
    refuse(&fixture, 0, WEIR_NEVER, 0);
    fixture.verdicts[0].remaining = 20;
    assert_fields(&fixture, true, false, "RateLimit-Policy: \"burst\";q=20;w=12\r\nRateLimit: \"burst\";r=20\r\n");
}

static void windows_are_rounded_up_and_positive(void **state)
{
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 1);
    fixture.specs[0] = (struct weir_limit_spec){ .count = 1000, .period_ns = SECOND };
    fixture.verdicts[0].capacity = 1; /* 1 ms */
    assert_fields(&fixture, true, false, "RateLimit-Policy: \"burst\";q=1;w=1\r\nRateLimit: \"burst\";r=19;t=1\r\n");
    fixture.verdicts[0].capacity = 1001;
    assert_fields(&fixture, true, false, "RateLimit-Policy: \"burst\";q=1001;w=2\r\nRateLimit: \"burst\";r=19;t=1\r\n");
    fixture.specs[0].count = 0; /* blocks everything: no window */
    fixture.verdicts[0].capacity = 0;
    fixture.verdicts[0].remaining = 0;
    fixture.verdicts[0].next_after_ns = 0;
    assert_fields(&fixture, true, false, "RateLimit-Policy: \"burst\";q=0\r\nRateLimit: \"burst\";r=0\r\n");
}

static void integers_have_at_most_15_digits(void **state)
{
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 1);
    fixture.specs[0] = (struct weir_limit_spec){ .count = 1, .period_ns = SECOND };
    fixture.verdicts[0].capacity = UINT64_MAX;
    fixture.verdicts[0].remaining = WEIR_SF_INTEGER_MAX + 1;
    fixture.verdicts[0].next_after_ns = UINT64_MAX - 1;
    assert_fields(&fixture, true, false,
                  "RateLimit-Policy: \"burst\";q=999999999999999;w=18446744074\r\n"
                  "RateLimit: \"burst\";r=999999999999999;t=18446744074\r\n");
}

static void names_are_quoted(void **state)
{
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 1);
    fixture.told[0].name = "a\"b\\\xC3\xA9\r\nX: y";
    assert_fields(&fixture, true, false,
                  "RateLimit-Policy: \"a\\\"b\\\\%C3%A9%0D%0AX: y\";q=20;w=12\r\n"
                  "RateLimit: \"a\\\"b\\\\%C3%A9%0D%0AX: y\";r=19;t=1\r\n");
}

static void limits_in_shadow_are_not_shown(void **state)
{
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 2);
    fixture.verdicts[0].shadow = true;
    fixture.decision.deciding = 1;
    assert_fields(&fixture, true, false,
                  "RateLimit-Policy: \"daily\";q=1000;w=86400\r\nRateLimit: \"daily\";r=1000\r\n");
    fixture.verdicts[1].shadow = true;
    fixture.decision.deciding = 2; /* nobody decides */
    assert_fields(&fixture, true, true, "");
}

static void a_request_that_met_no_limit(void **state)
{
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 0);
    assert_fields(&fixture, true, true, "Weir-Limits: none\r\n");
    fixture.decision = (struct weir_decision){ .retry_after_ns = WEIR_NEVER };
    assert_fields(&fixture, false, false, "Weir-Limits: none\r\n");
    assert_true(weir_ratelimit_barred(&fixture.answer));
}

static void a_request_that_lacks_an_attribute(void **state)
{
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 1);
    refuse(&fixture, 0, WEIR_NEVER, 0);
    assert_false(weir_ratelimit_barred(&fixture.answer));
    fixture.answer.missing = "us\ner";
    assert_true(weir_ratelimit_barred(&fixture.answer));
    assert_fields(&fixture, true, false,
                  "RateLimit-Policy: \"burst\";q=20;w=12\r\nRateLimit: \"burst\";r=0\r\n"
                  "Weir-Missing: \"us%0Aer\"\r\n");
}

static void a_banned_key_is_told(void **state)
{
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 1);
    refuse(&fixture, 0, WEIR_NEVER, 0);
    fixture.answer.banned = true;
    assert_true(weir_ratelimit_barred(&fixture.answer)); /* for good: no waiting mends it */
    assert_fields(&fixture, true, false,
                  "RateLimit-Policy: \"burst\";q=20;w=12\r\nRateLimit: \"burst\";r=0\r\nWeir-Banned: ?1\r\n");
    refuse(&fixture, 0, 90 * WEIR_NS_PER_SECOND, 90 * WEIR_NS_PER_SECOND);
    assert_false(weir_ratelimit_barred(&fixture.answer));
    assert_fields(&fixture, true, false,
                  "RateLimit-Policy: \"burst\";q=20;w=12\r\nRateLimit: \"burst\";r=0;t=90\r\nRetry-After: 90\r\n"
                  "Weir-Banned: ?1\r\n");
    struct weir_text text = weir_text_init(room, sizeof(room));
    weir_ratelimit_problem(&text, &fixture.answer);
    assert_false(text.overflow);
    room[text.size] = '\0';
    assert_non_null(strstr((const char *)room, "\"banned\":true"));
    assert_null(strstr((const char *)room, "quota-exceeded"));
}

static void the_bound_holds_for_the_longest(void **state)
{
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 2);
    static char name[WEIR_LIMIT_NAME_MAX + 1];
    memset(name, '\xFF', WEIR_LIMIT_NAME_MAX);
    for (size_t i = 0; i < 2; i++) {
        fixture.told[i].name = name;
        refuse(&fixture, i, UINT64_MAX - 1, UINT64_MAX - 1);
        fixture.verdicts[i].capacity = fixture.verdicts[i].remaining = UINT64_MAX;
        fixture.verdicts[i].reset_after_ns = UINT64_MAX;
    }
    struct weir_text text = weir_text_init(room, weir_ratelimit_fields_max(&fixture.answer));
    weir_ratelimit_fields(&text, &fixture.answer, &(struct weir_ratelimit_options){ true, true });
    assert_false(text.overflow);
}

static void the_problem_names_what_was_violated(void **state)
{
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 2);
    refuse(&fixture, 1, SECOND, SECOND);
    struct weir_text text = weir_text_init(room, sizeof(room));
    weir_ratelimit_problem(&text, &fixture.answer);
    room[text.size] = '\0';
    assert_string_equal(room, "\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
                              "\"title\":\"Too many requests\",\"status\":429,\"violated-policies\":[\"daily\"]");
    refuse(&fixture, 0, SECOND, SECOND);
    text.size = 0;
    weir_ratelimit_problem(&text, &fixture.answer);
    room[text.size] = '\0';
    assert_non_null(strstr(room, "[\"burst\",\"daily\"]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_admitted_request),
        cmocka_unit_test(a_refused_request_says_when_to_come_back),
        cmocka_unit_test(retry_after_is_rounded_up_and_not_before_t),
        cmocka_unit_test(never_has_no_retry_after),
        cmocka_unit_test(windows_are_rounded_up_and_positive),
        cmocka_unit_test(integers_have_at_most_15_digits),
        cmocka_unit_test(names_are_quoted),
        cmocka_unit_test(limits_in_shadow_are_not_shown),
        cmocka_unit_test(a_request_that_met_no_limit),
        cmocka_unit_test(a_request_that_lacks_an_attribute),
        cmocka_unit_test(a_banned_key_is_told),
        cmocka_unit_test(the_bound_holds_for_the_longest),
        cmocka_unit_test(the_problem_names_what_was_violated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
