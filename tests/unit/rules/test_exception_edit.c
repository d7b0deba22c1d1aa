/* SPDX-License-Identifier: Apache-2.0
 *
 * Bans as people make them: until when, of a key of which version, and what is said where the store does not say what
 * became of one. */
#include "rule_store_fixture.h"
#include "rules/exception_edit.h"

#define WALL_NS (UINT64_C(1800000000) * SECOND)

static const char with_api[] = "limits:\n  - { name: api, rate: 1/s, key: [user] }\n";
static const char of_others[] = "nodes: [ other ]\nlimits: []\n";

/* The store, but for what it answers to changes of exceptions: one answer after the other, then it is asked. */
static int answers[8];
static size_t answers_count, asked;
static const struct weir_rule_store_ops *real;

static int except(struct weir_rule_store *store, const struct weir_exception_change *change, const uint8_t *digest,
                  uint64_t deadline_ns, uint64_t *ret_number, struct weir_fault *ret_fault)
{
    const size_t at = asked++;
    return at < answers_count ? answers[at] : real->except(store, change, digest, deadline_ns, ret_number, ret_fault);
}

static struct weir_config *config_of_store(void)
{
    char text[160];
    struct weir_config *config;
    struct weir_config_fault fault;
    (void)snprintf(text, sizeof text, "rules: { store: \"%s\" }\n", store_spec);
    assert_int_equal(weir_config_parse(text, strlen(text), &config, &fault), 0);
    return config;
}

static int put(struct weir_rule_store *store, enum weir_exception_kind kind, const char *limit, struct weir_slice user,
               uint64_t *ret_number)
{
    struct weir_config *config = config_of_store();
    const struct weir_rule_editor editor = { .store = store, .config = config, .timeout_ns = 60 * SECOND };
    const struct weir_exception_named named = { .limit = limit, .attributes = { { { "user", 4 }, user } }, .count = 1 };
    const struct weir_exception_edit edit = {
        .kind = kind, .named = &named, .wall_ns = WALL_NS, .author = "ann", .comment = "too fast"
    };
    struct weir_fault fault = { 0 };
    int error = weir_exception_put(&editor, &edit, ret_number, &fault);
    weir_config_destroy(config);
    return error;
}

static int ban(struct weir_rule_store *store, const char *limit, uint64_t *ret_number)
{
    return put(store, WEIR_EXCEPTION_BAN, limit, (struct weir_slice){ "ada", 3 }, ret_number);
}

static void an_end_is_in_the_future(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t from_now_ns;
        int error;
    } cases[] = {
        { "2027-01-15T08:00:00Z", 0, WEIR_ERANGE },
        { "2027-01-15T08:00:01Z", SECOND, 0 },
        { "2027-01-15T09:00:01+01:00", SECOND, 0 },
        { "2027-01-15T07:59:59Z", 0, WEIR_ERANGE },
        { "1s", SECOND, 0 },
        { "0s", 0, WEIR_ERANGE },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_fault fault = { 0 };
        uint64_t until_ns = 0;
        assert_int_equal(weir_exception_until(cases[i].text, WALL_NS, &until_ns, &fault), cases[i].error);
        if (cases[i].error)
            assert_string_equal(fault.field, "until");
        else
            assert_true(until_ns == WALL_NS + (uint64_t)cases[i].from_now_ns);
    }
}

/* The versions since are for other nodes: the limit stands in the first one. */
static void the_first_version_is_looked_at_too(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    uint64_t number = 0;
    append_text(store, 0, with_api);
    append_text(store, 1, of_others);
    assert_int_equal(ban(store, "api", &number), 0);
    assert_int_equal(number, 1);
    append_text(store, 2, of_others);
    assert_int_equal(ban(store, "api", &number), 0);
    assert_int_equal(ban(store, "none", &number), WEIR_ENOENT);
    weir_rule_store_close(store);
}

/* One that is there, of before this was asked, is ended all the same. */
static void a_key_is_one_that_a_request_may_have(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    static char value[WEIR_KEY_BYTES_MAX + 1], key[WEIR_EXCEPTION_KEY_MAX];
    const struct weir_slice longest = { value, WEIR_KEY_BYTES_MAX }, longer = { value, WEIR_KEY_BYTES_MAX + 1 };
    uint64_t number = 0;
    size_t size = 0;
    memset(value, 'x', sizeof value);
    append_text(store, 0, with_api);
    assert_int_equal(put(store, WEIR_EXCEPTION_BAN, "api", longest, &number), 0);
    assert_int_equal(put(store, WEIR_EXCEPTION_BAN, "api", longer, &number), WEIR_ERANGE);
    assert_int_equal(put(store, WEIR_EXCEPTION_RESET, "api", longer, &number), WEIR_ERANGE);
    assert_int_equal(number, 1);
    assert_true(weir_exception_key_add(key, sizeof key, &size, (struct weir_slice){ "user", 4 }));
    assert_true(weir_exception_key_add(key, sizeof key, &size, longer));
    const struct weir_exception_change before = { .change = { 1 },
                                                  .kind = WEIR_EXCEPTION_BAN,
                                                  .limit = "api",
                                                  .key = { key, size },
                                                  .wall_ns = WALL_NS,
                                                  .author = "ann",
                                                  .comment = "too fast" };
    struct weir_fault fault;
    assert_int_equal(weir_rule_store_except(store, &before, weir_rule_now_ns() + 60 * SECOND, &number, &fault), 0);
    assert_int_equal(put(store, WEIR_EXCEPTION_UNBAN, "api", longer, &number), 0);
    assert_int_equal(number, 3);
    weir_rule_store_close(store);
}

