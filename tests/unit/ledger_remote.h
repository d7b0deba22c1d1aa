/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine elsewhere for tests, in this process and in virtual time: ledgers (core/share/ledger.h) behind
 * limits/remote.h, over a network that delays, loses and repeats as it is told. Several operations of one request are
 * done in one step: decisions all or none. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/share/ledger.h"
#include "limits/remote.h"
#include "random.h"

#define MS UINT64_C(1000000)
#define SECOND WEIR_NS_PER_SECOND
#define MINUTE (60 * SECOND)
#define T0 (1000 * SECOND)
#define LEDGERS_MAX 64
#define FLIGHTS_MAX 256
#define FLIGHT_OPS_MAX 8

struct ledger_key {
    uint64_t id[2];
    struct weir_ledger ledger;
    struct weir_ledger_stint stints[WEIR_LEDGER_STINTS_MAX];
};

/* One request on its way: the engine runs it at arrive_ns (and again at repeat_ns), its caller hears at answer_ns. */
struct ledger_flight {
    struct weir_remote_request *request;
    enum weir_remote_verb verb; /* and the rest as it was sent: a repeat comes when the caller has forgotten it */
    size_t count;
    struct weir_remote_op ops[FLIGHT_OPS_MAX];
    bool admitted, busy, outrun;
    uint64_t arrive_ns, repeat_ns, answer_ns;
};

struct ledger_remote {
    struct weir_remote remote;
    uint64_t now_ns;
    uint64_t delay_ns;       /* one way */
    uint64_t jitter_ns;      /* up to so much more */
    unsigned lost, repeated; /* of 1000, each way */
    uint64_t busy;           /* so many of the next decisions fail because others change the key */
    uint64_t busy_asks;      /* and so many of the next asks */
    uint64_t outrun;         /* and in so many of the next rounds of asks others are faster */
    bool down;               /* submit refuses */
    struct test_random random;
    struct ledger_key *keys;
    size_t keys_count;
    struct ledger_flight flights[FLIGHTS_MAX];
    size_t flights_count;
    uint64_t asks, refused;
};

static inline uint64_t ledger_remote_delay(struct ledger_remote *r)
{
    return r->delay_ns + (r->jitter_ns ? test_random_below(&r->random, r->jitter_ns) : 0);
}

static inline bool ledger_remote_chance(struct ledger_remote *r, unsigned of_1000)
{
    return of_1000 > 0 && test_random_below(&r->random, 1000) < of_1000;
}

static inline int ledger_remote_submit(struct weir_remote *remote, struct weir_remote_request *request)
{
    struct ledger_remote *r = (struct ledger_remote *)remote;
    r->refused += r->down;
    if (r->down)
        return WEIR_EDOWN;
    assert_true(r->flights_count < FLIGHTS_MAX);
    assert_in_range(request->count, 1, request->verb == WEIR_REMOTE_ASK ? 1 : FLIGHT_OPS_MAX);
    struct ledger_flight *flight = &r->flights[r->flights_count++];
    *flight = (struct ledger_flight){ .request = request,
                                      .verb = request->verb,
                                      .count = request->count,
                                      .arrive_ns = WEIR_NEVER,
                                      .repeat_ns = WEIR_NEVER,
                                      .answer_ns = WEIR_NEVER };
    memcpy(flight->ops, request->ops, request->count * sizeof(request->ops[0]));
    r->asks++;
    if (ledger_remote_chance(r, r->lost))
        return 0;
    flight->arrive_ns = r->now_ns + ledger_remote_delay(r);
    if (request->verb == WEIR_REMOTE_ASK && ledger_remote_chance(r, r->repeated)) /* nothing else is sent twice */
        flight->repeat_ns = flight->arrive_ns + ledger_remote_delay(r);
    if (!ledger_remote_chance(r, r->lost))
        flight->answer_ns = flight->arrive_ns + ledger_remote_delay(r);
    return 0;
}

static const struct weir_remote_ops ledger_remote_ops = { .name = "ledger", .submit = ledger_remote_submit };

static inline void ledger_remote_init(struct ledger_remote *r, uint64_t seed)
{
    *r = (struct ledger_remote){ .remote = { &ledger_remote_ops }, .now_ns = T0, .delay_ns = MS };
    r->random.state = seed;
    r->keys = calloc(LEDGERS_MAX, sizeof(r->keys[0]));
    assert_non_null(r->keys);
}

static inline void ledger_remote_deinit(struct ledger_remote *r)
{
    free(r->keys);
}

static inline struct weir_ledger *ledger_remote_of(struct ledger_remote *r, const struct weir_limit *limit,
                                                   const struct weir_remote_key *key)
{
    for (size_t i = 0; i < r->keys_count; i++) {
        if (memcmp(r->keys[i].id, key->id, sizeof(key->id)) == 0)
            return &r->keys[i].ledger;
    }
    assert_true(r->keys_count < LEDGERS_MAX);
    struct ledger_key *made = &r->keys[r->keys_count++];
    memcpy(made->id, key->id, sizeof(key->id));
    made->ledger = (struct weir_ledger){ .state = weir_state_fresh(limit, r->now_ns),
                                         .stints = made->stints,
                                         .stints_max = WEIR_LEDGER_STINTS_MAX };
    return &made->ledger;
}

