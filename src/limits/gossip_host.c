/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys and the decisions of the gossip host; its datagrams are in gossip_talk.c, the arithmetic in
 * core/share/gossip.c. A hash table finds a key; an array of all keys is searched, a part at a time, for a fresh one to
 * evict. A reload moves each key to the limit that replaces its own: the same override, else the limit of the same
 * name. Called by requests (transaction_part.c) and by serve/gossip.c, which has the socket. */
#include "limits/gossip_host.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "limits/gossip_inside.h"

#define INTERVAL_NS (100 * WEIR_NS_PER_SECOND / 1000)
#define BYTES_PER_S ((uint64_t)1 << 20)
#define KEYS_MAX 100000
#define FULL_RETRY_NS WEIR_NS_PER_SECOND /* when a place is free, nobody knows */
#define LOOKED_AT 64                     /* keys, in search of a fresh one */
#define PROBE_NS WEIR_NS_PER_SECOND
#define SUSPECT_NS (5 * WEIR_NS_PER_SECOND)

/* ---- life ---- */

static void read_options(struct weir_gossip_host *host, const struct weir_gossip_host_options *options)
{
    memcpy(host->secret, options->secret, sizeof host->secret);
    host->hash = weir_sip_key_load(options->secret);
    host->interval_ns = options->interval_ns ? options->interval_ns : INTERVAL_NS;
    host->bytes_per_s = options->bytes_per_s ? options->bytes_per_s : BYTES_PER_S;
    host->keys_max = options->keys_max ? options->keys_max : KEYS_MAX;
    host->now_ns = host->next_ns = host->budget_ns = options->now_ns;
    host->revised = options->revised;
    host->send = options->send;
    host->context = options->context;
    for (uint32_t j = 0; j < options->nodes; j++)
        strncpy(host->names[j], options->names[j], sizeof host->names[j] - 1);
}

int weir_gossip_host_create(const struct weir_gossip_host_options *options, struct weir_gossip_host **ret_host,
                            struct weir_fault *ret_fault)
{
    if (options->nodes == 0 || options->nodes > WEIR_GOSSIP_NODES_MAX || options->node >= options->nodes)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "nodes", "must be 1 to 64 where a limit is gossiped");
    struct weir_gossip_host *host = calloc(1, sizeof *host);
    if (!host)
        return WEIR_ENOMEM;
    read_options(host, options);
    size_t buckets = 16;
    while (buckets < host->keys_max)
        buckets *= 2;
    host->buckets_mask = buckets - 1;
    host->buckets = calloc(buckets, sizeof(struct weir_gossip_hosted_key *));
    host->keys = calloc(host->keys_max, sizeof(struct weir_gossip_hosted_key *));
    if (!host->buckets || !host->keys) {
        free(host->buckets);
        free(host->keys);
        free(host);
        return WEIR_ENOMEM;
    }
    pthread_mutex_init(&host->mutex, NULL);
    weir_wall_init(&host->wall, WEIR_SKEW_DEFAULT_NS);
    weir_gossip_init(&host->gossip, options->nodes, options->node, options->epoch, host->peers, options->now_ns);
    weir_membership_init(&host->members, options->nodes, options->node, PROBE_NS, SUSPECT_NS, options->now_ns);
    *ret_host = host;
    return 0;
}

static void remove_key(struct weir_gossip_host *host, struct weir_gossip_hosted_key *hosted)
{
    struct weir_gossip_hosted_key **at = &host->buckets[hosted->key.id[0] & host->buckets_mask];
    while (*at != hosted)
        at = &(*at)->next;
    *at = hosted->next;
    host->keys[hosted->index] = host->keys[--host->keys_count];
    host->keys[hosted->index]->index = hosted->index;
    hosted->limit->keys--;
    weir_gossip_forget(&host->gossip, &hosted->key);
    free(hosted);
}

static void remove_limit(struct weir_gossip_host *host, struct weir_gossip_hosted_limit **at)
{
    struct weir_gossip_hosted_limit *limit = *at;
    *at = limit->next;
    weir_gossip_limit_remove(&host->gossip, &limit->gossip);
    weir_remote_limit_drop(limit->remote);
    free(limit);
}

