/* SPDX-License-Identifier: Apache-2.0
 *
 * A small world for the sharing machines: one ledger, some nodes, a network that loses, delays, repeats and reorders,
 * and a list of what was really admitted when. What the ledger believes is not looked at: the promise is checked on
 * the list. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/checked.h"
#include "core/share/batched.h"
#include "core/share/leased.h"
#include "core/share/ledger.h"
#include "random.h"

#define MS UINT64_C(1000000)
#define SECOND WEIR_NS_PER_SECOND
#define WORLD_NODES 5
#define WORLD_MESSAGES 256
#define WORLD_SPENDS 65536
#define WORLD_HELD 64 /* reservations or waiting requests of a node */
#define WORLD_START (1000 * SECOND)

struct world_spend {
    uint64_t at_ns;
    uint64_t units; /* 0: cancelled, or its node crashed before the commit */
    bool crash;     /* not a spend: a node crashed */
};

struct world_node {
    struct weir_leased leased;
    struct weir_batched batched;
    uint64_t clock_offset_ns;
    int64_t drift;    /* of the clock, in parts per thousand */
    uint64_t wake_ns; /* by the node's clock */
    uint64_t asked_seq;
    size_t set_aside[WORLD_HELD]; /* indexes of spends */
    size_t set_aside_count;
    uint64_t waiting[WORLD_HELD];
    size_t waiting_count;
    bool cut_off;
    uint64_t yes, no;
};

struct world_message {
    uint64_t at_ns; /* 0 = none */
    size_t node;
    bool answer;
    struct weir_share_ask ask;
    struct weir_share_answer said;
};

/* A window of `align: first`, as the ledger opened it. */
struct world_window {
    uint64_t start_ns;
};

struct world {
    struct test_random random;
    struct weir_limit_spec spec;
    struct weir_limit limit;
    bool leased;
    uint64_t slack, ttl_ns, interval_ns;
    uint64_t now_ns;
    struct weir_ledger ledger;
    struct weir_ledger_stint stints[WEIR_LEDGER_STINTS_MAX];
    uint64_t times[2][WEIR_LOG_MAX];
    int times_in_use;
    struct world_node nodes[WORLD_NODES];
    size_t nodes_count;
    struct world_message messages[WORLD_MESSAGES];
    struct world_spend spends[WORLD_SPENDS];
    size_t spends_count;
    struct world_window windows[WORLD_SPENDS];
    size_t windows_count;
    uint64_t stints_given, asks;
    unsigned loss, repeat, late; /* percent */
};

static inline uint64_t world_node_ns(const struct world *w, size_t node)
{
    const struct world_node *n = &w->nodes[node];
    uint64_t since_ns = w->now_ns - WORLD_START;
    return n->clock_offset_ns + since_ns + (uint64_t)((int64_t)(since_ns / 1000) * n->drift);
}

/* When the node's clock will show `at_ns`, or a little later. */
static inline uint64_t world_when(const struct world *w, size_t node, uint64_t at_ns)
{
    uint64_t now = world_node_ns(w, node);
    return at_ns <= now ? w->now_ns : w->now_ns + (at_ns - now) + (at_ns - now) / 50;
}

static inline void world_start_node(struct world *w, size_t node)
{
    struct world_node *n = &w->nodes[node];
    *n = (struct world_node){ .clock_offset_ns = SECOND + test_random_below(&w->random, 1000 * SECOND),
                              .drift = (int64_t)test_random_below(&w->random, 21) - 10 };
    weir_leased_init(&n->leased, ++w->stints_given << WEIR_SHARE_STINT_BITS);
    weir_batched_init(&n->batched, w->stints_given << WEIR_SHARE_STINT_BITS);
}

static inline void world_init(struct world *w, uint64_t seed, const struct weir_limit_spec *spec, bool leased)
{
    memset(w, 0, offsetof(struct world, spends));
    w->spends_count = w->windows_count = 0;
    w->random.state = seed;
    w->spec = *spec;
    w->leased = leased;
    w->stints_given = w->asks = 0;
    assert_int_equal(weir_limit_init(&w->limit, spec, 0, NULL), 0);
    w->now_ns = WORLD_START;
    w->ledger = (struct weir_ledger){ .state = weir_state_fresh(&w->limit, w->now_ns),
                                      .stints = w->stints,
                                      .stints_max = WEIR_LEDGER_STINTS_MAX };
    w->ttl_ns = leased ? 2 * SECOND : 60 * SECOND;
    w->interval_ns = 100 * MS;
    w->slack = leased ? 0 : 3;
    w->nodes_count = 3;
    w->loss = w->repeat = w->late = 0;
    for (size_t i = 0; i < WORLD_NODES; i++)
        world_start_node(w, i);
}

