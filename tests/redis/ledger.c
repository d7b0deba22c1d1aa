/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes' asks through the script and through core/share/ledger.c, operation by operation at the same times, with exact
 * decisions in between: no field of an answer or a verdict may differ.
 *
 *     redis_ledger SOCKET [--ops N] [--seed S]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "core/limit/ticks.h"
#include "core/share/ledger.h"
#include "limits/redis/script_core.h"
#include "server.h"
#include "stream.h"

#define KEYS 32
#define NODES 5
#define EPISODE_OPS 300
#define LOG_ROOM (UINT32_C(1) << 17)

struct node {
    uint64_t stint, seq, spent, known, held, window;
    struct weir_share_ask last;
};

struct key {
    struct test_random random;
    uint64_t seed, now_ns, last_ns;
    unsigned steps;
    struct stream stream;
    const struct weir_remote_limit *limit;
    struct weir_ledger ledger;
    struct node nodes[NODES];
    struct node *asking;
    struct weir_remote_request request;
    struct weir_remote_op op;
    struct weir_script_call call;
    struct weir_share_answer answer;
    struct weir_verdict verdict;
    uint64_t refunded;
};

struct tally {
    uint64_t ops, asks, granted, stale, decisions, refused;
};

static uint64_t below(struct key *k, uint64_t bound)
{
    return test_random_below(&k->random, bound);
}

static void start(struct key *k, uint64_t seed)
{
    uint64_t *times = calloc(LOG_ROOM, sizeof *times);
    struct weir_ledger_stint *stints = calloc(WEIR_LEDGER_STINTS_MAX, sizeof *stints);
    *k = (struct key){ .random = { seed }, .seed = seed };
    stream_init(&k->stream, test_random_u64(&k->random), (enum weir_algorithm)below(k, WEIR_SLIDING_COUNTER + 1),
                WEIR_NS_PER_SECOND);
    k->stream.honest = true;
    k->stream.spec.count_mode = WEIR_COUNT_ADMITTED;
    k->now_ns = k->stream.newest_ns;
    struct weir_slice value = { &k->seed, sizeof k->seed };
    if (!times || !stints ||
        weir_remote_limit_create("shared", 0, WEIR_REVISION_FIRST, &k->stream.spec, &k->limit, NULL) ||
        weir_remote_key_init(NULL, "shared", &value, 1, &k->op.key))
        abort();
    /* Points in time are compared within half of the ring of ticks. A key that is left alone Redis forgets in time, but
     * by its own clock, not by the test's: so no episode is longer. */
    k->last_ns = k->now_ns + weir_ticks_wait_ns((WEIR_TICKS_MASK + 1) / 4, 0, k->limit->limit.shift);
    k->ledger = (struct weir_ledger){ .stints = stints, .stints_max = WEIR_LEDGER_STINTS_MAX };
    k->ledger.state = weir_state_fresh(&k->limit->limit, k->now_ns);
    k->ledger.state.log = (struct weir_log){ times, LOG_ROOM, 0, 0 };
    for (size_t i = 0; i < NODES; i++)
        k->nodes[i] = (struct node){ .stint = test_random_u64(&k->random) | 1 };
}

static void end(struct key *k)
{
    weir_remote_limit_drop(k->limit);
    free(k->ledger.state.log.times);
    free(k->ledger.stints);
}

/* ---- one operation ---- */

/* Mostly a node's next word; sometimes the last again, or an older one, or a new stint, or a lie. */
static struct weir_share_ask draw_ask(struct key *k)
{
    struct node *n = k->asking = &k->nodes[below(k, NODES)];
    uint64_t capacity = k->limit->limit.capacity, kind = below(k, 100);
    if (kind < 5 && n->seq > 0)
        return n->last;
    if (kind < 8 && n->seq > 2) {
        struct weir_share_ask old = n->last;
        old.seq -= 1 + below(k, 2);
        return old;
    }
    if (kind < 11)
        *n = (struct node){ .stint = test_random_u64(&k->random) | 1 };
    uint64_t beyond = below(k, 4) == 0 ? below(k, capacity / 4 + 2) : 0;
    uint64_t spends = below(k, n->held + 1) + beyond;
    n->spent += spends;
    n->held = weir_sub_sat(n->held, spends);
    struct weir_share_ask ask = { .stint = n->stint, .seq = ++n->seq, .spent = n->spent, .known = n->known };
    ask.hold = below(k, 4) ? n->held : below(k, n->held + 1);
    ask.want = below(k, 3) ? below(k, capacity / 3 + 2) : 0;
    ask.least = below(k, 2) ? below(k, ask.want + 1) : 0;
    ask.ttl_ns = below(k, 5) ? 1 + below(k, 4 * WEIR_NS_PER_SECOND) : 1 + below(k, 100 * WEIR_NS_PER_SECOND);
    ask.window = below(k, 5) ? n->window : 0;
    n->last = ask;
    return ask;
}

