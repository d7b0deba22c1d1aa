/* SPDX-License-Identifier: Apache-2.0
 *
 * The paths and the JSON of /v1/locks, both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "random.h"
#include "wire/lock.h"

/* ---- the path ---- */

static struct weir_lock_path path;

static int read_path(const char *text, bool post)
{
    struct weir_fault fault;
    return weir_lock_path_read((struct weir_slice){ text, strlen(text) }, post, &path, &fault);
}

static void assert_path(const char *text, bool post, enum weir_lock_call call, const char *name, size_t size)
{
    assert_int_equal(read_path(text, post), 0);
    assert_int_equal(path.call, call);
    assert_int_equal(path.name_size, size);
    assert_memory_equal(path.name, name, size);
}

static void a_path__says_which_lock_and_what(void **state)
{
    (void)state;
    assert_path("/v1/locks/a/acquire", true, WEIR_LOCK_CALL_ACQUIRE, "a", 1);
    assert_path("/v1/locks/a/renew", true, WEIR_LOCK_CALL_RENEW, "a", 1);
    assert_path("/v1/locks/a/release", true, WEIR_LOCK_CALL_RELEASE, "a", 1);
    assert_path("/v1/locks/a", false, WEIR_LOCK_CALL_SHOW, "a", 1);
    assert_path("/v1/locks/acquire/acquire", true, WEIR_LOCK_CALL_ACQUIRE, "acquire", 7);
    assert_path("/v1/locks/acquire", false, WEIR_LOCK_CALL_SHOW, "acquire", 7);
    assert_path("/v1/locks/restored", false, WEIR_LOCK_CALL_SHOW, "restored", 8);
    assert_path("/v1/locks/restored/release", true, WEIR_LOCK_CALL_RELEASE, "restored", 8);
    assert_int_equal(read_path("/v1/locks/restored", true), 0);
    assert_int_equal(path.call, WEIR_LOCK_CALL_RESTORED);
}

static void a_name__is_any_bytes(void **state)
{
    (void)state;
    assert_path("/v1/locks/a%2Fb%00%ff+c/acquire", true, WEIR_LOCK_CALL_ACQUIRE, "a/b\0\xff+c", 7);
    assert_path("/v1/locks/%2e%2E", false, WEIR_LOCK_CALL_SHOW, "..", 2);
    char longest[sizeof("/v1/locks/") + 3 * WEIR_LOCK_NAME_MAX + 3];
    size_t at = (size_t)snprintf(longest, sizeof(longest), "/v1/locks/");
    for (int i = 0; i < WEIR_LOCK_NAME_MAX; i++, at += 3)
        snprintf(longest + at, 4, "%%fe");
    assert_int_equal(read_path(longest, false), 0);
    assert_int_equal(path.name_size, WEIR_LOCK_NAME_MAX);
    longest[at] = 'x', longest[at + 1] = '\0';
    assert_int_equal(read_path(longest, false), WEIR_ERANGE);
}

static void no_path__is_told_from_a_bad_name(void **state)
{
    (void)state;
    assert_int_equal(read_path("/v1/locks", false), WEIR_ENOENT);
    assert_int_equal(read_path("/v1/lock/a", false), WEIR_ENOENT);
    assert_int_equal(read_path("/v1/locks/a/steal", true), WEIR_ENOENT);
    assert_int_equal(read_path("/v1/locks/a/", true), WEIR_ENOENT);
    assert_int_equal(read_path("/v1/locks/a/b/acquire", true), WEIR_ENOENT);
    assert_int_equal(read_path("/v1/locks/", false), WEIR_ERANGE);
    assert_int_equal(read_path("/v1/locks//acquire", true), WEIR_ERANGE);
    assert_int_equal(read_path("/v1/locks/%4/acquire", true), WEIR_EPROTO);
    assert_int_equal(read_path("/v1/locks/%", false), WEIR_EPROTO);
    assert_int_equal(read_path("/v1/locks/%g0", false), WEIR_EPROTO);
}

/* ---- what is asked ---- */

static struct weir_lock_question question;

static int parse(enum weir_lock_call call, const char *text)
{
    struct weir_fault fault;
    return weir_lock_question_parse(call, text, strlen(text), &question, &fault);
}

