/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may call. A caller shows a token (RESP `AUTH token`, HTTP `Authorization: Bearer token`); each token has rights.
 * With no tokens configured authentication is off and every caller has every right: the server then refuses to listen
 * anywhere but on loopback and Unix sockets, unless told to. Immutable after it is made, so any thread may ask. */
#ifndef WEIR_SERVE_AUTH_H
#define WEIR_SERVE_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum weir_right {
    WEIR_RIGHT_CHECK = 1,  /* ask for decisions */
    WEIR_RIGHT_REFUND = 2, /* give units back, reset keys */
};
#define WEIR_RIGHTS_ALL (WEIR_RIGHT_CHECK | WEIR_RIGHT_REFUND)

#define WEIR_TOKENS_MAX 1024
#define WEIR_TOKEN_BYTES_MAX 512

/* Only a keyed hash of each token is kept. */
struct weir_auth_token {
    uint8_t digest[32];
    unsigned rights;
};

struct weir_auth {
    struct weir_auth_token *tokens;
    size_t count;
};

void weir_auth_init(struct weir_auth *auth);
void weir_auth_deinit(struct weir_auth *auth);

/* WEIR_ERANGE: empty or longer than WEIR_TOKEN_BYTES_MAX; WEIR_ELIMIT; WEIR_EEXIST; WEIR_ENOMEM. */
int weir_auth_add(struct weir_auth *auth, const void *token, size_t size, unsigned rights);

/* Must callers show a token at all? */
static inline bool weir_auth_required(const struct weir_auth *auth)
{
    return auth->count > 0;
}

/* The rights that a token gives; 0 if it is none of ours. The time it takes does not depend on how much of it is
 * right. */
unsigned weir_auth_check(const struct weir_auth *auth, const void *token, size_t size);

/* The rights of a caller that has shown nothing. */
static inline unsigned weir_auth_anonymous(const struct weir_auth *auth)
{
    return weir_auth_required(auth) ? 0 : WEIR_RIGHTS_ALL;
}

#endif
