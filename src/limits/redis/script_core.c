/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens between the two rounds of a call. The stored values are read as ledgers (value.c, core/share/ledger.c)
 * and carried over to their limits as now defined; where nodes hold units or ask for some, core decides here.
 * request.c then sends the new values, as script.c writes them, and the script stores them if the old ones are still
 * what was seen. Called by script_decode.c when the script answers with values. */
#include "limits/redis/script_core.h"

#include <stdlib.h>

#include "core/limit/algorithm.h"
#include "core/limit/ticks.h"
#include "limits/redis/value.h"

struct weir_event weir_script_event(const struct weir_remote_op *op, uint64_t now_ns)
{
    struct weir_event event = { .now_ns = now_ns, .cost = op->units };
    if (op->limit->limit.calendar) {
        uint64_t phase_ns = (uint64_t)((weir_u128)op->key.phase * op->limit->spec.spread_ns >> 64);
        struct weir_calendar_window window = weir_calendar_at(&op->limit->rule, phase_ns, now_ns);
        event.window.id = window.id;
        event.window.end_after_ns = window.end_wall_ns > now_ns ? window.end_wall_ns - now_ns : 1;
    }
    return event;
}

void weir_script_judge_off(const struct weir_remote_op *op, struct weir_verdict *ret_verdict)
{
    uint64_t capacity = op->limit->limit.capacity;
    *ret_verdict =
        (struct weir_verdict){ .admitted = true, .shadow = true, .capacity = capacity, .remaining = capacity };
}

bool weir_script_all(const struct weir_script_call *call, bool *ret_never)
{
    bool all = true;
    *ret_never = false;
    for (size_t i = 0; i < call->count; i++) {
        const struct weir_verdict *v = &call->ops[i].judged;
        if (v->shadow || v->admitted)
            continue;
        all = false;
        *ret_never = *ret_never || v->retry_after_ns == WEIR_NEVER;
    }
    return all;
}

bool weir_script_drains(const struct weir_remote_op *op, bool all, bool never)
{
    return op->limit->spec.count_mode == WEIR_COUNT_ATTEMPTS && !never && op->units <= op->limit->limit.capacity &&
           (!all || op->limit->spec.mode == WEIR_MODE_SHADOW);
}

void weir_script_core_forget(struct weir_script_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        free(call->ops[i].written);
        call->ops[i].written = NULL;
    }
    call->whole = call->charges = false;
}

/* ---- a changed limit ---- */

static bool in_state(const struct weir_limit *limit)
{
    return limit->algorithm == WEIR_FIXED_WINDOW; /* counts what is held in its state (core/share/ledger.h) */
}

/* Carries the key over to the op's limit, by its on_change, if that is another one. What is used beyond the new
 * capacity is its debt. */
static void convert(struct weir_value *value, const struct weir_remote_op *op, uint32_t revision, uint64_t now_ns)
{
    const struct weir_limit *to = &op->limit->limit;
    struct weir_limit from = value->limit, wide = *to;
    struct weir_state *state = &value->ledger.state;
    struct weir_event event = weir_script_event(op, now_ns);
    uint64_t held = weir_ledger_held(&value->ledger);
    bool alike = weir_value_alike(value, op->limit);
    const bool level = op->limit->leveled && value->revision == revision;
    const enum weir_on_change on_change = level ? WEIR_ON_CHANGE_LEVEL : op->limit->spec.on_change;
    value->revision = revision;
    value->calendar_hash = op->limit->calendar_hash;
    if (alike) /* nothing to carry, and nothing to reset */
        return;
    if (weir_limit_is_bucket(&from) || from.algorithm == WEIR_SLIDING_COUNTER)
        weir_ledger_settle(&from, &value->ledger, &event); /* what is owed is carried too */
    from.ahead_max += weir_value_debt_ticks(value);
    if (in_state(&from))
        state->count = weir_sub_sat(state->count, held);
    /* A key that is fresh is fresh under any limit, as it would be had its time to live been over. Of which nodes hold
     * units is not. */
    bool fresh = held == 0 && weir_ticks_until(state->fresh_at, weir_ticks_at(now_ns, from.shift)) == 0;
    if (fresh || on_change == WEIR_ON_CHANGE_RESET) {
        struct weir_log log = { state->log.times, state->log.room, 0, 0 };
        *state = weir_state_fresh(to, now_ns);
        state->log = log;
    } else if (op->limit->keeps_time) {
        uint64_t ahead = weir_ticks_until(state->fresh_at, weir_ticks_at(now_ns, from.shift));
        uint64_t wait_ns = weir_ticks_wait_ns(ahead, now_ns, from.shift);
        state->fresh_at = weir_ticks_add(weir_ticks_at(now_ns, to->shift),
                                         weir_ticks_of(wait_ns, to->shift, WEIR_TICKS_DEBT_MAX));
    } else {
        weir_limit_convert(&from, to, on_change, state, &event);
    }
    if (in_state(to) && held > 0)
        weir_algorithm_of(to)->add(to, state, &event, held);
    wide.ahead_max = WEIR_TICKS_MASK;
    value->ledger.debt = weir_sub_sat(weir_limit_used(&wide, state, &event), to->capacity);
    value->limit = *to;
}

