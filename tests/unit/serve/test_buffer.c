/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers keep their bytes while they grow and shrink, stay under their bound, and own nothing when empty. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "serve/buffer.h"

#define BOUND ((size_t)100000)

static void keeps_bytes_in_order(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct weir_piece_pool pool = { 0 };
    struct weir_buffer buffer = { 0 };
    uint64_t written = 0;
    uint64_t read = 0;
    for (int i = 0; i < 20000; i++) {
        size_t more = test_random_below(&random, 40000);
        bool fits = buffer.size + more <= BOUND || more <= buffer.capacity - buffer.size;
        assert_int_equal(weir_buffer_reserve(&buffer, &pool, more, BOUND), fits);
        for (size_t k = 0; fits && k < more; k++)
            buffer.data[buffer.size++] = (uint8_t)(written++ * 31 >> 3);
        assert_true(buffer.capacity <= BOUND);

        size_t less = test_random_below(&random, buffer.size + 1);
        for (size_t k = 0; k < less; k++)
            assert_int_equal(buffer.data[k], (uint8_t)(read++ * 31 >> 3));
        weir_buffer_consume(&buffer, &pool, less);
        if (buffer.size == 0)
            assert_null(buffer.data);
    }
    weir_buffer_release(&buffer, &pool);
    weir_piece_pool_deinit(&pool);
}

static void pieces_are_lent_again(void **state)
{
    (void)state;
    struct weir_piece_pool pool = { 0 };
    struct weir_buffer buffer = { 0 };
    assert_true(weir_buffer_reserve(&buffer, &pool, 1, BOUND));
    uint8_t *piece = buffer.data;
    assert_int_equal(buffer.capacity, WEIR_PIECE_SIZE);
    weir_buffer_consume(&buffer, &pool, 0);
    assert_null(buffer.data);
    assert_int_equal(pool.count, 1);
    assert_true(weir_buffer_reserve(&buffer, &pool, WEIR_PIECE_SIZE, BOUND));
    assert_ptr_equal(buffer.data, piece);
    weir_buffer_release(&buffer, &pool);
    weir_piece_pool_deinit(&pool);
}

static void refuses_past_its_bound(void **state)
{
    (void)state;
    struct weir_piece_pool pool = { 0 };
    struct weir_buffer buffer = { 0 };
    assert_false(weir_buffer_reserve(&buffer, &pool, BOUND + 1, BOUND));
    assert_false(weir_buffer_reserve(&buffer, &pool, SIZE_MAX, BOUND));
    assert_true(weir_buffer_reserve(&buffer, &pool, BOUND, BOUND));
    buffer.size = BOUND;
    assert_false(weir_buffer_reserve(&buffer, &pool, 1, BOUND));
    weir_buffer_release(&buffer, &pool);
    weir_piece_pool_deinit(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_bytes_in_order),
        cmocka_unit_test(pieces_are_lent_again),
        cmocka_unit_test(refuses_past_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
