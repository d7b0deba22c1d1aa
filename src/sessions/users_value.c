/* SPDX-License-Identifier: Apache-2.0
 *
 * A value is a head of fixed size and behind it the token, unsigned, as core/session/token_text.c writes it. Reading
 * trusts no byte, because others may have written there. Called by users_remote.c; users_redis.c and users_postgres.c
 * check their epochs with it. */
#include "sessions/users_value.h"

#include <string.h>

bool weir_users_epoch_valid(const char *text)
{
    for (unsigned i = 0; i < WEIR_USERS_EPOCH_SIZE; i++) {
        if (!(text[i] >= '0' && text[i] <= '9') && !(text[i] >= 'a' && text[i] <= 'f'))
            return false;
    }
    return true;
}

int weir_users_value_write(const char *epoch, const struct weir_session_token *token,
                           char ret_value[WEIR_USERS_VALUE_MAX], size_t *ret_size)
{
    size_t size = 0;
    int error = weir_session_token_write(token, NULL, ret_value + WEIR_USERS_VALUE_HEAD, &size);
    if (error)
        return error;
    ret_value[0] = '1';
    ret_value[1] = ' ';
    memcpy(ret_value + 2, epoch, WEIR_USERS_EPOCH_SIZE);
    ret_value[WEIR_USERS_VALUE_HEAD - 1] = ' ';
    *ret_size = WEIR_USERS_VALUE_HEAD + size;
    return 0;
}

int weir_users_value_read(const char *value, size_t size, char ret_epoch[WEIR_USERS_EPOCH_SIZE + 1],
                          struct weir_session_token *ret_token)
{
    struct weir_session_token token;
    if (size <= WEIR_USERS_VALUE_HEAD || size > WEIR_USERS_VALUE_MAX || value[0] != '1' || value[1] != ' ' ||
        value[WEIR_USERS_VALUE_HEAD - 1] != ' ' || !weir_users_epoch_valid(value + 2))
        return WEIR_ECORRUPT;
    if (weir_session_token_read(value + WEIR_USERS_VALUE_HEAD, size - WEIR_USERS_VALUE_HEAD, NULL, &token) != 0)
        return WEIR_ECORRUPT;
    memcpy(ret_epoch, value + 2, WEIR_USERS_EPOCH_SIZE);
    ret_epoch[WEIR_USERS_EPOCH_SIZE] = '\0';
    *ret_token = token;
    return 0;
}

bool weir_users_value_is_mark(const char *value, size_t size)
{
    return size == WEIR_USERS_MARK_SIZE && value[0] == '0' && value[1] == ' ' && weir_users_epoch_valid(value + 2);
}
