/* SPDX-License-Identifier: Apache-2.0
 *
 * The store of rule sets in SQLite: what a version is, what is refused, whose file it is, two that have it open. */
#include <pthread.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include "rule_store_fixture.h"

/* ---- versions ---- */

struct listed {
    struct weir_rule_version list[16];
    size_t count, max;
};

static bool take_version(void *context, const struct weir_rule_version *version)
{
    struct listed *listed = context;
    listed->list[listed->count++] = *version;
    return listed->count < listed->max;
}

static struct listed list_of(struct weir_rule_store *store, uint64_t from, size_t count_max, size_t stop_at)
{
    struct listed listed = { .max = stop_at };
    struct weir_fault fault;
    assert_int_equal(weir_rule_store_list(store, from, count_max, soon(), take_version, &listed, &fault), 0);
    return listed;
}

static void a_version_is_what_was_given(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    struct weir_rule_version version;
    struct weir_fault fault;
    char *text;
    struct weir_rule_head head = head_of(store);
    uint8_t none[32] = { 0 };
    assert_int_equal(head.number, 0);
    assert_memory_equal(head.checksum, none, 32);
    static const char bytes[] = "limits:\n\0\xff\x80 any bytes";
    struct weir_rule_change change = change_of(0, "");
    change.text = (struct weir_slice){ bytes, sizeof bytes - 1 };
    change.author = "J\xc3\xbcrg";
    change.comment = "why not";
    change.kind = WEIR_RULE_IMPORT;
    struct weir_rule_appended appended = append(store, &change);
    assert_int_equal(appended.said, WEIR_RULE_APPENDED);
    assert_false(appended.again);
    assert_int_equal(weir_rule_store_read(store, 1, soon(), &version, &text, &fault), 0);
    assert_int_equal(version.number, 1);
    assert_int_equal(version.kind, WEIR_RULE_IMPORT);
    assert_int_equal(version.of, 0);
    assert_int_equal(version.wall_ns, 1000);
    assert_string_equal(version.author, "J\xc3\xbcrg");
    assert_string_equal(version.comment, "why not");
    assert_memory_equal(version.change, change.change, sizeof change.change);
    assert_int_equal(version.text_size, sizeof bytes - 1);
    assert_memory_equal(text, bytes, sizeof bytes);
    uint8_t checksum[32];
    assert_int_equal(weir_rule_checksum(change.text, checksum), 0);
    assert_memory_equal(version.checksum, checksum, 32);
    head = head_of(store);
    assert_memory_equal(head.checksum, checksum, 32);
    assert_true(weir_rule_head_same(&head, &appended.head));
    free(text);
    weir_rule_store_close(store);
}

static void the_checksum_is_sha_256(void **state)
{
    (void)state;
    static const uint8_t abc[] = { 0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                   0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                   0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad }; /* FIPS 180-2, B.1 */
    uint8_t checksum[32];
    assert_int_equal(weir_rule_checksum((struct weir_slice){ "abc", 3 }, checksum), 0);
    assert_memory_equal(checksum, abc, 32);
}

static void who_is_late_changes_nothing(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    append_text(store, 0, "one");
    append_text(store, 1, "two");
    struct weir_rule_change change = change_of(1, "other");
    struct weir_rule_appended appended = append(store, &change);
    assert_int_equal(appended.said, WEIR_RULE_CONFLICT);
    assert_int_equal(appended.head.number, 2);
    struct weir_rule_head head = head_of(store);
    assert_true(weir_rule_head_same(&head, &appended.head));
    change.expected = 7; /* nor who is early */
    appended = append(store, &change);
    assert_int_equal(appended.said, WEIR_RULE_CONFLICT);
    assert_int_equal(list_of(store, 0, 10, 16).count, 2);
    weir_rule_store_close(store);
}

