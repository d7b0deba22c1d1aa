/* SPDX-License-Identifier: Apache-2.0
 *
 * User and password end at the last @ before the path, so that a password may hold an @ that nobody escaped. Faults are
 * fixed texts that quote nothing, because the URL may hold a password. Called by users_redis.c. Host names are looked
 * up in users_redis_link.c. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "sessions/users_redis_url.h"
#include "weir/error.h"

/* %XX decoded; false: too long, an escape that is none, or a NUL. */
static bool decode(const char *text, size_t size, char ret_text[WEIR_USERS_REDIS_SECRET_MAX + 1])
{
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        int value = (unsigned char)text[i];
        if (text[i] == '%') {
            if (i + 2 >= size || weir_hex_digit(text[i + 1]) < 0 || weir_hex_digit(text[i + 2]) < 0)
                return false;
            value = 16 * weir_hex_digit(text[i + 1]) + weir_hex_digit(text[i + 2]);
            i += 2;
        }
        if (value == 0 || used == WEIR_USERS_REDIS_SECRET_MAX)
            return false;
        ret_text[used++] = (char)value;
    }
    ret_text[used] = '\0';
    return true;
}

/* A decimal number up to `max`, without anything else. */
static bool number_valid(const char *text, size_t size, unsigned max)
{
    unsigned number = 0;
    for (size_t i = 0; i < size && i < 6; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        number = 10 * number + (unsigned)(text[i] - '0');
    }
    return size >= 1 && size <= 5 && number <= max;
}

static bool read_secrets(const char *text, size_t size, struct weir_users_redis_url *url)
{
    const char *colon = memchr(text, ':', size);
    size_t user_size = colon ? (size_t)(colon - text) : size;
    return decode(text, user_size, url->user) && (!colon || decode(colon + 1, size - user_size - 1, url->password));
}

static bool read_host(const char *text, size_t size, struct weir_users_redis_url *url)
{
    const char *name = text, *port = NULL;
    size_t name_size = size;
    if (url->host_count == WEIR_USERS_REDIS_HOSTS_MAX)
        return false;
    if (size > 0 && text[0] == '[') {
        const char *end = memchr(text, ']', size);
        if (!end)
            return false;
        name = text + 1;
        name_size = (size_t)(end - name);
        if (end + 1 < text + size) {
            if (end[1] != ':')
                return false;
            port = end + 2;
        }
    } else if ((port = memchr(text, ':', size))) {
        name_size = (size_t)(port++ - text);
    }
    size_t port_size = port ? (size_t)(text + size - port) : 4;
    if (!port)
        port = "6379";
    if (name_size == 0 || name_size > WEIR_USERS_REDIS_HOST_MAX || !number_valid(port, port_size, 65535))
        return false;
    snprintf(url->hosts[url->host_count].name, sizeof url->hosts[0].name, "%.*s", (int)name_size, name);
    snprintf(url->hosts[url->host_count].port, sizeof url->hosts[0].port, "%.*s", (int)port_size, port);
    url->host_count++;
    return true;
}

static int bad(const char **ret_why, const char *why)
{
    *ret_why = why;
    return WEIR_EINVAL;
}

int weir_users_redis_url_read(const char *text, struct weir_users_redis_url *ret_url, const char **ret_why)
{
    struct weir_users_redis_url url = { .database = "0" };
    if (strncmp(text, "redis://", 8) != 0)
        return bad(ret_why, "must begin with redis://");
    text += 8;
    size_t size = strcspn(text, "/?#");
    const char *rest = text + size;
    /* The last @: a password may hold one that nobody escaped. */
    for (size_t i = size; i > 0; i--) {
        if (text[i - 1] != '@')
            continue;
        if (!read_secrets(text, i - 1, &url))
            return bad(ret_why, "user or password: up to 512 bytes, %XX for others");
        text += i;
        size -= i;
        break;
    }
    while (size > 0 || url.host_count == 0) {
        size_t host_size = strcspn(text, ",/?#");
        if (!read_host(text, host_size, &url))
            return bad(ret_why, "hosts: 1 to 8, HOST or HOST:PORT, [ADDRESS] for IPv6, commas between them");
        size -= host_size;
        text += host_size;
        if (size > 0 && --size == 0)
            return bad(ret_why, "hosts: one is missing after the last comma");
        text += size > 0;
    }
    if (rest[0] == '/' && rest[1]) {
        if (!number_valid(rest + 1, strlen(rest + 1), 99999))
            return bad(ret_why, "database: must be a number");
        snprintf(url.database, sizeof url.database, "%s", rest + 1);
    } else if (rest[0] && rest[0] != '/') {
        return bad(ret_why, "nothing may follow the database");
    }
    *ret_url = url;
    return 0;
}
