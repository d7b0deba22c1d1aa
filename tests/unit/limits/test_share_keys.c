/* SPDX-License-Identifier: Apache-2.0
 *
 * limits/share_keys and share_key: the table of a share host's keys, when each is woken, and which terms it follows. */
#include "fixture.h"
#include "limits/share_keys.h"
#include "random.h"

static struct weir_share_key key_of(uint64_t number)
{
    return (struct weir_share_key){ .leased = true, .key = { .id = { number, 1 } } };
}

static const struct weir_remote_limit *shared_limit(uint64_t count)
{
    const struct weir_limit_spec spec = { .count = count, .period_ns = MINUTE };
    const struct weir_remote_limit *limit = NULL;
    assert_int_equal(weir_remote_limit_create("api", 0, 0, &spec, &limit, NULL), 0);
    return limit;
}

static void who_has_left_is_not_found(void **state)
{
    (void)state;
    struct weir_share_keys keys;
    struct weir_share_key one = key_of(1), two = key_of(1 + 64); /* of one bucket */
    assert_int_equal(weir_share_keys_init(&keys, 64, 4), 0);
    weir_share_keys_insert(&keys, &one);
    weir_share_keys_insert(&keys, &two);
    assert_ptr_equal(weir_share_keys_find(&keys, &one.key), &one);
    weir_share_keys_leave(&keys, &one);
    assert_null(weir_share_keys_find(&keys, &one.key));
    assert_ptr_equal(weir_share_keys_find(&keys, &two.key), &two);
    weir_share_keys_leave(&keys, &two);
    assert_null(weir_share_keys_find(&keys, &two.key));
    assert_int_equal(keys.count, 0);
    weir_share_keys_remove(&keys, &one);
    weir_share_keys_remove(&keys, &two);
    weir_share_keys_deinit(&keys);
}

/* It is looked for among those that have left, whatever it becomes. */
static void who_has_left_may_become_idle(void **state)
{
    (void)state;
    struct weir_share_keys keys;
    struct weir_share_key key = key_of(1);
    assert_int_equal(weir_share_keys_init(&keys, 64, 4), 0);
    weir_share_keys_insert(&keys, &key);
    weir_share_keys_leave(&keys, &key);
    weir_share_keys_set_idle(&keys, &key, true);
    assert_true(key.idle);
    assert_ptr_equal(keys.gone.first, &key);
    assert_null(keys.idle.first);
    weir_share_keys_remove(&keys, &key);
    assert_null(keys.gone.first);
    weir_share_keys_deinit(&keys);
}

/* A look at a key shows what a reservation would, and leaves all as it is. */
static void a_look_changes_nothing(void **state)
{
    (void)state;
    const struct weir_remote_limit *limit = shared_limit(10);
    const struct weir_share_terms terms = { .limit = limit, .slack = 5, .interval_ns = SECOND, .deadline_ns = MS };
    struct weir_share_key key = { .leased = false };
    struct weir_share_effects effects = { .say = WEIR_SHARE_NOTHING };
    weir_batched_init(&key.as.batched.machine, 1);
    weir_share_key_follow(&key, &terms);
    const struct weir_batched before = key.as.batched.machine;
    weir_share_key_look(&key, 1, SECOND, &effects);
    assert_int_equal(effects.say, WEIR_SHARE_WAIT);
    weir_share_key_look(&key, 11, SECOND, &effects);
    assert_int_equal(effects.say, WEIR_SHARE_NO);
    assert_memory_equal(&key.as.batched.machine, &before, sizeof before);
    weir_remote_limit_drop(key.limit);
    weir_remote_limit_drop(limit);
}

