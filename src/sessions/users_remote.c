/* SPDX-License-Identifier: Apache-2.0
 *
 * A change is a loop: fetch the value, merge, and swap the new one in if nobody was faster, until it is done or the
 * time is over. The store has fetch and swap (users_redis.c, users_postgres.c). The epoch, the clock and the evictions
 * that each fetch reports decide how old a floor may be. A value that is not ours is first overwritten with a mark, so
 * that the swap that follows fails if anybody wrote in between. Called by users.c, through struct weir_users_ops. */
#include "sessions/users_remote.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/timing.h"

#define BREAKS_MAX 3 /* connections that break in one call */

void weir_users_epoch_make(char ret_epoch[WEIR_USERS_EPOCH_SIZE + 1])
{
    uint64_t number = 0;
    weir_assert(getrandom(&number, sizeof number, 0) == (ssize_t)sizeof number);
    snprintf(ret_epoch, WEIR_USERS_EPOCH_SIZE + 1, "%016" PRIx64, number);
}

void weir_users_remote_fault(struct weir_users_remote *remote, const char *format, ...)
{
    va_list arguments;
    char text[sizeof remote->fault];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *at = text; *at; at++) {
        if ((unsigned char)*at < ' ')
            *at = ' ';
    }
    pthread_mutex_lock(&remote->lock);
    memcpy(remote->fault, text, sizeof text);
    pthread_mutex_unlock(&remote->lock);
}

/* ---- links ---- */

static struct weir_users_link *link_free(struct weir_users_remote *remote)
{
    for (unsigned i = 0; i < WEIR_USERS_LINKS_MAX; i++) {
        if (!remote->links[i].busy)
            return &remote->links[i];
    }
    return NULL;
}

/* The first that is free: few callers have few connections. NULL: none by the deadline, or no memory. */
static struct weir_users_link *link_take(struct weir_users_remote *remote, uint64_t deadline_ns)
{
    struct weir_users_link *link;
    int waited = 0;
    pthread_mutex_lock(&remote->lock);
    while (!(link = link_free(remote)) && waited == 0)
        waited = weir_timing_wait(&remote->freed, &remote->lock, deadline_ns);
    if (link && !link->link)
        link->link = remote->ops->link_create(remote);
    if (link && link->link)
        link->busy = true;
    else
        link = NULL;
    pthread_mutex_unlock(&remote->lock);
    return link;
}

static void link_give(struct weir_users_remote *remote, struct weir_users_link *link)
{
    pthread_mutex_lock(&remote->lock);
    link->busy = false;
    pthread_cond_signal(&remote->freed);
    pthread_mutex_unlock(&remote->lock);
}

/* ---- what is missing, and since when ---- */

static void begin(struct weir_users_remote *remote, const struct weir_users_fetched *fetched, uint64_t ahead_ns,
                  uint64_t now_ns)
{
    memcpy(remote->epoch, fetched->epoch, sizeof remote->epoch);
    remote->ahead_ns = ahead_ns;
    remote->since_ns = now_ns;
}

/* After each fetch. From when on a floor must have been asked for a user that is missing in it. */
static uint64_t look(struct weir_users_remote *remote, const struct weir_users_fetched *fetched)
{
    uint64_t now_ns = weir_users_now_ns();
    uint64_t ahead_ns = fetched->wall_ns - now_ns;
    uint64_t ttl_ns = remote->users.ttl_ns;
    pthread_mutex_lock(&remote->lock);
    uint64_t jump_ns = weir_min_u64(ahead_ns - remote->ahead_ns, remote->ahead_ns - ahead_ns);
    if (strcmp(remote->epoch, fetched->epoch) != 0) {
        remote->losses += remote->epoch[0] != '\0';
        begin(remote, fetched, ahead_ns, now_ns);
    } else if (jump_ns > ttl_ns / 8) {
        begin(remote, fetched, ahead_ns, now_ns);
    }
    if (fetched->said != WEIR_USERS_VALUE && remote->evictions != fetched->evictions) {
        remote->evictions = fetched->evictions;
        remote->since_ns = now_ns;
    }
    uint64_t after_ns = weir_max_u64(remote->since_ns, weir_sub_sat(now_ns, ttl_ns / 4 * 3));
    pthread_mutex_unlock(&remote->lock);
    return fetched->evicts ? now_ns : after_ns;
}

static void count_corrupt(struct weir_users_remote *remote)
{
    weir_users_remote_fault(remote, "a value that is not ours lies under a user's key");
    pthread_mutex_lock(&remote->lock);
    remote->corrupt++;
    pthread_mutex_unlock(&remote->lock);
}

