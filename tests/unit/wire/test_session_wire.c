/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON of /v1/sessions, both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "random.h"
#include "wire/session.h"

#define ROUTE WEIR_SESSION_CALL_ROUTE
#define SEEN WEIR_SESSION_CALL_SEEN
#define ACCEPT WEIR_SESSION_CALL_ACCEPT

static struct weir_session_question question;
static struct weir_fault fault;

static int parse(enum weir_session_call call, const char *text)
{
    fault = (struct weir_fault){ .field = "" };
    return weir_session_question_parse(call, text, strlen(text), &question, &fault);
}

static void assert_slice(struct weir_slice slice, const char *text)
{
    assert_int_equal(slice.size, strlen(text));
    assert_memory_equal(slice.data, text, slice.size);
}

static void assert_refused(enum weir_session_call call, const char *text, int error, const char *field,
                           const char *part)
{
    question.json = &fault;
    int got = parse(call, text);
    if (got != error || strcmp(fault.field, field) != 0 || !strstr(fault.text, part))
        fail_msg("%s gives %s, %s: %s", text, weir_error_name(got), fault.field, fault.text);
    assert_ptr_equal(question.json, &fault); /* untouched */
}

/* ---- what is asked ---- */

static void a_route__has_defaults(void **state)
{
    (void)state;
    assert_int_equal(parse(ROUTE, "{\"token\":\"\"}"), 0);
    assert_false(question.has_user);
    assert_int_equal(question.token.size, 0);
    assert_false(question.write);
    assert_int_equal(question.strategy, WEIR_SESSION_TRACKED);
    assert_int_equal(question.behind, WEIR_BEHIND_LEADER);
    assert_int_equal(question.wait_ms, 500);
    assert_int_equal(question.avoid_count, 0);
    weir_session_question_deinit(&question);
}

static void a_route__says_all_it_may(void **state)
{
    (void)state;
    assert_int_equal(parse(ROUTE,
                           "{\"user\":\"ada\\u0000\",\"want\":\"write\",\"session\":\"s\",\"strategy\":\"window\","
                           "\"behind\":\"stale\",\"wait_ms\":60000,\"stay\":\"b\",\"avoid\":[\"c\",\"d\"]}"),
                     0);
    assert_true(question.has_user);
    assert_int_equal(question.user.size, 4);
    assert_memory_equal(question.user.data, "ada", 4);
    assert_true(question.write);
    assert_slice(question.session, "s");
    assert_int_equal(question.strategy, WEIR_SESSION_WINDOW);
    assert_int_equal(question.behind, WEIR_BEHIND_STALE);
    assert_int_equal(question.wait_ms, WEIR_SESSION_WAIT_MAX_MS);
    assert_slice(question.stay, "b");
    assert_int_equal(question.avoid_count, 2);
    assert_slice(question.avoid[1], "d");
    weir_session_question_deinit(&question);
}

static void each_word__is_its_value(void **state)
{
    (void)state;
    static const char *const strategies[] = { "tracked", "sticky", "window" };
    static const char *const behinds[] = { "leader", "wait", "other", "stale", "error" };
    char text[100];
    for (unsigned i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "{\"user\":\"a\",\"strategy\":\"%s\"}", strategies[i]);
        assert_int_equal(parse(ROUTE, text), 0);
        assert_int_equal(question.strategy, i);
        weir_session_question_deinit(&question);
    }
    for (unsigned i = 0; i < 5; i++) {
        snprintf(text, sizeof(text), "{\"user\":\"a\",\"behind\":\"%s\"}", behinds[i]);
        assert_int_equal(parse(ROUTE, text), 0);
        assert_int_equal(question.behind, i);
        weir_session_question_deinit(&question);
    }
}

