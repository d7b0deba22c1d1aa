/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/hold.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/checked.h"
#include "observe/metrics.h"
#include "serve/hold_lane.h"
#include "serve/permit.h"

struct weir_holds {
    _Atomic uint32_t waiting[WEIR_METRICS_LIMITS_MAX];    /* by the limit's slot in the metrics */
    _Atomic uint64_t gap_min_ns[WEIR_METRICS_LIMITS_MAX]; /* 0 = none yet */
    struct weir_lanes lanes;
};

/* One charge of a request that waits. */
struct part {
    struct weir_charge charge;
    uint64_t ticket;
    uint32_t slot;
    enum weir_algorithm algorithm;
    bool holds; /* its limit holds answers; else it was charged together with one that does */
};

struct weir_hold_waiter {
    struct weir_timer timer;
    struct weir_loop *loop;
    struct weir_conn *conn;
    uint64_t begun_ns, due_ns;
    uint8_t *answer;
    size_t answer_size;
    size_t claim_count;
    struct weir_lane_claim claims[WEIR_CHARGES_MAX];
    size_t count;
    struct part parts[];
};

/* ---- shared ---- */

int weir_holds_create(struct weir_holds **ret_holds)
{
    struct weir_holds *holds = calloc(1, sizeof(*holds));
    if (!holds)
        return WEIR_ENOMEM;
    weir_lanes_init(&holds->lanes);
    *ret_holds = holds;
    return 0;
}

void weir_holds_destroy(struct weir_holds *holds)
{
    if (!holds)
        return;
    weir_lanes_deinit(&holds->lanes);
    free(holds);
}

uint64_t weir_holds_gap_min_ns(struct weir_holds *holds, uint32_t slot)
{
    return atomic_load_explicit(&holds->gap_min_ns[slot], memory_order_relaxed);
}

uint32_t weir_holds_waiting(struct weir_holds *holds, uint32_t slot)
{
    return atomic_load_explicit(&holds->waiting[slot], memory_order_relaxed);
}

static void note_gap(_Atomic uint64_t *min_ns, uint64_t gap_ns)
{
    uint64_t seen = atomic_load_explicit(min_ns, memory_order_relaxed);
    while ((seen == 0 || gap_ns < seen) &&
           !atomic_compare_exchange_weak_explicit(min_ns, &seen, gap_ns, memory_order_relaxed, memory_order_relaxed))
        continue;
}

/* ---- judging ---- */

static bool holds_here(const struct weir_outcome *outcome, size_t i)
{
    const struct weir_rule *rule = outcome->match.rules[i];
    return rule->throttle == WEIR_THROTTLE_HOLD && rule->spec.algorithm == WEIR_LEAKY_BUCKET &&
           !outcome->verdicts[i].shadow && outcome->match.charges[i].cost > 0;
}

/* The time that a charge takes in its bucket. */
static uint64_t gap_of(const struct weir_outcome *outcome, size_t i)
{
    const struct weir_limit_spec *spec = &outcome->match.rules[i]->spec;
    return weir_mul_div_ceil(outcome->match.charges[i].cost, spec->period_ns, spec->count);
}

static size_t make_claims(const struct weir_loop *loop, const struct weir_outcome *outcome,
                          struct weir_lane_claim claims[WEIR_CHARGES_MAX], uint64_t *ret_delay_ns)
{
    size_t count = 0;
    *ret_delay_ns = 0;
    for (size_t i = 0; i < outcome->match.count; i++) {
        if (!holds_here(outcome, i))
            continue;
        uint32_t slot = weir_loop_slot(loop, outcome->match.rules[i]->index);
        claims[count++] = (struct weir_lane_claim){ .id = weir_lane_id(slot, &outcome->match.charges[i].key),
                                                    .gap_ns = gap_of(outcome, i) };
        *ret_delay_ns = weir_max_u64(*ret_delay_ns, outcome->verdicts[i].delay_ns);
    }
    return count;
}

/* Gives back what was charged: first what only the newest in line may get back, and the rest only if all of that was.
 * Permits always: nobody has them. */
static bool give_back(struct weir_limiter *limiter, const struct part *parts, size_t count,
                      const struct weir_time *time)
{
    bool all = true;
    for (size_t i = 0; i < count && all; i++) {
        bool refunded = false;
        if (parts[i].holds &&
            (weir_limiter_refund_last(limiter, &parts[i].charge, parts[i].ticket, time, &refunded) || !refunded))
            all = false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!parts[i].holds && parts[i].charge.cost > 0 && (all || parts[i].algorithm == WEIR_CONCURRENCY))
            weir_charge_undo(limiter, parts[i].algorithm, &parts[i].charge, parts[i].ticket, time);
    }
    return all;
}

static void fill_parts(const struct weir_loop *loop, const struct weir_outcome *outcome, struct part *parts)
{
    for (size_t i = 0; i < outcome->match.count; i++)
        parts[i] = (struct part){ .charge = outcome->match.charges[i],
                                  .ticket = outcome->verdicts[i].ticket,
                                  .algorithm = outcome->match.rules[i]->spec.algorithm,
                                  .slot = weir_loop_slot(loop, outcome->match.rules[i]->index),
                                  .holds = holds_here(outcome, i) };
}

