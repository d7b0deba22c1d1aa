/* SPDX-License-Identifier: Apache-2.0
 *
 * A call's bytes are read by limits/redis/layout.h, the values under its keys by limits/redis/value.h;
 * weir_ledger_decide decides, and the reply's first letter says what was done. Values are named by a SipHash where the
 * script takes SHA1. Called by script_node.c, and by tests/redis/real.c beside the script itself. */
#include "sim/script_double.h"

#include <stdlib.h>

#include "base/siphash.h"
#include "core/limit/ticks.h"
#include "limits/redis/value.h"

#define MARGIN_NS WEIR_NS_PER_SECOND /* as limits/redis/plain.lua has it */

struct op {
    struct weir_sim_script_value *stored;
    const uint8_t *parameters, *seen, *written;
    uint32_t key;
    unsigned flags;
    uint64_t units, start_ns, end_ns, ttl_ms;
    size_t seen_size, written_size;
    struct weir_remote_limit remote; /* as far as values need it */
    uint32_t revision;
    struct weir_event event;
    struct weir_value value;
    struct weir_verdict verdict;
    bool careless;
};

enum found { FOUND_FRESH, FOUND_STATE, FOUND_CHANGED, FOUND_CORRUPT };

/* ---- the call ---- */

static uint32_t read_parameters(const uint8_t *parameters, struct weir_remote_limit *remote)
{
    struct layout_reader r = { parameters + 4, parameters + LAYOUT_PARAMETERS, false };
    struct weir_limit *limit = &remote->limit;
    limit->algorithm = (enum weir_algorithm)layout_get(&r, 1);
    limit->calendar = layout_get(&r, 1) == 1;
    limit->shift = (int32_t)layout_get(&r, 1) - 64;
    bool revised = layout_get(&r, 1) == LAYOUT_REVISED;
    limit->capacity = layout_get(&r, 8);
    limit->emission = layout_get(&r, 8);
    limit->span = layout_get(&r, 8);
    limit->ahead_max = layout_get(&r, 8);
    limit->period_ns = layout_get(&r, 8);
    limit->inverse = limit->emission > 0 ? UINT64_MAX / limit->emission : 0;
    remote->calendar_hash = layout_get(&r, 8);
    uint32_t revision = revised ? (uint32_t)(remote->calendar_hash >> 32) : WEIR_REVISION_FIRST;
    if (revised)
        remote->calendar_hash = (uint32_t)remote->calendar_hash;
    return revision;
}

static void read_op(struct layout_reader *r, struct op *op, uint64_t now_ns)
{
    op->parameters = layout_take(r, LAYOUT_PARAMETERS);
    weir_assert(op->parameters);
    op->flags = (unsigned)layout_get(r, 1);
    (void)layout_take(r, 3 + 8 + 8); /* for the script's arithmetic */
    op->units = layout_get(r, 8);
    (void)layout_get(r, 8);
    op->event = (struct weir_event){ .now_ns = now_ns, .cost = op->units };
    op->event.window.id = layout_get(r, 8);
    op->start_ns = layout_get(r, 8);
    op->end_ns = layout_get(r, 8);
    op->event.window.end_after_ns = op->end_ns > now_ns ? op->end_ns - now_ns : 1;
    op->seen_size = layout_get(r, 4);
    op->written_size = layout_get(r, 4);
    op->ttl_ms = layout_get(r, 8);
    if (op->flags & LAYOUT_OP_REPLACE) {
        op->seen = layout_take(r, op->seen_size);
        op->written = layout_take(r, op->written_size);
    }
    weir_assert(!r->short_of_bytes);
    op->revision = read_parameters(op->parameters, &op->remote);
}

/* ---- values ---- */

void weir_sim_script_name(const struct weir_sim_script_value *value, uint8_t ret_name[LAYOUT_SEEN])
{
    static const struct weir_sip_key key = { 1, 2 };
    uint64_t hash = weir_siphash(&key, value->bytes, value->size);
    for (size_t i = 0; i < LAYOUT_SEEN; i++)
        ret_name[i] = (uint8_t) "0123456789abcdef"[hash >> i % 16 * 4 & 15];
}

static void store(struct weir_sim_script_value *stored, const uint8_t *bytes, size_t size, uint64_t ttl_ms,
                  uint64_t now_ns)
{
    weir_assert(size <= sizeof stored->bytes);
    memcpy(stored->bytes, bytes, size);
    stored->size = (uint32_t)size;
    stored->until_ns = weir_add_sat(now_ns, weir_add_sat(weir_mul_sat(ttl_ms, 1000000), MARGIN_NS));
}