/* Something that is not ours, or the mark that we put over it. */
static bool is_strange(const struct weir_users_fetched *fetched)
{
    char epoch[WEIR_USERS_EPOCH_SIZE + 1];
    struct weir_session_token token;
    return fetched->said == WEIR_USERS_ODD ||
           (fetched->said == WEIR_USERS_VALUE &&
            weir_users_value_read(fetched->value, fetched->size, epoch, &token) != 0);
}

static bool is_mark(const struct weir_users_fetched *fetched)
{
    return fetched->said == WEIR_USERS_VALUE && weir_users_value_is_mark(fetched->value, fetched->size);
}

/* What a fetched user has seen, if it is there. *ret_after_ns: of the floor, if it is not. */
static bool is_found(struct weir_users_remote *remote, const struct weir_users_fetched *fetched,
                     struct weir_session_token *ret_token, uint64_t *ret_after_ns)
{
    char epoch[WEIR_USERS_EPOCH_SIZE + 1] = "";
    *ret_after_ns = look(remote, fetched);
    bool ours = fetched->said == WEIR_USERS_VALUE &&
                weir_users_value_read(fetched->value, fetched->size, epoch, ret_token) == 0;
    if (ours && strcmp(epoch, fetched->epoch) == 0) {
        remote->users.found++;
        return true;
    }
    if (is_strange(fetched)) {
        if (!is_mark(fetched))
            count_corrupt(remote);
        *ret_after_ns = weir_users_now_ns(); /* whoever wrote it may have done so just now */
    }
    remote->users.not_found++;
    return false;
}

static int floor_of(struct weir_users_remote *remote, uint64_t after_ns, uint64_t deadline_ns,
                    const struct weir_known *known, struct weir_session_token *ret_token)
{
    uint64_t before_ns = weir_sub_sat(weir_users_now_ns(), remote->users.ttl_ns / 2);
    weir_users_floor_tend(&remote->users.floor, before_ns, deadline_ns);
    int error = weir_users_floor_get(&remote->users.floor, after_ns, deadline_ns, known, ret_token);
    if (error)
        weir_users_remote_fault(remote, "the primary does not say what it shows: a user that is not found must wait");
    return error;
}

/* ---- one call ---- */

struct call {
    struct weir_users_remote *remote;
    struct weir_users_name name;
    uint64_t deadline_ns;
    unsigned breaks;
};

static struct call call_begin(struct weir_users *users, struct weir_users_name name)
{
    return (struct call){ (struct weir_users_remote *)(void *)users, name, weir_users_now_ns() + users->timeout_ns, 0 };
}

/* A connection that broke is worth another try, while there is time. */
static int call_judge(struct call *call, int error)
{
    if (error != WEIR_EIO)
        return error;
    return ++call->breaks >= BREAKS_MAX || weir_users_now_ns() >= call->deadline_ns ? WEIR_EDOWN : WEIR_EIO;
}

static int fetch(struct call *call, struct weir_users_fetched *ret_fetched)
{
    int error;
    do {
        struct weir_users_link *link = link_take(call->remote, call->deadline_ns);
        if (!link)
            return WEIR_EDOWN;
        error = call->remote->ops->fetch(call->remote, link->link, call->name, call->deadline_ns, ret_fetched);
        link_give(call->remote, link);
        error = call_judge(call, error);
    } while (error == WEIR_EIO);
    return error;
}

/* One strange value is like another: that it is there still does not say that nobody stored a token in between, over
 * which the next one was written. A mark says so. */
static void write_mark(char ret_value[WEIR_USERS_VALUE_MAX], size_t *ret_size)
{
    char number[WEIR_USERS_EPOCH_SIZE + 1];
    weir_users_epoch_make(number);
    memcpy(ret_value, "0 ", 2);
    memcpy(ret_value + 2, number, WEIR_USERS_EPOCH_SIZE);
    *ret_size = WEIR_USERS_MARK_SIZE;
}

/* WEIR_EBUSY: fetch again. */
static int swap(struct call *call, const struct weir_users_fetched *before, const struct weir_session_token *token)
{
    char value[WEIR_USERS_VALUE_MAX];
    size_t size;
    bool marks = is_strange(before) && !is_mark(before);
    int error = weir_users_value_write(before->epoch, token, value, &size);
    if (error)
        return error;
    if (marks)
        write_mark(value, &size);
    if (!before->old && before->said == WEIR_USERS_VALUE && size == before->size &&
        memcmp(value, before->value, size) == 0)
        return 0;
    struct weir_users_link *link = link_take(call->remote, call->deadline_ns);
    if (!link)
        return WEIR_EDOWN;
    error = call->remote->ops->swap(call->remote, link->link, call->name, before, value, size, call->deadline_ns);
    link_give(call->remote, link);
    error = call_judge(call, error);
    return error == WEIR_EIO || (error == 0 && marks) ? WEIR_EBUSY : error;
}

