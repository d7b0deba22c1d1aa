/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON of POST /v1/check, both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <jansson.h>

#include "wire/check.h"

static struct weir_check_request request;

static int parse(const char *text)
{
    struct weir_fault fault;
    return weir_check_parse(text, strlen(text), &request, &fault);
}

static void assert_bad(int error, const char *field, const char *part, const char *text)
{
    struct weir_fault fault = { "", "" };
    int got = weir_check_parse(text, strlen(text), &request, &fault);
    if (got != error || strcmp(fault.field, field) != 0 || !strstr(fault.text, part))
        fail_msg("%d, \"%s: %s\" instead of %d, \"%s: ...%s\" for %s", got, fault.field, fault.text, error, field, part,
                 text);
}

static const struct weir_check_attribute *find(const char *name)
{
    for (size_t i = 0; i < request.count; i++) {
        if (request.attributes[i].name.size == strlen(name) &&
            memcmp(request.attributes[i].name.data, name, strlen(name)) == 0)
            return &request.attributes[i];
    }
    fail_msg("no attribute %s", name);
    return NULL;
}

static void assert_value(const char *name, const char *value, size_t size)
{
    assert_int_equal(find(name)->value.size, size);
    assert_memory_equal(find(name)->value.data, value, size);
}

static void a_request_and_its_defaults(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"attributes\":{\"user\":\"ada\",\"route\":\"/api/x\"},\"cost\":7,\"peek\":true}"), 0);
    assert_int_equal(request.count, 2);
    assert_value("user", "ada", 3);
    assert_value("route", "/api/x", 6);
    assert_int_equal(request.cost, 7);
    assert_true(request.peek);
    weir_check_deinit(&request);
    assert_int_equal(parse("{}"), 0);
    assert_int_equal(request.count, 0);
    assert_int_equal(request.cost, 1);
    assert_false(request.peek);
    weir_check_deinit(&request);
}

static void integers_and_booleans_stand_for_their_text(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"attributes\":{\"a\":42,\"b\":-9223372036854775808,\"c\":true,\"d\":false,\"e\":\"\","
                           "\"\":\"x\",\"f\":\"a\\u0000b\",\"g\":\"\\u00e9\"}}"),
                     0);
    assert_value("a", "42", 2);
    assert_value("b", "-9223372036854775808", 20);
    assert_value("c", "true", 4);
    assert_value("d", "false", 5);
    assert_value("e", "", 0);
    assert_value("", "x", 1);
    assert_value("f", "a\0b", 3);
    assert_value("g", "\xC3\xA9", 2);
    weir_check_deinit(&request);
}

static void costs_are_exact_to_64_bits(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"cost\":9223372036854775807}"), 0);
    assert_int_equal(request.cost, INT64_MAX);
    weir_check_deinit(&request);
    assert_int_equal(parse("{\"cost\":9007199254740993}"), 0);
    assert_int_equal(request.cost, UINT64_C(9007199254740993));
    weir_check_deinit(&request);
    assert_int_equal(parse("{\"cost\":0}"), 0);
    assert_int_equal(request.cost, 0);
    weir_check_deinit(&request);
    assert_bad(WEIR_ERANGE, "cost", "0 to 9223372036854775807", "{\"cost\":-1}");
    assert_bad(WEIR_ERANGE, "body", "0 to 9223372036854775807", "{\"cost\":9223372036854775808}");
    assert_bad(WEIR_ERANGE, "body", "0 to 9223372036854775807", "{\"cost\":-9223372036854775809}");
    assert_bad(WEIR_EPROTO, "cost", "integer", "{\"cost\":1.0}");
    assert_bad(WEIR_EPROTO, "cost", "integer", "{\"cost\":1e3}");
    assert_bad(WEIR_EPROTO, "cost", "integer", "{\"cost\":\"1\"}");
    assert_bad(WEIR_EPROTO, "cost", "integer", "{\"cost\":null}");
}

