/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node takes from a store's log of bans: which of them hold, what a damaged change does, and that a reading that
 * fails changes nothing. The store is a list in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "rules/store_inside.h"
#include "serve/exception_follower.h"

#define SECOND WEIR_NS_PER_SECOND
#define NOW (UINT64_C(1800000000) * SECOND)

static struct log {
    struct weir_rule_store store; /* first */
    struct weir_exception list[8];
    size_t count, fails_at; /* 0: it does not fail */
} store;

static int exceptions(struct weir_rule_store *from, const struct weir_exception_select *select, uint64_t deadline_ns,
                      struct weir_fault *ret_fault)
{
    struct log *log = (struct log *)from;
    (void)deadline_ns, (void)ret_fault;
    for (size_t i = 0; i < log->count; i++) {
        if (log->fails_at == i + 1)
            return WEIR_EDOWN;
        if (log->list[i].number >= select->query.from && !select->take(select->context, &log->list[i]))
            return 0;
    }
    return 0;
}

static const struct weir_rule_store_ops ops = { .exceptions = exceptions };

static void add(int kind, const char *key, uint64_t until_ns, bool damaged, uint8_t id)
{
    const uint64_t number = store.count + 1;
    store.list[store.count++] = (struct weir_exception){ .number = number,
                                                         .damaged = damaged,
                                                         .kind = kind,
                                                         .until_ns = until_ns,
                                                         .change = { id },
                                                         .limit = "api",
                                                         .key = { key, strlen(key) } };
}

static int look(struct weir_exception_follower *follower, uint8_t id)
{
    const uint8_t of[WEIR_RULE_CHANGE_SIZE] = { id };
    struct weir_fault fault;
    return weir_exception_follower_look(follower, &store.store, of, 60 * SECOND, NOW, &fault);
}

static bool is_banned(const struct weir_exception_follower *follower, const char *key, uint64_t now_ns)
{
    struct weir_excepted excepted;
    const struct weir_slice bytes = { key, strlen(key) };
    return weir_excepted_keys_find(follower->keys, weir_excepted_keys_hash(follower->keys, "api", bytes), now_ns,
                                   &excepted);
}

static int setup(void **state)
{
    static struct weir_exception_follower follower;
    *state = &follower;
    store = (struct log){ .store = { .ops = &ops } };
    return weir_exception_follower_init(&follower);
}

static int teardown(void **state)
{
    weir_exception_follower_deinit(*state);
    return 0;
}

static void a_ban_holds_until_its_end(void **state)
{
    struct weir_exception_follower *follower = *state;
    add(WEIR_EXCEPTION_BAN, "soon", NOW + 60 * SECOND, false, 1);
    add(WEIR_EXCEPTION_BAN, "good", 0, false, 2);
    add(WEIR_EXCEPTION_BAN, "lately", NOW - SECOND, false, 3);
    add(WEIR_EXCEPTION_BAN, "before", NOW - 2 * 3600 * SECOND, false, 4);
    assert_int_equal(look(follower, 1), 0);
    assert_true(is_banned(follower, "soon", NOW + 60 * SECOND - 1));
    assert_false(is_banned(follower, "soon", NOW + 60 * SECOND));
    assert_true(is_banned(follower, "good", NOW));
    assert_false(is_banned(follower, "lately", NOW));
    assert_int_equal(weir_excepted_keys_count(follower->keys), 3); /* what ended an hour ago takes no room */
    add(WEIR_EXCEPTION_UNBAN, "good", 0, false, 5);
    add(WEIR_EXCEPTION_RESET + 1, "soon", 0, false, 6); /* a later weir's */
    assert_int_equal(look(follower, 1), 0);
    assert_false(is_banned(follower, "good", NOW));
    assert_false(is_banned(follower, "soon", NOW));
    assert_int_equal(follower->unknown, 1);
}

static void a_level_takes_the_place_of_a_ban(void **state)
{
    struct weir_exception_follower *follower = *state;
    const struct weir_slice key = { "ada", 3 };
    struct weir_excepted excepted = { .level = NULL };
    add(WEIR_EXCEPTION_BAN, "ada", 0, false, 1);
    add(WEIR_EXCEPTION_LEVEL, "ada", 0, false, 2);
    store.list[1].level = "plus";
    assert_int_equal(look(follower, 1), 0);
    assert_true(
        weir_excepted_keys_find(follower->keys, weir_excepted_keys_hash(follower->keys, "api", key), NOW, &excepted));
    assert_string_equal(excepted.level, "plus");
    assert_int_equal(weir_excepted_keys_levels(follower->keys), 1);
    add(WEIR_EXCEPTION_BAN, "ada", 0, false, 3);
    assert_int_equal(look(follower, 1), 0);
    assert_true(
        weir_excepted_keys_find(follower->keys, weir_excepted_keys_hash(follower->keys, "api", key), NOW, &excepted));
    assert_null(excepted.level);
    assert_int_equal(follower->unknown, 0);
}

