/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands under a user's name in redis and postgres: "1 EPOCH TOKEN": a version, the epoch that it was written in
 * (16 hexadecimal digits), and the token as unsigned text. Or "0 MARK", with 16 digits that are never used again: here
 * something was found that is not ours, and nothing is known of the user. No I/O. */
#pragma once

#include "core/session/token.h"

#define WEIR_USERS_EPOCH_SIZE 16
#define WEIR_USERS_VALUE_HEAD (2 + WEIR_USERS_EPOCH_SIZE + 1)
#define WEIR_USERS_VALUE_MAX (WEIR_USERS_VALUE_HEAD + WEIR_SESSION_TOKEN_MAX)

/* Of the start of a text: are these 16 digits, 0 to 9 and a to f? */
bool weir_users_epoch_valid(const char *text);

int weir_users_value_write(const char *epoch, const struct weir_session_token *token,
                           char ret_value[WEIR_USERS_VALUE_MAX], size_t *ret_size);

/* WEIR_ECORRUPT: not ours. */
int weir_users_value_read(const char *value, size_t size, char ret_epoch[WEIR_USERS_EPOCH_SIZE + 1],
                          struct weir_session_token *ret_token);

/* "0 MARK". */
#define WEIR_USERS_MARK_SIZE (2 + WEIR_USERS_EPOCH_SIZE)
bool weir_users_value_is_mark(const char *value, size_t size);
