/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "weir/error.h"

int weir_auth_init(struct weir_auth *auth)
{
    *auth = (struct weir_auth){ 0 };
    return RAND_bytes(auth->key, sizeof(auth->key)) == 1 ? 0 : WEIR_EIO;
}

void weir_auth_deinit(struct weir_auth *auth)
{
    if (auth->tokens)
        OPENSSL_cleanse(auth->tokens, auth->count * sizeof(auth->tokens[0]));
    free(auth->tokens);
    *auth = (struct weir_auth){ 0 };
}

/* Tokens of any length become equally long, and an attacker cannot steer how the results compare. */
static bool digest(const struct weir_auth *auth, const void *token, size_t size, uint8_t ret_digest[32])
{
    unsigned written = 0;
    return HMAC(EVP_sha256(), auth->key, sizeof(auth->key), token, size, ret_digest, &written) && written == 32;
}

unsigned weir_auth_check(const struct weir_auth *auth, const void *token, size_t size)
{
    uint8_t shown[32];
    if (size == 0 || size > WEIR_TOKEN_BYTES_MAX || !digest(auth, token, size, shown))
        return 0;
    unsigned rights = 0;
    for (size_t i = 0; i < auth->count; i++) {
        unsigned same = CRYPTO_memcmp(shown, auth->tokens[i].digest, sizeof(shown)) == 0;
        rights |= auth->tokens[i].rights & (0U - same);
    }
    return rights;
}

unsigned weir_auth_anonymous(enum weir_auth_required required, bool loopback)
{
    bool asked = required == WEIR_AUTH_ALWAYS || (required == WEIR_AUTH_AUTO && !loopback);
    return asked ? 0 : WEIR_RIGHT_ALL;
}

int weir_auth_add(struct weir_auth *auth, const void *token, size_t size, unsigned rights)
{
    if (size == 0 || size > WEIR_TOKEN_BYTES_MAX)
        return WEIR_ERANGE;
    if (auth->count == WEIR_TOKENS_MAX)
        return WEIR_ELIMIT;
    if (weir_auth_check(auth, token, size))
        return WEIR_EEXIST;

    struct weir_auth_token added = { .rights = rights };
    struct weir_auth_token *tokens = realloc(auth->tokens, (auth->count + 1) * sizeof(*tokens));
    if (!tokens)
        return WEIR_ENOMEM;
    auth->tokens = tokens;
    if (!digest(auth, token, size, added.digest))
        return WEIR_EIO;
    tokens[auth->count++] = added;
    return 0;
}