static void assert_bad(enum weir_lock_call call, int error, const char *field, const char *part, const char *text)
{
    struct weir_fault fault = { "", "" };
    int got = weir_lock_question_parse(call, text, strlen(text), &question, &fault);
    if (got != error || strcmp(fault.field, field) != 0 || !strstr(fault.text, part))
        fail_msg("%d, \"%s: %s\" instead of %d, \"%s: ...%s\" for %s", got, fault.field, fault.text, error, field, part,
                 text);
}

static void assert_owner(const char *owner, size_t size)
{
    assert_int_equal(question.owner.size, size);
    assert_memory_equal(question.owner.data, owner, size);
    weir_lock_question_deinit(&question);
}

static void an_acquire__and_its_defaults(void **state)
{
    (void)state;
    assert_int_equal(parse(WEIR_LOCK_CALL_ACQUIRE,
                           "{\"owner\":\"ada\",\"ttl_ms\":2000,\"wait_ms\":86400000,\"seen\":4611686018427387904}"),
                     0);
    assert_int_equal(question.ttl_ms, 2000);
    assert_int_equal(question.wait_ms, 86400000);
    assert_true(question.seen == UINT64_C(1) << 62);
    assert_owner("ada", 3);
    assert_int_equal(parse(WEIR_LOCK_CALL_ACQUIRE, "{\"ttl_ms\":86400000,\"owner\":\"a\\u0000\xc3\xa9\"}"), 0);
    assert_int_equal(question.wait_ms, 0);
    assert_int_equal(question.seen, 0);
    assert_owner("a\0\xc3\xa9", 4);
}

static void the_others__take_what_they_need(void **state)
{
    (void)state;
    assert_int_equal(parse(WEIR_LOCK_CALL_RENEW, "{\"owner\":\"ada\",\"ttl_ms\":5000}"), 0);
    assert_owner("ada", 3);
    assert_int_equal(parse(WEIR_LOCK_CALL_RELEASE, "{\"owner\":\"ada\"}"), 0);
    assert_owner("ada", 3);
    assert_int_equal(parse(WEIR_LOCK_CALL_RESTORED, "{\"seen\":7}"), 0);
    assert_int_equal(question.seen, 7);
    weir_lock_question_deinit(&question);
    assert_int_equal(parse(WEIR_LOCK_CALL_RESTORED, ""), 0);
    weir_lock_question_deinit(&question);
    assert_bad(WEIR_LOCK_CALL_RENEW, WEIR_EPROTO, "wait_ms", "known are owner owner_base64 ttl_ms",
               "{\"owner\":\"a\",\"ttl_ms\":5000,\"wait_ms\":1}");
    assert_bad(WEIR_LOCK_CALL_RELEASE, WEIR_EPROTO, "ttl_ms", "unknown member", "{\"owner\":\"a\",\"ttl_ms\":5000}");
    assert_bad(WEIR_LOCK_CALL_RESTORED, WEIR_EPROTO, "owner", "known are seen", "{\"owner\":\"a\"}");
}

static void a_binary_owner__is_base64(void **state)
{
    (void)state;
    assert_int_equal(parse(WEIR_LOCK_CALL_RELEASE, "{\"owner_base64\":\"/wA=\"}"), 0);
    assert_owner("\xff\0", 2);
    assert_int_equal(parse(WEIR_LOCK_CALL_RELEASE, "{\"owner_base64\":\"//79\"}"), 0);
    assert_owner("\xff\xfe\xfd", 3);
    static const char *const bad[] = { "", "/wA", "/wB=", "/w==\\n", "=AAA", "A===", "====", "/w=A", "_w==", " /w=" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[64];
        snprintf(text, sizeof(text), "{\"owner_base64\":\"%s\"}", bad[i]);
        assert_bad(WEIR_LOCK_CALL_RELEASE, WEIR_EPROTO, "owner_base64", "must be base64 with padding", text);
    }
    assert_bad(WEIR_LOCK_CALL_RELEASE, WEIR_EPROTO, "owner_base64", "exclude each other",
               "{\"owner\":\"a\",\"owner_base64\":\"/w==\"}");
}

