/* SPDX-License-Identifier: Apache-2.0
 *
 * What is cut from an arena is zeroed, whatever memory held before, and the rest of a chunk is not touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "rules/arena.h"

#define CHUNK ((size_t)64 << 10)
#define DIRT 0xA5

static uint8_t *newest; /* what malloc gave last */
static size_t newest_size, callocs;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_malloc(size_t size)
{
    newest = __real_malloc(size);
    newest_size = size;
    return newest ? memset(newest, DIRT, size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    callocs++;
    return __real_calloc(count, size);
}

static size_t dirty(void)
{
    size_t bytes = 0;
    for (size_t i = 0; i < newest_size; i++)
        bytes += newest[i] == DIRT;
    return bytes;
}

static void assert_zeroed(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        assert_int_equal(bytes[i], 0);
}

static void what_is_cut_is_zeroed_and_the_rest_untouched(void **state)
{
    (void)state;
    struct weir_arena *arena = weir_arena_create();
    assert_non_null(arena);
    for (int i = 0; i < 10; i++) {
        uint8_t *bytes = weir_arena_alloc(arena, 10, 37);
        assert_non_null(bytes);
        assert_zeroed(bytes, 370);
        memset(bytes, 0xFF, 370);
    }
    assert_true(newest_size > CHUNK && dirty() >= CHUNK - 10 * 384);
    uint8_t *all = weir_arena_alloc(arena, 1, CHUNK); /* no room in the first one */
    assert_non_null(all);
    assert_zeroed(all, CHUNK);
    weir_arena_destroy(arena);
}

static void a_large_one_is_left_to_the_system(void **state)
{
    (void)state;
    struct weir_arena *arena = weir_arena_create();
    assert_non_null(arena);
    size_t before = callocs;
    uint8_t *bytes = weir_arena_alloc(arena, 1, 8 * CHUNK);
    assert_non_null(bytes);
    assert_int_equal(callocs, before + 1);
    assert_zeroed(bytes, 8 * CHUNK);
    weir_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_cut_is_zeroed_and_the_rest_untouched),
        cmocka_unit_test(a_large_one_is_left_to_the_system),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
