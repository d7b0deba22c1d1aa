/* SPDX-License-Identifier: Apache-2.0
 *
 * The script and the memory engine, operation by operation at the same times: no verdict may differ in any field.
 *
 *     redis_equal SOCKET [--ops N] [--seed S]
 *
 * Groups of 1 to 4 limits on keys of one tag live for an episode each, GROUPS of them beside each other in one
 * pipeline. Streams (tests/model/stream.h) choose times within 1 ns of where answers change, stale and jumping clocks,
 * costs up to 2^63 and reloads. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "core/limit/ticks.h"
#include "server.h"
#include "stream.h"
#include "weir/limiter.h"

#define GROUPS 32
#define LIMITS 4
#define EPISODE_OPS 500
#define LOG_ROOM (UINT32_C(1) << 17)
#define DAY_NS (86400 * WEIR_NS_PER_SECOND)
#define YEARS_MAX 9

struct member {
    struct stream stream;
    struct weir_limit_spec spec;
    char name[24];
    weir_limit_id id;
    const struct weir_remote_limit *remote;
    struct weir_key key;
    struct weir_remote_key remote_key;
    struct weir_state state; /* under clocks that go back, */
    uint64_t fresh_ns;       /* and from when on it is fresh */
    bool in_debt;            /* more is used than the capacity */
};

struct group {
    struct test_random random;
    uint64_t seed;
    bool honest; /* the clock never goes back, */
    bool coarse; /* and shows multiples of the longest tick: others the memory engine rounds when it moves its epoch */
    uint64_t newest_ns;
    unsigned steps;
    struct weir_limiter *limiter;
    struct member members[LIMITS];
    size_t count;
    bool reloaded; /* next is a peek at all: the memory engine converts what it meets */

    struct op op;
    size_t driver;
    size_t asked[LIMITS]; /* members, in the order of the request */
    struct weir_remote_request request;
    struct weir_remote_op ops[LIMITS];
    struct weir_script_call call;
    struct weir_decision decision;
    struct weir_verdict verdicts[LIMITS];
    uint64_t refunded;
};

struct tally {
    uint64_t ops, refused, never, several, refunds, reloads, jumps, stale, drained, big;
};

static uint64_t below(struct group *g, uint64_t bound)
{
    return test_random_below(&g->random, bound);
}

/* ---- episodes ---- */

static uint64_t horizon_ns(const struct weir_limit_spec *spec)
{
    struct weir_limit limit;
    if (weir_limit_init(&limit, spec, 0, NULL))
        abort();
    return limit.shift >= 0 ? (UINT64_C(1) << 57) >> limit.shift : (UINT64_C(1) << 57) << -limit.shift;
}

/* What a stream does not draw. A wall clock that falls back is another test's: the memory engine remembers the highest
 * for all keys, the script for each. */
static void vary(struct group *g, struct member *m)
{
    struct weir_limit_spec *spec = &m->spec;
    enum weir_mode mode = spec->mode;
    *spec = m->stream.spec;
    spec->mode = mode;
    if (spec->algorithm != WEIR_FIXED_WINDOW || spec->align == WEIR_ALIGN_FIRST)
        return;
    if (!g->honest) {
        spec->align = m->stream.spec.align = WEIR_ALIGN_FIRST;
        return;
    }
    if (below(g, 3) == 0) {
        static const enum weir_calendar units[] = { WEIR_CALENDAR_DAY, WEIR_CALENDAR_WEEK, WEIR_CALENDAR_MONTH };
        static const uint64_t days[] = { 1, 7, 30 };
        uint64_t unit = below(g, 3), count = g->coarse && below(g, 2) ? 1 + below(g, YEARS_MAX * 365 / days[unit]) : 1;
        struct weir_limit_spec real = *spec;
        real.calendar = units[unit];
        real.calendar_count = (uint32_t)count; /* in ticks of more than 1 ns where it takes years */
        real.period_ns = count * days[unit] * DAY_NS;
        real.tz = below(g, 2) ? "Europe/Berlin" : "America/New_York";
        if (weir_limit_check(&real, NULL) == 0)
            *spec = real;
    }
    if (below(g, 3) == 0)
        spec->spread_ns = below(g, spec->period_ns / 2 + 1);
}

/* Whether the memory engine is exact about the limit at all times. */
static bool fine(const struct weir_limit_spec *spec)
{
    struct weir_limit limit;
    return weir_limit_init(&limit, spec, 0, NULL) == 0 && limit.shift >= 0;
}

