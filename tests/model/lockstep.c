/* SPDX-License-Identifier: Apache-2.0 */
#include "lockstep.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"

#define SKEW_NS WEIR_NS_PER_SECOND
#define LOG_ROOM (UINT32_C(1) << 17)

/* ---- set-up ---- */

void lockstep_create(struct lockstep *l, struct shares *shares)
{
    *l = (struct lockstep){ .shares = shares };
    l->log_times = calloc(LOG_ROOM, sizeof(*l->log_times));
    l->hits = calloc(REFERENCE_HITS_MAX, sizeof(*l->hits));
    l->hits_scratch = calloc(REFERENCE_HITS_MAX, sizeof(*l->hits_scratch));
    l->exact_hits = calloc(LOCKSTEP_HITS, sizeof(*l->exact_hits));
    weir_assert(l->log_times && l->hits && l->hits_scratch && l->exact_hits);
}

void lockstep_destroy(struct lockstep *l)
{
    free(l->log_times);
    free(l->hits);
    free(l->hits_scratch);
    free(l->exact_hits);
}

static uint64_t tick_ns(const struct weir_limit *limit)
{
    return limit->shift < 0 ? (UINT64_C(1) << -limit->shift) : 0;
}

/* The core compares times that lie less than 2^58 ticks apart: its host sees to that. */
static uint64_t horizon_ns(const struct weir_limit *limit)
{
    return limit->shift >= 0 ? (UINT64_C(1) << 57) >> limit->shift : (UINT64_C(1) << 57) << -limit->shift;
}

static void fresh_state(struct lockstep *l, uint64_t now_ns)
{
    l->state = weir_state_fresh(&l->limit, now_ns - 2 * SKEW_NS); /* no stale time lies before it */
    l->state.log = (struct weir_log){ .times = l->log_times, .room = LOG_ROOM };
    l->stored = false;
}

static void begin_limit(struct lockstep *l, const struct weir_limit_spec *spec)
{
    weir_assert(weir_limit_init(&l->limit, spec, SKEW_NS, NULL) == 0);
    l->stream.jump_max_ns = horizon_ns(&l->limit);
    /* Real months and days differ from their nominal length by up to a sixteenth. */
    l->window_ns = spec->period_ns + (spec->period_ns % 3 ? spec->period_ns / 20 : 0);
}

void lockstep_start(struct lockstep *l, uint64_t seed, enum weir_algorithm algorithm)
{
    stream_init(&l->stream, seed, algorithm, SKEW_NS);
    begin_limit(l, &l->stream.spec);
    l->last_ns = l->stream.newest_ns;
    l->output_ns = l->output_cost = 0;
    l->tainted = false;
    fresh_state(l, l->last_ns);
    reference_init(&l->reference, &l->stream.spec, SKEW_NS, l->hits);
    exact_init(&l->exact, &l->stream.spec, tick_ns(&l->limit), l->exact_hits, LOCKSTEP_HITS);
}

/* ---- comparing ---- */

static bool complain(const struct lockstep *l, const struct op *op, const char *what)
{
    const struct weir_limit_spec *s = &l->stream.spec;
    printf("%s: %s n=%" PRIu64 " p=%" PRIu64 " b=%" PRIu64 " align=%d count_mode=%d; kind=%d now=%" PRIu64
           " cost=%" PRIu64 " stale=%d jump=%d\n",
           what, weir_algorithm_name(s->algorithm), s->count, s->period_ns, s->burst, (int)s->align, (int)s->count_mode,
           (int)op->kind, op->now_ns, op->cost, op->stale, op->jump);
    return false;
}

static void print_verdict(const char *who, const struct weir_verdict *v)
{
    printf("  %s: admitted=%d capacity=%" PRIu64 " remaining=%" PRIu64 " retry=%" PRIu64 " reset=%" PRIu64
           " next=%" PRIu64 " delay=%" PRIu64 "\n",
           who, v->admitted, v->capacity, v->remaining, v->retry_after_ns, v->reset_after_ns, v->next_after_ns,
           v->delay_ns);
}