/* Writes what a node computed, all or nothing: only where nobody changed what it saw, and as of no time to come. */
static bool replace(struct op *ops, uint32_t count, uint64_t computed_ns, uint64_t now_ns)
{
    if (now_ns < computed_ns)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t name[LAYOUT_SEEN];
        const struct op *op = &ops[i];
        if (op->careless)
            continue;
        weir_sim_script_name(op->stored, name);
        if (op->written && (op->stored->size > 0) != (op->seen_size > 0))
            return false;
        if (op->written && op->seen_size > 0 && memcmp(name, op->seen, LAYOUT_SEEN) != 0)
            return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].written)
            store(ops[i].stored, ops[i].written, ops[i].written_size, ops[i].ttl_ms, now_ns);
    }
    return true;
}

static enum found look(const struct op *op)
{
    const uint8_t *bytes = op->stored->bytes;
    if (op->stored->size == 0)
        return FOUND_FRESH;
    if (op->stored->size < LAYOUT_VALUE || memcmp(bytes, LAYOUT_MAGIC, 4) != 0)
        return FOUND_CORRUPT;
    struct layout_reader held = { bytes + LAYOUT_VALUE - 4, bytes + LAYOUT_VALUE, false };
    if (layout_get(&held, 4) > 0 || memcmp(bytes, op->parameters, LAYOUT_PARAMETERS) != 0)
        return FOUND_CHANGED;
    return FOUND_STATE;
}

static void save(struct op *op, uint64_t now_ns)
{
    uint8_t *bytes;
    size_t size;
    uint64_t ttl_ms;
    int error = weir_value_write(&op->value, now_ns, &bytes, &size, &ttl_ms);
    weir_assert(error == 0);
    store(op->stored, bytes, size, ttl_ms, now_ns);
    free(bytes);
}

/* A key of a clock that jumped becomes empty as of now, which is written at once. */
static bool load(struct op *op, uint64_t now_ns)
{
    if (weir_value_read(&op->remote, op->revision, now_ns, op->stored->bytes, op->stored->size, &op->value) != 0)
        return false;
    if (weir_ledger_settle(&op->value.limit, &op->value.ledger, &op->event))
        save(op, now_ns);
    return true;
}

/* ---- answers ---- */

static void put_values(struct layout_writer *w, const struct op *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint8_t name[LAYOUT_SEEN];
        weir_sim_script_name(ops[i].stored, name);
        layout_put(w, 4, ops[i].stored->size);
        if (ops[i].stored->size > 0)
            layout_put_bytes(w, name, LAYOUT_SEEN);
        layout_put_bytes(w, ops[i].stored->bytes, ops[i].stored->size);
    }
}

/* Of the units in a log: how many, the newest, the one whose end lets `remaining` grow, the one whose end lets the cost
 * in. */
static void put_log(struct layout_writer *w, const struct op *op)
{
    const struct weir_log *log = &op->value.ledger.state.log;
    uint64_t capacity = op->value.limit.capacity, newest_ns = 0, next_ns = 0, retry_ns = 0;
    uint32_t first = 0;
    if (log->used > 0)
        newest_ns = log->times[(log->head + log->used - 1) & (log->room - 1)];
    uint64_t at_ns = weir_max_u64(newest_ns, op->event.now_ns);
    while (first < log->used && log->times[(log->head + first) & (log->room - 1)] + op->value.limit.period_ns <= at_ns)
        first++;
    uint64_t live = log->used - first, fits = weir_sub_sat(capacity, op->units);
    if (live > 0)
        next_ns = log->times[(log->head + first + weir_sub_sat(live, capacity)) & (log->room - 1)];
    if (op->units <= capacity && live > fits)
        retry_ns = log->times[(log->head + first + live - fits - 1) & (log->room - 1)];
    layout_put(w, 8, live);
    layout_put(w, 8, 0);
    layout_put(w, 8, newest_ns);
    layout_put(w, 8, next_ns);
    layout_put(w, 8, retry_ns);
}

static void put_decided(struct layout_writer *w, const struct op *op, bool charged)
{
    const struct weir_state *state = &op->value.ledger.state;
    bool counter = op->value.limit.algorithm == WEIR_SLIDING_COUNTER;
    layout_put(w, 1, (op->verdict.admitted ? LAYOUT_DONE_ADMITTED : 0) | (charged ? LAYOUT_DONE_CHARGED : 0));
    layout_put(w, 8, state->fresh_at);
    layout_put(w, 8, counter ? state->previous : state->window);
    layout_put(w, 8, state->count);
    layout_put(w, 8, weir_value_debt_ticks(&op->value));
    if (op->value.limit.algorithm == WEIR_SLIDING_LOG)
        put_log(w, op);
}

