/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may call. A caller shows a token (RESP `AUTH token`, HTTP `Authorization: Bearer token`); each token has rights.
 * Where tokens are not required a caller without one has every right (weir_conn's `rights`). Immutable after it is
 * made, so any thread may ask. */
#ifndef WEIR_SERVE_AUTH_H
#define WEIR_SERVE_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rules/config.h"

#define WEIR_TOKEN_BYTES_MAX 512

/* Only a keyed hash of each token is kept. */
struct weir_auth_token {
    uint8_t digest[32];
    unsigned rights;
};

struct weir_auth {
    uint8_t key[32]; /* of the hash; random */
    struct weir_auth_token *tokens;
    size_t count;
};

int weir_auth_init(struct weir_auth *auth); /* WEIR_EIO: no randomness */
void weir_auth_deinit(struct weir_auth *auth);

/* WEIR_ERANGE: empty or longer than WEIR_TOKEN_BYTES_MAX; WEIR_ELIMIT; WEIR_EEXIST; WEIR_ENOMEM. */
int weir_auth_add(struct weir_auth *auth, const void *token, size_t size, unsigned rights);

/* The rights (enum weir_right) that a token gives; 0 if it is none of ours. The time it takes does not depend on how
 * much of it is right. */
unsigned weir_auth_check(const struct weir_auth *auth, const void *token, size_t size);

/* The rights of a caller that has shown nothing. */
unsigned weir_auth_anonymous(enum weir_auth_required required, bool loopback);

#endif