static void the_same_id_again_is_the_same_version(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    struct weir_rule_appended appended;
    struct weir_fault fault;
    struct weir_rule_change change = change_of(0, "one");
    assert_int_equal(append(store, &change).number, 1);
    append_text(store, 1, "two");
    change.wall_ns += 5; /* who asks again has looked at the clock again */
    appended = append(store, &change);
    assert_int_equal(appended.said, WEIR_RULE_APPENDED);
    assert_true(appended.again);
    assert_int_equal(appended.number, 1);
    assert_int_equal(appended.head.number, 2);
    struct weir_rule_change other = change;
    other.text = (struct weir_slice){ "eins", 4 };
    assert_int_equal(weir_rule_store_append(store, &other, soon(), &appended, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "change");
    other = change;
    other.comment = "because of another";
    assert_int_equal(weir_rule_store_append(store, &other, soon(), &appended, &fault), WEIR_EINVAL);
    other = change;
    other.author = "bob";
    assert_int_equal(weir_rule_store_append(store, &other, soon(), &appended, &fault), WEIR_EINVAL);
    other = change;
    other.expected = 2;
    assert_int_equal(weir_rule_store_append(store, &other, soon(), &appended, &fault), WEIR_EINVAL);
    assert_int_equal(head_of(store).number, 2);
    weir_rule_store_close(store);
}

static void a_rollback_has_the_text_of_what_it_brings_back(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    struct weir_rule_version version, first;
    struct weir_fault fault;
    char *text, *before;
    append_text(store, 0, "one");
    append_text(store, 1, "two");
    struct weir_rule_change back = rollback_of(2, 1);
    assert_int_equal(append(store, &back).number, 3);
    assert_true(append(store, &back).again);
    assert_int_equal(weir_rule_store_read(store, 1, soon(), &first, &before, &fault), 0);
    assert_int_equal(weir_rule_store_read(store, 3, soon(), &version, &text, &fault), 0);
    assert_int_equal(version.kind, WEIR_RULE_ROLLBACK);
    assert_int_equal(version.of, 1);
    assert_string_equal(text, before);
    assert_memory_equal(version.checksum, first.checksum, 32);
    free(text);
    free(before);
    weir_rule_store_close(store);
}

static void lists_go_from_the_newest_downwards(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    assert_int_equal(list_of(store, 0, 10, 16).count, 0);
    for (uint64_t i = 0; i < 7; i++)
        append_text(store, i, "text");
    struct listed listed = list_of(store, 0, 3, 16);
    assert_int_equal(listed.count, 3);
    assert_int_equal(listed.list[0].number, 7);
    assert_int_equal(listed.list[2].number, 5);
    assert_int_equal(listed.list[2].text_size, 4);
    listed = list_of(store, 4, 10, 16);
    assert_int_equal(listed.count, 4);
    assert_int_equal(listed.list[0].number, 4);
    assert_int_equal(listed.list[3].number, 1);
    assert_int_equal(list_of(store, UINT64_MAX, 10, 2).count, 2); /* its taker had enough */
    weir_rule_store_close(store);
}

static void what_is_not_there_is_told(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    struct weir_rule_version version;
    struct weir_rule_appended appended;
    struct weir_fault fault;
    char *text;
    append_text(store, 0, "one");
    const uint64_t numbers[] = { 0, 2, WEIR_RULE_VERSIONS_MAX, UINT64_MAX };
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(weir_rule_store_read(store, numbers[i], soon(), &version, &text, &fault), WEIR_ENOENT);
        assert_string_equal(fault.field, "version");
    }
    assert_int_equal(weir_rule_store_list(store, 0, 0, soon(), take_version, NULL, &fault), WEIR_ERANGE);
    assert_int_equal(weir_rule_store_list(store, 0, 1001, soon(), take_version, NULL, &fault), WEIR_ERANGE);
    struct weir_rule_change change = change_of(1, "x");
    assert_int_equal(weir_rule_store_append(store, &change, 1, &appended, &fault), WEIR_EDOWN);
    assert_string_equal(fault.field, "deadline");
    assert_int_equal(head_of(store).number, 1);
    weir_rule_store_close(store);
}

/* ---- bounds ---- */