static void what_was_seen__is_one_place_or_several(void **state)
{
    (void)state;
    assert_int_equal(parse(SEEN, "{\"token\":\"t\",\"place\":\"p\",\"wrote\":true,\"server\":\"b\"}"), 0);
    assert_slice(question.token, "t");
    assert_int_equal(question.places_count, 1);
    assert_slice(question.places[0], "p");
    assert_true(question.wrote);
    assert_slice(question.server, "b");
    weir_session_question_deinit(&question);
    assert_int_equal(parse(SEEN, "{\"user\":\"u\",\"places\":[\"p\",\"q\",\"r\"]}"), 0);
    assert_int_equal(question.places_count, 3);
    assert_slice(question.places[2], "r");
    assert_false(question.wrote);
    weir_session_question_deinit(&question);
    assert_int_equal(parse(ACCEPT, "{\"user\":\"u\"}"), 0);
    weir_session_question_deinit(&question);
}

static void what_is_no_question__is_refused(void **state)
{
    (void)state;
    assert_refused(ROUTE, "", WEIR_EPROTO, "body", "not JSON");
    assert_refused(ROUTE, "{", WEIR_EPROTO, "body", "not JSON");
    assert_refused(ROUTE, "[]", WEIR_EPROTO, "body", "must be an object");
    assert_refused(ROUTE, "{\"token\":\"a\"} x", WEIR_EPROTO, "body", "not JSON");
    assert_refused(ROUTE, "{\"token\":\"a\",\"token\":\"b\"}", WEIR_EPROTO, "body", "duplicate object key");
    assert_refused(ROUTE, "{\"user\":\"\xff\"}", WEIR_EPROTO, "body", "not JSON");
    assert_refused(ROUTE, "{}", WEIR_EPROTO, "token", "is missing, and so is user");
    assert_refused(ROUTE, "{\"token\":\"a\",\"user\":\"b\"}", WEIR_EPROTO, "token", "exclude each other");
    assert_refused(ROUTE, "{\"token\":null}", WEIR_EPROTO, "token", "must be a string of 0 to 480 bytes");
    assert_refused(ROUTE, "{\"user\":\"\"}", WEIR_ERANGE, "user", "1 to 1024 bytes");
    assert_refused(ROUTE, "{\"user\":7}", WEIR_EPROTO, "user", "must be a string");
    assert_refused(ROUTE, "{\"token\":\"\",\"wait\":1}", WEIR_EPROTO, "wait", "known are token user want session");
    assert_refused(ROUTE, "{\"token\":\"\",\"place\":\"p\"}", WEIR_EPROTO, "place", "unknown member");
    assert_refused(ROUTE, "{\"token\":\"\",\"want\":\"erase\"}", WEIR_EPROTO, "want",
                   "must be one of read, write, primary");
    assert_refused(ROUTE, "{\"token\":\"\",\"want\":\"read\\u0000\"}", WEIR_EPROTO, "want", "must be one of");
    assert_refused(ROUTE, "{\"token\":\"\",\"strategy\":\"lamport\"}", WEIR_EPROTO, "strategy", "tracked, sticky");
    assert_refused(ROUTE, "{\"token\":\"\",\"strategy\":\"sticky\"}", WEIR_EPROTO, "session", "is missing: sticky");
    assert_refused(ROUTE, "{\"token\":\"\",\"behind\":1}", WEIR_EPROTO, "behind", "leader, wait, other, stale, error");
    assert_refused(ROUTE, "{\"token\":\"\",\"wait_ms\":-1}", WEIR_ERANGE, "wait_ms", "0 to 60000");
    assert_refused(ROUTE, "{\"token\":\"\",\"wait_ms\":60001}", WEIR_ERANGE, "wait_ms", "0 to 60000");
    assert_refused(ROUTE, "{\"token\":\"\",\"wait_ms\":1.5}", WEIR_EPROTO, "wait_ms", "an integer");
    assert_refused(ROUTE, "{\"token\":\"\",\"wait_ms\":99999999999999999999}", WEIR_ERANGE, "body", "out of range");
    assert_refused(ROUTE, "{\"token\":\"\",\"avoid\":\"b\"}", WEIR_EPROTO, "avoid", "an array of at most 16");
    assert_refused(ROUTE, "{\"token\":\"\",\"avoid\":[1]}", WEIR_EPROTO, "avoid", "a string of 1 to 63");
    assert_refused(SEEN, "{\"token\":\"\"}", WEIR_EPROTO, "place", "is missing");
    assert_refused(SEEN, "{\"token\":\"\",\"places\":[]}", WEIR_EPROTO, "place", "is missing");
    assert_refused(SEEN, "{\"token\":\"\",\"places\":[\"\"]}", WEIR_ERANGE, "places", "1 to 256 bytes");
    assert_refused(SEEN, "{\"token\":\"\",\"place\":\"p\",\"places\":[\"p\"]}", WEIR_EPROTO, "places", "exclude");
    assert_refused(SEEN, "{\"token\":\"\",\"place\":\"p\",\"wrote\":1}", WEIR_EPROTO, "wrote", "true or false");
    assert_refused(ACCEPT, "{\"token\":\"\",\"wait_ms\":1}", WEIR_EPROTO, "wait_ms", "known are token user");
}

