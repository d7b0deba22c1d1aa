/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the arguments of EVALSHA into one piece of memory: the keys, then ARGV[1] as in layout.h. If a call only
 * decides or peeks at plain buckets, it is marked, so that the short part of the script (plain.lua) may decide it.
 * Called by request.c and roll_back.c, and by the simulator. The reply is read in script_decode.c, the rare cases are
 * computed in script_core.c, and the script itself is in the .lua files. */
#include "limits/redis/script.h"

#include <stdlib.h>

#include "core/limit/ticks.h"
#include "limits/combine.h"
#include "limits/redis/script_core.h"
#include "limits/redis/value.h"

/* The request's verbs are the script's; this one is its own. */
#define VERB_GIVE_BACK 5

int weir_script_check(const struct weir_remote_request *request)
{
    if (request->count == 0 || request->count > WEIR_CHARGES_MAX)
        return WEIR_ERANGE;
    for (size_t i = 0; i < request->count; i++) {
        const struct weir_remote_op *op = &request->ops[i];
        if (op->units > WEIR_COST_MAX)
            return WEIR_ERANGE;
        for (size_t j = 0; j < i; j++) {
            const struct weir_remote_op *other = &request->ops[j];
            if (op->key.id[0] == other->key.id[0] && op->key.id[1] == other->key.id[1] &&
                strcmp(op->limit->name, other->limit->name) == 0)
                return WEIR_EDUP;
        }
    }
    return 0;
}

/* ---- keys ---- */

static char *put_hex(char *at, uint64_t value)
{
    for (int shift = 60; shift >= 0; shift -= 4)
        *at++ = "0123456789abcdef"[value >> shift & 15];
    return at;
}

static char *put_text(char *at, const char *text)
{
    size_t size = strlen(text);
    memcpy(at, text, size);
    return at + size;
}

/* PREFIX:{tag}:NAME:, then 128 bits. */
static size_t put_key(const char *prefix, uint64_t tag, const char *name, const uint64_t id[2], char *ret_key)
{
    weir_assert(strlen(prefix) <= WEIR_SCRIPT_PREFIX_MAX && strlen(name) <= WEIR_LIMIT_NAME_MAX);
    char *at = put_text(ret_key, prefix);
    at = put_text(at, ":{");
    at = put_hex(at, tag);
    at = put_text(at, "}:");
    at = put_text(at, name);
    at = put_text(at, ":");
    at = put_hex(put_hex(at, id[0]), id[1]);
    return (size_t)(at - ret_key);
}

size_t weir_script_key(const char *prefix, const struct weir_remote_op *op, char *ret_key)
{
    return put_key(prefix, op->key.tag, op->limit->name, op->key.id, ret_key);
}

/* ---- calls ---- */

void weir_script_call_init(struct weir_script_call *call, struct weir_remote_request *request, const char *prefix,
                           uint64_t now_ns)
{
    memset(call, 0, offsetof(struct weir_script_call, ops));
    call->request = request;
    call->prefix = prefix;
    call->now_ns = now_ns;
}

void weir_script_call_add(struct weir_script_call *call, size_t index)
{
    weir_assert(call->count < WEIR_CHARGES_MAX && index < call->request->count);
    uint32_t revision = call->request->ops[index].limit->revision;
    bool says = revision > 0 && revision != WEIR_REVISION_NONE;
    call->ops[call->count++] = (struct weir_script_op){
        .index = index,
        .revision = says ? revision : WEIR_REVISION_FIRST,
    };
}

void weir_script_call_deinit(struct weir_script_call *call)
{
    weir_script_core_forget(call);
    free(call->memory);
    call->memory = NULL;
    call->argc = 0;
}