static int check_error(const struct weir_rule_change *change, const char *field)
{
    struct weir_fault fault = { 0 };
    int error = weir_rule_change_check(change, &fault);
    assert_string_equal(fault.field, error ? field : "");
    return error;
}

static void every_bound_is_named(void **state)
{
    (void)state;
    static char author[WEIR_RULE_AUTHOR_MAX + 2], comment[WEIR_RULE_COMMENT_MAX + 2];
    memset(author, 'a', sizeof author - 1);
    memset(comment, 'c', sizeof comment - 1);
    struct weir_rule_change good = change_of(0, "x"), change;
    change = good, change.author = author;
    assert_int_equal(check_error(&change, "author"), WEIR_ERANGE);
    author[WEIR_RULE_AUTHOR_MAX] = '\0';
    assert_int_equal(check_error(&change, "author"), 0);
    change = good, change.comment = comment;
    assert_int_equal(check_error(&change, "comment"), WEIR_ERANGE);
    comment[WEIR_RULE_COMMENT_MAX] = '\0';
    assert_int_equal(check_error(&change, "comment"), 0);
    change.comment = "";
    assert_int_equal(check_error(&change, "comment"), WEIR_ERANGE);
    change.comment = NULL;
    assert_int_equal(check_error(&change, "comment"), WEIR_ERANGE);
    change = good, change.text.size = 0;
    assert_int_equal(check_error(&change, "text"), WEIR_ERANGE);
    change.text.size = WEIR_RULE_TEXT_MAX;
    assert_int_equal(check_error(&change, "text"), 0);
    change.text.size++;
    assert_int_equal(check_error(&change, "text"), WEIR_ERANGE);
    change = good, change.kind = (enum weir_rule_kind)6;
    assert_int_equal(check_error(&change, "kind"), WEIR_EINVAL);
    change = good, change.of = 1;
    assert_int_equal(check_error(&change, "of"), WEIR_EINVAL);
    change = good, change.wall_ns = UINT64_C(1) << 63;
    assert_int_equal(check_error(&change, "wall_ns"), WEIR_ERANGE);
    change = good, change.expected = WEIR_RULE_VERSIONS_MAX + 1;
    assert_int_equal(check_error(&change, "expected"), WEIR_ERANGE);
    change = good, memset(change.change, 0, sizeof change.change);
    assert_int_equal(check_error(&change, "change"), WEIR_EINVAL);
    change = rollback_of(3, 0);
    assert_int_equal(check_error(&change, "of"), WEIR_ERANGE);
    change.of = 4;
    assert_int_equal(check_error(&change, "of"), WEIR_ERANGE);
    change.of = 3, change.text.size = 1;
    assert_int_equal(check_error(&change, "text"), WEIR_EINVAL);
}

/* Each would break a line of a log, or draw one that is none. */
static void no_text_breaks_a_line(void **state)
{
    (void)state;
    static const char *const bad[] = { "a\nb",     "a\rb",         "\tb",          "\x1b[31m",     "a\x7f",
                                       "\xc2\x85", "\xc2\x9b",     "\xe2\x80\xa8", "\xe2\x80\xa9", "\xff",
                                       "\xc3",     "\xed\xa0\x80", "\xc0\xaf",     "a\x01" };
    static const char *const good[] = {
        "a b", "\xc2\xa0", "\xe2\x80\xa7", "\xe2\x82\xac", "\xf0\x9f\x90\x9f", "'--\""
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct weir_rule_change change = change_of(0, "x");
        change.author = bad[i];
        assert_int_equal(check_error(&change, "author"), WEIR_EINVAL);
        change = change_of(0, "x");
        change.comment = bad[i];
        assert_int_equal(check_error(&change, "comment"), WEIR_EINVAL);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct weir_rule_change change = change_of(0, "x");
        change.author = change.comment = good[i];
        assert_int_equal(check_error(&change, ""), 0);
    }
}