void weir_gossip_host_destroy(struct weir_gossip_host *host)
{
    if (!host)
        return;
    while (host->keys_count > 0)
        remove_key(host, host->keys[0]);
    while (host->limits)
        remove_limit(host, &host->limits);
    weir_wall_deinit(&host->wall);
    pthread_mutex_destroy(&host->mutex);
    free(host->buckets);
    free(host->keys);
    free(host);
}

/* ---- limits ---- */

static int find_limit(struct weir_gossip_host *host, const struct weir_remote_limit *remote, uint64_t slack,
                      struct weir_gossip_hosted_limit **ret_limit)
{
    for (struct weir_gossip_hosted_limit *limit = host->limits; limit; limit = limit->next)
        if (limit->remote == remote && limit->gossip.slack == slack) {
            *ret_limit = limit;
            return 0;
        }
    struct weir_gossip_hosted_limit *limit = calloc(1, sizeof *limit);
    if (!limit)
        return WEIR_ENOMEM;
    limit->name = weir_siphash(&host->hash, remote->name, strlen(remote->name));
    int error = weir_gossip_limit_init(&limit->gossip, limit->name ^ remote->variant, &remote->spec, slack, NULL);
    if (error) {
        free(limit);
        return error;
    }
    limit->remote = weir_remote_limit_hold(remote);
    limit->next = host->limits;
    host->limits = limit;
    weir_gossip_limit_add(&host->gossip, &limit->gossip);
    *ret_limit = limit;
    return 0;
}

void weir_gossip_host_follow(struct weir_gossip_host *host, struct weir_gossip_hosted_key *hosted,
                             struct weir_gossip_hosted_limit *limit, const struct weir_time *time)
{
    struct weir_event before = weir_gossip_host_event(host, hosted->limit, hosted->phase, 0, time);
    struct weir_event event = weir_gossip_host_event(host, limit, hosted->phase, 0, time);
    const bool level = hosted->limit->kept && limit->kept; /* both are of this set: an exception says so, no reload */
    hosted->limit->keys--;
    limit->keys++;
    hosted->limit = limit;
    if (level)
        weir_gossip_key_level(&host->gossip, &hosted->key, &limit->gossip, &before, &event);
    else
        weir_gossip_key_follow(&host->gossip, &hosted->key, &limit->gossip, &before, &event);
}

static struct weir_gossip_hosted_limit *heir_of(const struct weir_gossip_host *host,
                                                const struct weir_gossip_hosted_limit *gone)
{
    struct weir_gossip_hosted_limit *heir = NULL;
    for (struct weir_gossip_hosted_limit *limit = host->limits; limit; limit = limit->next) {
        if (limit->kept && limit->gossip.id == gone->gossip.id)
            return limit;
        if (limit->kept && limit->gossip.id == gone->name)
            heir = limit;
    }
    return heir;
}

/* A key that is only heard of would otherwise age by numbers that hold no more. */
static void keys_follow(struct weir_gossip_host *host, const struct weir_time *time)
{
    for (struct weir_gossip_hosted_limit *limit = host->limits; limit; limit = limit->next)
        limit->heir = limit->kept ? NULL : heir_of(host, limit);
    for (size_t k = 0; k < host->keys_count; k++) {
        struct weir_gossip_hosted_key *hosted = host->keys[k];
        hosted->asked = false;
        if (hosted->limit->heir)
            weir_gossip_host_follow(host, hosted, hosted->limit->heir, time);
    }
}

