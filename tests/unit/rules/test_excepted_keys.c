/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of keys with exceptions: random changes against a list, the bound, ends and stepped clocks, and threads
 * that ask while it is changed, grown and renewed. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "rules/excepted_keys.h"

#define HOUR (UINT64_C(3600) * WEIR_NS_PER_SECOND)

static struct weir_excepted_keys *make(size_t max)
{
    struct weir_excepted_keys *keys;
    assert_int_equal(weir_excepted_keys_create(max, &keys), 0);
    return keys;
}

static bool is_banned(const struct weir_excepted_keys *keys, uint64_t hash, uint64_t wall_ns)
{
    struct weir_excepted excepted;
    return weir_excepted_keys_find(keys, hash, wall_ns, &excepted) && !excepted.level;
}

/* NULL: none. */
static const char *level_of(const struct weir_excepted_keys *keys, uint64_t hash, uint64_t wall_ns)
{
    struct weir_excepted excepted;
    return weir_excepted_keys_find(keys, hash, wall_ns, &excepted) ? excepted.level : NULL;
}

static int ban(struct weir_excepted_keys *keys, uint64_t hash, uint64_t until_ns, uint64_t wall_ns)
{
    return weir_excepted_keys_put(keys, hash, NULL, until_ns, wall_ns);
}

static void nothing_is_banned_at_first(void **state)
{
    (void)state;
    struct weir_excepted_keys *keys = make(10);
    assert_false(weir_excepted_keys_any(keys));
    assert_false(is_banned(keys, 1, 1));
    weir_excepted_keys_remove(keys, 1);
    assert_int_equal(weir_excepted_keys_bytes(keys), 0);
    weir_excepted_keys_destroy(keys);
    weir_excepted_keys_destroy(NULL);
}

#define TICK ((uint64_t)WEIR_EXCEPTED_KEYS_TICK_NS)

static void a_ban_ends_when_it_says(void **state)
{
    (void)state;
    struct weir_excepted_keys *keys = make(10);
    struct weir_excepted excepted = { 0 };
    assert_int_equal(ban(keys, 0, 100 * TICK, 50), 0); /* 0 is a hash like any other */
    assert_true(weir_excepted_keys_find(keys, 0, 50, &excepted));
    assert_int_equal(excepted.left_ns, 100 * TICK - 50);
    assert_null(excepted.level);
    assert_true(is_banned(keys, 0, 100 * TICK - 1));
    assert_false(is_banned(keys, 0, 100 * TICK));
    assert_true(is_banned(keys, 0, 100 * TICK - 1)); /* the clock was set back */
    assert_int_equal(ban(keys, 0, 100 * TICK + 1, 50), 0);
    assert_true(is_banned(keys, 0, 101 * TICK - 1)); /* an end between two ticks is the later one */
    assert_false(is_banned(keys, 0, 101 * TICK));
    assert_int_equal(ban(keys, 0, 0, 100), 0);
    assert_true(weir_excepted_keys_find(keys, 0, UINT64_MAX - 1, &excepted));
    assert_int_equal(excepted.left_ns, WEIR_NEVER);
    assert_int_equal(ban(keys, 0, INT64_MAX, 100), 0); /* the last that a store has */
    assert_true(weir_excepted_keys_find(keys, 0, INT64_MAX - 1000, &excepted));
    assert_in_range(excepted.left_ns, 1000 - 2 * TICK, 1000);
    assert_int_equal(weir_excepted_keys_count(keys), 1);
    weir_excepted_keys_remove(keys, 0);
    assert_false(is_banned(keys, 0, 0));
    assert_false(weir_excepted_keys_any(keys));
    assert_int_equal(ban(keys, 0, 7, 1), 0);
    assert_true(is_banned(keys, 0, 6));
    weir_excepted_keys_destroy(keys);
}