static void decide(struct op *ops, uint32_t count, bool peek, struct layout_writer *w, uint64_t *charged)
{
    bool all = true;
    for (uint32_t i = 0; i < count; i++) {
        struct op *op = &ops[i];
        all &= weir_ledger_decide(&op->value.limit, &op->value.ledger, &op->event, true, &op->verdict);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct op *op = &ops[i];
        bool charges = all && !peek && op->units > 0;
        put_decided(w, op, charges);
        if (!charges)
            continue;
        (void)weir_ledger_decide(&op->value.limit, &op->value.ledger, &op->event, false, &op->verdict);
        save(op, op->event.now_ns);
        charged[op->key] += op->units;
    }
}

static bool is_outside(const struct op *op)
{
    return op->remote.limit.calendar && (op->event.now_ns < op->start_ns || op->event.now_ns >= op->end_ns);
}

/* Returns the letter, and writes what follows the time. */
static char run(struct op *ops, uint32_t count, unsigned verb, unsigned flags, uint64_t computed_ns,
                struct layout_writer *w, uint64_t *charged)
{
    bool asks = false, whole = true;
    if (flags & LAYOUT_CALL_REPLACE && replace(ops, count, computed_ns, ops[0].event.now_ns) &&
        flags & LAYOUT_CALL_WHOLE) {
        for (uint32_t i = 0; i < count && verb == WEIR_REMOTE_DECIDE && flags & LAYOUT_CALL_CHARGES; i++)
            charged[ops[i].key] += ops[i].units;
        return 'S';
    }
    for (uint32_t i = 0; i < count; i++) {
        enum found found = look(&ops[i]);
        if (found == FOUND_CORRUPT)
            return 'C';
        asks |= found == FOUND_CHANGED || is_outside(&ops[i]);
    }
    if (asks || verb == WEIR_REMOTE_ASK) {
        put_values(w, ops, count);
        return 'A';
    }
    uint32_t loaded = 0;
    while (loaded < count && (whole = load(&ops[loaded], ops[0].event.now_ns)))
        loaded++;
    if (whole)
        decide(ops, count, verb == WEIR_REMOTE_PEEK, w, charged);
    while (loaded > 0)
        weir_value_deinit(&ops[--loaded].value);
    return whole ? 'D' : 'C';
}

void weir_sim_script_run(struct weir_sim_script *script, const struct weir_sim_script_call *call,
                         struct weir_sim_script_reply *ret_reply)
{
    struct op ops[WEIR_SIM_SCRIPT_OPS];
    struct layout_reader r = { call->argument, call->argument + call->size, false };
    struct layout_writer w = { ret_reply->bytes, ret_reply->bytes + WEIR_SIM_SCRIPT_REPLY_MAX };
    unsigned verb = (unsigned)layout_get(&r, 1), flags = (unsigned)layout_get(&r, 1);
    uint64_t ops_count = layout_get(&r, 2), computed_ns = layout_get(&r, 8);
    memset(ret_reply->charged, 0, sizeof ret_reply->charged);
    memset(ops, 0, sizeof ops);
    weir_assert(call->count == ops_count && call->count > 0 && call->count <= WEIR_SIM_SCRIPT_OPS);
    weir_assert(verb <= WEIR_REMOTE_PEEK || verb == WEIR_REMOTE_ASK);
    for (uint32_t i = 0; i < call->count; i++) {
        ops[i].key = call->keys[i];
        ops[i].stored = &script->values[call->keys[i]];
        ops[i].careless = script->careless;
        if (ops[i].stored->until_ns <= call->now_ns)
            ops[i].stored->size = 0;
        read_op(&r, &ops[i], call->now_ns);
    }
    layout_put(&w, 1, 0);
    layout_put(&w, 8, call->now_ns);
    ret_reply->bytes[0] = (uint8_t)run(ops, call->count, verb, flags, computed_ns, &w, ret_reply->charged);
    ret_reply->size = (size_t)(w.at - ret_reply->bytes);
}

