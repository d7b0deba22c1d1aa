/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a store of rule sets: whose it is, who made it, what schema it has, what is locked, damaged or gone. */
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "rule_store_fixture.h"

/* As the first release made it, with two versions and a note: what has once been written must be read for ever. */
static const char SCHEMA_1[] =
    "PRAGMA application_id = 0x77727573; PRAGMA user_version = 1;"
    "CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), store BLOB NOT NULL);"
    "CREATE TABLE versions (number INTEGER PRIMARY KEY, kind INTEGER NOT NULL, of_version INTEGER NOT NULL,"
    " wall_ns INTEGER NOT NULL, change BLOB NOT NULL UNIQUE, author TEXT NOT NULL, comment TEXT NOT NULL,"
    " checksum BLOB NOT NULL, text BLOB NOT NULL);"
    "CREATE TRIGGER versions_never_change BEFORE UPDATE ON versions BEGIN SELECT RAISE(ABORT, 'a version never "
    "changes'); END;"
    "CREATE TRIGGER versions_never_go BEFORE DELETE ON versions BEGIN SELECT RAISE(ABORT, 'a version is never "
    "removed'); END;"
    "CREATE TABLE told (id INTEGER PRIMARY KEY AUTOINCREMENT, node TEXT NOT NULL, version INTEGER NOT NULL, since_ns "
    "INTEGER NOT NULL);"
    "CREATE INDEX told_of_node ON told (node, id);"
    "INSERT INTO meta VALUES (1, x'000102030405060708090a0b0c0d0e0f');"
    "INSERT INTO versions VALUES (1, 3, 0, 1700000000000000000, x'101112131415161718191a1b1c1d1e1f', 'ann', 'from "
    "Git', x'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad', CAST('abc' AS BLOB));"
    "INSERT INTO versions VALUES (2, 2, 1, 1700000001000000000, x'202122232425262728292a2b2c2d2e2f', 'bob', 'back', "
    "x'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad', CAST('abc' AS BLOB));"
    "INSERT INTO told (node, version, since_ns) VALUES ('a', 2, 1700000002000000000);";

static sqlite3 *db_open(void)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(store_path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    return db;
}

static void db_run(const char *sql)
{
    sqlite3 *db = db_open();
    char *said = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &said) != SQLITE_OK)
        fail_msg("%s", said);
    sqlite3_close(db);
}

static int64_t db_ask(const char *sql)
{
    sqlite3 *db = db_open();
    sqlite3_stmt *row;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    sqlite3_close(db);
    return number;
}

/* ---- whose it is ---- */

