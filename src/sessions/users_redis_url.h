/* SPDX-License-Identifier: Apache-2.0
 *
 * redis:// URLs of the users' store. No I/O. */
#pragma once

#define WEIR_USERS_REDIS_HOSTS_MAX 8
#define WEIR_USERS_REDIS_HOST_MAX 127
#define WEIR_USERS_REDIS_SECRET_MAX 512

/* What a redis:// URL says. */
struct weir_users_redis_url {
    unsigned host_count;
    struct {
        char name[WEIR_USERS_REDIS_HOST_MAX + 1];
        char port[6];
    } hosts[WEIR_USERS_REDIS_HOSTS_MAX];
    char user[WEIR_USERS_REDIS_SECRET_MAX + 1];     /* "": none */
    char password[WEIR_USERS_REDIS_SECRET_MAX + 1]; /* "": none */
    char database[6];
};

/* redis://[user[:password]@]host[:port][,host[:port]…][/database], [::1] for IPv6, %XX in user and
 * password. WEIR_EINVAL: it is not one; *ret_why says what is wrong, and shows nothing of it. */
int weir_users_redis_url_read(const char *text, struct weir_users_redis_url *ret_url, const char **ret_why);