static void what_is_out_of_range__is_named_with_its_range(void **state)
{
    (void)state;
    const enum weir_lock_call acquire = WEIR_LOCK_CALL_ACQUIRE;
    assert_bad(acquire, WEIR_ERANGE, "ttl_ms", "2000 to 86400000", "{\"owner\":\"a\",\"ttl_ms\":1999}");
    assert_bad(acquire, WEIR_ERANGE, "ttl_ms", "2000 to 86400000", "{\"owner\":\"a\",\"ttl_ms\":86400001}");
    assert_bad(acquire, WEIR_ERANGE, "ttl_ms", "2000 to 86400000", "{\"owner\":\"a\",\"ttl_ms\":-2000}");
    assert_bad(acquire, WEIR_EPROTO, "ttl_ms", "must be an integer", "{\"owner\":\"a\",\"ttl_ms\":2e3}");
    assert_bad(acquire, WEIR_EPROTO, "ttl_ms", "must be an integer", "{\"owner\":\"a\",\"ttl_ms\":\"2000\"}");
    assert_bad(acquire, WEIR_ERANGE, "wait_ms", "0 to 86400000",
               "{\"owner\":\"a\",\"ttl_ms\":2000,\"wait_ms\":86400001}");
    assert_bad(acquire, WEIR_ERANGE, "seen", "0 to 4611686018427387904",
               "{\"owner\":\"a\",\"ttl_ms\":2000,\"seen\":4611686018427387905}");
    assert_bad(acquire, WEIR_ERANGE, "body", "out of range", "{\"owner\":\"a\",\"ttl_ms\":99999999999999999999}");
    assert_bad(acquire, WEIR_ERANGE, "owner", "1 to 256 bytes", "{\"owner\":\"\",\"ttl_ms\":2000}");
    assert_bad(acquire, WEIR_EPROTO, "owner", "is missing", "{\"ttl_ms\":2000}");
    assert_bad(acquire, WEIR_EPROTO, "ttl_ms", "is missing", "{\"owner\":\"a\"}");
    assert_bad(acquire, WEIR_EPROTO, "owner", "must be a string", "{\"owner\":7,\"ttl_ms\":2000}");
    assert_bad(acquire, WEIR_EPROTO, "body", "must be an object", "[]");
    assert_bad(acquire, WEIR_EPROTO, "body", "not JSON", "");
    assert_bad(acquire, WEIR_EPROTO, "body", "not JSON", "{\"owner\":\"a\",\"owner\":\"a\"}");
    char text[2 * WEIR_LOCK_OWNER_MAX];
    for (int size = WEIR_LOCK_OWNER_MAX; size <= WEIR_LOCK_OWNER_MAX + 1; size++) {
        snprintf(text, sizeof(text), "{\"owner\":\"%0*d\"}", size, 7);
        assert_int_equal(parse(WEIR_LOCK_CALL_RELEASE, text), size <= WEIR_LOCK_OWNER_MAX ? 0 : WEIR_ERANGE);
        if (size <= WEIR_LOCK_OWNER_MAX)
            weir_lock_question_deinit(&question);
    }
}

static void any_bytes__are_read_or_refused(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    static const char seeds[] = "{\"owner\":\"ada\",\"ttl_ms\":2000,\"wait_ms\":5,\"seen\":9}";
    for (int i = 0; i < 20000; i++) {
        char text[sizeof(seeds)];
        memcpy(text, seeds, sizeof(seeds));
        for (uint64_t changes = test_random_below(&random, 4); changes > 0; changes--)
            text[test_random_below(&random, sizeof(text) - 1)] = (char)test_random_u64(&random);
        struct weir_fault fault = { "", "" };
        size_t size = test_random_below(&random, sizeof(text));
        if (weir_lock_question_parse((enum weir_lock_call)(test_random_below(&random, 5)), text, size, &question,
                                     &fault) == 0)
            weir_lock_question_deinit(&question);
        else
            assert_true(fault.field[0] && fault.text[0]);
        (void)weir_lock_path_read((struct weir_slice){ text, size }, i % 2, &path, &fault);
    }
}

/* ---- what is answered ---- */

static char room[WEIR_LOCK_JSON_MAX + 6 * (WEIR_LOCK_NAME_MAX + WEIR_LOCK_OWNER_MAX) + 1];

static struct weir_text begin(void)
{
    return weir_text_init(room, sizeof(room) - 1);
}