static bool same(const struct lockstep *l, const struct op *op, const char *what, const struct weir_verdict *core,
                 const struct weir_verdict *reference)
{
    if (core->admitted == reference->admitted && core->capacity == reference->capacity &&
        core->remaining == reference->remaining && core->retry_after_ns == reference->retry_after_ns &&
        core->reset_after_ns == reference->reset_after_ns && core->next_after_ns == reference->next_after_ns &&
        core->delay_ns == reference->delay_ns) {
        return true;
    }
    complain(l, op, what);
    print_verdict("core     ", core);
    print_verdict("reference", reference);
    return false;
}

/* semantics.md: `0 <= remaining <= capacity`, never 0 while refused, never -1 unless it cannot be. */
static bool sane(const struct lockstep *l, const struct op *op, const struct weir_verdict *v)
{
    bool never = op->cost > v->capacity;
    if (v->remaining > v->capacity || (v->retry_after_ns == 0) != v->admitted ||
        (v->retry_after_ns == WEIR_NEVER) != never) {
        complain(l, op, "verdict out of range");
        print_verdict("core     ", v);
        return false;
    }
    return true;
}

/* What the core admits the promise allows; what it refuses, a limit 0.1 % slower refuses too. */
static bool kept(struct lockstep *l, const struct op *op, const struct reference_window *window,
                 const struct weir_verdict *v)
{
    /* Where ticks are longer than 1 ns a window from the first hit may end a tick later: then it is not known whose a
     * hit in that tick is, and the first reference has to do. */
    bool blurred = l->exact.tick_ns > 0 && l->stream.spec.align == WEIR_ALIGN_FIRST;
    if (l->tainted || blurred) {
        return true;
    }
    l->shares->promised++;
    uint64_t most = exact_most(&l->exact, op->now_ns, window);
    uint64_t least = exact_least(&l->exact, op->now_ns, window);
    if (v->remaining > most) {
        printf("core says %" PRIu64 ", the promise allows %" PRIu64 "\n", v->remaining, most);
        return complain(l, op, "above the promise");
    }
    if (v->remaining < least) {
        printf("core says %" PRIu64 ", 0.1 %% less would be %" PRIu64 "\n", v->remaining, least);
        return complain(l, op, "more than 0.1 % below the promise");
    }
    return true;
}

/* leaky_bucket: the next output comes at least cost * p / n later, to the nanosecond that a delay is told in. */
static bool spaced(struct lockstep *l, const struct op *op, const struct weir_verdict *v)
{
    if (l->stream.spec.algorithm != WEIR_LEAKY_BUCKET || op->cost == 0 || l->tainted) {
        return true;
    }
    uint64_t output_ns = op->now_ns + v->delay_ns;
    wide apart = ((wide)output_ns - l->output_ns + 1) * l->stream.spec.count;
    if (l->output_cost > 0 && apart < (wide)l->output_cost * l->stream.spec.period_ns) {
        return complain(l, op, "outputs too close");
    }
    l->output_ns = output_ns;
    l->output_cost = op->cost;
    return true;
}

/* ---- operations ---- */

static struct reference_window window_at(const struct lockstep *l, uint64_t now_ns)
{
    uint64_t id = now_ns / l->window_ns;
    return (struct reference_window){ id + 1, id * l->window_ns, (id + 1) * l->window_ns };
}

static struct weir_event event_of(const struct op *op, const struct reference_window *window)
{
    return (struct weir_event){
        .now_ns = op->now_ns,
        .cost = op->cost,
        .window = { .id = window->id, .end_after_ns = window->end_ns - op->now_ns },
    };
}

static void count_op(struct lockstep *l, const struct op *op, const struct weir_verdict *v)
{
    struct shares *s = l->shares;
    s->judged++;
    s->refused += !v->admitted;
    s->never += v->retry_after_ns == WEIR_NEVER;
    const struct weir_limit_spec *spec = &l->stream.spec;
    bool slow = spec->count > 0 && spec->period_ns / spec->count >= 4; /* else every nanosecond is a boundary */
    const struct reference *r = &l->reference;
    s->boundary += slow && (reference_remaining(r, (wide)op->now_ns - 1) != reference_remaining(r, op->now_ns + 1) ||
                            reference_is_fresh(r, (wide)op->now_ns - 1) != reference_is_fresh(r, op->now_ns + 1));
}