static void what_is_no_request_is_refused(void **state)
{
    (void)state;
    assert_bad(WEIR_EPROTO, "body", "not JSON", "");
    assert_bad(WEIR_EPROTO, "body", "not JSON", "{\"cost\":1");
    assert_bad(WEIR_EPROTO, "body", "not JSON", "{} {}");
    assert_bad(WEIR_EPROTO, "body", "not JSON", "{\"cost\":01}");
    assert_bad(WEIR_EPROTO, "body", "not JSON", "{\"attributes\":{\"a\":\"\xFF\"}}");
    assert_bad(WEIR_EPROTO, "body", "object", "[]");
    assert_bad(WEIR_EPROTO, "body", "duplicate", "{\"cost\":1,\"cost\":2}");
    assert_bad(WEIR_EPROTO, "body", "duplicate", "{\"attributes\":{\"a\":\"1\",\"a\":\"2\"}}");
    assert_bad(WEIR_EPROTO, "costs", "unknown member", "{\"costs\":1}");
    assert_bad(WEIR_EPROTO, "\"\"", "unknown member", "{\"\":1}");
    assert_bad(WEIR_EPROTO, "attributes", "object", "{\"attributes\":[]}");
    assert_bad(WEIR_EPROTO, "attributes", "object", "{\"attributes\":null}");
    assert_bad(WEIR_EPROTO, "a", "string", "{\"attributes\":{\"a\":1.5}}");
    assert_bad(WEIR_EPROTO, "a", "string", "{\"attributes\":{\"a\":null}}");
    assert_bad(WEIR_EPROTO, "a", "string", "{\"attributes\":{\"a\":[\"x\"]}}");
    assert_bad(WEIR_EPROTO, "peek", "true or false", "{\"peek\":1}");
    assert_bad(WEIR_EPROTO, "an-unknown-member-of-some-lengt", "unknown", "{\"an-unknown-member-of-some-length\":1}");
}

static void depth_and_number_are_bounded(void **state)
{
    (void)state;
    static char text[1 << 16];
    memset(text, '[', sizeof(text) - 1);
    assert_bad(WEIR_EPROTO, "body", "not JSON", text);
    for (size_t count = WEIR_CHECK_ATTRIBUTES_MAX; count <= WEIR_CHECK_ATTRIBUTES_MAX + 1; count++) {
        int at = sprintf(text, "{\"attributes\":{\"a0\":1");
        for (size_t i = 1; i < count; i++)
            at += sprintf(text + at, ",\"a%zu\":1", i);
        sprintf(text + at, "}}");
        if (count > WEIR_CHECK_ATTRIBUTES_MAX) {
            assert_bad(WEIR_ERANGE, "attributes", "at most 64", text);
        } else {
            assert_int_equal(parse(text), 0);
            weir_check_deinit(&request);
        }
    }
}

/* ---- answers ---- */

static char room[1 << 16];