/* The outcome becomes a refusal by limit `culprit`. */
static void shed(struct weir_loop *loop, const struct weir_time *time, struct weir_outcome *outcome, size_t culprit,
                 uint64_t retry_after_ns)
{
    struct part parts[WEIR_CHARGES_MAX];
    fill_parts(loop, outcome, parts);
    bool refunded = give_back(loop->limiter, parts, outcome->match.count, time);
    for (size_t i = 0; i < outcome->match.count; i++) {
        struct weir_verdict *verdict = &outcome->verdicts[i];
        verdict->delay_ns = 0;
        if (refunded) /* without asking again: nobody else was there, as far as this answer is concerned */
            verdict->remaining = weir_min_u64(verdict->capacity,
                                              weir_add_sat(verdict->remaining, outcome->match.charges[i].cost));
    }
    outcome->verdicts[culprit].admitted = false;
    outcome->verdicts[culprit].retry_after_ns = weir_max_u64(retry_after_ns, 1);
    outcome->decision = (struct weir_decision){ .deciding = culprit,
                                                .retry_after_ns = outcome->verdicts[culprit].retry_after_ns };
    outcome->shed = true;
}

/* Counts the request among those that wait; the index of the limit that has no room, or match.count. */
static size_t take_places(struct weir_loop *loop, const struct weir_outcome *outcome)
{
    struct weir_holds *holds = loop->shared->holds;
    size_t count = outcome->match.count, full = count;
    for (size_t i = 0; i < count && full == count; i++) {
        const struct weir_rule *rule = outcome->match.rules[i];
        if (holds_here(outcome, i) &&
            atomic_fetch_add(&holds->waiting[weir_loop_slot(loop, rule->index)], 1) >= rule->hold_max)
            full = i;
    }
    for (size_t i = 0; full < count && i <= full; i++) {
        if (holds_here(outcome, i))
            atomic_fetch_sub(&holds->waiting[weir_loop_slot(loop, outcome->match.rules[i]->index)], 1);
    }
    return full;
}

static void leave_places(const struct weir_hold_waiter *waiter)
{
    for (size_t i = 0; i < waiter->count; i++) {
        if (waiter->parts[i].holds)
            atomic_fetch_sub(&waiter->loop->shared->holds->waiting[waiter->parts[i].slot], 1);
    }
}

/* The numbers as they will be when the answer goes, if nobody else comes. */
static void show_turn(struct weir_outcome *outcome, uint64_t wait_ns)
{
    outcome->decision.delay_ns = 0;
    for (size_t i = 0; i < outcome->match.count; i++) {
        struct weir_verdict *verdict = &outcome->verdicts[i];
        verdict->reset_after_ns = weir_sub_sat(verdict->reset_after_ns, wait_ns);
        verdict->next_after_ns = weir_sub_sat(verdict->next_after_ns, wait_ns);
        verdict->delay_ns = weir_sub_sat(verdict->delay_ns, wait_ns);
        outcome->decision.delay_ns = weir_max_u64(outcome->decision.delay_ns, verdict->shadow ? 0 : verdict->delay_ns);
    }
    outcome->wait_ns = wait_ns;
}

static struct weir_hold_waiter *make_waiter(struct weir_loop *loop, const struct weir_outcome *outcome,
                                            const struct weir_lane_claim *claims, size_t claim_count)
{
    struct weir_hold_waiter *waiter = calloc(1, sizeof(*waiter) + outcome->match.count * sizeof(waiter->parts[0]));
    if (!waiter)
        return NULL;
    waiter->loop = loop;
    waiter->count = outcome->match.count;
    fill_parts(loop, outcome, waiter->parts);
    waiter->claim_count = claim_count;
    memcpy(waiter->claims, claims, claim_count * sizeof(claims[0]));
    return waiter;
}

static size_t first_holding(const struct weir_outcome *outcome)
{
    size_t i = 0;
    while (!holds_here(outcome, i))
        i++;
    return i;
}

/* How long an answer may be held: for the hold_timeout, and while the lease of a permit lasts. */
static uint64_t patience_of(const struct weir_outcome *outcome, size_t i)
{
    const struct weir_rule *rule = outcome->match.rules[i];
    const struct weir_verdict *verdict = &outcome->verdicts[i];
    if (rule->spec.algorithm == WEIR_CONCURRENCY && verdict->ticket > 0 && !verdict->shadow)
        return rule->spec.period_ns - 1;
    return holds_here(outcome, i) ? rule->hold_timeout_ns : WEIR_NEVER;
}

/* The limit for which a wait of `wait_ns` is too long, or match.count. */
static size_t find_impatient(const struct weir_outcome *outcome, uint64_t wait_ns)
{
    size_t i = 0;
    while (i < outcome->match.count && wait_ns <= patience_of(outcome, i))
        i++;
    return i;
}

