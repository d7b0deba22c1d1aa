/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/siphash.h"

/* CPython's hash of bytes(range(n)), n = 1 to 32, with PYTHONHASHSEED=0, which makes the key zero: SipHash-1-3 by
 * somebody else (sys.hash_info.algorithm == "siphash13"). */
static void equals_cpython(void **state)
{
    static const uint64_t expected[32] = {
        UINT64_C(0x68a914128e01e473), UINT64_C(0x010bac45c41e3669), UINT64_C(0x4d4c9a4a8ef6e0ad),
        UINT64_C(0x7cc43f98813e4dbd), UINT64_C(0x5abe2169dff36275), UINT64_C(0xe3c25f87624f1cdb),
        UINT64_C(0x2f098ab0c751325a), UINT64_C(0xead411e67ebe2eea), UINT64_C(0x75927f9d95124362),
        UINT64_C(0xaf9f77a65ab51a1d), UINT64_C(0xfe64ce8b6617fcff), UINT64_C(0xa6baf4fb0f9fe1c2),
        UINT64_C(0xa0cf3211850f8e0d), UINT64_C(0x7f86049379fbfe67), UINT64_C(0xf30eb725bb91c9ea),
        UINT64_C(0x8972188433a5c5b7), UINT64_C(0x4883c49a2c009c1d), UINT64_C(0xadc2c0b63044067d),
        UINT64_C(0x091f4a3329f87d19), UINT64_C(0x639e355ae68c0100), UINT64_C(0xb17bef2cb5213239),
        UINT64_C(0xf8aeb1066236ccfe), UINT64_C(0x37332b1389daa4ff), UINT64_C(0x31185a47af932f3a),
        UINT64_C(0xebf352e82ae23e2f), UINT64_C(0xed36ff242fe478b2), UINT64_C(0x2454d97d299299df),
        UINT64_C(0x8cd57fe8130d0ac7), UINT64_C(0xbe98eb2faf0a0e85), UINT64_C(0xd427c34ee09470c6),
        UINT64_C(0x169739443111d49b), UINT64_C(0x31ef8061c910629b),
    };
    const struct weir_sip_key zero = { 0, 0 };
    uint8_t bytes[32];
    (void)state;
    for (unsigned n = 1; n <= 32; n++) {
        bytes[n - 1] = (uint8_t)(n - 1);
        assert_int_equal(weir_siphash(&zero, bytes, n), expected[n - 1]);
    }
}

/* The published value for no bytes and the key 00 01 … 0f. */
static void keyed_and_empty(void **state)
{
    uint8_t secret[16];
    (void)state;
    for (uint8_t i = 0; i < 16; i++)
        secret[i] = i;
    struct weir_sip_key key = weir_sip_key_load(secret);
    assert_int_equal(key.k0, UINT64_C(0x0706050403020100));
    assert_int_equal(weir_siphash(&key, "", 0), UINT64_C(0xabac0158050fc4dc));
}

static void cuts_do_not_matter(void **state)
{
    const struct weir_sip_key key = { 1, 2 };
    uint8_t bytes[41];
    (void)state;
    for (uint8_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7);
    uint64_t whole = weir_siphash(&key, bytes, sizeof bytes);
    for (size_t a = 0; a <= sizeof bytes; a++)
        for (size_t b = a; b <= sizeof bytes; b++) {
            struct weir_siphash_state pieces;
            weir_siphash_start(&pieces, &key);
            weir_siphash_add(&pieces, bytes, a);
            weir_siphash_add(&pieces, bytes + a, b - a);
            weir_siphash_add(&pieces, bytes + b, sizeof bytes - b);
            assert_int_equal(weir_siphash_end(&pieces), whole);
        }
}

/* Of every size, and from any place in memory. */
static void of_a_sized_value_it_is_the_same(void **state)
{
    (void)state;
    const struct weir_sip_key key = { UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908) };
    uint8_t bytes[96], whole[12 + 96];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37 + 200);
    for (uint32_t from = 0; from < 8; from++) {
        for (uint32_t size = 0; from + size <= sizeof bytes; size++) {
            const uint64_t first = UINT64_C(0xfedcba9876543210) + size;
            for (size_t i = 0; i < 8; i++)
                whole[i] = (uint8_t)(first >> 8 * i);
            for (size_t i = 0; i < 4; i++)
                whole[8 + i] = (uint8_t)(size >> 8 * i);
            memcpy(whole + 12, bytes + from, size);
            assert_int_equal(weir_siphash_sized(&key, first, bytes + from, size), weir_siphash(&key, whole, 12 + size));
        }
    }
    assert_int_equal(weir_siphash_sized(&key, 0, NULL, 0), weir_siphash(&key, (uint8_t[12]){ 0 }, 12));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_cpython),
        cmocka_unit_test(keyed_and_empty),
        cmocka_unit_test(cuts_do_not_matter),
        cmocka_unit_test(of_a_sized_value_it_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
