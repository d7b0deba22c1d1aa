/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may call. A caller shows a token (RESP `AUTH token`, HTTP `Authorization: Bearer token`); each token has rights.
 * Where tokens are not required a caller without one has every right (weir_conn's `rights`). Immutable after it is
 * made, so any thread may ask. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rules/config.h"

#define WEIR_TOKEN_BYTES_MAX 512

/* SHA-256 of a token: all that is kept of it. Tokens of any length become equally long, and the same token has the same
 * digest after a reload. */
struct weir_auth_digest {
    uint8_t bytes[32];
};

struct weir_auth_token {
    struct weir_auth_digest digest;
    unsigned rights;
    const char *name; /* who it is; as long as the configuration */
};

struct weir_auth {
    struct weir_auth_token *tokens;
    size_t count;
};

void weir_auth_init(struct weir_auth *auth);
void weir_auth_deinit(struct weir_auth *auth);

/* WEIR_ERANGE: empty or longer than WEIR_TOKEN_BYTES_MAX; WEIR_ELIMIT; WEIR_EEXIST; WEIR_ENOMEM. */
int weir_auth_add(struct weir_auth *auth, const char *name, const void *token, size_t size, unsigned rights);

/* WEIR_ERANGE: no token has this size. */
int weir_auth_digest(const void *token, size_t size, struct weir_auth_digest *ret_digest);

/* The rights (enum weir_right) that a token gives; 0 if it is none of ours. The time it takes does not depend on how
 * much of it is right. */
unsigned weir_auth_check(const struct weir_auth *auth, const void *token, size_t size);
unsigned weir_auth_check_digest(const struct weir_auth *auth, const struct weir_auth_digest *digest);

/* Whose token has this digest; NULL: nobody's. */
const char *weir_auth_name(const struct weir_auth *auth, const struct weir_auth_digest *digest);

/* The rights of a caller that has shown nothing: all but those that need a token. */
unsigned weir_auth_anonymous(enum weir_auth_required required, bool loopback);