/* ---- the engine ---- */

static inline struct weir_event world_event(const struct world *w, uint64_t cost)
{
    uint64_t period_ns = w->spec.period_ns;
    struct weir_event event = { .now_ns = w->now_ns, .cost = cost };
    event.window.id = w->now_ns / period_ns;
    event.window.end_after_ns = period_ns - w->now_ns % period_ns;
    return event;
}

static inline void world_make_room(struct world *w, const struct weir_event *event, uint64_t units)
{
    uint32_t room = weir_ledger_room(&w->limit, &w->ledger, event, units);
    if (room > w->ledger.state.log.room) {
        w->times_in_use = !w->times_in_use;
        weir_log_move(&w->ledger.state.log, w->times[w->times_in_use], room);
    }
}

static inline void world_note_window(struct world *w)
{
    if (w->limit.algorithm != WEIR_FIXED_WINDOW || w->limit.calendar || w->ledger.state.count == 0)
        return;
    uint64_t start_ns = w->ledger.state.fresh_at - w->spec.period_ns; /* ticks are ns here */
    if (w->windows_count == 0 || w->windows[w->windows_count - 1].start_ns != start_ns)
        w->windows[w->windows_count++].start_ns = start_ns;
}

static inline struct weir_share_answer world_ask(struct world *w, const struct weir_share_ask *ask)
{
    struct weir_event event = world_event(w, 0);
    struct weir_share_answer answer;
    world_make_room(w, &event, weir_ledger_owed(&w->ledger, ask));
    weir_ledger_ask(&w->limit, &w->ledger, &event, ask, &answer);
    w->asks++;
    world_note_window(w);
    return answer;
}

static inline bool world_decide(struct world *w, uint64_t cost, struct weir_verdict *ret_verdict)
{
    struct weir_event event = world_event(w, cost);
    world_make_room(w, &event, cost);
    bool admitted = weir_ledger_decide(&w->limit, &w->ledger, &event, false, ret_verdict);
    world_note_window(w);
    return admitted;
}

/* ---- the network ---- */

static inline void world_post(struct world *w, const struct world_message *message)
{
    unsigned copies = 1 + (test_random_below(&w->random, 100) < w->repeat);
    for (unsigned c = 0; c < copies; c++) {
        if (test_random_below(&w->random, 100) < w->loss || w->nodes[message->node].cut_off)
            continue;
        uint64_t delay_ns = MS / 10 + test_random_below(&w->random, MS);
        if (test_random_below(&w->random, 100) < w->late)
            delay_ns += test_random_below(&w->random, 2 * w->ttl_ns);
        for (size_t i = 0; i < WORLD_MESSAGES; i++) {
            if (w->messages[i].at_ns != 0)
                continue;
            w->messages[i] = *message;
            w->messages[i].at_ns = w->now_ns + delay_ns;
            break;
        }
    }
}

/* ---- a node and its host ---- */

static inline struct weir_share_effects world_step(struct world *w, size_t node, const struct weir_share_event *event)
{
    struct world_node *n = &w->nodes[node];
    struct weir_share_effects effects;
    uint64_t now = world_node_ns(w, node);
    if (w->leased) {
        struct weir_leased_options options = { w->limit.capacity, w->ttl_ns, 20 * MS, 50 * MS };
        weir_leased_step(&n->leased, &options, event, now, &effects);
    } else {
        struct weir_batched_options options = { w->limit, w->slack, w->interval_ns, w->ttl_ns, 20 * MS };
        weir_batched_step(&n->batched, &options, event, now, &effects);
        assert_true(n->batched.unsettled + n->batched.ahead <= w->slack);
    }
    n->wake_ns = effects.wake_ns;
    if (effects.send) {
        assert_true(effects.ask.seq > n->asked_seq);
        n->asked_seq = effects.ask.seq;
        world_post(w, &(struct world_message){ .node = node, .ask = effects.ask });
    }
    return effects;
}

