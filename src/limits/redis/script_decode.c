/* SPDX-License-Identifier: Apache-2.0
 *
 * The script's reply. Verdicts are core/limit's own, of the states that the script saw; a log's are computed from the
 * few entries of it that they depend on (core/limit/log.c). Called by request.c. */
#include "core/limit/ticks.h"
#include "limits/redis/script_core.h"

/* What the script says of one op. */
struct seen {
    struct weir_limit limit;
    struct weir_state state;
    struct weir_event event;
    unsigned flags;
    /* A log: units in it, units that were drained besides; the newest entry; the one whose end lets `remaining` grow;
     * the one whose end lets the cost in. */
    uint64_t used, drained, newest_ns, next_ns, retry_ns;
};

/* WEIR_ECORRUPT: too short, or a state that cannot be (value.c looks for the same). */
static int read_seen(struct layout_reader *r, const struct weir_remote_op *op, uint64_t now_ns, struct seen *ret_seen)
{
    struct seen s = { .limit = op->limit->limit, .event = weir_script_event(op, now_ns) };
    s.flags = (unsigned)layout_get(r, 1);
    s.state.fresh_at = layout_get(r, 8) & WEIR_TICKS_MASK;
    uint64_t second = layout_get(r, 8);
    bool is_log = s.limit.algorithm == WEIR_SLIDING_LOG; /* of which the script tells what it needs */
    s.state.count = layout_get(r, 8);
    uint64_t debt_ticks = layout_get(r, 8);
    s.limit.ahead_max += weir_min_u64(debt_ticks, WEIR_TICKS_DEBT_MAX);
    if (s.limit.algorithm == WEIR_FIXED_WINDOW)
        s.state.window = second;
    else if (s.limit.algorithm == WEIR_SLIDING_COUNTER)
        s.state.previous = second;
    if (is_log) {
        s.used = layout_get(r, 8);
        s.drained = layout_get(r, 8);
        s.newest_ns = layout_get(r, 8);
        s.next_ns = layout_get(r, 8);
        s.retry_ns = layout_get(r, 8);
    }
    if (r->short_of_bytes || (!is_log && (second >> 63 || s.state.count >> 63)))
        return WEIR_ECORRUPT;
    *ret_seen = s;
    return 0;
}

/* ---- a log ---- */

static uint64_t leaves_after_ns(const struct seen *s, uint64_t entry_ns)
{
    return weir_sub_sat(weir_add_sat(entry_ns, s->limit.period_ns), s->event.now_ns);
}

/* With `more` units at the time of the event. */
static void log_numbers(const struct seen *s, uint64_t more, struct weir_verdict *v)
{
    uint64_t used = s->used + more, now_ns = s->event.now_ns;
    uint64_t newest_ns = more == 0 ? s->newest_ns : s->used > 0 ? weir_max_u64(s->newest_ns, now_ns) : now_ns;
    v->remaining = weir_sub_sat(s->limit.capacity, used);
    v->reset_after_ns = used > 0 ? leaves_after_ns(s, newest_ns) : 0;
    v->next_after_ns = 0;
    if (v->remaining < s->limit.capacity)
        v->next_after_ns = leaves_after_ns(s, s->used > 0 ? s->next_ns : now_ns);
}

static void log_judge(const struct seen *s, struct weir_verdict *v)
{
    *v = (struct weir_verdict){ .capacity = s->limit.capacity };
    log_numbers(s, 0, v);
    v->admitted = s->event.cost <= v->remaining;
    if (s->event.cost > s->limit.capacity)
        v->retry_after_ns = WEIR_NEVER;
    else if (!v->admitted)
        v->retry_after_ns = leaves_after_ns(s, s->retry_ns);
}

static void log_drain(const struct seen *s, struct weir_verdict *v)
{
    uint64_t used = s->used + s->drained, most = s->limit.capacity - s->event.cost;
    log_numbers(s, s->drained, v);
    uint64_t now_ns = s->used > 0 ? weir_max_u64(s->newest_ns, s->event.now_ns) : s->event.now_ns;
    v->retry_after_ns = 0;
    if (used > most)
        v->retry_after_ns = leaves_after_ns(s, used - most - 1 < s->used ? s->retry_ns : now_ns);
}

/* ---- any ---- */

static void judge(const struct seen *s, const struct weir_remote_op *op, struct weir_verdict *v)
{
    if (s->limit.algorithm == WEIR_SLIDING_LOG)
        log_judge(s, v);
    else
        weir_limit_judge(&s->limit, &s->state, &s->event, v);
    v->shadow = op->limit->spec.mode == WEIR_MODE_SHADOW;
}

static void charge(struct seen *s, struct weir_verdict *v)
{
    if (s->limit.algorithm == WEIR_SLIDING_LOG)
        log_numbers(s, s->event.cost, v);
    else
        weir_limit_charge(&s->limit, &s->state, &s->event, v);
}

static void drain(struct seen *s, struct weir_verdict *v)
{
    if (s->limit.algorithm == WEIR_SLIDING_LOG)
        log_drain(s, v);
    else
        weir_limit_drain(&s->limit, &s->state, &s->event, v);
}

