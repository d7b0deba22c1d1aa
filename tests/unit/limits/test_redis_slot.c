/* SPDX-License-Identifier: Apache-2.0
 *
 * Cluster slots: the specification's vector, and each slot has a tag. */
#include "limits/redis/slot.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

/* Redis Cluster specification, appendix A: CRC16 of "123456789" is 0x31C3. */
static void test_vector(void **state)
{
    (void)state;
    assert_int_equal(weir_redis_slot("123456789", 9), 0x31C3 % 16384);
    assert_int_equal(weir_redis_slot("", 0), 0);
    assert_int_equal(weir_redis_slot("foo", 3), 12182);
}

static void test_tag_is_16_hex_digits(void **state)
{
    (void)state;
    assert_int_equal(weir_redis_slot_of_tag(0x0123456789abcdefull), weir_redis_slot("0123456789abcdef", 16));
    assert_int_equal(weir_redis_slot_of_tag(1), weir_redis_slot("0000000000000001", 16));
}

static void test_each_slot_has_a_tag(void **state)
{
    (void)state;
    for (uint16_t slot = 0; slot < 16384; slot += 331) {
        char text[16];
        int size = snprintf(text, sizeof text, "%u", (unsigned)weir_redis_slot_tag(slot));
        assert_int_equal(weir_redis_slot(text, (size_t)size), slot);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector),
        cmocka_unit_test(test_tag_is_16_hex_digits),
        cmocka_unit_test(test_each_slot_has_a_tag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