static void what_is_too_long__is_refused(void **state)
{
    (void)state;
    char text[2000], long_text[1100];
    memset(long_text, 'a', sizeof(long_text));
    snprintf(text, sizeof(text), "{\"token\":\"%.481s\"}", long_text);
    assert_refused(ROUTE, text, WEIR_ERANGE, "token", "0 to 480");
    snprintf(text, sizeof(text), "{\"user\":\"%.1025s\"}", long_text);
    assert_refused(ROUTE, text, WEIR_ERANGE, "user", "1 to 1024");
    snprintf(text, sizeof(text), "{\"token\":\"\",\"stay\":\"%.64s\"}", long_text);
    assert_refused(ROUTE, text, WEIR_ERANGE, "stay", "1 to 63");
    snprintf(text, sizeof(text), "{\"token\":\"\",\"place\":\"%.257s\"}", long_text);
    assert_refused(SEEN, text, WEIR_ERANGE, "place", "1 to 256");
    snprintf(text, sizeof(text), "{\"token\":\"\",\"places\":[%s]}",
             "\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\"");
    assert_refused(SEEN, text, WEIR_ERANGE, "places", "at most 16");
}

/* Any bytes are an error or a question, never anything else. */
static void any_bytes__are_survived(void **state)
{
    (void)state;
    static const char good[] = "{\"user\":\"ada\",\"want\":\"read\",\"avoid\":[\"b\"],\"wait_ms\":5}";
    struct test_random random = { test_random_seed() };
    for (unsigned i = 0; i < 50000; i++) {
        char text[sizeof(good)];
        memcpy(text, good, sizeof(good));
        for (uint64_t n = 1 + test_random_below(&random, 3); n > 0; n--)
            text[test_random_below(&random, sizeof(good) - 1)] = (char)test_random_below(&random, 256);
        enum weir_session_call call = (enum weir_session_call)test_random_below(&random, 3);
        if (weir_session_question_parse(call, text, test_random_below(&random, sizeof(good)), &question, &fault) == 0)
            weir_session_question_deinit(&question);
    }
}

/* ---- what is answered ---- */

static char room[8192];

static json_t *loaded(const struct weir_text *text)
{
    json_error_t error;
    assert_false(text->overflow);
    json_t *json = json_loadb((const char *)text->data, text->size, JSON_REJECT_DUPLICATES, &error);
    if (!json)
        fail_msg("%s: %.*s", error.text, (int)text->size, (const char *)text->data);
    return json;
}