/* Judges again what the script judged, and charges what it charged; the two must agree. */
static int decode_decisions(struct weir_script_call *call, struct layout_reader *r)
{
    struct seen seen[WEIR_CHARGES_MAX];
    bool never, charges = call->request->verb == WEIR_REMOTE_DECIDE && !call->again;
    for (size_t i = 0; i < call->count; i++) {
        const struct weir_remote_op *op = weir_script_op_of(call, i);
        struct weir_verdict *judged = &call->ops[i].judged;
        if (weir_script_is_off(call, i)) {
            weir_script_judge_off(op, judged);
            continue;
        }
        int error = read_seen(r, op, call->now_ns, &seen[i]);
        if (error)
            return error;
        judge(&seen[i], op, judged);
        if (judged->admitted != ((seen[i].flags & LAYOUT_DONE_ADMITTED) != 0))
            return WEIR_ECORRUPT;
        if (call->again) {
            judged->admitted = true;
            judged->retry_after_ns = 0;
        }
    }
    bool all = weir_script_all(call, &never);
    for (size_t i = 0; i < call->count; i++) {
        const struct weir_remote_op *op = weir_script_op_of(call, i);
        struct weir_verdict *v = &call->ops[i].verdict;
        *v = call->ops[i].judged;
        if (weir_script_is_off(call, i))
            continue;
        unsigned done = seen[i].flags & (LAYOUT_DONE_CHARGED | LAYOUT_DONE_DRAINED), expected = 0;
        if (charges && op->units > 0 && all && v->admitted)
            expected = LAYOUT_DONE_CHARGED;
        else if (charges && op->units > 0 && weir_script_drains(op, all, never))
            expected = LAYOUT_DONE_DRAINED;
        if (done != expected)
            return WEIR_ECORRUPT;
        if (expected == LAYOUT_DONE_CHARGED)
            charge(&seen[i], v);
        else if (expected == LAYOUT_DONE_DRAINED)
            drain(&seen[i], v);
    }
    return 0;
}

static int decode_refunds(struct weir_script_call *call, struct layout_reader *r)
{
    for (size_t i = 0; i < call->count; i++) {
        const struct weir_remote_op *op = weir_script_op_of(call, i);
        struct seen s;
        int error = read_seen(r, op, call->now_ns, &s);
        if (error)
            return error;
        call->ops[i].units = op->limit->limit.algorithm == WEIR_SLIDING_LOG
                                 ? weir_min_u64(op->units, s.used)
                                 : weir_limit_refund(&s.limit, &s.state, &s.event, op->units);
    }
    return 0;
}

static int decode_done(struct weir_script_call *call, struct layout_reader *r)
{
    switch (call->request->verb) {
    case WEIR_REMOTE_DECIDE:
    case WEIR_REMOTE_PEEK:
        return decode_decisions(call, r);
    case WEIR_REMOTE_REFUND:
        return decode_refunds(call, r);
    case WEIR_REMOTE_FORGET:
        for (size_t i = 0; i < call->count; i++)
            call->ops[i].units = layout_get(r, 1);
        return r->short_of_bytes ? WEIR_ECORRUPT : 0;
    case WEIR_REMOTE_ASK:
        break;
    }
    return WEIR_ECORRUPT;
}

static void publish(struct weir_script_call *call)
{
    call->answered = true;
    call->request->engine_now_ns = call->now_ns;
    for (size_t i = 0; i < call->count; i++) {
        const struct weir_script_op *mine = &call->ops[i];
        struct weir_remote_op *op = &call->request->ops[mine->index];
        switch (call->request->verb) {
        case WEIR_REMOTE_DECIDE:
        case WEIR_REMOTE_PEEK:
            op->verdict = mine->verdict;
            break;
        case WEIR_REMOTE_REFUND:
        case WEIR_REMOTE_FORGET:
            op->units = mine->units;
            break;
        case WEIR_REMOTE_ASK:
            op->answer = mine->answer;
            break;
        }
    }
}

static int again(struct weir_script_call *call)
{
    call->request->contended = call->rounds > 0; /* the first brings the state */
    return ++call->rounds < WEIR_SCRIPT_ROUNDS_MAX ? WEIR_EAGAIN : WEIR_EBUSY;
}

void weir_script_call_next_round(const struct weir_script_call *call, uint64_t now_ns)
{
    struct weir_remote_request *request = call->request;
    uint64_t deadline_ns = weir_min_u64(weir_add_sat(now_ns, request->round_ns), request->until_ns);
    request->deadline_ns = weir_max_u64(request->deadline_ns, deadline_ns);
}

int weir_script_call_decode(struct weir_script_call *call, const void *reply, size_t size)
{
    struct layout_reader r = { reply, (const uint8_t *)reply + size, false };
    char letter = (char)layout_get(&r, 1);
    uint64_t now_ns = layout_get(&r, 8);
    int error = WEIR_ECORRUPT;
    call->heard_ns = 0;
    if (r.short_of_bytes || letter == 'C' || now_ns > INT64_MAX) /* nor is a clock in the year 2262 */
        return WEIR_ECORRUPT;
    call->heard_ns = now_ns;
    if (letter == 'G')
        return call->gives_back ? 0 : WEIR_EUNKNOWN;
    if (call->gives_back)
        return letter == 'D' ? 0 : WEIR_ECORRUPT;
    if (letter != 'S')
        call->now_ns = now_ns; /* what was written was computed for the time before */
    bool wrote = letter == 'S' && call->whole;
    if (!wrote)
        weir_script_core_forget(call);
    if (letter == 'R' && call->request->verb == WEIR_REMOTE_DECIDE) {
        call->again = true;
        return again(call);
    }
    if (letter == 'A')
        error = weir_script_core(call, &r);
    else if (letter == 'D')
        error = decode_done(call, &r);
    else if (wrote)
        error = 0;
    if (error == WEIR_EAGAIN)
        return again(call);
    weir_script_core_forget(call);
    if (!error)
        publish(call);
    return error;
}