static void draw(struct key *k)
{
    struct op op = stream_next(&k->stream);
    uint64_t kind = below(k, 100);
    uint64_t next_ns = below(k, 10) ? op.now_ns : k->now_ns + below(k, 2 * WEIR_NS_PER_SECOND);
    k->now_ns = weir_min_u64(weir_max_u64(k->now_ns, next_ns), k->now_ns + (k->last_ns - k->now_ns) / 8);
    k->stream.newest_ns = weir_max_u64(k->stream.newest_ns, k->now_ns);
    k->asking = NULL;
    k->op = (struct weir_remote_op){ .limit = k->limit, .key = k->op.key, .units = op.cost };
    k->request = (struct weir_remote_request){ .ops = &k->op, .count = 1, .test_now_ns = k->now_ns };
    if (kind < 60) {
        k->request.verb = WEIR_REMOTE_ASK;
        k->op.ask = draw_ask(k);
    } else {
        k->request.verb = kind < 85 ? WEIR_REMOTE_DECIDE : kind < 95 ? WEIR_REMOTE_PEEK : WEIR_REMOTE_REFUND;
    }
}

static void ask_core(struct key *k)
{
    const struct weir_limit *limit = &k->limit->limit;
    struct weir_event event = weir_script_event(&k->op, k->now_ns);
    if (k->request.verb == WEIR_REMOTE_ASK) {
        weir_ledger_ask(limit, &k->ledger, &event, &k->op.ask, &k->answer);
    } else if (k->request.verb == WEIR_REMOTE_REFUND) {
        weir_ledger_expire(limit, &k->ledger, &event);
        struct weir_limit own = *limit;
        if (weir_limit_is_bucket(limit))
            own.ahead_max += weir_min_u64(weir_mul_sat(k->ledger.debt, limit->emission), WEIR_TICKS_DEBT_MAX);
        k->refunded = weir_limit_refund(&own, &k->ledger.state, &event, event.cost);
    } else {
        weir_ledger_decide(limit, &k->ledger, &event, k->request.verb == WEIR_REMOTE_PEEK, &k->verdict);
    }
}

/* ---- comparing ---- */

static void print_answer(const char *who, const struct weir_share_answer *a)
{
    printf("    %s: seq=%" PRIu64 " stale=%d granted=%" PRIu64 " hold=%" PRIu64 " window=%" PRIu64 " used=%" PRIu64
           " retry=%" PRIu64 " reset=%" PRIu64 "\n",
           who, a->seq, a->stale, a->granted, a->hold_ns, a->window, a->used, a->retry_after_ns, a->reset_after_ns);
}

static void print_verdict(const char *who, const struct weir_verdict *v)
{
    printf("    %s: admitted=%d remaining=%" PRIu64 " retry=%" PRIu64 " reset=%" PRIu64 " next=%" PRIu64
           " delay=%" PRIu64 "\n",
           who, v->admitted, v->remaining, v->retry_after_ns, v->reset_after_ns, v->next_after_ns, v->delay_ns);
}

static bool complain(const struct key *k, int status)
{
    const struct weir_limit_spec *s = &k->limit->spec;
    printf("DIFFERENT (%s): step %u of the episode of seed %" PRIu64 ", verb %d at %" PRIu64 ", units %" PRIu64
           "; %s n=%" PRIu64 " p=%" PRIu64 " b=%" PRIu64 " align=%d, stints %u\n",
           weir_error_name(status), k->steps, k->seed, (int)k->request.verb, k->now_ns, k->op.units,
           weir_algorithm_name(s->algorithm), s->count, s->period_ns, s->burst, (int)s->align, k->ledger.stints_count);
    if (k->request.verb == WEIR_REMOTE_ASK) {
        print_answer("core ", &k->answer);
        print_answer("redis", &k->op.answer);
    } else if (k->request.verb != WEIR_REMOTE_REFUND) {
        print_verdict("core ", &k->verdict);
        print_verdict("redis", &k->op.verdict);
    } else {
        printf("    core  gives back %" PRIu64 "\n    redis gives back %" PRIu64 "\n", k->refunded, k->op.units);
    }
    return false;
}

