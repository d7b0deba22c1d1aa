/* SPDX-License-Identifier: Apache-2.0
 *
 * Resets in the log of exceptions, in SQLite: they lie beside what else a key has, hold for good, are found with the
 * key, and share the bound; and what a weir finds there that does not know of them. */
#include "rule_exceptions_fixture.h"

static void it_lies_beside_a_ban(void **state)
{
    (void)state;
    char key[64];
    struct weir_rule_store *store = store_open();
    struct weir_exception_change ban = ban_of(key_of(key, "ada"), 0, 1000);
    struct weir_exception_change reset = reset_of(ban.key, 1001), again = reset_of(ban.key, 1002);
    struct weir_exception_change unban = unban_of(ban.key, 1003);
    const struct weir_exception_query of_key = { .holding_at_ns = 1004, .limit = "api", .key = ban.key };
    assert_int_equal(excepted(store, &ban), 1);
    assert_int_equal(excepted(store, &reset), 2);
    struct taken taken = taken_of(store, of_key);
    assert_int_equal(taken.count, 2); /* neither took the place of the other */
    assert_int_equal(taken.last.kind, WEIR_EXCEPTION_RESET);
    assert_int_equal(taken.last.until_ns, 0);
    assert_memory_equal(taken.last.change, reset.change, sizeof reset.change);
    assert_string_equal(taken.key, "4:user,3:ada,"); /* as it is called */
    assert_int_equal(excepted(store, &reset), 2);    /* asked again */
    assert_int_equal(excepted(store, &again), 3);    /* the newest of them holds */
    assert_int_equal(taken_of(store, of_key).count, 2);
    assert_int_equal(taken_of(store, of_key).numbers[1], 3);
    assert_int_equal(excepted(store, &unban), 4); /* ends the ban */
    taken = taken_of(store, of_key);
    assert_int_equal(taken.count, 1);
    assert_int_equal(taken.numbers[0], 3);
    struct weir_exception_query log = of_key;
    log.holding_at_ns = 0;
    assert_int_equal(taken_of(store, log).count, 4);
    log.key = key_of(key, "bob");
    assert_int_equal(taken_of(store, log).count, 0);
    weir_rule_store_close(store);
}