static void a_store_is_made_only_where_that_was_asked_for(void **state)
{
    (void)state;
    struct weir_fault fault;
    struct stat status;
    assert_int_equal(head_error(store_spec, false, &fault), WEIR_ENOENT);
    assert_string_equal(fault.field, "store");
    assert_int_equal(access(store_path, F_OK), -1);
    write_whole(store_path, "", 0);
    assert_int_equal(head_error(store_spec, false, &fault), WEIR_ENOENT);
    assert_int_equal(unlink(store_path), 0);
    mode_t before = umask(0);
    assert_int_equal(head_error(store_spec, true, &fault), 0);
    umask(before);
    assert_int_equal(stat(store_path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(head_error(store_spec, false, &fault), 0);
    assert_int_equal(head_error("sqlite:/nowhere/at/all.db", true, &fault), WEIR_EDOWN);
}

/* Byte by byte as it was, and nothing beside it. */
static void expect_untouched(const void *bytes, size_t size, int error, const char *text)
{
    static char now[65536];
    struct weir_fault fault;
    write_whole(store_path, bytes, size);
    for (int create = 0; create < 2; create++) {
        assert_int_equal(head_error(store_spec, create, &fault), error);
        assert_non_null(strstr(fault.text, text));
        assert_int_equal(read_all(store_path, now, sizeof now), size);
        assert_memory_equal(now, bytes, size);
        static const char *const besides[] = { "-wal", "-shm", "-journal" };
        for (size_t i = 0; i < 3; i++) {
            char path[128];
            (void)snprintf(path, sizeof path, "%s%s", store_path, besides[i]);
            assert_int_equal(access(path, F_OK), -1);
        }
    }
    assert_int_equal(unlink(store_path), 0);
}

static void what_is_somebody_elses_is_refused_untouched(void **state)
{
    (void)state;
    static char bytes[65536];
    expect_untouched("x", 1, WEIR_ECORRUPT, "is no SQLite database");
    memset(bytes, 'x', 5000);
    expect_untouched(bytes, 5000, WEIR_ECORRUPT, "is no SQLite database");
    db_run("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1); PRAGMA user_version = 1");
    size_t size = read_all(store_path, bytes, sizeof bytes);
    expect_untouched(bytes, size, WEIR_ECORRUPT, "not one of weir's rules");
    db_run("PRAGMA journal_mode = WAL; CREATE TABLE theirs (a); PRAGMA wal_checkpoint(TRUNCATE)");
    size = read_all(store_path, bytes, sizeof bytes);
    expect_untouched(bytes, size, WEIR_ECORRUPT, "not one of weir's rules");
    db_run("CREATE TABLE held (a); PRAGMA application_id = 0x77656972");
    size = read_all(store_path, bytes, sizeof bytes);
    expect_untouched(bytes, size, WEIR_ECORRUPT, "rules need a file of their own");
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    struct weir_fault fault;
    char link[128];
    (void)snprintf(link, sizeof link, "%s.link", store_path);
    assert_int_equal(symlink(link, store_path), 0);
    assert_int_equal(head_error(store_spec, true, &fault), WEIR_ECORRUPT);
    assert_non_null(strstr(fault.text, "is a link"));
    assert_int_equal(access(link, F_OK), -1);
    assert_int_equal(unlink(store_path), 0);
    assert_int_equal(mkfifo(store_path, 0600), 0);
    assert_int_equal(head_error(store_spec, true, &fault), WEIR_ECORRUPT);
    assert_int_equal(unlink(store_path), 0);
    assert_int_equal(mkdir(store_path, 0700), 0);
    assert_int_equal(head_error(store_spec, true, &fault), WEIR_ECORRUPT);
}

static void triggers_of_others_are_refused(void **state)
{
    (void)state;
    struct weir_fault fault;
    weir_rule_store_close(store_open());
    assert_int_equal(head_error(store_spec, true, &fault), 0);
    db_run("CREATE TRIGGER theirs AFTER INSERT ON versions BEGIN SELECT 1; END");
    assert_int_equal(head_error(store_spec, true, &fault), WEIR_ECORRUPT);
    assert_non_null(strstr(fault.text, "triggers"));
}

/* ---- the schema ---- */

static void the_first_schema_is_read_as_it_was_released(void **state)
{
    (void)state;
    struct weir_rule_version version;
    struct weir_fault fault;
    char *text;
    db_run(SCHEMA_1);
    struct weir_rule_store *store = store_open();
    struct weir_rule_head head = head_of(store);
    assert_int_equal(head.number, 2);
    assert_int_equal(head.store[15], 15);
    assert_int_equal(weir_rule_store_read(store, 2, soon(), &version, &text, &fault), 0);
    assert_string_equal(text, "abc");
    assert_string_equal(version.author, "bob");
    assert_int_equal(version.of, 1);
    free(text);
    append_text(store, 2, "three");
    weir_rule_store_close(store);
    /* And so it is made. */
    char before[128];
    (void)snprintf(before, sizeof before, "%s.first", store_path);
    assert_int_equal(rename(store_path, before), 0);
    store = store_open();
    (void)head_of(store);
    weir_rule_store_close(store);
    char sql[512];
    (void)snprintf(
        sql, sizeof sql,
        "ATTACH '%s' AS first; CREATE TEMP TABLE differs AS SELECT sql FROM main.sqlite_schema EXCEPT SELECT "
        "sql FROM first.sqlite_schema; INSERT INTO temp.differs SELECT sql FROM first.sqlite_schema EXCEPT "
        "SELECT sql FROM main.sqlite_schema; SELECT CASE WHEN (SELECT count(*) FROM temp.differs) > 0 THEN "
        "abs(-9223372036854775808) END",
        before);
    db_run(sql); /* an overflow: they differ */
}

static void a_later_schema_is_refused_with_both_numbers(void **state)
{
    (void)state;
    struct weir_fault fault;
    db_run(SCHEMA_1);
    db_run("PRAGMA user_version = 2; DROP TABLE meta; CREATE TRIGGER later AFTER INSERT ON told BEGIN SELECT 1; END");
    assert_int_equal(head_error(store_spec, true, &fault), WEIR_ERANGE);
    assert_string_equal(fault.field, "schema");
    assert_non_null(strstr(fault.text, "has schema 2, this weir knows 1"));
    db_run("PRAGMA user_version = 0");
    assert_int_equal(head_error(store_spec, true, &fault), WEIR_ECORRUPT);
}

/* As a later weir will do it, which has a second schema. */
static const struct weir_rule_step NEXT[] = {
    { .up = "ALTER TABLE told ADD COLUMN late INTEGER NOT NULL DEFAULT 0; CREATE TABLE more (a)",
      .down = "DROP TABLE more; ALTER TABLE told DROP COLUMN late" },
    { .up = "CREATE TABLE third (a); CREATE TABLE no such syntax", .down = "DROP TABLE third" },
};

static struct weir_rule_store *later_open(bool create, unsigned schema)
{
    struct weir_rule_store *store;
    struct weir_fault fault;
    assert_int_equal(
        weir_rule_store_open(&(struct weir_rule_store_options){ .spec = store_spec, .create = create }, &store, &fault),
        0);
    store->schema = schema;
    store->steps = NEXT;
    return store;
}

static void an_older_schema_is_brought_up_and_back(void **state)
{
    (void)state;
    struct weir_fault fault;
    struct weir_rule_head head;
    db_run(SCHEMA_1);
    struct weir_rule_store *now = store_open();
    assert_int_equal(head_of(now).number, 2);
    struct weir_rule_store *later = later_open(false, 2);
    assert_int_equal(weir_rule_store_head(later, soon(), &head, &fault), WEIR_ERANGE);
    assert_non_null(strstr(fault.text, "has schema 1, this weir needs 2"));
    weir_rule_store_close(later);
    later = later_open(true, 2);
    append_text(later, 2, "three");
    assert_int_equal(db_ask("PRAGMA user_version"), 2);
    assert_int_equal(db_ask("SELECT count(*) FROM more"), 0);
    assert_int_equal(db_ask("SELECT late FROM told"), 0);
    /* Who was there before sees it with its next question. */
    assert_int_equal(weir_rule_store_head(now, soon(), &head, &fault), WEIR_ERANGE);
    struct weir_rule_change change = change_of(3, "four");
    struct weir_rule_appended appended;
    assert_int_equal(weir_rule_store_append(now, &change, soon(), &appended, &fault), WEIR_ERANGE);
    assert_int_equal(weir_rule_store_migrate(later, 3, soon(), &fault), WEIR_ERANGE);
    assert_int_equal(weir_rule_store_migrate(later, 0, soon(), &fault), WEIR_ERANGE);
    assert_int_equal(weir_rule_store_migrate(later, 1, soon(), &fault), 0);
    assert_int_equal(weir_rule_store_migrate(later, 1, soon(), &fault), 0);
    assert_int_equal(head_of(now).number, 3);
    append_text(now, 3, "four");
    assert_int_equal(db_ask("SELECT count(*) FROM sqlite_schema WHERE name = 'more'"), 0);
    weir_rule_store_close(now);
    weir_rule_store_close(later);
}

static void a_step_that_fails_halfway_changes_nothing(void **state)
{
    (void)state;
    struct weir_fault fault;
    struct weir_rule_head head;
    db_run(SCHEMA_1);
    struct weir_rule_store *later = later_open(true, 3);
    assert_int_not_equal(weir_rule_store_head(later, soon(), &head, &fault), 0);
    weir_rule_store_close(later);
    assert_int_equal(db_ask("PRAGMA user_version"), 1);
    assert_int_equal(db_ask("SELECT count(*) FROM sqlite_schema WHERE name IN ('more', 'third')"), 0);
    struct weir_rule_store *store = store_open();
    assert_int_equal(head_of(store).number, 2);
    weir_rule_store_close(store);
}

/* ---- locked, damaged, gone ---- */

static void a_lock_of_another_ends_at_the_deadline(void **state)
{
    (void)state;
    struct weir_fault fault;
    struct weir_rule_appended appended;
    struct weir_rule_store *store = store_open();
    append_text(store, 0, "one");
    sqlite3 *db = db_open();
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    struct weir_rule_change change = change_of(1, "two");
    uint64_t deadline_ns = weir_rule_now_ns() + SECOND / 5;
    assert_int_equal(weir_rule_store_append(store, &change, deadline_ns, &appended, &fault), WEIR_EDOWN);
    assert_non_null(strstr(fault.text, "another process keeps it locked"));
    assert_int_equal(head_of(store).number, 1); /* to read goes on */
    assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(append(store, &change).number, 2);
    weir_rule_store_close(store);
}

static void versions_cannot_be_changed_by_hand(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    append_text(store, 0, "one");
    sqlite3 *db = db_open();
    assert_int_equal(sqlite3_exec(db, "UPDATE versions SET author = 'eve'", NULL, NULL, NULL), SQLITE_CONSTRAINT);
    assert_int_equal(sqlite3_exec(db, "DELETE FROM versions", NULL, NULL, NULL), SQLITE_CONSTRAINT);
    sqlite3_close(db);
    weir_rule_store_close(store);
}

static void damaged_rows_are_told(void **state)
{
    (void)state;
    static const char *const damages[] = { "number = 9 WHERE number = 2",
                                           "kind = 7",
                                           "kind = 2",
                                           "of_version = 1",
                                           "wall_ns = -1",
                                           "change = x'00' || number",
                                           "author = ''",
                                           "author = 'a' || char(10)",
                                           "comment = x'6100'",
                                           "checksum = x''",
                                           "checksum = zeroblob(32)",
                                           "text = x'62'",
                                           "text = x''" };
    struct weir_rule_version version;
    struct weir_fault fault;
    char *text;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        char sql[256];
        struct weir_rule_store *store = store_open();
        append_text(store, 0, "one");
        append_text(store, 1, "two");
        append_text(store, 2, "three");
        (void)snprintf(sql, sizeof sql,
                       "DROP TRIGGER versions_never_change; UPDATE versions SET %s%s; CREATE TRIGGER "
                       "versions_never_change BEFORE UPDATE ON versions BEGIN SELECT 1; END",
                       damages[i], strstr(damages[i], "WHERE") ? "" : " WHERE number = 2");
        db_run(sql);
        assert_int_equal(weir_rule_store_read(store, 2, soon(), &version, &text, &fault), WEIR_ECORRUPT);
        weir_rule_store_close(store);
        assert_int_equal(unlink(store_path), 0);
    }
}

static void a_file_that_is_gone_is_not_made_anew(void **state)
{
    (void)state;
    struct weir_fault fault;
    struct weir_rule_head head;
    char aside[128];
    struct weir_rule_store *store = store_open();
    append_text(store, 0, "one");
    weir_rule_store_close(store); /* all of it is in one file */
    store = store_open();
    struct weir_rule_head first = head_of(store);
    (void)snprintf(aside, sizeof aside, "%s.aside", store_path);
    assert_int_equal(rename(store_path, aside), 0);
    assert_int_equal(weir_rule_store_head(store, soon(), &head, &fault), WEIR_EDOWN);
    assert_non_null(strstr(fault.text, "is gone"));
    assert_int_equal(access(store_path, F_OK), -1);
    struct weir_rule_store *other = store_open(); /* whoever makes another one there */
    head = head_of(other);
    assert_int_equal(head.number, 0);
    head = head_of(store);
    assert_int_equal(head.number, 0);
    assert_memory_not_equal(head.store, first.store, sizeof head.store);
    weir_rule_store_close(other);
    weir_rule_store_close(store);
}

/* The file may not grow: as on a disk that is full. */
static void a_full_disk_loses_nothing(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    struct weir_rule_appended appended;
    struct weir_fault fault;
    struct rlimit before, low;
    static char large[1 << 20];
    memset(large, 'x', sizeof large - 1);
    append_text(store, 0, "one");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    low = (struct rlimit){ .rlim_cur = 100000, .rlim_max = before.rlim_max };
    (void)signal(SIGXFSZ, SIG_IGN);
    struct weir_rule_change change = change_of(1, large);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    int error = weir_rule_store_append(store, &change, soon(), &appended, &fault);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(error == WEIR_EDOWN || error == WEIR_EUNKNOWN);
    assert_true(head_of(store).number == 1 || error == WEIR_EUNKNOWN);
    appended = append(store, &change);
    assert_int_equal(appended.number, 2);
    assert_int_equal(head_of(store).number, 2);
    weir_rule_store_close(store);
}

/* Whoever told it first may have gone before it was on the disk: by the second answer it is in the file itself. */
static void a_change_that_is_told_again_is_lasting(void **state)
{
    (void)state;
    static char bytes[65536];
    static const char comment[] = "told twice";
    struct weir_rule_store *store = store_open();
    struct weir_rule_change change = change_of(0, "one");
    change.comment = comment;
    for (int again = 0; again < 2; again++) {
        assert_int_equal(append(store, &change).again, again);
        const size_t size = read_all(store_path, bytes, sizeof bytes);
        assert_int_equal(memmem(bytes, size, comment, sizeof comment - 1) != NULL, again);
    }
    weir_rule_store_close(store);
}

/* However seldom it is looked at else. */
static void a_store_that_failed_is_looked_at_soon(void **state)
{
    (void)state;
    struct weir_rule_store *store;
    struct weir_rule_head head;
    struct weir_fault fault;
    const struct weir_rule_store_options options = { .spec = store_spec, .poll_ns = 60 * SECOND };
    assert_int_equal(weir_rule_store_open(&options, &store, &fault), 0);
    assert_int_equal(weir_rule_store_head(store, soon(), &head, &fault), WEIR_ENOENT);
    assert_true(weir_rule_store_wait(store, weir_rule_now_ns() + 20 * SECOND));
    weir_rule_store_close(store);
}

/* ---- several ---- */

/* Each adds versions until there are enough: a conflict is the way to learn of the newest. */
static void add_until(uint64_t enough)
{
    struct weir_rule_store *store = store_open();
    uint64_t newest = 0;
    while (newest < enough) {
        struct weir_rule_change change = change_of(newest, "text");
        newest = append(store, &change).head.number;
    }
    weir_rule_store_close(store);
}

static void processes_that_begin_together_make_one_store(void **state)
{
    (void)state;
    enum { PROCESSES = 4, ENOUGH = 100 };
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            add_until(ENOUGH);
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    int64_t count = db_ask("SELECT count(*) FROM versions");
    assert_true(count >= ENOUGH && count < ENOUGH + PROCESSES);
    assert_int_equal(db_ask("SELECT max(number) FROM versions"), count);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, make_store_folder, remove_store_folder)
    const struct CMUnitTest tests[] = {
        T(a_store_is_made_only_where_that_was_asked_for),
        T(what_is_somebody_elses_is_refused_untouched),
        T(what_is_no_file_is_refused),
        T(triggers_of_others_are_refused),
        T(the_first_schema_is_read_as_it_was_released),
        T(a_later_schema_is_refused_with_both_numbers),
        T(an_older_schema_is_brought_up_and_back),
        T(a_step_that_fails_halfway_changes_nothing),
        T(a_lock_of_another_ends_at_the_deadline),
        T(versions_cannot_be_changed_by_hand),
        T(damaged_rows_are_told),
        T(a_file_that_is_gone_is_not_made_anew),
        T(a_full_disk_loses_nothing),
        T(a_change_that_is_told_again_is_lasting),
        T(a_store_that_failed_is_looked_at_soon),
        T(processes_that_begin_together_make_one_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