/* Written under a newer definition than this node has heard of: it decides by that one, which the value tells, and
 * never carries it back. Than a definition without revisions (WEIR_REVISION_NONE) none is newer. */
static bool is_newer(const struct weir_value *value, const struct weir_remote_op *op)
{
    return value->revision > op->limit->revision;
}

/* But for the windows of another calendar, which only the definition tells. */
static bool is_beyond(const struct weir_value *value, const struct weir_remote_op *op)
{
    const struct weir_limit *limit = &op->limit->limit;
    return is_newer(value, op) && value->limit.calendar &&
           (!limit->calendar || value->limit.period_ns != limit->period_ns ||
            (uint32_t)value->calendar_hash != (uint32_t)op->limit->calendar_hash);
}

/* ---- units held, asks ---- */

static bool ask(struct weir_script_op *mine, const struct weir_remote_op *op, struct weir_value *value, uint64_t now_ns)
{
    struct weir_event event = weir_script_event(op, now_ns);
    bool settled = weir_ledger_settle(&value->limit, &value->ledger, &event);
    weir_ledger_ask(&value->limit, &value->ledger, &event, &op->ask, &mine->answer);
    mine->answer.newer = is_newer(value, op) && !weir_value_alike(value, op->limit);
    return settled || !mine->answer.stale;
}

/* Settles a key of a clock that came back and forfeits what is overdue; whether anything was, which even a peek must
 * then write: it is remembered from then on. */
static bool expire(const struct weir_remote_op *op, struct weir_value *value, uint64_t now_ns)
{
    struct weir_event event = weir_script_event(op, now_ns);
    uint32_t count = value->ledger.stints_count;
    uint64_t held = weir_ledger_held(&value->ledger);
    bool settled = weir_ledger_settle(&value->limit, &value->ledger, &event);
    weir_ledger_expire(&value->limit, &value->ledger, &event);
    return settled || value->ledger.stints_count != count || weir_ledger_held(&value->ledger) != held;
}

static bool refund(struct weir_script_op *mine, const struct weir_remote_op *op, struct weir_value *value,
                   uint64_t now_ns)
{
    struct weir_event event = weir_script_event(op, now_ns);
    struct weir_limit own = value->limit;
    own.ahead_max += weir_value_debt_ticks(value); /* a key in debt is not one of a clock that jumped */
    mine->units = weir_limit_refund(&own, &value->ledger.state, &event, op->units);
    return mine->units > 0;
}

/* A refused attempt beside units that nodes hold: at most what is left is charged. */
static bool drain(struct weir_script_op *mine, const struct weir_remote_op *op, struct weir_value *value,
                  struct weir_event event)
{
    struct weir_verdict before = mine->judged;
    event.cost = weir_min_u64(event.cost, before.remaining);
    weir_ledger_decide(&value->limit, &value->ledger, &event, false, &mine->verdict);
    uint64_t charged = event.cost;
    event.cost = op->units;
    weir_ledger_decide(&value->limit, &value->ledger, &event, true, &mine->verdict);
    return charged > 0;
}

/* Sets ret_touched of the ops whose values changed. */
static void decide(struct weir_script_call *call, struct weir_value *values, uint64_t now_ns, bool *ret_touched)
{
    bool never, peek = call->request->verb == WEIR_REMOTE_PEEK || call->again;
    for (size_t i = 0; i < call->count; i++) {
        struct weir_script_op *mine = &call->ops[i];
        const struct weir_remote_op *op = weir_script_op_of(call, i);
        struct weir_event event = weir_script_event(op, now_ns);
        if (weir_script_is_off(call, i)) {
            weir_script_judge_off(op, &mine->judged);
        } else {
            weir_ledger_decide(&values[i].limit, &values[i].ledger, &event, true, &mine->judged);
            mine->judged.shadow = op->limit->spec.mode == WEIR_MODE_SHADOW;
        }
        mine->verdict = mine->judged;
    }
    bool all = weir_script_all(call, &never);
    for (size_t i = 0; i < call->count && !peek; i++) {
        struct weir_script_op *mine = &call->ops[i];
        const struct weir_remote_op *op = weir_script_op_of(call, i);
        struct weir_event event = weir_script_event(op, now_ns);
        if (weir_script_is_off(call, i) || op->units == 0)
            continue;
        if (all && mine->judged.admitted) {
            weir_ledger_decide(&values[i].limit, &values[i].ledger, &event, false, &mine->verdict);
            ret_touched[i] = true;
        } else if (weir_script_drains(op, all, never)) {
            ret_touched[i] = drain(mine, op, &values[i], event) || ret_touched[i];
        }
        mine->verdict.shadow = mine->judged.shadow;
    }
    call->charges = all;
}

