/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node keeps of exceptions for a start without the store: bans and levels come back as they were, the form that
 * had bans alone is read, and what is none of weir's, or is cut, is told and takes nothing over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "random.h"
#include "serve/exception_follower.h"

#define KEYS 2000
#define MANY ((uint64_t)WEIR_EXCEPTIONS_MAX / 2)
#define NOW UINT64_C(1000000000)

static const char *const names[] = { NULL, "plus", "low", "a-level-of-the-longest-name.32-b" };

static struct weir_exception_follower follower_make(void)
{
    struct weir_exception_follower follower;
    assert_int_equal(weir_exception_follower_init(&follower), 0);
    return follower;
}

static void expect_same(const struct weir_exception_follower *a, const struct weir_exception_follower *b)
{
    for (uint64_t i = 0; i < KEYS; i++) {
        struct weir_excepted one = { .level = NULL }, other = { .level = NULL };
        const uint64_t hash = i * UINT64_C(0x9e3779b97f4a7c15);
        assert_int_equal(weir_excepted_keys_find(a->keys, hash, NOW, &one),
                         weir_excepted_keys_find(b->keys, hash, NOW, &other));
        assert_int_equal(one.left_ns, other.left_ns);
        assert_int_equal(weir_excepted_keys_mark(a->keys, hash), weir_excepted_keys_mark(b->keys, hash));
        assert_int_equal(one.level == NULL, other.level == NULL);
        if (one.level)
            assert_string_equal(one.level, other.level);
    }
    assert_int_equal(weir_excepted_keys_count(a->keys), weir_excepted_keys_count(b->keys));
    assert_int_equal(weir_excepted_keys_levels(a->keys), weir_excepted_keys_levels(b->keys));
    assert_int_equal(weir_excepted_keys_resets(a->keys), weir_excepted_keys_resets(b->keys));
}

/* The file's version; 0: it is none. */
static int version_of(const char *path)
{
    static const char magic[] = "weir-exceptions ";
    static char text[4096];
    FILE *file = fopen(path, "rbe");
    assert_non_null(file);
    const size_t size = fread(text, 1, sizeof text, file);
    assert_int_equal(fclose(file), 0);
    const char *at = memmem(text, size, magic, sizeof magic - 1);
    return at ? at[sizeof magic - 1] - '0' : 0;
}

/* They are kept in the order of their hashes, in which a table that grew with them would take minutes. */
static void a_million_come_back(void **state)
{
    (void)state;
    struct weir_exception_follower kept = follower_make(), loaded = follower_make();
    struct weir_fault fault = { 0 };
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/weir-exception-kept-%d", (int)getpid());
    for (uint64_t i = 0; i < MANY; i++) {
        const uint64_t hash = i * UINT64_C(0x9e3779b97f4a7c15);
        assert_int_equal(weir_excepted_keys_put(kept.keys, hash, NULL, 0, NOW), 0);
        assert_int_equal(weir_excepted_keys_reset(kept.keys, ~hash, i + 2, NOW), 0);
    }
    kept.number = 2 * MANY;
    assert_int_equal(weir_exception_follower_keep(&kept, path, &fault), 0);
    assert_int_equal(weir_exception_follower_load(&loaded, path, NOW, &fault), 0);
    expect_same(&kept, &loaded);
    for (uint64_t i = 0; i < MANY; i++)
        assert_int_equal(weir_excepted_keys_mark(loaded.keys, ~(i * UINT64_C(0x9e3779b97f4a7c15))), i + 2);
    weir_exception_follower_deinit(&kept);
    weir_exception_follower_deinit(&loaded);
    (void)unlink(path);
}