static const char *written(const struct weir_answer *answer)
{
    struct weir_text text = weir_text_init(room, weir_check_answer_max(answer));
    weir_check_answer(&text, answer);
    assert_false(text.overflow);
    room[text.size] = '\0';
    json_t *json = json_loads(room, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    json_decref(json);
    return room;
}

static const struct weir_limit_spec spec = { .count = 100, .period_ns = 60 * WEIR_NS_PER_SECOND, .burst = 20 };

static void an_admission(void **state)
{
    (void)state;
    const struct weir_verdict verdict = {
        .admitted = true, .capacity = 20, .remaining = 19, .reset_after_ns = 599000001, .next_after_ns = 599000001
    };
    const struct weir_told told = { .name = "api-per-user", .spec = &spec, .verdict = &verdict };
    const struct weir_decision decision = { .admitted = true, .deciding = 0 };
    assert_string_equal(written(&(struct weir_answer){ .decision = &decision, .limits = &told, .count = 1 }),
                        "{\"admitted\":true,\"limit\":\"api-per-user\",\"remaining\":19,\"retry_after_ms\":0,"
                        "\"reset_after_ms\":600,\"delay_ms\":0,\"limits\":[{\"limit\":\"api-per-user\","
                        "\"admitted\":true,\"shadow\":false,\"capacity\":20,\"remaining\":19,\"retry_after_ms\":0,"
                        "\"reset_after_ms\":600,\"delay_ms\":0}]}");
}

static void a_limit_that_finds_no_place_says_so(void **state)
{
    (void)state;
    const struct weir_verdict verdict = { .full = true, .capacity = 20, .retry_after_ns = 1, .reset_after_ns = 1 };
    const struct weir_told told = { .name = "a", .spec = &spec, .verdict = &verdict };
    const struct weir_decision decision = { .admitted = false, .deciding = 0 };
    assert_non_null(strstr(written(&(struct weir_answer){ .decision = &decision, .limits = &told, .count = 1 }),
                           "\"admitted\":false,\"shadow\":false,\"full\":true,\"capacity\":20,\"remaining\":0,"
                           "\"retry_after_ms\":1,"));
}

static void a_refusal_is_a_problem_with_the_same_members(void **state)
{
    (void)state;
    const struct weir_verdict verdict = { .capacity = 20, .retry_after_ns = WEIR_NEVER };
    const struct weir_told told = { .name = "a\"b", .spec = &spec, .verdict = &verdict };
    const struct weir_decision decision = { .deciding = 0, .retry_after_ns = WEIR_NEVER };
    assert_string_equal(written(&(struct weir_answer){ .decision = &decision, .limits = &told, .count = 1 }),
                        "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
                        "\"title\":\"Too many requests\",\"status\":429,"
                        "\"detail\":\"the request costs more than a limit can ever admit at once: no wait helps\","
                        "\"violated-policies\":[\"a\\\"b\"],"
                        "\"admitted\":false,\"limit\":\"a\\\"b\",\"remaining\":0,\"retry_after_ms\":-1,"
                        "\"reset_after_ms\":0,\"delay_ms\":0,\"limits\":[{\"limit\":\"a\\\"b\",\"admitted\":false,"
                        "\"shadow\":false,\"capacity\":20,\"remaining\":0,\"retry_after_ms\":-1,\"reset_after_ms\":0,"
                        "\"delay_ms\":0}]}");
}

static void a_refusal_for_want_of_an_attribute_names_it(void **state)
{
    (void)state;
    const struct weir_verdict verdict = { .capacity = 20, .retry_after_ns = WEIR_NEVER };
    const struct weir_told told = { .name = "a", .spec = &spec, .verdict = &verdict };
    const struct weir_decision decision = { .deciding = 0, .retry_after_ns = WEIR_NEVER };
    assert_string_equal(
        written(&(struct weir_answer){ .decision = &decision, .limits = &told, .count = 1, .missing = "us\"er" }),
        "{\"type\":\"about:blank\",\"title\":\"Too Many Requests\",\"status\":429,"
        "\"detail\":\"the request lacks an attribute that its limit counts by\",\"missing\":\"us\\\"er\","
        "\"violated-policies\":[\"a\"],\"admitted\":false,\"limit\":\"a\",\"remaining\":0,\"retry_after_ms\":-1,"
        "\"reset_after_ms\":0,\"delay_ms\":0,\"limits\":[{\"limit\":\"a\",\"admitted\":false,\"shadow\":false,"
        "\"capacity\":20,\"remaining\":0,\"retry_after_ms\":-1,\"reset_after_ms\":0,\"delay_ms\":0}]}");
    assert_string_equal(
        written(&(struct weir_answer){ .decision = &decision }),
        "{\"type\":\"about:blank\",\"title\":\"Too Many Requests\",\"status\":429,"
        "\"detail\":\"no limit matches this request, and unmatched requests are refused\","
        "\"admitted\":false,\"limit\":null,\"remaining\":null,\"retry_after_ms\":-1,\"reset_after_ms\":0,"
        "\"delay_ms\":0,\"limits\":[]}");
}

/* How nodes share the limit and what that is worth, and that the engine failed: each limit says so itself. */
static void a_shared_limit_says_how_and_what_decided(void **state)
{
    (void)state;
    const struct weir_verdict verdict = { .admitted = true, .capacity = 20, .remaining = 19 };
    struct weir_told_sharing sharing = {
        .mode = "batched", .nodes = 3, .shares = true, .share = 7, .slack = 2, .overshoot_max = 6
    };
    struct weir_told told = { .name = "a", .spec = &spec, .verdict = &verdict, .sharing = &sharing };
    const struct weir_decision decision = { .admitted = true, .deciding = 0 };
    assert_non_null(strstr(written(&(struct weir_answer){ .decision = &decision, .limits = &told, .count = 1 }),
                           "\"delay_ms\":0,\"sharing\":\"batched\",\"nodes\":3,\"share\":7,\"slack\":2,"
                           "\"overshoot_max\":6}]}"));
    sharing.shares = false; /* nothing would decide by it */
    assert_non_null(strstr(written(&(struct weir_answer){ .decision = &decision, .limits = &told, .count = 1 }),
                           "\"nodes\":3,\"slack\":2,"));
    sharing.revision = 12;
    sharing.revision_node = "b";
    assert_non_null(strstr(written(&(struct weir_answer){ .decision = &decision, .limits = &told, .count = 1 }),
                           "\"overshoot_max\":6,\"revision\":12,\"revision_of\":\"b\"}]}"));
    sharing.revision = 0;
    told.fallback = "local";
    assert_non_null(strstr(written(&(struct weir_answer){ .decision = &decision, .limits = &told, .count = 1 }),
                           "\"overshoot_max\":6,\"fallback\":\"local\"}]}"));
    told.overshoot_added = 20;
    assert_non_null(strstr(written(&(struct weir_answer){ .decision = &decision, .limits = &told, .count = 1 }),
                           "\"overshoot_max\":26,\"fallback\":\"local\"}]}"));
    told.overshoot_added = WEIR_NEVER;
    assert_non_null(strstr(written(&(struct weir_answer){ .decision = &decision, .limits = &told, .count = 1 }),
                           "\"overshoot_max\":null,\"fallback\":\"local\"}]}"));
}

static void where_no_limit_applies(void **state)
{
    (void)state;
    const struct weir_decision decision = { .admitted = true, .deciding = 0 };
    assert_string_equal(written(&(struct weir_answer){ .decision = &decision, .limits = NULL, .count = 0 }),
                        "{\"admitted\":true,\"limit\":null,\"remaining\":null,\"retry_after_ms\":0,"
                        "\"reset_after_ms\":0,\"delay_ms\":0,\"limits\":[]}");
}

static void the_longest_answer_keeps_its_bound(void **state)
{
    (void)state;
    static char name[WEIR_LIMIT_NAME_MAX + 1], node[65];
    memset(name, '\x01', WEIR_LIMIT_NAME_MAX);
    memset(node, '\x01', sizeof(node) - 1);
    const struct weir_verdict verdict = { .capacity = INT64_MAX,
                                          .remaining = INT64_MAX,
                                          .retry_after_ns = INT64_MAX,
                                          .reset_after_ns = INT64_MAX,
                                          .delay_ns = INT64_MAX };
    const struct weir_told_sharing sharing = { .mode = "batched",
                                               .nodes = INT64_MAX,
                                               .shares = true,
                                               .share = INT64_MAX,
                                               .slack = INT64_MAX,
                                               .overshoot_max = INT64_MAX,
                                               .revision = INT64_MAX,
                                               .revision_node = node };
    struct weir_told told[WEIR_CHARGES_MAX];
    for (size_t i = 0; i < WEIR_CHARGES_MAX; i++)
        told[i] = (struct weir_told){
            .name = name, .spec = &spec, .verdict = &verdict, .sharing = &sharing, .fallback = "closed"
        };
    const struct weir_decision decision = { .retry_after_ns = INT64_MAX, .delay_ns = INT64_MAX };
    for (size_t count = 1; count <= 16; count++)
        written(&(struct weir_answer){ .decision = &decision, .limits = told, .count = count });
}

/* jansson skips one NUL that follows a number or a word. */
static void a_nul_is_no_json(void **state)
{
    (void)state;
    static const char *const texts[] = { "{\"cost\":1@}", "{\"cost\":1@,\"peek\":true}",    "{\"peek\":true@}", "{}@",
                                         "@{}",           "{\"attributes\":{\"a\":\"b@\"}}" };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char text[64];
        struct weir_fault fault = { "", "" };
        size_t size = strlen(texts[i]);
        memcpy(text, texts[i], size);
        *(char *)memchr(text, '@', size) = '\0';
        assert_int_equal(weir_check_parse(text, size, &request, &fault), WEIR_EPROTO);
        assert_non_null(strstr(fault.text, "NUL"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_nul_is_no_json),
        cmocka_unit_test(a_request_and_its_defaults),
        cmocka_unit_test(integers_and_booleans_stand_for_their_text),
        cmocka_unit_test(costs_are_exact_to_64_bits),
        cmocka_unit_test(what_is_no_request_is_refused),
        cmocka_unit_test(depth_and_number_are_bounded),
        cmocka_unit_test(an_admission),
        cmocka_unit_test(a_limit_that_finds_no_place_says_so),
        cmocka_unit_test(a_refusal_is_a_problem_with_the_same_members),
        cmocka_unit_test(a_refusal_for_want_of_an_attribute_names_it),
        cmocka_unit_test(a_shared_limit_says_how_and_what_decided),
        cmocka_unit_test(where_no_limit_applies),
        cmocka_unit_test(the_longest_answer_keeps_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