static void a_key_has_a_ban_or_a_level(void **state)
{
    (void)state;
    struct weir_excepted_keys *keys = make(10);
    assert_int_equal(weir_excepted_keys_put(keys, 5, "plus", 0, 1), 0);
    assert_string_equal(level_of(keys, 5, 1), "plus");
    assert_false(is_banned(keys, 5, 1));
    assert_int_equal(weir_excepted_keys_levels(keys), 1);
    assert_int_equal(weir_excepted_keys_put(keys, 5, "low", 10 * TICK, 1), 0);
    assert_string_equal(level_of(keys, 5, 1), "low");
    assert_null(level_of(keys, 5, 10 * TICK)); /* has ended */
    assert_int_equal(weir_excepted_keys_put(keys, 6, "plus", 0, 1), 0);
    assert_int_equal(weir_excepted_keys_levels(keys), 2);
    assert_int_equal(ban(keys, 5, 0, 1), 0);
    assert_true(is_banned(keys, 5, 1));
    assert_int_equal(weir_excepted_keys_levels(keys), 1);
    assert_int_equal(weir_excepted_keys_count(keys), 2);
    weir_excepted_keys_remove(keys, 6);
    assert_int_equal(weir_excepted_keys_levels(keys), 0);
    assert_int_equal(weir_excepted_keys_names(keys), 2);
    assert_string_equal(weir_excepted_keys_name(keys, 2), "low");
    weir_excepted_keys_destroy(keys);
}

static void there_are_so_many_names_of_levels(void **state)
{
    (void)state;
    struct weir_excepted_keys *keys = make(1000);
    char name[16];
    for (int i = 1; i <= WEIR_EXCEPTED_KEYS_NAMES_MAX; i++) {
        (void)snprintf(name, sizeof name, "level-%d", i);
        assert_int_equal(weir_excepted_keys_put(keys, (uint64_t)i << 40, name, 0, 1), 0);
    }
    assert_int_equal(weir_excepted_keys_put(keys, UINT64_C(3) << 40, "one-more", 0, 1), WEIR_ELIMIT);
    assert_string_equal(level_of(keys, UINT64_C(3) << 40, 1), "level-3");
    assert_int_equal(weir_excepted_keys_put(keys, UINT64_C(3) << 40, "level-255", 0, 1), 0);
    assert_string_equal(level_of(keys, UINT64_C(3) << 40, 1), "level-255");
    assert_string_equal(level_of(keys, UINT64_C(255) << 40, 1), "level-255");
    weir_excepted_keys_destroy(keys);
}

static int reset(struct weir_excepted_keys *keys, uint64_t hash, uint64_t mark)
{
    return weir_excepted_keys_reset(keys, hash, mark, 1);
}

static void a_reset_lies_beside_what_else_holds(void **state)
{
    (void)state;
    struct weir_excepted_keys *keys = make(10);
    assert_int_equal(weir_excepted_keys_mark(keys, 5), 0);
    assert_int_equal(reset(keys, 5, UINT64_MAX), 0);
    assert_true(weir_excepted_keys_any(keys));
    assert_false(is_banned(keys, 5, 1));
    assert_null(level_of(keys, 5, 1));
    assert_int_equal(weir_excepted_keys_mark(keys, 5), UINT64_MAX);
    assert_int_equal(weir_excepted_keys_mark(keys, 6), 0);
    assert_int_equal(ban(keys, 5, 100 * TICK, 1), 0);
    assert_true(is_banned(keys, 5, 1));
    assert_int_equal(reset(keys, 5, 2), 0); /* the newest */
    assert_true(is_banned(keys, 5, 1));
    assert_int_equal(weir_excepted_keys_mark(keys, 5), 2);
    assert_int_equal(weir_excepted_keys_put(keys, 5, "plus", 0, 1), 0);
    weir_excepted_keys_remove(keys, 5);
    weir_excepted_keys_remove(keys, 5);
    assert_int_equal(weir_excepted_keys_mark(keys, 5), 2); /* for good */
    assert_true(weir_excepted_keys_any(keys));
    assert_int_equal(weir_excepted_keys_resets(keys), 1);
    assert_int_equal(weir_excepted_keys_count(keys), 0);
    assert_int_equal(weir_excepted_keys_levels(keys), 0);
    weir_excepted_keys_begin(keys); /* of a store that went back to a backup from before it */
    assert_int_equal(ban(keys, 6, 0, 1), 0);
    assert_int_equal(weir_excepted_keys_mark(keys, 5), 2);
    weir_excepted_keys_commit(keys);
    assert_int_equal(weir_excepted_keys_mark(keys, 5), 0);
    assert_int_equal(weir_excepted_keys_resets(keys), 0);
    weir_excepted_keys_destroy(keys);
}