static void comes_back(bool resets)
{
    struct test_random random = { test_random_seed() };
    struct weir_exception_follower kept = follower_make(), loaded = follower_make();
    struct weir_fault fault = { 0 };
    char path[64];
    uint8_t secrets[2][WEIR_EXCEPTED_KEYS_SECRET_SIZE];
    (void)snprintf(path, sizeof path, "/tmp/weir-exception-kept-%d", (int)getpid());
    for (uint64_t i = 0; i < KEYS; i++) {
        const uint64_t until_ns = test_random_below(&random, 2) ? 0 : NOW + test_random_below(&random, NOW);
        if (test_random_below(&random, 3) > 0)
            assert_int_equal(weir_excepted_keys_put(kept.keys, i * UINT64_C(0x9e3779b97f4a7c15),
                                                    names[test_random_below(&random, 4)], until_ns, NOW),
                             0);
        if (resets && test_random_below(&random, 3) == 0)
            assert_int_equal(weir_excepted_keys_reset(kept.keys, i * UINT64_C(0x9e3779b97f4a7c15),
                                                      test_random_u64(&random) | 2, NOW),
                             0);
    }
    kept.number = 4711;
    memset(kept.change, 5, sizeof kept.change);
    memset(kept.store, 6, sizeof kept.store);
    assert_int_equal(weir_exception_follower_keep(&kept, path, &fault), 0);
    assert_int_equal(version_of(path), resets ? 3 : 2); /* a weir of before resets reads the second */
    weir_exception_follower_expect(&loaded, path, (const uint8_t[WEIR_RULE_CHANGE_SIZE]){ 7 });
    assert_int_equal(loaded.expected, 0);
    weir_exception_follower_expect(&loaded, path, kept.store);
    assert_int_equal(loaded.expected, 4711);
    assert_int_equal(weir_exception_follower_load(&loaded, path, NOW, &fault), 0);
    expect_same(&kept, &loaded);
    assert_true(loaded.known);
    assert_int_equal(loaded.number, 4711);
    assert_memory_equal(loaded.change, kept.change, sizeof kept.change);
    assert_memory_equal(loaded.store, kept.store, sizeof kept.store);
    weir_excepted_keys_secret(kept.keys, secrets[0]);
    weir_excepted_keys_secret(loaded.keys, secrets[1]);
    assert_memory_equal(secrets[0], secrets[1], sizeof secrets[0]);
    weir_exception_follower_deinit(&loaded);
    assert_int_equal(unlink(path), 0);
    loaded = follower_make();
    assert_int_equal(weir_exception_follower_load(&loaded, path, NOW, &fault), WEIR_ENOENT);
    weir_exception_follower_deinit(&loaded);
    weir_exception_follower_deinit(&kept);
}

static void what_was_kept_comes_back(void **state)
{
    (void)state;
    comes_back(false);
}

static void resets_come_back_too(void **state)
{
    (void)state;
    comes_back(true);
}

/* ---- bytes ---- */

struct bytes {
    uint8_t list[400];
    size_t size;
};

static void add(struct bytes *bytes, const void *data, size_t size)
{
    memcpy(bytes->list + bytes->size, data, size);
    bytes->size += size;
}

static void add_u64(struct bytes *bytes, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        bytes->list[bytes->size++] = (uint8_t)(value >> (8 * i));
}

static struct bytes head_of(const char *magic)
{
    struct bytes bytes = { .size = 0 };
    add(&bytes, magic, strlen(magic));
    add_u64(&bytes, 12);
    add(&bytes, "cccccccccccccccc", WEIR_RULE_CHANGE_SIZE);
    add(&bytes, "ssssssssssssssss", WEIR_EXCEPTED_KEYS_SECRET_SIZE);
    return bytes;
}

static int take(const struct bytes *bytes, size_t size, struct weir_exception_follower *follower)
{
    uint8_t *copy = malloc(size + 1); /* of its own size, for ASan */
    assert_non_null(copy);
    memcpy(copy, bytes->list, size);
    int error = weir_exception_follower_take(follower, copy, size, NOW);
    free(copy);
    return error;
}

static void the_form_that_had_bans_alone_is_read(void **state)
{
    (void)state;
    struct weir_exception_follower follower = follower_make();
    struct weir_excepted excepted = { .level = "x" };
    struct bytes bytes = head_of("weir-exceptions 1\n");
    add_u64(&bytes, 77);
    add_u64(&bytes, 0);
    add_u64(&bytes, 78);
    add_u64(&bytes, NOW + 128000);
    assert_int_equal(take(&bytes, bytes.size, &follower), 0);
    assert_int_equal(follower.number, 12);
    assert_true(weir_excepted_keys_find(follower.keys, 77, NOW, &excepted));
    assert_null(excepted.level);
    assert_int_equal(excepted.left_ns, WEIR_NEVER);
    assert_true(weir_excepted_keys_find(follower.keys, 78, NOW, &excepted));
    assert_in_range(excepted.left_ns, 128000, 128127);
    weir_exception_follower_deinit(&follower);
}