/* Reserves; on YES the units are admitted now, though the commit may come later. */
static inline enum weir_share_say world_reserve(struct world *w, size_t node, uint64_t units)
{
    struct world_node *n = &w->nodes[node];
    if (n->set_aside_count == WORLD_HELD || n->waiting_count == WORLD_HELD || w->spends_count + 8 > WORLD_SPENDS)
        return WEIR_SHARE_NOTHING;
    struct weir_share_event event = { .kind = WEIR_SHARE_RESERVE, .units = units };
    struct weir_share_effects effects = world_step(w, node, &event);
    n->yes += effects.say == WEIR_SHARE_YES;
    n->no += effects.say == WEIR_SHARE_NO;
    if (effects.say == WEIR_SHARE_YES) {
        assert_true(effects.verdict.admitted && effects.verdict.remaining <= effects.verdict.capacity);
        n->set_aside[n->set_aside_count++] = w->spends_count;
        w->spends[w->spends_count++] = (struct world_spend){ .at_ns = w->now_ns, .units = units };
    } else if (effects.say == WEIR_SHARE_NO) {
        assert_true(!effects.verdict.admitted && effects.verdict.retry_after_ns > 0);
        assert_int_equal(effects.verdict.retry_after_ns == WEIR_NEVER, units > w->limit.capacity);
    } else {
        n->waiting[n->waiting_count++] = units;
    }
    return effects.say;
}

static inline void world_resolve(struct world *w, size_t node, bool commit)
{
    struct world_node *n = &w->nodes[node];
    if (n->set_aside_count == 0)
        return;
    size_t which = (size_t)test_random_below(&w->random, n->set_aside_count);
    struct world_spend *spend = &w->spends[n->set_aside[which]];
    n->set_aside[which] = n->set_aside[--n->set_aside_count];
    struct weir_share_event event = { .kind = commit ? WEIR_SHARE_COMMIT : WEIR_SHARE_CANCEL, .units = spend->units };
    if (!commit)
        spend->units = 0;
    world_step(w, node, &event);
}

/* Reserves and commits at once. */
static inline bool world_take(struct world *w, size_t node, uint64_t units)
{
    if (world_reserve(w, node, units) != WEIR_SHARE_YES)
        return false;
    struct world_node *n = &w->nodes[node];
    struct weir_share_event event = { .kind = WEIR_SHARE_COMMIT, .units = units };
    n->set_aside_count--;
    world_step(w, node, &event);
    return true;
}

static inline void world_crash(struct world *w, size_t node)
{
    struct world_node *n = &w->nodes[node];
    for (size_t i = 0; i < n->set_aside_count; i++)
        w->spends[n->set_aside[i]].units = 0;
    w->spends[w->spends_count++] = (struct world_spend){ .at_ns = w->now_ns, .crash = true };
    world_start_node(w, node);
}

/* Those that waited ask again, in their order; a node restarted since has nobody waiting. */
static inline void world_wake_waiting(struct world *w, size_t node)
{
    struct world_node *n = &w->nodes[node];
    uint64_t waited[WORLD_HELD];
    size_t count = n->waiting_count;
    memcpy(waited, n->waiting, sizeof waited);
    n->waiting_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (test_random_below(&w->random, 8) > 0) /* some have gone */
            world_take(w, node, waited[i]);
    }
}

static inline void world_deliver(struct world *w, struct world_message *message)
{
    struct world_message m = *message;
    message->at_ns = 0;
    if (w->nodes[m.node].cut_off)
        return;
    if (m.answer) {
        struct weir_share_event event = { .kind = WEIR_SHARE_HEARD, .seq = m.said.seq, .answer = &m.said };
        world_step(w, m.node, &event);
        world_wake_waiting(w, m.node);
        return;
    }
    struct world_message back = { .node = m.node, .answer = true, .said = world_ask(w, &m.ask) };
    world_post(w, &back);
}

/* Goes on to `until_ns`, or to the next thing that happens by itself if that is sooner. */
static inline void world_next(struct world *w, uint64_t until_ns)
{
    uint64_t at_ns = until_ns;
    struct world_message *message = NULL;
    size_t node = w->nodes_count;
    for (size_t i = 0; i < w->nodes_count; i++) {
        uint64_t wake = w->nodes[i].wake_ns ? world_when(w, i, w->nodes[i].wake_ns) : UINT64_MAX;
        if (wake < at_ns) {
            at_ns = wake;
            node = i;
        }
    }
    for (size_t i = 0; i < WORLD_MESSAGES; i++) {
        if (w->messages[i].at_ns != 0 && w->messages[i].at_ns <= at_ns) {
            message = &w->messages[i];
            at_ns = message->at_ns;
        }
    }
    w->now_ns = weir_max_u64(w->now_ns, at_ns);
    if (message) {
        world_deliver(w, message);
    } else if (node < w->nodes_count) {
        struct weir_share_event event = { .kind = WEIR_SHARE_TICK };
        uint64_t before = w->nodes[node].wake_ns;
        world_step(w, node, &event);
        assert_true(w->nodes[node].wake_ns != before || world_node_ns(w, node) < before); /* no busy loop */
        if (w->nodes[node].waiting_count > 0)
            world_wake_waiting(w, node);
    }
}