/* A key of requests that lack an attribute is only reset, and only where the limit counts them. */
static void a_key_may_lack_an_attribute(void **state)
{
    (void)state;
    static const struct weir_slice lacks = { NULL, WEIR_VALUE_ABSENT }, looks = { "!user", 5 };
    struct weir_rule_store *store = store_open();
    char room[WEIR_EXCEPTION_ABSENT_MAX];
    struct weir_slice name = { "", 0 };
    uint64_t number = 0;
    append_text(store, 0,
                "limits:\n  - { name: api, rate: 1/s, key: [user] }\n"
                "  - { name: all, rate: 1/s, key: [user], missing: share }\n"
                "  - { name: none, rate: 1/s, key: [user], missing: refuse }\n");
    assert_int_equal(put(store, WEIR_EXCEPTION_RESET, "api", lacks, &number), WEIR_EINVAL);
    assert_int_equal(put(store, WEIR_EXCEPTION_RESET, "none", lacks, &number), WEIR_EINVAL);
    assert_int_equal(put(store, WEIR_EXCEPTION_BAN, "all", lacks, &number), WEIR_EINVAL);
    assert_int_equal(put(store, WEIR_EXCEPTION_UNBAN, "all", lacks, &number), WEIR_EINVAL);
    assert_int_equal(put(store, WEIR_EXCEPTION_RESET, "all", lacks, &number), 0);
    assert_int_equal(number, 1);
    assert_int_equal(put(store, WEIR_EXCEPTION_BAN, "all", looks, &number), 0);
    weir_rule_store_close(store);

    assert_true(weir_exception_is_absent((struct weir_slice){ "", 0 },
                                         weir_exception_absent((struct weir_slice){ "reset", 5 }, room), &name));
    assert_true(name.size == 5 && memcmp(name.data, "reset", 5) == 0);
    assert_false(weir_exception_is_absent((struct weir_slice){ "user", 4 }, looks, &name));
    assert_false(weir_exception_is_absent((struct weir_slice){ "", 0 }, (struct weir_slice){ "reset", 5 }, &name));
    assert_false(weir_exception_is_absent((struct weir_slice){ "", 0 }, (struct weir_slice){ "!", 1 }, &name));
    static const char longest[WEIR_ATTRIBUTE_NAME_MAX + 1];
    assert_int_equal(weir_exception_absent((struct weir_slice){ longest, sizeof longest }, room).size, sizeof room);
}

/* Once nobody knows whether it was stored, a store that cannot be asked does not make it known. */
static void what_is_not_known_is_told_so(void **state)
{
    (void)state;
    static const struct {
        int answers[3];
        size_t count, asked;
        int error;
    } cases[] = {
        { { 0 }, 0, 1, 0 },
        { { WEIR_EDOWN }, 1, 1, WEIR_EDOWN },
        { { WEIR_EUNKNOWN }, 1, 2, 0 },
        { { WEIR_EUNKNOWN, WEIR_EDOWN }, 2, 3, 0 },
        { { WEIR_EUNKNOWN, WEIR_EDOWN, WEIR_EDOWN }, 3, 3, WEIR_EUNKNOWN },
        { { WEIR_EUNKNOWN, WEIR_EUNKNOWN, WEIR_EUNKNOWN }, 3, 3, WEIR_EUNKNOWN },
    };
    struct weir_rule_store *store = store_open();
    append_text(store, 0, with_api);
    real = store->ops;
    struct weir_rule_store_ops ops = *real;
    ops.except = except;
    store->ops = &ops;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t number = 0;
        memcpy(answers, cases[i].answers, sizeof cases[i].answers);
        answers_count = cases[i].count;
        asked = 0;
        assert_int_equal(ban(store, "api", &number), cases[i].error);
        assert_int_equal(asked, cases[i].asked);
        assert_int_equal(number > 0, cases[i].error == 0);
    }
    store->ops = real;
    weir_rule_store_close(store);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, make_store_folder, remove_store_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_is_in_the_future), T(the_first_version_is_looked_at_too),
        T(a_key_is_one_that_a_request_may_have),   T(a_key_may_lack_an_attribute),
        T(what_is_not_known_is_told_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
