/* SPDX-License-Identifier: Apache-2.0
 *
 * The log of exceptions in a store of rules, in SQLite: what a change is, what holds, the bounds; and random changes
 * against a list in memory. */
#include "random.h"
#include "rule_exceptions_fixture.h"

#define KEYS 12

/* ---- keys ---- */

static void a_key_is_read_as_it_was_written(void **state)
{
    (void)state;
    static const char odd[] = "a,b:3\0c";
    char key[64];
    size_t size = 0;
    const struct weir_slice parts[] = { { "user", 4 }, { odd, sizeof odd - 1 }, { "ip", 2 }, { "", 0 } };
    for (size_t i = 0; i < 4; i++)
        assert_true(weir_exception_key_add(key, sizeof key, &size, parts[i]));
    assert_true(weir_exception_key_valid((struct weir_slice){ key, size }));
    struct weir_slice rest = { key, size }, part;
    for (size_t i = 0; i < 4; i++) {
        assert_true(weir_exception_key_next(&rest, &part));
        assert_int_equal(part.size, parts[i].size);
        assert_memory_equal(part.data, parts[i].data, part.size);
    }
    assert_int_equal(rest.size, 0);
    for (size_t room = 0; room < 7; room++) { /* 4:user, is 7 bytes */
        size = 0;
        assert_false(weir_exception_key_add(key, room, &size, parts[0]));
        assert_int_equal(size, 0);
    }
}

static void what_is_no_key_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "4:user",         "4:user,",  "4:user,3:ad,",
                                       "04:user,3:ada,", ":,:,",     "1",
                                       "1:a,1:b,x",      "9:a,1:b,", "-1:a,1:b,",
                                       "99999999999:a,", "1:a;1:b,", "18446744073709551617:a,1:b,",
                                       "000001:a,1:b," };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(weir_exception_key_valid((struct weir_slice){ bad[i], strlen(bad[i]) }));
    assert_true(weir_exception_key_valid((struct weir_slice){ "", 0 }));
    assert_true(weir_exception_key_valid((struct weir_slice){ "4:user,0:,", 10 }));
    char many[34 * 4 + 1] = "";
    for (size_t i = 0; i < 34; i++)
        memcpy(many + 4 * i, "1:a,", 4);
    assert_true(weir_exception_key_valid((struct weir_slice){ many, 32 * sizeof "1:a" }));
    assert_false(weir_exception_key_valid((struct weir_slice){ many, 34 * sizeof "1:a" }));
}

/* ---- changes ---- */

static void a_change_is_what_was_given(void **state)
{
    (void)state;
    char key[64];
    struct weir_rule_store *store = store_open();
    append_text(store, 0, "limits: []");
    assert_int_equal(taken_of(store, (struct weir_exception_query){ 0 }).count, 0); /* there is no table yet */
    struct weir_exception_change ban = ban_of(key_of(key, "ada"), 2000, 1000);
    assert_int_equal(excepted(store, &ban), 1);
    struct taken taken = taken_of(store, (struct weir_exception_query){ 0 });
    assert_int_equal(taken.count, 1);
    assert_int_equal(taken.last.kind, WEIR_EXCEPTION_BAN);
    assert_int_equal(taken.last.until_ns, 2000);
    assert_int_equal(taken.last.wall_ns, 1000);
    assert_memory_equal(taken.last.change, ban.change, sizeof ban.change);
    assert_string_equal(taken.key, "4:user,3:ada,");
    assert_string_equal(taken.author, "ann");
    assert_int_equal(head_of(store).number, 1); /* versions are another thing */
    weir_rule_store_close(store);
}