static void nothing_ends_it(void **state)
{
    (void)state;
    char key[64];
    struct weir_rule_store *store = store_open();
    struct weir_fault fault;
    uint64_t number = 0;
    struct weir_exception_change reset = reset_of(key_of(key, "ada"), 1000), unban = unban_of(reset.key, 1001);
    assert_int_equal(excepted(store, &reset), 1);
    assert_int_equal(except(store, &unban, &number, &fault), WEIR_ENOENT);
    assert_string_equal(fault.field, "key");
    const struct weir_exception_query far = { .holding_at_ns = INT64_MAX };
    assert_int_equal(taken_of(store, far).count, 1);
    /* Nor does one whose key is named as a reset's is stored. */
    char odd[64];
    (void)snprintf(odd, sizeof odd, "4:user,3:ada,%s", WEIR_EXCEPTION_RESET_PAIR);
    unban = unban_of((struct weir_slice){ odd, strlen(odd) }, 1002);
    assert_int_equal(except(store, &unban, &number, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "key");
    weir_rule_store_close(store);
}

static void bad_ones_store_nothing(void **state)
{
    (void)state;
    char key[64];
    struct weir_rule_store *store = store_open();
    struct weir_fault fault;
    uint64_t number = 0;
    struct weir_exception_change until = reset_of(key_of(key, "ada"), 1000), level = until;
    until.until_ns = 2000;
    level.level = "plus";
    assert_int_equal(except(store, &until, &number, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "until");
    assert_int_equal(except(store, &level, &number, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "level");
    assert_int_equal(taken_of(store, (struct weir_exception_query){ 0 }).count, 0);
    weir_rule_store_close(store);
}

static void it_counts_among_those_that_hold(void **state)
{
    (void)state;
    char keys[3][64];
    struct weir_rule_store *store = store_open();
    struct weir_fault fault;
    uint64_t number = 0;
    store->exceptions_max = 2;
    struct weir_exception_change ban = ban_of(key_of(keys[0], "ada"), 2000, 1000), reset = reset_of(ban.key, 1001);
    struct weir_exception_change again = reset_of(ban.key, 1002), other = reset_of(key_of(keys[1], "bob"), 1003);
    struct weir_exception_change third = ban_of(key_of(keys[2], "eve"), 0, 2000);
    assert_int_equal(excepted(store, &ban), 1);
    assert_int_equal(excepted(store, &reset), 2);
    assert_int_equal(excepted(store, &again), 3); /* none more */
    assert_int_equal(except(store, &other, &number, &fault), WEIR_ELIMIT);
    assert_non_null(strstr(fault.text, "2 hold"));
    assert_non_null(strstr(fault.text, "a reset is one for good"));
    other.wall_ns = 2000; /* the ban has ended */
    assert_int_equal(excepted(store, &other), 4);
    assert_int_equal(except(store, &third, &number, &fault), WEIR_ELIMIT);
    weir_rule_store_close(store);
}

static void the_longest_keys_can_be_reset(void **state)
{
    (void)state;
    static char key[WEIR_EXCEPTION_KEY_MAX], value[WEIR_EXCEPTION_KEY_MAX];
    struct weir_rule_store *store = store_open();
    size_t size = 0, most = 0;
    memset(value, 'v', sizeof value);
    for (int i = 0; i < WEIR_KEY_VALUES_MAX; i++) {
        const size_t length = i == WEIR_KEY_VALUES_MAX - 1 ? sizeof key - size - 10 : 3;
        assert_true(weir_exception_key_add(key, sizeof key, &size, (struct weir_slice){ "uvw", 3 }));
        assert_true(weir_exception_key_add(key, sizeof key, &size, (struct weir_slice){ value, length - 2 }));
        most = size;
    }
    assert_in_range(most, WEIR_EXCEPTION_KEY_MAX - 4, WEIR_EXCEPTION_KEY_MAX);
    struct weir_exception_change reset = reset_of((struct weir_slice){ key, size }, 1000);
    assert_int_equal(excepted(store, &reset), 1);
    struct taken taken = taken_of(store, (struct weir_exception_query){ .limit = "api", .key = reset.key });
    assert_int_equal(taken.count, 1);
    assert_int_equal(taken.damaged, 0);
    assert_int_equal(taken.last.key.size, size);
    struct weir_exception_change none = reset_of((struct weir_slice){ "", 0 }, 1001); /* the limit has no key */
    assert_int_equal(excepted(store, &none), 2);
    taken = taken_of(store, (struct weir_exception_query){ .limit = "api", .key = { "", 0 } });
    assert_int_equal(taken.count, 1);
    assert_string_equal(taken.key, "");
    weir_rule_store_close(store);
}

/* It takes what is banned for ended by a change of a kind that it does not know, if that is of the same key. */
static void another_key_is_stored(void **state)
{
    (void)state;
    char key[64];
    struct weir_rule_store *store = store_open();
    struct weir_exception_change ban = ban_of(key_of(key, "ada"), 0, 1000), reset = reset_of(ban.key, 1001);
    assert_int_equal(excepted(store, &ban), 1);
    assert_int_equal(excepted(store, &reset), 2);
    run_sql("CREATE TEMP TABLE t (x CHECK (x = 1)); INSERT INTO t SELECT count(*) FROM exceptions WHERE number = 2 AND "
            "kind = 4 AND key = CAST('4:user,3:ada,0:,5:reset,' AS BLOB)");
    run_sql("UPDATE exceptions SET kind = 9 WHERE number = 2");
    assert_string_equal(taken_of(store, (struct weir_exception_query){ .from = 2 }).key, "4:user,3:ada,0:,5:reset,");
    run_sql("UPDATE exceptions SET kind = 4, key = CAST('4:user,3:ada,' AS BLOB) WHERE number = 2");
    assert_true(taken_of(store, (struct weir_exception_query){ .from = 2 }).last.damaged); /* weir wrote none such */
    run_sql("UPDATE exceptions SET key = CAST('0:,5:reset,' AS BLOB), until_ns = 5 WHERE number = 2");
    assert_true(taken_of(store, (struct weir_exception_query){ .from = 2 }).last.damaged);
    weir_rule_store_close(store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_store_folder, remove_store_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_lies_beside_a_ban),          TEST(nothing_ends_it),
        TEST(bad_ones_store_nothing),        TEST(it_counts_among_those_that_hold),
        TEST(the_longest_keys_can_be_reset), TEST(another_key_is_stored),
    };
    return cmocka_run_group_tests_name("rule_resets", tests, NULL, NULL);
}