static void the_largest_text_is_kept(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    struct weir_rule_version version;
    struct weir_fault fault;
    char *large = malloc(WEIR_RULE_TEXT_MAX), *text;
    for (size_t i = 0; i < WEIR_RULE_TEXT_MAX; i++)
        large[i] = (char)(i * 31 + i / 251);
    struct weir_rule_change change = change_of(0, "");
    change.text = (struct weir_slice){ large, WEIR_RULE_TEXT_MAX };
    assert_int_equal(append(store, &change).number, 1);
    assert_int_equal(weir_rule_store_read(store, 1, soon(), &version, &text, &fault), 0);
    assert_memory_equal(text, large, WEIR_RULE_TEXT_MAX);
    free(text);
    free(large);
    weir_rule_store_close(store);
}

static void specs_are_judged(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "rules.db", "sqlite", "SQLITE:x", "mysql://x", "postgresql:x" };
    struct weir_rule_store *store;
    struct weir_fault fault;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(weir_rule_store_open(&(struct weir_rule_store_options){ .spec = bad[i] }, &store, &fault),
                         WEIR_EINVAL);
        assert_string_equal(fault.field, "spec");
    }
    assert_int_equal(weir_rule_store_open(&(struct weir_rule_store_options){ 0 }, &store, &fault), WEIR_EINVAL);
    assert_int_equal(weir_rule_store_open(&(struct weir_rule_store_options){ .spec = "sqlite:" }, &store, &fault),
                     WEIR_ERANGE);
    assert_int_equal(
        weir_rule_store_open(&(struct weir_rule_store_options){ .spec = "sqlite:x", .poll_ns = 1 }, &store, &fault),
        WEIR_ERANGE);
    assert_string_equal(fault.field, "poll_ns");
    weir_rule_store_close(NULL);
}

/* ---- notes ---- */

struct heard {
    struct weir_rule_told list[256];
    size_t count;
};

static bool take_told(void *context, const struct weir_rule_told *told)
{
    struct heard *heard = context;
    heard->list[heard->count++] = *told;
    return heard->count < 256;
}

static struct heard told_of(struct weir_rule_store *store, bool newest_only)
{
    struct heard heard = { .count = 0 };
    struct weir_fault fault;
    assert_int_equal(weir_rule_store_told(store, newest_only, soon(), take_told, &heard, &fault), 0);
    return heard;
}

static void tell(struct weir_rule_store *store, const char *node, uint64_t version, uint64_t since_ns)
{
    struct weir_rule_told told = { .version = version, .since_ns = since_ns };
    struct weir_fault fault;
    (void)snprintf(told.node, sizeof told.node, "%s", node);
    assert_int_equal(weir_rule_store_tell(store, &told, soon(), &fault), 0);
}

static void what_nodes_tell_is_kept_in_its_order(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    tell(store, "b", 1, 100);
    tell(store, "a", 1, 90);
    tell(store, "a", 2, 80); /* its clock was set back */
    tell(store, "a", 2, 80); /* and nobody answered */
    tell(store, "a", 1, 70); /* rolled back */
    struct heard heard = told_of(store, false);
    assert_int_equal(heard.count, 4);
    assert_string_equal(heard.list[0].node, "a");
    assert_int_equal(heard.list[0].since_ns, 70);
    assert_int_equal(heard.list[1].version, 2);
    assert_int_equal(heard.list[2].since_ns, 90);
    assert_string_equal(heard.list[3].node, "b");
    heard = told_of(store, true);
    assert_int_equal(heard.count, 2);
    assert_int_equal(heard.list[0].since_ns, 70);
    weir_rule_store_close(store);
}

static void notes_have_a_bound(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    for (uint64_t i = 1; i <= WEIR_RULE_TOLD_MAX + 5; i++)
        tell(store, "a", i, i);
    tell(store, "b", 1, 1);
    struct heard heard = told_of(store, false);
    assert_int_equal(heard.count, WEIR_RULE_TOLD_MAX + 1);
    assert_int_equal(heard.list[0].version, WEIR_RULE_TOLD_MAX + 5);
    assert_int_equal(heard.list[WEIR_RULE_TOLD_MAX - 1].version, 6);
    weir_rule_store_close(store);
}

