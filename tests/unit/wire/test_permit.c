/* SPDX-License-Identifier: Apache-2.0
 *
 * A permit as text: it says what it is of, and nobody else can make one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "wire/permit.h"

static const struct weir_permit_secret secret = { { 1, 2 }, { 3, 4 } };

static struct weir_permit_id id_of(struct test_random *random, size_t count)
{
    struct weir_permit_id id = { .number = test_random_u64(random), .count = count };
    id.counting = (size_t)test_random_below(random, count + 1);
    for (size_t i = 0; i < count; i++)
        id.keys[i].hash = test_random_u64(random);
    return id;
}

static void permit__is_read_as_it_was_written(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (size_t count = 1; count <= WEIR_CHARGES_MAX; count++) {
        char text[WEIR_PERMIT_TEXT_MAX];
        struct weir_permit_id id = id_of(&random, count), read;
        size_t size = weir_permit_write(&secret, &id, text);
        assert_int_equal(size, 2 * (8 + 1 + 8 * count + 8));
        memset(&read, 0xff, sizeof(read));
        assert_true(weir_permit_read(&secret, (struct weir_slice){ text, size }, &read));
        assert_int_equal(read.number, id.number);
        assert_int_equal(read.count, count);
        assert_int_equal(read.counting, id.counting);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(read.keys[i].hash, id.keys[i].hash);
    }
}

static void permit__that_was_changed_in_any_place_is_none(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    char text[WEIR_PERMIT_TEXT_MAX];
    struct weir_permit_id id = id_of(&random, 3), read;
    size_t size = weir_permit_write(&secret, &id, text);
    for (size_t i = 0; i < size; i++) {
        char was = text[i];
        for (int c = 0; c < 256; c++) {
            text[i] = (char)c;
            assert_int_equal(weir_permit_read(&secret, (struct weir_slice){ text, size }, &read), text[i] == was);
        }
        text[i] = was;
    }
    for (size_t cut = 0; cut < size; cut++)
        assert_false(weir_permit_read(&secret, (struct weir_slice){ text, cut }, &read));
    static const char long_text[WEIR_PERMIT_TEXT_MAX + 16] = { 'a' };
    assert_false(weir_permit_read(&secret, (struct weir_slice){ long_text, sizeof(long_text) }, &read));
}

static void permit__of_another_process_is_none(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    const struct weir_permit_secret other = { { 1, 2 }, { 3, 5 } };
    char text[WEIR_PERMIT_TEXT_MAX];
    struct weir_permit_id id = id_of(&random, 1), read;
    size_t size = weir_permit_write(&other, &id, text);
    assert_false(weir_permit_read(&secret, (struct weir_slice){ text, size }, &read));
}

static void permit__does_not_show_its_key(void **state)
{
    (void)state;
    char first[WEIR_PERMIT_TEXT_MAX], second[WEIR_PERMIT_TEXT_MAX];
    struct weir_permit_id id = { .number = 1, .count = 2, .keys = { { 7, 0 }, { 7, 0 } } };
    (void)weir_permit_write(&secret, &id, first);
    assert_memory_not_equal(first + 18, first + 34, 16); /* the same key twice */
    id.number = 2;
    (void)weir_permit_write(&secret, &id, second);
    assert_memory_not_equal(first + 18, second + 18, 16); /* and in another permit */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permit__is_read_as_it_was_written),
        cmocka_unit_test(permit__that_was_changed_in_any_place_is_none),
        cmocka_unit_test(permit__of_another_process_is_none),
        cmocka_unit_test(permit__does_not_show_its_key),
    };
    return cmocka_run_group_tests_name("permit", tests, NULL, NULL);
}