static void resets_share_the_room(void **state)
{
    (void)state;
    struct weir_excepted_keys *keys = make(4);
    assert_int_equal(ban(keys, 1, 100 * TICK, 1), 0);
    assert_int_equal(ban(keys, 2, 0, 1), 0);
    assert_int_equal(reset(keys, 1, 7), 0);
    assert_int_equal(reset(keys, 3, 7), 0);
    assert_int_equal(reset(keys, 4, 7), WEIR_ELIMIT);
    assert_int_equal(weir_excepted_keys_mark(keys, 4), 0);
    assert_int_equal(ban(keys, 4, 0, 1), WEIR_ELIMIT);
    assert_int_equal(reset(keys, 3, 8), 0); /* is there: none more */
    assert_int_equal(weir_excepted_keys_mark(keys, 3), 8);
    assert_int_equal(ban(keys, 2, 0, 1), 0);
    assert_int_equal(weir_excepted_keys_reset(keys, 4, 9, 100 * TICK), 0); /* what has ended makes room */
    assert_int_equal(weir_excepted_keys_count(keys), 1);
    assert_int_equal(weir_excepted_keys_resets(keys), 3);
    assert_int_equal(weir_excepted_keys_reset(keys, 5, 9, 100 * TICK), WEIR_ELIMIT);
    weir_excepted_keys_remove(keys, 2);
    assert_int_equal(reset(keys, 5, 9), 0);
    assert_int_equal(ban(keys, 2, 0, 1), WEIR_ELIMIT);
    weir_excepted_keys_destroy(keys);
}

static void a_stored_key_and_its_parts_have_one_hash(void **state)
{
    (void)state;
    struct weir_excepted_keys *keys = make(10);
    struct weir_siphash_state sip;
    static const char stored[] = "4:user,12:ada lovelace,2:ip,0:,";
    weir_excepted_keys_hash_start(keys, "api", &sip);
    weir_excepted_keys_hash_add(&sip, (struct weir_slice){ "user", 4 });
    weir_excepted_keys_hash_add(&sip, (struct weir_slice){ "ada lovelace", 12 });
    weir_excepted_keys_hash_add(&sip, (struct weir_slice){ "ip", 2 });
    weir_excepted_keys_hash_add(&sip, (struct weir_slice){ NULL, 0 });
    uint64_t hash = weir_excepted_keys_hash_end(&sip);
    assert_int_equal(weir_excepted_keys_hash(keys, "api", (struct weir_slice){ stored, sizeof stored - 1 }), hash);
    assert_int_not_equal(weir_excepted_keys_hash(keys, "apj", (struct weir_slice){ stored, sizeof stored - 1 }), hash);
    uint8_t secret[WEIR_EXCEPTED_KEYS_SECRET_SIZE];
    struct weir_excepted_keys *other = make(10);
    assert_int_not_equal(weir_excepted_keys_hash(other, "api", (struct weir_slice){ stored, sizeof stored - 1 }), hash);
    weir_excepted_keys_secret(keys, secret);
    weir_excepted_keys_use_secret(other, secret);
    assert_int_equal(weir_excepted_keys_hash(other, "api", (struct weir_slice){ stored, sizeof stored - 1 }), hash);
    weir_excepted_keys_destroy(other);
    weir_excepted_keys_destroy(keys);
}

