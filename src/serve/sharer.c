/* SPDX-License-Identifier: Apache-2.0
 *
 * A timer copies, every 100 ms, the state of the engine and of the host into the picture, under a lock, for other
 * threads; in the first loop it also runs the revisor (limits/revisor.c). At the end this waits until no request is
 * under way, lets the host settle for up to 2 s, and closes the connection to the engine. Called by loop.c; how a
 * request uses the engine and the host is in limits/transaction.c. */
#include "serve/sharer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/checked.h"
#include "limits/redis/redis.h"
#include "serve/loop.h"
#include "serve/own_limits.h"
#include "serve/shared.h"

#define PICTURE_PERIOD_MS 100
#define TELL_PERIOD_MS 5 /* at the end */
/* At the end, all together. What batched keys have not told by then is lost, and chunks that were not given back are
 * forfeited. */
#define SETTLE_MAX_NS (2 * WEIR_NS_PER_SECOND)
#define TELL_MAX_NS (WEIR_NS_PER_SECOND / 2) /* of it */

/* ---- pictures ---- */

void weir_sharer_draw(struct weir_sharer *sharer)
{
    if (!sharer->transactions.host)
        return;
    struct weir_sharer_picture *picture = sharer->picture;
    const struct weir_remote_ops *ops = sharer->transactions.remote->ops;
    pthread_mutex_lock(&sharer->lock);
    picture->ready = ops->ready(sharer->transactions.remote);
    ops->stats(sharer->transactions.remote, &picture->remote);
    picture->servers_count = ops->servers(sharer->transactions.remote, picture->servers, WEIR_SHARER_SERVERS_MAX);
    bool alone = !picture->ready;
    for (size_t i = 0; i < picture->servers_count; i++)
        alone = alone || picture->servers[i].denied;
    atomic_store_explicit(&sharer->alone, alone, memory_order_relaxed);
    weir_share_host_stats(sharer->transactions.host, &picture->host);
    picture->host.waiting = sharer->transactions.under_way;
    pthread_mutex_unlock(&sharer->lock);
    sharer->losses = weir_max_u64(sharer->losses, weir_sub_sat(picture->remote.losses, WEIR_SHARER_LOSSES));
    while (sharer->losses < picture->remote.losses)
        sharer->loss_ns[sharer->losses++ % WEIR_SHARER_LOSSES] = uv_hrtime();
}

size_t weir_sharer_losses(const struct weir_sharer *sharer, uint64_t within_ns, uint64_t now_ns)
{
    size_t count = 0;
    for (size_t k = 0; k < sharer->losses && k < WEIR_SHARER_LOSSES; k++)
        count += weir_sub_sat(now_ns, sharer->loss_ns[k]) < within_ns;
    return count;
}

static void on_picture(uv_timer_t *timer)
{
    struct weir_sharer *sharer = timer->data;
    struct weir_loop *loop = (struct weir_loop *)((uint8_t *)sharer - offsetof(struct weir_loop, sharer));
    weir_sharer_draw(sharer);
    if (loop->number > 0)
        return;
    if (sharer->tells_since_ns > 0) {
        weir_sharer_close(loop);
        return;
    }
    weir_own_limits_met(&loop->common->revisor, loop->setup->rules);
    weir_revisor_turn(&loop->common->revisor, sharer->transactions.remote, uv_hrtime());
}

bool weir_sharer_look(struct weir_sharer *sharer, struct weir_sharer_picture *ret_picture)
{
    if (!sharer->picture)
        return false;
    pthread_mutex_lock(&sharer->lock);
    *ret_picture = *sharer->picture;
    pthread_mutex_unlock(&sharer->lock);
    return true;
}

uint64_t weir_sharer_unconfirmed(const struct weir_common *common)
{
    uint64_t units = 0;
    for (size_t i = 0; i < common->loop_count; i++)
        if (common->loops[i].sharer.picture)
            units += common->loops[i].sharer.picture->host.unsettled + common->loops[i].sharer.picture->host.untold;
    return units;
}

bool weir_sharer_alone(struct weir_sharer *sharer)
{
    return atomic_load_explicit(&sharer->alone, memory_order_relaxed);
}

/* ---- the host's turns ---- */

static struct weir_sharer *of_turn(struct weir_timer *timer)
{
    return (struct weir_sharer *)((uint8_t *)timer - offsetof(struct weir_sharer, turn));
}

static void on_turn(struct weir_timer *timer, const struct weir_time *time)
{
    weir_share_host_turn(of_turn(timer)->transactions.host, time->now_ns);
}

static void wake(void *context, uint64_t at_ns)
{
    struct weir_loop *loop = context;
    /* Memory for a timer runs out only with all else; then the next request brings the turn. */
    (void)weir_timer_start(&loop->timers, &loop->sharer.turn, at_ns);
}

/* ---- life ---- */

#ifdef WEIR_HAVE_REDIS
static enum weir_redis_topology topology_of(const struct weir_config_redis *redis)
{
    if (redis->cluster)
        return WEIR_REDIS_CLUSTER;
    return redis->sentinel ? WEIR_REDIS_SENTINEL : WEIR_REDIS_SINGLE;
}