static void who_wants_to_be_woken_earlier_is(void **state)
{
    (void)state;
    struct weir_share_keys keys;
    struct weir_share_key key = key_of(1);
    assert_int_equal(weir_share_keys_init(&keys, 64, 4), 0);
    weir_share_keys_insert(&keys, &key);
    key.wake_ns = 100;
    weir_share_keys_wake(&keys, &key);
    key.wake_ns = 50;
    weir_share_keys_wake(&keys, &key);
    assert_int_equal(weir_share_keys_next_ns(&keys), 50);
    assert_null(weir_share_keys_due(&keys, 49));
    key.wake_ns = 200; /* later: it is not looked for before then */
    weir_share_keys_wake(&keys, &key);
    assert_null(weir_share_keys_due(&keys, 199));
    assert_ptr_equal(weir_share_keys_due(&keys, 200), &key);
    assert_int_equal(weir_share_keys_next_ns(&keys), WEIR_NEVER);
    weir_share_keys_leave(&keys, &key);
    weir_share_keys_remove(&keys, &key);
    weir_share_keys_deinit(&keys);
}

static void a_key_follows_each_of_its_terms(void **state)
{
    (void)state;
    const struct weir_remote_limit *limit = shared_limit(10), *other = shared_limit(20);
    for (int leased = 0; leased < 2; leased++) {
        const struct weir_share_terms terms = { .limit = limit,
                                                .leased = leased,
                                                .slack = 5,
                                                .interval_ns = 100 * MS,
                                                .chunk_ttl_ns = 2 * SECOND,
                                                .deadline_ns = 20 * MS };
        struct weir_share_terms now[5] = { terms, terms, terms, terms, terms };
        struct weir_share_key key = { .leased = leased };
        if (leased)
            weir_leased_init(&key.as.leased.machine, 1);
        else
            weir_batched_init(&key.as.batched.machine, 1);
        weir_share_key_follow(&key, &terms);
        assert_true(weir_share_key_follows(&key, &terms));
        assert_in_range(leased ? key.as.leased.options.lost_ns : key.as.batched.options.lost_ns, terms.deadline_ns + 1,
                        terms.deadline_ns + SECOND); /* whoever is asked says so first */
        now[0].limit = other;
        now[1].deadline_ns++;
        now[2].chunk_ttl_ns++;
        now[3].slack++;
        now[4].interval_ns++;
        for (int i = 0; i < 5; i++)
            assert_int_equal(weir_share_key_follows(&key, &now[i]), i == 2 ? !leased : i > 2 ? leased : false);
        weir_remote_limit_drop(key.limit);
    }
    weir_remote_limit_drop(limit);
    weir_remote_limit_drop(other);
}

/* What a node has leased is its own, whatever the limit becomes. */
static void another_limit_leaves_what_is_leased(void **state)
{
    (void)state;
    const struct weir_remote_limit *limit = shared_limit(10), *other = shared_limit(20);
    const struct weir_share_terms terms = { .limit = limit, .leased = true, .chunk_ttl_ns = SECOND, .deadline_ns = MS };
    struct weir_share_terms changed = terms;
    struct weir_share_key key = { .leased = true };
    changed.limit = other;
    memset(&key.as.leased.machine, 0x5a, sizeof key.as.leased.machine);
    const struct weir_leased before = key.as.leased.machine;
    weir_share_key_follow(&key, &terms);
    weir_share_key_follow(&key, &changed);
    assert_memory_equal(&key.as.leased.machine, &before, sizeof before);
    assert_int_equal(key.as.leased.options.capacity, 20);
    weir_remote_limit_drop(key.limit);
    weir_remote_limit_drop(limit);
    weir_remote_limit_drop(other);
}

/* What the engine said was of the limit before. Another slack is no other limit. */
static void another_limit_makes_the_engines_word_void(void **state)
{
    (void)state;
    const struct weir_remote_limit *limit = shared_limit(10), *other = shared_limit(20);
    struct weir_share_terms terms = { .limit = limit, .slack = 5, .interval_ns = 100 * MS, .deadline_ns = 20 * MS };
    struct weir_share_key key = { .leased = false };
    weir_batched_init(&key.as.batched.machine, 1);
    weir_share_key_follow(&key, &terms);
    key.as.batched.machine.heard_ns = T0;
    terms.slack = 6;
    weir_share_key_follow(&key, &terms);
    assert_int_equal(key.as.batched.machine.heard_ns, T0);
    terms.limit = other;
    weir_share_key_follow(&key, &terms);
    assert_int_equal(key.as.batched.machine.heard_ns, 0);
    assert_ptr_equal(key.limit, other);
    weir_remote_limit_drop(key.limit);
    weir_remote_limit_drop(limit);
    weir_remote_limit_drop(other);
}