/* A peek is a charge that leaves everything as it was, the note of a clock that came back included. */
static bool step_peek(struct lockstep *l, const struct op *op, const struct reference_window *window,
                      struct weir_verdict *ret_verdict)
{
    struct weir_event event = event_of(op, window);
    struct reference copy = l->reference;
    copy.hits = l->hits_scratch;
    memcpy(copy.hits, l->hits, copy.used * sizeof(*copy.hits));
    reference_settle(&copy, op->now_ns, window);
    struct weir_verdict reference = reference_judge(&copy, op->now_ns, op->cost);
    weir_limit_judge(&l->limit, &l->state, &event, ret_verdict);
    count_op(l, op, ret_verdict);
    return same(l, op, "peek differs", ret_verdict, &reference) && sane(l, op, ret_verdict);
}

/* Notes the time in both; what a clock that came back left is empty as of now. */
static void settle(struct lockstep *l, const struct op *op, const struct weir_event *event,
                   const struct reference_window *window)
{
    if (weir_limit_jumped(&l->limit, &l->state, op->now_ns)) {
        weir_limit_settle(&l->limit, &l->state, event);
        l->stored = true;
        exact_restart(&l->exact, op->now_ns, window, l->limit.capacity);
        l->output_cost = 0;
    }
    reference_settle(&l->reference, op->now_ns, window);
}

static void take(struct lockstep *l, const struct op *op, const struct weir_event *event,
                 const struct reference_window *window, bool admitted, struct weir_verdict *v)
{
    l->stored |= op->cost > 0;
    weir_assert(weir_limit_room(&l->limit, &l->state, event, op->cost) <= LOG_ROOM);
    uint64_t used = reference_used(&l->reference, op->now_ns);
    if (admitted) {
        weir_limit_charge(&l->limit, &l->state, event, v);
        reference_charge(&l->reference, op->now_ns, op->cost);
        exact_charge(&l->exact, op->now_ns, window, op->cost);
        return;
    }
    weir_limit_drain(&l->limit, &l->state, event, v);
    reference_drain(&l->reference, op->now_ns, op->cost);
    uint64_t taken = reference_used(&l->reference, op->now_ns) - used;
    exact_drain(&l->exact, op->now_ns, window, op->cost, taken);
    l->shares->drained++;
    l->output_cost = 0;
}

static bool step_charge(struct lockstep *l, const struct op *op, const struct reference_window *window,
                        struct weir_verdict *ret_verdict)
{
    struct weir_event event = event_of(op, window);
    weir_limit_judge(&l->limit, &l->state, &event, ret_verdict);
    settle(l, op, &event, window);
    struct weir_verdict reference = reference_judge(&l->reference, op->now_ns, op->cost);
    count_op(l, op, ret_verdict);
    if (!same(l, op, "judgement differs", ret_verdict, &reference) || !sane(l, op, ret_verdict) ||
        !kept(l, op, window, ret_verdict)) {
        return false;
    }
    struct weir_verdict before = *ret_verdict;
    bool admitted = before.admitted;
    bool drains = !admitted && before.retry_after_ns != WEIR_NEVER && l->stream.spec.count_mode == WEIR_COUNT_ATTEMPTS;
    if (!admitted && !drains) {
        return true;
    }
    if (admitted && !spaced(l, op, &before)) {
        return false;
    }
    take(l, op, &event, window, admitted, ret_verdict);
    struct weir_verdict after = reference_judge(&l->reference, op->now_ns, drains ? op->cost : 0);
    after.admitted = reference.admitted;
    after.delay_ns = reference.delay_ns;
    return same(l, op, admitted ? "charge differs" : "drain differs", ret_verdict, &after);
}

/* After any change that gives no verdict of its own. */
static bool compare_state(struct lockstep *l, const struct op *op, const struct weir_event *event,
                          const struct reference_window *window, const char *what, struct weir_verdict *ret_verdict)
{
    struct weir_event look = *event;
    look.cost = 1;
    settle(l, op, event, window);
    struct weir_verdict reference = reference_judge(&l->reference, op->now_ns, 1);
    weir_limit_judge(&l->limit, &l->state, &look, ret_verdict);
    return same(l, op, what, ret_verdict, &reference);
}