static void the_same_id_again_is_the_same_change(void **state)
{
    (void)state;
    char key[64], other_key[64];
    struct weir_rule_store *store = store_open();
    struct weir_fault fault;
    uint64_t number = 0;
    struct weir_exception_change ban = ban_of(key_of(key, "ada"), 0, 1000);
    assert_int_equal(excepted(store, &ban), 1);
    ban.wall_ns += 5;
    assert_int_equal(excepted(store, &ban), 1);
    ban.key = key_of(other_key, "bob");
    assert_int_equal(except(store, &ban, &number, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "change");
    assert_int_equal(taken_of(store, (struct weir_exception_query){ 0 }).count, 1);
    weir_rule_store_close(store);
}

static void only_what_holds_can_be_ended(void **state)
{
    (void)state;
    char key[64];
    struct weir_rule_store *store = store_open();
    struct weir_fault fault;
    uint64_t number = 0;
    struct weir_exception_change unban = unban_of(key_of(key, "ada"), 1000);
    assert_int_equal(except(store, &unban, &number, &fault), WEIR_ENOENT);
    assert_string_equal(fault.field, "key");
    struct weir_exception_change ban = ban_of(unban.key, 2000, 1000);
    assert_int_equal(excepted(store, &ban), 1);
    assert_int_equal(excepted(store, &unban), 2);
    unban = unban_of(unban.key, 1001);
    assert_int_equal(except(store, &unban, &number, &fault), WEIR_ENOENT);
    ban = ban_of(unban.key, 2000, 1002);
    assert_int_equal(excepted(store, &ban), 3);
    unban = unban_of(unban.key, 2000); /* it has expired by itself */
    assert_int_equal(except(store, &unban, &number, &fault), WEIR_ENOENT);
    weir_rule_store_close(store);
}

static void bad_arguments_store_nothing(void **state)
{
    (void)state;
    char key[64];
    struct weir_rule_store *store = store_open();
    const struct weir_exception_change good = ban_of(key_of(key, "ada"), 2000, 1000);
    struct weir_exception_change bad[11];
    static const char *const fields[] = { "kind",   "limit",  "key",   "until", "until", "comment",
                                          "author", "change", "level", "level", "level" };
    for (size_t i = 0; i < 11; i++)
        bad[i] = good;
    bad[0].kind = (enum weir_exception_kind)5;
    bad[1].limit = "a b";
    bad[2].key.size--;
    bad[3].until_ns = 1000;
    bad[4].until_ns = UINT64_MAX;
    bad[5].comment = "";
    bad[6].author = "a\nb";
    memset(bad[7].change, 0, sizeof bad[7].change);
    bad[8].level = "plus"; /* of a ban */
    bad[9].kind = bad[10].kind = WEIR_EXCEPTION_LEVEL;
    bad[10].level = "a b";
    for (size_t i = 0; i < 11; i++) {
        struct weir_fault fault;
        uint64_t number = 0;
        int error = except(store, &bad[i], &number, &fault);
        assert_true(error == WEIR_EINVAL || error == WEIR_ERANGE);
        assert_string_equal(fault.field, fields[i]);
    }
    assert_int_equal(taken_of(store, (struct weir_exception_query){ 0 }).count, 0);
    weir_rule_store_close(store);
}

static void a_level_is_what_was_given(void **state)
{
    (void)state;
    char key[64];
    struct weir_rule_store *store = store_open();
    struct weir_fault fault;
    uint64_t number = 0;
    struct weir_exception_change ban = ban_of(key_of(key, "ada"), 0, 1000);
    struct weir_exception_change level = level_of("plus", ban.key, 2000, 1001);
    struct weir_exception_change unban = unban_of(ban.key, 1002);
    assert_int_equal(excepted(store, &ban), 1); /* the table has no column for it yet */
    assert_string_equal(taken_of(store, (struct weir_exception_query){ 0 }).level, "");
    assert_int_equal(excepted(store, &level), 2);
    struct taken taken = taken_of(store, (struct weir_exception_query){ .from = 2 });
    assert_int_equal(taken.last.kind, WEIR_EXCEPTION_LEVEL);
    assert_int_equal(taken.last.until_ns, 2000);
    assert_string_equal(taken.level, "plus");
    taken = taken_of(store, (struct weir_exception_query){ .holding_at_ns = 1001 });
    assert_int_equal(taken.count, 1); /* it has taken the place of the ban */
    assert_int_equal(taken.numbers[0], 2);
    assert_int_equal(excepted(store, &level), 2); /* asked again */
    level.level = "low";
    assert_int_equal(except(store, &level, &number, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "change");
    assert_int_equal(excepted(store, &unban), 3);
    ban = ban_of(ban.key, 0, 1003);
    assert_int_equal(excepted(store, &ban), 4);
    assert_string_equal(taken_of(store, (struct weir_exception_query){ .from = 4 }).level, "");
    run_sql("UPDATE exceptions SET level_name = 'a b' WHERE number = 2");
    assert_int_equal(taken_of(store, (struct weir_exception_query){ 0 }).damaged, 1);
    weir_rule_store_close(store);
}

static void there_are_so_many_names_of_levels(void **state)
{
    (void)state;
    char key[64], name[16];
    struct weir_rule_store *store = store_open();
    struct weir_fault fault;
    uint64_t number = 0;
    for (int i = 0; i < WEIR_EXCEPTION_LEVELS_MAX; i++) {
        (void)snprintf(name, sizeof name, "l%d", i);
        struct weir_exception_change level = level_of(name, key_of(key, "ada"), 0, 1000);
        assert_int_equal(excepted(store, &level), i + 1);
    }
    struct weir_exception_change one_more = level_of("one-more", key_of(key, "bob"), 0, 1000);
    assert_int_equal(except(store, &one_more, &number, &fault), WEIR_ELIMIT);
    assert_string_equal(fault.field, "level");
    assert_non_null(strstr(fault.text, "255"));
    struct weir_exception_change known = level_of("l7", key_of(key, "bob"), 0, 1000);
    assert_int_equal(excepted(store, &known), WEIR_EXCEPTION_LEVELS_MAX + 1);
    run_sql("DELETE FROM exceptions WHERE level_name = 'l9'"); /* as docs/exceptions.md has it */
    assert_int_equal(excepted(store, &one_more), WEIR_EXCEPTION_LEVELS_MAX + 2);
    weir_rule_store_close(store);
}

static void expect_bounds(struct weir_rule_store *store)
{
    char keys[4][64];
    struct weir_fault fault;
    uint64_t number = 0;
    store->exceptions_max = 2;
    store->changes_max = 5;
    struct weir_exception_change one = ban_of(key_of(keys[0], "a"), 2000, 1000);
    struct weir_exception_change two = ban_of(key_of(keys[1], "b"), 0, 1000);
    struct weir_exception_change three = ban_of(key_of(keys[2], "c"), 0, 1000);
    assert_int_equal(excepted(store, &one), 1);
    assert_int_equal(excepted(store, &two), 2);
    assert_int_equal(except(store, &three, &number, &fault), WEIR_ELIMIT);
    assert_non_null(strstr(fault.text, "2 hold"));
    two = ban_of(two.key, 3000, 1001); /* another one for the same key is none more */
    assert_int_equal(excepted(store, &two), 3);
    three.wall_ns = 2000; /* the first has expired */
    assert_int_equal(excepted(store, &three), 4);
    struct weir_exception_change unban = unban_of(two.key, 2001);
    assert_int_equal(excepted(store, &unban), 5);
    struct weir_exception_change four = ban_of(key_of(keys[3], "d"), 0, 2002);
    assert_int_equal(except(store, &four, &number, &fault), WEIR_ELIMIT);
    assert_non_null(strstr(fault.text, "5 changes"));
}

static void the_bounds_are_named(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    expect_bounds(store);
    weir_rule_store_close(store);
}

/* How many indexes of that name there are, and steps of the plan by which it counts, that read nothing but it. */
static void expect_counted_by_index(int indexes)
{
    sqlite3 *db;
    sqlite3_stmt *row;
    assert_int_equal(sqlite3_open(store_path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'exceptions_newest'", -1, &row, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(row, 0), indexes);
    sqlite3_finalize(row);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "EXPLAIN QUERY PLAN SELECT count(*) FROM (SELECT kind, until_ns, max(number) "
                                        "FROM exceptions GROUP BY digest) WHERE kind <> 2",
                                        -1, &row, NULL),
                     SQLITE_OK);
    int found = 0;
    while (sqlite3_step(row) == SQLITE_ROW)
        found += strstr((const char *)sqlite3_column_text(row, 3), "COVERING INDEX exceptions_newest") != NULL;
    assert_int_equal(found, indexes);
    sqlite3_finalize(row);
    sqlite3_close(db);
}

/* As builds before the index have made it: the first count of a full one makes that, and it stays though the change is
 * refused. What such a build writes beside it is counted. */
static void a_table_without_the_index_gets_it_when_it_is_full(void **state)
{
    (void)state;
    char keys[2][64];
    struct weir_rule_store *store = store_open();
    struct weir_fault fault;
    uint64_t number;
    append_text(store, 0, "limits: []");
    run_sql("CREATE TABLE exceptions (number INTEGER PRIMARY KEY, kind INTEGER NOT NULL, wall_ns INTEGER NOT NULL,"
            " until_ns INTEGER NOT NULL, change BLOB NOT NULL UNIQUE, digest BLOB NOT NULL, limit_name TEXT NOT NULL,"
            " key BLOB NOT NULL, author TEXT NOT NULL, comment TEXT NOT NULL, held INTEGER NOT NULL,"
            " UNIQUE (digest, number))");
    struct weir_exception_change one = ban_of(key_of(keys[0], "x"), 3000, 1000);
    struct weir_exception_change two = ban_of(key_of(keys[1], "y"), 0, 1000);
    assert_int_equal(excepted(store, &one), 1);
    expect_counted_by_index(0);
    store->exceptions_max = 1;
    assert_int_equal(except(store, &two, &number, &fault), WEIR_ELIMIT);
    expect_counted_by_index(1);
    assert_int_equal(taken_of(store, (struct weir_exception_query){ 0 }).count, 1); /* nothing else was stored */
    run_sql("INSERT INTO exceptions SELECT 2, 2, wall_ns, 0, x'00112233445566778899aabbccddeeff', digest, limit_name, "
            "key, author, comment, 7 FROM exceptions");
    assert_int_equal(excepted(store, &two), 3); /* 7 was said to hold, and none does */
    expect_counted_by_index(1);
    run_sql("DELETE FROM exceptions");
    expect_bounds(store);
    weir_rule_store_close(store);
}

/* ---- what others have written ---- */

static void a_damaged_row_hides_no_other(void **state)
{
    (void)state;
    char keys[3][64];
    struct weir_rule_store *store = store_open();
    for (size_t i = 0; i < 3; i++) {
        struct weir_exception_change ban = ban_of(key_of(keys[i], (const char *[]){ "a", "b", "c" }[i]), 0, 1000);
        assert_int_equal(excepted(store, &ban), i + 1);
    }
    run_sql("UPDATE exceptions SET key = x'3a' WHERE number = 2");
    struct taken taken = taken_of(store, (struct weir_exception_query){ 0 });
    assert_int_equal(taken.count, 3);
    assert_int_equal(taken.damaged, 1);
    run_sql("UPDATE exceptions SET kind = 7 WHERE number = 3"); /* of a later weir */
    taken = taken_of(store, (struct weir_exception_query){ .from = 3 });
    assert_int_equal(taken.last.kind, 7);
    assert_false(taken.last.damaged);
    weir_rule_store_close(store);
}

/* It looks for triggers and the schema alone: both are as they were. */
static void a_weir_before_exceptions_goes_on(void **state)
{
    (void)state;
    char key[64];
    sqlite3 *db;
    sqlite3_stmt *row;
    struct weir_rule_store *store = store_open();
    append_text(store, 0, "limits: []");
    struct weir_exception_change ban = ban_of(key_of(key, "ada"), 0, 1000);
    assert_int_equal(excepted(store, &ban), 1);
    weir_rule_store_close(store);
    assert_int_equal(sqlite3_open(store_path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT user_version, (SELECT count(*) FROM sqlite_schema WHERE type = "
                                        "'trigger') FROM pragma_user_version",
                                        -1, &row, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(row, 0), 1);
    assert_int_equal(sqlite3_column_int(row, 1), 2);
    sqlite3_finalize(row);
    sqlite3_close(db);
}

/* ---- random changes against a list ---- */

struct model {
    struct {
        int kind, key, level;
        uint64_t until_ns;
    } changes[CHANGES];
    size_t count;
};

static bool holds(const struct model *model, size_t i, uint64_t at_ns)
{
    for (size_t later = i + 1; later < model->count; later++)
        if (model->changes[later].key == model->changes[i].key)
            return false;
    return model->changes[i].kind != WEIR_EXCEPTION_UNBAN &&
           (model->changes[i].until_ns == 0 || model->changes[i].until_ns > at_ns);
}

static void expect_same(struct weir_rule_store *store, const struct model *model, uint64_t at_ns, uint64_t from)
{
    struct taken up = taken_of(store, (struct weir_exception_query){ .from = from });
    assert_int_equal(up.count, from > model->count ? 0 : model->count - (from ? from : 1) + 1);
    for (size_t i = 0; i < up.count; i++)
        assert_int_equal(up.numbers[i], (from ? from : 1) + i);
    struct taken holding = taken_of(store,
                                    (struct weir_exception_query){ .newest_first = true, .holding_at_ns = at_ns });
    size_t found = 0;
    for (size_t i = model->count; i-- > 0;)
        if (holds(model, i, at_ns))
            assert_int_equal(holding.numbers[found++], i + 1);
    assert_int_equal(holding.count, found);
}

static void random_changes_are_as_in_a_list(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    static struct model model;
    char key[64], value[8];
    struct weir_rule_store *store = store_open();
    uint64_t now_ns = 1000;
    model.count = 0;
    for (int i = 0; i < 120; i++) {
        const int who = (int)test_random_below(&random, KEYS);
        const bool ends = test_random_below(&random, 3) == 0;
        const uint64_t until_ns = ends || test_random_below(&random, 3) == 0
                                      ? 0
                                      : now_ns + 1 + test_random_below(&random, 40);
        struct weir_fault fault;
        uint64_t number = 0;
        (void)snprintf(value, sizeof value, "u%d", who);
        struct weir_exception_change change = ban_of(key_of(key, value), until_ns, now_ns);
        static const char *const levels[] = { NULL, "plus", "low" };
        const int level = ends ? 0 : (int)test_random_below(&random, 3);
        const bool resets = until_ns == 0 && level == 0 && test_random_below(&random, 3) == 0;
        change.kind = resets  ? WEIR_EXCEPTION_RESET
                      : ends  ? WEIR_EXCEPTION_UNBAN
                      : level ? WEIR_EXCEPTION_LEVEL
                              : WEIR_EXCEPTION_BAN;
        change.level = levels[level];
        bool held = false;
        for (size_t j = 0; j < model.count; j++)
            held = held || (model.changes[j].key == who && holds(&model, j, now_ns));
        int error = except(store, &change, &number, &fault);
        assert_int_equal(error, ends && !resets && !held ? WEIR_ENOENT : 0);
        if (!error) {
            model.changes[model.count].kind = (int)change.kind;
            model.changes[model.count].key = resets ? KEYS + who : who; /* it lies beside what else there is */
            model.changes[model.count].level = level;
            model.changes[model.count++].until_ns = until_ns;
            assert_int_equal(number, model.count);
        }
        now_ns += test_random_below(&random, 10);
        if (i % 8 == 0 && model.count > 0) {
            static const char *const names[] = { "", "plus", "low" };
            struct taken last = taken_of(store, (struct weir_exception_query){ .from = model.count });
            assert_string_equal(last.level, names[model.changes[model.count - 1].level]);
        }
        if (i % 8 == 0)
            expect_same(store, &model, now_ns, test_random_below(&random, model.count + 2));
    }
    expect_same(store, &model, now_ns, 0);
    struct weir_exception_change one_more = ban_of(key_of(key, "one more"), 0, now_ns);
    struct weir_fault fault;
    uint64_t number = 0;
    store->exceptions_max = 0;
    for (size_t i = 0; i < model.count; i++)
        store->exceptions_max += holds(&model, i, now_ns);
    assert_int_equal(except(store, &one_more, &number, &fault), WEIR_ELIMIT);
    store->exceptions_max++;
    assert_int_equal(excepted(store, &one_more), model.count + 1);
    weir_rule_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_read_as_it_was_written),
        cmocka_unit_test(what_is_no_key_is_refused),
        cmocka_unit_test_setup_teardown(a_change_is_what_was_given, make_store_folder, remove_store_folder),
        cmocka_unit_test_setup_teardown(the_same_id_again_is_the_same_change, make_store_folder, remove_store_folder),
        cmocka_unit_test_setup_teardown(only_what_holds_can_be_ended, make_store_folder, remove_store_folder),
        cmocka_unit_test_setup_teardown(bad_arguments_store_nothing, make_store_folder, remove_store_folder),
        cmocka_unit_test_setup_teardown(a_level_is_what_was_given, make_store_folder, remove_store_folder),
        cmocka_unit_test_setup_teardown(there_are_so_many_names_of_levels, make_store_folder, remove_store_folder),
        cmocka_unit_test_setup_teardown(the_bounds_are_named, make_store_folder, remove_store_folder),
        cmocka_unit_test_setup_teardown(a_table_without_the_index_gets_it_when_it_is_full, make_store_folder,
                                        remove_store_folder),
        cmocka_unit_test_setup_teardown(a_damaged_row_hides_no_other, make_store_folder, remove_store_folder),
        cmocka_unit_test_setup_teardown(a_weir_before_exceptions_goes_on, make_store_folder, remove_store_folder),
        cmocka_unit_test_setup_teardown(random_changes_are_as_in_a_list, make_store_folder, remove_store_folder),
    };
    return cmocka_run_group_tests_name("rule_exceptions", tests, NULL, NULL);
}