static void assert_text(const struct weir_text *text, const char *expected)
{
    assert_false(text->overflow);
    room[text->size] = '\0';
    assert_string_equal(room, expected);
    json_error_t error;
    json_t *json = json_loadb(room, text->size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    assert_non_null(json);
    json_decref(json);
}

static void answers__are_exact(void **state)
{
    (void)state;
    struct weir_text text = begin();
    weir_lock_json_granted(&text, (struct weir_token){ UINT64_C(1) << 62, 9007199254740993 }, 14999);
    assert_text(&text, "{\"granted\":true,\"incarnation\":4611686018427387904,\"token\":9007199254740993,"
                       "\"fence\":\"4611686018427387904.9007199254740993\",\"lease_ms\":14999}");
    text = begin();
    weir_lock_json_held(&text, (struct weir_slice){ "b\"ob", 4 }, 20);
    assert_text(&text, "{\"type\":\"about:blank\",\"title\":\"Conflict\",\"status\":409,\"detail\":\"held by another\","
                       "\"granted\":false,\"holder\":\"b\\\"ob\",\"remaining_ms\":20}");
    text = begin();
    weir_lock_json_held(&text, (struct weir_slice){ "", 0 }, 0);
    assert_text(&text, "{\"type\":\"about:blank\",\"title\":\"Conflict\",\"status\":409,\"detail\":\"held by another\","
                       "\"granted\":false,\"remaining_ms\":0}");
    text = begin();
    weir_lock_json_released(&text, true);
    assert_text(&text, "{\"released\":true}");
    text = begin();
    weir_lock_json_raised(&text, 12);
    assert_text(&text, "{\"incarnation\":12}");
    text = begin();
    weir_lock_json_unknown(&text, "why");
    assert_text(&text, "{\"type\":\"about:blank\",\"title\":\"Gateway Timeout\",\"status\":504,\"detail\":\"why\","
                       "\"unknown\":true}");
}

static void what_is_no_text__is_shown_as_base64(void **state)
{
    (void)state;
    struct weir_text text = begin();
    struct weir_lock_shown shown = { .name = { "\xff", 1 },
                                     .held = true,
                                     .holder = { "\xf0\x9f\x98", 3 },
                                     .token = { 3, 4 },
                                     .lease_ms = 5,
                                     .waiters = 6 };
    weir_lock_json_shown(&text, &shown);
    assert_text(&text, "{\"name_base64\":\"/w==\",\"held\":true,\"holder_base64\":\"8J+Y\",\"incarnation\":3,"
                       "\"token\":4,\"fence\":\"3.4\",\"lease_ms\":5,\"waiters\":6}");
    text = begin();
    weir_lock_json_shown(&text, &(struct weir_lock_shown){ .name = { "a", 1 }, .waiters = 1 });
    assert_text(&text, "{\"name\":\"a\",\"held\":false,\"waiters\":1}");
}

static void any_name_and_holder__fit(void **state)
{
    (void)state;
    static uint8_t name[WEIR_LOCK_NAME_MAX], holder[WEIR_LOCK_OWNER_MAX];
    for (int byte = 0; byte < 256; byte++) {
        memset(name, byte, sizeof(name));
        memset(holder, byte, sizeof(holder));
        struct weir_text text = begin();
        weir_lock_json_shown(&text, &(struct weir_lock_shown){ .name = { name, sizeof(name) },
                                                               .held = true,
                                                               .holder = { holder, sizeof(holder) },
                                                               .token = { UINT64_MAX, UINT64_MAX },
                                                               .lease_ms = UINT64_MAX,
                                                               .waiters = SIZE_MAX });
        assert_false(text.overflow);
        text = begin();
        weir_lock_json_held(&text, (struct weir_slice){ holder, sizeof(holder) }, UINT64_MAX);
        assert_false(text.overflow);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path__says_which_lock_and_what),
        cmocka_unit_test(a_name__is_any_bytes),
        cmocka_unit_test(no_path__is_told_from_a_bad_name),
        cmocka_unit_test(an_acquire__and_its_defaults),
        cmocka_unit_test(the_others__take_what_they_need),
        cmocka_unit_test(a_binary_owner__is_base64),
        cmocka_unit_test(what_is_out_of_range__is_named_with_its_range),
        cmocka_unit_test(any_bytes__are_read_or_refused),
        cmocka_unit_test(answers__are_exact),
        cmocka_unit_test(what_is_no_text__is_shown_as_base64),
        cmocka_unit_test(any_name_and_holder__fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
