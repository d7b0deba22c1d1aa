/* SPDX-License-Identifier: Apache-2.0
 *
 * Users instead of tokens: each user's newest token, merged and never lowered by a late message.
 *
 * What was forgotten must not look like "has seen nothing": each store has a floor, a token that every user is taken to
 * have seen. Whenever a store may have forgotten something (it starts, evicts, was flushed, failed over, was restored)
 * its floor is raised to what the primary shows then, which is at least what anybody can have seen. So a store that
 * loses all it has makes some reads stricter for a moment and none wrong.
 *
 * memory: bounded, evicts the least recently used into the floor. redis: one value per user with a ttl, merged here and
 * put back if it is unchanged (compare and set in a script). postgres: one row per user, merged under its lock.
 *
 * Calls block (redis, postgres): up to timeout_ns each. Any thread. */
#ifndef WEIR_ENGINE_SESSION_USERS_H
#define WEIR_ENGINE_SESSION_USERS_H

#include "core/session/token.h"

struct weir_users;

struct weir_users_options {
    const char *url;     /* NULL = memory; redis://…, postgresql://… */
    uint64_t users_max;  /* memory: of users; 1 to 10^8; 0 = 1,000,000 */
    uint64_t ttl_ns;     /* redis, postgres: forgotten so long after the last message, into the floor; 0 = 1 day */
    uint64_t timeout_ns; /* 0 = 1 s */
    /* What the primary shows now, as a token: asked whenever the floor has to be raised. WEIR_EDOWN: nobody knows. */
    int (*newest)(void *context, struct weir_session_token *ret_token);
    void *context;
};

int weir_users_open(const struct weir_users_options *options, struct weir_users **ret_users,
                    struct weir_fault *ret_fault);
void weir_users_close(struct weir_users *users);

/* What the user has seen: its token merged with the floor. WEIR_EDOWN: the store, or the floor's primary, cannot be
 * asked: answer that, not an empty token. */
int weir_users_get(struct weir_users *users, const void *user, size_t user_size, const struct weir_known *known,
                   struct weir_session_token *ret_token);

/* Merges `seen` into it. *ret_token: what is stored now. */
int weir_users_add(struct weir_users *users, const void *user, size_t user_size, const struct weir_known *known,
                   const struct weir_session_token *seen, struct weir_session_token *ret_token);

/* The user accepted a loss: `token` replaces what is stored, if that still is `before`; else WEIR_EBUSY. */
int weir_users_accept(struct weir_users *users, const void *user, size_t user_size,
                      const struct weir_session_token *before, const struct weir_session_token *token);

#endif