void weir_gossip_host_limits(struct weir_gossip_host *host, const struct weir_remote_limit *const *limits,
                             const uint64_t *slacks, size_t count, const struct weir_time *time)
{
    pthread_mutex_lock(&host->mutex);
    for (struct weir_gossip_hosted_limit *limit = host->limits; limit; limit = limit->next)
        limit->kept = false;
    for (size_t i = 0; i < count; i++) {
        struct weir_gossip_hosted_limit *limit;
        if (find_limit(host, limits[i], slacks[i], &limit) == 0)
            limit->kept = true;
    }
    keys_follow(host, time);
    for (struct weir_gossip_hosted_limit **at = &host->limits; *at;) {
        if (!(*at)->kept && (*at)->keys == 0)
            remove_limit(host, at);
        else
            at = &(*at)->next;
    }
    pthread_mutex_unlock(&host->mutex);
}

/* ---- keys ---- */

struct weir_event weir_gossip_host_event(struct weir_gossip_host *host, const struct weir_gossip_hosted_limit *limit,
                                         uint64_t phase, uint64_t cost, const struct weir_time *time)
{
    const struct weir_remote_limit *remote = limit->remote;
    host->now_ns = weir_max_u64(host->now_ns, time->now_ns);
    struct weir_event event = { .now_ns = host->now_ns, .cost = cost };
    uint64_t phase_ns = (uint64_t)((weir_u128)phase * remote->spec.spread_ns >> 64);
    if (remote->limit.calendar)
        event.window = weir_wall_window(&host->wall, &remote->rule, remote->spec.period_ns, phase_ns, host->now_ns,
                                        time->wall_ns);
    return event;
}

struct weir_gossip_hosted_key *weir_gossip_host_find(const struct weir_gossip_host *host, const uint64_t id[2])
{
    struct weir_gossip_hosted_key *hosted = host->buckets[id[0] & host->buckets_mask];
    while (hosted && (hosted->key.id[0] != id[0] || hosted->key.id[1] != id[1]))
        hosted = hosted->next;
    return hosted;
}

/* Makes a place: a key goes that is fresh, and best one whose news everybody has. */
static struct weir_gossip_hosted_key *find_place(struct weir_gossip_host *host, const struct weir_time *time)
{
    struct weir_gossip_hosted_key *found = NULL;
    bool acked = false;
    for (size_t looked = 0; looked < LOOKED_AT && looked < host->keys_count && !acked; looked++) {
        host->hand = (host->hand + 1) % host->keys_count;
        struct weir_gossip_hosted_key *hosted = host->keys[host->hand];
        struct weir_event event = weir_gossip_host_event(host, hosted->limit, hosted->phase, 0, time);
        bool all;
        if (!weir_gossip_idle(&host->gossip, &hosted->key, &event, &all))
            continue;
        if (!found || all)
            found = hosted;
        acked = all;
    }
    return found;
}

static bool make_place(struct weir_gossip_host *host, const struct weir_time *time)
{
    struct weir_gossip_hosted_key *found = find_place(host, time);
    if (!found)
        return false;
    remove_key(host, found);
    host->stats.evicted++;
    return true;
}

int weir_gossip_host_add(struct weir_gossip_host *host, struct weir_gossip_hosted_limit *limit, const uint64_t id[2],
                         uint64_t phase, const struct weir_time *time, struct weir_gossip_hosted_key **ret_key)
{
    if (host->keys_count == host->keys_max && !make_place(host, time)) {
        host->stats.refused_full++;
        return WEIR_ELIMIT;
    }
    struct weir_gossip_hosted_key *hosted = malloc(sizeof *hosted + host->gossip.nodes * sizeof hosted->about[0]);
    if (!hosted)
        return WEIR_ENOMEM;
    hosted->limit = limit;
    hosted->phase = phase;
    hosted->asked = false;
    weir_gossip_key_init(&host->gossip, &hosted->key, id, &limit->gossip, hosted->about, host->now_ns);
    limit->keys++;
    hosted->index = host->keys_count++;
    host->keys[hosted->index] = hosted;
    hosted->next = host->buckets[id[0] & host->buckets_mask];
    host->buckets[id[0] & host->buckets_mask] = hosted;
    *ret_key = hosted;
    return 0;
}

/* ---- decisions ---- */

/* A loop that has not heard of the newest reload still asks by a definition before it. The key is decided by what it
 * counts by now: carried back, and over once more, it would lose what a raise gives only in time. */