static void put_op(struct layout_writer *w, const struct weir_script_call *call, const struct weir_script_op *mine,
                   bool off)
{
    const struct weir_remote_op *op = &call->request->ops[mine->index];
    const struct weir_limit *limit = &op->limit->limit;
    bool never = op->units > limit->capacity, replaces = mine->written != NULL;
    uint64_t ticks = weir_limit_is_bucket(limit)
                         ? weir_min_u64(weir_mul_sat(op->units, limit->emission), 2 * WEIR_TICKS_DEBT_MAX)
                         : 0;
    struct weir_calendar_window window = { 0 };
    if (limit->calendar) {
        uint64_t phase_ns = (uint64_t)((weir_u128)op->key.phase * op->limit->spec.spread_ns >> 64);
        window = weir_calendar_at(&op->limit->rule, phase_ns, call->now_ns);
    }
    weir_value_parameters(limit, op->limit->calendar_hash, mine->revision, w->at);
    w->at += LAYOUT_PARAMETERS;
    layout_put(w, 1,
               (op->limit->spec.mode == WEIR_MODE_SHADOW ? LAYOUT_OP_SHADOW : 0) |
                   (op->limit->spec.count_mode == WEIR_COUNT_ATTEMPTS ? LAYOUT_OP_ATTEMPTS : 0) |
                   (off ? LAYOUT_OP_OFF : 0) | (never ? LAYOUT_OP_NEVER : 0) | (replaces ? LAYOUT_OP_REPLACE : 0));
    layout_put(w, 1, (uint64_t)((int64_t)limit->shift + 64));
    layout_put(w, 2, 0);
    layout_put(w, 8, ticks);
    layout_put(w, 8, limit->span);
    layout_put(w, 8, op->units);
    layout_put(w, 8, weir_value_far_ns(limit));
    layout_put(w, 8, window.id);
    layout_put(w, 8, window.start_wall_ns);
    layout_put(w, 8, window.end_wall_ns);
    layout_put(w, 4, replaces ? mine->seen_size : 0);
    layout_put(w, 4, replaces ? mine->written_size : 0);
    layout_put(w, 8, mine->ttl_ms);
    if (replaces) {
        layout_put_bytes(w, mine->seen, mine->seen_size);
        layout_put_bytes(w, mine->written, mine->written_size);
    }
}

/* Whether the part of the script that decides most calls may try; it looks at the values for itself. */
static bool is_plain(const struct weir_script_call *call, unsigned verb)
{
    if (verb != WEIR_REMOTE_DECIDE && verb != WEIR_REMOTE_PEEK)
        return false;
    for (size_t i = 0; i < call->count; i++) {
        const struct weir_remote_limit *remote = weir_script_op_of(call, i)->limit;
        const struct weir_limit *limit = &remote->limit;
        if (!weir_limit_is_bucket(limit) || weir_script_is_off(call, i) ||
            remote->spec.count_mode == WEIR_COUNT_ATTEMPTS || limit->shift < 0 || limit->span > LAYOUT_PLAIN_SPAN_MAX)
            return false;
    }
    return true;
}

static void add_argument(struct weir_script_call *call, const char *bytes, size_t size)
{
    call->argv[call->argc] = bytes;
    call->sizes[call->argc++] = size;
}