static struct bytes whole(void)
{
    struct bytes bytes = head_of("weir-exceptions 2\n");
    add(&bytes, "\2\4plus\3low", 10);
    for (uint64_t i = 0; i < 4; i++) {
        add_u64(&bytes, 70 + i);
        add_u64(&bytes, (i % 2 ? NOW : 0) << 8 | i % 3);
    }
    return bytes;
}

static void what_is_cut_or_strange_takes_nothing_over(void **state)
{
    (void)state;
    struct bytes bytes = whole();
    for (size_t size = 0; size < bytes.size; size++) { /* the file's checksum is looked at before */
        struct weir_exception_follower follower = follower_make();
        int error = take(&bytes, size, &follower);
        assert_true(error == 0 || error == WEIR_EPROTO);
        assert_int_equal(follower.known, error == 0);
        if (error)
            assert_int_equal(weir_excepted_keys_count(follower.keys), 0);
        weir_exception_follower_deinit(&follower);
    }
    const size_t names_at = head_of("weir-exceptions 2\n").size;
    static const struct {
        size_t at;
        uint8_t byte;
    } strange[] = { { 16, '4' }, { 0, 3 }, { 1, 0 }, { 1, 33 }, { 2, ' ' }, { 10 + 8, 3 }, { 10 + 8, 255 } };
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        struct weir_exception_follower follower = follower_make();
        struct bytes other = whole();
        other.list[i == 0 ? strange[i].at : names_at + strange[i].at] = strange[i].byte;
        assert_int_equal(take(&other, other.size, &follower), WEIR_EPROTO);
        weir_exception_follower_deinit(&follower);
    }
    struct weir_exception_follower follower = follower_make();
    assert_int_equal(take(&bytes, bytes.size, &follower), 0);
    assert_int_equal(weir_excepted_keys_count(follower.keys), 4);
    assert_int_equal(weir_excepted_keys_levels(follower.keys), 2);
    weir_exception_follower_deinit(&follower);
}

static struct bytes with_resets(uint64_t count)
{
    struct bytes bytes = head_of("weir-exceptions 3\n");
    add(&bytes, "\1\4plus", 6);
    add_u64(&bytes, count);
    for (uint64_t i = 0; i < 3; i++) {
        add_u64(&bytes, 70 + i);
        add_u64(&bytes, (NOW << 8) | i % 2);
    }
    return bytes;
}

static void resets_stand_behind_the_others(void **state)
{
    (void)state;
    static const uint64_t wrong[] = { 4, 5, UINT64_C(1) << 60, UINT64_MAX };
    for (uint64_t count = 0; count <= 3; count++) {
        struct bytes bytes = with_resets(count);
        struct weir_exception_follower follower = follower_make();
        assert_int_equal(take(&bytes, bytes.size, &follower), 0);
        assert_int_equal(weir_excepted_keys_count(follower.keys), count);
        assert_int_equal(weir_excepted_keys_resets(follower.keys), 3 - count);
        assert_int_equal(weir_excepted_keys_mark(follower.keys, 72), count < 3 ? NOW << 8 : 0);
        weir_exception_follower_deinit(&follower);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct bytes bytes = with_resets(wrong[i]);
        struct weir_exception_follower follower = follower_make();
        assert_int_equal(take(&bytes, bytes.size, &follower), WEIR_EPROTO);
        weir_exception_follower_deinit(&follower);
    }
    struct bytes whole_one = with_resets(1), bytes = with_resets(1);
    for (size_t size = 0; size < whole_one.size; size++) {
        struct weir_exception_follower follower = follower_make();
        int error = take(&whole_one, size, &follower);
        assert_true(error == WEIR_EPROTO || (error == 0 && (whole_one.size - size) % 16 == 0));
        weir_exception_follower_deinit(&follower);
    }
    memset(bytes.list + bytes.size - 8, 0, 8); /* that is no mark */
    struct weir_exception_follower follower = follower_make();
    assert_int_equal(take(&bytes, bytes.size, &follower), WEIR_EPROTO);
    weir_exception_follower_deinit(&follower);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_kept_comes_back),
        cmocka_unit_test(resets_come_back_too),
        cmocka_unit_test(a_million_come_back),
        cmocka_unit_test(resets_stand_behind_the_others),
        cmocka_unit_test(the_form_that_had_bans_alone_is_read),
        cmocka_unit_test(what_is_cut_or_strange_takes_nothing_over),
    };
    return cmocka_run_group_tests_name("exception_kept", tests, NULL, NULL);
}
