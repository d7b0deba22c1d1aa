/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the arguments, fills in the defaults, and chooses the store by how the URL begins. Each call then goes to the
 * store's own functions (struct weir_users_ops), and the failures are counted. Called by serve/sessions.c,
 * sessions_work.c and sessions_view.c. */
#include "sessions/users.h"

#include <string.h>

#include "base/fault.h"
#include "sessions/users_inside.h"

#define SECOND_NS UINT64_C(1000000000)
#define DAY_NS (86400 * SECOND_NS)

static int check(struct weir_users_options *options, struct weir_fault *ret_fault)
{
    if (!options->newest)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "newest", "is required");
    if (options->users_max == 0)
        options->users_max = 1000000;
    if (options->users_max > WEIR_USERS_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "users_max", "must be 1 to 100000000");
    if (options->ttl_ns == 0)
        options->ttl_ns = DAY_NS;
    if (options->ttl_ns < SECOND_NS || options->ttl_ns > 366 * DAY_NS)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "ttl", "must be 1 s to 366 days");
    if (options->timeout_ns == 0)
        options->timeout_ns = SECOND_NS;
    if (options->timeout_ns < SECOND_NS / 1000 || options->timeout_ns > 60 * SECOND_NS)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "timeout", "must be 1 ms to 60 s");
    return 0;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

int weir_users_open(const struct weir_users_options *options, struct weir_users **ret_users,
                    struct weir_fault *ret_fault)
{
    struct weir_users_options filled = *options;
    if (ret_fault)
        *ret_fault = (struct weir_fault){ 0 };
    int error = check(&filled, ret_fault);
    if (error)
        return error;
    if (!filled.url)
        return weir_users_memory_open(&filled, ret_users);
    if (begins(filled.url, "redis://"))
        return weir_users_redis_open(&filled, ret_users, ret_fault);
    if (begins(filled.url, "postgresql://") || begins(filled.url, "postgres://"))
        return weir_users_postgres_open(&filled, ret_users, ret_fault);
    return weir_fault_set(ret_fault, WEIR_EINVAL, "url", "must begin with redis:// or postgresql://");
}

void weir_users_close(struct weir_users *users)
{
    if (users)
        users->ops->close(users);
}

static bool name_valid(size_t size)
{
    return size >= 1 && size <= WEIR_SESSION_ID_MAX;
}

static int counted(struct weir_users *users, int error)
{
    if (error)
        users->failures++;
    return error;
}

int weir_users_get(struct weir_users *users, const void *user, size_t user_size, const struct weir_known *known,
                   struct weir_session_token *ret_token)
{
    if (!name_valid(user_size))
        return WEIR_ERANGE;
    return counted(users, users->ops->get(users, (struct weir_users_name){ user, user_size }, known, ret_token));
}

int weir_users_add(struct weir_users *users, const void *user, size_t user_size, const struct weir_known *known,
                   const struct weir_session_token *seen, struct weir_session_token *ret_token)
{
    struct weir_session_token unwanted;
    if (!name_valid(user_size))
        return WEIR_ERANGE;
    return counted(users, users->ops->add(users, (struct weir_users_name){ user, user_size }, known, seen,
                                          ret_token ? ret_token : &unwanted));
}

int weir_users_accept(struct weir_users *users, const void *user, size_t user_size,
                      const struct weir_session_token *before, const struct weir_session_token *token)
{
    if (!name_valid(user_size))
        return WEIR_ERANGE;
    return counted(users, users->ops->accept(users, (struct weir_users_name){ user, user_size }, before, token));
}

void weir_users_stats(struct weir_users *users, struct weir_users_stats *ret_stats)
{
    *ret_stats =
        (struct weir_users_stats){ .found = users->found, .not_found = users->not_found, .failures = users->failures };
    pthread_mutex_lock(&users->floor.lock);
    ret_stats->floors = users->floor.answers;
    pthread_mutex_unlock(&users->floor.lock);
    users->ops->stats(users, ret_stats);
}