static uint64_t mark_of(const struct weir_exception_follower *follower, const char *key)
{
    const struct weir_slice bytes = { key, strlen(key) };
    return weir_excepted_keys_mark(follower->keys, weir_excepted_keys_hash(follower->keys, "api", bytes));
}

#define PAIR WEIR_EXCEPTION_RESET_PAIR

static void a_reset_lies_beside_a_ban(void **state)
{
    struct weir_exception_follower *follower = *state;
    add(WEIR_EXCEPTION_BAN, "ada", 0, false, 1);
    add(WEIR_EXCEPTION_RESET, "ada" PAIR, 0, false, 7);
    add(WEIR_EXCEPTION_RESET, PAIR, 0, false, 8); /* of a limit without a key */
    assert_int_equal(look(follower, 1), 0);
    assert_true(is_banned(follower, "ada", NOW));
    assert_int_equal(mark_of(follower, "ada"), 7);
    assert_int_equal(mark_of(follower, ""), 8);
    assert_int_equal(mark_of(follower, "bob"), 0);
    assert_int_equal(follower->unknown, 0);
    add(WEIR_EXCEPTION_UNBAN, "ada", 0, false, 3);
    add(WEIR_EXCEPTION_RESET, "ada" PAIR, 0, false, 9);
    add(WEIR_EXCEPTION_BAN, "ada", 0, false, 4);
    add(WEIR_EXCEPTION_RESET + 5, "ada" PAIR, 0, false, 5); /* so a weir of before resets ends nothing by one */
    assert_int_equal(look(follower, 1), 0);
    assert_true(is_banned(follower, "ada", NOW));
    assert_int_equal(mark_of(follower, "ada"), 9);
    assert_int_equal(follower->unknown, 1);
    assert_int_equal(follower->gone_back, 0);
    store.count = 0; /* back to a backup */
    add(WEIR_EXCEPTION_BAN, "ada", 0, false, 1);
    assert_int_equal(look(follower, 1), 0);
    assert_int_equal(follower->gone_back, 1);
    assert_int_equal(mark_of(follower, "ada"), 0);
    assert_int_equal(weir_excepted_keys_resets(follower->keys), 0);
    add(WEIR_EXCEPTION_RESET, "ada" PAIR, 0, false, 11); /* of the same number as before, and another counter */
    assert_int_equal(look(follower, 1), 0);
    assert_int_equal(mark_of(follower, "ada"), 11);
}

static void a_mark_is_of_the_id(void **state)
{
    (void)state;
    uint8_t id[WEIR_RULE_CHANGE_SIZE] = { 0, 0, 0, 0, 0, 0, 0, 1 };
    assert_int_equal(weir_exception_mark(id), UINT64_C(1) << 56);
    id[7] = 0;
    id[15] = 9;
    assert_true(weir_exception_mark(id) >= 2);
    id[0] = 1;
    assert_true(weir_exception_mark(id) >= 2);
}

static void what_is_damaged_changes_nothing(void **state)
{
    struct weir_exception_follower *follower = *state;
    add(WEIR_EXCEPTION_BAN, "ada", 0, false, 1);
    add(WEIR_EXCEPTION_UNBAN, "ada", 0, true, 2);
    assert_int_equal(look(follower, 1), 0);
    assert_true(is_banned(follower, "ada", NOW));
    assert_int_equal(follower->damaged, 1);
    assert_int_equal(follower->number, 2);
}

/* The history went back, and the store fails while all of it is read anew. */
static void a_reading_that_fails_is_begun_anew(void **state)
{
    struct weir_exception_follower *follower = *state;
    add(WEIR_EXCEPTION_BAN, "ada", 0, false, 1);
    add(WEIR_EXCEPTION_BAN, "bob", 0, false, 2);
    assert_int_equal(look(follower, 1), 0);
    store.count = 0;
    add(WEIR_EXCEPTION_BAN, "eve", 0, false, 3);
    add(WEIR_EXCEPTION_BAN, "joe", 0, false, 4);
    add(WEIR_EXCEPTION_BAN, "kim", 0, false, 5);
    store.fails_at = 3;
    assert_int_equal(look(follower, 1), WEIR_EDOWN);
    assert_int_equal(follower->number, 2);
    assert_true(is_banned(follower, "ada", NOW) && is_banned(follower, "bob", NOW));
    assert_false(is_banned(follower, "eve", NOW));
    store.fails_at = 0;
    assert_int_equal(look(follower, 1), 0);
    assert_false(is_banned(follower, "ada", NOW) || is_banned(follower, "bob", NOW));
    assert_true(is_banned(follower, "eve", NOW) && is_banned(follower, "joe", NOW) && is_banned(follower, "kim", NOW));
    assert_int_equal(follower->number, 3);
}

