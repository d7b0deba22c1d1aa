/* SPDX-License-Identifier: Apache-2.0
 *
 * One loop in virtual time, for the tests of limits/transaction.h: a limiter, a host of leased and batched keys, a node
 * that gossips with nobody, and an engine that may be slow, silent or down. */
#pragma once

#include "base/checked.h"
#include "ledger_remote.h"
#include "limits/transaction.h"

#define TIMERS_MAX 512
#define KEYS 3
#define YEAR (366 * 86400 * SECOND) /* nothing to speak of comes back */

/* The limits: one of each kind of part, and two of those that the engine decides in one step. */
enum { HERE, EXACT, SECOND_EXACT, LEASED, BATCHED, GOSSIPED, SHADOW, ATTEMPTS, LIMITS };

static const char *const names[LIMITS] = {
    "here", "exact", "second", "leased", "batched", "gossip", "shadow", "tries"
};

struct world {
    struct ledger_remote remote;
    struct weir_limiter *limiter;
    struct weir_gossip_host *gossip;
    struct weir_transactions of;
    struct weir_shared_limit limits[LIMITS];
    struct weir_charge here[2][KEYS]; /* of HERE and ATTEMPTS */
    struct weir_timer *timers[TIMERS_MAX];
    size_t timers_count;
    uint64_t wake_ns;
    bool closed, no_timers;
    size_t settled, ended, unknown;
};

static struct weir_time world_now(void *context)
{
    struct world *w = context;
    return (struct weir_time){ .now_ns = w->remote.now_ns, .wall_ns = w->remote.now_ns };
}

static int timer_start(void *context, struct weir_timer *timer, uint64_t due_ns)
{
    struct world *w = context;
    if (w->no_timers || w->timers_count == TIMERS_MAX)
        return WEIR_ENOMEM;
    timer->due.at_ns = due_ns;
    w->timers[w->timers_count++] = timer;
    return 0;
}

static void timer_stop(void *context, struct weir_timer *timer)
{
    struct world *w = context;
    for (size_t i = 0; i < w->timers_count; i++)
        if (w->timers[i] == timer)
            w->timers[i--] = w->timers[--w->timers_count];
}

static void on_settled(void *context, const struct weir_transaction *transaction, const struct weir_time *time)
{
    struct world *w = context;
    assert_int_equal(time->now_ns, w->remote.now_ns);
    w->settled++;
    w->unknown += transaction->unknown;
}

static void on_ended(void *context, struct weir_transaction *transaction)
{
    ((struct world *)context)->ended++;
    assert_ptr_equal(transaction->of, &((struct world *)context)->of);
}

static const struct weir_transactions_ops world_ops = { world_now, timer_start, timer_stop, on_settled, on_ended };

static void on_wake(void *context, uint64_t at_ns)
{
    ((struct world *)context)->wake_ns = at_ns;
}

static uint64_t host_clock(void *context)
{
    return ((struct world *)context)->remote.now_ns;
}

static void nobody_hears(void *context, uint32_t node, const void *datagram, size_t size)
{
    (void)context, (void)node, (void)datagram, (void)size;
}

static void limits_init(struct world *w, uint64_t capacity, enum weir_on_failure on_failure)
{
    static const enum weir_sharing sharing[LIMITS] = {
        [LEASED] = WEIR_SHARING_LEASED, [BATCHED] = WEIR_SHARING_BATCHED, [GOSSIPED] = WEIR_SHARING_GOSSIP
    };
    for (size_t i = 0; i < LIMITS; i++) {
        struct weir_shared_limit *limit = &w->limits[i];
        *limit = (struct weir_shared_limit){
            .spec = { .count = capacity, .period_ns = YEAR, .burst = capacity },
            .share = { .count = 1, .period_ns = 100 * SECOND, .burst = 1 },
            .sharing = sharing[i],
            .on_failure = on_failure,
            .slack = i == GOSSIPED  ? capacity
                     : i == BATCHED ? 5
                                    : 0,
            .interval_ns = 100 * MS,
            .chunk_ttl_ns = 2 * SECOND,
            .deadline_ns = 20 * MS,
        };
        limit->spec.mode = i == SHADOW ? WEIR_MODE_SHADOW : WEIR_MODE_ENFORCE;
        limit->spec.count_mode = i == ATTEMPTS ? WEIR_COUNT_ATTEMPTS : WEIR_COUNT_ADMITTED;
        if (i != HERE && i != ATTEMPTS)
            assert_int_equal(weir_remote_limit_create(names[i], 0, 0, &limit->spec, &limit->remote, NULL), 0);
    }
    const struct weir_limit_def defs[] = { { names[HERE], "", w->limits[HERE].spec },
                                           { names[ATTEMPTS], "", w->limits[ATTEMPTS].spec } };
    const struct weir_time time = world_now(w);
    weir_limit_id ids[2];
    assert_int_equal(weir_limiter_define(w->limiter, defs, 2, &time, ids, NULL), 0);
    for (size_t i = 0; i < 2 * KEYS; i++) {
        const char value = (char)('a' + i % KEYS);
        const struct weir_slice slice = { &value, 1 };
        struct weir_charge *charge = &w->here[i / KEYS][i % KEYS];
        charge->limit = ids[i / KEYS];
        assert_int_equal(weir_limiter_key(w->limiter, charge->limit, &slice, 1, &charge->key), 0);
    }
}