static void at_the_bound_those_that_have_ended_make_room(void **state)
{
    (void)state;
    struct weir_excepted_keys *keys = make(2000);
    for (uint64_t i = 0; i < 2000; i++)
        assert_int_equal(ban(keys, i << 50, i == 7 ? 100 * TICK : 0, 50), 0);
    assert_int_equal(ban(keys, 1, 0, 99 * TICK), WEIR_ELIMIT);
    assert_false(is_banned(keys, 1, 99 * TICK));
    assert_int_equal(ban(keys, UINT64_C(8) << 50, 70 * TICK, 99 * TICK), 0); /* is there: none more */
    assert_int_equal(ban(keys, UINT64_C(8) << 50, 0, 99 * TICK), 0);
    assert_int_equal(ban(keys, 1, 0, 100 * TICK), 0);
    assert_true(is_banned(keys, 1, 100 * TICK));
    assert_int_equal(ban(keys, 2, 0, 100 * TICK), WEIR_ELIMIT);
    weir_excepted_keys_remove(keys, 1);
    assert_int_equal(ban(keys, 2, 0, 100 * TICK), 0);
    assert_int_equal(ban(keys, 1, 0, 100 * TICK), WEIR_ELIMIT); /* its slot is there, room is not */
    assert_int_equal(weir_excepted_keys_count(keys), 2000);
    weir_excepted_keys_destroy(keys);
}

static void a_million_take_less_than_64_bytes_each(void **state)
{
    (void)state;
    const size_t count = test_effort(20000, 1000000, 1000000);
    struct weir_excepted_keys *keys = make(count);
    struct test_random random = { 1 };
    for (size_t i = 0; i < count; i++)
        assert_int_equal(ban(keys, test_random_u64(&random), 0, 1), 0);
    assert_int_equal(weir_excepted_keys_count(keys), count);
    print_message("%zu bytes for %zu bans\n", weir_excepted_keys_bytes(keys), count);
    assert_true(weir_excepted_keys_bytes(keys) <= 46 * count);
    random.state = 1;
    for (size_t i = 0; i < count; i++)
        assert_true(is_banned(keys, test_random_u64(&random), 1));
    weir_excepted_keys_destroy(keys);
}

/* ---- against a list ---- */

#define KEYS 3000

/* As a list has it: 1 more than the end, 0 = nothing; and the level, 0 = a ban. */
struct listed {
    uint64_t end;
    int level;
};
static struct listed listed[KEYS], renewed[KEYS];
static uint64_t marks[KEYS], renewed_marks[KEYS]; /* of resets */
static const char *const names[] = { NULL, "plus", "low", "high" };

static bool holds(const struct listed *one, uint64_t wall_ns)
{
    return one->end > 0 && (one->end == 1 || (one->end - 1 + TICK - 1) / TICK * TICK > wall_ns);
}

static void expect_as_listed(const struct weir_excepted_keys *keys, uint64_t wall_ns)
{
    for (uint64_t i = 0; i < KEYS; i++) {
        struct weir_excepted excepted = { .level = NULL };
        const bool found = weir_excepted_keys_find(keys, i * UINT64_C(0x9e3779b97f4a7c15), wall_ns, &excepted);
        assert_int_equal(found, holds(&listed[i], wall_ns));
        assert_int_equal(weir_excepted_keys_mark(keys, i * UINT64_C(0x9e3779b97f4a7c15)), marks[i]);
        assert_int_equal(found && excepted.level, found && listed[i].level > 0);
        if (found && excepted.level)
            assert_string_equal(excepted.level, names[listed[i].level]);
    }
}