static bool step_refund(struct lockstep *l, const struct op *op, const struct reference_window *window,
                        struct weir_verdict *ret_verdict)
{
    struct weir_event event = event_of(op, window);
    settle(l, op, &event, window);
    uint64_t given = weir_limit_refund(&l->limit, &l->state, &event, op->cost);
    uint64_t expected = reference_refund(&l->reference, op->now_ns, op->cost);
    if (given != expected) {
        printf("core gave %" PRIu64 " back, reference %" PRIu64 "\n", given, expected);
        return complain(l, op, "refund differs");
    }
    exact_refund(&l->exact, op->now_ns, given);
    l->stored |= given > 0;
    l->output_cost = 0;
    l->shares->refunds++;
    return compare_state(l, op, &event, window, "state after refund differs", ret_verdict);
}

static bool step_reload(struct lockstep *l, const struct op *op, const struct reference_window *window,
                        struct weir_verdict *ret_verdict)
{
    struct weir_event event = event_of(op, window);
    settle(l, op, &event, window);
    struct weir_limit from = l->limit;
    uint64_t used = reference_used(&l->reference, op->now_ns);
    begin_limit(l, &op->spec);
    weir_limit_follow(&l->limit, &from, op->now_ns);
    struct reference_window next = window_at(l, op->now_ns);
    event = event_of(op, &next);
    weir_limit_convert(&from, &l->limit, op->spec.on_change, &l->state, &event);
    l->stored = true;
    uint64_t units = reference_convert(&l->reference, op->now_ns, &op->spec, &next, SKEW_NS, l->limit.debt_until_ns);
    exact_reload(&l->exact, &op->spec, tick_ns(&l->limit), op->now_ns, &next, used, units);
    l->output_cost = 0;
    l->shares->reloads++;
    l->shares->in_debt += units > l->limit.capacity;
    return compare_state(l, op, &event, &next, "state after reload differs", ret_verdict);
}

/* A host may forget a key that has been fresh for skew_max, unnoticed, and must before its times are too old to
 * compare. (Who then turns the clock back by more than skew_max does notice; so not just before that.) */
static void forget(struct lockstep *l, const struct op *op)
{
    bool must = op->now_ns > l->last_ns && op->now_ns - l->last_ns > horizon_ns(&l->limit) / 2;
    bool may = reference_fresh_for(&l->reference, op->now_ns, SKEW_NS) && (must || (op->now_ns % 2 && !op->jump));
    if (l->stored && may) {
        l->shares->forgotten++;
        l->stored = l->tainted = false;
        exact_init(&l->exact, &l->exact.spec, l->exact.tick_ns, l->exact_hits, LOCKSTEP_HITS);
        if (op->jump) {
            reference_clear(&l->reference);
            l->tainted = true; /* the clock will come back to before */
        }
    }
    if (!l->stored) {
        fresh_state(l, op->now_ns);
    }
}

bool lockstep_step(struct lockstep *l)
{
    struct op op = stream_next(&l->stream);
    struct reference_window window = window_at(l, op.now_ns);
    struct weir_verdict verdict = { .admitted = true };
    bool good = false;
    forget(l, &op);
    l->shares->ops++;
    l->shares->stale += op.stale;
    l->shares->jumps += op.jump;
    l->tainted |= (op.stale || op.jump) && op.kind != OP_PEEK;
    if (l->tainted)
        l->output_cost = 0; /* what comes out is not followed until the key is fresh again */
    switch (op.kind) {
    case OP_CHARGE:
        good = step_charge(l, &op, &window, &verdict);
        break;
    case OP_PEEK:
        good = step_peek(l, &op, &window, &verdict);
        break;
    case OP_REFUND:
        good = step_refund(l, &op, &window, &verdict);
        break;
    case OP_RECONFIGURE:
        good = step_reload(l, &op, &window, &verdict);
        break;
    }
    l->last_ns = op.now_ns > l->last_ns || op.jump ? op.now_ns : l->last_ns;
    stream_tell(&l->stream, &op, &verdict);
    return good;
}
