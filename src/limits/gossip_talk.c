/* SPDX-License-Identifier: Apache-2.0
 *
 * The gossip host's datagrams: what is sent to whom and when, and what is done with one that came. Called by
 * serve/gossip.c, which has the socket, and in virtual time by sim/gossip_host.c. */
#include "limits/gossip_inside.h"

#define ROUND_MAX 256 /* datagrams to one node in one turn */

/* ---- sending ---- */

/* A datagram to `to` whose words are `key` and what follows it in the log, as far as they fit; returns the first that
 * did not. With `hot`: the hot keys instead, which promises nothing about the log. */
static struct weir_gossip_key *say(struct weir_gossip_host *host, uint32_t to, struct weir_gossip_key *key,
                                   uint64_t *since, bool hot, const struct weir_gossip_probe *probe,
                                   const struct weir_time *time)
{
    struct weir_gossip_head head;
    weir_gossip_say(&host->gossip, to, *since, host->now_ns, &head);
    weir_gossip_write_start(&host->writer);
    for (; key; key = hot ? key->hot_after : key->newer) {
        struct weir_gossip_hosted_key *hosted = (struct weir_gossip_hosted_key *)(void *)key;
        struct weir_event event = weir_gossip_host_event(host, hosted->limit, hosted->phase, 0, time);
        struct weir_gossip_word word;
        weir_gossip_word(&host->gossip, key, &event, &word);
        if (hosted->limit->remote->spec.spread_ns > 0)
            word.phase = hosted->phase;
        if (!weir_gossip_write_word(&host->writer, &word))
            break;
    }
    if (!hot)
        weir_gossip_say_end(&host->gossip, &head, key);
    *since = head.until;
    weir_gossip_write_end(&host->writer, &head, probe, host->secret);
    host->budget -= (int64_t)host->writer.size;
    host->stats.sent++;
    host->stats.bytes_sent += host->writer.size;
    host->send(host->context, to, host->writer.bytes, host->writer.size);
    return key;
}

static const struct weir_gossip_probe no_probe = { false, WEIR_GOSSIP_NOBODY, WEIR_GOSSIP_NOBODY };

/* The news for one node, and the hot keys ahead of the rest where not all fit into the first datagram. */
static void talk(struct weir_gossip_host *host, uint32_t to, const struct weir_gossip_probe *probe, unsigned most,
                 const struct weir_time *time)
{
    uint64_t since;
    struct weir_gossip_key *key = weir_gossip_news(&host->gossip, to, &since);
    key = say(host, to, key, &since, false, probe, time);
    if (key && host->gossip.hot && most > 1 && host->budget > 0)
        say(host, to, host->gossip.hot, &since, true, &no_probe, time);
    for (unsigned sent = 1; key && sent < most && host->budget > 0; sent++)
        key = say(host, to, key, &since, false, &no_probe, time);
}

static void earn(struct weir_gossip_host *host)
{
    uint64_t passed_ns = weir_min_u64(host->now_ns - host->budget_ns, WEIR_NS_PER_SECOND);
    host->budget += (int64_t)weir_mul_div(host->bytes_per_s, passed_ns, WEIR_NS_PER_SECOND);
    host->budget_ns = host->now_ns;
    int64_t most = (int64_t)weir_mul_div(host->bytes_per_s, 2 * host->interval_ns, WEIR_NS_PER_SECOND);
    if (host->budget > most)
        host->budget = most;
}

static void probe_members(struct weir_gossip_host *host, const struct weir_time *time)
{
    struct weir_membership_send sends[WEIR_MEMBERSHIP_SENDS];
    size_t count = weir_membership_tick(&host->members, host->now_ns, sends);
    for (size_t i = 0; i < count && host->budget > 0; i++) {
        struct weir_gossip_probe probe = { sends[i].ping, sends[i].ask, sends[i].told };
        talk(host, sends[i].to, &probe, 1, time);
    }
}

uint64_t weir_gossip_host_turn(struct weir_gossip_host *host, const struct weir_time *time)
{
    pthread_mutex_lock(&host->mutex);
    host->now_ns = weir_max_u64(host->now_ns, time->now_ns);
    if (host->now_ns >= host->next_ns) {
        earn(host);
        host->next_ns = host->now_ns + host->interval_ns;
        probe_members(host, time);
        host->first = (host->first + 1) % host->gossip.nodes;
        for (uint32_t i = 0; i < host->gossip.nodes && host->budget > 0; i++) {
            uint32_t to = (host->first + i) % host->gossip.nodes;
            enum weir_membership_state state = host->members.node[to].state;
            if (state == WEIR_MEMBERSHIP_ALIVE || state == WEIR_MEMBERSHIP_SUSPECT) /* others are pinged */
                talk(host, to, &no_probe, ROUND_MAX, time);
        }
    }
    uint64_t next_ns = host->next_ns;
    pthread_mutex_unlock(&host->mutex);
    return next_ns;
}