static void expect_list(const struct weir_excepted_keys *keys, uint64_t wall_ns)
{
    struct weir_excepted_key list[7];
    size_t at = 0, count, whole = 0, holding = 0, levels = 0;
    while ((count = weir_excepted_keys_list(keys, &at, list, 7)) > 0)
        for (size_t i = 0; i < count; i++, whole++) {
            struct weir_excepted excepted = { .level = NULL };
            assert_int_equal(weir_excepted_keys_find(keys, list[i].hash, wall_ns, &excepted),
                             list[i].until_ns == 0 || list[i].until_ns > wall_ns);
            levels += list[i].level > 0;
            if (excepted.level)
                assert_string_equal(excepted.level, weir_excepted_keys_name(keys, list[i].level));
        }
    size_t resets = 0;
    for (size_t i = 0; i < KEYS; i++) {
        holding += holds(&listed[i], wall_ns);
        resets += marks[i] > 0;
    }
    assert_int_equal(weir_excepted_keys_resets(keys), resets);
    uint64_t hash, mark;
    for (at = 0; weir_excepted_keys_list_reset(keys, &at, &hash, &mark); resets--)
        assert_int_equal(weir_excepted_keys_mark(keys, hash), mark);
    assert_int_equal(resets, 0);
    assert_int_equal(whole, weir_excepted_keys_count(keys));
    assert_int_equal(levels, weir_excepted_keys_levels(keys));
    assert_true(whole >= holding);
}

static void random_changes_are_as_in_a_list(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct weir_excepted_keys *keys = make(2 * KEYS);
    const int rounds = (int)test_effort(4000, 40000, 400000);
    uint64_t wall_ns = 2 * HOUR;
    bool renewing = false;
    memset(listed, 0, sizeof listed);
    memset(marks, 0, sizeof marks);
    for (int round = 0; round < rounds; round++) {
        struct listed *list = renewing ? renewed : listed;
        uint64_t i = test_random_below(&random, KEYS);
        uint64_t hash = i * UINT64_C(0x9e3779b97f4a7c15), what = test_random_below(&random, 1000);
        if (what < 200) {
            uint64_t *own = renewing ? &renewed_marks[i] : &marks[i];
            *own = test_random_u64(&random) | 2;
            assert_int_equal(weir_excepted_keys_reset(keys, hash, *own, wall_ns), 0);
        } else if (what < 700) {
            uint64_t until_ns = test_random_below(&random, 3) == 0 ? 0 : wall_ns + test_random_below(&random, HOUR);
            const int level = (int)test_random_below(&random, 4);
            assert_int_equal(weir_excepted_keys_put(keys, hash, names[level], until_ns, wall_ns), 0);
            list[i] = (struct listed){ until_ns + 1, level };
        } else if (what < 990) {
            weir_excepted_keys_remove(keys, hash);
            list[i] = (struct listed){ 0 };
        } else if (!renewing) {
            weir_excepted_keys_begin(keys);
            memset(renewed, 0, sizeof renewed);
            memset(renewed_marks, 0, sizeof renewed_marks);
            renewing = true;
        } else {
            if (what < 995) {
                weir_excepted_keys_commit(keys);
                memcpy(listed, renewed, sizeof listed);
                memcpy(marks, renewed_marks, sizeof marks);
            } else {
                weir_excepted_keys_abandon(keys);
            }
            renewing = false;
        }
        wall_ns += test_random_below(&random, HOUR / 1000);
        if (round % 400 == 0)
            expect_as_listed(keys, wall_ns);
        if (round % 4000 == 0)
            expect_list(keys, wall_ns);
    }
    expect_as_listed(keys, wall_ns);
    if (renewing)
        weir_excepted_keys_abandon(keys);
    weir_excepted_keys_destroy(keys);
}

/* ---- threads ---- */

struct asker {
    pthread_t thread;
    const struct weir_excepted_keys *keys;
    _Atomic bool *stop;
    uint64_t wrong, asked;
};

