/* SPDX-License-Identifier: Apache-2.0
 *
 * The section `sessions:`: what it becomes, and what is wrong with it where. */
#include <unistd.h>

#include "config_bad.h"

#define ONE "servers: [{name: a, url: host=a}]"
#define KEY "0123456789abcdef0123456789abcdef"

/* A file with a first line, removed at the end of the test. */
struct file {
    char path[32];
};

static struct file file_of(const char *text)
{
    struct file file = { "/tmp/weir-config-XXXXXX" };
    int fd = mkstemp(file.path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return file;
}

static struct weir_config *parsed(const char *text)
{
    struct weir_config *config = NULL;
    struct weir_config_fault fault;
    int error = weir_config_parse(text, strlen(text), &config, &fault);
    if (error)
        fail_msg("%s\n%u:%u: %s", text, fault.mark.line, fault.mark.column, fault.text);
    return config;
}

static void assert_bytes(struct weir_slice slice, const char *text)
{
    assert_int_equal(slice.size, strlen(text));
    assert_memory_equal(slice.data, text, slice.size + 1); /* libpq takes it as a string */
}

static void without_a_section__there_are_no_sessions(void **state)
{
    (void)state;
    struct weir_config *config = parsed("limits: []\n");
    assert_int_equal(config->sessions.servers_count, 0);
    weir_config_destroy(config);
}

static void servers_alone__have_defaults(void **state)
{
    (void)state;
    struct weir_config *config = parsed("sessions: { " ONE " }\n");
    const struct weir_config_sessions *sessions = &config->sessions;
    assert_int_equal(sessions->servers_count, 1);
    assert_string_equal(sessions->servers[0].name, "a");
    assert_bytes(sessions->servers[0].url, "host=a");
    assert_int_equal(sessions->users.size, 0);
    assert_int_equal(sessions->keys_count, 0);
    assert_int_equal(sessions->users_max, 1000000);
    assert_int_equal(sessions->poll_ns, 50 * WEIR_NS_PER_SECOND / 1000);
    assert_int_equal(sessions->freeze_ns, WEIR_NS_PER_SECOND);
    assert_int_equal(sessions->timeout_ns, WEIR_NS_PER_SECOND);
    assert_int_equal(sessions->window_ns, WEIR_NS_PER_SECOND);
    assert_int_equal(sessions->ttl_ns, 86400 * WEIR_NS_PER_SECOND);
    assert_int_equal(sessions->waiters_max, 4096);
    assert_null(sessions->branch_table);
    weir_config_destroy(config);
}

static void everything_said__is_kept(void **state)
{
    (void)state;
    char text[1024];
    struct file url = file_of("postgresql://weir:secret@b/shop\nand more\n"), key = file_of(KEY "\n"),
                old = file_of("sixteen bytes ok");
    snprintf(text, sizeof(text),
             "sessions:\n"
             "  servers:\n"
             "    - { name: a, url: \"host=a password='it''s'\" }\n"
             "    - { name: B-2_x.y, url_file: %s }\n"
             "  users: redis://:pw@r/0\n"
             "  ttl: 9s\n"
             "  keys: [{ id: 7, file: %s }, { id: 0, file: %s }]\n"
             "  poll: 20ms\n  freeze: 300ms\n  timeout: 250ms\n  window: 5s\n  waiters_max: 9\n"
             "  branch_table: weir.branches\n",
             url.path, key.path, old.path);
    struct weir_config *config = parsed(text);
    const struct weir_config_sessions *sessions = &config->sessions;
    assert_int_equal(sessions->servers_count, 2);
    assert_bytes(sessions->servers[0].url, "host=a password='it''s'");
    assert_string_equal(sessions->servers[1].name, "B-2_x.y");
    assert_bytes(sessions->servers[1].url, "postgresql://weir:secret@b/shop");
    assert_bytes(sessions->users, "redis://:pw@r/0");
    assert_int_equal(sessions->ttl_ns, 9 * WEIR_NS_PER_SECOND);
    assert_int_equal(sessions->keys_count, 2);
    assert_int_equal(sessions->keys[0].id, 7);
    assert_bytes(sessions->keys[0].key, KEY);
    assert_int_equal(sessions->keys[1].id, 0);
    assert_bytes(sessions->keys[1].key, "sixteen bytes ok");
    assert_int_equal(sessions->poll_ns, 20000000);
    assert_int_equal(sessions->freeze_ns, 300000000);
    assert_int_equal(sessions->timeout_ns, 250000000);
    assert_int_equal(sessions->window_ns, 5 * WEIR_NS_PER_SECOND);
    assert_int_equal(sessions->waiters_max, 9);
    assert_string_equal(sessions->branch_table, "weir.branches");
    weir_config_destroy(config);
    unlink(url.path);
    unlink(key.path);
    unlink(old.path);
}

static void users__are_in_memory_where_it_says_so(void **state)
{
    (void)state;
    struct file file = file_of("postgres://b/weir\n");
    char text[200];
    struct weir_config *config = parsed("sessions: { " ONE ", users: memory, users_max: 5 }\n");
    assert_int_equal(config->sessions.users.size, 0);
    assert_int_equal(config->sessions.users_max, 5);
    weir_config_destroy(config);
    snprintf(text, sizeof(text), "sessions: { " ONE ", users_file: %s }\n", file.path);
    config = parsed(text);
    assert_bytes(config->sessions.users, "postgres://b/weir");
    weir_config_destroy(config);
    unlink(file.path);
}

#define S "sessions: { " ONE ", " /* goes on in column 48 */

static const struct bad bad_sessions[] = {
    { "sessions: 1", 1, 11, WEIR_EPROTO, "sessions must be a mapping, not text" },
    { "sessions: {}", 1, 11, WEIR_EPROTO, "sessions lacks the key \"servers\"" },
    { "sessions: { servers: a }", 1, 22, WEIR_EPROTO, "servers must be a list, not text" },
    { "sessions: { servers: [] }", 1, 22, WEIR_ELIMIT, "servers must be 1 to 64" },
    { "sessions: { servers: [a] }", 1, 23, WEIR_EPROTO, "a server must be a mapping" },
    { "sessions: { servers: [{url: x}] }", 1, 23, WEIR_EPROTO, "a server lacks the key \"name\"" },
    { "sessions: { servers: [{name: a}] }", 1, 23, WEIR_EPROTO, "must have url or url_file" },
    { "sessions: { servers: [{name: a, url: x, url_file: /dev/null}] }", 1, 51, WEIR_ERANGE, "1 to 512 bytes" },
    { "sessions: { servers: [{name: a, url: x, host: y}] }", 1, 41, WEIR_EPROTO, "unknown key \"host\" in a server" },
    { "sessions: { servers: [{name: \"a b\", url: x}] }", 1, 30, WEIR_EINVAL, "must be made of letters" },
    { "sessions: { servers: [{name: \"\", url: x}] }", 1, 30, WEIR_ERANGE, "name must be 1 to 63 bytes" },
    { "sessions: { servers: [{name: a, url: x}, {name: a, url: y}] }", 1, 42, WEIR_EEXIST, "\"a\" is taken" },
    { "sessions: { servers: [{name: a, url_file: /nowhere}] }", 1, 43, WEIR_EIO, "\"/nowhere\" cannot be read" },
    { "sessions: { servers: [{name: a, url: \"x\\ny\"}] }", 1, 38, WEIR_ERANGE, "without control characters" },
    { S "users: mysql://x:secret@y }", 1, 55, WEIR_EINVAL, "must be memory, redis://… or postgresql://…" },
    { S "users: \"redis://\" }", 1, 55, WEIR_EINVAL, "must be memory" },
    { S "users: memory, users_file: /dev/null }", 1, 75, WEIR_ERANGE, "1 to 512 bytes" },
    { S "users_max: 0 }", 1, 59, WEIR_ERANGE, "must be 1 to 100000000" },
    { S "users_max: 100000001 }", 1, 59, WEIR_ERANGE, "must be 1 to 100000000" },
    { S "users: redis://x, users_max: 5 }", 1, 66, WEIR_EINVAL, "users_max is for users: memory" },
    { S "ttl: 1hour }", 1, 48, WEIR_EINVAL, "ttl is for users in redis or postgresql" },
    { S "users: redis://x, ttl: 999ms }", 1, 71, WEIR_ERANGE, "must be 1s to 366day" },
    { S "keys: [] }", 1, 54, WEIR_ELIMIT, "keys must be 1 to 8" },
    { S "keys: [{id: 1}] }", 1, 55, WEIR_EPROTO, "a key lacks the key \"file\"" },
    { S "keys: [{id: 256, file: /dev/null}] }", 1, 60, WEIR_ERANGE, "must be 0 to 255" },
    { S "keys: [{id: 1, file: /dev/null}] }", 1, 69, WEIR_ERANGE, "1 to 512 bytes" },
    { S "keys: [{id: 1, file: /nowhere}] }", 1, 69, WEIR_EIO, "cannot be read" },
    { S "keys: [{id: 1, secret: abc}] }", 1, 63, WEIR_EPROTO, "unknown key \"secret\" in a key" },
    { S "poll: 9ms }", 1, 54, WEIR_ERANGE, "must be 10ms to 10s" },
    { S "poll: 10001ms }", 1, 54, WEIR_ERANGE, "must be 10ms to 10s" },
    { S "poll: 600ms }", 1, 11, WEIR_ERANGE, "freeze must be at least 2 times poll" },
    { S "freeze: 19ms }", 1, 56, WEIR_ERANGE, "must be 20ms to 10min" },
    { S "timeout: 49ms }", 1, 57, WEIR_ERANGE, "must be 50ms to 1min" },
    { S "window: 0ms }", 1, 56, WEIR_ERANGE, "window" },
    { S "waiters_max: 0 }", 1, 61, WEIR_ERANGE, "must be 1 to 1000000" },
    { S "branch_table: branches }", 1, 62, WEIR_EINVAL, "branch_table must be schema.table" },
    { S "branch_table: 'a.b; DROP TABLE c' }", 1, 62, WEIR_EINVAL, "branch_table must be schema.table" },
    { S "polls: 1s }", 1, 48, WEIR_EPROTO,
      "unknown key \"polls\" in sessions; did you mean \"poll\"? It must be one of servers users" },
    { S "poll: 1s, poll: 1s }", 1, 58, WEIR_EPROTO, "duplicate key \"poll\"" },
};

static void what_is_wrong__is_said_with_its_place(void **state)
{
    (void)state;
    EXPECT_BAD(bad_sessions);
}

/* A name, a size, a repeated id: what needs a file first. */
static void keys__are_told_apart_by_their_ids(void **state)
{
    (void)state;
    struct file key = file_of(KEY "\n"), small = file_of("fifteen bytes..\n");
    char text[300];
    struct weir_config *config = NULL;
    struct weir_config_fault fault;
    snprintf(text, sizeof(text), S "keys: [{id: 1, file: %s}, {id: 1, file: %s}] }", key.path, key.path);
    assert_int_equal(weir_config_parse(text, strlen(text), &config, &fault), WEIR_EEXIST);
    assert_string_equal(fault.text, "the id 1 is taken by another key");
    snprintf(text, sizeof(text), S "keys: [{id: 1, file: %s}] }", small.path);
    assert_int_equal(weir_config_parse(text, strlen(text), &config, &fault), WEIR_ERANGE);
    assert_non_null(strstr(fault.text, "16 to 128 bytes"));
    assert_null(strstr(fault.text, "fifteen"));
    unlink(key.path);
    unlink(small.path);
}

/* What is wrong with an address that may hold a password is said without it. */
static void a_password__is_in_no_message(void **state)
{
    (void)state;
    static const char text[] = S "users: mysql://ada:hunter2@y }";
    struct weir_config *config = NULL;
    struct weir_config_fault fault;
    assert_int_equal(weir_config_parse(text, strlen(text), &config, &fault), WEIR_EINVAL);
    assert_null(strstr(fault.text, "hunter2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_section__there_are_no_sessions),
        cmocka_unit_test(servers_alone__have_defaults),
        cmocka_unit_test(everything_said__is_kept),
        cmocka_unit_test(users__are_in_memory_where_it_says_so),
        cmocka_unit_test(what_is_wrong__is_said_with_its_place),
        cmocka_unit_test(keys__are_told_apart_by_their_ids),
        cmocka_unit_test(a_password__is_in_no_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