static void define(struct group *g)
{
    struct weir_limit_def defs[LIMITS] = { 0 };
    weir_limit_id ids[LIMITS];
    for (size_t i = 0; i < g->count; i++) {
        struct member *m = &g->members[i];
        defs[i] = (struct weir_limit_def){ .name = m->name, .spec = m->spec };
        weir_remote_limit_drop(m->remote);
        if (weir_remote_limit_create(m->name, 0, WEIR_REVISION_FIRST, &m->spec, &m->remote, NULL))
            abort();
        m->stream.jump_max_ns = horizon_ns(&m->spec);
    }
    for (size_t i = 0; i < g->count; i++)
        g->members[0].stream.jump_max_ns = weir_min_u64(g->members[0].stream.jump_max_ns,
                                                        horizon_ns(&g->members[i].spec));

    struct weir_time now = { g->newest_ns, g->newest_ns };
    if (weir_limiter_define(g->limiter, defs, g->count, &now, ids, NULL))
        abort();
    for (size_t i = 0; i < g->count; i++)
        g->members[i].id = ids[i];
}

static void start(struct group *g, uint64_t seed)
{
    static const uint8_t secret[16] = { 1 };
    struct weir_limiter_options options = { .memory_max = (size_t)32 << 20, .skew_none = true, .secret = secret };
    *g = (struct group){ .random = { seed }, .seed = seed };
    options.log_memory_max = options.memory_max / 2;
    if (weir_limiter_create(&options, &g->limiter, NULL))
        abort();
    g->honest = below(g, 2);
    g->coarse = g->honest && below(g, 3) == 0;
    g->count = below(g, 2) ? 1 : 1 + below(g, LIMITS);
    for (size_t i = 0; i < g->count; i++) {
        struct member *m = &g->members[i];
        do
            stream_init(&m->stream, test_random_u64(&g->random),
                        (enum weir_algorithm)below(g, WEIR_SLIDING_COUNTER + 1), WEIR_NS_PER_SECOND);
        while (g->honest && !g->coarse && !fine(&m->stream.spec));
        m->stream.honest = g->honest;
        m->stream.newest_ns = i > 0 ? g->members[0].stream.newest_ns : m->stream.newest_ns;
        snprintf(m->name, sizeof m->name, "l%zu", i);
        uint64_t mode = below(g, 100);
        m->spec.mode = mode < 10 ? WEIR_MODE_SHADOW : mode < 13 ? WEIR_MODE_OFF : WEIR_MODE_ENFORCE;
        vary(g, m);
    }
    g->newest_ns = g->members[0].stream.newest_ns / 64 * 64;
    define(g);
    struct weir_slice value = { &g->seed, sizeof g->seed };
    for (size_t i = 0; i < g->count; i++) {
        struct member *m = &g->members[i];
        if (weir_limiter_key(g->limiter, m->id, &value, 1, &m->key) ||
            weir_remote_key_init(NULL, m->name, &value, 1, &m->remote_key))
            abort();
        m->remote_key.phase = m->key.phase;
        m->fresh_ns = 0;
        m->state.log = (struct weir_log){ calloc(LOG_ROOM, sizeof(uint64_t)), LOG_ROOM, 0, 0 };
    }
}

static void end(struct group *g)
{
    for (size_t i = 0; i < g->count; i++) {
        weir_remote_limit_drop(g->members[i].remote);
        free(g->members[i].state.log.times);
    }
    weir_limiter_destroy(g->limiter);
}

/* ---- one operation ---- */

/* Before a reload. Whether a key that is fresh was forgotten before its limit is raised is up to each engine: both
 * forget it now. */
static void forget_fresh(struct server *server, struct group *g)
{
    struct weir_time now = { g->op.now_ns, g->op.now_ns };
    for (size_t i = 0; i < g->count; i++) {
        struct member *m = &g->members[i];
        struct weir_charge charge = { .limit = m->id, .key = m->key };
        bool found;
        if (weir_limiter_decide(g->limiter, &charge, 1, &now, WEIR_PEEK, &g->decision, g->verdicts))
            abort();
        const struct weir_limit *limit = &m->remote->limit;
        m->in_debt = g->verdicts[0].reset_after_ns > weir_ticks_wait_ns(limit->ahead_max, now.now_ns, limit->shift);
        if (g->verdicts[0].reset_after_ns > 0)
            continue;
        g->ops[0] = (struct weir_remote_op){ .limit = m->remote, .key = m->remote_key };
        g->request = (struct weir_remote_request){ .verb = WEIR_REMOTE_FORGET, .ops = g->ops, .count = 1 };
        struct weir_script_call *call = &g->call;
        int status;
        weir_script_call_init(call, &g->request, "equal", now.now_ns);
        weir_script_call_add(call, 0);
        server_run(server, &call, 1, &status);
        weir_script_call_deinit(call);
        if (status || weir_limiter_forget(g->limiter, &charge, &found))
            abort();
    }
}

