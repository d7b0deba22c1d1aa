/* SPDX-License-Identifier: Apache-2.0
 *
 * An array of token digests, which setup.c fills once. A check compares the shown digest with every entry, each in
 * constant time, and never stops early. Called by guess.c (which limits wrong guesses), conn.c and http.c; which right
 * a request needs is in resp.c, http.c and http_locks.c. */
#include "serve/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>

#include "weir/error.h"

void weir_auth_init(struct weir_auth *auth)
{
    *auth = (struct weir_auth){ 0 };
}

void weir_auth_deinit(struct weir_auth *auth)
{
    free(auth->tokens);
    *auth = (struct weir_auth){ 0 };
}

int weir_auth_digest(const void *token, size_t size, struct weir_auth_digest *ret_digest)
{
    if (size == 0 || size > WEIR_TOKEN_BYTES_MAX)
        return WEIR_ERANGE;
    SHA256(token, size, ret_digest->bytes);
    return 0;
}

unsigned weir_auth_check_digest(const struct weir_auth *auth, const struct weir_auth_digest *digest)
{
    unsigned rights = 0;
    for (size_t i = 0; i < auth->count; i++) {
        const struct weir_auth_token *token = &auth->tokens[i];
        unsigned same = CRYPTO_memcmp(digest->bytes, token->digest.bytes, sizeof(digest->bytes)) == 0;
        rights |= token->rights & (0U - same);
    }
    return rights;
}

const char *weir_auth_name(const struct weir_auth *auth, const struct weir_auth_digest *digest)
{
    const char *name = NULL;
    for (size_t i = 0; i < auth->count; i++)
        if (CRYPTO_memcmp(digest->bytes, auth->tokens[i].digest.bytes, sizeof(digest->bytes)) == 0)
            name = auth->tokens[i].name;
    return name;
}

unsigned weir_auth_check(const struct weir_auth *auth, const void *token, size_t size)
{
    struct weir_auth_digest digest;
    return weir_auth_digest(token, size, &digest) ? 0 : weir_auth_check_digest(auth, &digest);
}

unsigned weir_auth_anonymous(enum weir_auth_required required, bool loopback)
{
    bool asked = required == WEIR_AUTH_ALWAYS || (required == WEIR_AUTH_AUTO && !loopback);
    return asked ? 0 : WEIR_RIGHT_ALL;
}

int weir_auth_add(struct weir_auth *auth, const char *name, const void *token, size_t size, unsigned rights)
{
    struct weir_auth_token added = { .rights = rights, .name = name };
    int error = weir_auth_digest(token, size, &added.digest);
    if (error)
        return error;
    if (auth->count == WEIR_TOKENS_MAX)
        return WEIR_ELIMIT;
    if (weir_auth_check_digest(auth, &added.digest))
        return WEIR_EEXIST;
    struct weir_auth_token *tokens = realloc(auth->tokens, (auth->count + 1) * sizeof(*tokens));
    if (!tokens)
        return WEIR_ENOMEM;
    auth->tokens = tokens;
    tokens[auth->count++] = added;
    return 0;
}