void weir_sim_script_judge(const struct weir_sim_script_call *call, const struct weir_sim_script_reply *reply,
                           struct weir_verdict ret_verdicts[WEIR_SIM_SCRIPT_OPS])
{
    struct layout_reader asked = { call->argument + LAYOUT_CALL, call->argument + call->size, false };
    struct layout_reader told = { reply->bytes + 9, reply->bytes + reply->size, false };
    for (uint32_t i = 0; i < call->count; i++) {
        struct op op = { 0 };
        struct weir_state state = { 0 };
        read_op(&asked, &op, call->now_ns);
        struct weir_limit *limit = &op.remote.limit;
        (void)layout_get(&told, 1);
        state.fresh_at = layout_get(&told, 8) & WEIR_TICKS_MASK;
        uint64_t second = layout_get(&told, 8);
        *(limit->algorithm == WEIR_SLIDING_COUNTER ? &state.previous : &state.window) = second;
        state.count = layout_get(&told, 8);
        limit->ahead_max += layout_get(&told, 8);
        memset(&ret_verdicts[i], 0, sizeof ret_verdicts[i]);
        if (limit->algorithm == WEIR_SLIDING_LOG)
            (void)layout_take(&told, 40);
        else
            weir_limit_judge(limit, &state, &op.event, &ret_verdicts[i]);
    }
}

/* A value as core reads and writes it: NULL, if it does not. */
static uint8_t *core_bytes(const struct weir_sim_script_value *value, uint64_t now_ns, uint64_t *ret_at_ns,
                           size_t *ret_size)
{
    struct weir_remote_limit remote = { 0 };
    struct weir_value read;
    uint8_t *bytes = NULL;
    uint64_t ttl_ms;
    if (value->size < LAYOUT_VALUE)
        return NULL;
    uint32_t revision = read_parameters(value->bytes, &remote);
    if (weir_value_read(&remote, revision, now_ns, value->bytes, value->size, &read) != 0)
        return NULL;
    int error = weir_value_write(&read, now_ns, &bytes, ret_size, &ttl_ms);
    weir_assert(error == 0);
    *ret_at_ns = read.at_ns;
    weir_value_deinit(&read);
    return bytes;
}

bool weir_sim_script_alike(const struct weir_sim_script_value *a, const struct weir_sim_script_value *b,
                           uint64_t now_ns)
{
    uint64_t a_at_ns = 0, b_at_ns = 0;
    size_t a_size = 0, b_size = 0;
    if (a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0)
        return true;
    uint8_t *a_bytes = core_bytes(a, now_ns, &a_at_ns, &a_size), *b_bytes = core_bytes(b, now_ns, &b_at_ns, &b_size);
    bool alike = a_bytes && b_bytes && a_size == b_size && memcmp(a_bytes, b_bytes, a_size) == 0 && a_at_ns == b_at_ns;
    free(a_bytes);
    free(b_bytes);
    return alike;
}

bool weir_sim_script_is_of(const struct weir_sim_script_value *value, const struct weir_limit_spec *spec)
{
    struct weir_remote_limit remote = { 0 };
    struct weir_limit limit;
    int error = weir_limit_init(&limit, spec, 0, NULL);
    weir_assert(error == 0 && value->size >= LAYOUT_VALUE);
    (void)read_parameters(value->bytes, &remote);
    return remote.limit.capacity == limit.capacity && remote.limit.emission == limit.emission;
}

uint64_t weir_sim_script_held(const struct weir_sim_script_value *value)
{
    struct layout_reader r = { value->bytes + LAYOUT_VALUE - 16, value->bytes + value->size, false };
    uint64_t held = 0;
    weir_assert(value->size >= LAYOUT_VALUE);
    uint64_t stints = layout_get(&r, 4);
    (void)layout_take(&r, 12);
    for (uint64_t i = 0; i < stints; i++) {
        (void)layout_take(&r, 3 * 8);
        held += layout_get(&r, 8);
        (void)layout_take(&r, 2 * 8);
    }
    weir_assert(!r.short_of_bytes);
    return held;
}

uint32_t weir_sim_script_revision(const struct weir_sim_script_value *value, uint64_t now_ns)
{
    struct layout_reader r = { value->bytes + LAYOUT_PARAMETERS - 8, value->bytes + LAYOUT_VALUE, false };
    uint64_t definition = layout_get(&r, 8), fresh_ns = layout_get(&r, 8);
    if (value->size < LAYOUT_VALUE || value->until_ns <= now_ns || fresh_ns <= now_ns)
        return 0;
    return value->bytes[7] == LAYOUT_REVISED ? (uint32_t)(definition >> 32) : WEIR_REVISION_FIRST;
}

struct weir_sim_script_note *weir_sim_script_note_of(struct weir_sim_script *script, const uint64_t id[2])
{
    struct weir_sim_script_note *note = script->notes, *end = note + WEIR_SIM_SCRIPT_NOTES;
    while (note < end && note->size > 0 && (note->id[0] != id[0] || note->id[1] != id[1]))
        note++;
    if (note == end)
        return NULL;
    note->id[0] = id[0];
    note->id[1] = id[1];
    return note;
}