static inline void world_run(struct world *w, uint64_t for_ns)
{
    uint64_t until_ns = w->now_ns + for_ns;
    while (w->now_ns < until_ns)
        world_next(w, until_ns);
}

/* ---- the promise ---- */

/* Admitted in [s,t] <= b + n(t-s)/p, for all pairs, and what was allowed beyond: a level that leaks n per p. Returns
 * its peak, in units, rounded up. */
static inline uint64_t world_bucket_peak(const struct world *w)
{
    uint64_t period_ns = w->spec.period_ns, last_ns = WORLD_START;
    weir_u128 level = 0, peak = 0;
    for (size_t i = 0; i < w->spends_count; i++) {
        const struct world_spend *spend = &w->spends[i];
        weir_u128 leaked = (weir_u128)(spend->at_ns - last_ns) * w->spec.count;
        level = level > leaked ? level - leaked : 0;
        last_ns = spend->at_ns;
        weir_u128 lost = (weir_u128)w->slack * period_ns;
        if (spend->crash)
            level = level > lost ? level - lost : 0;
        level += (weir_u128)spend->units * period_ns;
        peak = level > peak ? level : peak;
    }
    return (uint64_t)((peak + period_ns - 1) / period_ns);
}

/* Units in [start, end), less what the crashes in it allow. */
static inline uint64_t world_units(const struct world *w, uint64_t start_ns, uint64_t end_ns)
{
    uint64_t units = 0, crashes = 0;
    for (size_t i = 0; i < w->spends_count; i++) {
        const struct world_spend *spend = &w->spends[i];
        if (spend->at_ns < start_ns || spend->at_ns >= end_ns)
            continue;
        units += spend->units;
        crashes += spend->crash;
    }
    return weir_sub_sat(units, crashes * w->slack);
}

static inline uint64_t world_aligned_peak(const struct world *w)
{
    uint64_t period_ns = w->spec.period_ns, peak = 0;
    for (size_t i = 0; i < w->spends_count; i++) {
        uint64_t start_ns = w->spends[i].at_ns - w->spends[i].at_ns % period_ns;
        if (i == 0 || w->spends[i - 1].at_ns < start_ns)
            peak = weir_max_u64(peak, world_units(w, start_ns, start_ns + period_ns));
    }
    return peak;
}

/* Every (t - p, t]. */
static inline uint64_t world_rolling_peak(const struct world *w)
{
    uint64_t peak = 0, units = 0, crashes = 0;
    for (size_t i = 0, first = 0; i < w->spends_count; i++) {
        units += w->spends[i].units;
        crashes += w->spends[i].crash;
        for (; w->spends[first].at_ns + w->spec.period_ns <= w->spends[i].at_ns; first++) {
            units -= w->spends[first].units;
            crashes -= w->spends[first].crash;
        }
        peak = weir_max_u64(peak, weir_sub_sat(units, crashes * w->slack));
    }
    return peak;
}

/* Every window that the ledger opened. Leased: nothing is spent outside, and those in which something was spent do not
 * overlap. */
static inline uint64_t world_first_peak(const struct world *w)
{
    uint64_t peak = 0, in_windows = 0, all = 0, end_ns = 0;
    for (size_t i = 0; i < w->windows_count; i++) {
        uint64_t start_ns = w->windows[i].start_ns;
        uint64_t next_ns = i + 1 < w->windows_count ? w->windows[i + 1].start_ns : UINT64_MAX;
        uint64_t until_ns = weir_min_u64(start_ns + w->spec.period_ns, next_ns);
        uint64_t units = world_units(w, start_ns, until_ns);
        peak = weir_max_u64(peak, units);
        in_windows += units;
        if (units > 0 && w->leased) {
            assert_true(start_ns >= end_ns);
            end_ns = start_ns + w->spec.period_ns;
        }
    }
    for (size_t i = 0; i < w->spends_count; i++)
        all += w->spends[i].units;
    if (w->leased)
        assert_int_equal(in_windows, all);
    return peak;
}

/* The most that the promise of the limit was used by; at most its capacity where sharing added nothing. */
static inline uint64_t world_peak(const struct world *w)
{
    switch (w->spec.algorithm) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        return world_bucket_peak(w);
    case WEIR_SLIDING_LOG:
        return world_rolling_peak(w);
    case WEIR_SLIDING_COUNTER:
        return world_aligned_peak(w);
    case WEIR_FIXED_WINDOW:
    case WEIR_CONCURRENCY: /* no mode shares it */
        break;
    }
    return w->limit.calendar ? world_aligned_peak(w) : world_first_peak(w);
}