/* What is always banned is found at each moment, and what never is, never; whatever happens around. */
static void *asker_main(void *argument)
{
    struct asker *asker = argument;
    while (!atomic_load(asker->stop) || asker->asked < 1000) {
        uint64_t i = asker->asked++ % 50;
        const char *level = level_of(asker->keys, i * UINT64_C(0x9e3779b97f4a7c15), 1);
        asker->wrong += i % 3 ? !is_banned(asker->keys, i * UINT64_C(0x9e3779b97f4a7c15), 1)
                              : !level || strcmp(level, i % 2 ? "plus" : "low") != 0;
        asker->wrong += weir_excepted_keys_mark(asker->keys, i * UINT64_C(0x9e3779b97f4a7c15)) != i + 2;
        asker->wrong += weir_excepted_keys_mark(asker->keys, (1000000 + i) * UINT64_C(0x9e3779b97f4a7c15)) != 0;
        asker->wrong += is_banned(asker->keys, (1000000 + i) * UINT64_C(0x9e3779b97f4a7c15), 1);
    }
    return NULL;
}

static void put_all(struct weir_excepted_keys *keys)
{
    for (uint64_t i = 0; i < 50; i++)
        assert_int_equal(reset(keys, i * UINT64_C(0x9e3779b97f4a7c15), i + 2), 0);
    for (uint64_t i = 0; i < 50; i++)
        assert_int_equal(weir_excepted_keys_put(keys, i * UINT64_C(0x9e3779b97f4a7c15),
                                                i % 3   ? NULL
                                                : i % 2 ? "plus"
                                                        : "low",
                                                i % 2 ? 0 : 1000, 1),
                         0);
}

static void who_asks_meanwhile_is_never_wrong(void **state)
{
    (void)state;
    struct weir_excepted_keys *keys = make(100000);
    struct asker askers[3];
    _Atomic bool stop = false;
    const int rounds = (int)test_effort(6, 40, 400);
    put_all(keys);
    for (size_t i = 0; i < 3; i++) {
        askers[i] = (struct asker){ .keys = keys, .stop = &stop };
        assert_int_equal(pthread_create(&askers[i].thread, NULL, asker_main, &askers[i]), 0);
    }
    for (int round = 0; round < rounds; round++) {
        for (uint64_t i = 100; i < 6000; i++) /* grows */
            assert_int_equal(i % 2 ? ban(keys, i * UINT64_C(0x9e3779b97f4a7c15), 0, 1)
                                   : reset(keys, i * UINT64_C(0x9e3779b97f4a7c15), i),
                             0);
        put_all(keys);
        for (uint64_t i = 100; i < 6000; i++)
            weir_excepted_keys_remove(keys, i * UINT64_C(0x9e3779b97f4a7c15));
        weir_excepted_keys_begin(keys);
        put_all(keys);
        weir_excepted_keys_commit(keys); /* a small one again, and the large one is shelved */
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 3; i++) {
        pthread_join(askers[i].thread, NULL);
        assert_int_equal(askers[i].wrong, 0);
        assert_true(askers[i].asked >= 1000);
    }
    weir_excepted_keys_destroy(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_banned_at_first),
        cmocka_unit_test(a_ban_ends_when_it_says),
        cmocka_unit_test(a_key_has_a_ban_or_a_level),
        cmocka_unit_test(there_are_so_many_names_of_levels),
        cmocka_unit_test(a_reset_lies_beside_what_else_holds),
        cmocka_unit_test(resets_share_the_room),
        cmocka_unit_test(a_stored_key_and_its_parts_have_one_hash),
        cmocka_unit_test(at_the_bound_those_that_have_ended_make_room),
        cmocka_unit_test(a_million_take_less_than_64_bytes_each),
        cmocka_unit_test(random_changes_are_as_in_a_list),
        cmocka_unit_test(who_asks_meanwhile_is_never_wrong),
    };
    return cmocka_run_group_tests_name("excepted_keys", tests, NULL, NULL);
}