static bool in_time(const struct call *call)
{
    return weir_users_now_ns() < call->deadline_ns;
}

static int remote_get(struct weir_users *users, struct weir_users_name name, const struct weir_known *known,
                      struct weir_session_token *ret_token)
{
    struct call call = call_begin(users, name);
    struct weir_users_fetched fetched;
    struct weir_session_token token;
    uint64_t after_ns;
    int error = fetch(&call, &fetched);
    if (error)
        return error;
    if (!is_found(call.remote, &fetched, &token, &after_ns))
        return floor_of(call.remote, after_ns, call.deadline_ns, known, ret_token);
    *ret_token = token;
    return 0;
}

static int remote_add(struct weir_users *users, struct weir_users_name name, const struct weir_known *known,
                      const struct weir_session_token *seen, struct weir_session_token *ret_token)
{
    struct call call = call_begin(users, name);
    do {
        struct weir_users_fetched fetched;
        struct weir_session_token token;
        uint64_t after_ns;
        int error = fetch(&call, &fetched);
        if (error == 0 && !is_found(call.remote, &fetched, &token, &after_ns))
            error = floor_of(call.remote, after_ns, call.deadline_ns, known, &token);
        if (error == 0)
            error = weir_session_token_merge(&token, seen, known);
        if (error == 0)
            error = swap(&call, &fetched, &token);
        if (error == 0)
            *ret_token = token;
        if (error != WEIR_EBUSY)
            return error;
    } while (in_time(&call));
    return WEIR_EBUSY;
}

static int remote_accept(struct weir_users *users, struct weir_users_name name, const struct weir_session_token *before,
                         const struct weir_session_token *token)
{
    struct call call = call_begin(users, name);
    do {
        struct weir_users_fetched fetched;
        struct weir_session_token stored, put = *token;
        uint64_t after_ns;
        int error = fetch(&call, &fetched);
        if (error)
            return error;
        if (!is_found(call.remote, &fetched, &stored, &after_ns)) {
            error = weir_users_floor_newest(&users->floor, call.deadline_ns, &stored);
            if (error == 0)
                error = weir_session_token_merge(&put, &stored, NULL);
        } else if (call.breaks > 0 && weir_users_within(&stored, token)) {
            return 0; /* by the swap of which no answer came */
        } else if (!weir_users_within(&stored, before)) {
            return WEIR_EBUSY;
        }
        if (error == 0)
            error = swap(&call, &fetched, &put);
        if (error != WEIR_EBUSY)
            return error;
    } while (in_time(&call));
    return WEIR_EBUSY;
}

static void remote_stats(struct weir_users *users, struct weir_users_stats *stats)
{
    struct weir_users_remote *remote = (struct weir_users_remote *)(void *)users;
    pthread_mutex_lock(&remote->lock);
    stats->losses = remote->losses;
    stats->corrupt = remote->corrupt;
    memcpy(stats->fault, remote->fault, sizeof stats->fault);
    pthread_mutex_unlock(&remote->lock);
}

/* ---- its life ---- */

static void remote_close(struct weir_users *users)
{
    struct weir_users_remote *remote = (struct weir_users_remote *)(void *)users;
    remote->ops->destroy(remote);
}

static const struct weir_users_ops remote_ops = {
    .get = remote_get,
    .add = remote_add,
    .accept = remote_accept,
    .stats = remote_stats,
    .close = remote_close,
};

int weir_users_remote_init(struct weir_users_remote *remote, const struct weir_users_remote_ops *ops,
                           const struct weir_users_options *options)
{
    int error = weir_users_init(&remote->users, &remote_ops, options);
    if (error)
        return error;
    remote->ops = ops;
    weir_assert(weir_timing_cond_init(&remote->freed) == 0);
    weir_assert(pthread_mutex_init(&remote->lock, NULL) == 0);
    return 0;
}

void weir_users_remote_deinit(struct weir_users_remote *remote)
{
    for (unsigned i = 0; i < WEIR_USERS_LINKS_MAX; i++) {
        if (remote->links[i].link)
            remote->ops->link_destroy(remote->links[i].link);
    }
    pthread_cond_destroy(&remote->freed);
    pthread_mutex_destroy(&remote->lock);
    weir_users_deinit(&remote->users);
}
