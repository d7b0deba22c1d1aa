/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "random.h"
#include "sessions/signer.h"

static struct weir_signer *signer_of(const struct weir_session_key *keys, unsigned count)
{
    struct weir_signer *signer;
    assert_int_equal(weir_signer_create(keys, count, &signer, NULL), 0);
    return signer;
}

static void mac_of(const struct weir_signer *signer, unsigned key, const void *message, size_t size, uint8_t *ret_mac)
{
    const struct weir_session_signer *of = weir_signer_of(signer);
    assert_int_equal(of->mac(of->context, key, message, size, ret_mac), 0);
}

/* RFC 4231, test cases 1, 3 and 5, whose keys have 20 bytes, and 6, whose key is longer than a block. */
static void signer__signs_as_the_rfc_says(void **state)
{
    static const struct {
        uint8_t key_byte, key_size;
        const char *message;
        uint8_t repeat; /* the message is one byte so often; 0: as it is */
        uint8_t mac[WEIR_SESSION_MAC_SIZE];
    } cases[] = {
        { 0x0b,
          20,
          "Hi There",
          0,
          { 0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b } },
        { 0xaa,
          20,
          "\xdd",
          50,
          { 0x77, 0x3e, 0xa9, 0x1e, 0x36, 0x80, 0x0e, 0x46, 0x85, 0x4d, 0xb8, 0xeb, 0xd0, 0x91, 0x81, 0xa7 } },
        { 0x0c,
          20,
          "Test With Truncation",
          0,
          { 0xa3, 0xb6, 0x16, 0x74, 0x73, 0x10, 0x0e, 0xe0, 0x6e, 0x0c, 0x79, 0x6c, 0x29, 0x55, 0x55, 0x2b } },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t bytes[64], message[64], mac[WEIR_SESSION_MAC_SIZE];
        size_t size = cases[i].repeat ? cases[i].repeat : strlen(cases[i].message);
        memset(bytes, cases[i].key_byte, sizeof bytes);
        memset(message, cases[i].message[0], sizeof message);
        if (!cases[i].repeat)
            memcpy(message, cases[i].message, size);
        struct weir_signer *signer = signer_of(&(struct weir_session_key){ 1, bytes, cases[i].key_size }, 1);
        mac_of(signer, 0, message, size, mac);
        assert_memory_equal(mac, cases[i].mac, sizeof mac);
        weir_signer_destroy(signer);
    }
}

static void signer__agrees_with_openssl_for_keys_and_messages_of_every_size(void **state)
{
    struct test_random random = { test_random_seed() };
    uint8_t key[WEIR_SESSION_KEY_MAX], message[400], mac[WEIR_SESSION_MAC_SIZE], other[EVP_MAX_MD_SIZE];
    (void)state;
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)test_random_u64(&random);
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (uint8_t)test_random_u64(&random);
    for (size_t key_size = WEIR_SESSION_KEY_MIN; key_size <= WEIR_SESSION_KEY_MAX; key_size++) {
        struct weir_signer *signer = signer_of(&(struct weir_session_key){ 1, key, key_size }, 1);
        for (size_t size = key_size % 7; size <= sizeof message; size += 7) {
            unsigned other_size;
            mac_of(signer, 0, message, size, mac);
            assert_non_null(HMAC(EVP_sha256(), key, (int)key_size, message, size, other, &other_size));
            assert_memory_equal(mac, other, sizeof mac);
        }
        weir_signer_destroy(signer);
    }
}

static void signer__each_key_signs_for_itself(void **state)
{
    uint8_t first[WEIR_SESSION_KEY_MIN] = { 1 }, second[WEIR_SESSION_KEY_MIN] = { 2 }, a[WEIR_SESSION_MAC_SIZE],
            b[WEIR_SESSION_MAC_SIZE];
    const struct weir_session_key keys[] = { { 7, first, sizeof first }, { 0, second, sizeof second } };
    (void)state;
    struct weir_signer *both = signer_of(keys, 2), *alone = signer_of(keys + 1, 1);
    assert_int_equal(weir_signer_of(both)->key_count, 2);
    assert_int_equal(weir_signer_of(both)->key_ids[0], 7);
    assert_int_equal(weir_signer_of(both)->key_ids[1], 0);
    mac_of(both, 1, "x", 1, a);
    mac_of(alone, 0, "x", 1, b);
    assert_memory_equal(a, b, sizeof a);
    mac_of(both, 0, "x", 1, a);
    assert_memory_not_equal(a, b, sizeof a);
    weir_signer_destroy(both);
    weir_signer_destroy(alone);
    weir_signer_destroy(NULL);
}

static void signer__refuses_keys_and_says_why(void **state)
{
    static const uint8_t key[WEIR_SESSION_KEY_MAX + 1] = { 1 };
    struct weir_session_key keys[WEIR_SESSION_KEYS_MAX + 1];
    struct weir_signer *signer = NULL;
    struct weir_fault fault;
    (void)state;
    for (uint8_t i = 0; i <= WEIR_SESSION_KEYS_MAX; i++)
        keys[i] = (struct weir_session_key){ i, key, WEIR_SESSION_KEY_MIN };
    assert_int_equal(weir_signer_create(keys, 0, &signer, &fault), WEIR_ERANGE);
    assert_int_equal(weir_signer_create(keys, WEIR_SESSION_KEYS_MAX + 1, &signer, &fault), WEIR_ERANGE);
    assert_string_equal(fault.field, "keys");
    keys[1].key_size = WEIR_SESSION_KEY_MIN - 1;
    assert_int_equal(weir_signer_create(keys, 2, &signer, NULL), WEIR_ERANGE);
    keys[1].key_size = WEIR_SESSION_KEY_MAX + 1;
    assert_int_equal(weir_signer_create(keys, 2, &signer, &fault), WEIR_ERANGE);
    keys[1] = (struct weir_session_key){ 0, key, WEIR_SESSION_KEY_MAX };
    assert_int_equal(weir_signer_create(keys, 2, &signer, &fault), WEIR_EINVAL);
    assert_string_equal(fault.text, "their ids must be distinct");
    assert_null(signer);
    keys[1].id = 1;
    assert_int_equal(weir_signer_create(keys, WEIR_SESSION_KEYS_MAX, &signer, NULL), 0);
    weir_signer_destroy(signer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signer__signs_as_the_rfc_says),
        cmocka_unit_test(signer__agrees_with_openssl_for_keys_and_messages_of_every_size),
        cmocka_unit_test(signer__each_key_signs_for_itself),
        cmocka_unit_test(signer__refuses_keys_and_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