/* A reload keeps some limits, whose keys come in any order, used or idle. */
static void who_is_of_a_limit_that_went_is_unwanted(void **state)
{
    (void)state;
    enum { KEYS = 12 };
    static const char *const all[] = { "a", "b", "c" };
    const struct weir_limit_spec spec = { .count = 10, .period_ns = MINUTE };
    const char *kept[] = { "c", "a" };
    const struct weir_remote_limit *limits[3];
    struct weir_share_keys keys;
    struct weir_share_key key[KEYS];
    assert_int_equal(weir_share_keys_init(&keys, 64, 4), 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(weir_remote_limit_create(all[i], 0, 0, &spec, &limits[i], NULL), 0);
    for (uint64_t i = 0; i < KEYS; i++) {
        key[i] = key_of(i);
        key[i].limit = limits[i % 3];
        weir_share_keys_insert(&keys, &key[i]);
        weir_share_keys_set_idle(&keys, &key[i], i >= KEYS / 2);
    }
    weir_share_keys_keep(&keys, kept, 2);
    for (uint64_t i = 0; i < KEYS; i++)
        assert_int_equal(key[i].unwanted, i % 3 == 1);
    weir_share_keys_keep(&keys, kept, 0);
    for (uint64_t i = 0; i < KEYS; i++)
        assert_true(key[i].unwanted);
    weir_share_keys_keep(&keys, (const char *[]){ "b" }, 1); /* one that comes back is wanted again */
    for (uint64_t i = 0; i < KEYS; i++)
        assert_int_equal(key[i].unwanted, i % 3 != 1);
    for (size_t i = 0; i < 3; i++)
        weir_remote_limit_drop(limits[i]);
    weir_share_keys_deinit(&keys);
}

/* ---- against a list ---- */

enum { MODEL_KEYS = 14, MODEL_ROOM = 8, MODEL_GONE = 6 };
enum where { OUT, IN, GONE };

struct model {
    struct weir_share_key key;
    enum where where;
    uint64_t used; /* the later, the greater */
    bool busy;     /* in the middle of a request */
};

/* Of the idle ones the longest unused, else of the others. */
static struct weir_share_key *slow_victim(struct model *all)
{
    for (int idle = 1; idle >= 0; idle--) {
        struct model *best = NULL;
        for (size_t i = 0; i < MODEL_KEYS; i++)
            if (all[i].where == IN && all[i].key.idle == idle && !all[i].busy && (!best || all[i].used < best->used))
                best = &all[i];
        if (best)
            return &best->key;
    }
    return NULL;
}

static void check_model(struct weir_share_keys *keys, struct model *all)
{
    size_t in = 0, gone = 0;
    for (size_t i = 0; i < MODEL_KEYS; i++) {
        struct weir_share_key *key = &all[i].key;
        in += all[i].where == IN;
        gone += all[i].where == GONE;
        assert_ptr_equal(weir_share_keys_find(keys, &key->key), all[i].where == IN ? key : NULL);
        for (int leased = 0; leased < 2; leased++)
            assert_ptr_equal(weir_share_keys_find_gone(keys, &key->key, leased),
                             all[i].where == GONE && key->leased == leased ? key : NULL);
    }
    assert_int_equal(keys->count, in);
    assert_int_equal(keys->gone_count, gone);
    assert_ptr_equal(weir_share_keys_victim(keys), slow_victim(all));
}

static void keys__that_come_leave_and_return_are_found_as_a_list_finds_them(void **state)
{
    (void)state;
    struct weir_share_keys keys;
    struct model all[MODEL_KEYS];
    struct test_random random = { test_random_seed() };
    memset(all, 0, sizeof all);
    assert_int_equal(weir_share_keys_init(&keys, MODEL_ROOM, MODEL_GONE), 0);
    for (size_t i = 0; i < MODEL_KEYS; i++)
        all[i].key = (struct weir_share_key){ .leased = i % 2, .key = { .id = { i / 3, i % 3 } } };
    for (uint64_t step = 1; step < 30000; step++) {
        struct model *one = &all[test_random_below(&random, MODEL_KEYS)];
        struct weir_share_key *key = &one->key;
        uint64_t what = test_random_below(&random, 6);
        if (one->where != OUT && what == 0) { /* also of one that has left: it is so when it comes back */
            bool idle = test_random_below(&random, 2);
            if (key->idle != idle && one->where == IN)
                one->used = step;
            weir_share_keys_set_idle(&keys, key, idle);
            assert_int_equal(key->idle, idle);
        } else if (one->where == IN && what == 1) {
            weir_share_keys_touch(&keys, key);
            one->used = step;
        } else if (one->where == IN && what == 2) {
            one->busy = !one->busy;
            key->users = one->busy;
        } else if (one->where == IN && what == 3 && keys.gone_count < MODEL_GONE) {
            weir_share_keys_leave(&keys, key);
            one->where = GONE;
        } else if (one->where == GONE && what == 4) {
            key->users = one->busy = false;
            weir_share_keys_remove(&keys, key);
            key->gone = key->idle = false;
            one->where = OUT;
        } else if (one->where != IN && what == 5 && keys.count < MODEL_ROOM) {
            if (one->where == GONE)
                weir_share_keys_return(&keys, key);
            else
                weir_share_keys_insert(&keys, key);
            one->where = IN;
            one->used = step;
        }
        check_model(&keys, all);
    }
    for (size_t i = 0; i < MODEL_KEYS; i++) {
        all[i].key.users = 0;
        if (all[i].where == IN)
            weir_share_keys_leave(&keys, &all[i].key);
        if (all[i].where != OUT)
            weir_share_keys_remove(&keys, &all[i].key);
    }
    assert_int_equal(keys.gone_count, 0);
    weir_share_keys_deinit(&keys);
}

/* All that are in the table and all that have left it, at once: each in its turn. */
static void as_many_as_there_may_be_are_woken(void **state)
{
    enum { MOST = 3, LEFT = 2 };
    (void)state;
    struct weir_share_keys keys;
    struct weir_share_key all[MOST + LEFT];
    assert_int_equal(weir_share_keys_init(&keys, MOST, LEFT), 0);
    for (uint64_t i = 0; i < MOST + LEFT; i++) {
        all[i] = key_of(i);
        weir_share_keys_insert(&keys, &all[i]);
        all[i].wake_ns = SECOND * (MOST + LEFT - i);
        weir_share_keys_wake(&keys, &all[i]);
        if (i < LEFT)
            weir_share_keys_leave(&keys, &all[i]);
    }
    assert_int_equal(keys.count, MOST);
    assert_int_equal(keys.gone_count, LEFT);
    for (uint64_t i = MOST + LEFT; i-- > 0;) {
        assert_null(weir_share_keys_due(&keys, all[i].wake_ns - 1));
        assert_ptr_equal(weir_share_keys_due(&keys, all[i].wake_ns), &all[i]);
    }
    weir_share_keys_deinit(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys__that_come_leave_and_return_are_found_as_a_list_finds_them),
        cmocka_unit_test(who_has_left_is_not_found),
        cmocka_unit_test(who_has_left_may_become_idle),
        cmocka_unit_test(a_look_changes_nothing),
        cmocka_unit_test(who_wants_to_be_woken_earlier_is),
        cmocka_unit_test(a_key_follows_each_of_its_terms),
        cmocka_unit_test(another_limit_leaves_what_is_leased),
        cmocka_unit_test(another_limit_makes_the_engines_word_void),
        cmocka_unit_test(as_many_as_there_may_be_are_woken),
        cmocka_unit_test(who_is_of_a_limit_that_went_is_unwanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