static bool same_answer(const struct weir_share_answer *a, const struct weir_share_answer *b)
{
    return a->stint == b->stint && a->seq == b->seq && a->stale == b->stale && a->granted == b->granted &&
           a->hold_ns == b->hold_ns && a->window == b->window && a->capacity == b->capacity && a->used == b->used &&
           a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns;
}

static bool same_verdict(const struct weir_verdict *a, const struct weir_verdict *b)
{
    return a->admitted == b->admitted && a->capacity == b->capacity && a->remaining == b->remaining &&
           a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns &&
           a->next_after_ns == b->next_after_ns && a->delay_ns == b->delay_ns;
}

static void hear(struct key *k)
{
    struct node *n = k->asking;
    if (k->answer.stale || k->answer.stint != n->stint || k->answer.seq != n->seq)
        return;
    n->held = weir_min_u64(n->last.hold, n->held) + k->answer.granted;
    n->known = n->last.spent;
    n->window = k->answer.window;
}

static bool compare(struct key *k, int status, struct tally *tally)
{
    tally->ops++;
    if (status)
        return complain(k, status);
    switch (k->request.verb) {
    case WEIR_REMOTE_ASK:
        tally->asks++;
        tally->granted += k->answer.granted > 0;
        tally->stale += k->answer.stale;
        hear(k);
        return same_answer(&k->answer, &k->op.answer) || complain(k, 0);
    case WEIR_REMOTE_REFUND:
        return k->op.units == k->refunded || complain(k, 0);
    case WEIR_REMOTE_DECIDE:
    case WEIR_REMOTE_PEEK:
    case WEIR_REMOTE_FORGET:
        break;
    }
    tally->decisions++;
    tally->refused += !k->verdict.admitted;
    struct op told = { .kind = OP_CHARGE, .now_ns = k->now_ns, .cost = k->op.units };
    stream_tell(&k->stream, &told, &k->verdict);
    return same_verdict(&k->verdict, &k->op.verdict) || complain(k, 0);
}

static bool step_all(struct server *server, struct key *keys, struct tally *tally)
{
    struct weir_script_call *calls[KEYS];
    int status[KEYS];
    bool good = true;
    for (size_t i = 0; i < KEYS; i++) {
        struct key *k = &keys[i];
        draw(k);
        ask_core(k);
        weir_script_call_init(&k->call, &k->request, "ledger", k->now_ns);
        weir_script_call_add(&k->call, 0);
        calls[i] = &k->call;
    }
    server_run(server, calls, KEYS, status);
    for (size_t i = 0; i < KEYS; i++) {
        good = compare(&keys[i], status[i], tally) && good;
        weir_script_call_deinit(&keys[i].call);
        keys[i].steps++;
    }
    return good;
}

static bool run(struct server *server, uint64_t seed, uint64_t ops)
{
    struct key *keys = calloc(KEYS, sizeof *keys);
    struct test_random random = { seed };
    struct tally tally = { 0 };
    bool good = keys != NULL;
    while (good && tally.ops < ops) {
        for (size_t i = 0; i < KEYS; i++)
            start(&keys[i], test_random_u64(&random));
        for (int i = 0; good && i < EPISODE_OPS && tally.ops < ops; i++)
            good = step_all(server, keys, &tally);
        for (size_t i = 0; i < KEYS; i++)
            end(&keys[i]);
    }
    free(keys);
    printf("%" PRIu64 " operations, %" PRIu64 " calls, %s: asks %" PRIu64 ", granted %" PRIu64 ", stale %" PRIu64
           ", decisions %" PRIu64 ", refused %" PRIu64 "\n",
           tally.ops, server->calls, good ? "no difference" : "DIFFERENT", tally.asks, tally.granted, tally.stale,
           tally.decisions, tally.refused);
    return good;
}

int main(int argc, char **argv)
{
    uint64_t ops = 30000, seed = 0;
    bool seeded = false;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--ops") == 0) {
            ops = strtoull(argv[i + 1], NULL, 0);
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 0);
            seeded = true;
        }
    }
    if (argc < 2 || argc % 2 != 0) {
        fprintf(stderr, "usage: redis_ledger SOCKET [--ops N] [--seed S]\n");
        return 2;
    }
    struct server server;
    server_open(&server, argv[1]);
    bool good = run(&server, seeded ? seed : test_random_seed(), ops);
    server_close(&server);
    return good ? 0 : 1;
}