/* EVALSHA sha1 n KEYS… ARGV[1], the bytes of all in one piece of memory. `kept` ops are left out of a give back. */
static int encode(struct weir_script_call *call, const char *sha1, unsigned verb, const bool *kept)
{
    bool identified = call->id[0] != 0 || call->id[1] != 0;
    size_t size = LAYOUT_CALL, keys = call->count + identified, keys_size = 4 + keys * WEIR_SCRIPT_KEY_MAX;
    bool replaces = false;
    for (size_t i = 0; i < call->count; i++) {
        replaces = replaces || call->ops[i].written;
        size += LAYOUT_OP + (call->ops[i].written ? call->ops[i].seen_size + call->ops[i].written_size : 0);
    }
    char *memory = malloc(keys_size + size), *at = memory;
    if (!memory)
        return WEIR_ENOMEM;
    free(call->memory);
    call->memory = memory;
    call->argc = 0;
    add_argument(call, "EVALSHA", 7);
    add_argument(call, sha1, 40);
    char *digits = at;
    if (keys >= 10)
        *at++ = (char)('0' + keys / 10);
    *at++ = (char)('0' + keys % 10);
    add_argument(call, digits, (size_t)(at - digits));
    uint64_t tag = call->request->ops[call->ops[0].index].key.tag;
    for (size_t i = 0; i < call->count; i++) {
        size_t length = weir_script_key(call->prefix, weir_script_op_of(call, i), at);
        add_argument(call, at, length);
        at += length;
    }
    if (identified) {
        size_t length = put_key(call->prefix, tag, "request", call->id, at);
        add_argument(call, at, length);
        at += length;
    }
    struct layout_writer w = { (uint8_t *)at, (uint8_t *)at + size };
    uint64_t test_ns = call->request->test_now_ns;
    layout_put(&w, 1, verb);
    layout_put(&w, 1,
               (identified ? LAYOUT_CALL_REQUEST : 0) | (test_ns > 0 ? LAYOUT_CALL_TEST : 0) |
                   (replaces ? LAYOUT_CALL_REPLACE : 0) | (replaces && call->whole ? LAYOUT_CALL_WHOLE : 0) |
                   (replaces && call->charges ? LAYOUT_CALL_CHARGES : 0) |
                   (!identified && !replaces && is_plain(call, verb) ? LAYOUT_CALL_PLAIN : 0));
    layout_put(&w, 2, call->count);
    layout_put(&w, 8, test_ns > 0 || !replaces ? test_ns : call->now_ns);
    for (size_t i = 0; i < call->count; i++)
        put_op(&w, call, &call->ops[i], weir_script_is_off(call, i) || (kept && kept[i]));
    weir_assert(w.at == w.end);
    add_argument(call, at, size);
    return 0;
}

int weir_script_call_encode(struct weir_script_call *call, const char *sha1)
{
    weir_assert(call->count > 0 && !call->gives_back);
    bool repeats = call->again && call->request->verb == WEIR_REMOTE_DECIDE;
    uint64_t id[2] = { call->id[0], call->id[1] };
    if (repeats || call->request->verb != WEIR_REMOTE_DECIDE)
        call->id[0] = call->id[1] = 0;
    int error = encode(call, sha1, repeats ? WEIR_REMOTE_PEEK : (unsigned)call->request->verb, NULL);
    memcpy(call->id, id, sizeof id);
    return error;
}

int weir_script_call_roll_back(struct weir_script_call *call, const char *sha1, bool never)
{
    bool kept[WEIR_CHARGES_MAX];
    weir_assert(call->id[0] != 0 || call->id[1] != 0);
    weir_script_core_forget(call);
    for (size_t i = 0; i < call->count; i++) {
        struct weir_remote_op *op = weir_script_op_of(call, i);
        kept[i] = op->limit->spec.count_mode == WEIR_COUNT_ATTEMPTS && !never;
        if (!kept[i] && call->answered)
            op->verdict = call->ops[i].judged;
    }
    int error = encode(call, sha1, VERB_GIVE_BACK, kept);
    call->gives_back = !error;
    return error;
}

bool weir_script_call_admits(const struct weir_script_call *call)
{
    bool never;
    return weir_script_all(call, &never);
}

uint64_t weir_script_clock_guess(const struct weir_script_clock *clock, uint64_t now_ns, uint64_t wall_ns)
{
    return clock->told_ns > 0 ? clock->told_ns + weir_sub_sat(now_ns, clock->at_ns) : wall_ns;
}

void weir_script_clock_hear(struct weir_script_clock *clock, const struct weir_script_call *call, uint64_t now_ns)
{
    if (call->heard_ns > 0)
        *clock = (struct weir_script_clock){ call->heard_ns, now_ns };
}

void weir_script_finish(struct weir_remote_request *request)
{
    struct weir_combining combining = weir_combine_begin(request->count);
    for (size_t i = 0; i < request->count; i++)
        weir_combine(&combining, i, &request->ops[i].verdict);
    request->decision = weir_combine_end(&combining);
}