static void draw(struct server *server, struct group *g)
{
    /* One stream alone may turn the clock back, and no further than all can tell. */
    struct member *m = &g->members[g->driver = g->honest ? below(g, g->count) : 0];
    g->op = stream_next(&m->stream);
    if (g->honest && g->op.now_ns < g->newest_ns)
        g->op.now_ns = g->newest_ns;
    if (g->coarse)
        g->op.now_ns = (g->op.now_ns + 63) / 64 * 64;
    g->newest_ns = g->op.now_ns;
    if (g->op.kind == OP_RECONFIGURE && !g->coarse && (!g->honest || !fine(&g->op.spec)))
        g->op.kind = OP_PEEK;
    g->reloaded = g->op.kind == OP_RECONFIGURE;
    if (g->reloaded) {
        forget_fresh(server, g);
        m->stream.spec = g->op.spec;
        if (m->in_debt) /* by proportion it may grow beyond what the memory engine takes for a debt, not for a jump */
            m->stream.spec.on_change = WEIR_ON_CHANGE_KEEP;
        vary(g, m);
        define(g);
    }
    bool all = g->reloaded || (g->op.kind != OP_REFUND && below(g, 100) < 40);
    g->request = (struct weir_remote_request){ .ops = g->ops, .test_now_ns = g->op.now_ns };
    g->request.verb = g->op.kind == OP_CHARGE   ? WEIR_REMOTE_DECIDE
                      : g->op.kind == OP_REFUND ? WEIR_REMOTE_REFUND
                                                : WEIR_REMOTE_PEEK;
    for (size_t i = 0; i < g->count; i++) {
        if (!all && i != g->driver)
            continue;
        struct member *asked = &g->members[i];
        uint64_t capacity = weir_limit_capacity(&asked->spec);
        uint64_t cost = i == g->driver ? g->op.cost : below(g, 3) ? below(g, 3) : below(g, capacity + 2);
        if (below(g, 200) == 0)
            cost = (UINT64_C(1) << (52 + below(g, 11))) + below(g, 3);
        g->asked[g->request.count] = i;
        g->ops[g->request.count++] =
            (struct weir_remote_op){ .limit = asked->remote, .key = asked->remote_key, .units = cost };
    }
}

/* Times modulo 2^59 ticks can be compared within the horizon: core's host sees to that. */
static void keep_near(struct group *g, struct member *m)
{
    struct weir_log log = { m->state.log.times, LOG_ROOM, 0, 0 };
    uint64_t horizon = horizon_ns(&m->spec);
    if (g->op.now_ns < m->fresh_ns || g->op.now_ns - m->fresh_ns < horizon)
        return;
    m->fresh_ns = g->op.now_ns - weir_min_u64(g->op.now_ns, horizon);
    m->state = weir_state_fresh(&m->remote->limit, m->fresh_ns);
    m->state.log = log;
}

static void note_fresh(struct group *g, struct member *m)
{
    struct weir_event event = { .now_ns = g->op.now_ns };
    struct weir_verdict v;
    weir_limit_judge(&m->remote->limit, &m->state, &event, &v);
    if (v.reset_after_ns > 0)
        m->fresh_ns = g->op.now_ns + v.reset_after_ns;
}

/* The memory engine may forget what is fresh, for its clock never goes back. Where it does, core alone is asked, in the
 * order of limits/decide.c. */