static inline void ledger_remote_run_op(struct ledger_remote *r, enum weir_remote_verb verb, struct weir_remote_op *op)
{
    const struct weir_limit *limit = &op->limit->limit;
    const struct weir_event event = { .now_ns = r->now_ns, .cost = op->units };
    struct weir_ledger *ledger = ledger_remote_of(r, limit, &op->key);
    switch (verb) {
    case WEIR_REMOTE_ASK:
        weir_ledger_ask(limit, ledger, &(const struct weir_event){ .now_ns = r->now_ns }, &op->ask, &op->answer);
        break;
    case WEIR_REMOTE_DECIDE:
    case WEIR_REMOTE_PEEK:
        (void)weir_limit_judge(limit, &ledger->state, &event, &op->verdict);
        break;
    case WEIR_REMOTE_REFUND:
        op->units = weir_limit_refund(limit, &ledger->state, &event, op->units);
        break;
    case WEIR_REMOTE_FORGET:
        op->units = weir_limit_used(limit, &ledger->state, &event) > 0;
        ledger->state = weir_state_fresh(limit, r->now_ns);
        break;
    }
}

static inline void ledger_remote_run(struct ledger_remote *r, struct ledger_flight *f)
{
    f->outrun = f->verb == WEIR_REMOTE_ASK && r->outrun > 0;
    r->outrun -= f->outrun;
    if (f->outrun)
        return;
    uint64_t *busy = f->verb == WEIR_REMOTE_ASK ? &r->busy_asks : &r->busy;
    f->busy = (f->verb == WEIR_REMOTE_DECIDE || f->verb == WEIR_REMOTE_ASK) && *busy > 0;
    *busy -= f->busy;
    if (f->busy)
        return;
    f->admitted = f->verb == WEIR_REMOTE_DECIDE || f->verb == WEIR_REMOTE_PEEK;
    for (size_t i = 0; i < f->count; i++) {
        ledger_remote_run_op(r, f->verb, &f->ops[i]);
        f->admitted = f->admitted && (f->ops[i].verdict.admitted || f->ops[i].limit->spec.mode == WEIR_MODE_SHADOW);
    }
    for (size_t i = 0; i < f->count && f->admitted && f->verb == WEIR_REMOTE_DECIDE; i++) {
        struct weir_remote_op *op = &f->ops[i];
        const struct weir_event event = { .now_ns = r->now_ns, .cost = op->units };
        struct weir_ledger *ledger = ledger_remote_of(r, &op->limit->limit, &op->key);
        if (op->verdict.admitted)
            weir_limit_charge(&op->limit->limit, &ledger->state, &event, &op->verdict);
    }
}

/* What happens next to flight `f`, and when. */
static inline uint64_t ledger_remote_next_of(const struct ledger_flight *f)
{
    uint64_t at_ns = f->arrive_ns < f->repeat_ns ? f->arrive_ns : f->repeat_ns;
    uint64_t told_ns = WEIR_NEVER;
    if (f->request)
        told_ns = f->answer_ns < f->request->deadline_ns ? f->answer_ns : f->request->deadline_ns;
    return at_ns < told_ns ? at_ns : told_ns;
}

/* Its round was answered in vain: the next one. */
static inline void ledger_remote_go_on(struct ledger_remote *r, struct ledger_flight *f)
{
    const uint64_t round_ns = r->now_ns + f->request->round_ns, until_ns = f->request->until_ns;
    const uint64_t deadline_ns = round_ns < until_ns ? round_ns : until_ns;
    f->request->contended = true;
    f->request->deadline_ns = deadline_ns > f->request->deadline_ns ? deadline_ns : f->request->deadline_ns;
    f->arrive_ns = r->now_ns + ledger_remote_delay(r);
    f->answer_ns = f->arrive_ns + ledger_remote_delay(r);
}

static inline void ledger_remote_step(struct ledger_remote *r, struct ledger_flight *f)
{
    if (f->arrive_ns <= r->now_ns) {
        ledger_remote_run(r, f);
        f->arrive_ns = WEIR_NEVER;
    } else if (f->repeat_ns <= r->now_ns) {
        struct ledger_flight again = *f;
        ledger_remote_run(r, &again);
        f->repeat_ns = WEIR_NEVER;
    } else if (f->outrun && f->answer_ns <= r->now_ns) {
        ledger_remote_go_on(r, f);
    } else {
        struct weir_remote_request *request = f->request;
        f->request = NULL;
        request->status = f->answer_ns > r->now_ns ? WEIR_EUNKNOWN : f->busy ? WEIR_EBUSY : 0;
        request->decision.admitted = f->admitted;
        if (!request->status)
            memcpy(request->ops, f->ops, f->count * sizeof(f->ops[0]));
        request->done(request);
    }
}

/* When something happens next here; WEIR_NEVER. */
static inline uint64_t ledger_remote_next_ns(const struct ledger_remote *r)
{
    uint64_t next_ns = WEIR_NEVER;
    for (size_t i = 0; i < r->flights_count; i++) {
        uint64_t at_ns = ledger_remote_next_of(&r->flights[i]);
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    return next_ns;
}

/* Everything that is due now. */
static inline void ledger_remote_turn(struct ledger_remote *r)
{
    for (size_t i = 0; i < r->flights_count;) {
        if (ledger_remote_next_of(&r->flights[i]) > r->now_ns)
            i++;
        else
            ledger_remote_step(r, &r->flights[i]); /* may add flights behind */
        while (i < r->flights_count && ledger_remote_next_of(&r->flights[i]) == WEIR_NEVER && !r->flights[i].request)
            r->flights[i] = r->flights[--r->flights_count];
    }
}

/* As an engine's close: whoever waits is told at once, within this call. */
static inline void ledger_remote_close(struct ledger_remote *r)
{
    r->down = true;
    for (size_t i = 0; i < r->flights_count; i++) {
        struct weir_remote_request *request = r->flights[i].request;
        r->flights[i].request = NULL;
        if (!request)
            continue;
        request->status = WEIR_EUNKNOWN;
        request->done(request);
    }
    r->flights_count = 0;
}