/* ---- hearing ---- */

/* One word; false: it could not be taken. */
static bool hear_word(struct weir_gossip_host *host, const struct weir_gossip_head *head,
                      const struct weir_gossip_word *word, const struct weir_time *time)
{
    struct weir_gossip_hosted_key *hosted = weir_gossip_host_find(host, word->id);
    bool settled = hosted && (hosted->asked || hosted->limit->gossip.id == word->limit);
    struct weir_gossip_hosted_limit *limit = settled ? NULL : host->limits;
    while (limit && (limit->gossip.id != word->limit || !limit->kept))
        limit = limit->next;
    if (hosted && limit)
        weir_gossip_host_follow(host, hosted, limit, time);
    const struct weir_gossip_hosted_limit *its = hosted ? hosted->limit : limit;
    if (host->revised && !host->gossip.synced && its && its->remote->revision == 0)
        return false; /* how much is used, by the sender's definition, cannot be told by ours */
    const uint64_t phase = limit && limit->remote->spec.spread_ns > 0 ? word->phase : 0; /* else it is a count */
    if (!hosted && (!limit || weir_gossip_host_add(host, limit, word->id, phase, time, &hosted)))
        return false;
    struct weir_event event = weir_gossip_host_event(host, hosted->limit, hosted->phase, 0, time);
    return weir_gossip_hear_word(&host->gossip, &hosted->key, head, word, &event);
}

/* All words are read once before the first is taken: a datagram counts as a whole or not at all. */
static bool well_formed(struct weir_gossip_reader reader, uint32_t nodes)
{
    struct weir_gossip_word word;
    int more;
    while ((more = weir_gossip_read_word(&reader, &word)) > 0)
        for (uint32_t j = nodes; j < WEIR_GOSSIP_NODES_MAX; j++)
            if (word.entries[j])
                return false;
    return more == 0;
}

static void answer(struct weir_gossip_host *host, const struct weir_gossip_head *head,
                   const struct weir_gossip_probe *probe, const struct weir_time *time)
{
    uint64_t askers = weir_membership_heard(&host->members, head->from, host->now_ns);
    const struct weir_gossip_probe told = { false, WEIR_GOSSIP_NOBODY, head->from };
    const struct weir_gossip_probe ping = { true, WEIR_GOSSIP_NOBODY, WEIR_GOSSIP_NOBODY };
    if (probe->told != WEIR_GOSSIP_NOBODY)
        weir_membership_told(&host->members, probe->told, host->now_ns);
    earn(host);
    for (uint32_t j = 0; j < host->gossip.nodes; j++)
        if ((askers >> j & 1) && host->budget > 0)
            talk(host, j, &told, 1, time);
    if (probe->ask != WEIR_GOSSIP_NOBODY && probe->ask != host->gossip.self && host->budget > 0) {
        weir_membership_asked(&host->members, head->from, probe->ask, host->now_ns);
        talk(host, probe->ask, &ping, 1, time);
    }
    if (probe->ping && host->budget > 0)
        talk(host, head->from, &no_probe, 1, time);
}

static void hear(struct weir_gossip_host *host, struct weir_gossip_reader *reader, const struct weir_gossip_head *head,
                 const struct weir_gossip_probe *probe, const struct weir_time *time)
{
    bool whole = true;
    struct weir_gossip_word word;
    switch (weir_gossip_hear(&host->gossip, head, host->now_ns)) {
    case WEIR_GOSSIP_REPLAYED:
        host->stats.replayed++;
        return;
    case WEIR_GOSSIP_FOREIGN:
        host->stats.foreign++;
        return;
    case WEIR_GOSSIP_TWIN: /* counted by the core */
        return;
    case WEIR_GOSSIP_NEW:
        break;
    }
    while (weir_gossip_read_word(reader, &word) > 0)
        whole &= hear_word(host, head, &word, time);
    weir_gossip_hear_end(&host->gossip, head, whole, host->now_ns);
    answer(host, head, probe, time);
}

void weir_gossip_host_heard(struct weir_gossip_host *host, const void *datagram, size_t size,
                            const struct weir_time *time)
{
    struct weir_gossip_reader reader;
    struct weir_gossip_head head;
    struct weir_gossip_probe probe;
    pthread_mutex_lock(&host->mutex);
    host->now_ns = weir_max_u64(host->now_ns, time->now_ns);
    host->stats.received++;
    int error = weir_gossip_read(&reader, datagram, size, host->secret, &head, &probe);
    if (error == WEIR_EINVAL)
        host->stats.forged++;
    else if (error || !well_formed(reader, head.nodes))
        host->stats.malformed++;
    else
        hear(host, &reader, &head, &probe, time);
    pthread_mutex_unlock(&host->mutex);
}