static void ask_core(struct group *g)
{
    bool all = true, never = false, peek = g->request.verb == WEIR_REMOTE_PEEK;
    struct weir_event event = { .now_ns = g->op.now_ns };
    for (size_t i = 0; i < g->request.count; i++) {
        struct member *m = &g->members[g->asked[i]];
        struct weir_verdict *v = &g->verdicts[i];
        event.cost = g->ops[i].units;
        *v = (struct weir_verdict){ .admitted = true, .shadow = true, .capacity = m->remote->limit.capacity };
        v->remaining = v->capacity;
        if (m->spec.mode == WEIR_MODE_OFF && g->request.verb != WEIR_REMOTE_REFUND)
            continue;
        keep_near(g, m);
        weir_limit_settle(&m->remote->limit, &m->state, &event);
        note_fresh(g, m);
        if (g->request.verb == WEIR_REMOTE_REFUND) {
            g->refunded = weir_limit_refund(&m->remote->limit, &m->state, &event, event.cost);
            continue;
        }
        weir_limit_judge(&m->remote->limit, &m->state, &event, v);
        v->shadow = m->spec.mode == WEIR_MODE_SHADOW;
        all = all && (v->admitted || v->shadow);
        never = never || (!v->admitted && !v->shadow && v->retry_after_ns == WEIR_NEVER);
    }
    for (size_t i = 0; i < g->request.count && !peek && g->request.verb != WEIR_REMOTE_REFUND; i++) {
        struct member *m = &g->members[g->asked[i]];
        struct weir_verdict *v = &g->verdicts[i];
        event.cost = g->ops[i].units;
        if (m->spec.mode == WEIR_MODE_OFF || event.cost == 0)
            continue;
        if (all && v->admitted)
            weir_limit_charge(&m->remote->limit, &m->state, &event, v);
        else if (m->spec.count_mode == WEIR_COUNT_ATTEMPTS && !never && (!all || v->shadow) &&
                 event.cost <= m->remote->limit.capacity)
            weir_limit_drain(&m->remote->limit, &m->state, &event, v);
        note_fresh(g, m);
    }
}

static void ask_memory(struct group *g)
{
    if (!g->honest) {
        ask_core(g);
        return;
    }
    struct weir_charge charges[LIMITS];
    struct weir_time now = { g->op.now_ns, g->op.now_ns };
    for (size_t i = 0; i < g->request.count; i++) {
        struct member *m = &g->members[g->asked[i]];
        charges[i] = (struct weir_charge){ .limit = m->id, .key = m->key, .cost = g->ops[i].units };
    }
    int error;
    if (g->request.verb == WEIR_REMOTE_REFUND)
        error = weir_limiter_refund(g->limiter, charges, charges->cost, &now, &g->refunded);
    else
        error = weir_limiter_decide(g->limiter, charges, g->request.count, &now,
                                    g->request.verb == WEIR_REMOTE_PEEK ? WEIR_PEEK : 0, &g->decision, g->verdicts);
    if (error)
        abort();
}

/* Where the caller's guess of the server's time is wrong, calendar windows take a second round. */
static void prepare(struct group *g)
{
    uint64_t guess = g->op.now_ns;
    if (below(g, 10) == 0)
        guess = below(g, 2) ? g->op.now_ns - DAY_NS : 1 + below(g, 2 * guess);
    weir_script_call_init(&g->call, &g->request, "equal", guess);
    for (size_t i = 0; i < g->request.count; i++)
        weir_script_call_add(&g->call, i);
}

/* ---- comparing ---- */

static void print_verdict(const char *who, const struct weir_verdict *v)
{
    printf("    %s: admitted=%d shadow=%d capacity=%" PRIu64 " remaining=%" PRIu64 " retry=%" PRIu64 " reset=%" PRIu64
           " next=%" PRIu64 " delay=%" PRIu64 "\n",
           who, v->admitted, v->shadow, v->capacity, v->remaining, v->retry_after_ns, v->reset_after_ns,
           v->next_after_ns, v->delay_ns);
}

static bool complain(const struct group *g, const char *what, int status)
{
    printf("%s (%s): step %u of the episode of seed %" PRIu64 ", verb %d, now %" PRIu64 " honest %d stale %d jump %d\n",
           what, weir_error_name(status), g->steps, g->seed, (int)g->request.verb, g->op.now_ns, g->honest, g->op.stale,
           g->op.jump);
    for (size_t i = 0; i < g->request.count; i++) {
        const struct weir_limit_spec *s = &g->members[g->asked[i]].spec;
        printf("  %s n=%" PRIu64 " p=%" PRIu64 " b=%" PRIu64 " align=%d calendar=%d count_mode=%d mode=%d cost=%" PRIu64
               "\n",
               weir_algorithm_name(s->algorithm), s->count, s->period_ns, s->burst, (int)s->align, (int)s->calendar,
               (int)s->count_mode, (int)s->mode, g->ops[i].units);
        if (g->request.verb != WEIR_REMOTE_REFUND) {
            print_verdict("memory", &g->verdicts[i]);
            print_verdict("redis ", &g->ops[i].verdict);
        } else {
            printf("    memory gives back %" PRIu64 "\n", g->refunded);
        }
    }
    return false;
}