/* ---- the reply ---- */

static int read_values(struct weir_script_call *call, struct layout_reader *reply, struct weir_value *values)
{
    for (size_t i = 0; i < call->count; i++) {
        const struct weir_remote_limit *limit = weir_script_op_of(call, i)->limit;
        struct weir_script_op *mine = &call->ops[i];
        size_t size = layout_get(reply, 4);
        mine->seen_size = size > 0 ? LAYOUT_SEEN : 0;
        const uint8_t *seen = layout_take(reply, mine->seen_size), *bytes = layout_take(reply, size);
        if (!seen || !bytes)
            return WEIR_ECORRUPT;
        memcpy(mine->seen, seen, mine->seen_size);
        int error = weir_value_read(limit, mine->revision, call->now_ns, bytes, size, &values[i]);
        if (error)
            return error;
    }
    return 0;
}

static int write_values(struct weir_script_call *call, const struct weir_value *values, const bool *touched)
{
    for (size_t i = 0; i < call->count; i++) {
        struct weir_script_op *mine = &call->ops[i];
        if (!touched[i])
            continue;
        int error = weir_value_write(&values[i], call->now_ns, &mine->written, &mine->written_size, &mine->ttl_ms);
        if (error)
            return error;
    }
    return 0;
}

static int compute(struct weir_script_call *call, struct weir_value *values)
{
    bool touched[WEIR_CHARGES_MAX] = { false }, changed[WEIR_CHARGES_MAX] = { false }, any = false;
    bool held = false; /* or newer: the script does not decide it */
    enum weir_remote_verb verb = call->request->verb;
    for (size_t i = 0; i < call->count; i++) {
        uint32_t revision = call->ops[i].revision;
        const struct weir_remote_op *op = weir_script_op_of(call, i);
        bool newer = is_newer(&values[i], op);
        if (weir_script_is_off(call, i))
            continue;
        if (newer && op->limit->revision > 0)
            weir_remote_limit_meet(op->limit, values[i].revision);
        if (is_beyond(&values[i], op))
            return WEIR_EBUSY;
        changed[i] = values[i].rewrite;
        held = held || values[i].held || newer;
        if (!newer && (values[i].revision != revision || !weir_value_alike(&values[i], op->limit))) {
            convert(&values[i], op, revision, call->now_ns);
            changed[i] = true;
        }
    }
    if (verb != WEIR_REMOTE_ASK && !held) {
        int error = write_values(call, values, changed);
        return error ? error : WEIR_EAGAIN;
    }
    for (size_t i = 0; i < call->count && verb != WEIR_REMOTE_ASK; i++)
        touched[i] = !weir_script_is_off(call, i) && expire(weir_script_op_of(call, i), &values[i], call->now_ns);
    if (verb == WEIR_REMOTE_DECIDE || verb == WEIR_REMOTE_PEEK)
        decide(call, values, call->now_ns, touched);
    for (size_t i = 0; i < call->count; i++) {
        const struct weir_remote_op *op = weir_script_op_of(call, i);
        if (verb == WEIR_REMOTE_ASK)
            touched[i] = ask(&call->ops[i], op, &values[i], call->now_ns);
        else if (verb == WEIR_REMOTE_REFUND)
            touched[i] = refund(&call->ops[i], op, &values[i], call->now_ns) || touched[i];
        any = any || touched[i];
    }
    if (!any)
        return 0;
    call->whole = true;
    int error = write_values(call, values, touched);
    return error ? error : WEIR_EAGAIN;
}

int weir_script_core(struct weir_script_call *call, struct layout_reader *reply)
{
    struct weir_value *values = calloc(call->count, sizeof *values);
    if (!values)
        return WEIR_ENOMEM;
    int error = read_values(call, reply, values);
    if (!error)
        error = compute(call, values);
    for (size_t i = 0; i < call->count; i++)
        weir_value_deinit(&values[i]);
    free(values);
    return error;
}
