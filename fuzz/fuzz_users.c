/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a value of the users' stores, and as the URL of one: refused, or read into what can be written again. */
#include <string.h>

#include "base/assert.h"
#include "sessions/users_inside.h"
#include "sessions/users_redis_url.h"
#include "sessions/users_value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void value(const char *data, size_t size)
{
    struct weir_session_token token, again;
    char epoch[WEIR_USERS_EPOCH_SIZE + 1], text[WEIR_USERS_VALUE_MAX];
    size_t text_size;
    if (weir_users_value_read(data, size, epoch, &token) != 0)
        return;
    weir_assert(token.count <= WEIR_SESSION_PLACES_MAX);
    weir_assert(weir_users_value_write(epoch, &token, text, &text_size) == 0);
    weir_assert(weir_users_value_read(text, text_size, epoch, &again) == 0);
    weir_assert(weir_users_within(&token, &again) && weir_users_within(&again, &token));
    weir_assert(weir_session_token_merge(&again, &token, NULL) == 0);
}

static void url(const char *data, size_t size)
{
    char text[2048];
    struct weir_users_redis_url url;
    const char *why = NULL;
    if (size >= sizeof text)
        return;
    memcpy(text, data, size);
    text[size] = '\0';
    if (weir_users_redis_url_read(text, &url, &why) != 0) {
        weir_assert(why != NULL);
        return;
    }
    weir_assert(url.host_count >= 1 && url.host_count <= WEIR_USERS_REDIS_HOSTS_MAX);
    for (unsigned i = 0; i < url.host_count; i++)
        weir_assert(url.hosts[i].name[0] && strlen(url.hosts[i].port) < sizeof url.hosts[i].port);
    weir_assert(strlen(url.password) <= WEIR_USERS_REDIS_SECRET_MAX && strlen(url.database) <= 5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == '1')
        value((const char *)data, size);
    else
        url((const char *)data, size);
    return 0;
}