static int create_remote(struct weir_loop *loop, const struct weir_config_redis *redis, struct weir_fault *ret_fault)
{
    struct weir_redis_address addresses[WEIR_SERVERS_MAX];
    uint64_t seed = 0;
    while (seed == 0)
        if (getrandom(&seed, sizeof(seed), 0) < 0)
            return WEIR_EIO;
    for (size_t i = 0; i < redis->servers_count; i++) {
        const struct weir_address *address = &redis->servers[i];
        addresses[i] = address->kind == WEIR_ADDRESS_UNIX
                           ? (struct weir_redis_address){ .path = address->path }
                           : (struct weir_redis_address){ .host = address->host, .port = address->port };
    }
    const struct weir_redis_options options = {
        .topology = topology_of(redis),
        .servers = addresses,
        .servers_count = redis->servers_count,
        .sentinel_name = redis->sentinel,
        .username = redis->username,
        .password = redis->password,
        .sentinel_password = redis->sentinel_password,
        .prefix = redis->prefix,
        .tls = redis->tls,
        .tls_ca_file = redis->tls_ca_file,
        .tls_name = redis->tls_name,
        .connect_timeout_ns = redis->connect_timeout_ns,
        .seed = seed,
    };
    return weir_redis_create(&loop->uv, &options, &loop->sharer.transactions.remote, ret_fault);
}

#else
static int create_remote(struct weir_loop *loop, const struct weir_config_redis *redis, struct weir_fault *ret_fault)
{
    (void)loop;
    (void)redis;
    snprintf(ret_fault->text, sizeof(ret_fault->text), "engine: this weir was built without the redis engine");
    return WEIR_EINVAL;
}
#endif

static int create_host(struct weir_loop *loop)
{
    struct weir_sharer *sharer = &loop->sharer;
    const struct weir_share_host_options options = { .remote = sharer->transactions.remote,
                                                     .wake = wake,
                                                     .context = loop };
    sharer->picture = calloc(1, sizeof(*sharer->picture));
    if (!sharer->picture)
        return WEIR_ENOMEM;
    sharer->turn.on_due = on_turn;
    return weir_share_host_create(&options, &sharer->transactions.host);
}

int weir_sharer_init(struct weir_loop *loop, const struct weir_config *config, struct weir_fault *ret_fault)
{
    struct weir_sharer *sharer = &loop->sharer;
    pthread_mutex_init(&sharer->lock, NULL);
    sharer->transactions = (struct weir_transactions){ .limiter = loop->limiter,
                                                       .fallback = loop->common->fallback,
                                                       .loop = (uint32_t)loop->number,
                                                       .ops = &weir_shared_ops,
                                                       .context = loop };
    if (weir_transactions_init(&sharer->transactions))
        return WEIR_ENOMEM;
    if (config->redis.servers_count == 0)
        return 0;
    int error = create_remote(loop, &config->redis, ret_fault);
    if (!error)
        error = create_host(loop);
    if (error)
        return error;
    uv_timer_init(&loop->uv, &sharer->picture_timer);
    sharer->picture_timer.data = sharer;
    uv_timer_start(&sharer->picture_timer, on_picture, PICTURE_PERIOD_MS, PICTURE_PERIOD_MS);
    return 0;
}

void weir_sharer_retire(struct weir_loop *loop)
{
    if (!loop->sharer.transactions.host)
        return;
    size_t count = weir_rules_count(loop->setup->rules), kept = 0;
    const char **names = malloc((count + 1) * sizeof(names[0]));
    for (size_t i = 0; names && i < count; i++) {
        const struct weir_rule *rule = weir_rules_limit(loop->setup->rules, i);
        if (rule->limit.remote)
            names[kept++] = rule->name;
    }
    if (names) /* else they stay until they are idle */
        (void)weir_share_host_retire(loop->sharer.transactions.host, names, kept);
    free(names);
}

/* ---- the end ---- */

static void on_settled(void *context)
{
    struct weir_loop *loop = context;
    struct weir_sharer *sharer = &loop->sharer;
    weir_sharer_draw(sharer);
    sharer->transactions.host = NULL;
    weir_timer_stop(&loop->timers, &sharer->turn);
    uv_close((uv_handle_t *)&sharer->picture_timer, NULL);
    sharer->transactions.remote->ops->close(sharer->transactions.remote);
    sharer->transactions.remote = NULL;
    weir_loop_shared_closed(loop);
}

/* A reload that the engine has not heard of ends with the last node that has; should all be restarted now, none would
 * know of it. False: there is nothing to wait for. */
static bool tells(struct weir_loop *loop)
{
    struct weir_sharer *sharer = &loop->sharer;
    const uint64_t now_ns = uv_hrtime();
    if (loop->number > 0 || !sharer->transactions.remote)
        return false;
    if (sharer->tells_since_ns == 0) {
        sharer->tells_since_ns = now_ns;
        uv_timer_start(&sharer->picture_timer, on_picture, TELL_PERIOD_MS, TELL_PERIOD_MS);
    }
    return now_ns - sharer->tells_since_ns < TELL_MAX_NS &&
           weir_revisor_ends(&loop->common->revisor, sharer->transactions.remote);
}

void weir_sharer_close(struct weir_loop *loop)
{
    struct weir_sharer *sharer = &loop->sharer;
    bool again = sharer->settling;
    sharer->closing = true;
    if (again || sharer->transactions.under_way > 0 || tells(loop))
        return;
    sharer->settling = true;
    if (sharer->transactions.host) {
        const uint64_t told_ns = sharer->tells_since_ns > 0 ? uv_hrtime() - sharer->tells_since_ns : 0;
        weir_share_host_close(sharer->transactions.host, weir_sub_sat(SETTLE_MAX_NS, told_ns), on_settled, loop);
        return;
    }
    if (sharer->transactions.remote)
        sharer->transactions.remote->ops->close(sharer->transactions.remote);
    sharer->transactions.remote = NULL;
    weir_loop_shared_closed(loop);
}

void weir_sharer_deinit(struct weir_loop *loop)
{
    struct weir_sharer *sharer = &loop->sharer;
    weir_assert(!sharer->transactions.host && !sharer->transactions.remote && sharer->transactions.under_way == 0);
    pthread_mutex_destroy(&sharer->lock);
    free(sharer->picture);
    weir_transactions_deinit(&sharer->transactions);
}