static struct weir_gossip_hosted_limit *newest(const struct weir_gossip_host *host,
                                               const struct weir_gossip_hosted_key *hosted,
                                               struct weir_gossip_hosted_limit *limit)
{
    if (limit->kept)
        return limit;
    if (hosted && hosted->limit->kept)
        return hosted->limit;
    struct weir_gossip_hosted_limit *heir = heir_of(host, limit);
    return heir ? heir : limit;
}

/* A peek at a key that nobody asked for yet leaves no trace. */
static enum weir_share_say peek_new(struct weir_gossip_host *host, struct weir_gossip_hosted_limit *limit,
                                    const uint64_t id[2], const struct weir_event *event,
                                    struct weir_verdict *ret_verdict)
{
    struct weir_gossip_about about[WEIR_GOSSIP_NODES_MAX];
    struct weir_gossip_key key;
    weir_gossip_key_init(&host->gossip, &key, id, &limit->gossip, about, event->now_ns);
    return weir_gossip_reserve(&host->gossip, &key, event, true, ret_verdict);
}

static int reserve(struct weir_gossip_host *host, const struct weir_remote_limit *remote, uint64_t slack,
                   const struct weir_remote_key *remote_key, uint64_t units, bool peek, const struct weir_time *time,
                   enum weir_share_say *ret_say, struct weir_verdict *ret_verdict)
{
    struct weir_gossip_hosted_key *hosted = weir_gossip_host_find(host, remote_key->id);
    struct weir_gossip_hosted_limit *asked = hosted ? hosted->limit : NULL;
    int error = 0;
    if (!asked || asked->remote != remote || asked->gossip.slack != slack)
        error = find_limit(host, remote, slack, &asked);
    if (error)
        return error;
    struct weir_gossip_hosted_limit *limit = newest(host, hosted, asked);
    struct weir_event event = weir_gossip_host_event(host, limit, remote_key->phase, units, time);
    bool looks = peek || units == 0;
    bool full = !hosted && looks && units > 0 && host->keys_count == host->keys_max && !find_place(host, time);
    if (!hosted && !looks) {
        error = weir_gossip_host_add(host, limit, remote_key->id, remote_key->phase, time, &hosted);
        full = error == WEIR_ELIMIT;
    }
    if (error && !full)
        return error;
    if (!hosted) {
        *ret_say = peek_new(host, limit, remote_key->id, &event, ret_verdict);
        if (full && *ret_say == WEIR_SHARE_YES) { /* nothing failed: on_failure has no say */
            weir_verdict_refuse_full(ret_verdict, FULL_RETRY_NS);
            *ret_say = WEIR_SHARE_NO;
        }
        return 0;
    }
    hosted->phase = remote_key->phase;
    hosted->asked |= limit == asked;
    if (hosted->limit != limit)
        weir_gossip_host_follow(host, hosted, limit, time);
    *ret_say = weir_gossip_reserve(&host->gossip, &hosted->key, &event, peek, ret_verdict);
    return 0;
}

int weir_gossip_host_reserve(struct weir_gossip_host *host, const struct weir_remote_limit *limit, uint64_t slack,
                             const struct weir_remote_key *key, uint64_t units, bool peek, const struct weir_time *time,
                             enum weir_share_say *ret_say, struct weir_verdict *ret_verdict)
{
    pthread_mutex_lock(&host->mutex);
    int error = reserve(host, limit, slack, key, units, peek, time, ret_say, ret_verdict);
    pthread_mutex_unlock(&host->mutex);
    return error;
}

/* A key with reserved units is never forgotten. */
static void finish(struct weir_gossip_host *host, const struct weir_remote_key *key, uint64_t units,
                   const struct weir_time *time,
                   void (*step)(struct weir_gossip *, struct weir_gossip_key *, const struct weir_event *))
{
    if (units == 0)
        return;
    pthread_mutex_lock(&host->mutex);
    struct weir_gossip_hosted_key *hosted = weir_gossip_host_find(host, key->id);
    weir_assert(hosted);
    struct weir_event event = weir_gossip_host_event(host, hosted->limit, hosted->phase, units, time);
    step(&host->gossip, &hosted->key, &event);
    pthread_mutex_unlock(&host->mutex);
}