static void a_route__is_told(void **state)
{
    (void)state;
    struct weir_text text = weir_text_init(room, sizeof(room));
    struct weir_session_told told = { .server = "b",
                                      .lag_known = true,
                                      .lag_ms = 3,
                                      .holds_ms = 1000,
                                      .check = { "SELECT 'ok'", 11 },
                                      .place = { "SELECT 1", 8 },
                                      .token = { "abc", 3 } };
    weir_session_json_route(&text, &told);
    assert_slice((struct weir_slice){ text.data, text.size },
                 "{\"server\":\"b\",\"role\":\"standby\",\"verdict\":\"ok\",\"lag_ms\":3,\"holds_ms\":1000,"
                 "\"check\":\"SELECT 'ok'\",\"place\":\"SELECT 1\",\"token\":\"abc\"}");
    text = weir_text_init(room, sizeof(room));
    told.primary = told.stale = true;
    told.lag_known = false;
    weir_session_json_route(&text, &told);
    json_t *json = loaded(&text);
    assert_string_equal(json_string_value(json_object_get(json, "role")), "primary");
    assert_string_equal(json_string_value(json_object_get(json, "verdict")), "stale");
    assert_true(json_is_null(json_object_get(json, "lag_ms")));
    json_decref(json);
}

static void a_problem__carries_its_verdict(void **state)
{
    (void)state;
    struct weir_text text = weir_text_init(room, sizeof(room));
    weir_session_json_problem(&text, 409, "lost", "gone \"for ever\"");
    json_t *json = loaded(&text);
    assert_int_equal(json_integer_value(json_object_get(json, "status")), 409);
    assert_string_equal(json_string_value(json_object_get(json, "verdict")), "lost");
    assert_string_equal(json_string_value(json_object_get(json, "detail")), "gone \"for ever\"");
    json_decref(json);
}

static void a_server__is_told_within_its_bound(void **state)
{
    (void)state;
    char name[WEIR_SESSION_NAME_MAX + 1], failure[256];
    memset(name, 'n', sizeof(name));
    memset(failure, '\n', sizeof(failure)); /* six bytes each */
    name[sizeof(name) - 1] = failure[sizeof(failure) - 1] = '\0';
    struct weir_text text = weir_text_init(room, WEIR_SESSION_SERVER_JSON_MAX);
    weir_session_json_server(&text, &(struct weir_session_server_told){ .name = name,
                                                                        .fault = failure,
                                                                        .position = "FFFFFFFF/FFFFFFFF",
                                                                        .role = "former primary",
                                                                        .lag_known = true,
                                                                        .lag_ms = UINT64_MAX,
                                                                        .age_ms = UINT64_MAX,
                                                                        .timeline = UINT32_MAX,
                                                                        .load = UINT32_MAX });
    assert_false(text.overflow);
    text = weir_text_init(room, sizeof(room));
    weir_session_json_server(
        &text, &(struct weir_session_server_told){
                   .name = "a", .fault = "", .position = "0/1", .role = "former primary", .timeline = 1 });
    assert_slice((struct weir_slice){ text.data, text.size },
                 "{\"name\":\"a\",\"role\":\"former primary\",\"timeline\":1,\"position\":\"0/1\",\"lag_ms\":null,"
                 "\"age_ms\":0,\"usable\":false,\"frozen\":false,\"load\":0}");
    text = weir_text_init(room, sizeof(room));
    weir_session_json_server(&text, &(struct weir_session_server_told){ .name = "b", .fault = "", .position = "" });
    assert_slice((struct weir_slice){ text.data, text.size },
                 "{\"name\":\"b\",\"usable\":false,\"frozen\":false,\"load\":0}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_route__has_defaults),           cmocka_unit_test(a_route__says_all_it_may),
        cmocka_unit_test(each_word__is_its_value),         cmocka_unit_test(what_was_seen__is_one_place_or_several),
        cmocka_unit_test(what_is_no_question__is_refused), cmocka_unit_test(what_is_too_long__is_refused),
        cmocka_unit_test(any_bytes__are_survived),         cmocka_unit_test(a_route__is_told),
        cmocka_unit_test(a_problem__carries_its_verdict),  cmocka_unit_test(a_server__is_told_within_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