static void the_node_heard_of_longest_ago_is_forgotten(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    sqlite3 *db;
    (void)head_of(store);
    assert_int_equal(sqlite3_open(store_path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1024) "
                                  "INSERT INTO told (node, version, since_ns) SELECT 'n' || i, 1, 1 FROM n",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    tell(store, "n1", 2, 2);
    tell(store, "new", 2, 2);
    struct heard heard = told_of(store, true);
    assert_int_equal(heard.count, 256); /* as many as the test takes */
    assert_string_equal(heard.list[0].node, "n1");
    for (size_t i = 0; i < heard.count; i++)
        assert_string_not_equal(heard.list[i].node, "n2");
    weir_rule_store_close(store);
}

static void notes_are_judged(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    struct weir_fault fault;
    static const char *const bad[] = { "", "a b", "a/b", "\xc3\xbc", "a\n" };
    struct weir_rule_told told = { .version = 1 };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(told.node, sizeof told.node, "%s", bad[i]);
        assert_int_equal(weir_rule_store_tell(store, &told, soon(), &fault), WEIR_EINVAL);
        assert_string_equal(fault.field, "node");
    }
    memset(told.node, 'n', sizeof told.node); /* without an end */
    assert_int_equal(weir_rule_store_tell(store, &told, soon(), &fault), WEIR_EINVAL);
    told.node[WEIR_RULE_NODE_MAX] = '\0';
    told.version = 0;
    assert_int_equal(weir_rule_store_tell(store, &told, soon(), &fault), WEIR_ERANGE);
    told.version = 1, told.since_ns = UINT64_C(1) << 63;
    assert_int_equal(weir_rule_store_tell(store, &told, soon(), &fault), WEIR_ERANGE);
    weir_rule_store_close(store);
}

/* ---- waiting ---- */

static void *append_second(void *context)
{
    append_text(context, 1, "two");
    return NULL;
}

/* How often it is time to look until the head is another one. */
static unsigned looks_until(struct weir_rule_store *store, uint64_t number, uint64_t until_ns)
{
    struct weir_rule_head head = { 0 };
    struct weir_fault fault;
    unsigned looks = 0;
    while (head.number != number && weir_rule_now_ns() < until_ns) {
        if (!weir_rule_store_wait(store, weir_rule_now_ns() + SECOND / 1000))
            continue;
        looks++;
        assert_int_equal(weir_rule_store_head(store, soon(), &head, &fault), 0);
    }
    return looks;
}

static void who_waits_in_slices_looks_as_often_as_was_asked_for(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open(), *other = store_open();
    pthread_t thread;
    append_text(store, 0, "one");
    assert_int_equal(looks_until(store, 1, soon()), 1); /* at once: nobody has looked */
    store->poll_ns = SECOND / 5;
    assert_in_range(looks_until(store, 2, weir_rule_now_ns() + SECOND), 0, 6);
    pthread_create(&thread, NULL, append_second, other);
    assert_in_range(looks_until(store, 2, soon()), 1, UINT_MAX);
    pthread_join(thread, NULL);
    weir_rule_store_close(store);
    weir_rule_store_close(other);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, make_store_folder, remove_store_folder)
    const struct CMUnitTest tests[] = {
        T(a_version_is_what_was_given),
        T(the_checksum_is_sha_256),
        T(who_is_late_changes_nothing),
        T(the_same_id_again_is_the_same_version),
        T(a_rollback_has_the_text_of_what_it_brings_back),
        T(lists_go_from_the_newest_downwards),
        T(what_is_not_there_is_told),
        T(every_bound_is_named),
        T(no_text_breaks_a_line),
        T(the_largest_text_is_kept),
        T(specs_are_judged),
        T(what_nodes_tell_is_kept_in_its_order),
        T(notes_have_a_bound),
        T(the_node_heard_of_longest_ago_is_forgotten),
        T(notes_are_judged),
        T(who_waits_in_slices_looks_as_often_as_was_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