static void world_init(struct world *w, uint64_t seed, uint64_t capacity, enum weir_on_failure on_failure)
{
    *w = (struct world){ .wake_ns = WEIR_NEVER };
    ledger_remote_init(&w->remote, seed);
    w->of = (struct weir_transactions){ .remote = &w->remote.remote, .loops = 1, .ops = &world_ops, .context = w };
    const struct weir_limiter_options options = { .memory_max = 4 << 20 };
    assert_int_equal(weir_limiter_create(&options, &w->limiter, NULL), 0);
    w->of.limiter = w->limiter;
    const struct weir_share_host_options host = {
        .remote = w->of.remote, .wake = on_wake, .now_ns = host_clock, .context = w
    };
    assert_int_equal(weir_share_host_create(&host, &w->of.host), 0);
    static const char *const nodes[] = { "a" };
    static const uint8_t secret[16];
    const struct weir_gossip_host_options gossip = {
        .secret = secret, .nodes = 1, .names = nodes, .now_ns = T0, .epoch = 1, .send = nobody_hears
    };
    assert_int_equal(weir_gossip_host_create(&gossip, &w->of.gossip, NULL), 0);
    assert_int_equal(weir_fallback_create(LIMITS, 1000, 0, &w->of.fallback), 0);
    limits_init(w, capacity, on_failure);
    assert_int_equal(weir_transactions_init(&w->of), 0);
}

/* ---- time ---- */

static struct weir_timer *next_timer(const struct world *w)
{
    struct weir_timer *next = NULL;
    for (size_t i = 0; i < w->timers_count; i++)
        next = next && next->due.at_ns <= w->timers[i]->due.at_ns ? next : w->timers[i];
    return next;
}

static bool world_step(struct world *w, uint64_t until_ns)
{
    struct weir_timer *timer = next_timer(w);
    uint64_t next_ns = ledger_remote_next_ns(&w->remote);
    next_ns = w->wake_ns < next_ns ? w->wake_ns : next_ns;
    next_ns = timer && timer->due.at_ns < next_ns ? timer->due.at_ns : next_ns;
    if (next_ns > until_ns) {
        w->remote.now_ns = until_ns;
        return false;
    }
    w->remote.now_ns = next_ns > w->remote.now_ns ? next_ns : w->remote.now_ns;
    const struct weir_time time = world_now(w);
    ledger_remote_turn(&w->remote);
    timer = next_timer(w);
    if (timer && timer->due.at_ns <= time.now_ns) {
        timer_stop(w, timer);
        timer->on_due(timer, &time);
    }
    if (w->wake_ns <= time.now_ns) {
        w->wake_ns = WEIR_NEVER;
        weir_share_host_turn(w->of.host, time.now_ns);
    }
    return true;
}

static void world_run(struct world *w, uint64_t for_ns)
{
    const uint64_t until_ns = w->remote.now_ns + for_ns;
    while (world_step(w, until_ns))
        ;
}

static void on_closed(void *context)
{
    ((struct world *)context)->closed = true;
    ((struct world *)context)->wake_ns = WEIR_NEVER;
}

/* What is held goes back. */
static void world_close(struct world *w)
{
    weir_share_host_close(w->of.host, SECOND, on_closed, w);
    world_run(w, 20 * SECOND);
    assert_true(w->closed);
}

static void world_deinit(struct world *w)
{
    if (!w->closed)
        world_close(w);
    weir_transactions_deinit(&w->of);
    weir_fallback_destroy(w->of.fallback);
    weir_gossip_host_destroy(w->of.gossip);
    for (size_t i = 0; i < LIMITS; i++)
        weir_remote_limit_drop(w->limits[i].remote);
    weir_limiter_destroy(w->limiter);
    ledger_remote_deinit(&w->remote);
}

/* ---- asking ---- */

static struct weir_remote_key world_key(size_t limit, size_t key)
{
    const char value = (char)('a' + key);
    const struct weir_slice slice = { &value, 1 };
    struct weir_remote_key made;
    assert_int_equal(weir_remote_key_init(NULL, names[limit], &slice, 1, &made), 0);
    return made;
}

static struct weir_transaction *begin(struct world *w, enum weir_transaction_verb verb)
{
    return weir_transaction_begin(&w->of, verb);
}

static void add(struct world *w, struct weir_transaction *transaction, size_t limit, size_t key, uint64_t cost)
{
    const struct weir_time time = world_now(w);
    const bool here = !w->limits[limit].remote;
    struct weir_charge charge = here ? w->here[limit == ATTEMPTS][key] : (struct weir_charge){ 0 };
    const struct weir_remote_key remote_key = here ? (struct weir_remote_key){ 0 } : world_key(limit, key);
    charge.cost = cost;
    weir_transaction_add(transaction, &w->limits[limit], limit, &charge, &remote_key, &time);
}

static struct weir_transaction *run(struct world *w, struct weir_transaction *transaction)
{
    const struct weir_time time = world_now(w);
    return weir_transaction_run(transaction, &time);
}

/* ---- what was charged ---- */

static uint64_t world_used(struct world *w, size_t limit, size_t key)
{
    const struct weir_time time = world_now(w);
    const uint64_t capacity = w->limits[limit].spec.burst;
    if (w->limits[limit].remote && limit != GOSSIPED) {
        const struct weir_event event = { .now_ns = time.now_ns };
        const struct weir_limit *made = &w->limits[limit].remote->limit;
        const struct weir_remote_key remote_key = world_key(limit, key);
        return weir_limit_used(made, &ledger_remote_of(&w->remote, made, &remote_key)->state, &event);
    }
    struct weir_transaction *look = begin(w, WEIR_TRANSACTION_PEEK);
    add(w, look, limit, key, 0);
    assert_null(run(w, look));
    return capacity - look->parts[0].verdict.remaining;
}