void weir_gossip_host_commit(struct weir_gossip_host *host, const struct weir_remote_key *key, uint64_t units,
                             const struct weir_time *time)
{
    finish(host, key, units, time, weir_gossip_commit);
}

void weir_gossip_host_cancel(struct weir_gossip_host *host, const struct weir_remote_key *key, uint64_t units,
                             const struct weir_time *time)
{
    finish(host, key, units, time, weir_gossip_cancel);
}

/* ---- what is shown ---- */

size_t weir_gossip_host_members(struct weir_gossip_host *host, const struct weir_time *time,
                                struct weir_gossip_member *ret_members, size_t room)
{
    pthread_mutex_lock(&host->mutex);
    size_t count = weir_min_u64(host->gossip.nodes, room);
    for (size_t j = 0; j < count; j++) {
        const struct weir_gossip_peer *peer = &host->peers[j];
        bool self = j == host->gossip.self;
        ret_members[j] = (struct weir_gossip_member){
            .name = host->names[j],
            .state = weir_membership_name(host->members.node[j].state),
            .epoch = self ? host->gossip.epoch : peer->epoch,
            .heard_after_ns = self               ? 0
                              : peer->epoch == 0 ? WEIR_NEVER
                                                 : weir_sub_sat(time->now_ns, peer->heard_ns),
        };
    }
    pthread_mutex_unlock(&host->mutex);
    return count;
}

void weir_gossip_host_stats(struct weir_gossip_host *host, struct weir_gossip_stats *ret_stats)
{
    pthread_mutex_lock(&host->mutex);
    *ret_stats = host->stats;
    ret_stats->keys = host->keys_count;
    ret_stats->twins = host->gossip.twins;
    ret_stats->synced = host->gossip.synced;
    ret_stats->refused_unsynced = host->gossip.refused.unsynced;
    ret_stats->refused_unheard = host->gossip.refused.unheard;
    ret_stats->refused_slack = host->gossip.refused.slack;
    ret_stats->refused_superseded = host->gossip.refused.superseded;
    for (size_t k = 0; k < host->keys_count; k++)
        ret_stats->unacked += weir_gossip_unacked(&host->gossip, &host->keys[k]->key);
    pthread_mutex_unlock(&host->mutex);
}

bool weir_gossip_host_synced(struct weir_gossip_host *host)
{
    pthread_mutex_lock(&host->mutex);
    bool synced = host->gossip.synced;
    pthread_mutex_unlock(&host->mutex);
    return synced;
}

size_t weir_gossip_host_losses(struct weir_gossip_host *host, const struct weir_remote_limit *limit, uint64_t now_ns)
{
    size_t count = 0;
    pthread_mutex_lock(&host->mutex);
    const struct weir_gossip_hosted_limit *hosted = host->limits;
    while (hosted && hosted->remote != limit)
        hosted = hosted->next;
    for (size_t k = 0; hosted && k < WEIR_GOSSIP_LOSSES && k < hosted->gossip.losses_count; k++)
        count += weir_sub_sat(now_ns, hosted->gossip.losses[k].at_ns) < hosted->gossip.fill_ns;
    pthread_mutex_unlock(&host->mutex);
    return count;
}

uint64_t weir_gossip_host_window_start(struct weir_gossip_host *host, const struct weir_remote_key *key,
                                       const struct weir_time *time)
{
    pthread_mutex_lock(&host->mutex);
    const struct weir_gossip_hosted_key *hosted = weir_gossip_host_find(host, key->id);
    weir_assert(hosted);
    struct weir_event event = weir_gossip_host_event(host, hosted->limit, hosted->phase, 0, time);
    uint64_t start_ns = weir_gossip_window_start(&hosted->key, &event);
    pthread_mutex_unlock(&host->mutex);
    return start_ns;
}