static bool same_verdict(const struct weir_verdict *a, const struct weir_verdict *b)
{
    return a->admitted == b->admitted && a->shadow == b->shadow && a->full == b->full && a->capacity == b->capacity &&
           a->remaining == b->remaining && a->retry_after_ns == b->retry_after_ns &&
           a->reset_after_ns == b->reset_after_ns && a->next_after_ns == b->next_after_ns && a->delay_ns == b->delay_ns;
}

static bool compare(struct group *g, int status, struct tally *tally)
{
    if (status)
        return complain(g, "failed", status);
    tally->ops++;
    tally->reloads += g->reloaded;
    tally->jumps += g->op.jump;
    tally->stale += g->op.stale;
    tally->several += g->request.count > 1;
    if (g->request.verb == WEIR_REMOTE_REFUND) {
        tally->refunds++;
        return g->ops[0].units == g->refunded || complain(g, "refunds differ", 0);
    }
    weir_script_finish(&g->request);
    for (size_t i = 0; i < g->request.count; i++) {
        if (!same_verdict(&g->ops[i].verdict, &g->verdicts[i]))
            return complain(g, "verdicts differ", 0);
        tally->big += g->ops[i].units > UINT64_C(1) << 53;
    }
    const struct weir_decision *a = &g->request.decision, *b = &g->decision;
    tally->refused += !a->admitted;
    tally->never += !a->admitted && a->retry_after_ns == WEIR_NEVER;
    /* Of those that admit, the memory engine names the one that was scarcest before the charge. */
    bool differ = a->admitted != b->admitted || (!a->admitted && a->deciding != b->deciding) ||
                  a->retry_after_ns != b->retry_after_ns || a->delay_ns != b->delay_ns;
    if (g->honest && differ)
        return complain(g, "decisions differ", 0);
    for (size_t i = 0; i < g->request.count && !g->reloaded; i++)
        if (g->asked[i] == g->driver)
            stream_tell(&g->members[g->driver].stream, &g->op, &g->verdicts[i]);
    return true;
}

static bool step_all(struct server *server, struct group *groups, struct tally *tally)
{
    struct weir_script_call *calls[GROUPS];
    int status[GROUPS];
    bool good = true;
    for (size_t i = 0; i < GROUPS; i++) {
        draw(server, &groups[i]);
        ask_memory(&groups[i]);
        prepare(&groups[i]);
        calls[i] = &groups[i].call;
    }
    server_run(server, calls, GROUPS, status);
    for (size_t i = 0; i < GROUPS; i++) {
        good = compare(&groups[i], status[i], tally) && good;
        weir_script_call_deinit(&groups[i].call);
        groups[i].steps++;
    }
    return good;
}

static bool run(struct server *server, uint64_t seed, uint64_t ops)
{
    struct group *groups = calloc(GROUPS, sizeof *groups);
    struct test_random random = { seed };
    struct tally tally = { 0 };
    bool good = groups != NULL;
    while (good && tally.ops < ops) {
        for (size_t i = 0; i < GROUPS; i++)
            start(&groups[i], test_random_u64(&random));
        for (int i = 0; good && i < EPISODE_OPS && tally.ops < ops; i++)
            good = step_all(server, groups, &tally);
        for (size_t i = 0; i < GROUPS; i++)
            end(&groups[i]);
    }
    free(groups);
    printf("%" PRIu64 " operations, %" PRIu64 " calls, %s: refused %" PRIu64 ", never %" PRIu64
           ", several limits %" PRIu64 ", refunds %" PRIu64 ", reloads %" PRIu64 ", jumps %" PRIu64 ", stale %" PRIu64
           ", beyond 2^53 %" PRIu64 "\n",
           tally.ops, server->calls, good ? "no difference" : "DIFFERENT", tally.refused, tally.never, tally.several,
           tally.refunds, tally.reloads, tally.jumps, tally.stale, tally.big);
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
        fprintf(stderr, "usage: redis_equal SOCKET [--ops N] [--seed S]\n");
        return 2;
    }
    struct server server;
    server_open(&server, argv[1]);
    bool good = run(&server, seeded ? seed : test_random_seed(), ops);
    server_close(&server);
    return good ? 0 : 1;
}
