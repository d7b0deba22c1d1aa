/* SPDX-License-Identifier: Apache-2.0
 *
 * Share hosts over one engine in virtual time, for their tests. */
#pragma once

#include "ledger_remote.h"
#include "limits/share_host.h"

#define HOSTS_MAX 3
#define WAITERS_MAX 64

struct host {
    struct weir_share_host *host;
    struct world *world;
    uint64_t wake_ns;
    size_t wakes; /* how often it asked for one */
    bool closed;
};

/* A request that waits. */
struct waiting {
    struct weir_share_waiter waiter;
    struct host *host;
    uint64_t since_ns;
    bool used, told;
    int status;
};

struct world {
    struct ledger_remote remote;
    struct host hosts[HOSTS_MAX];
    size_t hosts_count;
    struct waiting waiting[WAITERS_MAX];
    const struct weir_remote_limit *limit;
    struct weir_share_terms terms;
    uint64_t admitted;
};

static void on_wake(void *context, uint64_t at_ns)
{
    struct host *host = context;
    host->wake_ns = at_ns;
    host->wakes++;
}

static uint64_t clock_of(void *context)
{
    return ((struct host *)context)->world->remote.now_ns;
}

static const struct weir_remote_limit *limit_of(const char *name, uint64_t count, uint64_t period_ns)
{
    const struct weir_remote_limit *limit = NULL;
    const struct weir_limit_spec spec = { .count = count, .period_ns = period_ns };
    struct weir_fault fault;
    assert_int_equal(weir_remote_limit_create(name, 0, 0, &spec, &limit, &fault), 0);
    return limit;
}

static void world_init(struct world *w, size_t hosts, size_t keys_max, uint64_t count, bool leased, uint64_t seed)
{
    *w = (struct world){ .hosts_count = hosts };
    ledger_remote_init(&w->remote, seed);
    w->limit = limit_of("api", count, MINUTE);
    w->terms = (struct weir_share_terms){ .limit = w->limit,
                                          .leased = leased,
                                          .slack = 5,
                                          .interval_ns = 100 * MS,
                                          .chunk_ttl_ns = 2 * SECOND,
                                          .deadline_ns = 20 * MS };
    for (size_t i = 0; i < hosts; i++) {
        struct host *host = &w->hosts[i];
        *host = (struct host){ .world = w, .wake_ns = WEIR_NEVER };
        const struct weir_share_host_options options = {
            .remote = &w->remote.remote, .keys_max = keys_max, .wake = on_wake, .now_ns = clock_of, .context = host
        };
        assert_int_equal(weir_share_host_create(&options, &host->host), 0);
    }
}

/* The next moment at which something happens, at most `until_ns`; false: it is over. */
static bool world_step(struct world *w, uint64_t until_ns)
{
    uint64_t next_ns = ledger_remote_next_ns(&w->remote);
    for (size_t i = 0; i < w->hosts_count; i++)
        next_ns = w->hosts[i].wake_ns < next_ns ? w->hosts[i].wake_ns : next_ns;
    bool on = next_ns <= until_ns;
    w->remote.now_ns = on && next_ns > w->remote.now_ns ? next_ns : on ? w->remote.now_ns : until_ns;
    ledger_remote_turn(&w->remote);
    for (size_t i = 0; i < w->hosts_count; i++) {
        struct host *host = &w->hosts[i];
        if (host->closed || host->wake_ns > w->remote.now_ns)
            continue;
        host->wake_ns = WEIR_NEVER;
        weir_share_host_turn(host->host, w->remote.now_ns);
    }
    return on;
}

static void world_run(struct world *w, uint64_t for_ns)
{
    uint64_t until_ns = w->remote.now_ns + for_ns;
    while (world_step(w, until_ns))
        ;
}

static void on_closed(void *context)
{
    struct host *host = context;
    host->closed = true;
    host->wake_ns = WEIR_NEVER;
}

static void world_deinit(struct world *w)
{
    for (size_t i = 0; i < w->hosts_count; i++) {
        if (!w->hosts[i].closed)
            weir_share_host_close(w->hosts[i].host, SECOND, on_closed, &w->hosts[i]);
    }
    world_run(w, 20 * SECOND);
    for (size_t i = 0; i < w->hosts_count; i++)
        assert_true(w->hosts[i].closed);
    weir_remote_limit_drop(w->limit);
    ledger_remote_deinit(&w->remote);
}

static struct weir_remote_key key_of(const char *value)
{
    struct weir_remote_key key;
    const struct weir_slice slice = { value, strlen(value) };
    assert_int_equal(weir_remote_key_init(NULL, "api", &slice, 1, &key), 0);
    return key;
}

static struct weir_ledger *ledger_of(struct world *w, const char *value)
{
    struct weir_remote_key key = key_of(value);
    return ledger_remote_of(&w->remote, &w->limit->limit, &key);
}

static inline uint64_t used(struct world *w, const char *value)
{
    const struct weir_event event = { .now_ns = w->remote.now_ns };
    return weir_limit_used(&w->limit->limit, &ledger_of(w, value)->state, &event);
}

/* Reserves; YES is committed. */
static enum weir_share_say ask(struct world *w, size_t host, const char *value, uint64_t units)
{
    struct weir_remote_key key = key_of(value);
    enum weir_share_say say = WEIR_SHARE_NOTHING;
    struct weir_verdict verdict;
    struct weir_share_host *h = w->hosts[host].host;
    assert_int_equal(weir_share_host_reserve(h, &w->terms, &key, units, false, w->remote.now_ns, &say, &verdict), 0);
    if (say == WEIR_SHARE_YES) {
        weir_share_host_commit(h, &key, units, w->remote.now_ns);
        w->admitted += units;
    }
    return say;
}

static void on_told(struct weir_share_waiter *waiter, int status)
{
    struct waiting *waiting = (struct waiting *)waiter;
    assert_false(waiting->told);
    waiting->told = true;
    waiting->status = status;
}

static inline struct waiting *wait_for(struct world *w, size_t host, const char *value)
{
    struct weir_remote_key key = key_of(value);
    size_t i = 0;
    while (w->waiting[i].used)
        i++;
    assert_true(i < WAITERS_MAX);
    struct waiting *waiting = &w->waiting[i];
    *waiting = (struct waiting){
        .waiter.ready = on_told, .host = &w->hosts[host], .since_ns = w->remote.now_ns, .used = true
    };
    weir_share_host_wait(w->hosts[host].host, &key, &waiting->waiter);
    return waiting;
}