/* What was known last is not there any more: nor are those before it. */
static void a_log_that_was_emptied_bans_nobody(void **state)
{
    struct weir_exception_follower *follower = *state;
    add(WEIR_EXCEPTION_BAN, "ada", 0, false, 1);
    assert_int_equal(look(follower, 1), 0);
    assert_true(is_banned(follower, "ada", NOW));
    store.count = 0;
    assert_int_equal(look(follower, 1), 0);
    assert_false(is_banned(follower, "ada", NOW));
    assert_int_equal(follower->number, 0);
}

/* Another store, which was made of this one and ends with the same change: what is in it is not taken for known. */
static void another_store_is_read_anew(void **state)
{
    struct weir_exception_follower *follower = *state;
    add(WEIR_EXCEPTION_BAN, "ada", 0, false, 1);
    add(WEIR_EXCEPTION_BAN, "bob", 0, false, 2);
    assert_int_equal(look(follower, 1), 0);
    store.list[0].key = (struct weir_slice){ "eve", 3 };
    store.list[0].change[0] = 3;
    assert_int_equal(look(follower, 2), 0);
    assert_false(is_banned(follower, "ada", NOW));
    assert_true(is_banned(follower, "bob", NOW) && is_banned(follower, "eve", NOW));
}

/* There is no room for one more name: the key is not banned any more, and does not have the level yet. */
static void a_level_without_room_for_its_name_ends_the_ban(void **state)
{
    struct weir_exception_follower *follower = *state;
    for (unsigned i = 0; i < WEIR_EXCEPTED_KEYS_NAMES_MAX; i++) {
        char key[16], level[16];
        (void)snprintf(key, sizeof key, "k%u", i);
        (void)snprintf(level, sizeof level, "l%u", i);
        const uint64_t hash = weir_excepted_keys_hash(follower->keys, "api", (struct weir_slice){ key, strlen(key) });
        assert_int_equal(weir_excepted_keys_put(follower->keys, hash, level, 0, NOW), 0);
    }
    follower->known = true;
    follower->store[0] = 1;
    add(WEIR_EXCEPTION_BAN, "ada", 0, false, 1);
    assert_int_equal(look(follower, 1), 0);
    assert_true(is_banned(follower, "ada", NOW));
    follower->over = 1; /* else all is read anew for want of room */
    add(WEIR_EXCEPTION_LEVEL, "ada", 0, false, 2);
    store.list[1].level = "plus";
    assert_int_equal(look(follower, 1), 0);
    assert_int_equal(follower->over, 2);
    assert_false(is_banned(follower, "ada", NOW));
}

/* Somebody has removed changes from the store to make room there: who has no room for the next one reads all anew. */
static void who_is_full_reads_anew_once(void **state)
{
    struct weir_exception_follower *follower = *state;
    weir_excepted_keys_destroy(follower->keys);
    assert_int_equal(weir_excepted_keys_create(3, &follower->keys), 0);
    for (uint8_t i = 0; i < 3; i++)
        add(WEIR_EXCEPTION_BAN, (const char *[]){ "a", "b", "c" }[i], 0, false, i);
    assert_int_equal(look(follower, 1), 0);
    store.list[0] = store.list[2]; /* of its three the last one is left */
    store.count = 1;
    add(WEIR_EXCEPTION_BAN, "d", 0, false, 4);
    store.list[1].number = 4;
    store.fails_at = 2; /* at the first time it is not read to its end */
    assert_int_equal(look(follower, 1), WEIR_EDOWN);
    store.fails_at = 0;
    assert_int_equal(look(follower, 1), 0);
    assert_false(is_banned(follower, "a", NOW) || is_banned(follower, "b", NOW));
    assert_true(is_banned(follower, "c", NOW) && is_banned(follower, "d", NOW));
    assert_int_equal(follower->over, 0);
    for (uint8_t i = 0; i < 3; i++) { /* there are too many */
        add(WEIR_EXCEPTION_BAN, (const char *[]){ "e", "f", "g" }[i], 0, false, (uint8_t)(5 + i));
        store.list[2 + i].number = 5 + i;
    }
    assert_int_equal(look(follower, 1), 0);
    assert_int_equal(follower->over, 2);
    assert_true(is_banned(follower, "e", NOW));
    store.list[0] = store.list[1]; /* nor is it read anew for each that follows */
    assert_int_equal(look(follower, 1), 0);
    assert_true(is_banned(follower, "c", NOW));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_ban_holds_until_its_end),       TEST(a_level_takes_the_place_of_a_ban),
        TEST(a_reset_lies_beside_a_ban),       TEST(a_mark_is_of_the_id),
        TEST(what_is_damaged_changes_nothing), TEST(a_reading_that_fails_is_begun_anew),
        TEST(who_is_full_reads_anew_once),     TEST(a_log_that_was_emptied_bans_nobody),
        TEST(another_store_is_read_anew),      TEST(a_level_without_room_for_its_name_ends_the_ban),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