void weir_hold_judge(struct weir_loop *loop, const struct weir_time *time, struct weir_outcome *outcome)
{
    struct weir_lane_claim claims[WEIR_CHARGES_MAX];
    uint64_t delay_ns = 0;
    size_t claim_count = make_claims(loop, outcome, claims, &delay_ns);
    if (claim_count == 0)
        return;
    uint64_t due_ns = time->now_ns + delay_ns;
    if (delay_ns == 0) {
        uint64_t ready_ns = weir_lanes_claim(&loop->shared->holds->lanes, claims, claim_count, uv_hrtime());
        if (ready_ns == 0)
            return;
        due_ns = ready_ns;
    }
    uint64_t wait_ns = weir_sub_sat(due_ns, time->now_ns);
    size_t culprit = find_impatient(outcome, wait_ns);
    if (culprit < outcome->match.count) {
        shed(loop, time, outcome, culprit, wait_ns - patience_of(outcome, culprit));
        return;
    }
    struct weir_hold_waiter *waiter = make_waiter(loop, outcome, claims, claim_count);
    culprit = waiter ? take_places(loop, outcome) : first_holding(outcome);
    if (culprit < outcome->match.count) {
        free(waiter);
        shed(loop, time, outcome, culprit, gap_of(outcome, culprit));
        return;
    }
    waiter->begun_ns = time->now_ns;
    waiter->due_ns = due_ns;
    show_turn(outcome, wait_ns);
    outcome->waiter = waiter;
}

/* ---- waiting ---- */

static void end(struct weir_hold_waiter *waiter)
{
    leave_places(waiter);
    if (waiter->conn)
        waiter->conn->waiter = NULL;
    free(waiter->answer);
    free(waiter);
}

static void note_release(const struct weir_hold_waiter *waiter, uint64_t now_ns)
{
    struct weir_metrics_loop *counts = weir_metrics_of_loop(waiter->loop->shared->metrics, waiter->loop->number);
    weir_count(&counts->holds_ended, 1);
    weir_count(&counts->hold_late_ns, now_ns - waiter->due_ns);
    weir_histogram_add(&counts->hold_ns, now_ns - waiter->begun_ns, 1);
    for (size_t i = 0, claim = 0; i < waiter->count; i++) {
        if (!waiter->parts[i].holds)
            continue;
        uint64_t gap_ns = waiter->claims[claim++].since_last_ns;
        if (gap_ns > 0)
            note_gap(&waiter->loop->shared->holds->gap_min_ns[waiter->parts[i].slot], gap_ns);
    }
}

static void on_due(struct weir_timer *timer, const struct weir_time *time)
{
    (void)time; /* read for a batch of timers: this one must not go early by what passed since */
    struct weir_hold_waiter *waiter = (struct weir_hold_waiter *)timer;
    struct weir_holds *holds = waiter->loop->shared->holds;
    uint64_t now_ns = uv_hrtime();
    uint64_t ready_ns = weir_lanes_claim(&holds->lanes, waiter->claims, waiter->claim_count, now_ns);
    if (ready_ns > 0) {
        int error = weir_timer_start(&waiter->loop->timers, &waiter->timer, ready_ns);
        weir_assert(!error); /* it has just left a place */
        return;
    }
    note_release(waiter, now_ns);
    struct weir_conn *conn = waiter->conn;
    weir_conn_write(conn, waiter->answer, waiter->answer_size);
    end(waiter);
    weir_conn_resume(conn);
}

/* Moves what was written since then out of the connection's output. */
static bool take_back(struct weir_hold_waiter *waiter, struct weir_conn *conn, size_t pending_before)
{
    size_t pending = weir_conn_pending(conn);
    weir_assert(pending >= pending_before);
    size_t size = pending - pending_before;
    waiter->answer = malloc(size + 1); /* never 0: NULL is out of memory */
    if (!waiter->answer)
        return false;
    if (size > 0) {
        memcpy(waiter->answer, conn->out.data + conn->out.size - size, size);
        conn->out.size -= size;
    }
    waiter->answer_size = size;
    return true;
}

void weir_hold_begin(struct weir_hold_waiter *waiter, struct weir_conn *conn, size_t pending_before)
{
    weir_assert(!conn->waiter);
    waiter->timer.on_due = on_due;
    waiter->conn = conn;
    conn->waiter = waiter;
    weir_count(&weir_metrics_of_loop(waiter->loop->shared->metrics, waiter->loop->number)->holds_begun, 1);
    weir_conn_hold(conn);
    if (!take_back(waiter, conn, pending_before) ||
        weir_timer_start(&waiter->loop->timers, &waiter->timer, waiter->due_ns))
        weir_conn_abort(conn); /* memory is out; weir_hold_leave gives the charge back */
}

void weir_hold_leave(struct weir_conn *conn)
{
    if (!conn->waiter)
        return;
    weir_count(&weir_metrics_of_loop(conn->loop->shared->metrics, conn->loop->number)->holds_left, 1);
    weir_hold_drop(conn->waiter);
}

void weir_hold_drop(struct weir_hold_waiter *waiter)
{
    if (!waiter)
        return;
    const struct weir_time time = weir_time_read();
    weir_timer_stop(&waiter->loop->timers, &waiter->timer);
    (void)give_back(waiter->loop->limiter, waiter->parts, waiter->count, &time);
    end(waiter);
}
